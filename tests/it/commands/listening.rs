//! Commands about mutes and following, and the output of `why` and `dropped` for them.

use super::program::Program;

const FILE: &str = "schema = 1\n[[agents]]\nfolder = \"main\"\n[[agents]]\nfolder = \"other\"\n\
    [[chats]]\nchannel = \"t\"\nplatform_id = \"spaces/A\"\ngroup = true\nunknown_senders = \"public\"\n\
    [[chats.wirings]]\nagent = \"main\"\nengage = \"mention-sticky\"\n";

fn event(id: &str, thread: &str, text: &str, mention: bool) -> String {
    serde_json::json!({
        "channelType": "t", "platformId": "spaces/A", "threadId": thread, "supportsThreads": true,
        "message": { "id": id, "isMention": mention, "content": { "text": text, "senderId": "7" } },
    })
    .to_string()
}

/// Arguments, the exit code, and the expected output.
const STEPS: &[(&[&str], i32, &str)] = &[
    (&["mutes", "list"], 0, "no mutes"),
    (&["mutes", "add", "main", "t/spaces/A/th1"], 0, "created   mute t/spaces/A (thread th1) of main"),
    (&["mutes", "add", "main", "t/spaces/A", "--thread", "th1"], 0, "unchanged mute t/spaces/A (thread th1) of main"),
    (&["mutes", "add", "main", "mg1/th2"], 0, "created   mute t/spaces/A (thread th2) of main"),
    (&["mutes", "add", "main", "t/spaces/A"], 0, "created   mute t/spaces/A of main"),
    (&["mutes", "list"], 0, " main   t/spaces/A  th1     "),
    (&["mutes", "list", "other"], 0, "no mutes"),
    (&["mutes", "remove", "main", "mg1"], 0, "removed   mute t/spaces/A of main"),
    (&["mutes", "remove", "main", "mg1"], 1, "t/spaces/A is not muted for main; `hearth mutes list` shows what is"),
    (&["mutes", "remove", "main", "mg1", "--thread", "th1"], 0, "removed   mute t/spaces/A (thread th1) of main"),
    (&["mutes", "add", "main", "--name", "18c2", "--note", "loud"], 0, "created   mute 18c2 of main"),
    (&["mutes", "add", "main", "--name", "18c2"], 0, "unchanged mute 18c2 of main"),
    (&["mutes", "list"], 0, "18c2  agent "),
    (&["mutes", "remove", "main", "--name", "18c2"], 0, "removed   mute 18c2 of main"),
    (
        &["mutes", "remove", "main", "--name", "18c2"],
        1,
        "18c2 is not muted for main; `hearth mutes list` shows what is",
    ),
    (&["mutes", "add", "main", "--name", "-100:\u{e9}", "--note", "- loud"], 0, "created   mute -100:\u{e9} of main"),
    (&["mutes", "remove", "main", "--name", "-100:\u{e9}"], 0, "removed   mute -100:\u{e9} of main"),
    (&["mutes", "add", "main", "--name", ""], 1, "the name is empty"),
    (&["mutes", "add", "main", "--name", "a\nb"], 1, "the name"),
    (&["mutes", "add", "main", "mg1", "--name", "x"], 2, "cannot be used with"),
    (&["mutes", "add", "main", "mg1", "--note", "x"], 2, "cannot be used with"),
    (&["mutes", "add", "nobody", "--name", "x"], 1, "agent nobody not found; see `hearth agents list`"),
    (&["mutes", "add", "nobody", "mg1"], 1, "agent nobody not found; see `hearth agents list`"),
    (
        &["mutes", "add", "main", "t/spaces"],
        1,
        "chat t/spaces not found; did you mean `t/spaces/A`? `hearth chats list` shows all",
    ),
    (&["mutes", "add", "main", "mg9"], 1, "chat mg9 not found"),
    (&["mutes", "add", "main", "spaces"], 1, "`spaces` is not a chat"),
    (&["mutes", "add", "main", "mg1/a", "--thread", "b"], 1, "includes the thread a, but --thread says b"),
    (&["mutes", "add", "../x", "mg1"], 1, "`../x` cannot be an agent's folder"),
    (&["mutes", "add", "main"], 2, "CHAT[/THREAD]"),
    (&["mutes", "add", "main", "--note", "x"], 2, "CHAT[/THREAD]"),
    (&["sticky", "list"], 0, "no followed threads"),
    (&["sticky", "end", "main", "mg1"], 1, "main is not following t/spaces/A"),
    (&["sticky", "end", "main", "t/x"], 1, "chat t/x not found"),
    (&["check"], 0, "the store is sound"),
];

