//! Tool calls that people are asked about, with the real CLI, an agent with the Agent Client Protocol, and the real daemon.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::Value;

use crate::host::agents::{ACP, cli, json_of, results, runners};
use crate::host::fake_api::FakeApi;
use crate::host::fake_llm::FakeLlm;
use crate::host::{CHAT, Host, wait_for};

/// The CLI as an agent whose shell commands are asked about. Its owner is at the terminal of this machine.
fn setup(rules: &str) -> Option<(Host, FakeApi, PathBuf)> {
    let cli = cli()?;
    let api = FakeApi::start();
    let mut host = Host::new();
    host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "10".to_owned()));
    let uid = rustix::process::geteuid().as_raw();
    host.apply(&format!(
        "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"claude\"\ncommand = [{:?}]\nunconfined = true\n\
         tools = {rules}\n\
         env = {{ ANTHROPIC_BASE_URL = {:?}, ANTHROPIC_API_KEY = \"sk-ant-test\", CLAUDE_CODE_MAX_RETRIES = \"1\" }}\n\
         [[users]]\nid = \"terminal:{uid}\"\nroles = [\"owner\"]\n{CHAT}",
        cli.display(),
        api.url()
    ));
    host.start();
    Some((host, api, cli))
}

const ASKING: &str = "{ rules = [{ ask = \"Bash\" }] }";

/// Adds a line to the file `ran`, so that it shows how often it ran.
fn runs(more: &str) -> String {
    format!("[[tool Bash {{\"command\":\"echo x >> ran{more}\"}}]] [[say done]]")
}

fn ran(host: &Host) -> usize {
    std::fs::read_to_string(host.data().join("groups/main/ran")).map_or(0, |text| text.lines().count())
}

/// Waits until the agent has answered so often.
fn answered(host: &Host, times: usize) {
    wait_for("the answer", || (host.said().iter().filter(|text| *text == "done").count() == times).then_some(()));
}

fn open(host: &Host) -> Option<String> {
    let listed = json_of(host, &["approvals", "list", "--json"]);
    listed["approvals"].as_array()?.first().map(|one| one["approval"].as_str().unwrap().to_owned())
}

fn asked(host: &Host) -> String {
    wait_for("the question", || open(host))
}

/// An agent whose shell commands are asked about.
struct Asking {
    host: Host,
    program: Program,
    _api: Option<FakeApi>,
}

/// The program that is the agent.
enum Program {
    /// The real CLI, at this path.
    Cli(PathBuf),
    /// The fake agent with the Agent Client Protocol.
    Acp,
}

impl Asking {
    fn cli() -> Option<Self> {
        let (host, api, cli) = setup(ASKING)?;
        Some(Self { host, program: Program::Cli(cli), _api: Some(api) })
    }

    fn acp() -> Self {
        let mut host = Host::new();
        host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "10".to_owned()));
        host.apply(&format!(
            "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"acp\"\ncommand = [\"python3\", {ACP:?}]\n\
             unconfined = true\ntools = {ASKING}\n\
             [[users]]\nid = \"terminal:{}\"\nroles = [\"owner\"]\n{CHAT}",
            rustix::process::geteuid().as_raw()
        ));
        host.start();
        Self { host, program: Program::Acp, _api: None }
    }

    /// Sends a message whose turn adds a line to the file `ran`, so that it shows how often it ran.
    fn inject(&self, id: &str, more: &str) {
        let prompt = match self.program {
            Program::Cli(_) => runs(more),
            Program::Acp => format!("\n@@run echo x >> ran{more}\n@@say done\n"),
        };
        self.host.inject(id, &prompt);
    }

    /// Kills the agent's program, and not its runner.
    fn kill_program(&self) {
        let home = self.host.data().display().to_string();
        let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let of_this = |process: &PathBuf| {
            let is_program = match &self.program {
                Program::Cli(cli) => std::fs::read_link(process.join("exe")).is_ok_and(|exe| exe == *cli),
                Program::Acp => std::fs::read(process.join("cmdline"))
                    .is_ok_and(|line| String::from_utf8_lossy(&line).trim_end_matches('\0').ends_with(ACP)),
            };
            is_program && std::fs::read_link(process.join("cwd")).is_ok_and(|place| place.starts_with(&home))
        };
        let found: Vec<i32> =
            processes.filter(of_this).filter_map(|process| process.file_name()?.to_str()?.parse().ok()).collect();
        assert!(!found.is_empty(), "the agent's program runs");
        found.into_iter().for_each(kill);
    }

    fn kill_runner(&self) {
        let found = runners(&self.host);
        assert!(!found.is_empty(), "the runner runs");
        found.into_iter().for_each(|pid| kill(i32::try_from(pid).unwrap()));
    }

    fn kill_daemon(&mut self) {
        self.host.kill();
        self.host.start();
    }
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_person_allows_a_call_once_for_longer_or_not_at_all() {
    let Some((host, api, _)) = setup(ASKING) else { return };
    host.inject("m1", &runs(""));
    let id = asked(&host);
    let shown = host.done(&["approvals", "show", &id], b"");
    for part in ["\"Bash\"", "echo x >> ran", "digest: "] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(ran(&host), 0);
    host.done(&["approvals", "approve", &id], b"");
    answered(&host, 1);
    assert_eq!(ran(&host), 1);
    let why = host.done(&["why", "m1"], b"");
    assert!(why.contains("tool Bash: ran") && why.contains(&format!("({id}, decided by the operator)")), "{why}");
    // A reason reaches the model.
    host.inject("m2", &runs(""));
    host.done(&["approvals", "reject", &asked(&host), "--reason", "not on Sundays"], b"");
    answered(&host, 2);
    let (told, is_error) = results(&api).pop().unwrap();
    assert!(is_error && told.contains("not on Sundays"), "{told}");
    assert_eq!(ran(&host), 1);
    // For longer.
    host.inject("m3", &runs(""));
    host.done(&["approvals", "approve", &asked(&host), "--always"], b"");
    answered(&host, 3);
    host.inject("m4", &runs(""));
    answered(&host, 4);
    assert_eq!((ran(&host), open(&host)), (3, None));
    let rules = json_of(&host, &["agents", "rules", "list", "main", "--json"]);
    let granted = rules["rules"].as_array().unwrap().iter().find(|rule| rule["verdict"] == "granted").unwrap().clone();
    assert_eq!(granted["pattern"], "Bash(command:echo x >> ran)");
    host.done(&["agents", "rules", "remove", "main", granted["id"].as_str().unwrap()], b"");
    host.inject("m5", &runs(""));
    host.done(&["approvals", "reject", &asked(&host)], b"");
    answered(&host, 5);
    assert_eq!(ran(&host), 3);
    host.wait_settled();
    host.check();
}

