//! Self-test of the runtime's isolation. It starts a scratch daemon with store, token and socket, and three agents with
//! conversations. A hostile process in the place of one agent tries the list of attacks. The user's own data directory
//! is not touched.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::opening::{Opening, open_store};
use super::{Daemon, DaemonOptions, runtime};
use crate::clock::{self, Clock};
use crate::config::Paths;
use crate::config::temp_dir::{Purpose, TempDir};
use crate::engine::commit::{Engine, Submission};
use crate::model::attack::{ATTACKS, Attack, Stand};
use crate::model::configure::{Change, Configure, RuntimeKind, Settings};
use crate::model::entity::Origin;
use crate::model::input::Input;
use crate::model::policy::Policy;
use crate::runtime::podman;
use crate::runtime::process::Sandbox;
use crate::runtime::process::isolation_check::{self, Attempt, Outcome, Who};
use crate::runtime::single_run::Place;
use crate::socket::server::{self, Serving};
use scratch::Scratch;

mod mailbox;
mod models;
mod network;
mod opened;
mod remains;
mod scratch;
mod trials;
mod world;

/// Result of the self-test.
#[derive(Debug)]
pub struct Report {
    /// The tested runtime, as text for people.
    pub runtime: String,
    /// Whether agents are isolated there, by confinement or by their container.
    pub confined: bool,
    /// Findings, in the order of the list of attacks.
    pub findings: Vec<Finding>,
    /// Protections that this system does not provide.
    pub limits: Vec<String>,
}

/// Result of one attack.
#[derive(Debug)]
pub struct Finding {
    pub attack: &'static Attack,
    pub result: Verdict,
    /// What was tried and what happened, or why nothing was tried.
    pub detail: String,
}

/// Verdict on an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The attack failed.
    Held,
    /// The attack succeeded although it must not.
    NotHeld,
    /// The attack was not tried.
    NotTried,
    /// The attack was not tried because it would succeed: this runtime gives no such guarantee.
    NotPromised,
}