fn walk(program: &Program) {
    let file = program.file("hearth.toml", FILE);
    assert_eq!(program.run(&["apply", &file]).code, 0);
    for (args, code, expected) in STEPS {
        let told = program.run(args);
        assert_eq!(told.code, *code, "{args:?}: {told:?}");
        let text = if *code == 0 { &told.out } else { &told.err };
        assert!(text.contains(expected), "{args:?}\n{text}");
    }
    assert_eq!(program.run_with(&["inject", "--json"], &event("m1", "th1", "bot, hello", true)).code, 0);
    let listed = program.run(&["sticky", "list"]).out;
    assert!(listed.contains(" main   t/spaces/A  th1 "), "{listed}");
    let json: serde_json::Value = serde_json::from_str(&program.run(&["sticky", "list", "--json"]).out).unwrap();
    let row = &json["sticky"][0];
    assert_eq!(
        (row["agent"].as_str(), row["chat"].as_str(), row["thread"].as_str()),
        (Some("main"), Some("t/spaces/A"), Some("th1"))
    );
    assert!(row["since"].as_str() < row["until"].as_str());
    let routed = program.run_with(&["inject", "--json"], &event("m2", "th1", "and this", false)).out;
    assert!(routed.contains("\"why\":\"sticky_thread\""), "{routed}");
    assert_eq!(program.run(&["sticky", "end", "main", "mg1/th1"]).code, 0);
    let routed = program.run_with(&["inject", "--json"], &event("m3", "th1", "nor this", false)).out;
    assert!(routed.contains("not_mentioned"), "{routed}");
}

#[test]
fn on_a_stopped_store() {
    walk(&Program::new());
}

#[test]
fn through_a_daemon() {
    let program = Program::new();
    let _daemon = program.daemon();
    walk(&program);
}

/// `engage = "mention-sticky"` by command and by file, and exported unchanged.
#[test]
fn the_mode_can_be_written_and_read() {
    let program = Program::new();
    let file = program.file("hearth.toml", FILE);
    program.run(&["apply", &file]);
    let exported = program.run(&["export"]).out;
    assert!(exported.contains("engage = \"mention-sticky\""), "{exported}");
    let copy = program.file("copy.toml", &exported);
    assert!(program.run(&["apply", &copy]).out.lines().all(|line| line.starts_with("unchanged")));
    let told = program.run(&["wirings", "add", "mg1", "other", "--engage", "mention-sticky"]);
    assert_eq!(told.code, 0, "{told:?}");
    let told = program.run(&["wirings", "set", "mg1", "other", "--engage", "mention"]);
    assert!(told.out.contains("engage: mention-sticky -> mention"), "{told:?}");
}

/// Every refusal appears in `why` and `dropped` with its reason and the possible remedy.
#[test]
fn why_says_what_was_muted_filtered_and_denied() {
    let program = Program::new();
    let file = program.file("hearth.toml", FILE);
    program.run(&["apply", &file]);
    program.run(&["mutes", "add", "main", "mg1/th1"]);
    for (id, thread, text, decision, reason) in [
        ("m1", "th1", "hello", "ignored", "thread_muted"),
        ("m2", "th2", "/login", "filtered", "command_filtered"),
        ("m3", "th2", "/clear", "denied", "command_denied"),
    ] {
        let routed = program.run_with(&["inject", "--json"], &event(id, thread, text, true)).out;
        assert!(routed.contains(reason), "{routed}");
        let json: serde_json::Value = serde_json::from_str(&program.run(&["why", id, "--json"]).out).unwrap();
        let wiring = &json["events"][0]["wirings"][0];
        assert_eq!((wiring["decision"].as_str(), wiring["reason"].as_str()), (Some(decision), Some(reason)));
    }
    let dropped = program.run(&["dropped"]).out;
    assert!(
        dropped.contains("`hearth mutes list` shows all mutes") && dropped.contains("the command needs a role"),
        "{dropped}"
    );
}

/// Context that no longer fits into a prompt is still stored, and `why` says so.
#[test]
fn why_says_what_was_capped() {
    let program = Program::new();
    let file = FILE.replace("folder = \"main\"", "folder = \"main\"\nmax_prompt_messages = 1");
    let file = program.file("hearth.toml", &format!("{file}ignored = \"accumulate\"\n"));
    assert_eq!(program.run(&["apply", &file]).code, 0);
    for (id, mention) in [("m1", false), ("m2", false), ("m3", true)] {
        program.run_with(&["inject", "--json"], &event(id, "th1", "words", mention));
    }
    for (id, state, words) in
        [("m1", "completed", "beyond the context limit of the agent"), ("m2", "pending", ""), ("m3", "pending", "")]
    {
        let json: serde_json::Value = serde_json::from_str(&program.run(&["why", id, "--json"]).out).unwrap();
        let message = &json["events"][0]["messages"][0];
        assert_eq!(message["state"], state, "{id}");
        assert!(message["words"].as_str().unwrap().contains(words), "{id}: {message}");
    }
}

/// A text may have more different words than searches know.
#[test]
fn why_says_which_words_searches_do_not_find() {
    let program = Program::new();
    let file = program.file("hearth.toml", FILE);
    program.run(&["apply", &file]);
    let words: Vec<String> = (0..1_100).map(|number| format!("w{number}")).collect();
    program.run_with(&["inject", "--json"], &event("m1", "th1", &words.join(" "), true));
    let why = program.run(&["why", "m1"]).out;
    assert!(why.contains("it has more than 1000 different ones"), "{why}");
    let found = |word: &str| program.run(&["search", word]).out.contains("ms1");
    assert_eq!((found("w7"), found("w1099")), (true, false));
}
