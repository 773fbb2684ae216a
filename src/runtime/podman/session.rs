//! One session's containers, one order after the other. A call that got no answer is never taken for one: it is found out
//! what became of it, however long that takes, because a wrong "gone" would let two incarnations run.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Shared;
use super::api::{Found, Life};
use super::body::{self, Bind};
use super::error::{Fault, explain};
use super::place;
use super::table::{Desk, Order};
use crate::model::incarnation::Exit;
use crate::runtime::environment::{Environment, configured};
use crate::runtime::image::{RUNNER, base_of, image_of};
use crate::runtime::{Error, Spec};

/// First pause before something is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest one.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Refusals to stop what runs, before it is removed with its processes.
const STOPS: u32 = 3;
/// Refusals to remove what has ended, before it is left to the next start.
const REMOVALS: u32 = 6;
/// Tries after which a question that is not answered is worth a warning.
const WARN_EVERY: u32 = 16;
/// What the init of a container says when the image lacks what it is to run.
const NO_PROGRAM: &str = "failed to exec pid1";
/// What stands before that: it is written in several pieces.
const INIT: &str = "(catatonit";
/// How often and how long the log of a container that failed without a word is waited for.
const LATE_LOGS: u32 = 10;
const LATE_LOG: Duration = Duration::from_millis(100);

/// The container of the incarnation that runs.
struct Here {
    incarnation: u32,
    id: String,
}

/// Carries out a session's orders until there are none and nothing runs.
pub(super) async fn attend(shared: Arc<Shared>, mut desk: Desk) {
    let mut here = None;
    while let Some(order) = desk.orders.recv().await {
        let mut session = Session { shared: &shared, desk: &desk, here: here.take() };
        match order {
            Order::Ensure(spec) => session.ensure(*spec).await,
            Order::Kill(incarnation) => session.kill(incarnation).await,
            Order::Inquire(incarnation) => session.inquire(incarnation).await,
            Order::Look => session.look().await,
            Order::End => session.end_all().await,
        }
        here = session.here;
        if here.is_none() && shared.table.leave(desk.session, &desk.orders) {
            return;
        }
    }
}

struct Session<'a> {
    shared: &'a Arc<Shared>,
    desk: &'a Desk,
    here: Option<Here>,
}

