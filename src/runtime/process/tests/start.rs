//! Starting: once, in the right directory, or not at all and with a reason.

use super::*;

const WAIT_FOR_THE_END: &str = "echo $$ >> $1/pids; read line <&3; exit 7";

#[test]
fn the_default_runner_is_a_hidden_command_of_the_program_itself() {
    let lookup: Lookup = Arc::new(|_| None);
    let setup = Setup::new("/bin/hearth".into(), "/bin".into(), "/locks".into(), lookup);
    assert_eq!(setup.arguments, ["agent"]);
    assert_eq!((setup.grace, setup.patience), (Duration::from_secs(12), Duration::from_secs(10)));
}

#[test]
fn missing_directories_are_made_for_the_user_alone() {
    let world = World::sh("pwd");
    world.ensure(1, 1);
    assert_eq!(world.heard.gone(se(1), 1), (Exit::Code(0), String::new()));
    for name in ["groups/main", "home", "run/locks"] {
        assert_eq!(mode(&world.path(name)), 0o700, "{name}");
    }
    assert_eq!(mode(&world.lock(1)), 0o600);
}

#[test]
fn the_working_directory_is_the_groups() {
    let world = World::sh("pwd -P > $1/pwd; echo done > $1/done");
    world.ensure(1, 1);
    world.line("done");
    assert_eq!(PathBuf::from(world.line("pwd")), world.path("groups/main").canonicalize().unwrap());
}

#[test]
fn running_is_said_before_gone() {
    let world = World::sh("exit 3");
    for session in 1..=20 {
        world.ensure(session, 1);
    }
    for session in 1..=20 {
        assert_eq!(world.heard.gone(se(session), 1).0, Exit::Code(3));
        let id = SessionId::new(session);
        let of_session: Vec<_> = world
            .heard
            .all()
            .into_iter()
            .filter_map(|event| match event {
                RuntimeEvent::Running(session, _) => (session == id).then_some("running"),
                RuntimeEvent::Gone { session, .. } => (session == id).then_some("gone"),
                RuntimeEvent::Outdated(..) => None,
            })
            .collect();
        assert_eq!(of_session, ["running", "gone"]);
    }
}

#[test]
fn asking_twenty_times_at_once_starts_one_process() {
    let world = World::sh(WAIT_FOR_THE_END);
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| world.ensure(1, 1));
        }
    });
    world.heard.running(se(1), 1);
    world.line("pids");
    world.ensure(1, 1);
    world.inquire(1, 1);
    let running = || world.heard.all().iter().filter(|event| matches!(event, RuntimeEvent::Running(..))).count();
    wait_until("both are answered", || running() >= 3);
    world.kill(1, 1);
    world.heard.gone(se(1), 1);
    assert_eq!(world.line("pids").lines().count(), 1);
    assert_eq!(world.heard.count_gone(), 1);
}

#[test]
fn the_next_incarnation_waits_for_the_end_of_the_one_before() {
    let world = World::sh(WAIT_FOR_THE_END);
    world.ensure(1, 1);
    world.heard.running(se(1), 1);
    world.ensure(1, 2);
    assert_eq!(world.heard.refused(se(1), 2), "run 1 of se1 is still there");
    world.inquire(1, 1);
    world.kill(1, 1);
    world.heard.gone(se(1), 1);
    world.ensure(1, 3);
    world.heard.running(se(1), 3);
    assert_eq!(world.heard.count_gone(), 2);
}

#[test]
fn what_is_gone_never_starts_again() {
    let world = World::sh("echo $$ >> $1/pids");
    world.ensure(1, 4);
    assert_eq!(world.heard.gone(se(1), 4).0, Exit::Code(0));
    world.ensure(1, 4);
    world.ensure(1, 3);
    assert!(world.heard.refused(se(1), 3).contains("never starts again"));
    assert_eq!(world.heard.count_gone(), 3);
    assert_eq!(world.line("pids").lines().count(), 1);
}

#[test]
fn a_missing_program_is_told() {
    let world = World::with("/nonexistent/hearth", "", |_| {});
    world.ensure(1, 1);
    let reason = world.heard.refused(se(1), 1);
    assert!(reason.starts_with("cannot start /nonexistent/hearth: No such file"), "{reason}");
    assert_eq!(world.heard.all().len(), 1);
}

