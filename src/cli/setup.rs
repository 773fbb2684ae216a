//! `hearth setup`: asks for what an installation needs, step by step, and does what other commands would do. Each step
//! is complete when the next one begins, so that setup can end at any question and continue later.

use std::future::Future;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::{Done, Failure, print, service};
use crate::config::Paths;
use crate::daemon::opening::{self, Opening};
use crate::model::address::ChannelName;
use crate::model::configure::RuntimeKind;
use crate::model::entity::{EnvValue, Folder, Preset, ProviderKind};
use crate::provider::Credential;
use ask::Ask;

mod ask;
mod file;
mod finish;
mod known;
mod provider;
mod runtime;
mod secret;
mod skills;
mod telegram;

#[derive(Debug, Args)]
#[command(
    after_help = "Answers are tried at once and kept: run it again to continue where it stopped, or to change something.
Without a terminal, options give the answers; a step without one is skipped if it can be."
)]
pub(super) struct SetupArgs {
    /// Folder of the agent
    #[arg(long, value_name = "FOLDER", default_value = "main", value_parser = folder)]
    agent: Folder,
    /// What answers
    #[arg(long, value_enum)]
    provider: Option<ProviderArg>,
    /// File with an API key or the token of a subscription; it is copied. `-` is standard input
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Server with the provider's API, like LiteLLM or Ollama; without --key-file it wants no token
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Model [default: that of the agent CLI]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Where agents run [default: containers if they are available]
    #[arg(long, value_enum)]
    runtime: Option<RuntimeArg>,
    /// Let the agent do everything your user may do, if it cannot be confined here
    #[arg(long)]
    unconfined: bool,
    /// Let the agent reach everything, if its network cannot be limited here
    #[arg(long)]
    open_network: bool,
    /// File with the token of a Telegram bot; it is copied. `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "no_telegram")]
    telegram_token_file: Option<PathBuf>,
    /// Address of another Bot API server
    #[arg(long, value_name = "URL", hide = true)]
    telegram_base_url: Option<String>,
    /// Do not connect Telegram
    #[arg(long)]
    no_telegram: bool,
    /// Make the person who sends the code that is shown to the bot an owner; without a terminal, without a question
    #[arg(long, conflicts_with = "no_telegram")]
    pair: bool,
    /// Do not install the service
    #[arg(long)]
    no_service: bool,
    /// First message to the agent
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// Send no message
    #[arg(long, conflicts_with = "message")]
    no_message: bool,
    /// Answer yes to every question but that of pairing
    #[arg(long)]
    yes: bool,
    /// Create a store even where parts of an installation without one, or other files, are
    #[arg(long)]
    new: bool,
}

fn folder(text: &str) -> Result<Folder, String> {
    Folder::new(text).map_err(|error| error.to_string())
}

/// A provider that setup knows how to set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProviderArg(ProviderKind);

/// The most useful ones first.
const PROVIDERS: [ProviderArg; 10] = [
    ProviderArg(ProviderKind::Claude),
    ProviderArg(ProviderKind::OpenAi),
    ProviderArg(ProviderKind::Preset(Preset::Opencode)),
    ProviderArg(ProviderKind::Preset(Preset::Gemini)),
    ProviderArg(ProviderKind::Preset(Preset::Codex)),
    ProviderArg(ProviderKind::Preset(Preset::Qwen)),
    ProviderArg(ProviderKind::Preset(Preset::Hermes)),
    ProviderArg(ProviderKind::Preset(Preset::Copilot)),
    ProviderArg(ProviderKind::Preset(Preset::ClaudeAcp)),
    ProviderArg(ProviderKind::Echo),
];

impl ValueEnum for ProviderArg {
    fn value_variants<'a>() -> &'a [Self] {
        &PROVIDERS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let title = self.0.preset().map_or(self.0.as_str(), |preset| preset.about().title);
        Some(PossibleValue::new(self.0.as_str()).help(title))
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum RuntimeArg {
    /// In containers
    Podman,
    /// As confined processes
    Process,
}

impl RuntimeArg {
    const fn kind(self) -> RuntimeKind {
        match self {
            Self::Podman => RuntimeKind::Podman,
            Self::Process => RuntimeKind::Process,
        }
    }
}

impl SetupArgs {
    /// Whether the options specify the provider.
    const fn names_provider(&self) -> bool {
        self.provider.is_some() || self.names_login()
    }

    /// Whether the options specify how the agent logs in.
    const fn names_login(&self) -> bool {
        self.key_file.is_some() || self.base_url.is_some()
    }
}

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum StepState {
    Done,
    /// It was done before.
    Already,
    Skipped,
    Failed,
}

impl StepState {
    const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Already => "already done",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }

    const fn tone(self) -> print::Tone {
        match self {
            Self::Done | Self::Already => print::Tone::Good,
            Self::Skipped => print::Tone::Warning,
            Self::Failed => print::Tone::Bad,
        }
    }
}

/// A step in the answer of `hearth setup --json`.
#[derive(Debug, Serialize)]
struct StepReport {
    step: &'static str,
    state: StepState,
    /// The current state, or the reason.
    about: String,
}

impl StepReport {
    fn new(state: StepState, about: impl Into<String>) -> Self {
        Self { step: "", state, about: about.into() }
    }
}

/// The answer of `hearth setup --json`.
#[derive(Debug, Serialize)]
struct SetupJson {
    /// The data directory.
    data: String,
    /// The configuration that was written and applied.
    file: String,
    steps: Vec<StepReport>,
    /// The agent's answers to the first message.
    answers: Vec<String>,
    /// What to do next.
    next: Vec<String>,
}

/// A Telegram bot and its channel.
struct ConnectedBot {
    username: String,
    channel: ChannelName,
}

/// A setup in progress.
struct Setup<'a> {
    paths: &'a Paths,
    args: &'a SetupArgs,
    ask: Ask,
    json: bool,
    /// The bot that is connected.
    bot: Option<ConnectedBot>,
    /// The agent's answers to the first message.
    answers: Vec<String>,
}

