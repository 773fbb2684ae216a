//! What is asked of Podman. Every answer of the crate is turned into ours at once: its errors must not be cloned (that
//! never returns), it drops exit codes of `wait`, and the timeout of its `stop` is a name that Podman does not know.
//!
//! What Podman, its containers and its images are is asked without the crate, which reads all of some hundred fields, and
//! nothing if a Podman of another version writes one of them otherwise.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use podman_api::Podman;
use podman_api::conn::TtyChunk;
use podman_api::models::Event;
use podman_api::opts::{ContainerDeleteOpts, ContainerLogsOpts, ContainerStopOpts, EventsOpts};
use reqwest::Url;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Unusable;
use super::build::{AGENT, INSTALL as AGENT_INSTALL};
use super::error::Fault;
use super::facts::Facts;
use crate::crash;
use crate::model::id::SessionId;
use crate::model::incarnation::Exit;
use crate::runtime::last::Last;
use crate::runtime::redact::Secrets;

/// Labels of our containers.
pub(super) const INSTALL: &str = "hearth.install";
pub(super) const SESSION: &str = "hearth.session";
pub(super) const INCARNATION: &str = "hearth.incarnation";
pub(super) const SPEC: &str = "hearth.spec";
/// Name of the image that it is to be made of. It is made of another one as long as that is missing.
pub(super) const IMAGE: &str = "hearth.image";
/// Names of variables that hold secrets, so that a daemon that did not start a container can still hide them.
pub(super) const SECRETS: &str = "hearth.secrets";

/// How long questions may take.
const QUESTION: Duration = Duration::from_secs(15);
/// How long anything else may take. A busy machine starts a container in seconds.
const DEED: Duration = Duration::from_secs(60);
/// Lines of a log that are read; agents that write longer ones have their last bytes kept all the same.
const LOG_LINES: &str = "4000";

/// A container of this installation.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) id: String,
    pub(super) session: Option<SessionId>,
    pub(super) incarnation: Option<u32>,
    pub(super) spec: Option<String>,
    /// Name of the image that it is to be made of.
    pub(super) image: Option<String>,
    /// The image that it is made of.
    pub(super) image_id: Option<String>,
    pub(super) alive: bool,
}

/// An image.
#[derive(Debug, Clone)]
pub(super) struct Image {
    pub(super) id: String,
    pub(super) names: Vec<String>,
    /// In seconds since the epoch.
    pub(super) created: i64,
    /// Folder and installation of the agent that it was built for.
    pub(super) agent: Option<(String, String)>,
}

/// What a container is doing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// It was made and never started.
    Fresh,
    /// It has processes, or may have.
    Alive,
    /// It has ended.
    Over(Exit),
}

/// One look at a container.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) life: Life,
    pub(super) secrets: Secrets,
}

/// The end of a container's log.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) text: String,
    /// Whether it is all of what was there.
    pub(super) complete: bool,
}

/// Where questions go that the crate does not ask. There is one host behind a socket, whatever it is called.
const ROOT: &str = "http://podman/v4.3.1/libpod";

/// What is read of a container that was made.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Made {
    id: Option<String>,
}

/// What is read of a refusal.
#[derive(Default, Deserialize)]
struct Refusal {
    message: Option<String>,
}

/// What is read of a container in a list.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedContainer {
    id: Option<String>,
    #[serde(rename = "ImageID")]
    image_id: Option<String>,
    labels: Option<HashMap<String, String>>,
    state: Option<String>,
}

/// What is read of an image in a list.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedImage {
    id: Option<String>,
    names: Option<Vec<String>>,
    repo_tags: Option<Vec<String>>,
    created: Option<i64>,
    labels: Option<HashMap<String, String>>,
}

