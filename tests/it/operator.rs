//! Guarantees for operators: concurrent changes, directories that disappear, output to pipes and narrow terminals, and
//! child processes that inherit nothing of the store.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::process::Stdio;

use crate::host::{Host, Running, event, wait_for};
use crate::world::directory;

const AGENT: &str = "schema = 1\n[[agents]]\nfolder = \"a\"\n";

/// A directory of agent `a` with a link that leads out of it.
fn furnish(host: &Host, keep: &std::path::Path) {
    let directory = host.data().join("groups/a");
    std::fs::create_dir_all(directory.join("deep")).unwrap();
    std::fs::write(directory.join("deep/notes"), "notes").unwrap();
    symlink(keep, directory.join("deep/link")).unwrap();
}

#[test]
fn an_agent_is_removed_with_its_directory_when_that_is_asked_for() {
    let keep = directory();
    std::fs::write(keep.path().join("file"), "not of Hearth").unwrap();
    let mut host = Host::new();
    for daemon in [false, true] {
        if daemon {
            host.start();
        }
        let directory = host.data().join("groups/a");
        host.apply(AGENT);
        furnish(&host, keep.path());
        host.done(&["agents", "remove", "a"], b"");
        assert!(directory.join("deep/notes").exists(), "a directory stays by itself");

        let told = host.done(&["agents", "remove", "a", "--purge"], b"");
        let removed = format!("removed   directory {}", directory.display());
        assert_eq!(told, format!("unchanged agent a\n{removed}\n"), "it can still be asked for afterwards");
        assert!(!directory.exists() && keep.path().join("file").exists());

        host.apply(AGENT);
        furnish(&host, keep.path());
        let told = host.done(&["agents", "remove", "a", "--purge", "--json"], b"");
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["changes"][0]["entity"], "agent a");
        assert_eq!(told["changes"][1]["entity"], format!("directory {}", directory.display()));
        assert!(!directory.exists() && keep.path().join("file").exists());
        assert_eq!(std::fs::read_dir(host.data().join("groups")).unwrap().count(), 0, "nothing is left aside");
        let again = host.run(&["agents", "remove", "a", "--purge"], b"");
        assert!(again.code == Some(0) && again.stderr.contains("there was no directory"), "{again:#?}");

        // A path that is not a plain directory is not touched, and the agent stays as well.
        host.apply(AGENT);
        symlink(keep.path(), &directory).unwrap();
        let refused = host.run(&["agents", "remove", "a", "--purge"], b"");
        assert_eq!(refused.code, Some(1), "{refused:#?}");
        assert!(refused.stderr.contains("was not removed: it is not a plain directory"), "{refused:#?}");
        assert!(directory.is_symlink() && keep.path().join("file").exists());
        assert!(host.done(&["agents", "list"], b"").contains(" a "));
        std::fs::remove_file(&directory).unwrap();
        host.done(&["agents", "remove", "a"], b"");
    }
}

#[test]
fn a_directory_in_which_somebody_works_stays() {
    let mut host = Host::with_echo();
    host.start();
    host.inject("m1", "!sleep 60s\nnever said");
    let live = || host.rows("live");
    wait_for("the agent to live", || (live().len() == 1).then_some(()));
    let directory = host.data().join("groups/main");
    wait_for("its directory", || directory.exists().then_some(()));
    let refused = host.run(&["agents", "remove", "main", "--purge"], b"");
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert!(refused.stderr.contains("run se1.1 of agent main has not ended"), "{refused:#?}");
    assert!(directory.exists() && host.done(&["agents", "list"], b"").contains("main"));

    host.done(&["agents", "remove", "main"], b"");
    wait_for("its end", || live().is_empty().then_some(()));
    host.done(&["agents", "remove", "main", "--purge"], b"");
    assert!(!directory.exists());
}