/// Why the self-test could not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scratch daemon.
    #[error("the scratch daemon cannot be started: {0}")]
    Daemon(#[from] super::Error),
    /// The scratch directory.
    #[error(transparent)]
    Place(#[from] crate::config::BadPlace),
    /// A file of the test.
    #[error("the scratch directory: {0}")]
    Io(#[from] io::Error),
    #[error("the scratch store: {0}")]
    State(#[from] crate::state::Error),
    /// A name of the test's own.
    #[error(transparent)]
    Folder(#[from] crate::model::folder::BadFolder),
    /// A name of the test's own.
    #[error(transparent)]
    Name(#[from] crate::model::address::BadName),
    /// Random numbers of the operating system.
    #[error("the system provides no random numbers: {0}")]
    Entropy(io::Error),
    /// The hostile agent.
    #[error("the self-test could not be run: {0}")]
    Trial(String),
}

/// The last run of the hostile agent for attacks that are tried in each runtime. Later ones need higher numbers.
const LAST: u32 = 11;

/// Result of each attack. `Err` says what failed.
type Found = BTreeMap<&'static str, Result<String, String>>;

/// Runs the self-test in a runtime with these settings. It takes some seconds.
///
/// # Errors
/// [`Error`] if it cannot run. The test has no result then.
pub fn run(kind: RuntimeKind, settings: &Settings) -> Result<Report, Error> {
    let directory = TempDir::create(Purpose::SelfTest)?;
    let paths = Paths::find(Some(&directory.path().join("data")))?;
    let options =
        DaemonOptions { policy: Policy::STANDARD, runtime: Some(kind), metrics: None, opening: Opening::Existing };
    furnish(&paths, kind, settings)?;
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let daemon = Daemon::start(&paths, options, tokio.handle())?;
    let served = {
        let _inside = tokio.enter();
        server::bind(paths.socket()).map(|listener| Serving::start(listener, Arc::clone(&daemon)))
    };
    let report = served.map_err(Error::Io).and_then(|serving| {
        let report = Scratch::make(&daemon, tokio.handle()).and_then(|scratch| test(&scratch, kind, settings));
        tokio.block_on(serving.close());
        report
    });
    let stopped = daemon.shut_down();
    drop(std::fs::remove_file(paths.socket()));
    let report = report?;
    stopped?;
    Ok(report)
}

/// Configures the scratch daemon to run agents in the same image.
fn furnish(paths: &Paths, kind: RuntimeKind, settings: &Settings) -> Result<(), Error> {
    let store = open_store(paths, Opening::OrNew)?;
    let clock = Clock::start(store.begin_run()?);
    let engine = Engine::new(store, Policy::STANDARD, super::groups_path(paths));
    let settings = Settings { runtime: Some(kind), image: settings.image.clone(), ..Settings::default() };
    let configure = Configure::new(vec![Change::PutSettings(settings)], Origin::Runtime);
    let submission = Submission::new(Input::Configure(configure));
    let entropy = clock::random().map_err(Error::Entropy)?;
    let done = engine.commit(&[submission], clock.now(), entropy)?;
    done.into_iter().try_for_each(|answer| answer.map(drop)).map_err(|error| Error::Trial(error.to_string()))
}

fn test(scratch: &Scratch<'_>, kind: RuntimeKind, settings: &Settings) -> Result<Report, Error> {
    match kind {
        RuntimeKind::Process => in_process(scratch),
        RuntimeKind::Podman => in_container(scratch, settings),
    }
}

fn in_process(scratch: &Scratch<'_>) -> Result<Report, Error> {
    let mut found = Found::new();
    found.insert("unconfined", trials::unconfined(scratch)?);
    let setup = scratch.setup()?;
    let (scopes, limits) = match (isolation_check::support(), setup.sandbox()) {
        (Ok(support), Sandbox::Jail(_) | Sandbox::Limited { .. }) => (support.scopes, process_limits(setup.sandbox())),
        (_, sandbox) => {
            let why = sandbox.missing().unwrap_or_default().to_owned();
            let reason = format!("nothing confines agents here: {why}");
            let untried = |_: &Attack| (Verdict::NotTried, reason.clone());
            let findings = findings(RuntimeKind::Process, &found, untried);
            return Ok(Report { runtime: "process".to_owned(), confined: false, findings, limits: vec![why] });
        }
    };
    let view = matches!(setup.sandbox(), Sandbox::Jail(_));
    let runtime = format!("process ({})", setup.sandbox().as_str());
    let python = std::path::Path::new("/usr/bin/python3").exists();
    let able = trials::Able {
        view,
        signals: scopes || view,
        abstracts: scopes || !view,
        namespaces: false,
        limits: if view { vec!["pids"] } else { Vec::new() },
        python,
    };
    let place = Place::Process(Box::new(setup));
    let spec = scratch.small();
    try_all(scratch, &place, &spec, &able, &mut found)?;
    // Must come after the incarnations of attacks that are tried in each runtime.
    let mut runs = remains::Runs { place: &place, spec: crate::runtime::Spec { incarnation: LAST, ..spec } };
    if view {
        runs.escape(&mut found)?;
    }
    if python {
        runs.in_flight(&mut found)?;
        runs.shared_memory(&mut found)?;
    }
    runs.network(&mut found)?;
    let findings = findings(RuntimeKind::Process, &found, |attack| lacking(attack, RuntimeKind::Process));
    Ok(Report { runtime, confined: true, findings, limits })
}

/// Protections that are missing for agents that run as processes.
fn process_limits(sandbox: &Sandbox) -> Vec<String> {
    let mut limits = vec!["the network is open to agents unless it is `none`".to_owned()];
    if let Sandbox::Limited { lacking } = sandbox {
        limits.push(format!("agents have no view of files and processes of their own: {lacking}; {}", lacking.mend()));
    }
    limits
}

fn in_container(scratch: &Scratch<'_>, settings: &Settings) -> Result<Report, Error> {
    let lookup = runtime::lookup();
    let usable = podman::probe(&lookup).map_err(|error| Error::Trial(error.to_string()))?;
    let install = format!("selftest{:x}", std::process::id());
    let (filter, secrets) = (scratch.paths().seccomp(), scratch.paths().secrets());
    let place = Place::Podman(podman::Setup { install, lookup, filter, secrets });
    let spec = scratch.contained(settings.image.clone());
    let limits = ["memory", "pids"].into_iter().filter(|limit| !usable.unlimited.contains(limit)).collect();
    let namespaces = usable.unfiltered.is_none();
    let able = trials::Able { view: true, signals: true, abstracts: true, namespaces, limits, python: false };
    let mut found = Found::new();
    try_all(scratch, &place, &spec, &able, &mut found)?;
    // Must come after the incarnations of attacks that are tried in each runtime.
    remains::Runs { place: &place, spec: crate::runtime::Spec { incarnation: LAST, ..spec } }.loopback(&mut found)?;
    let findings = findings(RuntimeKind::Podman, &found, |attack| lacking(attack, RuntimeKind::Podman));
    let unlimited = usable.unlimited.iter().map(|what| format!("Podman cannot limit {what} of containers here"));
    let unfiltered = usable.unfiltered.iter().map(|why| format!("agents can make user namespaces: {why}"));
    let limits = unlimited.chain(unfiltered).collect();
    Ok(Report { runtime: usable.to_string(), confined: true, findings, limits })
}

/// Tries everything twice, by the agent itself and by its child, except attacks through the mailbox, which are tried
/// once.
fn try_all(
    scratch: &Scratch<'_>,
    place: &Place,
    spec: &crate::runtime::Spec,
    able: &trials::Able,
    found: &mut Found,
) -> Result<(), Error> {
    let trials = trials::all(scratch, place, spec, able)?;
    let attempts: Vec<Attempt> = trials.iter().map(|trial| trial.attempt.clone()).collect();
    for (incarnation, who, words) in [(1, Who::Itself, "the agent"), (2, Who::Child, "a child of it")] {
        let spec = crate::runtime::Spec { incarnation, ..spec.clone() };
        let outcomes = isolation_check::attempt(place, spec, &attempts, who).map_err(Error::Trial)?;
        for (trial, outcome) in trials.iter().zip(&outcomes) {
            note(found, trial.name, judge(place, trial, outcome, words));
        }
    }
    let spec = crate::runtime::Spec { incarnation: 3, ..spec.clone() };
    mailbox::try_all(scratch, place, &spec, found)?;
    let spec = crate::runtime::Spec { incarnation: LAST - 5, ..spec };
    models::try_all(scratch, place, &spec, found)?;
    let spec = crate::runtime::Spec { incarnation: LAST - 3, ..spec };
    opened::try_all(scratch, place, &spec, found)?;
    let spec = crate::runtime::Spec { incarnation: LAST, ..spec };
    network::try_all(scratch, place, &spec, found)?;
    match found.remove(trials::CONTROL) {
        Some(Err(detail)) => Err(Error::Trial(format!(
            "the hostile agent cannot do what it is allowed to do, so the test proves nothing: {detail}"
        ))),
        _ => Ok(()),
    }
}

/// Records a result. One success of an attack outweighs all its failures.
fn note(found: &mut Found, name: &'static str, result: Result<String, String>) {
    match found.get(name) {
        Some(Err(_)) => {}
        _ => drop(found.insert(name, result)),
    }
}

fn judge(place: &Place, trial: &trials::Trial, outcome: &Outcome, who: &str) -> Result<String, String> {
    // If the agent sees only what it is given, everything else is missing rather than forbidden.
    let away = outcome.forbidden || (outcome.absent && place.has_view());
    let held = match trial.expected {
        trials::Expected::Forbidden => away,
        trials::Expected::Fails => !outcome.done,
        trials::Expected::Done => outcome.done,
        trials::Expected::TurnedAway => away || outcome.detail.contains(r#""is":"refused""#),
        trials::Expected::Unreachable => outcome.detail.contains("unreachable"),
        trials::Expected::Says(words) => outcome.done && outcome.detail == words,
    };
    let detail = format!("{} by {who}: {}", trial.words(), outcome.detail);
    if held { Ok(detail) } else { Err(detail) }
}

/// Why a possible attack was not tried.
fn lacking(attack: &Attack, kind: RuntimeKind) -> (Verdict, String) {
    match attack.stand(kind) {
        Stand::Open(why) => (Verdict::NotPromised, why.to_owned()),
        Stand::With(needed) => (Verdict::NotPromised, format!("that needs {needed}")),
        Stand::Tested(why) => (Verdict::NotTried, format!("the project's tests show that it holds; here {why}")),
        Stand::Moot(why) => (Verdict::NotTried, format!("it does not apply: {why}")),
        Stand::Held => (Verdict::NotTried, "there is nothing here to try it with".to_owned()),
    }
}

fn findings(kind: RuntimeKind, found: &Found, untried: impl Fn(&Attack) -> (Verdict, String)) -> Vec<Finding> {
    let by_agents = ATTACKS.iter().filter(|attack| attack.is_by_agent());
    let finding = |attack: &'static Attack| {
        let (result, detail) = match (found.get(attack.name), attack.stand(kind)) {
            (Some(Ok(detail)), _) => (Verdict::Held, detail.clone()),
            (Some(Err(detail)), _) => (Verdict::NotHeld, detail.clone()),
            (None, _) => untried(attack),
        };
        Finding { attack, result, detail }
    };
    by_agents.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::process::Setup;

    fn outcome(done: bool, forbidden: bool, absent: bool) -> Outcome {
        Outcome { done, forbidden, absent, detail: String::new() }
    }

    #[test]
    fn an_attempt_that_fails_for_another_reason_proves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let locks = directory.path().join("locks");
        let sandbox = Arc::new(Sandbox::missing_for("there is none", "").into());
        let process = Setup { sandbox, ..Setup::new("sh".into(), "".into(), locks, Arc::new(|_| None)) };
        let process = Place::Process(Box::new(process));
        let lookup: crate::runtime::process::Lookup = Arc::new(|_| None);
        let (install, filter, secrets) = ("x".to_owned(), "x".into(), "x".into());
        let podman = Place::Podman(podman::Setup { install, lookup, filter, secrets });
        let trial = trials::Trial::new("store-read", Attempt::Read("/nonexistent".into()), trials::Expected::Forbidden);
        for (place, outcome, held) in [
            (&process, outcome(false, true, false), true),
            (&process, outcome(false, false, true), false),
            (&podman, outcome(false, false, true), true),
            (&podman, outcome(false, false, false), false),
            (&podman, outcome(true, false, false), false),
        ] {
            assert_eq!(judge(place, &trial, &outcome, "x").is_ok(), held, "{outcome:?}");
        }
    }

    #[test]
    fn what_went_wrong_once_stays_wrong() {
        let mut found = Found::new();
        for result in [Ok(String::new()), Err("read".to_owned()), Ok(String::new())] {
            note(&mut found, "store-read", result);
        }
        let findings = findings(RuntimeKind::Podman, &found, |attack| lacking(attack, RuntimeKind::Podman));
        assert_eq!((findings[0].result, findings[0].detail.as_str()), (Verdict::NotHeld, "read"));
        assert_eq!(findings[1].result, Verdict::NotTried);
        let disk = findings.iter().find(|finding| finding.attack.name == "disk").unwrap();
        assert_eq!(disk.result, Verdict::NotPromised);
    }
}
