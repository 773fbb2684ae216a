//! The commands as people type them: the real program, on a stopped store and beside a daemon.

mod approvals;
mod listening;
mod names;
mod program;
mod words;

use program::{Program, masked};

/// Arguments, the exit code, and the expected output.
type Step<'a> = (&'a [&'a str], i32, &'a str);

/// Creates, changes and removes entities. Every step prints the same with and without a daemon.
const ENTITIES: &[Step<'_>] = &[
    (&["agents", "list"], 0, "no agents"),
    (&["agents", "add", "helper", "--max-parallel", "2"], 0, "created   agent helper"),
    (&["agents", "add", "helper"], 1, "agent helper already exists; `hearth agents set` changes it"),
    (
        &["agents", "set", "helper", "--model", "large", "--env", "KEY=env:X", "--env", "PLAIN=hunter2"],
        0,
        "updated   agent helper\n            env: (default) -> KEY=env:X, PLAIN=…\n            model: (default) -> large",
    ),
    (
        &["agents", "set", "helper", "--env", "PLAIN=hunter22"],
        0,
        "env: KEY=env:X, PLAIN=… -> KEY=env:X, PLAIN=… (another one)",
    ),
    (
        &["agents", "set", "helper", "--clear", "model", "--unset-env", "PLAIN"],
        0,
        "updated   agent helper\n            env: KEY=env:X, PLAIN=… -> KEY=env:X\n            model: large -> (default)",
    ),
    (&["agents", "set", "helper"], 0, "unchanged agent helper"),
    (
        &["agents", "set", "helper", "--allow-host-loopback", "--request-env", "WEATHER_KEY"],
        0,
        "updated   agent helper\n            allow_host_loopback: false -> true\n            request_env: (default) -> WEATHER_KEY",
    ),
    (&["agents", "set", "helper", "--request-env", "A=b"], 1, "`A=b` is not the name of a variable"),
    (
        &["agents", "set", "helper", "--clear", "request_env", "--clear", "allow_host_loopback"],
        0,
        "updated   agent helper\n            request_env: WEATHER_KEY -> (default)\n            allow_host_loopback: true -> false",
    ),
    (&["agents", "set", "nobody"], 1, "agent nobody not found; see `hearth agents list`"),
    (&["chats", "add", "telegram/1", "--name", "Family", "--group"], 0, "created   chat telegram/1"),
    (&["wirings", "add", "telegram/1", "helper", "--pattern", "^!"], 0, "created   wiring telegram/1 -> helper"),
    (
        &["wirings", "set", "mg1", "helper", "--priority", "-3"],
        0,
        "updated   wiring telegram/1 -> helper\n            priority: 0 -> -3",
    ),
    (
        &["wirings", "set", "mg1", "helper", "--context-from", "known"],
        0,
        "updated   wiring telegram/1 -> helper\n            context_from: (default) -> known",
    ),
    (&["wirings", "set", "mg1", "helper", "--context-from", "all"], 1, "`context_from` cannot be \"all\""),
    (&["wirings", "set", "mg1", "helper", "--context-from", "default"], 0, "context_from: known -> (default)"),
    (&["wirings", "add", "telegram/1", "nobody"], 1, "agent nobody not found; see `hearth agents list`"),
    (&["wirings", "add", "telegram/1", "helper"], 1, "wiring telegram/1 -> helper already exists"),
    (&["destinations", "list"], 0, " helper  family  telegram/1"),
    (&["destinations", "add", "helper", "home", "--chat", "mg1"], 0, "created   destination helper -> home"),
    (&["destinations", "add", "helper", "Home", "--chat", "mg1"], 1, "`Home` cannot be a destination's name"),
    (&["destinations", "remove", "helper", "home"], 0, "removed   destination helper -> home"),
    (&["destinations", "remove", "helper", "home"], 1, "helper has no destination home"),
    (&["users", "add", "telegram:55", "--name", "Ann"], 0, "created   user telegram:55"),
    (&["roles", "grant", "telegram:55", "admin:helper"], 0, "created   role telegram:55 admin:helper"),
    (&["roles", "grant", "telegram:55", "admin:helper"], 0, "unchanged role telegram:55 admin:helper"),
    (
        &["roles", "grant", "telegram:55", "king"],
        1,
        "\"king\" is not a role; write \"owner\", \"admin\" or \"admin:<folder>\"",
    ),
    (&["roles", "revoke", "telegram:55", "owner"], 1, "telegram:55 does not have the role owner"),
    (&["members", "add", "helper", "telegram:66"], 0, "created   member telegram:66 of helper"),
    (&["members", "list"], 0, " helper  telegram:66"),
    (&["users", "set", "telegram:66", "--roles", "owner"], 0, "            roles: (default) -> owner"),
    (&["users", "list"], 0, " telegram:66        owner         helper     runtime"),
    (&["chats", "deny", "telegram/1"], 0, "updated   chat telegram/1"),
    (&["chats", "deny", "telegram/1"], 0, "unchanged chat telegram/1"),
    (&["chats", "allow", "telegram/1"], 0, "updated   chat telegram/1"),
    (&["chats", "allow", "telegram/2"], 1, "chat telegram/2 not found"),
    (&["chats", "deny", "telegram/2"], 0, "created   chat telegram/2"),
    (&["chats", "remove", "telegram/2"], 0, "removed   chat telegram/2"),
    (&["members", "remove", "helper", "telegram:66"], 0, "removed   member telegram:66 of helper"),
    (&["users", "remove", "telegram:66", "--force"], 0, "removed   user telegram:66"),
    (&["wirings", "remove", "telegram/1", "helper"], 0, "removed   wiring telegram/1 -> helper"),
    (&["chats", "remove", "telegram/1"], 0, "removed   chat telegram/1"),
    (&["agents", "remove", "helper"], 0, "removed   agent helper"),
    (&["roles", "list"], 0, "no roles"),
    (&["members", "list", "helper"], 1, "agent helper not found; see `hearth agents list`"),
    (&["destinations", "list", "helper"], 1, "agent helper not found; see `hearth agents list`"),
    (&["sessions", "list", "helper"], 1, "agent helper not found; see `hearth agents list`"),
    (&["sessions", "show", "se1"], 1, "session se1 not found; see `hearth sessions list`"),
    (&["sessions", "list"], 0, "no sessions"),
    (&["dropped"], 0, "no dropped messages"),
    (&["check"], 0, "the store is sound"),
];

