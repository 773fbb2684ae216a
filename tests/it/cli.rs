//! Commands as people type them.

use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::host::pty::Pty;
use crate::host::{Host, Running, event, wait_for};

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn the_first_start_sets_everything_up_and_talks() {
    let host = Host::before_the_first_start();
    let ended = host.run(&["up"], b"one\ntwo\n\nthree\n");
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    // Lines that were typed while the agent started are answered together.
    let heard: Vec<String> = lines(&ended.stdout).iter().map(|line| line.replace("echo: ", "")).collect();
    assert_eq!(heard, ["one", "two", "three"], "{ended:#?}");
    assert!(ended.stderr.contains("data directory: "), "{ended:#?}");
    host.check();
    let again = host.run(&["up"], b"four\n");
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), "echo: four\n"), "{again:#?}");
    let mode = std::fs::metadata(host.data()).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o700);
}

#[test]
fn one_question_gets_its_answer_with_and_without_a_daemon() {
    let mut host = Host::new();
    assert_eq!(host.done(&["chat", "alone"], b""), "echo: alone\n");
    host.start();
    assert_eq!(host.done(&["chat", "with a daemon"], b""), "echo: with a daemon\n");
    assert_eq!(host.done(&["chat", "!say first\n!answer second\n!answer third"], b""), "first\nsecond\nthird\n");
    assert_eq!(host.done(&["chat", "!silence"], b""), "");
    for _ in 0..10 {
        let help = host.done(&["chat", "/help"], b"");
        assert!(help.contains("/status"), "Hearth's own answer is waited for: {help:?}");
    }
    let failed = host.run(&["chat", "!fail no luck"], b"");
    assert_eq!(failed.code, Some(1), "{failed:#?}");
    assert!(failed.stdout.contains("no luck"), "{failed:#?}");
    let json = host.done(&["chat", "--json", "as JSON"], b"");
    let said: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(said.iter().any(|line| line["is"] == "said" && line["text"] == "echo: as JSON"), "{json}");
    assert!(said.iter().any(|line| line["is"] == "settled" && line["state"] == "completed"), "{json}");
    host.check();
}

/// A person at a terminal sees that the agent is working and what it uses; programs read only answers.
#[test]
fn a_terminal_shows_what_the_agent_does() {
    let mut host = Host::new();
    host.env.push(("TERM".into(), "xterm".into()));
    host.start();
    let mut at = Pty::start(host.command(&["chat"]));
    at.wait("talking to main");
    at.type_keys("!tool Search - 4s\r");
    at.wait("main is working, ");
    at.wait(", using Search");
    at.type_keys("hello\r");
    at.wait("main: echo: hello");
    at.type_keys("exit\r");
    assert!(at.end().0.success());
    for words in ["quit", "/exit", "/quit", " Quit "] {
        let mut at = Pty::start(host.command(&["chat"]));
        at.wait("talking to main");
        at.type_keys(&format!("{words}\r"));
        let (ended, shown) = at.end();
        assert!(ended.success() && !shown.contains("echo:"), "{words}: {shown}");
    }
    let mut at = Pty::start(host.command(&["chat", "!tool Search - 4s"]));
    at.wait("main is working, ");
    at.wait(", using Search");
    assert!(at.end().0.success());
    let piped = host.run(&["chat", "!tool Search - 2s"], b"");
    assert_eq!(piped.code, Some(0), "{piped:#?}");
    assert!(!(piped.stdout + &piped.stderr).contains("working"));
}

/// A text is shown before it is complete, in the line that says that the agent works. Typing removes that line, and the
/// answer is shown once. Programs read answers only.
#[test]
fn a_terminal_shows_what_the_agent_writes() {
    let mut host = Host::new();
    host.env.push(("TERM".into(), "xterm".into()));
    host.start();
    let mut at = Pty::start(host.command(&["chat"]));
    at.wait("talking to main");
    at.type_keys("!write 3s a text that is not complete\r");
    at.wait("main is writing, ");
    at.wait(" s: a text that is not complete");
    at.type_keys("the answer\r");
    // The two rows above the input line: what was typed stays.
    at.wait("\x1b[2A\x1b[M");
    at.wait("main: echo: the answer");
    at.type_keys("exit\r");
    let (ended, shown) = at.end();
    assert!(ended.success() && shown.matches("main: echo: the answer").count() == 1, "{shown}");

    let mut at = Pty::start(host.command(&["chat", "!write 3s not complete\nthe answer"]));
    at.wait("main is writing, ");
    at.wait(" not complete");
    at.wait("echo: the answer");
    let (ended, shown) = at.end();
    assert!(ended.success() && shown.matches("echo: the answer").count() == 1, "{shown}");

    let piped = host.run(&["chat", "!write 1s not complete\nthe answer"], b"");
    assert_eq!((piped.code, piped.stdout.as_str()), (Some(0), "echo: the answer\n"), "{piped:#?}");
    assert!(!piped.stderr.contains("writing"), "{piped:#?}");
    host.check();
}