/// What is read of a container that is looked at.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Seen {
    state: SeenState,
    config: SeenConfig,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SeenState {
    status: Option<String>,
    exit_code: Option<i32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SeenConfig {
    labels: Option<HashMap<String, String>>,
    env: Option<Vec<String>>,
}

/// Podman at one socket.
pub(super) struct Api {
    podman: Podman,
    http: reqwest::Client,
    pub(super) socket: PathBuf,
    down: AtomicBool,
}

impl Api {
    pub(super) fn new(socket: &Path) -> Result<Self, Unusable> {
        // The client wants to know its cryptography although nothing here is encrypted. Fails only if there is one already.
        drop(rustls::crypto::ring::default_provider().install_default());
        let plain = reqwest::Client::builder().tls_certs_only([]).no_proxy().pool_max_idle_per_host(0);
        let http = plain.unix_socket(socket).build();
        let http = http.map_err(|error| Unusable::Client { reason: error.to_string() })?;
        Ok(Self { podman: Podman::unix(socket), http, socket: socket.to_owned(), down: AtomicBool::new(false) })
    }

    /// What Podman says of itself.
    pub(super) async fn facts(&self) -> Result<Facts, Fault> {
        let info: Value = self.get(&["info"], &[]).await?;
        Facts::of(&info).ok_or_else(|| Fault::Unanswered("this is not Podman".to_owned()))
    }

    /// Every container of an installation, running or not.
    pub(super) async fn list(&self, install: &str) -> Result<Vec<Found>, Fault> {
        let ours = json!({ "label": [format!("{INSTALL}={install}")] }).to_string();
        let listed: Vec<ListedContainer> =
            self.get(&["containers", "json"], &[("all", "true"), ("filters", &ours)]).await?;
        Ok(listed
            .into_iter()
            .filter_map(|container| {
                let labels = container.labels.unwrap_or_default();
                Some(Found {
                    id: container.id?,
                    session: labels.get(SESSION).and_then(|text| text.parse().ok()),
                    incarnation: labels.get(INCARNATION).and_then(|text| text.parse().ok()),
                    spec: labels.get(SPEC).cloned(),
                    image: labels.get(IMAGE).cloned(),
                    image_id: container.image_id,
                    alive: life(container.state.as_deref(), None) == Life::Alive,
                })
            })
            .collect())
    }

    /// Every image that has a name.
    pub(super) async fn images(&self) -> Result<Vec<Image>, Fault> {
        let listed: Vec<ListedImage> = self.get(&["images", "json"], &[]).await?;
        Ok(listed
            .into_iter()
            .filter_map(|image| {
                let labels = image.labels.unwrap_or_default();
                let names = image.names.or(image.repo_tags).unwrap_or_default();
                let agent = labels.get(AGENT).cloned().zip(labels.get(AGENT_INSTALL).cloned());
                Some(Image { id: image.id?, names, created: image.created.unwrap_or(0), agent })
            })
            .filter(|image| !image.names.is_empty())
            .collect())
    }

    /// Makes a container and gives its id. Posted by ourselves: the crate cannot say `no_new_privileges`.
    pub(super) async fn create(&self, body: &Value) -> Result<String, Fault> {
        let request = self.http.post(format!("{ROOT}/containers/create")).timeout(DEED);
        let request = request.header("Content-Type", "application/json").body(body.to_string());
        crash::point("container-make");
        let made: Made = self.ask(request).await?;
        made.id.ok_or_else(|| Fault::Unanswered("a container without an id".to_owned()))
    }

    /// Asks for what is at a place, without the crate.
    async fn get<T: DeserializeOwned>(&self, place: &[&str], query: &[(&str, &str)]) -> Result<T, Fault> {
        let place = Url::parse_with_params(&format!("{ROOT}/{}", place.join("/")), query);
        let place = place.map_err(|error| Fault::Unanswered(error.to_string()))?;
        self.ask(self.http.get(place).timeout(QUESTION)).await
    }

    /// Asks without the crate.
    async fn ask<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<T, Fault> {
        let unanswered = |error: reqwest::Error| Fault::Unanswered(chain(&error));
        let heard = async {
            let response = request.send().await.map_err(unanswered)?;
            let status = response.status();
            let body = response.bytes().await.map_err(unanswered)?;
            if !status.is_success() {
                let Refusal { message } = serde_json::from_slice(&body).unwrap_or_default();
                let message = message.unwrap_or_else(|| status.to_string());
                return Err(Fault::Refused { status: status.as_u16(), message });
            }
            serde_json::from_slice(&body)
                .map_err(|error| Fault::Unanswered(format!("what it says cannot be read: {error}")))
        };
        self.note(heard.await)
    }

    pub(super) async fn start(&self, id: &str) -> Result<(), Fault> {
        crash::point("container-start");
        self.call(DEED, self.podman.containers().get(id).start(None)).await
    }

    /// Asks it to end, and ends it by force after the time it was made with.
    pub(super) async fn stop(&self, id: &str) -> Result<(), Fault> {
        crash::point("container-stop");
        self.call(DEED, self.podman.containers().get(id).stop(&ContainerStopOpts::default())).await
    }

    /// Removes it with all its processes.
    pub(super) async fn remove(&self, id: &str) -> Result<(), Fault> {
        let options = ContainerDeleteOpts::builder().force(true).volumes(true).timeout(0).build();
        crash::point("container-remove");
        match self.call(DEED, self.podman.containers().get(id).delete(&options)).await {
            Err(fault) if fault.is_missing() => Ok(()),
            other => other,
        }
    }

    /// What it is doing; none if there is no such container.
    pub(super) async fn look(&self, id: &str) -> Result<Option<Look>, Fault> {
        let Seen { state, config } = match self.get(&["containers", id, "json"], &[]).await {
            Ok(seen) => seen,
            Err(fault) if fault.is_missing() => return Ok(None),
            Err(fault) => return Err(fault),
        };
        let secrets = secrets(&config.labels.unwrap_or_default(), &config.env.unwrap_or_default());
        Ok(Some(Look { life: life(state.status.as_deref(), state.exit_code), secrets }))
    }

    /// The last it wrote to its standard error, without the secrets. What cannot be read, also the second time, is missing.
    pub(super) async fn tail(&self, id: &str, secrets: &Secrets) -> Tail {
        let mut last = Last::new(secrets);
        for _ in 0..2 {
            last = Last::new(secrets);
            match tokio::time::timeout(QUESTION, self.log(id, &mut last)).await {
                Ok(Ok(())) => return Tail { text: last.into_text(), complete: true },
                Ok(Err(error)) => tracing::warn!(id, %error, "the standard error of an agent could not be read"),
                Err(_) => tracing::warn!(id, "the standard error of an agent could not be read in time"),
            }
        }
        Tail { text: last.into_text(), complete: false }
    }

    async fn log(&self, id: &str, last: &mut Last<'_>) -> podman_api::Result<()> {
        let options = ContainerLogsOpts::builder().stderr(true).stdout(false).follow(false).tail(LOG_LINES).build();
        let container = self.podman.containers().get(id);
        let mut chunks = container.logs(&options);
        while let Some(chunk) = chunks.next().await {
            if let TtyChunk::StdErr(bytes) = chunk? {
                last.push(&bytes);
            }
        }
        Ok(())
    }

    /// Calls `heard` for every event of an installation's containers, until the stream ends. Events that cannot be read
    /// are none.
    pub(super) async fn follow(&self, install: &str, heard: &(dyn Fn(Option<SessionId>, &str) + Sync)) {
        let ours = ("label".to_owned(), vec![format!("{INSTALL}={install}")]);
        let options = EventsOpts::builder().stream(true).filters([ours]).build();
        let mut events = self.podman.events(&options);
        while let Some(event) = events.next().await {
            match event {
                Ok(Event { action, actor, .. }) => {
                    heard(actor.attributes.get(SESSION).and_then(|text| text.parse().ok()), &action);
                }
                Err(podman_api::Error::SerdeJsonError(_)) => heard(None, ""),
                Err(_) => return,
            }
        }
    }

    async fn call<T>(&self, limit: Duration, call: impl Future<Output = podman_api::Result<T>>) -> Result<T, Fault> {
        let heard = match tokio::time::timeout(limit, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(podman_api::Error::Fault { code, message })) => {
                Err(Fault::Refused { status: code.as_u16(), message: once(message) })
            }
            Ok(Err(error)) => Err(Fault::Unanswered(chain(&error))),
            Err(_) => Err(Fault::Unanswered(format!("none within {} s", limit.as_secs()))),
        };
        self.note(heard)
    }

    /// One warning when Podman stops answering, and a word when it is back.
    fn note<T>(&self, heard: Result<T, Fault>) -> Result<T, Fault> {
        let silent = matches!(heard, Err(Fault::Unanswered(_)));
        if self.down.swap(silent, Ordering::Relaxed) != silent {
            let socket = self.socket.display();
            match &heard {
                Err(Fault::Unanswered(reason)) => {
                    tracing::warn!(%socket, reason, "Podman does not answer; it is asked again until it does");
                }
                Ok(_) | Err(Fault::Refused { .. }) => tracing::info!(%socket, "Podman answers again"),
            }
        }
        heard
    }
}

