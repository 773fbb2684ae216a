//! Proves the promises of confinement: a scratch daemon with store, token and socket, and beside it a confined agent that
//! tries to get at all of it. Nothing of the user's own data directory is touched.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::runtime::this_program;
use super::{Daemon, Wish, guarded, setup};
use crate::config::{Paths, env};
use crate::model::configure::RuntimeKind;
use crate::model::entity::{AgentSettings, Folder, ProviderKind};
use crate::model::id::SessionId;
use crate::model::incarnation::SpecDigest;
use crate::model::policy::Policy;
use crate::model::session::SessionName;
use crate::runtime::Spec;
use crate::runtime::process::Setup;
use crate::runtime::process::trial::{self, Attempt, Outcome};
use crate::socket::protocol::VERSION;
use crate::socket::server::{self, Serving};

/// What came of the test.
#[derive(Debug)]
pub struct Report {
    /// Whether agents are confined here.
    pub confined: bool,
    /// What was proved, or was not.
    pub promises: Vec<Promise>,
    /// What confinement cannot do on this system.
    pub limits: Vec<String>,
}

/// One promise.
#[derive(Debug)]
pub struct Promise {
    /// In words.
    pub promise: String,
    /// Whether it was kept.
    pub held: bool,
    /// What was tried, by whom, and what came of it: the last attempt, or the first one that broke the promise.
    pub detail: String,
}

