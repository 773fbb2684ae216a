//! How an agent gets its secrets, and that Podman stores none of them.

use super::*;
use crate::model::gateway::{Api, GatewayAddress, ModelAccess};
use crate::model::incarnation::IncarnationId;

const SECRET: &str = "marked-secret-of-one-test-6b1d";
const PLAIN: &str = "marked-plain-text-of-one-test-6b1d";

/// Files of Podman's storage that have a text in them.
fn stored(text: &str) -> Vec<String> {
    let places = podman(&["info", "--format", "{{.Store.GraphRoot}}\n{{.Store.RunRoot}}"]);
    let mut command = Command::new("grep");
    let output = command.args(["-rlaF", "--devices=skip", "-e", text]).args(places.lines()).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn podman_stores_no_secret_while_the_container_runs_and_afterwards() {
    let script = "echo \"$KEY\" > /workspace/session/agent/key
        ls /run/hearth-secrets > /workspace/session/agent/left; echo done > /workspace/session/agent/ready
        while [ ! -e /workspace/session/agent/go ]; do sleep 0.1; done; ls -A /run/hearth-secrets
        touch /run/hearth-secrets/new 2>/dev/null && echo writable; exit 0";
    let Some(world) = World::new(&format!("exec > /workspace/session/agent/out 2>&1\n{script}")) else { return };
    let mut spec = world.spec(ONE, 1);
    spec.settings.env = vec![reference("KEY", "env:STORED"), ("MOOD".to_owned(), EnvValue::Plain(PLAIN.to_owned()))];
    world.runtime.ensure(spec);
    world.heard.running(ONE, 1);
    assert_eq!(world.line("key"), SECRET);
    world.line("ready");
    let shown = podman(&["inspect", &world.name(ONE)]);
    assert!(shown.contains(PLAIN) && !shown.contains(SECRET), "{shown}");
    assert_ne!(stored(PLAIN), Vec::<String>::new(), "what Podman is told is found");
    assert_eq!(stored(SECRET), Vec::<String>::new());
    wait_until("the pipe to be removed", || std::fs::read_dir(world.path("secrets")).unwrap().count() == 0);
    std::fs::write(world.path("session/agent/go"), "").unwrap();
    assert_eq!(world.heard.gone(ONE, 1).0, Exit::Code(0));
    let out = std::fs::read_to_string(world.path("session/agent/out")).unwrap();
    assert_eq!(out, "", "the agent finds nothing where its secrets were");
    assert!(world.containers().is_empty());
    assert_eq!(stored(SECRET), Vec::<String>::new());
}

#[test]
fn an_agent_without_secrets_has_no_pipe() {
    let Some(world) = World::new("[ -z \"$HEARTH_SECRETS\" ] && [ ! -e /run/hearth-secrets ] && exit 3") else {
        return;
    };
    assert_eq!(world.run(|_| {}).0, Exit::Code(3));
    assert!(!exists(&world.path("secrets")));
}

/// It is not told its incarnation number, so it does no work without its secrets.
#[test]
fn a_runner_of_an_older_version_is_said_to_be_one() {
    let Some(world) = World::new("") else { return };
    let with = |incarnation: u32, secret: bool| {
        let mut spec = world.spec(ONE, incarnation);
        spec.image = Some("localhost/hearth-test:old".to_owned());
        spec.settings.env = if secret { vec![reference("KEY", "env:STORED")] } else { Vec::new() };
        world.runtime.ensure(spec);
    };
    with(1, true);
    let reason = world.heard.refused(ONE, 1);
    for part in ["image localhost/hearth-test:old did not read", "HEARTH_INCARNATION is not set", "hearth image build"]
    {
        assert!(reason.contains(part), "{reason}");
    }
    assert!(world.containers().is_empty());
    assert_eq!(std::fs::read_dir(world.path("secrets")).unwrap().count(), 0);
    with(2, false);
    world.heard.running(ONE, 2);
}

#[test]
fn a_start_whose_secrets_are_not_taken_can_be_stopped() {
    let Some(world) = World::new("") else { return };
    let mut spec = world.spec(ONE, 1);
    spec.image = Some("localhost/hearth-test:deaf".to_owned());
    spec.settings.env = vec![reference("KEY", "env:STORED")];
    world.runtime.ensure(spec);
    wait_until("it runs", || world.inspect(ONE, "{{.State.Running}}") == "true");
    assert_eq!(world.heard.count_gone(), 0);
    world.runtime.kill(ONE, 1);
    world.heard.gone(ONE, 1);
    wait_until("nothing is left", || {
        world.containers().is_empty() && std::fs::read_dir(world.path("secrets")).unwrap().count() == 0
    });
}

/// The daemon died between the start and the runner's reading.
#[test]
fn the_next_daemon_ends_what_never_got_its_secrets() {
    let Some(mut world) = World::new("") else { return };
    let mut spec = world.spec(ONE, 1);
    spec.image = Some("localhost/hearth-test:deaf".to_owned());
    spec.settings.env = vec![reference("KEY", "env:STORED")];
    world.runtime.ensure(spec);
    wait_until("it runs", || world.inspect(ONE, "{{.State.Running}}") == "true");
    let heard = RecordedEvents::default();
    world.runtime = start(&world.install, &heard, world.directory.path());
    world.runtime.reconcile(&|| vec![IncarnationId::new(ONE, 1)]);
    assert_eq!(std::fs::read_dir(world.path("secrets")).unwrap().count(), 1);
    world.runtime.inquire(ONE, 1);
    assert!(heard.refused(ONE, 1).contains("before it gave the agent its secrets"));
    assert!(world.containers().is_empty());
    assert_eq!(std::fs::read_dir(world.path("secrets")).unwrap().count(), 0);
    // Pipes that belong to no live incarnation are removed when the daemon starts.
    std::fs::create_dir(world.path("secrets/se9.4")).unwrap();
    world.runtime.reconcile(&Vec::new);
    assert_eq!(std::fs::read_dir(world.path("secrets")).unwrap().count(), 0);
}

/// The agent has a placeholder, and sees the directory of the gateway's socket, which it cannot change.
#[test]
fn a_key_that_the_gateway_keeps_is_nowhere() {
    let script = "exec > /workspace/session/agent/out 2>&1
        echo \"$ANTHROPIC_API_KEY ${ANTHROPIC_BASE_URL:-none}\"; echo \"$HEARTH_GATEWAY\"; ls /run/hearth-gateway
        touch /run/hearth-gateway/new 2>/dev/null && echo writable; [ -e /run/hearth-secrets ] && echo pipe
        echo done > /workspace/session/agent/ready; sleep 60";
    let Some(world) = World::new(script) else { return };
    let gate = world.path("gate");
    std::fs::create_dir(&gate).unwrap();
    std::fs::write(gate.join("model.sock"), "").unwrap();
    let mut spec = world.spec(ONE, 1);
    let address = EnvValue::Plain("http://localhost:1".to_owned());
    spec.settings.env = vec![reference("ANTHROPIC_API_KEY", "env:STORED"), ("ANTHROPIC_BASE_URL".to_owned(), address)];
    let access = ModelAccess {
        placeholders: vec![("ANTHROPIC_API_KEY", "sk-ant-api03-hearth-0f".to_owned())],
        apis: vec![Api::Anthropic],
        address: GatewayAddress::Socket(gate.canonicalize().unwrap()),
        values: Arc::default(),
    };
    spec.model_access = Some(access.clone());
    let known = Arc::clone(&spec.secrets);
    world.runtime.ensure(spec);
    world.heard.running(ONE, 1);
    world.line("ready");
    let shown = podman(&["inspect", &world.name(ONE)]);
    assert!(shown.contains("hearth-0f") && !shown.contains(SECRET), "{shown}");
    assert_eq!(stored(SECRET), Vec::<String>::new());
    let out = std::fs::read_to_string(world.path("session/agent/out")).unwrap();
    let gateway = r#"{"addresses":{"ANTHROPIC_BASE_URL":"/anthropic"},"socket":"/run/hearth-gateway/model.sock"}"#;
    assert_eq!(out, format!("sk-ant-api03-hearth-0f none\n{gateway}\nmodel.sock\n"));
    assert_eq!(access.values.get("ANTHROPIC_API_KEY").as_deref(), Some(SECRET.as_bytes()));
    assert!(known.get().unwrap().find(SECRET.as_bytes()).is_some(), "it is removed from what the agent writes");
    world.runtime.kill_now(ONE, 1);
    world.heard.gone(ONE, 1);
    assert_eq!(stored(SECRET), Vec::<String>::new());
}