/// The words after `agent` belong to the agents' program, whatever they look like.
#[test]
fn the_commands_of_the_agents_side_are_reached() {
    let host = Host::before_the_first_start();
    let at = |name: &str| host.data().with_file_name(name);
    let run = |words: &[&str]| {
        let mut command = host.bare(env!("CARGO_BIN_EXE_hearth"));
        command.args(words).env("HEARTH_DATA", host.data());
        command.env("CLAUDE_SESSION_ID", "s1").env("HEARTH_ROOTS", r#"{"session":"/s","group":"/g","home":"/h"}"#);
        command.env("NANOCLAW_SENTINEL", at("sentinel")).env("NANOCLAW_STATE_PATH", at("state.json"));
        Running::start(command, b"").end()
    };
    let ended = run(&["agent", "needs-bootstrap", "--json", "--help"]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.stdout.contains("sentinel_missing"), "{ended:#?}");
    assert_eq!(run(&["agent", "register-session", "--help"]).code, Some(0));
    assert_eq!(run(&["agent", "needs-bootstrap"]).code, Some(1));
    assert_eq!(run(&["agent", "mute", "add", "-100", "--value", "{}"]).code, Some(0));
    assert!(!host.data().join("store").exists());
}

#[test]
fn questions_that_are_asked_at_once_are_all_answered() {
    let mut host = Host::new();
    host.start();
    host.done(&["chat", "first of all"], b"");
    let asking: Vec<Running> =
        (0..6).map(|number| Running::start(host.command(&["chat", &format!("question {number}")]), b"")).collect();
    for (number, asked) in asking.into_iter().enumerate() {
        let ended = asked.end();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert!(ended.stdout.contains(&format!("question {number}")), "{number}: {ended:#?}");
    }
    host.check();
}

/// Several commands without a daemon need the store, or to be the daemon, at the same time.
#[test]
fn commands_without_a_daemon_wait_for_each_other() {
    let host = Host::with_echo();
    let chats = (0..3).map(|number| host.command(&["chat", &format!("question {number}")]));
    let events = (0..3).map(|number| crate::host::event(&format!("m{number}"), "hello").to_string());
    let running: Vec<Running> = chats.map(|command| Running::start(command, b"")).collect();
    let injecting: Vec<Running> =
        events.map(|event| Running::start(host.command(&["inject", "--json"]), event.as_bytes())).collect();
    for ended in injecting.into_iter().map(Running::end) {
        // A daemon that is shutting down accepts nothing more, and says so.
        assert!(ended.code == Some(0) || ended.stdout.contains("the daemon is stopping: try again"), "{ended:#?}");
    }
    for ended in running.into_iter().map(Running::end) {
        // The process that runs the daemon may leave before the others are done.
        let left_alone = ["the connection", "is stopping"].iter().any(|words| ended.stderr.contains(words));
        assert!(ended.code == Some(0) || left_alone, "{ended:#?}");
    }
    host.check();
}

#[test]
fn both_terminals_see_what_is_said() {
    let mut host = Host::new();
    host.start();
    let mut first = Running::start_open(host.command(&["chat"]));
    let mut second = Running::start_open(host.command(&["chat"]));
    wait_for("both to be there", || (host.status()["daemon"]["terminals"] == 2).then_some(()));
    first.type_line("from the first");
    first.wait_stdout("echo: from the first\n");
    second.wait_stdout("echo: from the first\n");
    second.type_line("from the second");
    first.wait_stdout("echo: from the second\n");
    second.wait_stdout("echo: from the second\n");
    let ends = [first.end(), second.end()];
    for ended in &ends {
        assert_eq!((ended.code, ended.stdout.lines().count()), (Some(0), 2), "{ended:#?}");
    }
}

/// The owner is at a terminal and an unknown sender writes elsewhere: the card appears on the terminal, a number
/// answers it, and the sender's text goes to the agent, not the number.
#[test]
fn a_stranger_is_let_in_from_the_terminal() {
    let mut host = Host::new();
    host.start();
    let mut chat = Running::start_open(host.command(&["chat"]));
    chat.type_line("hello");
    chat.wait_stdout("echo: hello\n");
    host.apply(
        "schema = 1\n[[agents]]\nfolder = \"main\"\ntrust = \"main\"\n[[chats]]\nchannel = \"telegram\"\n\
         platform_id = \"123\"\n[[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \".\"\n",
    );
    assert_eq!(host.inject("m1", "let me in")["outcome"], "held");
    chat.wait_stdout("1. Allow\n2. Deny\n");
    let shown = || host.done(&["approvals", "list", "--json"], b"").contains("\"pending\"").then_some(());
    wait_for("the card to be shown", shown);
    chat.type_line("1");
    chat.wait_stdout("✅ Allowed\n");
    chat.type_line("hello again");
    chat.wait_stdout("echo: hello again\n");
    assert!(!chat.stdout().contains("echo: 1"), "{}", chat.stdout());
    let other =
        r#"{"channelType":"telegram","platformId":"123","message":{"content":{"text":"me too","senderId":"2"}}}"#;
    assert!(host.done(&["inject", "--json"], other.as_bytes()).contains("held"));
    wait_for("the second card to be shown", shown);
    let ended = host.run(&["chat", "2"], b"");
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.stderr.contains("taken as the answer"), "{ended:#?}");
    assert!(host.done(&["approvals", "list", "--all"], b"").contains("rejected"));
    let ended = chat.end();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let why = host.done(&["why", "m1"], b"");
    assert!(why.contains("ap1 was approved: by terminal:"), "{why}");
    wait_for("the answer to what was held", || host.said().contains(&"echo: let me in".to_owned()).then_some(()));
    host.check();
}

