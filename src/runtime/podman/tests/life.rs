//! Starting and ending containers, and the events about it.

use super::*;

#[test]
fn an_incarnation_runs_and_its_end_is_told_with_its_code() {
    let Some(world) = World::new("echo here > /workspace/session/agent/out; sleep 0.3; echo bye >&2; exit 7") else {
        return;
    };
    assert!(world.runtime.about().starts_with("podman "), "{}", world.runtime.about());
    world.ensure(ONE, 1);
    world.heard.running(ONE, 1);
    assert_eq!(world.heard.gone(ONE, 1), (Exit::Code(7), "bye\n".to_owned()));
    assert!(world.containers().is_empty());
    // Late calls start nothing again.
    world.heard.clear();
    world.ensure(ONE, 1);
    assert!(world.heard.refused(ONE, 1).contains("never starts again"));
    assert!(world.containers().is_empty());
}

#[test]
fn a_second_ensure_starts_nothing_more() {
    let Some(world) = World::new("echo x >> /workspace/session/agent/starts; sleep 1000") else { return };
    for _ in 0..3 {
        world.ensure(ONE, 1);
    }
    let running = |event: &RuntimeEvent| matches!(event, RuntimeEvent::Running(..));
    wait_until("three answers", || world.heard.count(running) == 3);
    assert_eq!(world.containers(), [world.name(ONE)]);
    world.line("starts");
    assert_eq!(std::fs::read_to_string(world.path("session/agent/starts")).unwrap(), "x\n");
    world.runtime.kill(ONE, 1);
    let (exit, _) = world.heard.gone(ONE, 1);
    assert!(matches!(exit, Exit::Signal(15) | Exit::Signal(9)), "{exit:?}");
    assert!(world.containers().is_empty());
}

#[test]
fn who_ignores_being_asked_is_ended_after_two_seconds() {
    let script = "trap '' TERM; echo x > /workspace/session/agent/ready; while :; do sleep 0.1; done";
    let Some(world) = World::new(script) else { return };
    world.ensure(ONE, 1);
    world.line("ready");
    let since = std::time::Instant::now();
    world.runtime.kill(ONE, 1);
    assert_eq!(world.heard.gone(ONE, 1).0, Exit::Signal(9));
    assert!(since.elapsed().as_millis() >= 1_500, "it had its two seconds");
}

#[test]
fn who_is_asked_may_end_by_itself() {
    let script =
        "trap 'echo done >&2; exit 3' TERM; echo x > /workspace/session/agent/ready; while :; do sleep 0.05; done";
    let Some(world) = World::new(script) else { return };
    world.ensure(ONE, 1);
    world.line("ready");
    world.runtime.kill(ONE, 1);
    assert_eq!(world.heard.gone(ONE, 1), (Exit::Code(3), "done\n".to_owned()));
}

#[test]
fn a_kill_during_the_start_wins() {
    let Some(world) = World::new("sleep 1000") else { return };
    let mut spec = world.spec(ONE, 1);
    spec.settings.env = vec![reference("SLOW", "cmd:sleep 1; echo value-of-slow")];
    world.runtime.ensure(spec);
    world.runtime.kill(ONE, 1);
    assert!(world.heard.refused(ONE, 1).contains("stopped"));
    assert!(world.containers().is_empty());
}

#[test]
fn the_tail_is_the_end_and_has_no_secrets() {
    let script =
        "i=0; while [ $i -lt 3000 ]; do echo \"line $i ........................................\" >&2; i=$((i+1)); done
        echo \"mine is $KEY and plain is $PLAIN\" >&2; echo never >&1";
    let Some(world) = World::new(script) else { return };
    let plain = ("PLAIN".to_owned(), EnvValue::Plain("plain-text".to_owned()));
    let (exit, tail) = world.run(|spec| spec.settings.env = vec![reference("KEY", "env:TOKEN"), plain]);
    assert_eq!(exit, Exit::Code(0));
    assert!(tail.ends_with("mine is [secret] and plain is plain-text\n"), "{}", &tail[tail.len() - 200..]);
    assert!(
        tail.len() <= 64 * 1024 && tail.contains("line 2999") && !tail.contains("line 0 ") && !tail.contains("never")
    );
}

#[test]
fn everything_ends_when_the_daemon_stops() {
    let Some(world) = World::new("trap '' TERM; while :; do sleep 0.1; done") else { return };
    let sessions = [1, 2, 3, 4].map(SessionId::new);
    for session in sessions {
        world.ensure(session, 1);
        world.heard.running(session, 1);
    }
    world.runtime.shut_down();
    assert_eq!(world.heard.count_gone(), 4);
    assert!(world.containers().is_empty());
    world.ensure(ONE, 2);
    assert!(world.heard.refused(ONE, 2).contains("hearth is stopping"));
}

/// Podman does not stop a paused container.
#[test]
fn what_was_paused_ends_all_the_same() {
    let Some(world) = World::new("sleep 1000") else { return };
    for (incarnation, end) in [(1, Ending::Killed), (2, Ending::WithTheDaemon)] {
        world.ensure(ONE, incarnation);
        world.heard.running(ONE, incarnation);
        podman(&["pause", &world.name(ONE)]);
        assert_eq!(world.inspect(ONE, "{{.State.Status}}"), "paused");
        match end {
            Ending::Killed => world.runtime.kill(ONE, incarnation),
            Ending::WithTheDaemon => world.runtime.shut_down(),
        }
        world.heard.gone(ONE, incarnation);
        assert!(world.containers().is_empty());
    }
}

enum Ending {
    Killed,
    WithTheDaemon,
}

/// However long Podman takes for each container: those left after the time for a graceful shutdown are killed.
#[test]
fn nothing_is_left_running_by_a_daemon_that_has_no_time() {
    let Some(world) = World::new("trap '' TERM; while :; do sleep 0.1; done") else { return };
    for session in [1, 2].map(SessionId::new) {
        world.ensure(session, 1);
        world.heard.running(session, 1);
    }
    world.runtime.force();
    assert!(world.containers().is_empty());
    world.runtime.shut_down();
    assert_eq!(world.heard.count_gone(), 2);
}
