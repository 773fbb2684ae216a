//! `hearth setup`: from an empty directory to an answer, with typed answers and with options.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::Value;

use crate::host::fake_api::FakeApi;
use crate::host::fake_telegram::{FakeTelegram, NAME, TOKEN};
use crate::host::installed::System;
use crate::host::pty::Pty;
use crate::host::{Host, agents};

const KEY: &str = "sk-ant-api03-the-right-key";

/// A machine on which agents are processes and the agent CLI is a program that does nothing.
fn machine() -> Host {
    let mut host = Host::before_the_first_start();
    let bin = host.path("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("claude"), "#!/bin/sh\nexit 1\n").unwrap();
    std::fs::set_permissions(bin.join("claude"), std::fs::Permissions::from_mode(0o755)).unwrap();
    host.env.push(("PATH".into(), format!("{}:{}", bin.display(), crate::host::search_path())));
    host.env.push(("TERM".into(), "xterm".into()));
    host
}

/// Setup with every answer given that would otherwise depend on this machine.
fn setup(host: &Host, options: &[&str]) -> Command {
    host.command(
        &[&["setup", "--runtime", "process", "--unconfined", "--open-network", "--no-service"], options].concat(),
    )
}

fn json(host: &Host, options: &[&str]) -> Value {
    let ended = host.run(&[&["setup", "--json"], options].concat(), b"");
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:#?}"))
}

fn states(answer: &Value) -> Vec<&str> {
    answer["steps"].as_array().unwrap().iter().map(|step| step["state"].as_str().unwrap()).collect()
}

/// No secret is in the store, on the screen, or in a file that others can read.
fn assert_kept(host: &Host, name: &str, secret: &str, shown: &str) {
    let file = host.data().join("secrets").join(name);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), secret);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!shown.contains(secret), "{shown}");
    let store = std::fs::read(host.data().join("store/data.mdb")).unwrap();
    assert!(!store.windows(secret.len()).any(|part| part == secret.as_bytes()));
    assert!(!std::fs::read_to_string(host.data().join("hearth.toml")).unwrap().contains(secret));
}

/// Whether a process can have a network of its own here.
fn has_networks(host: &Host) -> bool {
    let checks: Value = serde_json::from_str(&host.run(&["doctor", "--json"], b"").stdout).unwrap();
    let named = |check: &&Value| check["check"] == "confinement";
    let view = checks["checks"].as_array().unwrap().iter().find(named).unwrap().clone();
    view["result"] == "ok"
}

/// The skills that agents can be given, each with a description by which a model chooses it.
fn skills(host: &Host) -> Vec<String> {
    let dir = host.data().join("skills");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let text = std::fs::read_to_string(host.data().join("skills").join(&name).join("SKILL.md")).unwrap();
        assert!(text.starts_with(&format!("---\nname: {name}\ndescription: Use when ")), "{text}");
        names.push(name);
    }
    names.sort();
    names
}

#[test]
fn a_person_sets_up_echo_by_answering_questions() {
    let host = machine();
    let mut at = Pty::start(host.command(&["setup", "--no-service"]));
    at.answer("Your choice [1]: ", "nonsense");
    at.wait("Type a number from 1 to 10.");
    at.answer("Your choice [1]: ", "echo");
    at.answer("Token of the bot (not shown; Enter for no bot): ", "");
    at.wait("no chat network; `hearth setup` adds one later");
    at.answer("Write to your agent", "good morning");
    at.wait("main: echo: good morning");
    let (ended, shown) = at.end();
    assert!(ended.success(), "{shown}");
    assert!(shown.contains("What to do next"), "{shown}");
    assert!(!host.data().join("skills").exists(), "echo uses no skills");
    host.check();
    let file = host.data().join("hearth.toml");
    let applied = host.done(&["apply", file.to_str().unwrap()], b"");
    assert!(applied.lines().all(|line| line.starts_with("unchanged")), "{applied}");
}