/// Other messages that wait at the terminal are shown beside the answer, where no program mistakes them for one.
#[test]
fn a_question_prints_its_answers_alone() {
    let mut host = Host::new();
    host.start();
    host.done(&["chat", "set up"], b"");
    host.apply(
        "schema = 1\n[[agents]]\nfolder = \"main\"\ntrust = \"main\"\n[[chats]]\nchannel = \"telegram\"\n\
         platform_id = \"123\"\n[[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \".\"\n",
    );
    assert_eq!(host.inject("m1", "let me in")["outcome"], "held");
    let asked = host.run(&["chat", "!say first\n!answer second"], b"");
    assert_eq!((asked.code, asked.stdout.as_str()), (Some(0), "first\nsecond\n"), "{asked:#?}");
    assert!(asked.stderr.contains("1. Allow\n2. Deny\n"), "{asked:#?}");
    let mut stranger = event("m2", "me too");
    stranger["message"]["content"]["senderId"] = "43".into();
    let waiting = Running::start(host.command(&["chat", "!until go\nlong"]), b"");
    wait_for("the turn to begin", || host.states().last()?.get("Claimed").map(|_| ()));
    host.done(&["inject", "--json"], stranger.to_string().as_bytes());
    wait_for("the card while the answer is waited for", || waiting.stderr().contains("1. Allow").then_some(()));
    waiting.signal(Signal::KILL).end();
    host.go();
    host.wait_settled();
    assert!(host.run(&["chat", "two"], b"").stderr.contains("echo: long"), "nobody waited for it");
    let asked = host.run(&["chat", "three"], b"");
    assert_eq!((asked.stdout.as_str(), asked.stderr.as_str()), ("echo: three\n", ""));
    let asked = host.run(&["chat", "!fail no model"], b"");
    assert!(asked.code == Some(1) && asked.stdout.contains("no model"), "{asked:#?}");
    let asked = host.run(&["chat", "/clear"], b"");
    assert!(!asked.stdout.is_empty() && asked.stderr.is_empty(), "{asked:#?}");
    host.check();
}

#[test]
fn a_client_that_is_killed_harms_nobody() {
    let mut host = Host::new();
    host.start();
    let mut chat = Running::start_open(host.command(&["chat"]));
    chat.type_line("!until go\nhello");
    wait_for("both messages", || (host.states().len() == 2).then_some(()));
    chat.signal(Signal::KILL).end();
    host.go();
    let inject = Running::start_open(host.command(&["inject", "--json"]));
    inject.signal(Signal::KILL).end();
    // The answer to a client that left is shown to the next one, beside that one's own answer if it is not the same.
    let next = host.run(&["chat", "and I"], b"");
    assert!([&next.stderr, &next.stdout].iter().any(|shown| shown.contains("hello")), "{next:#?}");
    assert!(next.stdout.contains("and I"), "{next:#?}");
    wait_for("everybody to be gone", || (host.status()["daemon"]["terminals"] == 0).then_some(()));
    assert_eq!(host.stop().code, Some(0));
    host.check();
}

