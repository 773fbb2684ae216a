//! A file that names an agent is declarative: deleting a line takes away the right that it gave, also if `up`, a command
//! or an approval had given it. A person at a terminal is asked before.

use serde_json::Value;

use crate::host::confined::host_with;
use crate::host::pty::Pty;
use crate::host::{Host, wait_for};

/// The lines of one configuration that another one does not have.
fn only_in(one: &str, other: &str) -> Vec<String> {
    one.lines().filter(|line| !other.lines().any(|known| known == *line)).map(str::to_owned).collect()
}

/// Applies a file at a terminal and answers its questions in order. Returns the exit code and what was shown.
fn at_a_terminal(host: &Host, toml: &str, answers: &[(&str, &str)]) -> (Option<i32>, String) {
    let file = host.path("typed.toml");
    std::fs::write(&file, toml).unwrap();
    let mut at = Pty::start(host.command(&["apply", file.to_str().unwrap()]));
    for (question, answer) in answers {
        at.answer(question, answer);
    }
    let (ended, shown) = at.end();
    (ended.code(), shown)
}

const RESET: &str = "Reset these? [y/N]: ";

#[test]
fn deleting_a_line_of_an_agent_takes_the_right_away() {
    let lines = [
        ("mounts", "mounts = [{ host_path = \"/srv/x\", readonly = false }]", "it loses directories: `mounts`"),
        ("unconfined", "unconfined = true", "it runs confined: `unconfined`"),
        ("network", "network = \"open\"", ""),
        ("allow", "allow = [\"a.example\"]", "it loses hosts that it may reach: `allow`"),
        ("mcp_servers", "mcp_servers = { files = { command = \"mcp-files\" } }", "it loses MCP servers: `mcp_servers`"),
        ("request_env", "request_env = [\"KEY\"]", "its requests may name no variables: `request_env`"),
        ("packages", "packages = { apt = [\"jq\"] }", "its image loses packages: `packages`"),
        ("allow_host_loopback", "allow_host_loopback = true", "it loses the services of this machine"),
        ("folder_access", "folder_access = \"read-write\"", "access to its folder and memory follows `trust`"),
        ("recall", "recall = \"agent\"", "searches cover only its session's chat: `recall`"),
        ("trust", "trust = \"main\"", "it becomes untrusted"),
    ];
    let file = |without: &str| {
        let kept = lines.iter().filter(|(key, ..)| *key != without).map(|(_, line, _)| *line);
        ["schema = 1", "[[agents]]", "folder = \"main\""].into_iter().chain(kept).collect::<Vec<_>>().join("\n")
    };
    let host = Host::new();
    host.create_store();
    for (key, _, words) in lines {
        host.done(&["apply", "--no-owner", "-"], file("").as_bytes());
        let before = host.done(&["export"], b"");
        // Nothing is lost where only some keys are to be changed.
        host.done(&["apply", "-", "--merge"], file(key).as_bytes());
        assert_eq!(host.done(&["export"], b""), before, "{key}");
        let shown = host.done(&["apply", "-"], file(key).as_bytes());
        let after = host.done(&["export"], b"");
        let lost = only_in(&before, &after);
        if key == "network" {
            // Rules could not be enforced for an unconfined agent.
            assert_eq!(before, after);
            continue;
        }
        let (_, resets) = shown.split_once("reset, because the file omits the key:\n").unwrap();
        assert!(resets.lines().count() == 1 && resets.contains(&format!("  agent main: {words}")), "{key}: {shown}");
        assert!(lost.len() == 1 && lost[0].starts_with(&format!("{key} = ")), "{key}: {lost:?}");
        let given = only_in(&after, &before);
        assert!(given.iter().all(|line| line.starts_with(&format!("{key} = "))), "{key}: {given:?}");
    }
}

const ASKS: &str = r#"
def answer(text):
    print(json.dumps({"type": "request", "id": "q1", "content": json.loads(text)}), flush=True)
    return "asked"
"#;

