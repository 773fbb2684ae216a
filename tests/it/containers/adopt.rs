//! Daemons that find running containers: they adopt their own, replace changed ones, and leave others alone.

use super::setup::Setup;

const ECHO: &str = "provider = \"echo\"";

#[test]
fn two_daemons_side_by_side_leave_each_other_alone() {
    let (Some(mut one), Some(mut other)) = (Setup::new(ECHO), Setup::new(ECHO)) else { return };
    for setup in [&mut one, &mut other] {
        setup.host.start();
        setup.types(1, "hello");
        setup.wait_shown("echo: hello");
    }
    let (first, second) = (one.container(), other.container());
    let refused = one.host.run(&["run", "--runtime", "podman"], b"");
    assert!(refused.code == Some(1) && refused.stderr.contains("running"), "{refused:?}");
    one.host.kill();
    one.host.start();
    one.types(2, "again");
    one.wait_shown("echo: again");
    assert_eq!((one.container(), other.container()), (first, second.clone()), "both go on");
    one.stop();
    assert_eq!(other.container(), second);
    other.types(2, "still there?");
    other.wait_shown("echo: still there?");
    for setup in [&one, &other] {
        setup.settle();
    }
}

#[test]
fn what_was_changed_while_the_daemon_was_dead_is_replaced() {
    let Some(mut setup) = Setup::new(ECHO) else { return };
    setup.host.start();
    setup.types(1, "hello");
    setup.wait_shown("echo: hello");
    setup.settle();
    let before = setup.container();
    setup.host.kill();
    setup.host.done(&["agents", "set", "main", "--env", "MOOD=good"], b"");
    setup.host.start();
    setup.types(2, "again");
    assert_eq!(setup.wait_shown("echo: again"), ["echo: hello", "echo: again"]);
    setup.settle();
    assert_ne!(setup.container(), before);
}

/// Podman disappears during each of the daemon's calls, and while an agent is about to start, to work or to stop.
#[test]
fn podman_that_comes_and_goes() {
    let Some(mut setup) = Setup::new(ECHO) else { return };
    setup.host.start();
    for number in 1..=6_u8 {
        setup.types(i64::from(number), &format!("number {number}"));
        std::thread::sleep(std::time::Duration::from_millis(u64::from(number) * 60));
        setup.proxy.close();
        std::thread::sleep(std::time::Duration::from_millis(600));
        setup.proxy.reopen();
        setup.wait_shown(&format!("echo: number {number}"));
        setup.host.done(&["agents", "restart", "main"], b"");
    }
    let expected: Vec<String> = (1..=6).map(|number| format!("echo: number {number}")).collect();
    assert_eq!(setup.shown(), expected);
    setup.settle();
    setup.stop();
}
