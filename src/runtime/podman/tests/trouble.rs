//! Failures: images, mounts, and Podman itself.

use super::*;
use crate::model::entity::Access;
use crate::model::mount::Mount;

#[test]
fn a_missing_image_is_said_with_what_to_do() {
    let Some(world) = World::new("") else { return };
    let mut spec = world.spec(ONE, 1);
    spec.image = Some("localhost/hearth-test:none".to_owned());
    world.runtime.ensure(spec);
    assert_eq!(world.heard.refused(ONE, 1), "there is no image localhost/hearth-test:none: run `hearth image build`");
    assert!(world.containers().is_empty());
}

#[test]
fn an_image_without_the_runner_is_said_to_be_one() {
    let Some(world) = World::new("") else { return };
    let mut spec = world.spec(ONE, 1);
    spec.image = Some("localhost/hearth-test:broken".to_owned());
    world.runtime.ensure(spec);
    assert!(world.heard.refused(ONE, 1).contains("no working program at /usr/local/bin/hearth-runner"));
    assert!(world.containers().is_empty());
}

#[test]
fn a_runner_that_ends_at_once_is_gone_with_its_code() {
    let Some(world) = World::new("exit 0") else { return };
    assert_eq!(world.run(|_| {}).0, Exit::Code(0));
    assert_eq!(world.heard.count_gone(), 1);
}

#[test]
fn what_was_exchanged_for_a_link_is_not_shown() {
    let Some(world) = World::new("sleep 1000") else { return };
    let extra = world.path("extra");
    std::os::unix::fs::symlink("/etc", &extra).unwrap();
    let target = PathBuf::from("/workspace/extra/x");
    let mut spec = world.spec(ONE, 1);
    spec.mounts = vec![Mount { source: extra, target: target.clone(), access: Access::ReadWrite }];
    world.runtime.ensure(spec);
    assert!(world.heard.refused(ONE, 1).contains("is /etc now"));
    let mut spec = world.spec(ONE, 2);
    spec.mounts = vec![Mount { source: world.path("none"), target, access: Access::ReadOnly }];
    world.runtime.ensure(spec);
    assert!(world.heard.refused(ONE, 2).contains("No such file"));
    std::fs::remove_dir(world.path("session/agent")).unwrap();
    std::os::unix::fs::symlink("/etc", world.path("session/agent")).unwrap();
    world.ensure(ONE, 3);
    assert!(world.heard.refused(ONE, 3).contains("session/agent"));
    assert!(world.containers().is_empty());
}

#[test]
fn a_bomb_of_processes_is_held() {
    // Written to a file, because Podman may report the exit before the log has a container's last output.
    let script = "exec 2> /workspace/session/agent/said; i=0; while [ $i -lt 200 ]; do sleep 30 & i=$((i+1)); done; \
                  echo all > /workspace/session/agent/out";
    let Some(world) = World::new(script) else { return };
    if !super::super::probe(&lookup()).unwrap().unlimited.is_empty() {
        eprintln!("SKIPPED: Podman cannot limit processes here");
        return;
    }
    let (exit, text) = world.run(|spec| spec.settings.limits.pids = Some(50));
    assert_ne!(exit, Exit::Code(0), "{text}");
    let said = std::fs::read_to_string(world.path("session/agent/said")).unwrap();
    assert!(said.contains("fork"), "{exit:?} {said}");
    assert!(!world.path("session/agent/out").exists(), "{said}");
}

#[test]
fn without_podman_it_is_said_where_it_was_looked_for() {
    let lookup: Lookup = Arc::new(|name| (name == "CONTAINER_HOST").then(|| "unix:///nonexistent/podman.sock".into()));
    let error = super::super::probe(&lookup).unwrap_err().to_string();
    assert!(error.contains("does not answer at /nonexistent/podman.sock"), "{error}");
}

#[test]
fn while_podman_is_away_nothing_wrong_is_told() {
    let Some(world) = World::alone("while [ ! -e /workspace/session/agent/go ]; do sleep 0.1; done; exit 6") else {
        return;
    };
    let (two, three) = (SessionId::new(2), SessionId::new(3));
    for session in [ONE, two] {
        world.ensure(session, 1);
        world.heard.running(session, 1);
    }
    service("stop");
    world.runtime.inquire(ONE, 1);
    world.runtime.kill(two, 1);
    world.ensure(three, 1);
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(world.heard.count_gone(), 0);
    service("start");
    world.heard.gone(two, 1);
    world.heard.running(three, 1);
    let running = |event: &RuntimeEvent| *event == RuntimeEvent::Running(ONE, 1);
    wait_until("the inquiry", || world.heard.count(running) == 2);
    assert_eq!(world.heard.count_gone(), 1);
    // Exits that happen while the service is down are noticed, too.
    service("stop");
    std::fs::write(world.path("session/agent/go"), "").unwrap();
    std::thread::sleep(Duration::from_secs(1));
    service("start");
    assert_eq!(world.heard.gone(ONE, 1).0, Exit::Code(6));
    assert_eq!(world.heard.gone(three, 1).0, Exit::Code(6));
}

/// The service dies while containers are being started.
#[test]
fn a_start_that_got_no_answer_is_found_out() {
    let Some(world) = World::alone("echo x >> /workspace/session/agent/starts; sleep 1000") else { return };
    for incarnation in 1..=8_u32 {
        world.ensure(ONE, incarnation);
        std::thread::sleep(Duration::from_millis(u64::from(incarnation) * 18));
        service("stop");
        service("start");
        let told = |event: &RuntimeEvent| match event {
            RuntimeEvent::Running(session, number) => (*session == ONE && *number == incarnation).then_some(true),
            RuntimeEvent::Gone { incarnation: number, .. } => (*number == incarnation).then_some(false),
            RuntimeEvent::Outdated(..) => None,
        };
        let runs = world.heard.wait("either", told);
        let alive = podman(&["ps", "-q", "--filter", &format!("label=hearth.install={}", world.install)]);
        assert_eq!(!alive.is_empty(), runs, "incarnation {incarnation}");
        world.runtime.kill(ONE, incarnation);
        world.heard.gone(ONE, incarnation);
        wait_until("nothing runs", || {
            podman(&["ps", "-q", "--filter", &format!("label=hearth.install={}", world.install)]).is_empty()
        });
    }
}