#[test]
fn a_denied_tool_is_not_asked_about() {
    let Some((host, api, _)) = setup("{ preset = \"locked\", rules = [{ deny = \"Bash(echo:*)\" }] }") else { return };
    host.inject("m1", &runs(""));
    answered(&host, 1);
    let (told, is_error) = results(&api).pop().unwrap();
    assert!(is_error && told.contains("the rule `deny Bash(echo:*)`"), "{told}");
    assert_eq!((ran(&host), open(&host)), (0, None));
    host.check();
}

/// What an agent can write for itself: no hooks, and permission for everything.
#[test]
fn settings_of_the_agent_do_not_switch_questions_off() {
    let Some((host, _api, _)) = setup(ASKING) else { return };
    let place = host.data().join("groups/main/.claude");
    std::fs::create_dir_all(&place).unwrap();
    let settings =
        r#"{"disableAllHooks": true, "permissions": {"allow": ["Bash"], "defaultMode": "bypassPermissions"}}"#;
    for name in ["settings.json", "settings.local.json"] {
        std::fs::write(place.join(name), settings).unwrap();
    }
    host.inject("m1", &runs(""));
    host.done(&["approvals", "reject", &asked(&host)], b"");
    answered(&host, 1);
    assert_eq!(ran(&host), 0);
    host.wait_settled();
    host.check();
}

/// Whatever is killed while a person thinks, the call runs once.
fn a_question_survives(mut of: Asking, kill: impl FnOnce(&mut Asking)) {
    of.inject("m1", "");
    let id = asked(&of.host);
    kill(&mut of);
    let host = &of.host;
    assert_eq!(open(host).as_deref(), Some(id.as_str()), "the same question");
    host.done(&["approvals", "approve", &id], b"");
    // The agents repeat their directives: what a new run says after the call is the same.
    answered(host, 1);
    assert_eq!((ran(host), open(host)), (1, None));
    host.wait_settled();
    host.check();
}

/// Waits until the daemon knows that the first run is over. A decision before that belongs to that run.
fn over(host: &Host) {
    wait_for("the end of the run", || host.done(&["why", "m1"], b"").contains("run 1 ended").then_some(()));
}

fn survives_the_runner(of: Asking) {
    a_question_survives(of, |of| {
        of.kill_runner();
        over(&of.host);
    });
}

fn survives_the_program(of: Asking) {
    a_question_survives(of, |of| {
        of.kill_program();
        over(&of.host);
    });
}

#[test]
fn a_question_survives_a_kill_of_the_daemon() {
    if let Some(of) = Asking::cli() {
        a_question_survives(of, Asking::kill_daemon);
    }
}

#[test]
fn a_question_survives_a_kill_of_the_runner() {
    if let Some(of) = Asking::cli() {
        survives_the_runner(of);
    }
}

#[test]
fn a_question_survives_a_kill_of_the_cli() {
    if let Some(of) = Asking::cli() {
        survives_the_program(of);
    }
}

#[test]
fn a_question_of_an_acp_agent_survives_a_kill_of_the_daemon() {
    a_question_survives(Asking::acp(), Asking::kill_daemon);
}

#[test]
fn a_question_of_an_acp_agent_survives_a_kill_of_the_runner() {
    survives_the_runner(Asking::acp());
}

