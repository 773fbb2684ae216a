//! Missing prerequisites of an installation whose agents cannot answer yet: `status` warns of each, and `doctor` fails
//! with a fix.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::host::Host;
use crate::host::fake_api::FakeApi;
use crate::host::fake_telegram::{FakeTelegram, TOKEN};

const KEY: &str = "sk-ant-api03-the-right-key";
const OWNER: &str = "[[users]]\nid = \"terminal:1\"\nroles = [\"owner\"]\n";

/// An installation with an owner whose containers are off by configuration.
fn with(agent: &str) -> Host {
    let host = Host::new();
    apply(&host, &format!("runtime = \"process\"\n{OWNER}[[agents]]\nfolder = \"main\"\n{agent}\n"));
    host
}

fn apply(host: &Host, toml: &str) {
    host.apply(&format!("schema = 1\n{toml}"));
}

/// Programs that exist on the search path and do nothing.
fn install(host: &mut Host, name: &str) {
    let bin = host.path("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(bin.join(name), "#!/bin/sh\nexit 1\n").unwrap();
    std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    host.env.push(("PATH".into(), format!("{}:/usr/bin:/bin", bin.display())));
}

fn checks(host: &Host, options: &[&str], name: &str) -> Vec<Value> {
    let ended = host.run(&[&["doctor", "--json"], options].concat(), b"");
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:#?}"));
    let all = answer["checks"].as_array().unwrap();
    all.iter().filter(|check| check["check"] == name).cloned().collect()
}

fn is_warned(host: &Host, words: &str) -> bool {
    host.status()["warnings"].as_array().unwrap().iter().any(|one| one.as_str().unwrap().contains(words))
}

/// A warning only: the file may be for later.
#[test]
fn an_agent_without_the_network_that_it_needs_is_reported() {
    let host = Host::new();
    let agent = "schema = 1\nruntime = \"process\"\n[[agents]]\nfolder = \"main\"\nprovider = \"claude\"\nnetwork = ";
    let words = "agent main has `network = \"none\"`, and its provider claude has to reach a server";
    let applied = host.run(&["apply", "--no-owner", "-"], format!("{agent}\"none\"").as_bytes());
    assert!(applied.code == Some(0) && applied.stderr.contains(words), "{applied:#?}");
    assert!(is_warned(&host, words), "{}", host.status()["warnings"]);
    let network = checks(&host, &["--offline"], "network");
    assert_eq!(network[0]["result"], "warn", "{network:?}");
    for closed in ["\"open\"", "\"none\"\nunconfined = true"] {
        let applied = host.run(&["apply", "--no-owner", "-"], format!("{agent}{closed}").as_bytes());
        assert!(!applied.stderr.contains(words) && !is_warned(&host, words), "{closed}: {applied:#?}");
    }
}

/// Both commands report it, and `doctor` has a fix.
fn assert_lacks(host: &Host, name: &str, words: &str) {
    assert!(is_warned(host, words), "{words}: {}", host.status()["warnings"]);
    let failed = checks(host, &["--offline"], name);
    let told = failed.iter().find(|check| check["found"].as_str().unwrap().contains(words));
    let told = told.unwrap_or_else(|| panic!("{words}: {failed:?}"));
    assert!(told["result"] == "fail" && told["mend"].is_string(), "{told}");
}

fn assert_lacks_not(host: &Host, name: &str, words: &str) {
    assert!(!is_warned(host, words), "{words}: {}", host.status()["warnings"]);
    let found = checks(host, &["--offline"], name);
    assert!(found.iter().all(|check| check["result"] == "ok"), "{found:?}");
}

#[test]
fn a_missing_owner_is_reported() {
    let host = Host::new();
    assert_lacks(&host, "owner", "there is no owner");
    apply(&host, OWNER);
    assert_lacks_not(&host, "owner", "there is no owner");
}

#[test]
fn agents_that_all_echo_are_reported() {
    let host = with("provider = \"echo\"");
    assert_lacks(&host, "provider", "only repeats");
    apply(&host, "[[agents]]\nfolder = \"other\"\nprovider = \"command\"\ncommand = [\"true\"]\n");
    assert_lacks_not(&host, "provider", "only repeats");
}

#[test]
fn a_missing_file_of_a_secret_is_reported_once_for_all_who_use_it() {
    let host = with("provider = \"claude\"");
    let file = host.path("key");
    let agent = |folder: &str| {
        let env = format!("env = {{ ANTHROPIC_API_KEY = \"file:{}\" }}", file.display());
        format!("[[agents]]\nfolder = \"{folder}\"\nprovider = \"claude\"\n{env}\n")
    };
    apply(&host, &format!("{}{}", agent("main"), agent("other")));
    assert_lacks(&host, "secret", "of agent main, agent other: the file does not exist");
    assert_eq!(checks(&host, &["--offline"], "secret").len(), 1);
    std::fs::create_dir(&file).unwrap();
    assert_lacks(&host, "secret", "not a regular file");
    std::fs::remove_dir(&file).unwrap();
    std::fs::write(&file, "key").unwrap();
    assert_lacks_not(&host, "secret", "regular file");
}

#[test]
fn variables_are_looked_up_in_the_daemon_if_one_runs() {
    let mut host = with("provider = \"echo\"\nenv = { TOKEN = \"env:A_TOKEN\" }");
    assert_lacks(&host, "secret", "no daemon runs that could have it");
    host.env.push(("A_TOKEN".into(), "a-token-of-the-daemon".into()));
    assert_lacks_not(&host, "secret", "env:A_TOKEN");
    host.start();
    host.env.clear();
    assert_lacks_not(&host, "secret", "env:A_TOKEN");
    host.stop();
    host.start();
    assert_lacks(&host, "secret", "the daemon's environment has no such variable");
}

#[test]
fn claude_without_a_key_or_a_login_is_reported() {
    let host = with("provider = \"claude\"");
    let words = "agent main has no key and no login";
    assert_lacks(&host, "login", words);
    let home = host.data().join("homes/main/.claude");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join(".credentials.json"), "{}").unwrap();
    assert_lacks_not(&host, "login", words);
    std::fs::remove_dir_all(&home).unwrap();
    apply(&host, "[[agents]]\nfolder = \"main\"\nprovider = \"claude\"\ncommand = [\"wrapper\"]\n");
    assert_lacks_not(&host, "login", words);
}

