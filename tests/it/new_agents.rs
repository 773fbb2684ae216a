//! What agents get that a person adds without saying what they reach, and warnings about those that reach everything.

use serde_json::{Value, json};

use crate::host::confined::{Setup, possible};
use crate::host::fake_llm::FakeLlm;
use crate::host::{Ended, Host, skipped};

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

/// Applies a file without its first line, which must succeed.
fn apply(host: &Host, agents: &str, options: &[&str]) -> Ended {
    let file = host.path("hearth.toml");
    std::fs::write(&file, format!("schema = 1\n{agents}")).unwrap();
    let ended = host.run(&[&["apply", file.to_str().unwrap(), "--yes"], options].concat(), b"");
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended
}

const AGENT: &str = "[[agents]]\nfolder = \"main\"\nprovider = \"command\"\ncommand = [\"true\"]\n";

/// Deleting the line never gives more than `ask`. An agent in the store keeps its network until its file is applied.
#[test]
fn an_omitted_network_never_gives_more() {
    let host = Host::new();
    for (rest, network) in [
        ("", "listed"),
        ("trust = \"untrusted\"\n", "listed"),
        ("trust = \"trusted\"\n", "ask"),
        ("trust = \"main\"\n", "ask"),
        ("unconfined = true\n", "open"),
        ("trust = \"main\"\nunconfined = true\n", "open"),
        ("network = \"open\"\n", "open"),
        ("network = \"none\"\ntrust = \"main\"\n", "none"),
    ] {
        apply(&host, &format!("{AGENT}{rest}"), &[]);
        assert_eq!(shown(&host, "main").0, network, "{rest}");
    }
    for (trust, words) in [
        ("", "it reaches only hosts that `allow` lists: `network` open -> listed"),
        ("trust = \"main\"\n", "a person is asked about hosts that `allow` does not list: `network` open -> ask"),
    ] {
        apply(&host, &format!("{AGENT}{trust}network = \"open\"\n"), &[]);
        apply(&host, "[[agents]]\nfolder = \"other\"\n", &[]);
        apply(&host, "[[agents]]\nfolder = \"main\"\nname = \"Main\"\n", &["--merge"]);
        assert_eq!(shown(&host, "main").0, "open");
        let applied = apply(&host, &format!("{AGENT}{trust}"), &[]).stdout;
        assert!(applied.contains(&format!("  agent main: {words}")), "{applied}");
        assert_ne!(shown(&host, "main").0, "open");
    }
    host.done(&["agents", "set", "main", "--network", "none"], b"");
    host.done(&["agents", "set", "main", "--clear", "network"], b"");
    assert_eq!(shown(&host, "main").0, "ask");
}

#[test]
fn a_missing_secret_of_an_agent_is_warned_of() {
    let host = Host::new();
    let apply = |agents: &str, options: &[&str]| apply(&host, agents, options).stderr;
    let with_secret = format!("{AGENT}secrets = {{ TOKEN = \"github\" }}\n");
    let warned = apply(&with_secret, &[]);
    assert!(warned.contains("`TOKEN` of agent main stands for the secret github, which is not defined"), "{warned}");
    let secret = "[secrets.github]\nvalue = \"env:X\"\nhosts = [\"api.github.com\"]\n";
    assert!(!apply(&format!("{secret}{with_secret}"), &[]).contains("not defined"));
    assert!(!apply(&with_secret, &["--merge"]).contains("not defined"), "the installation has it");
}

/// Only agents that no rule holds where agents run as processes are named.
#[test]
fn doctor_names_agents_whose_network_has_no_effect_as_processes() {
    let host = Host::new();
    let agent = |name: &str, more: &str| format!("{}{more}\n", AGENT.replace("main", name));
    let agents = [
        agent("free", "unconfined = true\nnetwork = \"none\""),
        agent("near", "network = \"host\""),
        agent("kept", "network = \"listed\""),
        agent("wide", "unconfined = true"),
    ];
    apply(&host, &format!("runtime = \"process\"\n{}", agents.concat()), &[]);
    let doctor = host.run(&["doctor", "--offline"], b"").stdout;
    let words = "`network` of free, near has no effect: agents run as processes, of which an unconfined one, and one with \
                 `network = \"host\"`, reaches everything";
    assert!(doctor.contains(words), "{doctor}");
}

/// Without `network`, an untrusted agent reaches what `allow` lists. A program that signs in on its own needs more.
#[test]
fn an_agent_that_cannot_reach_its_model_is_warned_of() {
    let host = Host::new();
    let claude = "[[agents]]\nfolder = \"main\"\nprovider = \"claude\"\n";
    let words = "agent main cannot reach its model: Hearth has no key of claude for it, and its `network` is `listed`";
    let mend = "if its program signs in on its own, write `allow = [\"api.anthropic.com\"]`";
    for (more, warns) in [
        ("", true),
        ("allow = [\"api.anthropic.com\"]\n", false),
        ("env = { ANTHROPIC_API_KEY = \"env:KEY\" }\n", false),
        ("trust = \"main\"\n", false),
    ] {
        let warned = apply(&host, &format!("{claude}{more}"), &[]).stderr;
        assert_eq!(warned.contains(&format!("{words}; put a key into `env` or, {mend}")), warns, "{more}: {warned}");
        let doctor = host.run(&["doctor", "--offline"], b"").stdout;
        assert_eq!(doctor.contains(words) && doctor.contains(mend), warns, "{more}: {doctor}");
    }
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
