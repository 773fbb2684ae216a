//! Every text that a stranger or an agent can send is shown as text, wherever it is shown.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Console;
use super::asking::{ask, asking, say, skip, visit_all};
use super::driver::Browser;
use crate::host::{Host, event, wait_for, with_chat};

/// Something that would run in a page that does not escape it, after a mark that says where it came from.
fn hostile(mark: &str) -> String {
    format!("{mark}\"'><img src=x onerror=window.xss=1><script>window.xss=1</script><svg onload=window.xss=1>")
}

/// The same as part of a file's name.
fn hostile_name(mark: &str) -> String {
    format!("{mark}\"'><img src=x onerror=window.xss=1>")
}

/// A console whose agents, people and chats have such names. JSON's texts are also TOML's.
fn named() -> Console {
    let name = |mark: &str| Value::from(hostile(mark)).to_string();
    asking(&format!(
        "[[agents]]\nfolder = \"main\"\nname = {}\n[[agents]]\nfolder = \"other\"\nname = {}\n\
         [[users]]\nid = \"telegram:5\"\nname = {}\nmember_of = [\"main\"]\n\
         [[chats]]\nchannel = \"telegram\"\nplatform_id = \"77\"\nname = {}\nunknown_senders = \"request_approval\"\n\
         [[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \".\"\n",
        name("agent-name"),
        name("other-name"),
        name("person-name"),
        name("chat-name")
    ))
}

/// What comes from outside: messages of strangers, chats, tasks, memory, a browser's name.
fn from_outside(console: &Console) {
    let mut stranger = event("s1", &hostile("stranger-text"));
    stranger["platformId"] = "77".into();
    stranger["message"]["content"]["senderId"] = hostile("stranger-id").into();
    stranger["message"]["content"]["senderName"] = hostile("stranger-name").into();
    stranger["message"]["content"]["attachments"] = json!([{"name": hostile_name("stranger-file"), "data": "YQ=="}]);
    let mut chat = event("s2", "Hello?");
    chat["platformId"] = hostile("chat-id").into();
    chat["message"]["isMention"] = true.into();
    for said in [stranger, chat] {
        console.host.done(&["inject", "--json"], said.to_string().as_bytes());
    }
    console.host.done(&["tasks", "add", "main", &hostile("task-prompt"), "--every", "2h", "--no-chat"], b"");
    let memory = console.host.data().join("groups/main/memory");
    std::fs::create_dir_all(&memory).unwrap();
    std::fs::write(memory.join(format!("{}.md", hostile_name("memory-file"))), hostile("memory-text")).unwrap();
    let form = format!("code={}", console.code(&[]));
    let browser = format!("Origin: http://{}\r\nUser-Agent: {}\r\n", console.here(), hostile("browser-name"));
    assert_eq!(console.post_with("/sign-in", &browser, &form).status, 303);
}

/// What the person and the agent say in the chat. A question comes last, because the agent waits for its answer.
fn from_the_chat(browser: &mut Browser, console: &Console) {
    let file = console.host.path(&hostile_name("sent-file"));
    std::fs::write(&file, "a").unwrap();
    browser.go(&format!("http://{}/chat/main", console.here()));
    browser.step(&json!({"choose": [file], "in": "input[type=file]"}));
    browser.eval("document.querySelector('#say button').click()");
    browser.wait("document.querySelectorAll('.line.person').length === 1");
    skip(console, &hostile("skip-reason"), &hostile("skip-item"));
    say(browser, console, &hostile("said"));
    // The agent takes all that waits for a turn as one text, and asks only if that begins with its command.
    browser.wait("[...document.querySelectorAll('.line.agent')].some(line => line.innerText.includes('said\"'))");
    for wanted in [
        json!({"action": "create_agent", "name": "Helper", "instructions": hostile("instructions")}),
        json!({"action": "install_packages", "apt": ["jq"], "reason": hostile("package-reason")}),
        json!({"action": "add_mcp_server", "name": "files", "command": hostile("mcp-command"), "args": [hostile("mcp-arg")]}),
        json!({"action": "ask_user_question", "title": hostile("title"), "question": hostile("question"),
               "options": [{"label": hostile("label"), "value": hostile("value")}]}),
    ] {
        let open = || console.host.rows("approvals").len() + console.host.rows("questions").len();
        let before = open();
        ask(browser, console, &wanted);
        // The agent reads only the newest message of a turn.
        wait_for("what the agent asks for", || (open() > before).then_some(()));
    }
    wait_for("the question", || (console.host.rows("questions").len() == 1).then_some(()));
    wait_for("the skip", || (console.host.rows("skips").len() == 1).then_some(()));
}

/// What strangers and agents may have put into a page besides text.
const FOREIGN: &str = "document.querySelectorAll('img, body script, [onerror], [onload], iframe, object').length";