fn walk(program: &Program) {
    for (args, code, expected) in ENTITIES {
        let told = program.run(args);
        assert_eq!(told.code, *code, "{args:?}: {told:?}");
        let text = if *code == 0 { &told.out } else { &told.err };
        assert!(text.contains(expected), "{args:?}\n{text}");
        assert!(!told.out.contains("hunter2"), "{args:?}: {told:?}");
    }
}

#[test]
fn entities_are_changed_on_a_stopped_store() {
    walk(&Program::new());
}

#[test]
fn entities_are_changed_through_a_daemon() {
    let program = Program::new();
    let _daemon = program.daemon();
    program.remove_local_owner();
    walk(&program);
}

/// Commands refuse what hearth.toml refuses, with the same text. Wrong usage has its own exit code.
#[test]
fn values_are_refused_as_in_a_file() {
    let program = Program::before_the_first_start();
    for (args, code, expected) in [
        (
            &["agents", "add", "a", "--provider", "cloude"][..],
            1,
            "`provider` cannot be \"cloude\"; write \"echo\" or \"command\" or \"claude\"",
        ),
        (
            &["agents", "add", "a", "--max-parallel", "0"],
            1,
            "`max_parallel` cannot be 0; write a number from 1 to 1000",
        ),
        (&["agents", "add", "a", "--max-parallel", "x"], 1, "`max_parallel` is a string; write a whole number"),
        (&["agents", "add", "../a"], 1, "`../a` cannot be an agent's folder"),
        (&["agents", "add", "a", "--env", "HOME=/"], 1, "`HOME` is set by Hearth"),
        (&["chats", "add", "telegram/1", "--unknown-senders", "ask"], 1, "`unknown_senders` cannot be \"ask\""),
        (&["users", "add", "ann"], 1, "`ann` is not a user id like telegram:123"),
        (&["chats", "show", "telegram"], 2, "`telegram` is not a chat"),
        (&["agents", "set", "a", "--clear", "folder"], 2, "invalid value 'folder'"),
        (&["sweep"], 2, "--once"),
        (&["why"], 2, "MESSAGE"),
        (&["why", "latest"], 1, "run `hearth up`, or name another data directory"),
        (&["sweep", "--once"], 1, "run `hearth up`, or name another data directory"),
        (&["apply", "/dev/null"], 1, "`schema` is missing"),
        (&["apply", "/dev/null", "--prune"], 1, "`schema` is missing"),
        (&["apply", "/no/such"], 1, "give a file like hearth.toml, or `-` for standard input"),
        (&["agents", "remove", "a"], 1, "there is no store"),
        (&["agents", "remove", "../a", "--purge"], 1, "`../a` cannot be an agent's folder"),
        (&["users", "remove", "t:1"], 1, "there is no store"),
        (&["chats", "allow", "t/1"], 1, "chat t/1 not found"),
    ] {
        let told = program.run(args);
        assert_eq!(told.code, code, "{args:?}: {told:?}");
        assert!(told.err.contains(expected), "{args:?}\n{}", told.err);
    }
    assert!(!program.has_store(), "what is refused makes no store");
    let program = Program::new();
    for (args, expected) in [
        (&["agents", "remove", "a"][..], "agent a not found; see `hearth agents list`"),
        (&["agents", "remove", "a", "--purge"], "agent a not found; see `hearth agents list`"),
        (&["users", "remove", "t:1"], "user t:1 not found; see `hearth users list`"),
    ] {
        let told = program.run(args);
        assert!(told.code == 1 && told.err.contains(expected), "{args:?}\n{}", told.err);
    }
}

