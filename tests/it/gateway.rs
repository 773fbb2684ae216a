//! Agents and their models, through the real program: an agent has no key, reaches nothing else, and its CLI works.

mod killed;

use crate::host::agents::cli;
use crate::host::confined::{Setup, possible};
use crate::host::fake_api::FakeApi;
use crate::host::keys::{HOSTILE, KEY, assert_held, with_key};
use crate::host::{rows_of, skipped, wait_for};

/// Whether agents can have a network of their own here.
fn has_networks(setup: &Setup) -> bool {
    let shown = setup.hearth(&["doctor", "--offline"]);
    let has = !String::from_utf8_lossy(&shown.stdout).contains("install bubblewrap");
    if !has {
        skipped("there is no bubblewrap that works");
    }
    has
}

fn settings(setup: &Setup, api: &FakeApi, network: &str) -> String {
    let file = setup.path("user/model-key");
    std::fs::write(&file, format!("{KEY}\n")).unwrap();
    format!(
        "trust = \"trusted\"\nnetwork = \"{network}\"\nmodels = [\"m\"]\n\
         env = {{ ANTHROPIC_API_KEY = \"file:{}\", ANTHROPIC_BASE_URL = \"{}\" }}",
        file.display(),
        api.url()
    )
}

#[test]
fn a_hostile_process_has_no_key_and_gets_no_further() {
    if !possible() {
        return;
    }
    for network in ["none", "open"] {
        let (setup, api) = (Setup::new(), FakeApi::start());
        api.takes(KEY);
        if network == "none" && !has_networks(&setup) {
            continue;
        }
        let answer = setup.ask(&settings(&setup, &api, network), HOSTILE, "go");
        assert_held(&answer, &api);
        assert_eq!(with_key(&setup.path("data")), "");
        assert_eq!(std::fs::read_dir(setup.path("data/run/gate")).unwrap().count(), 0, "nothing is left");
    }
}

/// Without the gateway, an agent gets its key, and people are told so.
#[test]
fn an_agent_that_opts_out_has_its_key() {
    if !possible() {
        return;
    }
    let (setup, api) = (Setup::new(), FakeApi::start());
    let program =
        "def answer(text):\n    return os.environ[\"ANTHROPIC_API_KEY\"][:12] + os.environ[\"ANTHROPIC_BASE_URL\"]";
    let settings = format!("gateway = false\n{}", settings(&setup, &api, "open"));
    let answer = setup.ask(&settings, program, "go");
    assert_eq!(answer.trim(), format!("{}{}", &KEY[..12], api.url()));
    let applied = setup.hearth(&["apply", setup.path("hearth.toml").to_str().unwrap()]);
    let warned = String::from_utf8_lossy(&applied.stderr);
    assert!(warned.contains("agent py") && warned.contains("`gateway = false`"), "{warned}");
    let doctor = setup.hearth(&["doctor", "--offline"]);
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("`gateway = false`"), "{doctor:?}");
}

#[test]
fn the_real_cli_works_without_a_network_and_without_its_key() {
    let (true, Some(binary)) = (possible(), cli()) else { return };
    let (setup, api) = (Setup::new(), FakeApi::start());
    if !has_networks(&setup) {
        return;
    }
    api.takes(KEY);
    let settings = settings(&setup, &api, "none").replace("models = [\"m\"]\n", "");
    let toml = format!(
        "schema = 1\n[[agents]]\nfolder = \"ai\"\nprovider = \"claude\"\ncommand = [{:?}]\n{settings}\n",
        binary.display()
    );
    std::fs::write(setup.path("hearth.toml"), toml).unwrap();
    let applied = setup.hearth(&["apply", setup.path("hearth.toml").to_str().unwrap()]);
    assert!(applied.status.success() && !String::from_utf8_lossy(&applied.stderr).contains("network"), "{applied:?}");
    let connect = r#"python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80))'"#;
    let script = format!("env > ~/made; {connect} 2>> ~/made; true");
    let output = setup.hearth(&["chat", &format!("[[tool Bash {{\"command\":\"{script}\"}}]] [[say done]]")]);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "done", "{output:?}");
    let made = std::fs::read_to_string(setup.path("data/homes/ai/made")).unwrap();
    assert!(made.contains("ANTHROPIC_API_KEY=sk-ant-api03-hearth-") && made.contains("unreachable"), "{made}");
    assert!(made.contains("ANTHROPIC_BASE_URL=http://127.0.0.1:") && !made.contains(&api.url()), "{made}");
    assert!(api.keys().len() >= 2 && api.keys().iter().all(|key| key == KEY), "{:?}", api.keys());
    // The calls are in the ledger as the gateway counted them. What the CLI reports of its turn does not count as well.
    let spend = || -> serde_json::Value {
        serde_json::from_slice(&setup.hearth(&["spend", "--json"]).stdout).unwrap_or_default()
    };
    let sources = || -> Vec<serde_json::Value> {
        rows_of(&setup.path("data"), "spend").into_iter().map(|mut row| row["value"].take()).collect()
    };
    let counted = |row: &serde_json::Value| row["counted"] == true && row["source"] == "Gateway";
    wait_for("the calls to be counted", || (sources().iter().filter(|row| counted(row)).count() >= 2).then_some(()));
    let reported = sources().into_iter().find(|row| row["source"] != "Gateway").unwrap();
    assert_eq!((&reported["source"], &reported["counted"]), (&"Reported".into(), &false.into()), "{reported}");
    let total = &spend()["total"];
    assert!(total["turns"].as_u64() >= Some(2) && total["input_tokens"].as_u64() > Some(0), "{total}");
    assert_eq!(with_key(&setup.path("data")), "");
}