#[test]
fn a_wrong_key_and_a_wrong_token_are_refused_at_once_and_the_right_ones_are_kept() {
    let (host, api, telegram) = (machine(), FakeApi::start(), FakeTelegram::start());
    api.takes(KEY);
    let bot_api = ["--telegram-base-url", &telegram.url()];
    let mut at = Pty::start(setup(&host, &[&bot_api[..], &["--no-message"]].concat()));
    at.answer("Your choice [1]: ", "claude");
    at.answer("Your choice [1]: ", "3");
    at.answer("Address, like http://localhost:4000: ", "nowhere at all");
    at.wait("This is not an address: ");
    at.answer("Address, like http://localhost:4000: ", &api.url());
    at.answer("(not shown while you type): ", "sk-ant-api03-a-wrong-key");
    at.wait("This does not work: ");
    at.answer("Address, like http://localhost:4000: ", &api.url());
    at.answer("(not shown while you type): ", &format!("x\u{15}{KEY}y\u{7f}"));
    at.wait("Your agent uses claude-test, the only model of this server");
    at.wait("api.anthropic.com, codeload.github.com, crates.io, deb.debian.org:80");
    at.answer("List them? [Y/n]: ", "maybe");
    at.wait("Type y or n.");
    at.answer("List them? [Y/n]: ", "");
    at.answer("Token of the bot (not shown; Enter for no bot): ", "4242:AAwrongwrongwrongwrongwrongwrongwrong");
    at.wait("This does not work: ");
    at.answer("Token of the bot (not shown; Enter for no bot): ", TOKEN);
    at.wait(&format!("@{NAME} answers on channel telegram"));
    at.answer("so that approvals reach you there? [Y/n]: ", "n");
    let (ended, shown) = at.end();
    assert!(ended.success(), "{shown}");
    assert_kept(&host, "main.ANTHROPIC_AUTH_TOKEN", KEY, &shown);
    assert_kept(&host, "telegram.token", TOKEN, &shown);
    host.check();
    // A skill that was removed does not come back.
    assert_eq!(skills(&host), ["remember", "remind-me", "summarise-a-page", "what-i-can-do"]);
    std::fs::remove_dir_all(host.data().join("skills/remember")).unwrap();

    let options = ["--no-service", "--no-message"];
    let again = json(&host, &options);
    assert_eq!(states(&again)[..3], ["already", "already", "already"], "{again}");
    assert_eq!(skills(&host), ["remind-me", "summarise-a-page", "what-i-can-do"]);
    api.takes("another");
    let refused = json(&host, &options);
    assert_eq!(states(&refused), ["failed"], "{refused}");
    assert!(refused["steps"][0]["about"].as_str().unwrap().contains("--key-file"), "{refused}");
}

#[test]
fn every_step_is_also_an_option() {
    let (host, telegram) = (machine(), FakeTelegram::start());
    let token = host.path("token");
    std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
    let url = telegram.url();
    let options = ["--provider", "echo", "--telegram-token-file", token.to_str().unwrap(), "--telegram-base-url", &url];
    let answer = json(&host, &[&options[..], &["--no-service", "--message", "good morning"]].concat());
    assert_eq!(answer["answers"], serde_json::json!(["echo: good morning"]), "{answer}");
    assert_eq!(states(&answer)[..4], ["done", "skipped", "done", "skipped"], "{answer}");
    assert!(answer["next"][0].as_str().unwrap().starts_with("hearth channels pair telegram"), "{answer}");
    assert!(answer["next"][1].as_str().unwrap().contains(NAME), "{answer}");
    assert_kept(&host, "telegram.token", TOKEN, &answer.to_string());
    host.check();
}

#[test]
fn without_a_terminal_missing_options_are_named() {
    let host = machine();
    for (options, named) in [
        (&[][..], &["--provider", "--key-file", "--yes", "--no-service"][..]),
        (&["--provider", "claude", "--yes"][..], &["--key-file", "--base-url"][..]),
        (&["--provider", "echo"][..], &["--yes", "--no-service"][..]),
    ] {
        let ended = host.run(&[&["setup"], options].concat(), b"");
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:#?}");
        for name in named {
            assert!(ended.stderr.contains(name), "{name}: {ended:#?}");
        }
    }
    let empty = host.path("empty");
    std::fs::write(&empty, "").unwrap();
    for file in [empty.to_str().unwrap(), "/nonexistent", "/dev/zero"] {
        let ended = host.run(&["setup", "--no-service", "--key-file", file], b"");
        assert_eq!(ended.code, Some(1), "{ended:#?}");
        assert!(ended.stderr.contains(file), "{ended:#?}");
    }
    assert!(!host.data().join("store").exists(), "what was refused created nothing");
}

