//! The model gateway and agents in containers, which outlive the daemon.

use super::setup::Setup;
use crate::host::confined::PROTOCOL;
use crate::host::keys::{HOSTILE, KEY, assert_held, with_key};

/// The agent's lines: no network, and a key in a file.
fn settings(setup: &Setup) -> String {
    let file = setup.host.path("model-key");
    std::fs::write(&file, KEY).unwrap();
    format!(
        "network = \"none\"\nenv = {{ ANTHROPIC_API_KEY = \"file:{}\", ANTHROPIC_BASE_URL = \"{}\", CLAUDE_CODE_MAX_RETRIES = \"4\" }}\n",
        file.display(),
        setup.api.url()
    )
}

fn configure(setup: &Setup, more: &str) {
    let settings = settings(setup);
    setup.host.apply(&format!("schema = 1\n[[agents]]\nfolder = \"main\"\ntrust = \"trusted\"\n{settings}{more}"));
}

#[test]
fn a_hostile_container_has_no_key_and_gets_no_further() {
    let Some(mut setup) = Setup::new("provider = \"echo\"") else { return };
    setup.api.takes(KEY);
    configure(
        &setup,
        "provider = \"command\"\nmodels = [\"m\"]\ncommand = [\"python3\", \"/workspace/group/agent.py\"]\n",
    );
    std::fs::create_dir_all(setup.group("")).unwrap();
    std::fs::write(setup.group("agent.py"), format!("{PROTOCOL}\n{HOSTILE}\nmain()\n")).unwrap();
    setup.host.start();
    setup.types(1, "go");
    let shown = setup.wait_shown("\"ours\"");
    assert_held(&shown.concat(), &setup.api);
    let inspected = setup.podman(&["inspect", &setup.container()]);
    assert!(inspected.contains("sk-ant-api03-hearth-") && !inspected.contains(KEY), "{inspected}");
    assert_eq!(with_key(&setup.host.data()), "");
    setup.settle();
    setup.stop();
    assert_eq!(std::fs::read_dir(setup.host.data().join("run/gate")).unwrap().count(), 0);
}

/// The daemon dies while an answer is under way. The container goes on, its CLI waits for the next daemon and asks again.
#[test]
fn a_stream_survives_the_daemon() {
    let Some(mut setup) = Setup::new("provider = \"echo\"") else { return };
    setup.api.takes(KEY);
    configure(&setup, "provider = \"claude\"\n");
    setup.host.start();
    setup.types(1, "[[stop 4]] [[say half and whole]]");
    setup.wait("half an answer", || (setup.api.gated() > 0).then_some(()));
    let container = setup.container();
    setup.host.kill();
    setup.api.open();
    std::thread::sleep(std::time::Duration::from_secs(2));
    setup.host.start();
    setup.wait_shown("half and whole");
    assert_eq!(setup.container(), container, "it went on");
    assert!(setup.api.keys().iter().all(|key| key == KEY), "{:?}", setup.api.keys());
    assert_eq!(setup.shown().len(), 1, "{:?}", setup.shown());
    setup.settle();
    // Every call is billed once, except the one that was cut: what it cost was not known yet.
    let answered = setup.api.requests().len() - 1;
    let entries = |setup: &Setup| {
        let mut rows = setup.host.rows("spend");
        rows.retain(|row| row["value"]["source"] == "Gateway" && row["value"]["counted"] == true);
        rows
    };
    setup.wait("the calls in the ledger", || (entries(&setup).len() >= answered).then_some(()));
    setup.stop();
    assert_eq!(entries(&setup).len(), answered, "{:#?}", entries(&setup));
    setup.host.check();
}