/// A step with its name and its heading.
type StepFn<'a> = fn(&mut Setup<'a>) -> Result<StepReport, Failure>;

/// Goes through all steps.
pub(super) fn setup(paths: &Paths, args: &SetupArgs, json: bool) -> Done {
    opening::check(paths, Opening::or_new(args.new))?;
    let person = !json && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let ask = if person { Ask::Person } else { Ask::Options };
    let mut setup = Setup { paths, args, ask, json, bot: None, answers: Vec::new() };
    setup.check_options()?;
    setup.say(&format!("Setting up Hearth in {}.", paths.data().display()))?;
    if person {
        setup.say("Each step is kept when it is done. Ctrl-C leaves; `hearth setup` continues.")?;
    }
    setup.run()
}

impl<'a> Setup<'a> {
    /// Runs the steps until one fails.
    fn run(&mut self) -> Done {
        let steps: [(&'static str, &str, StepFn<'a>); 6] = [
            ("provider", "What answers", Setup::provider),
            ("runtime", "Where agents run", Setup::place),
            ("telegram", "Telegram", Setup::telegram),
            ("service", "The service", Setup::service),
            ("owner", "You", Setup::owner),
            ("message", "First message", Setup::message),
        ];
        let count = steps.len();
        let mut reports = Vec::new();
        let mut failed = None;
        for (at, (step, heading, run)) in steps.into_iter().enumerate() {
            self.say(&format!("\n{}/{count} {heading}", at + 1))?;
            let report = match run(self) {
                Ok(report) => StepReport { step, ..report },
                Err(failure @ Failure::Exit(_)) => return Err(failure),
                Err(failure) => {
                    let report = StepReport { step, ..StepReport::new(StepState::Failed, failure.words()) };
                    failed = Some(failure);
                    report
                }
            };
            if failed.is_none() && !self.json {
                let word = format!("  {}", report.state.word());
                let text = ask::fold(&format!("{word}: {}", report.about), 2, ask::columns());
                print::toned(report.state.tone(), &word, text.strip_prefix(&word).unwrap_or(&text))?;
            }
            reports.push(report);
            if failed.is_some() {
                break;
            }
        }
        self.end(reports, failed)
    }

    fn end(&mut self, steps: Vec<StepReport>, failed: Option<Failure>) -> Done {
        let next = if failed.is_some() { Vec::new() } else { self.next_steps() };
        if self.json {
            let (data, file) = (self.paths.data().display().to_string(), file::path(self.paths).display().to_string());
            let answers = std::mem::take(&mut self.answers);
            print::json(&SetupJson { data, file, steps, answers, next })?;
            return failed.map_or(Ok(()), |failure| Err(Failure::Failed(failure.words().to_owned())));
        }
        if let Some(failure) = failed {
            return Err(failure);
        }
        self.say("\nWhat to do next:")?;
        next.iter().try_for_each(|line| self.say(&format!("  {line}")))
    }

    /// Prints a line for people.
    fn say(&self, text: &str) -> Done {
        match self.ask {
            Ask::Person => print::line(&ask::fold(text, 0, ask::columns())),
            Ask::Options if self.json => Ok(()),
            Ask::Options => print::line(text),
        }
    }

    /// Whether the person, or `--yes`, agrees.
    fn agrees(&self, question: &str) -> Result<bool, Failure> {
        Ok(self.args.yes || self.ask.is_person() && self.ask.yes(question, true)?)
    }

    /// Without a person, names the options whose answers are missing.
    fn check_options(&self) -> Done {
        if self.json && self.args.pair {
            let text = "--pair has to show a code while it runs: omit --json, or use `hearth channels pair` afterwards";
            return Err(Failure::Failed(text.to_owned()));
        }
        if self.ask.is_person() {
            return Ok(());
        }
        let mut missing = Vec::new();
        let settings = self.settings_of_agent()?;
        let claude = self.args.provider == Some(ProviderArg(ProviderKind::Claude));
        let set_up = settings.as_ref().is_some_and(|settings| settings.provider != ProviderKind::Echo);
        let has_login = settings.is_some_and(|settings| {
            let is_login = |(name, _): &(String, EnvValue)| Credential::ALL.iter().any(|one| one.variable() == name);
            settings.env.iter().any(is_login)
        });
        if !self.args.names_provider() && !set_up {
            missing
                .push("--provider claude with --key-file FILE or --base-url URL, or another --provider, such as echo");
        } else if claude && !self.args.names_login() && !has_login {
            missing.push("--key-file FILE, or --base-url URL for a server without tokens");
        }
        if !self.args.yes && !self.args.no_service && service::installed(self.paths)?.is_none() {
            missing.push("--yes to install the service, or --no-service");
        }
        if missing.is_empty() {
            return Ok(());
        }
        let missing = missing.iter().map(|line| format!("\n  {line}")).collect::<String>();
        Err(Failure::Failed(format!("there is no terminal for questions; add these options:{missing}")))
    }
}

/// Runs one call of the network to its end.
pub(super) fn block_on<T>(call: impl Future<Output = T>) -> std::io::Result<T> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(call))
}
