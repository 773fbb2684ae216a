//! "Gone" means gone: the group, processes that left it, and what an earlier daemon left.

use super::start::hold;
use super::*;

/// Ignores everything but SIGKILL, with a child that does the same.
const STUBBORN: &str = "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo $! > $1/child$HEARTH_INCARNATION
    echo $$ > $1/leader; while :; do sleep 1; done";

/// A process in its own session that ignores signals. It runs the given commands before it reports that it is ready.
fn escape(act: &str, then: &str) -> String {
    format!(
        r#"
import os, signal, sys, time, fcntl
def say(name, pid):
    with open(sys.argv[1] + "/" + name + ".new", "w") as file:
        file.write(str(pid) + "\n")
    os.rename(sys.argv[1] + "/" + name + ".new", sys.argv[1] + "/" + name)
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    {act}
    say("escaped", os.getpid())
    while os.path.exists(sys.argv[1]):
        time.sleep(1)
while not os.path.exists(sys.argv[1] + "/escaped"):
    time.sleep(0.01)
{then}
"#
    )
}

#[test]
fn the_end_of_the_daemon_is_the_end_of_the_pipe() {
    let world = World::sh("echo up > $1/up; read line <&3; exit 7");
    world.ensure(1, 1);
    world.line("up");
    // The script may be faster than the runtime's record of it.
    world.heard.running(se(1), 1);
    world.runtime.shared.table.close_life_pipes();
    assert_eq!(world.heard.gone(se(1), 1).0, Exit::Code(7));
}

#[test]
fn a_runner_is_asked_before_it_is_made_to_end() {
    let world = World::with("sh", "echo up > $1/up; read line <&3; sleep 0.3; exit 5", |setup| {
        setup.grace = DEADLINE;
    });
    world.ensure(1, 1);
    world.line("up");
    world.kill(1, 1);
    world.kill(1, 1);
    assert_eq!(world.heard.gone(se(1), 1).0, Exit::Code(5));
    assert_eq!(world.heard.count_gone(), 1);
}

#[test]
fn a_deaf_runner_is_ended_with_its_children() {
    let world = World::sh(STUBBORN);
    world.ensure(1, 1);
    let (leader, child) = (world.pid("leader"), world.pid("child1"));
    world.kill(1, 1);
    assert_eq!(world.heard.gone(se(1), 1).0, Exit::Signal(9));
    assert!(!lives(leader) && !lives(child));
}

#[test]
fn what_a_runner_leaves_in_its_group_ends_with_it() {
    let world = World::sh("(trap '' TERM; exec 3<&- 4>&-; while :; do sleep 1; done) & echo $! > $1/child; exit 4");
    world.ensure(1, 1);
    assert_eq!(world.heard.gone(se(1), 1).0, Exit::Code(4));
    assert!(!lives(world.pid("child")));
}

#[test]
fn who_escaped_the_group_is_ended_before_the_end_is_told() {
    for act in ["pass", "try: fcntl.flock(4, fcntl.LOCK_UN)\n    except OSError: pass", "os.dup2(4, 99); os.close(4)"] {
        let world = World::python(&escape(act, "sys.exit(3)"));
        world.ensure(1, 1);
        assert_eq!(world.heard.gone(se(1), 1).0, Exit::Code(3), "{act}");
        assert!(!lives(world.pid("escaped")), "{act}");
    }
}

#[test]
fn who_deleted_the_lock_is_found_nevertheless() {
    let act = r#"os.unlink(os.readlink("/proc/self/fd/4"))"#;
    let world = World::python(&escape(act, "sys.exit(3)"));
    world.ensure(1, 1);
    assert_eq!(world.heard.gone(se(1), 1).0, Exit::Code(3));
    assert!(!lives(world.pid("escaped")));
}