const FILE: &str = "schema = 1\n[[agents]]\nfolder = \"a\"\n[[agents]]\nfolder = \"b\"\n\
    [[users]]\nid = \"t:1\"\nroles = [\"admin:b\"]\n[[chats]]\nchannel = \"t\"\nplatform_id = \"1\"\n\
    [[chats.wirings]]\nagent = \"a\"\n[[chats.wirings]]\nagent = \"b\"\n";

#[test]
fn a_file_is_shown_applied_pruned_and_written_again() {
    let program = Program::before_the_first_start();
    let file = program.file("hearth.toml", FILE);
    assert!(program.run(&["apply", &file, "--dry-run"]).out.contains("created   agent a"));
    assert!(!program.has_store(), "a rehearsal makes no store");
    assert_eq!(program.run(&["agents", "list"]).out, "no agents\n");
    assert_eq!(program.run(&["apply", &file]).code, 0);
    assert_eq!(program.run(&["agents", "add", "mine"]).code, 0);

    let exported = program.run(&["export"]).out;
    let copy = program.file("copy.toml", &exported);
    let again = program.run(&["apply", &copy]).out;
    assert!(again.lines().all(|line| line.starts_with("unchanged")), "{again}");

    let less = FILE.replace("[[agents]]\nfolder = \"b\"\n", "").replace("[[chats.wirings]]\nagent = \"b\"\n", "");
    let file = program.file("less.toml", &less.replace("roles = [\"admin:b\"]\n", "name = \"Ann\"\n"));
    let shown = program.run(&["apply", &file, "--prune", "--dry-run"]).out;
    let expected = "unchanged agent a\nupdated   user t:1\n            name: (default) -> Ann\nunchanged chat t/1\n\
        unchanged wiring t/1 -> a\nremoved   wiring t/1 -> b\nremoved   agent b\nreset, because the file omits the key:\n  \
        user t:1: this person loses roles: `roles` admin:b -> (default)\n";
    assert_eq!(shown, expected);
    assert_eq!(program.run(&["apply", &file, "--prune"]).out, expected);
    assert!(program.run(&["agents", "list"]).out.contains("mine"), "what no file made stays");
    assert_eq!(program.run(&["check"]).code, 0);
}

