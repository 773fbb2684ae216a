//! `hearth bridge test`: the daemon's side of the protocol, played by cases with a name each. A case that a bridge does
//! not pass would lose, double or forge something in operation.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hearth_bridge::Cursors;
use serde::Serialize;

use super::TestArgs;
use crate::cli::print::{self, Tone};
use crate::cli::{Done, Failure};
use crate::clock::{self, Stopwatch};
use crate::config::temp_dir::{Purpose, TempDir};
use crate::config::{Paths, env};
use crate::daemon::bridges::Hold;
use crate::daemon::references;
use network::Network;
use peer::Kept;

mod files;
mod inbound;
mod life;
mod network;
mod outbound;
mod parts;
mod peer;
mod places;
mod steps;

/// Why a case ended before it passed.
enum Stop {
    /// The bridge does not do what the contract says.
    Failed(String),
    /// It cannot be said, or does not apply.
    NotTried(String),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<&str> for Stop {
    fn from(why: &str) -> Self {
        Self::Failed(why.to_owned())
    }
}

/// The result of a case.
type Tried = Result<(), Stop>;

/// A case: its number in the contract, if it has one, its name, what it checks, and how.
struct Case {
    number: Option<u8>,
    name: &'static str,
    checks: &'static str,
    run: fn(&Kit<'_>) -> Tried,
}

impl Case {
    const fn new(number: u8, name: &'static str, checks: &'static str, run: fn(&Kit<'_>) -> Tried) -> Self {
        Self { number: Some(number), name, checks, run }
    }

    /// One that is not in the contract's list.
    const fn besides(name: &'static str, checks: &'static str, run: fn(&Kit<'_>) -> Tried) -> Self {
        Self { number: None, name, checks, run }
    }
}

/// Cases about frames and processes of bridges, which a channel of the daemon does not have.
const OF_BRIDGES: [&str; 3] = ["protocol", "unknown", "daemon-killed"];

/// Cases that wait by design: for a dead connection, and for a pause that the network asks for.
const WAITING: [&str; 2] = ["half-open", "limited"];

/// All cases, in the order of the contract. Nothing may follow the last ones.
const CASES: [&[Case]; 7] =
    [inbound::CASES, files::CASES, outbound::CASES, parts::CASES, places::CASES, life::CASES, life::AT_LAST];

/// What all cases share.
struct Kit<'a> {
    paths: &'a Paths,
    command: Vec<String>,
    directory: PathBuf,
    /// For files of people.
    scratch: PathBuf,
    hold: Hold,
    /// How long the bridge may take to answer.
    patience: Duration,
    settings: serde_json::Map<String, serde_json::Value>,
    token: String,
    secret: Option<String>,
    /// Whether the network asks for the token or the secret.
    has_token: bool,
    network: Option<Network>,
    chat: Mutex<Option<String>>,
    cursors: Kept,
    /// Everything that the bridge wrote to its output.
    output: Arc<Mutex<Vec<String>>>,
    /// Whether a frame had the token in it.
    leaked: Mutex<bool>,
    run: u64,
    ids: AtomicU64,
}

/// A result in JSON output.
#[derive(Debug, Serialize)]
struct ResultJson {
    /// In the contract.
    number: Option<u8>,
    case: &'static str,
    checks: &'static str,
    /// `passed`, `failed` or `not_tried`.
    result: &'static str,
    detail: Option<String>,
    /// How long it took.
    seconds: f64,
}

/// Runs the cases.
pub(super) fn test(paths: &Paths, args: &TestArgs, json: bool) -> Done {
    let scratch = TempDir::create(Purpose::Bridge)?;
    let kit = Kit::new(paths, args, scratch.path())?;
    let cases = CASES.iter().copied().flatten();
    let cases = cases.filter(|case| args.only.as_ref().is_none_or(|only| case.name.contains(only.as_str())));
    let mut results = Vec::new();
    for case in cases {
        let watch = Stopwatch::start();
        let tried = if args.built_in.is_some() && OF_BRIDGES.contains(&case.name) {
            Err(Stop::NotTried("part of the daemon".to_owned()))
        } else {
            (case.run)(&kit)
        };
        let took = watch.elapsed();
        let tried = tried.and_then(|()| kit.in_time(case, took));
        let (tone, mark, result, detail) = match tried {
            Ok(()) => (Tone::Good, "passed", "passed", None),
            Err(Stop::Failed(why)) => (Tone::Bad, "FAILED", "failed", Some(why)),
            Err(Stop::NotTried(why)) => (Tone::Warning, "not tried", "not_tried", Some(why)),
        };
        if !json {
            let colon = detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
            let number = case.number.map(|number| number.to_string()).unwrap_or_default();
            let name = format!("{number:>2} {:18}", case.name);
            print::toned(tone, &format!("{mark:10}"), &format!("{name} {}{colon}", case.checks))?;
        }
        results.push(ResultJson {
            number: case.number,
            case: case.name,
            checks: case.checks,
            result,
            detail,
            seconds: took.as_secs_f64(),
        });
    }
    let failed = results.iter().filter(|result| result.result == "failed").count();
    if json {
        print::json(&serde_json::json!({ "cases": results, "failed": failed }))?;
    } else if failed > 0 {
        for line in kit.output.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().take(20).rev() {
            print::note(&format!("the bridge wrote: {line}"));
        }
    }
    if failed == 0 { Ok(()) } else { Err(Failure::Told) }
}

impl<'a> Kit<'a> {
    fn new(paths: &'a Paths, args: &TestArgs, scratch: &Path) -> Result<Self, Failure> {
        let run = clock::random()?;
        let patience = Duration::from_secs(args.patience);
        let settings = match &args.settings {
            Some(text) => serde_json::from_str(text)
                .map_err(|error| Failure::Failed(format!("--settings is not a JSON object: {error}")))?,
            None => serde_json::Map::new(),
        };
        let resolved = |name: &str, reference: &Option<String>| match reference {
            Some(reference) => references::resolve(reference)
                .map_err(|why| Failure::Failed(format!("--{name}: {why}")))?
                .into_string()
                .map(Some)
                .map_err(|_| Failure::Failed(format!("--{name}: it is not text"))),
            None => Ok(None),
        };
        let token = resolved("token", &args.token)?.unwrap_or_else(|| format!("kit-token-{run:016x}"));
        let secret = resolved("secret", &args.secret)?;
        let typed = env::typed_in().unwrap_or_else(|| PathBuf::from("."));
        let absolute = |word: &String| {
            let path = typed.join(word);
            if path.is_file() { path.display().to_string() } else { word.clone() }
        };
        let mut command: Vec<String> = args.program.iter().map(absolute).collect();
        if let (Some(first), Some(word)) = (command.first_mut(), args.program.first())
            && !word.contains('/')
        {
            // A program is looked for along the search path.
            first.clone_from(word);
        }
        if let Some(channel) = args.built_in {
            command.push(std::env::current_exe()?.display().to_string());
            command.extend(channel.arguments().map(str::to_owned));
        }
        Ok(Self {
            paths,
            command,
            directory: args.directory.as_ref().map_or_else(|| scratch.join("bridge"), |own| typed.join(own)),
            scratch: scratch.to_owned(),
            hold: if args.unconfined { Hold::Unconfined } else { Hold::Confined },
            patience,
            settings,
            token,
            secret,
            has_token: args.token.is_some() || args.secret.is_some(),
            network: args.network.as_ref().map(|program| Network::new(typed.join(program), patience)),
            chat: Mutex::new(args.chat.clone()),
            cursors: Mutex::default(),
            output: Arc::default(),
            leaked: Mutex::default(),
            run,
            ids: AtomicU64::new(0),
        })
    }

