//! The providers, and how each is told what to do.

use std::path::PathBuf;

use hearth::model::entity::Preset;
use hearth_presets::Trial as Tried;
use serde_json::Value;

use crate::host::fake_api::{FakeApi, Trouble as ApiTrouble};
use crate::host::fake_llm::FakeLlm;
use crate::host::{CHAT, Host, agents, skipped, wait_for};

/// What an agent does in a turn.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Say(&'static str),
    /// Sends a text with Hearth's tool.
    Send(&'static str),
    /// Waits until [`Trial::release`].
    Hold,
    Huge(usize),
    Garbage,
}

/// What goes wrong with the model in a turn.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trouble {
    Login,
    Limited,
    Overloaded,
    Cut,
}

/// A provider under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// The agent CLI, against a stand-in for its API.
    Claude,
    /// A program that behaves like agents with the protocol.
    Acp,
    /// A program that writes lines.
    Command,
    /// Hearth's own agent, against a stand-in for its model.
    OpenAi,
    /// A known agent, against a stand-in for its model.
    Real(Preset),
}

/// All that the table shows.
pub(super) fn all() -> Vec<Subject> {
    let tried = Preset::ALL.into_iter().filter(|preset| preset.about().trial == Tried::Hearth);
    [Subject::Claude, Subject::Acp, Subject::Command, Subject::OpenAi]
        .into_iter()
        .chain(tried.map(Subject::Real))
        .collect()
}

/// The known agents that are installed here: the one that is asked for, or those that the table shows.
pub(super) fn installed() -> Vec<Subject> {
    let Some(dir) = agents_dir() else {
        skipped("no real agents: HEARTH_TEST_AGENTS does not name the directory that .ci/agents.sh filled");
        return Vec::new();
    };
    let wanted = std::env::var("HEARTH_TEST_AGENT").ok().and_then(|name| Preset::named(&name));
    let subjects = wanted.map_or_else(all, |preset| vec![Subject::Real(preset)]);
    let is_installed = |subject: &Subject| match subject {
        Subject::Real(preset) => dir.join("bin").join(preset.about().command[0]).exists(),
        Subject::Claude | Subject::Acp | Subject::Command | Subject::OpenAi => false,
    };
    subjects.into_iter().filter(is_installed).collect()
}

fn agents_dir() -> Option<PathBuf> {
    std::env::var_os("HEARTH_TEST_AGENTS").map(PathBuf::from)
}

impl Subject {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Acp => "acp",
            Self::Command => "command",
            Self::OpenAi => "openai",
            Self::Real(preset) => preset.about().name,
        }
    }

    /// Why a case does not apply, or does not hold.
    pub(super) fn exempt(self, case: &str) -> Option<&'static str> {
        const OWN: &str = "does not apply: a program of the operator's decides it";
        const LINES: &str = "not tested: only programs of the tests write such lines";
        const PATIENT: &str = "the agent asks its model again itself, for longer than a test waits";
        const SEARCHES: &str = "not tested: the agent's model has to look for the tools of servers first";
        const REPEATS: &str = "not tested: the agent takes a text of equal letters for a model that repeats itself";
        const NO_SERVERS: &str = "does not hold: the agent starts no servers of tools without a login";
        const ADDRESS: &str = "does not hold with the gateway: the agent keeps its server's address with a conversation, and \
                               a new run has another address, so that a new conversation begins";
        const FORGETS: &str = "does not always hold: a new run of the agent sometimes says that there are no previous sessions, \
                               although it wrote one, and a new conversation begins";
        match (self, case) {
            (Self::Real(Preset::Copilot), "tools") => Some(NO_SERVERS),
            (Self::Real(Preset::Hermes), "killed after a turn") => Some(ADDRESS),
            (Self::Real(Preset::Gemini), "killed after a turn") => Some(FORGETS),
            (Self::Command, "stale resume") => Some(OWN),
            (Self::Claude | Self::OpenAi | Self::Real(_), "malformed line") => Some(LINES),
            (Self::Real(Preset::Qwen), "tools") => Some(SEARCHES),
            (Self::Real(Preset::Gemini | Preset::Qwen), "huge answer") => Some(REPEATS),
            (Self::Real(_), "rate limit (429)" | "trouble (500)" | "cut answer") => Some(PATIENT),
            _ => None,
        }
    }
}

