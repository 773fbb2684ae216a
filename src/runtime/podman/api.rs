//! Calls to Podman. Every answer of the crate is converted at once: its errors must not be cloned (cloning never
//! returns), it drops the exit code of `wait`, and it sends the timeout of `stop` under a name that Podman does not
//! know.
//!
//! Podman's info, containers and images are queried without the crate. The crate parses some hundred fields and fails
//! completely if another version of Podman writes one of them differently.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use podman_api::Podman;
use podman_api::conn::TtyChunk;
use podman_api::models::Event;
use podman_api::opts::{ContainerDeleteOpts, ContainerLogsOpts, ContainerStopOpts, EventsOpts};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, RequestBuilder};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Unusable;
use super::build::Image;
use super::client::{Client, Lines, Upload};
use super::error::{Fault, chain};
use super::info::PodmanInfo;
use crate::crash;
use crate::model::id::SessionId;
use crate::model::incarnation::Exit;
use crate::runtime::redact::Secrets;
use crate::runtime::stderr_tail::StderrTail;

/// Labels of our containers.
pub(super) const INSTALL: &str = "hearth.install";
pub(super) const SESSION: &str = "hearth.session";
pub(super) const INCARNATION: &str = "hearth.incarnation";
pub(super) const SPEC: &str = "hearth.spec";
/// Name of the image that the container should have. While that image is missing, the container runs another one.
pub(super) const IMAGE: &str = "hearth.image";

/// Timeout of queries.
const QUERY: Duration = Duration::from_secs(15);
/// Timeout of everything else. A busy machine takes seconds to start a container.
const ACTION: Duration = Duration::from_secs(60);
/// Number of lines read from a log. If an agent writes more, only the last bytes are kept anyway.
const LOG_LINES: &str = "4000";

/// A container of this installation.
#[derive(Debug, Clone)]
pub(super) struct Container {
    pub(super) id: String,
    pub(super) session: Option<SessionId>,
    pub(super) incarnation: Option<u32>,
    pub(super) spec: Option<String>,
    /// Name of the image that the container should have.
    pub(super) image: Option<String>,
    pub(super) image_id: Option<String>,
    pub(super) alive: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ContainerState {
    /// Created but never started.
    Created,
    /// Has processes, or may have.
    Alive,
    Ended(Exit),
}

/// The end of a container's log.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) text: String,
    /// Whether this is the complete log.
    pub(super) complete: bool,
}

/// The fields read from the answer to a create request.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CreatedContainer {
    id: Option<String>,
}

/// The fields read from a listed container.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedContainer {
    id: Option<String>,
    #[serde(rename = "ImageID")]
    image_id: Option<String>,
    labels: Option<HashMap<String, String>>,
    state: Option<String>,
}

/// The fields read from an inspected container.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectedContainer {
    state: InspectedState,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectedState {
    status: Option<String>,
    exit_code: Option<i32>,
}

/// Podman at one socket.
pub(super) struct Api {
    podman: Podman,
    client: Client,
    down: AtomicBool,
}

impl Api {
    pub(super) fn new(socket: &Path) -> Result<Self, Unusable> {
        Ok(Self { podman: Podman::unix(socket), client: Client::new(socket)?, down: AtomicBool::new(false) })
    }

    pub(super) const fn socket(&self) -> &PathBuf {
        &self.client.socket
    }

    /// Podman's info.
    pub(super) async fn info(&self) -> Result<PodmanInfo, Fault> {
        let info: Value = self.get(&["info"], &[]).await?;
        PodmanInfo::of(&info).ok_or_else(|| Fault::Unanswered("this is not Podman".to_owned()))
    }

    /// Lists all containers of an installation, running or not.
    pub(super) async fn list(&self, install: &str) -> Result<Vec<Container>, Fault> {
        let ours = json!({ "label": [format!("{INSTALL}={install}")] }).to_string();
        let listed: Vec<ListedContainer> =
            self.get(&["containers", "json"], &[("all", "true"), ("filters", &ours)]).await?;
        Ok(listed
            .into_iter()
            .filter_map(|container| {
                let labels = container.labels.unwrap_or_default();
                Some(Container {
                    id: container.id?,
                    session: labels.get(SESSION).and_then(|text| text.parse().ok()),
                    incarnation: labels.get(INCARNATION).and_then(|text| text.parse().ok()),
                    spec: labels.get(SPEC).cloned(),
                    image: labels.get(IMAGE).cloned(),
                    image_id: container.image_id,
                    alive: container_state(container.state.as_deref(), None) == ContainerState::Alive,
                })
            })
            .collect())
    }