/// Setup can be ended safely at each question: finished steps are kept, and the next setup asks for the rest.
#[test]
fn setup_goes_on_after_it_was_killed_at_any_question() {
    let (host, api, telegram) = (machine(), FakeApi::start(), FakeTelegram::start());
    api.takes(KEY);
    api.offers(&["claude-test", "claude-other"]);
    let options = ["--telegram-base-url", &telegram.url(), "--no-message"];
    let (url, key) = (api.url(), KEY.to_owned());
    let questions: [(&str, &str, bool); 7] = [
        ("Your choice [1]: ", "1", false),
        ("Your choice [1]: ", "3", false),
        ("Address, like http://localhost:4000: ", &url, false),
        ("(not shown while you type): ", &key, false),
        ("Model (Enter for the default of the agent CLI): ", "claude-other", false),
        ("List them? [Y/n]: ", "n", true),
        ("Token of the bot (not shown; Enter for no bot): ", TOKEN, true),
    ];
    // Killed at each question; a step that was finished is not asked again.
    let mut from = 0;
    for stop in 0..questions.len() {
        let mut at = Pty::start(setup(&host, &options));
        for (question, answer, _) in &questions[from..stop] {
            at.answer(question, answer);
        }
        at.wait(questions[stop].0);
        at.kill();
        from = questions[..stop].iter().rposition(|(.., ends)| *ends).map_or(0, |last| last + 1);
        if host.data().join("store/data.mdb").exists() {
            host.check();
        }
    }
    let mut at = Pty::start(setup(&host, &options));
    at.wait("claude, with a working server token");
    at.wait(questions[6].0);
    at.type_keys("\u{3}");
    let (ended, shown) = at.end();
    assert_eq!(ended.code(), Some(1), "{shown}");
    assert!(shown.contains("`hearth setup` continues where it stopped"), "{shown}");
    let shown = host.done(&["agents", "show", "main", "--json"], b"");
    let agent: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(agent["model"], "claude-other", "{agent}");
    assert_eq!(agent["allow"], serde_json::json!(["api.anthropic.com"]), "{agent}");
    assert_eq!(agent["network"], if has_networks(&host) { "ask" } else { "open" }, "{agent}");
}