impl Session<'_> {
    async fn ensure(&mut self, spec: Spec) {
        let incarnation = spec.incarnation;
        let own = self.here.as_ref().is_some_and(|here| here.incarnation == incarnation);
        if let Some(reason) = self.shared.table.refusal(spec.session, incarnation).filter(|_| !own) {
            return self.gone(incarnation, Exit::NotStarted(reason), String::new());
        }
        let digest = spec.digest.to_string();
        for found in self.found().await {
            if found.incarnation != Some(incarnation) || found.spec.as_deref() != Some(&digest) {
                self.dismiss(&found).await;
            } else if let Some((exit, tail)) = self.finish(&found.id).await {
                return self.gone(incarnation, exit, tail);
            } else {
                self.here = Some(Here { incarnation, id: found.id });
                return self.shared.table.running(spec.session, incarnation);
            }
        }
        if own {
            return self.look().await;
        }
        match self.launch(spec).await {
            Ok(Some(id)) => {
                tracing::info!(session = %self.desk.session, incarnation, id, "agent started");
                self.here = Some(Here { incarnation, id });
                self.shared.table.running(self.desk.session, incarnation);
            }
            Ok(None) => {}
            Err(error) => {
                let reason = error.reason();
                tracing::warn!(session = %self.desk.session, incarnation, reason, "agent not started");
                self.gone(incarnation, Exit::NotStarted(reason), String::new());
            }
        }
    }

    async fn kill(&mut self, incarnation: u32) {
        let mut end = (Exit::Unknown, String::new());
        for found in self.found().await {
            if found.incarnation == Some(incarnation) {
                end = self.end(&found.id).await;
            }
        }
        self.gone(incarnation, end.0, end.1);
    }

    async fn inquire(&mut self, incarnation: u32) {
        let mut end = (Exit::Unknown, String::new());
        for found in self.found().await {
            let asked = found.incarnation == Some(incarnation);
            let own = self.here.as_ref().is_some_and(|here| here.id == found.id);
            if asked && found.alive {
                self.here = Some(Here { incarnation, id: found.id });
                return self.shared.table.running(self.desk.session, incarnation);
            } else if asked {
                end = self.end(&found.id).await;
            } else if !own {
                self.end(&found.id).await;
            }
        }
        self.gone(incarnation, end.0, end.1);
    }

    /// Looks whether what runs still does.
    async fn look(&mut self) {
        let Some((incarnation, id)) = self.here.as_ref().map(|here| (here.incarnation, here.id.clone())) else {
            return;
        };
        if let Some((exit, tail)) = self.finish(&id).await {
            self.gone(incarnation, exit, tail);
        }
    }

    async fn end_all(&mut self) {
        for found in self.found().await {
            let (exit, tail) = self.end(&found.id).await;
            if let Some(incarnation) = found.incarnation {
                self.gone(incarnation, exit, tail);
            }
        }
        self.look().await;
    }

    /// Ends and removes what has no business here, and says so if it was what ran.
    async fn dismiss(&mut self, found: &Found) {
        tracing::warn!(session = %self.desk.session, id = found.id, "a stale container is removed");
        let (exit, tail) = self.end(&found.id).await;
        if let Some(incarnation) = self.here.as_ref().filter(|here| here.id == found.id).map(|here| here.incarnation) {
            self.gone(incarnation, exit, tail);
        }
    }

    fn gone(&mut self, incarnation: u32, exit: Exit, tail: String) {
        if self.here.as_ref().is_some_and(|here| here.incarnation == incarnation) {
            self.here = None;
        }
        tracing::info!(session = %self.desk.session, incarnation, ?exit, "agent gone");
        self.shared.table.gone(self.desk.session, incarnation, exit, tail);
    }

    /// Every container of the session.
    async fn found(&self) -> Vec<Found> {
        let install = &self.shared.setup.install;
        let all = insist("list", || self.shared.api.list(install)).await;
        all.into_iter().filter(|found| found.session == Some(self.desk.session)).collect()
    }

    /// Ends a container, waits until it is over and removes it. What cannot be stopped, such as one that somebody paused,
    /// is removed as it is.
    async fn end(&self, id: &str) -> (Exit, String) {
        let mut pauses = Pauses::default();
        let mut refusals = 0;
        loop {
            if let Some(end) = self.finish(id).await {
                return end;
            }
            if let Err(error) = self.shared.api.stop(id).await {
                tracing::debug!(id, %error, "a container does not stop");
                refusals += u32::from(matches!(error, Fault::Refused { .. }));
                if refusals >= STOPS {
                    self.remove(id).await;
                }
                pauses.pause().await;
            }
        }
    }

    /// Removes a container that does not run and tells how it ended. None as long as it runs.
    async fn finish(&self, id: &str) -> Option<(Exit, String)> {
        let api = &self.shared.api;
        let Some(look) = insist("inspect", || api.look(id)).await else { return Some((Exit::Unknown, String::new())) };
        let mut exit = match look.life {
            Life::Alive => return None,
            Life::Fresh => Exit::NotStarted("its container was made and never started".to_owned()),
            Life::Over(exit) => exit,
        };
        let mut tail = api.tail(id, &look.secrets).await;
        // Podman may know that a container is over before what it wrote last is in its log, as a whole.
        for _ in 0..LATE_LOGS {
            let text = &tail.text;
            let open = text.trim().is_empty() || !text.ends_with('\n');
            let unfinished = match exit {
                _ if !tail.complete => false,
                Exit::Code(1) => open || (text.contains(INIT) && !text.contains(NO_PROGRAM)),
                Exit::Code(code) => code != 0 && open,
                // Mostly by force, with nothing to say.
                Exit::Signal(_) | Exit::NotStarted(_) | Exit::Unknown => false,
            };
            if !unfinished {
                break;
            }
            tokio::time::sleep(LATE_LOG).await;
            tail = api.tail(id, &look.secrets).await;
        }
        if matches!(exit, Exit::Code(1)) && tail.text.contains(NO_PROGRAM) {
            let reason = format!("its image has no program that runs at {RUNNER}: run `hearth image build`");
            exit = Exit::NotStarted(reason);
        }
        self.remove(id).await;
        Some((exit, tail.text))
    }

    /// Removes what has no processes. What cannot be removed harms nobody and is tried again by the next start.
    async fn remove(&self, id: &str) {
        let mut pauses = Pauses::default();
        let mut refusals = 0;
        while let Err(error) = self.shared.api.remove(id).await {
            refusals += u32::from(matches!(error, Fault::Refused { .. }));
            if refusals >= REMOVALS {
                tracing::warn!(id, %error, "a container that has ended cannot be removed");
                return;
            }
            pauses.pause().await;
        }
    }

    /// Makes and starts a container. None if it was told already what became of it.
    async fn launch(&mut self, spec: Spec) -> Result<Option<String>, Error> {
        let spec = Arc::new(spec);
        let (binds, environment) = self.prepare(&spec).await?;
        self.go_on(&spec)?;
        let folder = spec.group_dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let wanted = image_of(&self.shared.setup.install, &folder, &spec.settings, spec.image.as_deref());
        let image = self.image(&wanted, &folder, base_of(spec.image.as_deref())).await;
        let order = body::Order {
            install: &self.shared.setup.install,
            spec: &spec,
            image: &image,
            wanted: &wanted,
            variables: body::variables(&spec, texts(environment.variables)?),
            secret_names: &environment.secret_names,
            binds: &binds,
            facts: &self.shared.facts,
            filter: self.shared.filter.as_ref().map(|_| self.shared.setup.filter.as_path()),
            user: self.shared.user,
        };
        let failed = |fault: Fault| Error::Podman { reason: words(&image, &fault) };
        let body = body::body(&order);
        place::check(&binds)?;
        // Nobody starts what was made without an answer: it is removed by the next start.
        let id = self.shared.api.create(&body).await.map_err(failed)?;
        if let Err(error) = self.go_on(&spec).and_then(|()| place::check(&binds)) {
            self.remove(&id).await;
            return Err(error);
        }
        match self.shared.api.start(&id).await {
            Ok(()) => Ok(Some(id)),
            Err(fault) => self.settle(&spec, id, failed(fault)).await,
        }
    }

    /// The image to take: the one that is wanted, or as long as an agent's own is missing the last of its own, or the base.
    async fn image(&self, wanted: &str, folder: &str, base: &str) -> String {
        if wanted == base {
            return wanted.to_owned();
        }
        let images = match self.shared.api.images().await {
            Ok(images) => images,
            // The start says what is wrong.
            Err(_) => return wanted.to_owned(),
        };
        if images.iter().any(|image| image.names.iter().any(|name| name == wanted)) {
            return wanted.to_owned();
        }
        let agent = (folder.to_owned(), self.shared.setup.install.clone());
        let own = images.into_iter().filter(|image| image.agent.as_ref() == Some(&agent));
        let last = own.max_by_key(|image| image.created).and_then(|image| image.names.into_iter().next());
        let image = last.unwrap_or_else(|| base.to_owned());
        tracing::warn!(session = %self.desk.session, wanted, image, "an agent starts without its packages: its image is missing");
        image
    }

    /// Finds out what became of a start that failed or got no answer.
    async fn settle(&mut self, spec: &Spec, id: String, error: Error) -> Result<Option<String>, Error> {
        match insist("inspect", || self.shared.api.look(&id)).await.map(|look| look.life) {
            None => Err(error),
            Some(Life::Alive) => Ok(Some(id)),
            Some(Life::Over(_)) => {
                let (exit, tail) = self.end(&id).await;
                self.gone(spec.incarnation, exit, tail);
                Ok(None)
            }
            Some(Life::Fresh) => {
                // A start that still waits in Podman must not find it.
                insist("remove", || self.shared.api.remove(&id)).await;
                self.end(&id).await;
                Err(error)
            }
        }
    }

    /// Directories and variables. Commands of references may take seconds.
    async fn prepare(&self, spec: &Arc<Spec>) -> Result<(Vec<Bind>, Environment), Error> {
        let (shared, spec) = (Arc::clone(self.shared), Arc::clone(spec));
        let stop = Arc::clone(&self.desk.stop);
        let work = tokio::task::spawn_blocking(move || {
            let stopped = || stop.load(Ordering::Relaxed) >= spec.incarnation;
            let mut spec = Spec::clone(&spec);
            for path in [&mut spec.session_dir, &mut spec.group_dir, &mut spec.home_dir] {
                let absolute = std::path::absolute(&*path);
                *path = absolute.map_err(|source| Error::Directory { path: path.clone(), source })?;
            }
            if let Some(filter) = &shared.filter {
                let path = &shared.setup.filter;
                filter.settle(path).map_err(|source| Error::Filter { path: path.clone(), source })?;
            }
            let binds = place::prepare(&spec, shared.user.0 == 0 && !shared.facts.rootless)?;
            Ok((binds, configured(&spec, &shared.setup.lookup, &stopped)?))
        });
        work.await.unwrap_or(Err(Error::Stopped))
    }

    /// Whether its end was asked for while it was being started.
    fn go_on(&self, spec: &Spec) -> Result<(), Error> {
        let stopped = self.desk.stop.load(Ordering::Relaxed) >= spec.incarnation;
        if stopped || self.shared.table.refusal(spec.session, spec.incarnation).is_some() {
            return Err(Error::Stopped);
        }
        Ok(())
    }
}