fn event(id: &str, chat: &str, text: &str) -> String {
    serde_json::json!({
        "channelType": "t", "platformId": chat, "threadId": null,
        "message": { "id": id, "isMention": true, "content": { "text": text, "senderId": "7", "senderName": "Ann" } },
    })
    .to_string()
}

#[test]
fn why_a_message_was_refused() {
    let program = Program::new();
    let file = program
        .file("hearth.toml", &FILE.replace("platform_id = \"1\"", "platform_id = \"1\"\nunknown_senders = \"strict\""));
    program.run(&["apply", &file]);
    program.run_with(&["inject", "--json"], &event("m1", "1", "hello"));
    insta::assert_snapshot!("why_refused", masked(&program.run(&["why", "m1"]).out));
    insta::assert_snapshot!("dropped", masked(&program.run(&["dropped"]).out));
    let json: serde_json::Value = serde_json::from_str(&program.run(&["why", "latest", "--json"]).out).unwrap();
    assert_eq!(json["events"][0]["wirings"][0]["reason"], "unknown_sender_strict");
    assert_eq!(json["events"][0]["wirings"][1]["agent"], "b");
    assert_eq!(program.run(&["why", "m2"]).code, 1);
}

#[test]
fn why_a_message_was_answered() {
    let program = Program::new();
    let _daemon = program.daemon();
    assert_eq!(program.run(&["chat", "hello there"]).code, 0);
    program.wait_for(&["why", "--text", "HELLO there", "--json"], |json| {
        json["events"][0]["messages"][0]["answers"][0]["state"] == "delivered"
    });
    insta::assert_snapshot!("why_routed", masked(&program.run(&["why", "ms1"]).out));
}

#[test]
fn why_a_message_failed() {
    let program = Program::new();
    let failing = "while read -r turn; do echo '{\"type\":\"error\",\"message\":\"out of order\"}'; done";
    let agent = ["agents", "add", "sick", "--provider", "command", "--unconfined"];
    let command = ["--command", "/bin/sh", "--command", "-c", "--command", failing];
    assert_eq!(program.run(&[&agent[..], &command[..]].concat()).code, 0);
    program.run(&["chats", "add", "t/1", "--unknown-senders", "public"]);
    program.run(&["wirings", "add", "t/1", "sick"]);
    program.run_with(&["inject", "--json"], &event("m1", "1", "hello"));
    let _daemon = program.daemon();
    program.wait_for(&["why", "m1", "--json"], |json| {
        let message = &json["events"][0]["messages"][0];
        message["state"] == "failed" && message["answers"][0]["words"] == "its channel is not running"
    });
    let next = regex::Regex::new(r"next try (now|in \d+ \w+)").unwrap();
    let why = masked(&program.run(&["why", "m1"]).out);
    insta::assert_snapshot!("why_failed", next.replace_all(&why, "next try <wait>"));
}

#[test]
fn a_sweep_is_rehearsed_at_any_time_and_done_at_another_one_only_on_a_stopped_store() {
    let program = Program::new();
    let file = program.file("hearth.toml", FILE);
    program.run(&["apply", &file]);
    assert_eq!(program.run(&["sweep", "--once"]).out, "nothing is due\n");
    assert_eq!(program.run(&["sweep", "--once", "--at", "2099-01-01T00:00:00Z"]).out, "nothing is due\n");
    let _daemon = program.daemon();
    assert_eq!(program.run(&["sweep", "--once"]).code, 0);
    assert_eq!(program.run(&["sweep", "--once", "--dry-run", "--at", "2099-01-01T00:00:00Z"]).code, 0);
    let told = program.run(&["sweep", "--once", "--at", "2099-01-01T00:00:00Z"]);
    assert_eq!(told.code, 1);
    assert!(told.err.contains("add --dry-run, or stop it"), "{}", told.err);
}

