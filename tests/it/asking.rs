//! Questions through the real program: an agent that knows only the contract asks, people answer by command.

use serde_json::{Value, json};

use crate::host::{CHAT, Host, wait_for};

/// A host whose agents are `tests/agent.py`, and whose owner is at the terminal of this machine.
fn asking(agents: &str) -> Host {
    let mut host = Host::new();
    let agent = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agent.py");
    host.env.push(("HEARTH_TEST_RUNNER".to_owned(), agent.to_owned()));
    let uid = rustix::process::geteuid().as_raw();
    host.apply(&format!("schema = 1\n{agents}\n[[users]]\nid = \"terminal:{uid}\"\nroles = [\"owner\"]\n{CHAT}"));
    host.start();
    host
}

const MAIN: &str = "[[agents]]\nfolder = \"main\"\n";

fn json_of(host: &Host, arguments: &[&str]) -> Value {
    serde_json::from_str(&host.done(arguments, b"")).unwrap()
}

/// Waits for an outgoing message with this beginning.
fn wait_text(host: &Host, beginning: &str) -> String {
    wait_for(beginning, || host.said().into_iter().find(|text| text.starts_with(beginning)))
}

#[test]
fn a_question_is_answered_by_command() {
    let host = asking(MAIN);
    let question = json!({"action": "ask_user_question", "title": "Deploy?", "question": "To production",
        "options": ["Yes", {"label": "No", "value": "never"}], "timeout": 600});
    host.inject("m1", &format!("!ask {question}"));
    let open = wait_for("the question", || {
        let list = json_of(&host, &["questions", "list", "--json"]);
        list["questions"].get(0).cloned()
    });
    assert_eq!(open["question"], "qu1");
    assert_eq!(
        (&open["state"], &open["agent"], &open["chat"]),
        (&json!("open"), &json!("main"), &json!("telegram/123"))
    );
    let refused = host.run(&["questions", "answer", "qu1", "maybe"], b"");
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("Yes, No"), "{refused:#?}");
    let answered = json_of(&host, &["questions", "answer", "qu1", "No", "--json"]);
    assert_eq!((&answered["id"], &answered["decided"]), (&json!("qu1"), &json!(true)));
    let text = wait_text(&host, "{");
    assert_eq!(text, r#"{"label": "No", "userId": "operator", "value": "never"}"#);
    host.wait_settled();
    let shown = host.done(&["questions", "show", "qu1"], b"");
    assert!(shown.contains("answer               never") && shown.contains("operator"), "{shown}");
    assert!(host.done(&["questions", "list"], b"").contains("no open questions"));
    assert!(host.done(&["questions", "list", "--all"], b"").contains("answered"));
    assert_eq!(host.run(&["questions", "show", "qu9"], b"").code, Some(1));
    assert_eq!(host.run(&["questions", "answer", "qu1", "Yes"], b"").code, Some(1), "it is over");
    host.check();
}

/// The daemon dies while the agent waits: the question stays, and its answer is a message for the next incarnation.
#[test]
fn an_answer_finds_the_agent_through_a_restart() {
    let mut host = asking(MAIN);
    host.inject(
        "m1",
        "!ask {\"action\":\"ask_user_question\",\"title\":\"T\",\"question\":\"Q\",\"options\":[\"Yes\"]}",
    );
    wait_for("the question", || host.rows("questions").pop());
    host.kill();
    let answered = host.run(&["questions", "answer", "qu1", "1"], b"");
    assert_eq!(answered.code, Some(0), "without a daemon, too: {answered:#?}");
    host.start();
    wait_for("the answer, in either way", || {
        let bodies = host.rows("bodies");
        let told = bodies
            .iter()
            .any(|row| row["value"]["content"]["text"].as_str().unwrap().contains("The answer of operator: Yes"));
        let read = host.said().iter().any(|text| text.contains("operator"));
        (told || read).then_some(())
    });
    host.check();
}

#[test]
fn a_new_agent_is_approved_by_command_and_written_to() {
    let host = asking(MAIN);
    host.inject("m1", "!ask {\"action\":\"create_agent\",\"name\":\"Research Bot\",\"instructions\":\"Find out.\"}");
    let submitted = wait_text(&host, "{\"approval\"");
    assert!(submitted.contains("\"status\": \"submitted\""), "{submitted}");
    host.done(&["approvals", "approve", "ap1"], b"");
    wait_text(&host, "echo: Agent \"research-bot\" created.");
    host.inject("m2", "!to research-bot look this up");
    wait_text(&host, "echo: echo: look this up");
    let instructions = host.data().join("groups/research-bot/CLAUDE.local.md");
    assert_eq!(std::fs::read_to_string(instructions).unwrap(), "Find out.");
    let destinations = json_of(&host, &["destinations", "list", "--json"]).to_string();
    assert!(destinations.contains("parent") && destinations.contains("research-bot"), "{destinations}");
    host.check();
}

/// Two agents that answer each other: the store is quiet after ten messages, and the owner is told why.
#[test]
fn two_agents_stop_talking_to_each_other() {
    let host = asking("[[agents]]\nfolder = \"main\"\n[[agents]]\nfolder = \"scout\"\n");
    host.done(&["destinations", "add", "main", "scout", "--to-agent", "scout"], b"");
    host.inject("m1", "!to scout ping");
    let drop = wait_for("the refusal", || host.rows("dropped").pop());
    assert_eq!(drop["value"]["reason"], "TooManyHops");
    // What an agent is told as context waits for its next turn.
    wait_for("every turn to end", || {
        let ended =
            |row: &Value| row["value"]["trigger"] == json!(false) || row["value"]["state"].get("Completed").is_some();
        host.rows("messages").iter().all(ended).then_some(())
    });
    let peers = host.rows("messages").into_iter().filter(|row| !row["value"]["from"].is_null()).count();
    assert_eq!(peers, 10);
    let dropped = host.done(&["dropped"], b"");
    assert!(dropped.contains("agent/"), "{dropped}");
    host.check();
}

/// An agent is told of refused requests; what it wrote can still be explained.
#[test]
fn nonsense_is_answered() {
    let host = asking(MAIN);
    for (at, (asked, answer)) in [
        (r#"{"action":"format_disk"}"#, "unknown action `format_disk`"),
        (r#"{"action":"install_packages","apt":["foo;rm"]}"#, "install_packages failed: invalid apt package name"),
        (r#"{"action":"add_mcp_server","name":"x"}"#, "add_mcp_server failed: name and command are required."),
    ]
    .into_iter()
    .enumerate()
    {
        host.inject(&format!("m{at}"), &format!("!ask {asked}"));
        wait_text(&host, answer);
    }
    host.wait_settled();
    assert!(host.rows("approvals").is_empty() && host.rows("questions").is_empty());
    host.check();
}
