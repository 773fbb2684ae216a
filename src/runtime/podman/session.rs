//! One session's containers. Orders are handled one at a time. After a call without an answer, the task checks what
//! happened for as long as it takes, because a wrong "gone" would let two incarnations run.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Shared;
use super::api::{Container, ContainerState};
use super::error::{Fault, explain};
use super::handover::{self, Offer, Pipe, Start};
use super::mounts;
use super::registry::{Order, SessionOrders};
use super::retry::{Pauses, insist};
use super::spec::{self, Bind, GATE, NETWORK};
use crate::model::incarnation::Exit;
use crate::runtime::environment::{Environment, Places, configured};
use crate::runtime::image::{RUNNER, base_of, image_of};
use crate::runtime::redact::Secrets;
use crate::runtime::{Error, Spec, known};

/// Rejected stops before a running container is removed with its processes.
const STOPS: u32 = 3;
/// Rejected removals before an ended container is left to the next start.
const REMOVALS: u32 = 6;
/// Message of a container's init when the image lacks the program.
const NO_PROGRAM: &str = "failed to exec pid1";
/// The text before that message. Init writes it in several pieces.
const INIT: &str = "(catatonit";
/// How often and how long to wait for the log of a container that failed silently. On a loaded machine Podman reports
/// the exit before the log, and sometimes loses what a container wrote in its last moment.
const LATE_LOGS: u32 = 20;
const LATE_LOG: Duration = Duration::from_millis(100);

/// How often and how long to wait for a started runner to read its secrets.
const OFFERS: u32 = 40;
const OFFER: Duration = Duration::from_secs(1);

/// The container of the running incarnation.
struct Here {
    incarnation: u32,
    id: String,
}

/// The last container that this daemon created, and the secrets to remove from its output. For containers of an earlier
/// daemon, the runner and the code that knows the agent's configuration remove them.
struct Given {
    id: String,
    secrets: Secrets,
}

/// A started container and its image.
struct Begun {
    id: String,
    image: String,
}

/// Everything a container is created from.
struct Parts {
    binds: Vec<Bind>,
    environment: Environment,
    variables: spec::Variables,
    /// `None` if there are no secrets.
    pipe: Option<Pipe>,
}

/// Handles a session's orders until there are none and nothing runs.
pub(super) async fn attend(shared: Arc<Shared>, mut queue: SessionOrders) {
    let (mut here, mut given) = (None, None);
    while let Some(order) = queue.orders.recv().await {
        let mut session = Session { shared: &shared, orders: &queue, here: here.take(), given: given.take() };
        match order {
            Order::Ensure(spec) => session.ensure(*spec).await,
            Order::Kill(incarnation) => session.kill(incarnation, spec::GRACE).await,
            Order::KillNow(incarnation) => session.kill(incarnation, spec::MOMENT).await,
            Order::Inquire(incarnation) => session.inquire(incarnation).await,
            Order::Look => session.look().await,
            Order::End => session.end_all().await,
        }
        (here, given) = (session.here, session.given);
        if here.is_none() && shared.sessions.leave(queue.session, &queue.orders) {
            return;
        }
    }
}

struct Session<'a> {
    shared: &'a Arc<Shared>,
    orders: &'a SessionOrders,
    here: Option<Here>,
    given: Option<Given>,
}