/// A server that a person approved, and a directory that a command added.
#[test]
fn a_person_is_asked_before_what_an_approval_and_a_command_gave_is_reset() {
    let Some(mut host) = host_with("network = \"none\"", ASKS) else { return };
    let file = host.done(&["export"], b"");
    host.start();
    host.done(&["chat", r#"{"action":"add_mcp_server","name":"files","command":"mcp-files","args":["--all"]}"#], b"");
    wait_for("the request", || (host.rows("approvals").len() == 1).then_some(()));
    host.done(&["approvals", "approve", "ap1"], b"");
    host.done(&["agents", "set", "main", "--mounts", "/srv/x"], b"");
    let given = host.done(&["export"], b"");
    let has = |text: &str| ["mcp-files", "/srv/x"].map(|part| text.contains(part));
    assert_eq!((has(&file), has(&given)), ([false; 2], [true; 2]), "{given}");

    let (code, shown) = at_a_terminal(&host, &file, &[(RESET, "n")]);
    assert!(code == Some(1) && shown.contains("cancelled: nothing was changed"), "{shown}");
    assert!(shown.contains("it loses MCP servers") && shown.contains("it loses directories"), "{shown}");
    assert_eq!(host.done(&["export"], b""), given);

    let (code, shown) = at_a_terminal(&host, &file, &[(RESET, "y")]);
    assert_eq!(code, Some(0), "{shown}");
    let after = host.done(&["export"], b"");
    assert_eq!(has(&after), [false; 2], "{after}");
    assert!(only_in(&file, &after).is_empty(), "{after}");
    host.check();
}

#[test]
fn a_person_is_asked_before_what_up_gave_is_reset() {
    let host = Host::before_the_first_start();
    host.done(&["up"], b"hello\n");
    let shown_agent =
        || -> Value { serde_json::from_str(&host.done(&["agents", "show", "main", "--json"], b"")).unwrap() };
    let before = shown_agent();
    assert_eq!((&before["trust"], &before["network"]), (&"main".into(), &"ask".into()), "{before}");
    let file = "schema = 1\n[[agents]]\nfolder = \"main\"\nnetwork = \"none\"\n";
    let (code, shown) = at_a_terminal(&host, file, &[(RESET, "n")]);
    assert!(code == Some(1) && shown.contains("it becomes untrusted"), "{shown}");
    assert_eq!(shown_agent(), before);
    let (code, shown) = at_a_terminal(&host, file, &[(RESET, "y")]);
    assert_eq!(code, Some(0), "{shown}");
    let after = shown_agent();
    assert_eq!((&after["trust"], &after["network"]), (&"untrusted".into(), &"none".into()), "{after}");
}

#[test]
fn a_person_at_a_terminal_is_asked_before_no_owner_is_left() {
    let host = Host::with_echo();
    host.done(&["users", "add", "net:ann", "--roles", "owner"], b"");
    let file = "schema = 1\n[[users]]\nid = \"net:ann\"\n";
    let is_owner = || host.done(&["roles", "list"], b"").contains("owner");
    let last =
        "net:ann is the only owner: without one, no one can decide approvals or is told of problems. Go on? [y/N]: ";
    for answers in [&[(RESET, "n")][..], &[(RESET, "y"), (last, "n")]] {
        let (code, shown) = at_a_terminal(&host, file, answers);
        assert!(code == Some(1) && is_owner(), "{answers:?}: {shown}");
    }
    let (code, shown) = at_a_terminal(&host, file, &[(RESET, "y"), (last, "y")]);
    assert!(code == Some(0) && !is_owner(), "{shown}");
    for words in [&["users", "remove", "net:ann"][..], &["roles", "revoke", "net:ann", "owner"]] {
        host.done(&["roles", "grant", "net:ann", "owner"], b"");
        for (answer, code) in [("n", 1), ("y", 0)] {
            let mut at = Pty::start(host.command(words));
            at.answer(last, answer);
            let (ended, shown) = at.end();
            assert!(ended.code() == Some(code) && is_owner() == (answer == "n"), "{words:?} {answer}: {shown}");
        }
    }
    // With the option no one is asked, also at a terminal.
    host.done(&["roles", "grant", "net:ann", "owner"], b"");
    let (ended, shown) = Pty::start(host.command(&["users", "remove", "net:ann", "--force"])).end();
    assert!(ended.success() && !is_owner(), "{shown}");
}