    /// Fails a case that took too long: there is something that is waited for and does not come.
    fn in_time(&self, case: &Case, took: Duration) -> Tried {
        let limit = if WAITING.contains(&case.name) { life::HALF_OPEN.max(self.patience) } else { self.patience };
        if took <= limit {
            return Ok(());
        }
        let (took, limit) = (took.as_secs_f64(), limit.as_secs());
        Err(format!("it passed, but took {took:.1} s; a case may take {limit} s, or what --patience says").into())
    }

    /// A number that no other case has.
    fn number(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// An id of a delivery, in the form of the daemon's.
    fn id(&self) -> String {
        format!("{:08x}-mo{}", self.run & 0xffff_ffff, self.number())
    }

    /// A text that no other message has.
    fn text(&self, what: &str) -> String {
        format!("{what} {:08x} {}", self.run & 0xffff_ffff, self.number())
    }

    fn chat(&self) -> Result<String, Stop> {
        let chat = self.chat.lock().unwrap_or_else(PoisonError::into_inner).clone();
        chat.ok_or_else(|| Stop::NotTried("it needs --network or --chat".to_owned()))
    }

    fn network(&self) -> Result<&Network, Stop> {
        self.network.as_ref().ok_or_else(|| Stop::NotTried("it needs --network".to_owned()))
    }

    /// Remembers the chat of the first message.
    fn met(&self, chat: &str) {
        self.chat.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| chat.to_owned());
    }

    /// The directory for files of both directions.
    fn files(&self) -> PathBuf {
        self.directory.join("files")
    }

    fn cursors(&self) -> Cursors {
        self.cursors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn store(&self, cursors: &Cursors) {
        let kept = cursors.iter().map(|(name, value)| (name.clone(), value.clone()));
        self.cursors.lock().unwrap_or_else(PoisonError::into_inner).extend(kept);
    }

    /// The secrets by their names, as the daemon gives them.
    fn given(&self) -> BTreeMap<String, String> {
        let secret = self.secret.clone().map(|secret| ("secret".to_owned(), secret));
        [("token".to_owned(), self.token.clone())].into_iter().chain(secret).collect()
    }

    /// What may be nowhere.
    fn secrets(&self) -> impl Iterator<Item = &str> {
        [Some(self.token.as_str()), self.secret.as_deref()].into_iter().flatten()
    }

    /// Looks at a frame of the bridge.
    fn note(&self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        if self.secrets().any(|secret| line.contains(secret)) {
            *self.leaked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        }
    }
}
