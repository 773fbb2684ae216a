//! The model gateway and agents in containers, which outlive the daemon.

use super::house::House;
use crate::host::confined::PROTOCOL;
use crate::host::keys::{HOSTILE, KEY, assert_held, with_key};

/// The agent's lines: no network, and a key in a file.
fn settings(house: &House) -> String {
    let file = house.host.path("model-key");
    std::fs::write(&file, KEY).unwrap();
    format!(
        "network = \"none\"\nenv = {{ ANTHROPIC_API_KEY = \"file:{}\", ANTHROPIC_BASE_URL = \"{}\", CLAUDE_CODE_MAX_RETRIES = \"4\" }}\n",
        file.display(),
        house.api.url()
    )
}

fn configure(house: &House, more: &str) {
    let settings = settings(house);
    house.host.apply(&format!("schema = 1\n[[agents]]\nfolder = \"main\"\ntrust = \"trusted\"\n{settings}{more}"));
}

#[test]
fn a_hostile_container_has_no_key_and_gets_no_further() {
    let Some(mut house) = House::new("provider = \"echo\"") else { return };
    house.api.takes(KEY);
    configure(
        &house,
        "provider = \"command\"\nmodels = [\"m\"]\ncommand = [\"python3\", \"/workspace/group/agent.py\"]\n",
    );
    std::fs::create_dir_all(house.group("")).unwrap();
    std::fs::write(house.group("agent.py"), format!("{PROTOCOL}\n{HOSTILE}\nmain()\n")).unwrap();
    house.host.start();
    house.types(1, "go");
    let shown = house.wait_shown("\"ours\"");
    assert_held(&shown.concat(), &house.api);
    let inspected = house.podman(&["inspect", &house.container()]);
    assert!(inspected.contains("sk-ant-api03-hearth-") && !inspected.contains(KEY), "{inspected}");
    assert_eq!(with_key(&house.host.data()), "");
    house.settle();
    house.stop();
    assert_eq!(std::fs::read_dir(house.host.data().join("run/gate")).unwrap().count(), 0);
}

/// The daemon dies while an answer is under way. The container goes on, its CLI waits for the next daemon and asks again.
#[test]
fn a_stream_survives_the_daemon() {
    let Some(mut house) = House::new("provider = \"echo\"") else { return };
    house.api.takes(KEY);
    configure(&house, "provider = \"claude\"\n");
    house.host.start();
    house.types(1, "[[stop 4]] [[say half and whole]]");
    house.wait("half an answer", || (house.api.gated() > 0).then_some(()));
    let container = house.container();
    house.host.kill();
    house.api.open();
    std::thread::sleep(std::time::Duration::from_secs(2));
    house.host.start();
    house.wait_shown("half and whole");
    assert_eq!(house.container(), container, "it went on");
    assert!(house.api.keys().iter().all(|key| key == KEY), "{:?}", house.api.keys());
    assert_eq!(house.shown().len(), 1, "{:?}", house.shown());
    house.settle();
    // Every call is billed once, except the one that was cut: what it cost was not known yet.
    let answered = house.api.requests().len() - 1;
    let entries = |house: &House| {
        let mut rows = house.host.rows("spend");
        rows.retain(|row| row["value"]["source"] == "Gateway" && row["value"]["counted"] == true);
        rows
    };
    house.wait("the calls in the ledger", || (entries(&house).len() >= answered).then_some(()));
    house.stop();
    assert_eq!(entries(&house).len(), answered, "{:#?}", entries(&house));
    house.host.check();
}