/// A daemon with one agent.
pub(super) struct Trial {
    pub(super) host: Host,
    subject: Subject,
    api: Option<FakeApi>,
    /// Ends with the trial.
    _model: Option<FakeLlm>,
    messages: usize,
}

impl Trial {
    /// None if the subject is not installed.
    pub(super) fn new(subject: Subject) -> Option<Self> {
        let (mut api, mut model) = (None, None);
        let host = Host::new();
        let agent = match subject {
            Subject::Claude => {
                let cli = agents::cli()?;
                let url = api.insert(FakeApi::start()).url();
                format!(
                    "provider = \"claude\"\ncommand = [{:?}]\nenv = {{ ANTHROPIC_BASE_URL = {url:?}, \
                     ANTHROPIC_API_KEY = \"sk-ant-test\", CLAUDE_CODE_MAX_RETRIES = \"1\" }}",
                    cli.display()
                )
            }
            Subject::Acp => format!("provider = \"acp\"\ncommand = [\"python3\", {:?}]", agents::ACP),
            Subject::Command => {
                let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/conformance/program.py");
                format!("provider = \"command\"\ncommand = [\"python3\", {program:?}]")
            }
            Subject::OpenAi => {
                let port = model.insert(FakeLlm::start()).port;
                format!(
                    "provider = \"openai\"\nmodel = \"fake-1\"\nenv = {{ OPENAI_BASE_URL = \"http://127.0.0.1:{port}/v1\", \
                     OPENAI_API_KEY = \"dummy\" }}"
                )
            }
            Subject::Real(preset) => {
                let port = model.insert(FakeLlm::start()).port;
                real(preset, port)
            }
        };
        host.apply(&format!(
            "schema = 1\n[[agents]]\nfolder = \"main\"\ntrust = \"main\"\nunconfined = true\n{agent}\n{CHAT}"
        ));
        let mut trial = Self { host, subject, api, _model: model, messages: 0 };
        if let Some(dir) = agents_dir() {
            let path = crate::host::search_path();
            trial.host.env.push(("PATH".to_owned(), format!("{}:{path}", dir.join("bin").display())));
        }
        trial.host.start();
        Some(trial)
    }

    /// The file for which held turns wait.
    fn gate(&self) -> PathBuf {
        self.host.path("go")
    }

    fn words(&self, step: Step) -> String {
        let gate = self.gate();
        match (self.subject, step) {
            (Subject::Claude, Step::Say(text)) => format!("[[say {text}]]"),
            (Subject::Claude, Step::Send(text)) => {
                format!("[[tool mcp__nanoclaw__send_message {{\"text\": \"{text}\"}}]]")
            }
            (Subject::Claude, Step::Hold) => "[[gate 0]]".to_owned(),
            (Subject::Claude, Step::Huge(letters)) => format!("[[say {}]]", "x".repeat(letters)),
            (Subject::Claude, Step::Garbage) => String::new(),
            (_, Step::Say(text)) => format!("@@say {text}"),
            (Subject::Command, Step::Send(text)) => format!("@@send {text}"),
            (Subject::Acp, Step::Send(text)) => format!("@@mcp nanoclaw send_message {{\"text\": \"{text}\"}}"),
            (Subject::OpenAi | Subject::Real(_), Step::Send(text)) => {
                format!("@@tool send_message {{\"text\": \"{text}\"}}")
            }
            (_, Step::Hold) => format!("@@until {}", gate.display()),
            (Subject::OpenAi | Subject::Real(_), Step::Huge(letters)) => format!("@@say {}", "x".repeat(letters)),
            (_, Step::Huge(letters)) => format!("@@huge {letters}"),
            (_, Step::Garbage) => "@@garbage".to_owned(),
        }
    }

    /// Writes a message to the agent.
    pub(super) fn say(&mut self, steps: &[Step]) {
        let words: Vec<String> = steps.iter().map(|step| self.words(*step)).collect();
        self.inject(&words.join("\n"));
    }

    fn inject(&mut self, text: &str) {
        self.messages += 1;
        self.host.inject(&format!("m{}", self.messages), &format!("\n{text}\n"));
    }