    /// Lists the images that have a name and match these filters.
    pub(super) async fn images(&self, filters: &Value) -> Result<Vec<Image>, Fault> {
        let listed: Value = self.get(&["images", "json"], &[("filters", &filters.to_string())]).await?;
        let images = listed.as_array().into_iter().flatten().filter_map(Image::of);
        Ok(images.filter(|image| !image.names.is_empty()).collect())
    }

    pub(super) async fn has_image(&self, name: &str) -> Result<bool, Fault> {
        let asked = self.client.request(Method::GET, &["images", name, "exists"], &[]);
        match self.send(asked.timeout(QUERY)).await {
            Ok(_) => Ok(true),
            Err(fault) if fault.is_missing() => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// Starts a build. The answer is a stream of JSON lines.
    pub(super) async fn build(&self, query: &[(&str, &str)], context: Upload) -> Result<Lines, Fault> {
        let request = self.client.request(Method::POST, &["build"], query);
        crash::point("image-build");
        self.note(self.client.open(context.attach(request)).await.map(Lines::of))
    }

    /// Creates a container and returns its id. Bypasses the crate, which cannot set `no_new_privileges`.
    pub(super) async fn create(&self, spec: &Value) -> Result<String, Fault> {
        let request = self.client.request(Method::POST, &["containers", "create"], &[]).timeout(ACTION);
        let request = request.header(CONTENT_TYPE, "application/json").body(spec.to_string());
        crash::point("container-make");
        let created: CreatedContainer = self.note(self.client.json(request).await)?;
        created.id.ok_or_else(|| Fault::Unanswered("a container without an id".to_owned()))
    }

    /// Waits until a container has ended.
    pub(super) async fn wait(&self, id: &str) -> Result<(), Fault> {
        let path = ["containers", id, "wait"];
        self.send(self.client.request(Method::POST, &path, &[("interval", "20ms")])).await.map(drop)
    }

    /// Removes the stopped containers that match these filters.
    pub(super) async fn prune(&self, filters: &Value) -> Result<(), Fault> {
        let query = [("filters", &*filters.to_string())];
        self.send(self.client.request(Method::POST, &["containers", "prune"], &query).timeout(ACTION)).await.map(drop)
    }

    async fn get<T: DeserializeOwned>(&self, path: &[&str], query: &[(&str, &str)]) -> Result<T, Fault> {
        self.note(self.client.json(self.client.request(Method::GET, path, query).timeout(QUERY)).await)
    }

    async fn send(&self, request: RequestBuilder) -> Result<Vec<u8>, Fault> {
        self.note(self.client.text(request).await)
    }

    pub(super) async fn start(&self, id: &str) -> Result<(), Fault> {
        crash::point("container-start");
        self.note(timed(ACTION, self.podman.containers().get(id).start(None)).await)
    }

    /// Asks a container to end, and kills it after this many seconds.
    pub(super) async fn stop(&self, id: &str, seconds: u64) -> Result<(), Fault> {
        let options = ContainerStopOpts::builder().timeout(usize::try_from(seconds).unwrap_or(usize::MAX)).build();
        crash::point("container-stop");
        self.note(timed(ACTION, self.podman.containers().get(id).stop(&options)).await)
    }

    /// Removes a container with all its processes.
    pub(super) async fn remove(&self, id: &str) -> Result<(), Fault> {
        let options = ContainerDeleteOpts::builder().force(true).volumes(true).timeout(0).build();
        crash::point("container-remove");
        match self.note(timed(ACTION, self.podman.containers().get(id).delete(&options)).await) {
            Err(fault) if fault.is_missing() => Ok(()),
            other => other,
        }
    }

    /// State of a container; `None` if it does not exist.
    pub(super) async fn state(&self, id: &str) -> Result<Option<ContainerState>, Fault> {
        match self.get(&["containers", id, "json"], &[]).await {
            Ok(InspectedContainer { state }) => Ok(Some(container_state(state.status.as_deref(), state.exit_code))),
            Err(fault) if fault.is_missing() => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// The tail of the container's standard error, with secrets removed. Empty if it cannot be read twice in a row.
    pub(super) async fn stderr_tail(&self, id: &str, secrets: &Secrets) -> Log {
        let options = ContainerLogsOpts::builder().stderr(true).stdout(false).follow(false).tail(LOG_LINES).build();
        let mut tail = StderrTail::new(secrets);
        for _ in 0..2 {
            tail = StderrTail::new(secrets);
            match self.log(id, &options, |bytes| tail.push(bytes)).await {
                Ok(()) => return Log { text: tail.into_text(), complete: true },
                Err(error) => tracing::warn!(id, %error, "the standard error of an agent could not be read"),
            }
        }
        Log { text: tail.into_text(), complete: false }
    }

    /// What a container has written to its standard output.
    pub(super) async fn stdout(&self, id: &str) -> Result<String, Fault> {
        let options = ContainerLogsOpts::builder().stdout(true).stderr(false).follow(false).build();
        let mut text = Vec::new();
        self.log(id, &options, |bytes| text.extend_from_slice(bytes)).await?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    async fn log(&self, id: &str, options: &ContainerLogsOpts, mut keep: impl FnMut(&[u8])) -> Result<(), Fault> {
        let container = self.podman.containers().get(id);
        let read = async {
            let mut chunks = container.logs(options);
            while let Some(chunk) = chunks.next().await {
                if let TtyChunk::StdErr(bytes) | TtyChunk::StdOut(bytes) = chunk? {
                    keep(&bytes);
                }
            }
            Ok(())
        };
        timed(QUERY, read).await
    }

    /// Calls `heard` for every event of an installation's containers, until the stream ends. Events that cannot be
    /// parsed are skipped.
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

    /// Logs one warning when Podman stops answering, and one message when it answers again.
    fn note<T>(&self, heard: Result<T, Fault>) -> Result<T, Fault> {
        let silent = matches!(heard, Err(Fault::Unanswered(_)));
        if self.down.swap(silent, Ordering::Relaxed) != silent {
            let socket = self.socket().display();
            match &heard {
                Err(Fault::Unanswered(reason)) => {
                    tracing::warn!(%socket, reason, "Podman does not answer");
                }
                Ok(_) | Err(Fault::Refused { .. }) => tracing::info!(%socket, "Podman answers again"),
            }
        }
        heard
    }
}

/// Waits for a call of the crate and converts its error.
async fn timed<T>(limit: Duration, call: impl Future<Output = podman_api::Result<T>>) -> Result<T, Fault> {
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(podman_api::Error::Fault { code, message })) => {
            Err(Fault::Refused { status: code.as_u16(), message: once(message) })
        }
        Ok(Err(error)) => Err(Fault::Unanswered(chain(&error))),
        Err(_) => Err(Fault::Unanswered(format!("none within {} s", limit.as_secs()))),
    }
}

/// Maps Podman's container state.
fn container_state(state: Option<&str>, code: Option<i32>) -> ContainerState {
    match state {
        // A container that was only initialized does not start later: if the service dies, its start is not resumed.
        Some("created" | "configured" | "initialized") => ContainerState::Created,
        Some("exited" | "stopped") => ContainerState::Ended(exit(code)),
        // A container that is starting, stopping or being removed may have processes. So may one in an unknown state.
        _ => ContainerState::Alive,
    }
}

/// In a container, the exit code of a program that a signal ended is 128 plus the signal's number. A program that exits
/// with that code itself looks the same.
fn exit(code: Option<i32>) -> Exit {
    match code {
        Some(code @ 129..=192) => Exit::Signal(code - 128),
        Some(code) => Exit::Code(code),
        None => Exit::Unknown,
    }
}

/// Removes a repeated cause: the crate joins an error and its cause, which are often the same.
fn once(message: String) -> String {
    match message.rsplit_once(": ") {
        Some((rest, cause)) if rest.ends_with(cause) => rest.to_owned(),
        _ => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_as_a_container_engine_can_know_them() {
        assert_eq!(container_state(Some("exited"), Some(0)), ContainerState::Ended(Exit::Code(0)));
        assert_eq!(container_state(Some("exited"), Some(137)), ContainerState::Ended(Exit::Signal(9)));
        assert_eq!(container_state(Some("exited"), Some(255)), ContainerState::Ended(Exit::Code(255)));
        assert_eq!(container_state(Some("stopped"), None), ContainerState::Ended(Exit::Unknown));
        for state in ["created", "configured", "initialized"] {
            assert_eq!(container_state(Some(state), Some(0)), ContainerState::Created, "{state}");
        }
        for state in ["running", "paused", "stopping", "removing", "new word"] {
            assert_eq!(container_state(Some(state), Some(0)), ContainerState::Alive, "{state}");
        }
    }

    #[test]
    fn a_cause_is_said_once() {
        assert_eq!(once("a: image not known: image not known".to_owned()), "a: image not known");
        assert_eq!(once("statfs /x: gone".to_owned()), "statfs /x: gone");
    }
}