#[test]
fn flags_stand_before_and_after_the_command() {
    let host = Host::with_echo();
    let data = host.data();
    let data = data.to_str().unwrap();
    for arguments in [
        vec!["--json", "status", "--data", data],
        vec!["--data", data, "status", "--json"],
        vec!["status", "--json", "--data", data],
        vec!["--data", data, "--json", "status"],
    ] {
        let mut command = host.bare(env!("CARGO_BIN_EXE_hearth"));
        command.args(&arguments);
        let ended = Running::start(command, b"").end();
        assert_eq!(ended.code, Some(0), "{arguments:?} {ended:#?}");
        let status: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!((&status["chats"], &status["daemon"]), (&1.into(), &Value::Null));
    }
    let mut command = host.bare(env!("CARGO_BIN_EXE_hearth"));
    command.arg("status").env("HEARTH_DATA", data);
    let ended = Running::start(command, b"").end();
    assert!(ended.code == Some(0) && ended.stdout.contains("no daemon is running"), "{ended:#?}");
}

#[test]
fn exit_codes_tell_failure_from_wrong_usage() {
    let host = Host::before_the_first_start();
    for (arguments, code, word) in [
        (vec!["nonsense"], 2, "unrecognized"),
        (vec!["status", "--nonsense"], 2, "--nonsense"),
        (vec!["apply"], 2, "FILE"),
        (vec!["chat", ""], 2, "TEXT"),
        (vec!["status"], 1, "there is no store"),
        (vec!["check"], 1, "there is no store"),
        (vec!["apply", "/nonexistent/hearth.toml"], 1, "/nonexistent/hearth.toml"),
        (vec!["chat", "hello"], 1, "there is no store"),
        (vec!["up", "--agent", "nobody"], 1, "nobody"),
    ] {
        let ended = host.run(&arguments, b"");
        assert_eq!(ended.code, Some(code), "{arguments:?} {ended:#?}");
        assert!(ended.stderr.contains(word) && ended.stdout.is_empty(), "{arguments:?} {ended:#?}");
    }
    let help = host.run(&["--help"], b"");
    assert!(help.code == Some(0) && help.stdout.contains("inject") && !help.stdout.contains("  agent "), "{help:#?}");
}

#[test]
fn a_dry_run_changes_nothing() {
    let mut host = Host::with_echo();
    let event = crate::host::event("m1", "hello").to_string();
    let toml = b"schema = 1\n[[agents]]\nfolder = \"other\"\n";
    for daemon in [false, true] {
        if daemon {
            host.start();
        }
        let routed = host.done(&["inject", "--dry-run", "--json"], event.as_bytes());
        assert_eq!(serde_json::from_str::<Value>(&routed).unwrap()["outcome"], "routed", "{routed}");
        assert_eq!(host.done(&["apply", "-", "--dry-run"], toml), "created   agent other\n");
        assert_eq!((host.states().len(), host.rows("agents").len()), (0, 1));
    }
    assert_eq!(host.done(&["apply", "-"], toml), "created   agent other\n");
    assert_eq!(host.done(&["apply", "-"], toml), "unchanged agent other\n");
}

#[test]
fn an_unreadable_configuration_changes_nothing_and_makes_nothing() {
    let host = Host::before_the_first_start();
    for (toml, words) in [
        ("schema = 1\n[[agents]\n", vec!["-:2"]),
        ("schema = 1\n[[agents]]\nfolder = \"a b\"\n", vec!["folder", "3"]),
        ("schema = 1\nagnets = 1\n", vec!["agnets", "agents"]),
        ("\u{0}", vec!["-:1"]),
    ] {
        let ended = host.run(&["apply", "-"], toml.as_bytes());
        assert_eq!(ended.code, Some(1), "{toml:?} {ended:#?}");
        assert!(words.iter().all(|word| ended.stderr.contains(word)), "{toml:?} {words:?} {ended:#?}");
    }
    let binary = host.run(&["apply", "-"], &[0xff, 0xfe, 0x00]);
    assert!(binary.code == Some(1) && binary.stderr.contains("UTF-8"), "{binary:#?}");
    assert!(!Path::new(&host.data()).exists(), "a refused file leaves no store behind");
}

#[test]
fn a_daemon_is_alone_with_its_data() {
    let mut host = Host::new();
    host.start();
    let second = host.run(&["run"], b"");
    assert_eq!(second.code, Some(1), "{second:#?}");
    assert!(second.stderr.contains("is already running for"), "{second:#?}");
    // A daemon that was started with another runtime directory is still found.
    let mut command = host.command(&["chat", "found you"]);
    command.env_remove("XDG_RUNTIME_DIR");
    let chat = Running::start(command, b"").end();
    assert_eq!((chat.code, chat.stdout.as_str()), (Some(0), "echo: found you\n"), "{chat:#?}");
    assert_eq!(host.stop().code, Some(0));
    assert!(!host.data().join("run/socket").exists());
}

