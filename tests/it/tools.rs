//! The agent's tools through the whole daemon: the real agent CLI calls them, against a stand-in for its API.

use serde_json::json;

use crate::host::agents::{call, done, json_of, results, with_cli};
use crate::host::pty::Pty;
use crate::host::wait_for;

fn refused(text: &str) -> (String, bool) {
    (text.to_owned(), true)
}

/// The text of the model is shown before it is complete, without its internal part, and once when it is.
#[test]
fn a_terminal_shows_what_the_model_writes() {
    let Some((mut host, api)) = with_cli() else { return };
    host.env.push(("TERM".into(), "xterm".into()));
    let prompt = "[[stop 71]] [[say {{internal}}not for people{{/internal}}{{message to=\"terminal\"}}It is raining now, \
                  and soon it will stop.{{/message}}]]";
    let mut at = Pty::start(host.command(&["chat", prompt]));
    at.wait("main is writing, ");
    at.wait(" s: It is raining");
    assert!(api.gated() == 1 && host.said().is_empty(), "the answer is not complete");
    api.open();
    at.wait("It is raining now, and soon it will stop.\n");
    let (ended, shown) = at.end();
    assert!(ended.success() && shown.matches("stop.\n").count() == 1, "{shown}");
    assert!(!shown.contains("for people") && !shown.contains('<'), "{shown}");
    host.check();
}

#[test]
fn the_agent_speaks_while_it_works() {
    let Some((host, api)) = with_cli() else { return };
    let script = [
        call("send_message", &json!({"text": "on it"})),
        "[[tool Bash {\"command\":\"echo made here > made.txt\"}]]".to_owned(),
        call("send_file", &json!({"path": "made.txt", "text": "here it is", "filename": "result.txt"})),
        call("edit_message", &json!({"messageId": 3, "text": "nearly done"})),
        call("add_reaction", &json!({"messageId": 2, "emoji": "thumbs_up"})),
        call("send_card", &json!({"card": {"title": "Report", "description": "All is well"}})),
        call("edit_message", &json!({"messageId": 99, "text": "x"})),
        call("send_message", &json!({"text": "x", "to": "nobody"})),
        call("send_file", &json!({"path": "/etc/passwd"})),
        "[[say all done]]".to_owned(),
    ];
    host.inject("m1", &script.join(" "));
    wait_for("the answer", || host.said().contains(&"all done".to_owned()).then_some(()));
    host.wait_settled();
    let mut told = results(&api);
    told.remove(1);
    // Reports of calls take numbers, too, and when they are written depends on time.
    for (text, _) in told.iter_mut().skip(1) {
        if let Some((before, after)) = text.split_once("(id: ") {
            *text = format!("{before}(id: N{}", after.trim_start_matches(|c: char| c.is_ascii_digit()));
        }
    }
    assert_eq!(
        told,
        [
            done("Message sent to (current conversation) (id: 3)"),
            done("File sent to (current conversation) (id: N, filename: result.txt)"),
            done("Message edit queued for #3"),
            done("Reaction queued for #2"),
            done("Card sent (id: N)"),
            refused("Error: Message #99 not found"),
            refused("Error: Unknown destination \"nobody\". Known: telegram-mg1"),
            refused("Error: File is outside of your own directories: /etc/passwd; copy it into one of them first"),
        ]
    );
    let rows = host.rows("outbound");
    let said = |text: &str| rows.iter().map(|row| &row["value"]).find(|row| row["text"] == text).cloned();
    for text in ["on it", "here it is", "nearly done", "thumbs_up", "Report\nAll is well", "all done"] {
        let row = said(text).unwrap_or_else(|| panic!("{text}: {rows:#?}"));
        assert_eq!((&row["to"]["channel"], &row["to"]["platform_id"]), (&json!("telegram"), &json!("123")), "{text}");
    }
    let file = &said("here it is").unwrap()["files"][0];
    assert!(file.to_string().contains("result.txt"), "{file}");
    assert!(said("nearly done").unwrap()["act"].get("Edit").is_some());
    assert!(said("thumbs_up").unwrap()["act"].get("React").is_some());
    host.check();
}