#[test]
fn the_doctor_says_what_is_wrong_and_how_to_mend_it() {
    let program = Program::before_the_first_start();
    let told = program.run(&["doctor"]);
    assert_eq!(told.code, 1);
    assert!(told.out.contains("create it with `hearth up`"), "{}", told.out);
    let program = Program::new();
    program.run(&["agents", "add", "a", "--provider", "command", "--unconfined", "--command", "no-such-program"]);
    let told = program.run(&["doctor", "--json"]);
    assert_eq!(told.code, 1);
    let json: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    let result = |name: &str| {
        let checks = json["checks"].as_array().unwrap();
        checks.iter().find(|check| check["check"] == name).unwrap()["result"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        ["data directory", "store", "room", "daemon", "owner", "agents", "program"].map(result),
        ["ok", "ok", "ok", "warn", "fail", "warn", "fail"]
    );
}

/// A store that cannot be opened exists: the message suggests neither creating another one nor retrying.
#[test]
fn a_store_that_cannot_be_opened_is_named_and_no_new_one_suggested() {
    let program = Program::new();
    program.run(&["agents", "add", "a", "--provider", "echo"]);
    let lock = std::path::PathBuf::from(program.path("data/store/lock.mdb"));
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    for command in [&["check"][..], &["status"], &["agents", "list"]] {
        let told = program.run(command);
        let place = format!("{}/lock.mdb is damaged: it is a directory", program.path("data/store"));
        assert!(told.code == 1 && told.err.contains(&place), "{command:?}: {}", told.err);
        assert!(told.err.contains("nothing was changed") && !told.err.contains("hearth up"), "{}", told.err);
    }
    let told = program.run(&["doctor"]).out;
    assert!(told.contains("lock.mdb is damaged") && !told.contains("hearth up` makes"), "{told}");
}

#[test]
fn the_doctor_counts_in_whole_sentences() {
    let program = Program::new();
    program.run(&["agents", "add", "slow", "--provider", "echo"]);
    program.run(&["chat", "hello", "--agent", "slow"]);
    program.run(&["agents", "add", "other", "--provider", "echo"]);
    let told = program.run(&["doctor"]);
    assert!(told.out.contains("other listens in no chat"), "{}", told.out);
    assert!(!told.out.contains("terminal/@"), "what a person hears alone is no chat to wire: {}", told.out);
    program.run(&["agents", "set", "slow", "--provider", "command", "--unconfined", "--command", "no-such-program"]);
    let processes = program.file("processes.toml", "schema = 1\nruntime = \"process\"\n");
    program.run(&["apply", &processes]);
    let told = program.run(&["doctor"]);
    assert!(told.err.contains("1 check failed; see above"), "{}", told.err);
}

#[test]
fn what_says_nothing_or_names_nothing_is_refused() {
    let program = Program::new();
    program.run(&["agents", "add", "a", "--provider", "echo"]);
    for (arguments, code, words) in [
        (&["chat", " "][..], 2, "the text is empty"),
        (&["chat", ""], 2, "the text is empty"),
        (&["dropped", "--chat", "no/such"], 1, "chat no/such not found"),
        (&["dropped", "--chat", "mg9"], 1, "chat mg9 not found"),
        (&["agents", "set", "a", "--timezone", ""], 1, "--clear timezone"),
    ] {
        let told = program.run(arguments);
        assert!(told.code == code && told.err.contains(words), "{arguments:?}: {}", told.err);
    }
    assert_eq!(program.run(&["dropped"]).out, "no dropped messages\n");
}

#[test]
fn completions_and_manual_pages_need_no_data_directory() {
    let program = Program::before_the_first_start();
    for (shell, part) in [("bash", "_hearth"), ("zsh", "#compdef hearth"), ("fish", "--command hearth")] {
        let script = program.run(&["completions", shell]).out;
        assert!(script.contains(part) && script.contains("HEARTH_COMPLETE"), "{shell}: {script}");
    }
    let dir = program.path("man");
    assert_eq!(program.run(&["man", &dir]).code, 0);
    assert!(std::path::Path::new(&dir).join("hearth-why.1").is_file());
    assert!(!program.has_store());
}