impl Session<'_> {
    async fn ensure(&mut self, spec: Spec) {
        let incarnation = spec.incarnation;
        let own = self.here.as_ref().is_some_and(|here| here.incarnation == incarnation);
        if let Some(reason) = self.shared.sessions.refusal(spec.session, incarnation).filter(|_| !own) {
            return self.gone(incarnation, Exit::NotStarted(reason), String::new());
        }
        let digest = spec.digest.to_string();
        for found in self.found().await {
            if found.incarnation != Some(incarnation) || found.spec.as_deref() != Some(&digest) {
                self.dismiss(&found).await;
            } else if let Some((exit, tail)) = self.finish(&found.id).await {
                return self.gone(incarnation, exit, tail);
            } else if self.is_pending(incarnation) {
                let (exit, tail) = self.end_pending(&found.id, incarnation).await;
                return self.gone(incarnation, exit, tail);
            } else {
                self.find_secrets(&spec).await;
                self.here = Some(Here { incarnation, id: found.id });
                return self.shared.sessions.running(spec.session, incarnation);
            }
        }
        if own {
            return self.look().await;
        }
        let launched = self.launch(spec).await;
        // In any case the secrets are no longer needed.
        handover::clear(&self.shared.setup.secrets, self.start(incarnation));
        match launched {
            Ok(Some(id)) => {
                tracing::info!(session = %self.orders.session, incarnation, id, "agent started");
                self.here = Some(Here { incarnation, id });
                self.shared.sessions.running(self.orders.session, incarnation);
            }
            Ok(None) => {}
            Err(error) => {
                let reason = error.reason();
                tracing::warn!(session = %self.orders.session, incarnation, reason, "agent not started");
                self.gone(incarnation, Exit::NotStarted(reason), String::new());
            }
        }
    }

    async fn kill(&mut self, incarnation: u32, seconds: u64) {
        let mut end = (Exit::Unknown, String::new());
        for found in self.found().await {
            if found.incarnation == Some(incarnation) {
                end = self.end_within(&found.id, seconds).await;
            }
        }
        self.gone(incarnation, end.0, end.1);
    }

    async fn inquire(&mut self, incarnation: u32) {
        let mut end = (Exit::Unknown, String::new());
        for found in self.found().await {
            let asked = found.incarnation == Some(incarnation);
            let own = self.here.as_ref().is_some_and(|here| here.id == found.id);
            if asked && found.alive && self.is_pending(incarnation) {
                end = self.end_pending(&found.id, incarnation).await;
            } else if asked && found.alive {
                self.here = Some(Here { incarnation, id: found.id });
                return self.shared.sessions.running(self.orders.session, incarnation);
            } else if asked {
                end = self.end(&found.id).await;
            } else if !own {
                self.end(&found.id).await;
            }
        }
        self.gone(incarnation, end.0, end.1);
    }

    /// Checks whether the running container still runs.
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

    /// Ends and removes a stale container, and reports it if it was the running one.
    async fn dismiss(&mut self, found: &Container) {
        tracing::warn!(session = %self.orders.session, id = found.id, "a stale container is removed");
        let (exit, tail) = self.end(&found.id).await;
        if let Some(incarnation) = self.here.as_ref().filter(|here| here.id == found.id).map(|here| here.incarnation) {
            self.gone(incarnation, exit, tail);
        }
    }

    fn gone(&mut self, incarnation: u32, exit: Exit, tail: String) {
        if self.here.as_ref().is_some_and(|here| here.incarnation == incarnation) {
            self.here = None;
        }
        tracing::info!(session = %self.orders.session, incarnation, ?exit, "agent gone");
        self.shared.sessions.gone(self.orders.session, incarnation, exit, tail);
    }

    /// All containers of the session.
    async fn found(&self) -> Vec<Container> {
        let install = &self.shared.setup.install;
        let all = insist("list", || self.shared.api.list(install)).await;
        all.into_iter().filter(|found| found.session == Some(self.orders.session)).collect()
    }

    /// Stops a container, waits for its end and removes it. A container that cannot be stopped, for example a paused
    /// one, is removed with its processes.
    async fn end(&self, id: &str) -> (Exit, String) {
        self.end_within(id, spec::GRACE).await
    }

    /// The same; its processes get this many seconds to end.
    async fn end_within(&self, id: &str, seconds: u64) -> (Exit, String) {
        let mut pauses = Pauses::default();
        let mut refusals = 0;
        loop {
            if let Some(end) = self.finish(id).await {
                return end;
            }
            if let Err(error) = self.shared.api.stop(id, seconds).await {
                tracing::debug!(id, %error, "a container does not stop");
                refusals += u32::from(matches!(error, Fault::Refused { .. }));
                if refusals >= STOPS {
                    self.remove(id).await;
                }
                pauses.pause().await;
            }
        }
    }

    /// Removes a container that has ended and returns how it ended. `None` while it runs.
    async fn finish(&self, id: &str) -> Option<(Exit, String)> {
        let api = &self.shared.api;
        let Some(life) = insist("inspect", || api.state(id)).await else { return Some((Exit::Unknown, String::new())) };
        let none = Secrets::default();
        let secrets = self.given.as_ref().filter(|given| given.id == id).map_or(&none, |given| &given.secrets);
        let mut exit = match life {
            ContainerState::Alive => return None,
            ContainerState::Created => Exit::NotStarted("its container was created but never started".to_owned()),
            ContainerState::Ended(exit) => exit,
        };
        let mut tail = api.stderr_tail(id, secrets).await;
        // Podman may report the exit before the log is complete.
        for _ in 0..LATE_LOGS {
            let text = &tail.text;
            let open = text.trim().is_empty() || !text.ends_with('\n');
            let unfinished = match exit {
                _ if !tail.complete => false,
                Exit::Code(1) => open || (text.contains(INIT) && !text.contains(NO_PROGRAM)),
                Exit::Code(code) => code != 0 && open,
                // Usually killed, with nothing in the log.
                Exit::Signal(_) | Exit::NotStarted(_) | Exit::Unknown => false,
            };
            if !unfinished {
                break;
            }
            tokio::time::sleep(LATE_LOG).await;
            tail = api.stderr_tail(id, secrets).await;
        }
        if matches!(exit, Exit::Code(1)) && tail.text.contains(NO_PROGRAM) {
            let reason = format!("its image has no working program at {RUNNER}: run `hearth image build`");
            exit = Exit::NotStarted(reason);
        } else if matches!(exit, Exit::Code(1)) && tail.complete && tail.text.trim().is_empty() {
            // The runner reports why it ends. Without output it was init whose message was lost.
            let reason = format!(
                "it ended without a message, probably because its image has no working program at {RUNNER}: run \
                 `hearth image build`"
            );
            exit = Exit::NotStarted(reason);
        }
        self.remove(id).await;
        Some((exit, tail.text))
    }

    /// Removes a container without processes. A container that cannot be removed is harmless; the next start tries
    /// again.
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

    /// Creates and starts a container. `None` if the outcome is already reported.
    async fn launch(&mut self, spec: Spec) -> Result<Option<String>, Error> {
        let spec = Arc::new(spec);
        let Parts { binds, environment, variables, pipe } = self.prepare(&spec).await?;
        self.go_on(&spec)?;
        let folder = spec.group_dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let wanted = image_of(&self.shared.setup.install, &folder, &spec.settings, spec.image.as_deref());
        let image = self.image(&wanted, &folder, base_of(spec.image.as_deref())).await;
        let order = spec::Order {
            install: &self.shared.setup.install,
            spec: &spec,
            image: &image,
            wanted: &wanted,
            variables: variables.shown,
            binds: &binds,
            info: &self.shared.info,
            filter: self.shared.filter.as_ref().map(|_| self.shared.setup.filter.as_path()),
            user: self.shared.user,
        };
        let failed = |fault: Fault| Error::Podman { reason: words(&image, &fault) };
        let body = spec::create(&order);
        mounts::check(&binds)?;
        // A container whose creation got no answer is never started. The next start removes it.
        let id = self.shared.api.create(&body).await.map_err(failed)?;
        if let Err(error) = self.go_on(&spec).and_then(|()| mounts::check(&binds)) {
            self.remove(&id).await;
            return Err(error);
        }
        self.given = Some(Given { id: id.clone(), secrets: environment.secrets });
        // Offered before the start, because the answer to the start may get lost and the runner does not wait forever.
        let offer = pipe.map(|pipe| pipe.offer(&variables.handed));
        let begun = match self.shared.api.start(&id).await {
            Ok(()) => Some(id),
            Err(fault) => self.settle(&spec, id, failed(fault)).await?,
        };
        match (begun, offer) {
            (Some(id), Some(offer)) => self.hand_over(&spec, Begun { id, image }, offer).await,
            (begun, _) => Ok(begun),
        }
    }

    /// Waits until the runner has read its secrets. A runner that does not read them is ended.
    async fn hand_over(&mut self, spec: &Spec, begun: Begun, mut offer: Offer) -> Result<Option<String>, Error> {
        let Begun { id, image } = begun;
        let mut why = Error::NotTaken { image: image.clone(), how: "it continues without them".to_owned() };
        for _ in 0..OFFERS {
            match offer.taken(OFFER).await {
                Some(Ok(())) => return Ok(Some(id)),
                Some(Err(error)) => {
                    why = error;
                    break;
                }
                None => {}
            }
            if let Some((exit, tail)) = self.finish(&id).await {
                // The runner may have read them and ended meanwhile.
                let taken = matches!(offer.taken(Duration::ZERO).await, Some(Ok(())));
                let exit = match exit {
                    Exit::Code(code) if !taken => {
                        let how = format!("it ended with code {code}: {}", tail.trim());
                        Exit::NotStarted(Error::NotTaken { image, how }.reason())
                    }
                    other => other,
                };
                self.gone(spec.incarnation, exit, tail);
                return Ok(None);
            }
            if let Err(error) = self.go_on(spec) {
                why = error;
                break;
            }
        }
        self.end(&id).await;
        Err(why)
    }

    /// Whether an incarnation still waits for secrets from an earlier daemon.
    fn is_pending(&self, incarnation: u32) -> bool {
        handover::is_pending(&self.shared.setup.secrets, self.start(incarnation))
    }

    /// Ends a container that cannot work without its secrets. The next one gets them.
    async fn end_pending(&self, id: &str, incarnation: u32) -> (Exit, String) {
        let (_, tail) = self.end(id).await;
        handover::clear(&self.shared.setup.secrets, self.start(incarnation));
        (Exit::NotStarted("the daemon ended before it gave the agent its secrets".to_owned()), tail)
    }

    const fn start(&self, incarnation: u32) -> Start {
        Start { session: self.orders.session, incarnation }
    }

    /// The image to use: the wanted one; if an agent's own image is missing, the newest earlier one of that agent, else
    /// the base.
    async fn image(&self, wanted: &str, folder: &str, base: &str) -> String {
        if wanted == base {
            return wanted.to_owned();
        }
        let images = match self.shared.api.images(&serde_json::json!({})).await {
            Ok(images) => images,
            // The start reports what is wrong.
            Err(_) => return wanted.to_owned(),
        };
        if images.iter().any(|image| image.names.iter().any(|name| name == wanted)) {
            return wanted.to_owned();
        }
        let agent = (folder.to_owned(), self.shared.setup.install.clone());
        let own = images.into_iter().filter(|image| image.agent.as_ref() == Some(&agent));
        let last = own.max_by_key(|image| image.created).and_then(|image| image.names.into_iter().next());
        let image = last.unwrap_or_else(|| base.to_owned());
        tracing::warn!(session = %self.orders.session, wanted, image, "an agent starts without its packages: its image is missing");
        image
    }

    /// Checks the actual state after a start that failed or got no answer.
    async fn settle(&mut self, spec: &Spec, id: String, error: Error) -> Result<Option<String>, Error> {
        match insist("inspect", || self.shared.api.state(&id)).await {
            None => Err(error),
            Some(ContainerState::Alive) => Ok(Some(id)),
            Some(ContainerState::Ended(_)) => {
                let (exit, tail) = self.end(&id).await;
                self.gone(spec.incarnation, exit, tail);
                Ok(None)
            }
            Some(ContainerState::Created) => {
                // A start that is still pending in Podman must not find the container.
                insist("remove", || self.shared.api.remove(&id)).await;
                self.end(&id).await;
                Err(error)
            }
        }
    }

    /// Resolves the secrets of a container that an earlier daemon started.
    async fn find_secrets(&self, spec: &Spec) {
        let (settings, secrets) = (spec.settings.clone(), Arc::clone(&spec.secrets));
        let lookup = Arc::clone(&self.shared.setup.lookup);
        let work = tokio::task::spawn_blocking(move || {
            secrets.get_or_init(|| known(&settings, &lookup).into());
        });
        if let Err(error) = work.await {
            tracing::warn!(session = %spec.session, %error, "the secrets of an agent are unknown");
        }
    }

    /// Directories, variables and the pipe for secrets. The commands of references may take seconds.
    async fn prepare(&self, spec: &Arc<Spec>) -> Result<Parts, Error> {
        let (shared, spec) = (Arc::clone(self.shared), Arc::clone(spec));
        let stop = Arc::clone(&self.orders.stop);
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
            let give_away = shared.user.0 == 0 && !shared.info.rootless;
            let mut binds = mounts::prepare(&spec, give_away)?;
            let places = Places { gate: Path::new(GATE), network: Path::new(NETWORK) };
            let mut environment = configured(&spec, &shared.setup.lookup, &stopped, places)?;
            let texts = texts(std::mem::take(&mut environment.variables))?;
            let variables = spec::variables(&spec, texts, &environment.secret_names);
            let start = Start { session: spec.session, incarnation: spec.incarnation };
            let pipe = match variables.handed.is_empty() {
                true => None,
                false => Some(Pipe::make(&shared.setup.secrets, start, give_away)?),
            };
            binds.extend(pipe.as_ref().map(Pipe::bind));
            Ok(Parts { binds, environment, variables, pipe })
        });
        work.await.unwrap_or(Err(Error::Stopped))
    }

    /// Fails if the incarnation was asked to stop while it was starting.
    fn go_on(&self, spec: &Spec) -> Result<(), Error> {
        let stopped = self.orders.stop.load(Ordering::Relaxed) >= spec.incarnation;
        if stopped || self.shared.sessions.refusal(spec.session, spec.incarnation).is_some() {
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
        Fault::Unanswered(reason) => {
            format!("Podman gave no answer when its container was created or started: {reason}")
        }
    }
}