#[test]
fn the_agent_sees_all_its_tools() {
    let Some((host, api)) = with_cli() else { return };
    host.inject("m1", "[[say hello]]");
    host.wait_said(1);
    let request = api.requests().pop().unwrap();
    let tools: Vec<&str> =
        request["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    for name in [
        "send_message",
        "send_file",
        "edit_message",
        "add_reaction",
        "send_card",
        "ask_user_question",
        "create_agent",
        "install_packages",
        "add_mcp_server",
        "hearth",
        "recall",
        "schedule_task",
        "list_tasks",
        "update_task",
        "cancel_task",
        "pause_task",
        "resume_task",
    ] {
        assert!(tools.contains(&format!("mcp__nanoclaw__{name}").as_str()), "{name} of {tools:?}");
    }
}

#[test]
fn the_agent_asks_and_waits_for_the_answer() {
    let Some((host, api)) = with_cli() else { return };
    let question = json!({"title": "Deploy?", "question": "To production",
        "options": ["Yes", {"label": "No", "value": "never"}], "timeout": 600});
    host.inject("m1", &format!("{} [[say thanks]]", call("ask_user_question", &question)));
    let open = wait_for("the question", || {
        let list = json_of(&host, &["questions", "list", "--json"]);
        list["questions"].get(0).cloned()
    });
    assert_eq!((&open["state"], &open["chat"]), (&json!("open"), &json!("telegram/123")));
    assert!(results(&api).is_empty(), "it waits");
    host.done(&["questions", "answer", "qu1", "No"], b"");
    wait_for("the answer", || host.said().contains(&"thanks".to_owned()).then_some(()));
    assert_eq!(results(&api), [done("never")]);
    let hurried = json!({"title": "T", "question": "Q", "options": ["a"], "timeout": 1});
    host.inject("m2", &format!("{} [[say so be it]]", call("ask_user_question", &hurried)));
    wait_for("the end of its time", || host.said().contains(&"so be it".to_owned()).then_some(()));
    assert_eq!(results(&api).pop().unwrap(), refused("Error: Question timed out after 1s"));
    host.wait_settled();
    host.check();
}

#[test]
fn the_agent_asks_for_more_than_it_has() {
    let Some((host, api)) = with_cli() else { return };
    let script = [
        call("install_packages", &json!({"apt": ["jq"], "reason": "to read JSON"})),
        call("add_mcp_server", &json!({"name": "files", "command": "mcp-files", "args": ["--all"]})),
        call("create_agent", &json!({"name": "Research Bot", "instructions": "Find out."})),
        call("install_packages", &json!({"npm": ["pkg@1.0"]})),
        call("add_mcp_server", &json!({"name": "no good", "command": "x"})),
        "[[say waiting]]".to_owned(),
    ];
    host.inject("m1", &script.join(" "));
    wait_for("the answer", || host.said().contains(&"waiting".to_owned()).then_some(()));
    assert_eq!(
        results(&api),
        [
            done("Package install request submitted. You will be notified when admin approves or rejects."),
            done("MCP server request submitted. You will be notified when admin approves or rejects."),
            done("Creating agent \"Research Bot\". You will be notified when it is ready."),
            refused("Error: Invalid npm package name: \"pkg@1.0\". No version specs or shell characters."),
            refused(
                "Error: add_mcp_server failed: a name has 1 to 64 letters, digits, `_` or `-`, and is not `nanoclaw`."
            ),
        ]
    );
    assert_eq!(host.rows("approvals").len(), 3);
    host.done(&["approvals", "approve", "ap3"], b"");
    wait_for("the agent to hear of it", || {
        host.said().iter().any(|text| text.contains("Agent \"research-bot\" created.")).then_some(())
    });
    let destinations = json_of(&host, &["destinations", "list", "--json"]).to_string();
    assert!(destinations.contains("parent") && destinations.contains("research-bot"), "{destinations}");
    host.check();
}