/// A file that a person wrote is replaced only if the person agrees.
#[test]
fn a_file_that_was_written_by_hand_is_not_overwritten() {
    let host = machine();
    std::fs::create_dir(host.data()).unwrap();
    std::fs::set_permissions(host.data(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let (file, mine) = (host.data().join("hearth.toml"), "schema = 1\n# mine\ntimezone = \"Europe/Berlin\"\n");
    std::fs::write(&file, mine).unwrap();
    let options = ["setup", "--provider", "echo", "--no-service", "--no-message"];
    let ended = host.run(&options, b"");
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.stderr.contains("is not changed") && ended.stderr.contains("folder = \"main\""), "{ended:#?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), mine);
    host.done(&[&options[..], &["--yes", "--agent", "other"]].concat(), b"");
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.contains("Europe/Berlin") && written.contains("folder = \"other\""), "{written}");
    assert_eq!(std::fs::read_to_string(host.data().join("hearth.toml.old")).unwrap(), mine);
}

#[test]
fn the_service_is_installed_or_it_is_said_why_not() {
    let system = System::new();
    let answer = json(&system.host, &["--provider", "echo", "--yes", "--no-message"]);
    let service = &answer["steps"][3];
    // Root gets no service without an additional option.
    let state = if rustix::process::geteuid().is_root() { "skipped" } else { "done" };
    assert_eq!(service["state"], state, "{answer}");
    assert!(service["about"].as_str().unwrap().contains("service"), "{answer}");
}

/// The complete setup with the real agent CLI, against a fake API.
#[test]
fn the_first_answer_comes_from_the_real_agent_cli() {
    let Some(cli) = agents::cli() else { return };
    let (host, api) = (machine(), FakeApi::start());
    api.takes(KEY);
    std::fs::remove_file(host.path("bin/claude")).unwrap();
    std::os::unix::fs::symlink(cli, host.path("bin/claude")).unwrap();
    let key = host.path("key");
    std::fs::write(&key, KEY).unwrap();
    let url = api.url();
    let options = ["--key-file", key.to_str().unwrap(), "--base-url", &url, "--runtime", "process", "--unconfined"];
    let answer = json(&host, &[&options[..], &["--no-service", "--message", "good morning"]].concat());
    assert_eq!(answer["answers"], serde_json::json!(["heard: good morning"]), "{answer}");
}

/// A known agent is set up by options alone; what it needs to know is asked for.
#[test]
fn a_known_agent_is_led_to_its_model() {
    let host = machine();
    let options = ["setup", "--provider", "opencode", "--no-service", "--no-message", "--no-telegram"];
    let ended = host.run(&options, b"");
    assert!(ended.code == Some(1) && ended.stderr.contains("add --model"), "{ended:#?}");
    let key = host.path("key");
    std::fs::write(&key, "sk-mine").unwrap();
    let api = FakeApi::start();
    let url = format!("{}/v1", api.url());
    let with = |url: &str| {
        let more = ["--model", "qwen3:8b", "--base-url", url, "--key-file", key.to_str().unwrap()];
        host.run(&[&options[..], &more[..]].concat(), b"")
    };
    // Everything is tried at once, and nothing is kept that does not work.
    api.takes("sk-another");
    for (url, why) in [("http://127.0.0.1:1/v1", "cannot be reached"), (url.as_str(), "rejects the API key")] {
        let ended = with(url);
        let said = format!("{why}; correct --key-file or --base-url");
        assert!(ended.code == Some(1) && ended.stderr.contains(why), "{said}: {ended:#?}");
        assert!(!host.data().join("secrets/main.OPENAI_API_KEY").exists(), "{ended:#?}");
    }
    api.takes("sk-mine");
    let ended = with(&url);
    assert!(ended.code == Some(0) && ended.stdout.contains("opencode-ai@"), "{ended:#?}");
    assert!(ended.stdout.contains(&format!("{url} accepts the key")), "{ended:#?}");
    let text = std::fs::read_to_string(host.data().join("hearth.toml")).unwrap();
    for part in ["provider = \"opencode\"", "model = \"qwen3:8b\"", &url, "main.OPENAI_API_KEY"] {
        assert!(text.contains(part) && !text.contains("sk-mine"), "{part}: {text}");
    }
    // So does `hearth doctor`.
    let key = |host: &Host| {
        let checks: Value = serde_json::from_str(&host.run(&["doctor", "--json"], b"").stdout).unwrap();
        checks["checks"].as_array().unwrap().iter().find(|check| check["check"] == "key").unwrap().clone()
    };
    assert_eq!(key(&host)["result"], "ok", "{}", key(&host));
    api.takes("sk-another");
    let refused = key(&host);
    assert_eq!(refused["result"], "fail", "{refused}");
    assert!(refused["mend"].as_str().unwrap().contains("--provider opencode --key-file"), "{refused}");
    let again = host.run(&options, b"");
    assert!(again.code == Some(1) && again.stderr.contains("rejects the API key"), "{again:#?}");
}

/// At a terminal, setup asks again until a server and its key work, and says what it cannot try.
#[test]
fn a_wrong_key_of_a_known_agent_is_asked_for_again() {
    let (host, api) = (machine(), FakeApi::start());
    api.takes("sk-mine");
    let url = format!("{}/v1", api.url());
    let options = ["--provider", "qwen", "--model", "m", "--no-message", "--no-telegram", "--yes"];
    let mut at = Pty::start(setup(&host, &options));
    for (address, key, why) in
        [("http://127.0.0.1:1/v1", "sk-mine", "cannot be reached"), (&url, "sk-wrong", "rejects the API key")]
    {
        at.answer("Address of your own server for its model", address);
        at.answer("not shown while you type): ", key);
        at.wait("This does not work: ");
        at.wait(why);
    }
    at.answer("Address of your own server for its model", &url);
    at.answer("not shown while you type): ", "sk-mine");
    at.wait("accepts the key");
    let (ended, shown) = at.end();
    assert!(ended.success(), "{shown}");
    assert_kept(&host, "main.OPENAI_API_KEY", "sk-mine", &shown);

    let host = machine();
    let mut at = Pty::start(setup(&host, &["--provider", "codex", "--no-message", "--no-telegram", "--yes"]));
    at.answer("Address of your own server for its model", "");
    at.answer("not shown while you type): ", "");
    at.answer("Model (Enter for the agent's own): ", "");
    at.wait("not tried, because its program signs in on its own");
    let (ended, shown) = at.end();
    assert!(ended.success(), "{shown}");
}