#[test]
fn a_question_of_an_acp_agent_survives_a_kill_of_its_program() {
    survives_the_program(Asking::acp());
}

/// Whatever is killed after the decision was passed on, the call is not repeated silently: the turn goes on, or a person
/// is asked again, and told that the call may have run. Returns whether it was asked about again.
fn is_asked_about_again(mut of: Asking, kill: impl FnOnce(&mut Asking)) -> bool {
    of.inject("m1", "; sleep 5");
    let id = asked(&of.host);
    of.host.done(&["approvals", "approve", &id], b"");
    wait_for("the tool", || (ran(&of.host) == 1).then_some(()));
    kill(&mut of);
    let host = &of.host;
    let is_answered = |host: &Host| host.said().iter().any(|text| text == "done");
    let again = wait_for("the second question, or the answer", || match open(host) {
        Some(again) => Some(Some(again)),
        None => is_answered(host).then_some(None),
    });
    if let Some(again) = &again {
        let shown: Value = json_of(host, &["approvals", "show", again, "--json"]);
        assert_eq!(shown["request"]["earlier"], "unknown", "{shown}");
        assert!(shown["about"].as_str().unwrap().contains("may or may not have run"), "{shown}");
        assert_eq!(ran(host), 1);
        host.done(&["approvals", "reject", again], b"");
    }
    answered(host, 1);
    assert_eq!(ran(host), 1);
    host.wait_settled();
    host.check();
    again.is_some()
}

#[test]
fn a_call_is_not_repeated_after_a_kill_of_the_runner() {
    assert!(Asking::cli().is_none_or(|of| is_asked_about_again(of, |of| of.kill_runner())));
}

#[test]
fn a_call_is_not_repeated_after_a_kill_of_the_cli() {
    assert!(Asking::cli().is_none_or(|of| is_asked_about_again(of, |of| of.kill_program())));
}

#[test]
fn a_call_is_not_repeated_after_a_kill_of_the_daemon() {
    if let Some(of) = Asking::cli() {
        is_asked_about_again(of, Asking::kill_daemon);
    }
}

#[test]
fn a_call_of_an_acp_agent_is_not_repeated_after_a_kill_of_the_runner() {
    assert!(is_asked_about_again(Asking::acp(), |of| of.kill_runner()));
}

#[test]
fn a_call_of_an_acp_agent_is_not_repeated_after_a_kill_of_its_program() {
    assert!(is_asked_about_again(Asking::acp(), |of| of.kill_program()));
}

#[test]
fn a_call_of_an_acp_agent_is_not_repeated_after_a_kill_of_the_daemon() {
    is_asked_about_again(Asking::acp(), Asking::kill_daemon);
}

/// From the model's call to the question in the store, and from the decision to the tool. The limits are those of a slow
/// machine; the numbers are printed.
#[test]
fn questions_and_answers_are_quick() {
    let Some((host, _api, _)) = setup(ASKING) else { return };
    host.inject("m1", &runs(""));
    let id = asked(&host);
    let begun = Instant::now();
    host.done(&["approvals", "approve", &id], b"");
    let decided = begun.elapsed();
    wait_for("the tool", || (ran(&host) == 1).then_some(()));
    println!("the command took {decided:?}, and the tool had run after {:?}", begun.elapsed());
    assert!(begun.elapsed().as_secs() < 10);
    answered(&host, 1);
}

/// The provider `openai` has Hearth's own tools, and asks in its own loop.
#[test]
fn an_agent_without_a_program_asks_too() {
    let model = FakeLlm::start();
    let mut host = Host::new();
    host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "10".to_owned()));
    host.apply(&format!(
        "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"openai\"\nmodel = \"fake-1\"\nunconfined = true\n\
         tools = {{ rules = [{{ ask = \"mcp__nanoclaw__send_message\" }}] }}\n\
         env = {{ OPENAI_BASE_URL = \"http://127.0.0.1:{}/v1\", OPENAI_API_KEY = \"none\" }}\n\
         [[users]]\nid = \"terminal:{}\"\nroles = [\"owner\"]\n{CHAT}",
        model.port,
        rustix::process::geteuid().as_raw()
    ));
    host.start();
    let prompt = "\n@@tool send_message {\"text\":\"from the tool\"}\n@@say done\n";
    host.inject("m1", prompt);
    host.done(&["approvals", "approve", &asked(&host)], b"");
    answered(&host, 1);
    let from_tool = |host: &Host| host.said().iter().filter(|text| *text == "from the tool").count();
    assert_eq!(from_tool(&host), 1);
    host.inject("m2", prompt);
    let id = asked(&host);
    host.kill();
    host.start();
    host.done(&["approvals", "reject", &id, "--reason", "not now"], b"");
    answered(&host, 2);
    assert_eq!(from_tool(&host), 1);
    host.wait_settled();
    let why = host.done(&["why", "m2"], b"");
    assert!(why.contains("tool mcp__nanoclaw__send_message: denied"), "{why}");
    assert!(why.contains(&format!("({id}, decided by the operator)")), "{why}");
    host.check();
}