/// What a container does that is in a state that Podman calls so.
fn life(state: Option<&str>, code: Option<i32>) -> Life {
    match state {
        // Made ready is not begun: nobody goes on with a start whose service died.
        Some("created" | "configured" | "initialized") => Life::Fresh,
        Some("exited" | "stopped") => Life::Over(exit(code)),
        // What is being started, stopped or removed, and what nobody knows, may have processes.
        _ => Life::Alive,
    }
}

/// A program that a signal ended has 128 and the signal's number as its code in a container; whether it gave that code
/// itself, nobody can tell.
fn exit(code: Option<i32>) -> Exit {
    match code {
        Some(code @ 129..=192) => Exit::Signal(code - 128),
        Some(code) => Exit::Code(code),
        None => Exit::Unknown,
    }
}

fn secrets(labels: &HashMap<String, String>, variables: &[String]) -> Secrets {
    let names: Vec<&str> = labels.get(SECRETS).map(|names| names.split(',').collect()).unwrap_or_default();
    let mut secrets = Secrets::default();
    for (name, value) in variables.iter().filter_map(|variable| variable.split_once('=')) {
        if names.contains(&name) {
            secrets.add(value.as_bytes());
        }
    }
    secrets
}

/// The crate joins what went wrong and its cause, which often are the same.
fn once(message: String) -> String {
    match message.rsplit_once(": ") {
        Some((rest, cause)) if rest.ends_with(cause) => rest.to_owned(),
        _ => message,
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        if !text.contains(&error.to_string()) {
            text.push_str(": ");
            text.push_str(&error.to_string());
        }
        next = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_as_a_container_engine_can_know_them() {
        assert_eq!(life(Some("exited"), Some(0)), Life::Over(Exit::Code(0)));
        assert_eq!(life(Some("exited"), Some(137)), Life::Over(Exit::Signal(9)));
        assert_eq!(life(Some("exited"), Some(255)), Life::Over(Exit::Code(255)));
        assert_eq!(life(Some("stopped"), None), Life::Over(Exit::Unknown));
        for state in ["created", "configured", "initialized"] {
            assert_eq!(life(Some(state), Some(0)), Life::Fresh, "{state}");
        }
        for state in ["running", "paused", "stopping", "removing", "new word"] {
            assert_eq!(life(Some(state), Some(0)), Life::Alive, "{state}");
        }
    }

    #[test]
    fn a_cause_is_said_once() {
        assert_eq!(once("a: image not known: image not known".to_owned()), "a: image not known");
        assert_eq!(once("statfs /x: gone".to_owned()), "statfs /x: gone");
    }
}