/// Of two commands that change the same agent at once, each takes the other's change into account.
#[test]
fn changes_that_meet_are_all_made() {
    let mut host = Host::new();
    for daemon in [false, true] {
        if daemon {
            host.start();
        }
        host.apply(AGENT);
        let keys = [
            ["--model", "m"],
            ["--effort", "e"],
            ["--trust", "trusted"],
            ["--max-parallel", "7"],
            ["--max-prompt-messages", "3"],
            ["--env", "X=1"],
            ["--env", "Y=2"],
            ["--blocked-tools", "t"],
        ];
        let start = |key: &[&str; 2]| Running::start(host.command(&["agents", "set", "a", key[0], key[1]]), b"");
        let running: Vec<Running> = keys.iter().map(start).collect();
        for one in running {
            let ended = one.end();
            assert_eq!(ended.code, Some(0), "{ended:#?}");
        }
        let shown: serde_json::Value =
            serde_json::from_str(&host.done(&["agents", "show", "a", "--json"], b"")).unwrap();
        let expected = serde_json::json!({
            "model": "m", "effort": "e", "trust": "trusted", "max_parallel": 7, "max_prompt_messages": 3,
            "env": { "X": "1", "Y": "2" }, "blocked_tools": ["t"],
        });
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&shown[key], value, "{key}: {shown:#}");
        }
        host.done(&["agents", "remove", "a"], b"");
    }
}

/// The file has so many users that the list of changes does not fit into a pipe. The command blocks while it prints
/// them, and another process changes the configuration meanwhile.
#[test]
fn what_was_shown_is_what_is_applied() {
    let users: String = (0..4_000).map(|n| format!("[[users]]\nid = \"t:{n}\"\n")).collect();
    for (meanwhile, code) in [(["agents", "set", "a", "--model", "m"], 1), (["chats", "add", "t/1", "--name", "n"], 0)]
    {
        let host = Host::new();
        host.apply(&AGENT.replace("\"a\"", "\"a\"\nmodel = \"first\""));
        let file = host.data().join("many.toml");
        std::fs::write(&file, format!("{}effort = \"e\"\nmodel = \"second\"\n{users}", AGENT)).unwrap();
        let mut command = host.command(&["apply", file.to_str().unwrap()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "updated   agent a\n");
        host.done(&meanwhile, b"");
        let rest = out.lines().count();
        assert!(rest >= 4_000, "{rest}");
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(code), "{said}");
        let model = host.done(&["agents", "show", "a"], b"");
        if code == 1 {
            assert!(said.contains("nothing was applied; check with --dry-run"), "{said}");
            assert!(model.contains(" m\n") && host.rows("users").is_empty(), "{model}");
        } else {
            assert!(model.contains(" second\n") && host.rows("users").len() == 4_000, "{model}");
        }
    }
}

/// A disaster drill: a daemon dies, its store is replaced by an earlier backup, and work continues with the same
/// agents.
#[test]
fn life_goes_on_from_a_backup() {
    let mut host = Host::with_echo();
    host.start();
    host.inject("m1", "before");
    host.wait_settled();
    let made = host.done(&["backup", "--json"], b"");
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    host.inject("m2", "after");
    host.wait_settled();
    assert_eq!(host.said(), ["echo: before", "echo: after"]);
    host.inject("m3", "!sleep 60s\nin the middle");
    host.kill();

    let restored = host.done(&["restore", made["backup"].as_str().unwrap(), "--replace", "--json"], b"");
    let restored: serde_json::Value = serde_json::from_str(&restored).unwrap();
    assert_eq!(restored["new_install"], false);
    for aside in ["store_aside", "sessions_aside"] {
        assert!(std::path::Path::new(restored[aside].as_str().unwrap()).is_dir(), "{aside}: {restored}");
    }
    assert_eq!(host.said(), ["echo: before"]);
    host.start();
    assert_eq!(host.inject("m1", "before")["outcome"], "duplicate");
    assert_eq!(host.inject("m2", "after")["outcome"], "routed", "what came after the backup may come again");
    host.wait_settled();
    assert_eq!(host.said(), ["echo: before", "echo: after"]);
    host.check();
}