/// Why the test could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scratch daemon.
    #[error("the scratch daemon cannot be started: {0}")]
    Daemon(#[from] super::Error),
    /// Its directory.
    #[error(transparent)]
    Place(#[from] crate::config::BadPlace),
    /// A file of the test.
    #[error("the scratch directory: {0}")]
    Io(#[from] io::Error),
    /// A name of the test's own.
    #[error(transparent)]
    Folder(#[from] crate::model::entity::BadFolder),
    /// The confined process.
    #[error("the confined process cannot be tested: {0}")]
    Trial(String),
}

/// What should come of an attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Forbidden,
    Done,
    /// Connecting may be possible; getting further is not.
    TurnedAway,
}

/// A promise and how it is tried.
struct Trial {
    promise: &'static str,
    attempt: Attempt,
    expected: Expected,
}

/// The scratch agent and its surroundings.
struct Scratch {
    paths: Paths,
    spec: Spec,
    others: Spec,
}

/// Makes the test; it takes a second or two.
///
/// # Errors
/// [`Error`] if it cannot be made, which proves nothing either way.
pub fn run() -> Result<Report, Error> {
    let directory = tempfile::Builder::new().prefix("hearth-self-test-").tempdir()?;
    let paths = Paths::find(Some(&directory.path().join("data")))?;
    // Containers are held by other means; what is tested here is what holds processes.
    let wish = Wish { policy: Policy::STANDARD, runtime: Some(RuntimeKind::Process) };
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let daemon = Daemon::start(&paths, wish, tokio.handle())?;
    let served = {
        let _inside = tokio.enter();
        server::bind(paths.socket()).map(|listener| Serving::start(listener, Arc::clone(&daemon)))
    };
    let report = served.map_err(Error::Io).and_then(|serving| {
        let report = test(&Scratch::make(&paths)?);
        tokio.block_on(serving.close());
        report
    });
    let stopped = daemon.shut_down();
    drop(std::fs::remove_file(paths.socket()));
    let report = report?;
    stopped?;
    Ok(report)
}

fn test(scratch: &Scratch) -> Result<Report, Error> {
    let support = match trial::support() {
        Ok(support) => support,
        Err(error) => return Ok(refused(scratch, error.to_string())),
    };
    let trials = scratch.trials(support.scopes);
    let attempts: Vec<Attempt> = trials.iter().map(|trial| trial.attempt.clone()).collect();
    let first = trial::attempt(scratch.setup()?, scratch.spec.clone(), &attempts, false).map_err(Error::Trial)?;
    let by_child = Spec { incarnation: 2, ..scratch.spec.clone() };
    let second = trial::attempt(scratch.setup()?, by_child, &attempts, true).map_err(Error::Trial)?;
    let mut promises: Vec<Promise> = Vec::new();
    for (trial, outcomes) in trials.iter().zip(first.iter().zip(&second)) {
        let next = judge(trial, outcomes);
        match promises.last_mut().filter(|last| last.promise == next.promise) {
            Some(last) if last.held => *last = next,
            Some(_) => {}
            None => promises.push(next),
        }
    }
    let mut limits = vec!["the network is open to agents".to_owned()];
    if !support.scopes {
        limits.push("agents can send signals to other processes of this user: Linux 6.12 prevents it".to_owned());
    }
    if !support.sockets {
        let what = "agents can connect to Unix sockets of other programs of this user (systemd, D-Bus, Docker), and some \
                    of those run programs outside of the confinement for them: Linux 7.1 prevents it";
        limits.push(what.to_owned());
    }
    Ok(Report { confined: true, promises, limits })
}

/// Where nothing can be confined, the promise is that nothing is started without the operator's word.
fn refused(scratch: &Scratch, why: String) -> Report {
    let setup = scratch.setup().map(|setup| Setup { confinement: Err(why.clone()), ..setup });
    let outcome = setup.map_err(|error| error.to_string());
    let outcome = outcome.and_then(|setup| trial::attempt(setup, scratch.spec.clone(), &[], false));
    let (held, detail) = match outcome {
        Ok(_) => (false, "it was started".to_owned()),
        Err(reason) => (reason.contains("needs `unconfined = true`"), reason),
    };
    let promise = "an agent that cannot be confined is not started unless it may do without".to_owned();
    Report { confined: false, promises: vec![Promise { promise, held, detail }], limits: vec![why] }
}

fn judge(trial: &Trial, (own, of_child): (&Outcome, &Outcome)) -> Promise {
    let holds = |outcome: &Outcome| match trial.expected {
        Expected::Forbidden => outcome.forbidden,
        Expected::Done => outcome.done,
        Expected::TurnedAway => outcome.forbidden || outcome.detail.contains(r#""is":"refused""#),
    };
    let (who, outcome) = if holds(own) { ("a child of it", of_child) } else { ("the agent", own) };
    let detail = format!("{:?} by {who}: {}", trial.attempt, outcome.detail);
    Promise { promise: trial.promise.to_owned(), held: holds(own) && holds(of_child), detail }
}

impl Scratch {
    fn make(paths: &Paths) -> Result<Self, Error> {
        let scratch = Self {
            paths: paths.clone(),
            spec: spec(paths, "own", SessionId::new(1))?,
            others: spec(paths, "other", SessionId::new(2))?,
        };
        for spec in [&scratch.spec, &scratch.others] {
            for directory in [spec.session_dir.join("host/in"), spec.session_dir.join("agent/out")] {
                std::fs::create_dir_all(directory)?;
            }
            for directory in
                [&spec.session_dir.join("host"), &spec.session_dir.join("agent"), &spec.group_dir, &spec.home_dir]
            {
                std::fs::create_dir_all(directory)?;
                std::fs::write(directory.join("note"), "private")?;
            }
        }
        Ok(scratch)
    }

    fn setup(&self) -> Result<Setup, Error> {
        let nothing = Arc::new(|_: &str| None);
        let locks = self.paths.run().join("self-test");
        let mut setup = Setup::new(this_program()?, env::child_path(), locks, nothing);
        setup.guarded = guarded(&self.paths);
        Ok(setup)
    }

    /// Attempts at the same promise follow each other.
    fn trials(&self, scopes: bool) -> Vec<Trial> {
        let forbidden = |promise, attempt| Trial { promise, attempt, expected: Expected::Forbidden };
        let done = |promise, attempt| Trial { promise, attempt, expected: Expected::Done };
        let (own, other, token) = (&self.spec, &self.others, self.paths.token());
        let daemon = PathBuf::from(format!("/proc/{}", std::process::id()));
        let inside = |root: &Path, path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
        let link = own.group_dir.join("link");
        let mut trials = vec![
            forbidden("it cannot read the token", Attempt::Read(token.clone())),
            forbidden("it cannot read the token", Attempt::Read(self.paths.run())),
            forbidden("it cannot read the store", Attempt::Read(self.paths.store())),
            forbidden("it cannot read the store", Attempt::Read(self.paths.store().join("data.mdb"))),
            forbidden("it cannot change the store", Attempt::Write(self.paths.store().join("data.mdb"))),
            forbidden("it cannot change the store", Attempt::Write(self.paths.data().join("new"))),
            forbidden("it cannot see another session", Attempt::Read(self.paths.files())),
            forbidden("it cannot see another session", Attempt::Read(self.paths.sessions())),
            forbidden("it cannot see another session", Attempt::Read(other.session_dir.join("host/note"))),
            forbidden("it cannot see another session", Attempt::Write(other.session_dir.join("agent/out/new"))),
            forbidden("it cannot see another agent's folder", Attempt::Read(other.group_dir.join("note"))),
            forbidden("it cannot see another agent's folder", Attempt::Write(other.group_dir.join("new"))),
            forbidden("it cannot see another agent's home", Attempt::Read(other.home_dir.join("note"))),
            forbidden("it cannot change what the host tells it", Attempt::Write(own.session_dir.join("host/note"))),
            forbidden("it cannot change what the host tells it", Attempt::Write(own.session_dir.join("host/in/new"))),
            forbidden("a symbolic link leads nowhere else", Attempt::ReadByLink(link.clone(), token.clone())),
            forbidden("a hard link leads nowhere else", Attempt::ReadByHardLink(link.clone(), token.clone())),
            forbidden("nothing can be moved to it", Attempt::Take(link, other.group_dir.join("note"))),
            forbidden("/proc leads nowhere else", Attempt::Read(inside(Path::new("/proc/self/root"), &token))),
            forbidden("/proc leads nowhere else", Attempt::Read(inside(&daemon.join("root"), &token))),
            forbidden("/proc leads nowhere else", Attempt::Read(daemon.join("environ"))),
            forbidden("/proc leads nowhere else", Attempt::Read(daemon.join("cwd"))),
            forbidden("/proc leads nowhere else", Attempt::Read("/proc/self/fd/4".into())),
            forbidden("it cannot use the user's terminals", Attempt::Read("/dev/tty".into())),
            forbidden("it cannot use the user's terminals", Attempt::Write("/dev/ptmx".into())),
        ];
        if let Some(home) = self.user_home() {
            trials.push(forbidden("it cannot see the user's home", Attempt::Read(home)));
        }
        if scopes {
            let pid = i32::try_from(std::process::id()).unwrap_or_default();
            trials.push(forbidden("it cannot signal the daemon", Attempt::Signal(pid)));
        }
        let greeting = format!(r#"{{"do":"hello","v":{VERSION},"token":""}}"#);
        let attempt = Attempt::Greet(self.paths.socket().to_owned(), greeting);
        trials.push(Trial { promise: "it gets no answer from the daemon", attempt, expected: Expected::TurnedAway });
        let own = [own.session_dir.join("agent"), own.group_dir.clone(), own.home_dir.clone()];
        trials.extend(own.map(|own| done("it can change what is its own", Attempt::Write(own.join("new")))));
        let system = ["/etc", "/usr/bin", "/dev/urandom"].into_iter().filter(|path| Path::new(path).exists());
        trials.extend(system.map(|path| done("it can use the system's programs", Attempt::Read(path.into()))));
        trials
    }

    fn user_home(&self) -> Option<PathBuf> {
        guarded(&self.paths).into_iter().nth(1).filter(|home| home.is_dir() && home.parent().is_some())
    }
}

fn spec(paths: &Paths, folder: &str, session: SessionId) -> Result<Spec, Error> {
    let folder = Folder::new(folder)?;
    Ok(Spec {
        session,
        incarnation: 1,
        session_dir: paths.session(session),
        group_dir: paths.group(&folder),
        home_dir: paths.home(&folder),
        settings: AgentSettings {
            provider: ProviderKind::Command,
            command: vec!["sh".to_owned()],
            ..setup::first_agent()
        },
        provider: ProviderKind::Command,
        session_name: SessionName::Default,
        timezone: "UTC".to_owned(),
        digest: SpecDigest::new(0),
        image: None,
        mounts: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_confines_nothing_is_started() {
        let directory = tempfile::tempdir().unwrap();
        let paths = Paths::find(Some(&directory.path().join("data"))).unwrap();
        paths.create().unwrap();
        let report = refused(&Scratch::make(&paths).unwrap(), "there is no Landlock".to_owned());
        assert!(!report.confined && report.promises.iter().all(|promise| promise.held), "{report:?}");
        assert!(report.promises[0].detail.ends_with("because there is no Landlock"), "{report:?}");
    }

    #[test]
    fn an_attempt_that_fails_for_another_reason_proves_nothing() {
        let attempt = Attempt::Read("/nonexistent".into());
        let trial = Trial { promise: "p", attempt, expected: Expected::Forbidden };
        let outcome = |done, forbidden| Outcome { done, forbidden, detail: String::new() };
        assert!(judge(&trial, (&outcome(false, true), &outcome(false, true))).held);
        for (own, of_child) in [((false, false), (false, true)), ((false, true), (true, false))] {
            assert!(!judge(&trial, (&outcome(own.0, own.1), &outcome(of_child.0, of_child.1))).held);
        }
    }
}