#[test]
fn a_directory_that_cannot_be_made_is_told() {
    let world = World::sh("");
    std::fs::write(world.path("groups"), "a file").unwrap();
    world.ensure(1, 1);
    let reason = world.heard.refused(se(1), 1);
    assert!(reason.starts_with("cannot create the directory"), "{reason}");
}

#[test]
fn real_providers_need_the_operators_word() {
    let world = World::sh("exit 0");
    for (incarnation, provider) in [(1, ProviderKind::Claude), (2, ProviderKind::Command)] {
        let mut spec = world.spec(1, incarnation);
        (spec.settings.provider, spec.provider) = (provider, provider);
        world.runtime.ensure(spec);
    }
    let reason = world.heard.refused(se(1), 1);
    assert!(reason.starts_with("agent main: provider `claude` needs `unconfined = true` in hearth.toml"), "{reason}");
    assert!(reason.ends_with("because nothing confines here"), "{reason}");
    assert!(world.heard.refused(se(1), 2).contains("`command`"));
    let mut spec = world.spec(1, 3);
    (spec.settings.provider, spec.provider) = (ProviderKind::Claude, ProviderKind::Claude);
    spec.settings.unconfined = true;
    world.runtime.ensure(spec);
    assert_eq!(world.heard.gone(se(1), 3).0, Exit::Code(0));
}

/// Not even a provider that does nothing on its own is started: it would be root.
#[test]
fn root_starts_no_agent_without_a_view() {
    let why = "root runs hearth; use Podman, run hearth as an ordinary user, or set `unconfined = true`".to_owned();
    let sandbox = crate::runtime::process::Sandbox::Missing { why, mend: String::new(), root: true };
    let world = World::with("sh", "exit 0", |setup| setup.sandbox = Arc::new(sandbox.into()));
    world.ensure(1, 1);
    let reason = world.heard.refused(se(1), 1);
    assert!(reason.contains("use Podman, run hearth as an ordinary user, or set `unconfined = true`"), "{reason}");
    let mut spec = world.spec(1, 2);
    spec.settings.unconfined = true;
    world.runtime.ensure(spec);
    assert_eq!(world.heard.gone(se(1), 2).0, Exit::Code(0));
}

#[test]
fn a_lock_that_stays_held_prevents_the_start() {
    let world = World::with("sh", "exit 0", |setup| setup.patience = Duration::from_secs(1));
    let lock = hold(&world.lock(1));
    world.ensure(1, 1);
    assert_eq!(world.heard.refused(se(1), 1), "processes of an earlier run of se1 are still running");
    drop(lock);
    world.ensure(1, 2);
    assert_eq!(world.heard.gone(se(1), 2).0, Exit::Code(0));
}

#[test]
fn an_end_that_comes_during_the_start_wins() {
    let world = World::sh("echo ran > $1/ran");
    let mut spec = world.spec(1, 1);
    spec.settings.env = vec![reference("TOKEN", "cmd:sleep 1000")];
    world.runtime.ensure(spec);
    world.kill(1, 1);
    let reason = world.heard.refused(se(1), 1);
    assert!(reason.contains("stopped"), "{reason}");
    assert!(!world.path("ran").exists());
}

/// Holds the file as a process that cannot be killed would.
pub(super) fn hold(path: &Path) -> std::fs::File {
    let file = std::fs::File::create(path).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    file
}

/// Secrets of MCP servers are in the environment under names of their own. A server that lacks one does not keep the
/// agent from starting.
#[test]
fn servers_find_their_secrets_and_an_agent_starts_without_them() {
    let world = World::sh("echo $HEARTH_MCP_my__files_KEY $HEARTH_MCP_my__files_LOST > $1/env; exit 3");
    let mut spec = world.spec(1, 1);
    let env = vec![reference("KEY", "cmd:echo sesame"), reference("LOST", "file:/nonexistent/secret")];
    let (name, command) = ("my-files".to_owned(), "mcp-files".to_owned());
    spec.settings.mcp_servers = vec![crate::model::entity::McpServer { name, command, args: Vec::new(), env }];
    world.runtime.ensure(spec);
    assert_eq!(world.heard.gone(se(1), 1).0, Exit::Code(3));
    assert_eq!(world.line("env"), "sesame");
}