/// Colours are only for terminals that support them; everything else gets plain text.
#[test]
fn output_is_plain_where_it_should_be() {
    let host = Host::with_echo();
    let hearth = |words: &str| format!("{} --data {} {words}", env!("CARGO_BIN_EXE_hearth"), host.data().display());
    let on_terminal = |words: &str, variables: &[(&str, &str)]| {
        let mut command = host.bare("script");
        command.args(["-qfec", &hearth(words), "/dev/null"]).env("TERM", "xterm").envs(variables.iter().copied());
        Running::start(command, b"").end().stdout
    };
    for words in ["doctor", "agents show nobody", "status", "--help"] {
        let coloured = on_terminal(words, &[]);
        assert!(coloured.contains("\u{1b}["), "{words}: {coloured:?}");
        for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
            let plain = on_terminal(words, &[variable]);
            assert!(!plain.contains('\u{1b}') && !plain.is_empty(), "{words} {variable:?}: {plain:?}");
        }
        let words: Vec<&str> = words.split(' ').collect();
        let piped = host.run(&words, b"");
        assert!(!format!("{}{}", piped.stdout, piped.stderr).contains('\u{1b}'), "{piped:#?}");
    }
    // Without a terminal, whose width is known, a table has one line per row.
    host.done(&["chats", "add", "t/1", "--name", &"long name ".repeat(40)], b"");
    assert_eq!(host.done(&["chats", "list"], b"").lines().count(), 3);
}

/// Names that unknown senders choose reach a screen only as plain text.
#[test]
fn names_of_strangers_do_not_command_the_terminal() {
    let host = Host::with_echo();
    let mut evil = event("m1", "\u{1b}]0;gone\u{7} hi");
    evil["message"]["content"]["senderName"] = "\u{1b}[2JEve\r".into();
    host.done(&["inject", "--json"], evil.to_string().as_bytes());
    for words in [&["why", "m1"][..], &["dropped"], &["users", "list"], &["status"]] {
        let told = host.done(words, b"");
        assert!(!told.contains(['\u{1b}', '\u{7}', '\r']), "{words:?}: {told:?}");
    }
}

/// LMDB opens its file inheritable. Neither an agent nor the command of a reference inherits it, or anything else of
/// the daemon.
#[test]
fn no_process_gets_the_store() {
    let mut host = Host::new();
    let (of_agent, of_command) = (host.path("of-agent"), host.path("of-command"));
    let list = |to: &std::path::Path| format!("ls -l /proc/self/fd > {}", to.display());
    host.apply(&format!(
        "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"command\"\nunconfined = true\n\
         command = [\"sh\", \"-c\", {:?}]\nenv = {{ KEY = {:?} }}\n{}",
        format!("{}; sleep 60", list(&of_agent)),
        format!("cmd:{}; echo value", list(&of_command)),
        crate::host::CHAT
    ));
    host.start();
    host.inject("m1", "hello");
    for file in [of_agent, of_command] {
        let text = wait_for("the list", || {
            let text = std::fs::read_to_string(&file).ok()?;
            text.lines().any(|line| line.contains("/proc/")).then_some(text)
        });
        let data = host.data().display().to_string();
        let strays: Vec<&str> = text.lines().filter(|line| line.contains(&data) && !line.contains("locks/")).collect();
        assert!(strays.is_empty(), "{text}");
        assert!(!text.contains(".mdb") && !text.contains("socket:"), "{text}");
    }
}

/// Every export can be applied again, with and without a daemon.
#[test]
fn a_large_configuration_is_exported_and_applied() {
    let mut host = Host::new();
    let agent = |number: usize| {
        let instructions = "Remember the \\\"plants\\\".\\n".repeat(1_000);
        format!("[[agents]]\nfolder = \"a{number}\"\ninstructions = \"{instructions}\"\n")
    };
    let file = |range: std::ops::Range<usize>| format!("schema = 1\n{}", range.map(agent).collect::<String>());
    host.apply(&file(0..25));
    host.apply(&file(25..60));
    let exported = host.done(&["export"], b"");
    assert!(exported.len() > 1 << 20, "{}", exported.len());
    for running in [false, true] {
        if running {
            host.start();
        }
        let applied: serde_json::Value =
            serde_json::from_str(&host.done(&["apply", "-", "--json"], exported.as_bytes())).unwrap();
        assert!(applied["changes"].as_array().unwrap().iter().all(|change| change["action"] == "unchanged"));
        assert_eq!(host.done(&["export"], b""), exported);
    }
}