#[test]
fn podman_that_does_not_answer_is_reported_where_it_is_installed_and_not_disabled() {
    let mut host = Host::new();
    let words = "Podman is installed but does not answer";
    host.env.push(("CONTAINER_HOST".into(), format!("unix://{}", host.path("no.sock").display())));
    install(&mut host, "podman");
    assert_lacks(&host, "podman", words);
    // No warning if the command that started the daemon chose processes.
    host.start();
    assert!(!host.done(&["status"], b"").contains(words));
    host.stop();
    apply(&host, "runtime = \"process\"\n");
    assert_lacks_not(&host, "podman", words);
}

/// An agent and a bot whose secrets come from commands. Each command leaves a mark.
fn with_marks(host: &Host, api: &FakeApi, telegram: &FakeTelegram) -> PathBuf {
    let mark = host.path("mark");
    let reference = |secret: &str| format!("cmd:echo {secret} | tee -a {}", mark.display());
    apply(
        host,
        &format!(
            "[[agents]]\nfolder = \"main\"\nprovider = \"claude\"\n\
             env = {{ ANTHROPIC_API_KEY = \"{}\", ANTHROPIC_BASE_URL = \"{}\" }}\n\
             [channels.telegram]\ntoken = \"{}\"\nbase_url = \"{}\"\n",
            reference(KEY),
            api.url(),
            reference(TOKEN),
            telegram.url()
        ),
    );
    mark
}

#[test]
fn the_doctor_resolves_references_and_tries_keys_and_tokens_at_their_servers() {
    let (host, api, telegram) = (with("provider = \"echo\""), FakeApi::start(), FakeTelegram::start());
    api.takes(KEY);
    let mark = with_marks(&host, &api, &telegram);
    let result =
        |name: &str| checks(&host, &[], name).into_iter().map(|check| check["result"].clone()).collect::<Vec<_>>();
    assert_eq!((result("key"), result("bot")), (vec!["ok".into()], vec!["ok".into()]));
    let marks = std::fs::read_to_string(&mark).unwrap();
    assert_eq!(marks.lines().filter(|line| *line == KEY).count(), 2, "each doctor resolves a reference once");
    api.takes("another key");
    telegram.takes("4242:AAanotheranotheranotheranotherano");
    for name in ["key", "bot"] {
        let failed = checks(&host, &[], name);
        assert!(failed[0]["result"] == "fail" && failed[0]["mend"].is_string(), "{failed:?}");
        assert!(!failed[0].to_string().contains(KEY) && !failed[0].to_string().contains(TOKEN), "{failed:?}");
    }
}

#[test]
fn an_offline_doctor_runs_no_command_and_calls_no_server() {
    let (host, api, telegram) = (with("provider = \"echo\""), FakeApi::start(), FakeTelegram::start());
    let mark = with_marks(&host, &api, &telegram);
    let secrets = checks(&host, &["--offline"], "secret");
    assert!(secrets.iter().all(|check| check["result"] == "ok") && secrets.len() == 2, "{secrets:?}");
    host.status();
    assert!(!mark.exists(), "a command ran");
    assert!(api.keys().is_empty() && telegram.calls("getMe").is_empty(), "a server was called");
}

/// A command cannot read the daemon's environment, so it says what it did not try.
#[test]
fn a_key_in_the_environment_of_a_running_daemon_is_not_said_to_work() {
    let mut host = Host::new();
    let api = FakeApi::start();
    let toml = "[[agents]]\nfolder = \"main\"\nprovider = \"claude\"\nenv = { ANTHROPIC_API_KEY = \"env:KEY\", ANTHROPIC_BASE_URL = ";
    apply(&host, &format!("runtime = \"process\"\n{OWNER}{toml}\"{}\" }}\n", api.url()));
    api.takes("another key");
    host.env.push(("KEY".into(), KEY.into()));
    let found = checks(&host, &[], "key");
    assert_eq!(found[0]["result"], "fail", "{found:?}");
    host.start();
    let found = checks(&host, &[], "key").remove(0)["found"].to_string();
    assert!(found.contains("was not tried: it is a variable of the running daemon"), "{found}");
    assert!(found.contains("`file:`") && api.keys().len() == 1, "{found}");
}

#[test]
fn a_command_of_a_reference_that_hangs_is_ended_and_reported() {
    let host = with("provider = \"echo\"\nenv = { TOKEN = \"cmd:sleep 1000\" }");
    let begun = Instant::now();
    let secrets = checks(&host, &[], "secret");
    assert!(
        secrets[0]["result"] == "fail" && secrets[0].to_string().contains("did not end within 10 s"),
        "{secrets:?}"
    );
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}