/// A descriptor in flight between two ends of a socket belongs to no process that could be found.
#[test]
fn a_descriptor_in_flight_keeps_no_session_from_starting() {
    let act = r#"
    import array, socket
    one, other = socket.socketpair()
    one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [4]))])
    os.close(4)"#;
    let world = World::python(&escape(act, "sys.exit(3)"));
    world.ensure(1, 1);
    assert_eq!(world.heard.gone(se(1), 1).0, Exit::Code(3));
    let stray = rustix::process::Pid::from_raw(world.pid("escaped")).unwrap();
    let heard = RecordedEvents::default();
    let next = ProcessRuntime::start(setup(world.directory.path(), "sh", "exit 0"), heard.listener()).unwrap();
    next.ensure(world.spec(1, 2));
    assert_eq!(heard.gone(se(1), 2).0, Exit::Code(0));
    rustix::process::kill_process(stray, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_stray_with_standard_error_is_not_waited_for() {
    let world = World::python(&escape("os.close(4)", r#"print("last", file=sys.stderr)"#));
    world.ensure(1, 1);
    assert_eq!(world.heard.gone(se(1), 1), (Exit::Code(0), "last\n".to_owned()));
    let stray = rustix::process::Pid::from_raw(world.pid("escaped")).unwrap();
    rustix::process::kill_process(stray, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn the_next_daemon_ends_what_the_last_one_left() {
    // The process that left the group has a child in its own group that holds nothing.
    let act = r#"
    if os.fork() == 0:
        os.close(4)
        say("bare", os.getpid())
        time.sleep(60)
    while not os.path.exists(sys.argv[1] + "/bare"):
        time.sleep(0.01)"#;
    let world = World::python(&escape(act, "time.sleep(60)"));
    world.ensure(1, 1);
    let (escaped, bare) = (world.pid("escaped"), world.pid("bare"));
    let heard = RecordedEvents::default();
    let next = ProcessRuntime::start(setup(world.directory.path(), "sh", "exit 0"), heard.listener()).unwrap();
    assert!(!lives(escaped));
    wait_until("the escaped one's child is gone", || !lives(bare));
    assert_eq!(world.heard.gone(se(1), 1).0, Exit::Signal(9));
    next.inquire(SessionId::new(1), 1);
    assert_eq!(heard.gone(se(1), 1).0, Exit::Unknown);
    let mut spec = world.spec(1, 2);
    spec.settings = settings();
    next.ensure(spec);
    assert_eq!(heard.gone(se(1), 2).0, Exit::Code(0));
}

#[test]
fn a_start_ends_what_holds_the_lock() {
    let world = World::sh("read line <&3");
    let heard = RecordedEvents::default();
    let other = ProcessRuntime::start(setup(world.directory.path(), "sh", "exit 0"), heard.listener()).unwrap();
    world.ensure(1, 1);
    world.heard.running(se(1), 1);
    other.ensure(world.spec(1, 2));
    assert_eq!(heard.gone(se(1), 2).0, Exit::Code(0));
    assert_eq!(world.heard.gone(se(1), 1).0, Exit::Signal(9));
}

#[test]
fn what_nobody_knows_is_gone() {
    let world = World::sh("");
    world.inquire(1, 1);
    world.kill(2, 5);
    assert_eq!(world.heard.gone(se(1), 1), (Exit::Unknown, String::new()));
    assert_eq!(world.heard.gone(se(2), 5), (Exit::Unknown, String::new()));
}

#[test]
fn an_older_incarnation_of_a_running_session_is_gone() {
    let world = World::sh("read line <&3");
    world.ensure(1, 2);
    world.heard.running(se(1), 2);
    world.inquire(1, 1);
    assert_eq!(world.heard.gone(se(1), 1).0, Exit::Unknown);
    world.inquire(1, 2);
    world.kill(1, 2);
    world.heard.gone(se(1), 2);
}

#[test]
fn nothing_is_told_while_the_lock_is_held() {
    let world = World::sh("exit 0");
    let lock = hold(&world.lock(1));
    world.inquire(1, 1);
    world.kill(1, 1);
    world.inquire(2, 1);
    world.heard.gone(se(2), 1);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(world.heard.count_gone(), 1);
    drop(lock);
    assert_eq!(world.heard.gone(se(1), 1).0, Exit::Unknown);
}

#[test]
fn after_a_shut_down_all_ends_are_told() {
    let world = World::sh(STUBBORN);
    for session in 1..=4 {
        world.ensure(session, u32::try_from(session).unwrap());
    }
    let children: Vec<i32> = (1..=4).map(|session| world.pid(&format!("child{session}"))).collect();
    world.runtime.shut_down();
    assert_eq!(world.heard.count_gone(), 4);
    assert!(!children.iter().any(|child| lives(*child)));
    world.ensure(9, 1);
    assert_eq!(world.heard.refused(se(9), 1), "hearth is stopping");
}

#[test]
fn a_dropped_runtime_takes_its_agents_along() {
    let World { directory, heard, runtime } = World::sh(STUBBORN);
    let world = World { directory, heard, runtime };
    world.ensure(1, 1);
    let child = world.pid("child1");
    let heard = world.heard.clone();
    let World { directory, runtime, .. } = world;
    drop(runtime);
    assert_eq!(heard.gone(se(1), 1).0, Exit::Signal(9));
    assert!(!lives(child));
    drop(directory);
}
