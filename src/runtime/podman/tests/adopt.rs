//! Containers that another daemon or another program started.

use super::*;
use crate::model::incarnation::IncarnationId;

#[test]
fn the_next_daemon_adopts_what_runs_without_its_secrets() {
    let script = "while [ ! -e /workspace/session/agent/go ]; do sleep 0.1; done; echo ${#KEY} >&2; exit 4";
    let Some(mut world) = World::new(script) else { return };
    let mut spec = world.spec(ONE, 1);
    spec.settings.env = vec![reference("KEY", "env:TOKEN")];
    world.runtime.ensure(spec);
    world.heard.running(ONE, 1);
    let heard = RecordedEvents::default();
    world.runtime = start(&world.install, &heard, world.directory.path());
    assert_eq!(world.containers().len(), 1);
    world.runtime.reconcile(&|| vec![IncarnationId::new(ONE, 1)]);
    world.runtime.inquire(ONE, 1);
    heard.running(ONE, 1);
    std::fs::write(world.path("session/agent/go"), "").unwrap();
    assert_eq!(heard.gone(ONE, 1), (Exit::Code(4), "19\n".to_owned()));
    assert!(world.containers().is_empty());
}

#[test]
fn an_end_between_two_daemons_is_told_with_its_code() {
    let Some(mut world) = World::new("while [ ! -e /workspace/session/agent/go ]; do sleep 0.1; done; exit 9") else {
        return;
    };
    world.ensure(ONE, 1);
    world.heard.running(ONE, 1);
    let heard = RecordedEvents::default();
    let old =
        std::mem::replace(&mut world.runtime, start("nobody", &RecordedEvents::default(), world.directory.path()));
    drop(old);
    std::fs::write(world.path("session/agent/go"), "").unwrap();
    wait_until("its end", || world.inspect(ONE, "{{.State.Status}}") == "exited");
    world.runtime = start(&world.install, &heard, world.directory.path());
    // Starting it again would run it twice.
    world.ensure(ONE, 1);
    assert_eq!(heard.gone(ONE, 1).0, Exit::Code(9));
    assert!(world.containers().is_empty());
}

#[test]
fn what_is_not_what_was_asked_for_is_ended() {
    let Some(world) = World::new("sleep 1000") else { return };
    let labels = [("hearth.session", "se1"), ("hearth.incarnation", "1"), ("hearth.spec", "0000000000000000")];
    world.foreign(&world.name(ONE), &world.install, &labels);
    world.runtime.inquire(ONE, 2);
    assert_eq!(world.heard.gone(ONE, 2).0, Exit::Unknown);
    assert!(world.containers().is_empty());
    // The same name with another incarnation number, and a container with meaningless labels.
    world.foreign(&world.name(ONE), &world.install, &labels);
    world.ensure(ONE, 3);
    world.heard.running(ONE, 3);
    assert_eq!(world.inspect(ONE, "{{index .Config.Labels \"hearth.incarnation\"}}"), "3");
    assert_eq!(world.containers(), [world.name(ONE)]);
}

#[test]
fn reconciling_ends_what_is_not_live_and_nothing_of_others() {
    let Some(world) = World::new("sleep 1000") else { return };
    world.ensure(ONE, 1);
    world.heard.running(ONE, 1);
    let other = format!("{}other", world.install);
    let orphan = format!("{}-orphan", world.install);
    world.foreign(&other, &other, &[("hearth.session", "se1"), ("hearth.incarnation", "1")]);
    world.foreign(&orphan, &world.install, &[("hearth.session", "se9"), ("hearth.incarnation", "1")]);
    world.foreign(&format!("{orphan}2"), &world.install, &[]);
    let late = SessionId::new(2);
    world.runtime.reconcile(&|| {
        // It did not exist yet when the running containers were listed.
        world.ensure(late, 1);
        world.heard.running(late, 1);
        vec![IncarnationId::new(ONE, 1)]
    });
    let mut left = world.containers();
    left.sort();
    assert_eq!(left, [world.name(ONE), world.name(late)]);
    world.runtime.shut_down();
    assert_eq!(podman(&["inspect", "--format", "{{.State.Running}}", &other]), "true");
    podman(&["rm", "-f", "-t", "0", &other]);
}
