//! What agents get that a person adds without saying what they reach, and warnings about those that reach everything.

use serde_json::{Value, json};

use crate::host::confined::{Setup, possible};
use crate::host::fake_llm::FakeLlm;
use crate::host::{Host, skipped};

fn shown(host: &Host, agent: &str) -> (Value, Value) {
    let agent: Value = serde_json::from_str(&host.done(&["agents", "show", agent, "--json"], b"")).unwrap();
    (agent["network"].clone(), agent["allow"].clone())
}

#[test]
fn a_new_agent_has_a_network_with_rules() {
    let host = Host::new();
    let claude = ["--provider", "claude"];
    for (name, options, network, allow) in [
        ("stranger", &[][..], "listed", Value::Null),
        ("mine", &["--trust", "main"], "ask", Value::Null),
        ("model", &[&claude[..], &["--trust", "trusted"]].concat(), "ask", json!(["api.anthropic.com"])),
        ("nas", &[&claude[..], &["--allow", "nas.local:8080"]].concat(), "listed", json!(["nas.local:8080"])),
        ("wide", &["--network", "open"], "open", Value::Null),
        ("closed", &["--network", "none", "--trust", "main"], "none", Value::Null),
        ("free", &["--provider", "command", "--command", "true", "--unconfined"], "open", Value::Null),
    ] {
        let added = host.run(&[&["agents", "add", name], options].concat(), b"");
        assert_eq!(added.code, Some(0), "{added:#?}");
        assert_eq!(added.stderr.contains("its network is `open`"), name == "free", "{added:#?}");
        assert_eq!(shown(&host, name), (json!(network), allow), "{name}");
    }
}

#[test]
fn the_agent_of_up_asks() {
    let host = Host::before_the_first_start();
    host.done(&["up"], b"hello\n");
    assert_eq!(shown(&host, "main").0, "ask");
}

#[test]
fn an_omitted_network_and_a_missing_secret_are_warned_of() {
    let host = Host::new();
    let file = host.path("hearth.toml");
    let apply = |agents: &str, options: &[&str]| {
        std::fs::write(&file, format!("schema = 1\n{agents}")).unwrap();
        let ended = host.run(&[&["apply", file.to_str().unwrap(), "--yes"], options].concat(), b"");
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        ended.stderr
    };
    let agent = "[[agents]]\nfolder = \"main\"\nprovider = \"command\"\ncommand = [\"true\"]\n";
    let warned = apply(agent, &[]);
    assert!(warned.contains("agent main has no `network`, so it reaches everything"), "{warned}");
    assert_eq!(shown(&host, "main").0, "open", "a file means what it meant");
    for rest in ["network = \"open\"\n", "network = \"ask\"\n"] {
        let warned = apply(&format!("{agent}{rest}"), &[]);
        assert!(!warned.contains("network"), "{warned}");
    }
    // A file that changes only some keys, and an agent that connects to nothing.
    assert!(!apply("[[agents]]\nfolder = \"main\"\nname = \"Main\"\n", &["--merge"]).contains("network"));
    assert!(!apply("[[agents]]\nfolder = \"main\"\n", &[]).contains("network"));

    let with_secret = format!("{agent}network = \"ask\"\nsecrets = {{ TOKEN = \"github\" }}\n");
    let warned = apply(&with_secret, &[]);
    assert!(warned.contains("`TOKEN` of agent main stands for the secret github, which is not defined"), "{warned}");
    let secret = "[secrets.github]\nvalue = \"env:X\"\nhosts = [\"api.github.com\"]\n";
    assert!(!apply(&format!("{secret}{with_secret}"), &[]).contains("not defined"));
    assert!(!apply(&with_secret, &["--merge"]).contains("not defined"), "the installation has it");
}

#[test]
fn doctor_recommends_rules_where_an_agent_reaches_everything() {
    let host = Host::new();
    host.apply("schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"command\"\ncommand = [\"true\"]\n");
    let networks = |host: &Host| {
        let checks: Value = serde_json::from_str(&host.run(&["doctor", "--json"], b"").stdout).unwrap();
        checks["checks"].as_array().unwrap().iter().filter(|check| check["check"] == "network").count()
    };
    assert_eq!(networks(&host), 1);
    host.done(&["agents", "set", "main", "--network", "ask"], b"");
    assert_eq!(networks(&host), 0);
}

/// From a network of its own, an agent reaches a server of this machine only through the model gateway. That needs no
/// key where the server wants none.
#[test]
fn a_server_of_this_machine_needs_no_key() {
    let setup = Setup::new();
    if !possible()
        || String::from_utf8_lossy(&setup.hearth(&["doctor", "--offline"]).stdout).contains("install bubblewrap")
    {
        return skipped("agents cannot have networks of their own here");
    }
    for network in ["none", "listed", "ask"] {
        let setup = Setup::new();
        let log = setup.path("user/requests");
        let model = FakeLlm::logging(&log);
        let file = setup.path("hearth.toml");
        let toml = format!(
            "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"openai\"\nmodel = \"fake-1\"\nnetwork = \"{network}\"\n\
             env = {{ OPENAI_BASE_URL = \"http://127.0.0.1:{}/v1\" }}\n",
            model.port
        );
        std::fs::write(&file, toml).unwrap();
        let applied = setup.hearth(&["apply", "--new", file.to_str().unwrap()]);
        assert!(applied.status.success() && !String::from_utf8_lossy(&applied.stderr).contains("key"), "{applied:?}");
        let said = setup.hearth(&["chat", "\n@@say all the same\n"]);
        assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "all the same", "{network}: {said:?}");
        let requests = std::fs::read_to_string(&log).unwrap();
        let first = requests.lines().find(|line| line.contains("chat/completions")).expect("it was asked");
        assert!(!first.to_lowercase().contains("authorization"), "no key is made up: {first}");
    }
}