#[test]
fn every_text_from_outside_is_shown_as_text_on_every_page() {
    let Some(mut browser) = Browser::start() else { return };
    let console = named();
    from_outside(&console);
    browser.sign_in(&console, &[]);
    from_the_chat(&mut browser, &console);
    let mut shown: BTreeMap<String, String> = BTreeMap::new();
    visit_all(&mut browser, &console, |browser, path| {
        shown.insert(path.to_owned(), harmless(browser, path));
    });
    let found = console.get("/search?q=said", &console.sign_in(&[])).body;
    assert!(found.contains("&lt;script&gt;") && !found.contains("<script>window"), "{found}");
    for (page, marks) in [
        (
            "/",
            "agent-name other-name chat-name stranger-text stranger-name stranger-file question label mcp-command skip-reason",
        ),
        (
            "/asked",
            "stranger-text stranger-file chat-id instructions package-reason mcp-command mcp-arg title \
                    question label skip-reason skip-item",
        ),
        ("/chat/main", "agent-name said sent-file title question label"),
        ("/agents", "agent-name other-name"),
        ("/agents/main", "agent-name"),
        ("/tasks", "task-prompt"),
        ("/people", "person-name chat-name"),
        ("/memory", "memory-file"),
        ("/sessions", "browser-name"),
    ] {
        let text = shown.get(page).unwrap_or_else(|| panic!("{page} was not opened: {:?}", shown.keys()));
        for mark in marks.split_whitespace() {
            assert!(text.contains(mark), "{page} does not show {mark}: {text}");
        }
        assert!(text.contains("<img src=x onerror=window.xss=1>"), "{page}: {text}");
    }
    let all: String = shown.values().map(String::as_str).collect();
    assert!(all.contains("memory-text") && all.contains("said\"'><img"), "{:?}", shown.keys());
    assert_eq!(browser.step(&json!({"noise": true})), json!([]));
}

/// An agent of whose words all are hostile. It works until there is a file `go`.
const AT_WORK: &str = r#"
import json, os, sys, time
def bad(mark):
    return mark + "\"'><img src=x onerror=window.xss=1><script>window.xss=1</script><svg onload=window.xss=1>"
def line(**what):
    print(json.dumps(what), flush=True)
for text in sys.stdin:
    turn = json.loads(text)
    if turn["type"] != "turn":
        continue
    said = turn["messages"][-1]["content"]["text"]
    if said == "fail":
        line(type="error", message=bad("error-text"))
        continue
    if said == "ask":
        line(type="request", id="q1", content={"action": "use_tool", "tool": "Bash", "kind": "",
             "folder": "/" + bad("tool-folder"), "input": {"command": bad("tool-command"), bad("tool-field"): bad("tool-value")}})
        continue
    line(type="tool", name=bad("tool-name"), timeout_ms=600000)
    while not os.path.exists("go"):
        time.sleep(0.05)
    line(type="tool_done")
    name = "agent-file\"'><img src=x onerror=window.xss=1>"
    open(name, "w").write("a")
    line(type="say", text=bad("answer-text"), files=[name])
    line(type="usage", model=bad("model-name"), input=1840, output=96, cost_micros=6960)
    line(type="done")
"#;

/// What a page shows. No text on it became a part of it, or ran.
fn harmless(browser: &mut Browser, path: &str) -> String {
    assert_eq!(browser.eval("typeof window.xss"), "undefined", "{path}: a text ran");
    assert_eq!(browser.eval(FOREIGN), 0, "{path}: a text became a part of the page");
    browser.text()
}

#[test]
fn every_text_of_an_agent_at_work_is_shown_as_text() {
    let Some(mut browser) = Browser::start() else { return };
    let host = Host::new();
    let program = host.path("agent.py");
    std::fs::write(&program, AT_WORK).unwrap();
    host.apply(&with_chat(&format!(
        "provider = \"command\"\ncommand = [\"python3\", {:?}]\nunconfined = true\ntools = {{ rules = [{{ ask = \"Bash\" }}] }}",
        program.display()
    )));
    let console = Console::of(host, "");
    browser.sign_in(&console, &[]);
    say(&mut browser, &console, "work");
    browser.wait("document.querySelector('.working')?.innerText.includes('tool-name')");
    harmless(&mut browser, "the chat of an agent at work");
    browser.go(&format!("http://{}/", console.here()));
    assert!(harmless(&mut browser, "/").contains("tool-name"), "{}", browser.text());
    std::fs::write(console.host.data().join("groups/main/go"), "").unwrap();
    console.host.wait_settled();
    say(&mut browser, &console, "fail");
    console.host.wait_settled();
    say(&mut browser, &console, "ask");
    wait_for("the question", || (console.host.rows("approvals").len() == 1).then_some(()));
    let mut all = String::new();
    visit_all(&mut browser, &console, |browser, path| all += &harmless(browser, path));
    for mark in [
        "answer-text",
        "agent-file",
        "model-name",
        "error-text",
        "tool-folder",
        "tool-command",
        "tool-field",
        "tool-value",
    ] {
        assert!(all.contains(mark), "no page shows {mark}: {all}");
    }
    assert_eq!(browser.step(&json!({"noise": true})), json!([]));
}

#[test]
fn what_an_agent_is_writing_is_shown_as_text() {
    let Some(mut browser) = Browser::start() else { return };
    let console = Console::start();
    browser.sign_in(&console, &[]);
    say(&mut browser, &console, &format!("!write 3s {}\nthe answer", hostile("partial-text")));
    browser.wait("document.querySelector('.partial')?.innerText.includes('partial-text')");
    assert!(harmless(&mut browser, "the chat").contains("<script>window.xss=1</script>"));
}
