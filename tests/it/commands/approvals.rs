//! `hearth approvals`, and the output of `why` and `status` for open approvals.

use super::program::{Program, masked};

const FILE: &str = r#"schema = 1
[[agents]]
folder = "andy"
name = "Andy"
[[agents]]
folder = "bob"
[[users]]
id = "terminal:4242"
roles = ["owner"]
[[chats]]
channel = "net"
platform_id = "1"
name = "Family"
[[chats.wirings]]
agent = "andy"
engage = "pattern"
pattern = "."
"#;

fn event(id: &str, chat: &str, who: &str, text: &str) -> String {
    serde_json::json!({
        "channelType": "net", "platformId": chat,
        "message": {
            "id": id, "isMention": true, "timestamp": "2026-04-20T12:00:00Z",
            "content": { "text": text, "senderId": who, "senderName": "Ann" },
        },
    })
    .to_string()
}

fn json(program: &Program, args: &[&str]) -> serde_json::Value {
    let told = program.run(args);
    serde_json::from_str(&told.out).unwrap_or_else(|error| panic!("{error}: {told:?}"))
}

/// `why` takes the id of a held message that a search shows.
fn explains_what_it_finds(program: &Program) {
    let found = json(program, &["search", "--json", "m2"]);
    let id = found["found"][0]["id"].as_str().unwrap_or_else(|| panic!("{found}"));
    let why = json(program, &["why", id, "--json"]);
    assert_eq!(
        (&why["approval"]["approval"], &why["events"][0]["wirings"][0]["decision"]),
        (&"ap1".into(), &"held".into())
    );
}

/// The same on a stopped store and through a daemon.
fn walk(program: &Program) {
    let file = program.file("hearth.toml", FILE);
    program.run(&["apply", &file]);
    assert_eq!(program.run(&["approvals", "list"]).out, "no open approvals\n");
    for (id, who) in [("m1", "s1"), ("m2", "s1"), ("m3", "s2")] {
        let told = program.run_with(&["inject", "--json"], &event(id, "1", who, &format!("words {id}")));
        assert!(told.out.contains(r#""outcome":"held","reason":"unknown_sender_request_approval""#), "{told:?}");
    }
    program.run_with(&["inject", "--json"], &event("m4", "2", "s3", "a new chat"));
    let listed = json(program, &["approvals", "list", "--json"]);
    let row = |n: usize, key: &str| listed["approvals"][n][key].clone();
    let first = |n: usize| row(n, "about").as_str().unwrap().lines().next().unwrap().to_owned();
    // The newest first.
    assert_eq!(
        first(2),
        "\"net:s1\", named “Ann”, asks to talk to “Andy” (andy) in the direct message \"net/1\", named “Family”."
    );
    assert_eq!((row(2, "held"), row(1, "held")), (2.into(), 1.into()));
    assert_eq!((row(2, "approver"), row(0, "kind")), ("terminal:4242".into(), "channel".into()));
    assert_eq!(
        first(0),
        "\"net:s3\", named “Ann”, addressed the bot in the direct message \"net/2\", where no agent listens."
    );
    let page = json(program, &["approvals", "list", "--limit", "2", "--page", "2", "--json"]);
    assert_eq!((&page["approvals"][0]["approval"], &page["approvals"][1]), (&"ap1".into(), &serde_json::Value::Null));
    assert_eq!((&page["page"], &page["total"]), (&2.into(), &3.into()));
    let table = program.run(&["approvals", "list"]);
    assert!(table.out.contains("named “Family”. [and 1 more line]"), "{table:?}");
    assert!(table.err.contains("`hearth approvals show ID` shows everything"), "{table:?}");
    let shown = json(program, &["approvals", "show", "ap1", "--json"]);
    assert_eq!(shown["options"][1], serde_json::json!({ "label": "Deny", "value": "reject" }));
    assert_eq!(shown["messages"][1]["text"], "words m2");
    let held = json(program, &["why", "m1", "--json"]);
    assert_eq!(held["events"][0]["wirings"][0]["decision"], "held");
    assert_eq!(json(program, &["status", "--json"])["approvals"]["held"], 4);
    explains_what_it_finds(program);

    for (args, code, expected) in [
        (&["approvals", "show", "ap9"][..], 1, "approval ap9 not found"),
        (&["approvals", "approve", "ap9"], 1, "approval ap9 not found"),
        (&["approvals", "approve", "3"], 2, "`3` is not an id like ap12"),
        (
            &["approvals", "approve", "ap3"],
            1,
            "ap3 does not say which agent listens in this chat: `hearth approvals approve ap3 --agent andy` or `hearth \
             approvals approve ap3 --agent bob`; or `hearth approvals approve ap3 --new NAME`",
        ),
        (&["approvals", "approve", "ap3", "--agent", "nobody"], 1, "agent nobody not found"),
        (&["approvals", "approve", "ap3", "--agent", "bob", "--new", "X"], 2, "cannot be used with"),
        (&["approvals", "approve", "ap3", "--new", " "], 1, "That is not a name"),
        (&["approvals", "approve", "ap1"], 0, "ap1 ✅ Allowed"),
        (&["approvals", "approve", "ap1"], 1, "ap1 was already approved"),
        (&["approvals", "reject", "ap2"], 0, "ap2 ❌ Denied"),
        (&["approvals", "approve", "ap3", "--agent", "bob"], 0, "ap3 ✅ Connected to bob"),
        (&["approvals", "list"], 0, "no open approvals"),
        (&["members", "list"], 0, " andy   net:s1"),
        (&["dropped"], 0, "the approver rejected it"),
        (&["check"], 0, "the store is sound"),
    ] {
        let told = program.run(args);
        assert_eq!(told.code, code, "{args:?}: {told:?}");
        let text = if code == 0 { &told.out } else { &told.err };
        assert!(text.contains(expected), "{args:?}\n{text}");
    }
    let all = json(program, &["approvals", "list", "--all", "--json"]);
    let states: Vec<_> = all["approvals"].as_array().unwrap().iter().map(|one| one["state"].clone()).collect();
    assert_eq!(states, ["approved", "rejected", "approved"]);
    let why = program.run(&["why", "m1"]).out;
    assert!(why.contains("waited for a decision: ap1") && why.contains("ap1 was approved: by the operator"), "{why}");
    let why = program.run(&["why", "m3"]).out;
    assert!(why.contains("ap2 was rejected: by the operator"), "{why}");
}

#[test]
fn approvals_are_decided_on_a_stopped_store() {
    let fresh = Program::before_the_first_start();
    assert_eq!(fresh.run(&["approvals", "approve", "ap1"]).code, 1);
    assert!(!fresh.has_store(), "deciding makes no store");
    walk(&Program::new());
}

#[test]
fn approvals_are_decided_through_a_daemon() {
    let program = Program::new();
    let _daemon = program.daemon();
    program.remove_local_owner();
    walk(&program);
}

#[test]
fn what_waits_is_explained() {
    let program = Program::new();
    let file = program.file("hearth.toml", FILE);
    program.run(&["apply", &file]);
    program.run_with(&["inject", "--json"], &event("m1", "1", "s1", "hello"));
    insta::assert_snapshot!("approvals_show", masked(&program.run(&["approvals", "show", "ap1"]).out));
    insta::assert_snapshot!("why_held", masked(&program.run(&["why", "latest"]).out));
    let status = program.run(&["status"]).out;
    let words = "1 message waits for them; 1 card is not delivered yet; see `hearth approvals show ID`";
    let decide = status.find("TO DECIDE (1)").unwrap();
    assert!(status.contains(words) && decide < status.find("PROBLEMS").unwrap(), "{status}");
}