#[test]
fn mistyped_words_get_an_error_that_says_what_to_type() {
    let host = Host::with_echo();
    assert_eq!(host.run(&["agents", "set", "main", "--provider", "claude"], b"").code, Some(0));
    for (words, code, said) in [
        ("tasks add main hello --every 5", 1, "--every 5 has no unit: write 5s, 5m, 5h or 5d"),
        ("tasks add main hello --every 1s", 1, "would ask the model of main 86400 times a day; add --force"),
        ("agents show mian", 1, "agent mian not found; did you mean `main`?"),
        ("agents show x", 1, "agent x not found; see `hearth agents list`"),
        ("dropped --limit 0", 2, "it must be at least 1"),
        ("stop", 1, "no service is installed"),
        ("start", 1, "run `hearth service install`"),
        ("restart", 1, "no service is installed"),
        ("agent list", 1, "did you mean `hearth agents list --data "),
        ("agent lst", 1, "did you mean `hearth agents lst --data "),
        ("agent sho family", 1, "did you mean `hearth agents sho family --data "),
        ("search boiler --limit 0", 2, "it must be at least 1"),
        ("search -x", 2, "unexpected argument '-x'"),
        ("agnets list", 2, "'agents'"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let ended = host.run(&words, b"");
        assert_eq!(ended.code, Some(code), "{words:?}: {ended:#?}");
        assert!(ended.stderr.contains(said), "{words:?}: {ended:#?}");
    }
    let one_word = host.run(&["agents", "add", "cmd", "--provider", "command", "--command", "python3 x"], b"");
    assert!(one_word.stderr.contains("`--command` is one word with spaces, `python3 x`"), "{one_word:#?}");
    assert_eq!(host.run(&["tasks", "add", "main", "hello", "--every", "1h"], b"").code, Some(0));
    let costly = ["tasks", "set", "ta1", "--every", "1s"];
    assert!(host.run(&costly, b"").stderr.contains("86400 times a day; add --force"));
    assert_eq!(host.run(&[&costly[..], &["--force"]].concat(), b"").code, Some(0));
    assert_eq!(host.run(&["tasks", "add", "main", "hello", "--every", "1s", "--force"], b"").code, Some(0));
    for (words, said) in [
        (vec!["help"], "Usage: hearth"),
        (vec!["help", "agents"], "Usage: hearth agents"),
        (vec!["version"], concat!("hearth ", env!("CARGO_PKG_VERSION"))),
    ] {
        let mut command = host.bare(env!("CARGO_BIN_EXE_hearth"));
        command.env("HEARTH_DATA", host.data()).args(&words);
        let ended = Running::start(command, b"").end();
        assert_eq!(ended.code, Some(0), "{words:?}: {ended:#?}");
        assert!(ended.stdout.contains(said), "{words:?}: {ended:#?}");
    }
    let mut alone = host.bare(env!("CARGO_BIN_EXE_hearth"));
    alone.arg("agent");
    let alone = Running::start(alone, b"").end();
    assert_eq!(alone.code, Some(1), "{alone:#?}");
    assert!(alone.stderr.contains("did you mean `hearth agents`?"), "{alone:#?}");
}

#[test]
fn the_last_owner_is_removed_only_on_request_and_a_denied_chat_keeps_its_agents() {
    let host = Host::with_echo();
    host.done(&["users", "add", "net:ann", "--roles", "owner"], b"");
    for words in [
        &["roles", "revoke", "net:ann", "owner"][..],
        &["users", "remove", "net:ann"],
        &["users", "set", "net:ann", "--roles", "admin"],
        &["users", "set", "net:ann", "--clear", "roles"],
    ] {
        let refused = host.run(words, b"");
        assert_eq!(refused.code, Some(1), "{words:?}: {refused:#?}");
        assert!(refused.stderr.contains("net:ann is the only owner"), "{words:?}: {refused:#?}");
    }
    // A file that lists the person without the role also revokes it.
    let file = host.data().join("people.toml");
    std::fs::write(&file, "schema = 1\n[[users]]\nid = \"net:ann\"\n").unwrap();
    let apply = ["apply", file.to_str().unwrap()];
    let refused = host.run(&apply, b"");
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert!(refused.stderr.contains("net:ann is the only owner"), "{refused:#?}");
    assert!(host.done(&["roles", "list"], b"").contains("owner"));
    assert_eq!(host.run(&[&apply[..], &["--dry-run"]].concat(), b"").code, Some(0));
    host.done(&[&apply[..], &["--force"]].concat(), b"");
    host.done(&["roles", "grant", "net:ann", "owner"], b"");
    host.done(&["users", "set", "net:ann", "--name", "Ann"], b"");
    host.done(&["users", "add", "net:bob", "--roles", "owner"], b"");
    host.done(&["roles", "revoke", "net:ann", "owner"], b"");
    host.done(&["roles", "revoke", "net:bob", "owner", "--force"], b"");
    let denied = host.run(&["chats", "deny", "telegram/123"], b"");
    assert_eq!(denied.code, Some(0), "{denied:#?}");
    assert!(denied.stderr.contains("main still listens in telegram/123"), "{denied:#?}");
}

#[test]
fn the_first_terminal_says_who_answers_what_to_do_next_and_what_can_be_typed() {
    let host = Host::new();
    let up = format!("{} up --data {}", env!("CARGO_BIN_EXE_hearth"), host.data().display());
    let mut command = host.bare("script");
    command.args(["-qfec", &format!("stty cols 200 -echo; {up}; echo left with $?"), "/dev/null"]).env("TERM", "xterm");
    let mut terminal = Running::start_open(command);
    terminal.wait_stdout("agent: main, with the provider echo, which only repeats what you write");
    terminal.wait_stdout("(you)");
    terminal.wait_stdout("next: `hearth setup` connects a model");
    terminal.wait_stdout("talking to main");
    terminal.type_line("/help");
    terminal.wait_stdout("what you can type:");
    terminal.type_line("!tool Search - 3s");
    terminal.wait_stdout("main is working, ");
    terminal.wait_stdout(", using Search");
    terminal.type_line("/login");
    terminal.wait_stdout("the message was not accepted: this command is never sent to agents");
    terminal.type_line(" Exit ");
    terminal.wait_stdout("left with 0");
    drop(terminal.end());
}

/// A conversation on a terminal, with a daemon that dies while the user types.
#[test]
fn a_terminal_is_given_back_as_it_was() {
    let mut host = Host::new();
    host.start();
    let chat = format!("{} chat --data {}", env!("CARGO_BIN_EXE_hearth"), host.data().display());
    let script = format!("stty -echo; {chat}; echo left with $?; stty -a");
    let mut command = host.bare("script");
    command.args(["-qfec", &script, "/dev/null"]).env("TERM", "xterm");
    let mut terminal = Running::start_open(command);
    terminal.wait_stdout("talking to main");
    terminal.type_line("hello");
    terminal.wait_stdout("main: echo: hello");
    terminal.type_line("hello again");
    terminal.wait_stdout("main: echo: hello again");
    host.kill();
    terminal.wait_stdout("left with 1");
    terminal.wait_stdout("icanon");
    let ended = terminal.end();
    let after = ended.stdout.split("left with").nth(1).unwrap();
    assert!(ended.stdout.contains("the daemon closed the connection"), "{ended:#?}");
    assert!(after.contains(" icanon") && !after.contains("-icanon"), "{ended:#?}");
    assert!(std::fs::read_to_string(host.data().join("history")).unwrap().contains("hello again"));
}

/// Deleting a line revokes the role, and the report says what is lost.
#[test]
fn an_omitted_key_of_an_agent_is_reset_and_shown_apart() {
    let host = Host::new();
    host.create_store();
    let full = "schema = 1\n[[agents]]\nfolder = \"main\"\ntrust = \"main\"\nunconfined = true\nnetwork = \"none\"\nmodel = \"x\"\n";
    host.apply(full);
    let less = "schema = 1\n[[agents]]\nfolder = \"main\"\nmodel = \"y\"\n";
    let file = host.path("less.toml");
    std::fs::write(&file, less).unwrap();
    let shown = host.done(&["apply", file.to_str().unwrap(), "--dry-run"], b"");
    let (changes, resets) = shown.split_once("reset, because the file omits the key:\n").unwrap();
    assert!(changes.contains("model: x -> y") && !changes.contains("trust"), "{shown}");
    for part in [
        "its memory read-only unless `folder_access` allows writing: `trust` main -> untrusted",
        "it runs confined: `unconfined` true -> false",
        "it reaches only hosts that `allow` lists: `network` none -> listed",
    ] {
        assert!(resets.contains(part), "{part}: {shown}");
    }
    assert!(!resets.contains("model"), "{shown}");
    // A person at a terminal is asked, and the answer no changes nothing.
    let trust = || {
        serde_json::from_str::<Value>(&host.done(&["agents", "show", "main", "--json"], b"")).unwrap()["trust"].clone()
    };
    for (answer, code, expected) in [("n", 1, "main"), ("y", 0, "untrusted")] {
        let mut at = Pty::start(host.command(&["apply", file.to_str().unwrap()]));
        at.answer("Reset these? [y/N]: ", answer);
        let (ended, shown) = at.end();
        assert_eq!(ended.code(), Some(code), "{shown}");
        assert_eq!(trust(), expected);
    }
    // A script is not asked, and neither is a person who passed the option.
    host.apply(full);
    host.done(&["apply", file.to_str().unwrap()], b"");
    assert_eq!(trust(), "untrusted");
    host.apply(full);
    let (ended, shown) = Pty::start(host.command(&["apply", file.to_str().unwrap(), "--yes"])).end();
    assert_eq!(ended.code(), Some(0), "{shown}");
    assert_eq!(trust(), "untrusted");
}

#[test]
fn merging_a_file_changes_only_the_keys_that_it_names() {
    let host = Host::new();
    host.create_store();
    host.apply(
        "schema = 1\n[[agents]]\nfolder = \"main\"\ntrust = \"main\"\nnetwork = \"none\"\nmodel = \"x\"\nenv = { A = \"1\" }\n\
         mounts = [{ host_path = \"/srv/x\" }]\n",
    );
    let before = host.done(&["export"], b"");
    let less = "schema = 1\n[[agents]]\nfolder = \"main\"\nmodel = \"y\"\nmounts = []\n[[agents]]\nfolder = \"new\"\n";
    let shown = host.done(&["apply", "-", "--merge"], less.as_bytes());
    assert!(!shown.contains("reset,") && shown.contains("model: x -> y"), "{shown}");
    let after = host.done(&["export"], b"");
    assert!(after.contains("folder = \"new\"") && !after.contains("/srv/x"), "{after}");
    for line in before.lines().filter(|line| !line.starts_with("model") && !line.starts_with("mounts")) {
        assert!(after.contains(line), "{line}: {after}");
    }
    assert_eq!(host.run(&["apply", "-", "--merge", "--prune"], less.as_bytes()).code, Some(2));
}

/// The rule for agents also holds for people, chats, wirings, channels and settings.
#[test]
fn omitted_keys_of_every_entity_are_reset_or_kept_as_was_asked() {
    let full = "schema = 1\ntimezone = \"Europe/Paris\"\nimage = \"mine\"\n[retention]\nbodies = \"30d\"\njournal = \"90d\"\n\
                [[agents]]\nfolder = \"main\"\n[[users]]\nid = \"net:1\"\nname = \"Ann\"\nroles = [\"owner\"]\nmember_of = [\"main\"]\n\
                [[chats]]\nchannel = \"net\"\nplatform_id = \"c\"\ngroup = true\nunknown_senders = \"public\"\n\
                [[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \"x\"\npriority = 3\n\
                [channels.hook]\ntype = \"webhook\"\nlisten = \"127.0.0.1:0\"\nsecret = \"env:S\"\ntell_strangers = true\n";
    let less = "schema = 1\ntimezone = \"Europe/Rome\"\n[retention]\nbodies = \"60d\"\n[[users]]\nid = \"net:1\"\nmember_of = []\n\
                [[chats]]\nchannel = \"net\"\nplatform_id = \"c\"\ngroup = true\n\
                [[chats.wirings]]\nagent = \"main\"\nengage = \"mention\"\n\
                [channels.hook]\ntype = \"webhook\"\nlisten = \"127.0.0.1:0\"\nsecret = \"env:S\"\n";
    let host = Host::new();
    host.apply(full);
    let shown = host.run(&["apply", "-", "--dry-run", "--force"], less.as_bytes()).stdout;
    let (_, resets) = shown.split_once("reset, because the file omits the key:\n").unwrap();
    for part in [
        "settings: agents run in Hearth's own image: `image` mine -> (default)",
        "settings: the journal is kept for the default time: `retention.journal` 90d -> (default)",
        "user net:1: this person loses roles: `roles` owner -> (default)",
        "chat net/c: a person decides about strangers: `unknown_senders` public -> ",
        "wiring net/c -> main: wirings with a higher priority come first: `priority` 3 -> 0",
        "channel hook: strangers are not told that they wait for an approval: `tell_strangers` true -> false",
    ] {
        assert!(resets.contains(part), "{part}: {shown}");
    }
    for kept in ["timezone", "member_of", "`engage`", "retention.bodies"] {
        assert!(!resets.contains(kept), "{kept}: {shown}");
    }
    host.done(&["apply", "-", "--merge"], less.as_bytes());
    let after = host.done(&["export"], b"");
    for line in [
        "Europe/Rome",
        "image = \"mine\"",
        "60d",
        "90d",
        "Ann",
        "[\"owner\"]",
        "public",
        "priority = 3",
        "mention",
        "tell_strangers = true",
    ] {
        assert!(after.contains(line), "{line}: {after}");
    }
    assert!(!after.contains("member_of") && !after.contains("pattern"), "{after}");
    host.check();
}

/// Keys of tables inside of tables, and those that NanoClaw's form of a wiring decides, are named as well.
#[test]
fn named_keys_are_neither_resets_nor_lost_by_merging() {
    let host = Host::new();
    host.apply(
        "schema = 1\n[voice.transcribe]\nurl = \"http://127.0.0.1:1\"\nlanguage = \"de\"\n\
         [console]\nenabled = false\nchat_login = true\nlisten = \"127.0.0.1:7000\"\n[[agents]]\nfolder = \"main\"\n\
         [[chats]]\nchannel = \"net\"\nplatform_id = \"c\"\nwirings = [{ agent = \"main\", engage = \"pattern\", pattern = \"x\" }]\n",
    );
    let less = "schema = 1\n[voice.transcribe]\nurl = \"http://127.0.0.1:2\"\n[console]\nenabled = false\n\
                [[chats]]\nchannel = \"net\"\nplatform_id = \"c\"\nwirings = [{ agent = \"main\", trigger_rules = { pattern = \"y\" } }]\n";
    let shown = host.done(&["apply", "-", "--dry-run"], less.as_bytes());
    let (changes, resets) = shown.split_once("reset, because the file omits the key:\n").unwrap();
    for part in ["voice.transcribe.url: http://127.0.0.1:1 -> http://127.0.0.1:2", "pattern: x -> y"] {
        assert!(changes.contains(part), "{part}: {shown}");
    }
    for part in [
        "settings: the language of voice messages is not given: `voice.transcribe.language` de -> (default)",
        "console: people cannot sign in from a chat: `chat_login` true -> (default)",
        "console: it listens on this machine only: `listen` 127.0.0.1:7000 -> 127.0.0.1:18790",
    ] {
        assert!(resets.contains(part), "{part}: {shown}");
    }
    assert_eq!(resets.lines().count(), 3, "{shown}");
    let merged = host.done(&["apply", "-", "--merge"], less.as_bytes());
    assert!(!merged.contains("reset,"), "{merged}");
    let after = host.done(&["export"], b"");
    for line in ["127.0.0.1:2\"", "language = \"de\"", "chat_login = true", "127.0.0.1:7000", "pattern = \"y\""] {
        assert!(after.contains(line), "{line}: {after}");
    }
}

/// The completions of bash for a line that ends with these words, by the script that Hearth prints.
fn completed(host: &Host, words: &str) -> String {
    let script = r#"
        cd "$DIR" && . ./script && COMP_WORDS=(hearth $WORDS "$LAST") && COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        COMP_TYPE=9 && _clap_complete_hearth hearth "$LAST" "" && printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let (words, last) = words.rsplit_once(' ').unwrap_or(("", words));
    let directory = std::path::Path::new(env!("CARGO_BIN_EXE_hearth")).parent().unwrap();
    let path = format!("{}:{}", directory.display(), crate::host::search_path());
    let mut command = host.bare("bash");
    command.env("HEARTH_DATA", host.data()).env("PATH", path).env("DIR", host.path(""));
    command.env("WORDS", words).env("LAST", last).args(["-c", script]);
    let ended = Running::start(command, b"").end();
    assert_eq!(ended.stderr, "", "{words} {last}: {ended:#?}");
    ended.stdout
}

#[test]
fn bash_completes_names_of_the_store_and_none_that_it_would_run() {
    let host = Host::with_echo();
    std::fs::write(host.path("script"), host.done(&["completions", "bash"], b"")).unwrap();
    host.done(&["tasks", "add", "main", "look", "--every", "1h"], b"");
    for (id, name) in
        [("456", "plain"), ("$(touch x)", "run"), ("`touch x`", "run"), ("a;touch x", "run"), ("*", "glob")]
    {
        host.done(&["chats", "add", &format!("telegram/{id}"), "--name", name], b"");
    }
    for (words, expected) in [
        ("agents show m", "main\n"),
        ("agents sh", "show\n"),
        ("tasks set ", "ta1\n"),
        ("why ", "latest\nta1\n"),
        ("chats show telegram/", "telegram/123\ntelegram/456\n"),
    ] {
        let told = completed(&host, words);
        let told: Vec<&str> = told.lines().filter(|line| !line.starts_with('-')).collect();
        assert_eq!(told, expected.lines().collect::<Vec<_>>(), "{words}");
    }
    assert!(!host.path("x").exists(), "a name was run");
}

#[test]
fn completion_is_silent_without_a_store_and_creates_none() {
    let host = Host::before_the_first_start();
    std::fs::write(host.path("script"), Host::new().done(&["completions", "bash"], b"")).unwrap();
    assert_eq!(completed(&host, "agents sh"), "show\n");
    assert!(!completed(&host, "agents show m").contains("main"));
    assert!(!host.data().exists());
}