    /// Writes a message whose answer goes wrong.
    pub(super) fn trouble(&mut self, trouble: Trouble) {
        if let Some(api) = &self.api {
            api.trouble(Some(match trouble {
                Trouble::Login => ApiTrouble::Status(401, "authentication_error", None),
                Trouble::Limited => ApiTrouble::Status(429, "rate_limit_error", Some(1)),
                Trouble::Overloaded => ApiTrouble::Status(529, "overloaded_error", None),
                Trouble::Cut => ApiTrouble::Breaks,
            }));
        }
        let words = match (self.subject, trouble) {
            (Subject::Claude, _) => "[[say never]]",
            (Subject::Acp, Trouble::Login) => "@@fail -32000 Authentication required",
            (Subject::Acp, Trouble::Limited) => "@@fail 429 slow down",
            (Subject::Acp, Trouble::Overloaded) => "@@fail -32603 503 overcrowded",
            (Subject::Acp | Subject::Command, Trouble::Cut) => "@@say half\n@@die 7",
            (Subject::Command, Trouble::Login) => "@@fail not logged in",
            (Subject::Command, Trouble::Limited) => "@@retry limited",
            (Subject::Command, Trouble::Overloaded) => "@@retry passing",
            (Subject::OpenAi | Subject::Real(_), Trouble::Login) => "@@http 401",
            (Subject::OpenAi | Subject::Real(_), Trouble::Limited) => "@@http 429",
            (Subject::OpenAi | Subject::Real(_), Trouble::Overloaded) => "@@http 500",
            (Subject::OpenAi | Subject::Real(_), Trouble::Cut) => "@@say half of it\n@@cut",
        };
        self.inject(words);
    }

    /// Lets held turns go on.
    pub(super) fn release(&self) {
        std::fs::write(self.gate(), b"").unwrap();
        if let Some(api) = &self.api {
            api.open();
        }
    }

    /// Waits until the agent works on a message, and its model was asked.
    pub(super) fn wait_claimed(&self) {
        let is_claimed = || self.host.states().last().is_some_and(|state| state.get("Claimed").is_some());
        wait_for("the turn", || is_claimed().then_some(()));
        if let Some(api) = &self.api {
            wait_for("the request", || (api.gated() > 0).then_some(()));
        }
    }

    /// Waits until every message has ended. Returns the agent's messages.
    pub(super) fn settled(&self) -> Vec<String> {
        self.host.wait_settled();
        self.answers()
    }

    /// The agent's messages, without those of Hearth.
    pub(super) fn answers(&self) -> Vec<String> {
        let rows = self.host.outgoing().into_iter();
        let own = rows.filter(|row| row["value"]["author"].get("Agent").is_some());
        own.map(|row| row["value"]["text"].as_str().unwrap().to_owned()).collect()
    }

    /// The conversation that the runner goes on with.
    pub(super) fn continuation(&self) -> Option<Value> {
        let file = std::fs::read(self.host.data().join("sessions/se1/agent/session.json")).ok()?;
        let all = serde_json::from_slice::<Value>(&file).ok()?["continuations"].take();
        // The runner keeps its own numbers beside it.
        let (_, kept) = all.as_object()?.iter().find(|(name, _)| *name != "hearth-runner")?;
        // With the protocol it is one of several fields.
        let fields = kept.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        Some(fields.and_then(|fields| fields.get("session").cloned()).unwrap_or_else(|| kept.clone()))
    }

    /// Removes what the agent itself keeps of its conversations.
    pub(super) fn forget(&self) {
        let home = self.host.data().join("homes/main");
        let places = match self.subject {
            Subject::Claude => vec![home.join(".claude/projects")],
            Subject::Acp => vec![self.host.data().join("groups/main/.fake-acp")],
            Subject::Command => Vec::new(),
            Subject::OpenAi => vec![home.join(".hearth/openai")],
            Subject::Real(preset) => vec![home.join(preset.about().sessions)],
        };
        for place in places {
            assert!(place.is_dir(), "{}", place.display());
            std::fs::remove_dir_all(place).unwrap();
        }
    }
}

/// A known agent whose model is the stand-in.
fn real(preset: Preset, port: u16) -> String {
    let known = preset.about();
    let path = if known.model.base_url.starts_with("GOOGLE") || known.model.base_url.starts_with("ANTHROPIC") {
        ""
    } else {
        "/v1"
    };
    let (url, key) = (known.model.base_url, known.model.key);
    let model = if preset == Preset::ClaudeAcp { "" } else { "model = \"fake-1\"\n" };
    format!(
        "provider = {:?}\n{model}env = {{ {url} = \"http://127.0.0.1:{port}{path}\", {key} = \"dummy\" }}",
        known.name
    )
}