fn texts(variables: Vec<(std::ffi::OsString, std::ffi::OsString)>) -> Result<Vec<(String, String)>, Error> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        let name = name.to_string_lossy().into_owned();
        match value.into_string() {
            Ok(value) => Ok((name, value)),
            Err(_) => Err(Error::Variable { name, source: crate::runtime::process::SecretError::NotText }),
        }
    };
    variables.into_iter().map(text).collect()
}

fn words(image: &str, fault: &Fault) -> String {
    match fault {
        Fault::Refused { message, .. } => explain(image, message),
        Fault::Unanswered(reason) => format!("Podman gave no answer when its container was made or started: {reason}"),
    }
}

#[derive(Default)]
struct Pauses(u32);

impl Pauses {
    async fn pause(&mut self) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.0.min(16)).min(LONGEST_PAUSE);
        self.0 += 1;
        tokio::time::sleep(pause).await;
    }
}

/// Asks until there is an answer. A refusal of a question is none.
async fn insist<T, F: Future<Output = Result<T, Fault>>>(what: &str, attempt: impl Fn() -> F) -> T {
    let mut pauses = Pauses::default();
    loop {
        match attempt().await {
            Ok(answer) => return answer,
            Err(error) => {
                pauses.pause().await;
                if pauses.0.is_multiple_of(WARN_EVERY) {
                    tracing::warn!(what, %error, tries = pauses.0, "Podman is asked again until it answers");
                }
            }
        }
    }
}
