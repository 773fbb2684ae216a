//! Builds the images of agents. The calls are synchronous: they take minutes, and [`Watch`] ends them.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc;

mod context;
mod error;
mod images;
mod options;
mod recipe;
pub mod runner;
mod trial;

use super::Unusable;
use super::api::Api;
use super::client::{Lines, Upload};
use super::error::Fault;
use super::info::Info;
use super::socket;
use super::threads::Threads;
use crate::config::env::env_lookup;
use crate::runtime::process::Lookup;
use context::Context;
pub use error::Error;
pub use images::Image;
pub use options::Options;
pub use recipe::{AgentImage, BaseImage, base_digest};
pub use trial::{Limited, Trial, Tried};

/// Lines of a failed build that the error contains.
const TAIL: usize = 15;

/// Observes a call: receives its output, and decides when it has taken too long.
pub trait Watch {
    /// Podman printed this line. It may contain anything.
    fn said(&self, line: &str);

    /// Whether there is no time left. Asked at least twice a second.
    fn expired(&self) -> bool;
}

/// The parameters of a build.
struct Order<'a> {
    image: &'a str,
    args: Value,
    context: Context,
    fresh: bool,
}

/// Podman's media type of an OCI image. With Podman's default type, no step of a build over the API comes from the
/// cache.
const OCI: &str = "application/vnd.oci.image.manifest.v1+json";
/// Pieces of a context that are read before Podman takes them.
const AHEAD: usize = 4;

/// Podman for callers that are synchronous.
pub struct Engine {
    api: Arc<Api>,
    threads: Threads,
}

impl Engine {
    /// The Podman that agents run in.
    ///
    /// # Errors
    /// [`Unusable`] if it is not found.
    pub fn find() -> Result<Self, Unusable> {
        let lookup: Lookup = Arc::new(|name: &str| env_lookup(name).map(OsString::from));
        Self::at(&socket::find(&lookup)?)
    }

    /// The Podman behind a given socket.
    ///
    /// # Errors
    /// [`Unusable::Client`] if there are no threads.
    pub fn at(socket: &Path) -> Result<Self, Unusable> {
        Ok(Self { api: Arc::new(Api::new(socket)?), threads: Threads::start()? })
    }

    #[must_use]
    pub fn socket(&self) -> &PathBuf {
        self.api.socket()
    }

    /// Podman's description of itself.
    ///
    /// # Errors
    /// [`Error`] if it does not answer, or is not a Podman that can be used.
    pub fn info(&self, watch: &dyn Watch) -> Result<Info, Error> {
        let info = self.ask(watch, async |api| api.info().await)?;
        Ok(Info::of(self.socket(), &info)?)
    }

    /// Carries out calls; they are dropped when the time limit expires.
    fn ask<T: Send + 'static, F: Future<Output = Result<T, Fault>> + Send + 'static>(
        &self,
        watch: &dyn Watch,
        calls: impl FnOnce(Arc<Api>) -> F,
    ) -> Result<T, Error> {
        self.wait(watch, calls(Arc::clone(&self.api)))?.map_err(|fault| failed(self.socket(), fault))
    }

    fn wait<T: Send + 'static>(
        &self,
        watch: &dyn Watch,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Error> {
        let ended = self.threads.wait_unless(&|| watch.expired(), task);
        ended.ok_or_else(|| Error::TooLong { socket: self.socket().clone() })
    }

    /// Builds an image and moves the name to it from the image that had it before. A failed build changes nothing.
    /// Returns the image's id.
    fn build(&self, order: Order<'_>, watch: &dyn Watch) -> Result<String, Error> {
        let image = order.image.to_owned();
        let mut lines = self.open(order, watch)?;
        let mut tail = VecDeque::new();
        let mut id = None;
        while let Some((line, rest)) = self.next(lines, watch)? {
            lines = rest;
            let Ok(news) = serde_json::from_slice::<Value>(&line) else { continue };
            if let Some(message) = news.get("error").and_then(Value::as_str) {
                let tail = tail.make_contiguous().join("\n");
                return Err(Error::Build { image, message: message.trim().to_owned(), tail });
            }
            let output = news.get("stream").and_then(Value::as_str).unwrap_or_default();
            for line in output.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
                watch.said(line);
                id = is_id(line).then(|| line.to_owned());
                if tail.len() == TAIL {
                    tail.pop_front();
                }
                tail.push_back(line.to_owned());
            }
        }
        let what = "a build ended without the id of an image";
        id.ok_or_else(|| Error::Unclear { socket: self.socket().clone(), what })
    }

    /// Sends a build's context while it is read, and returns the answer.
    fn open(&self, order: Order<'_>, watch: &dyn Watch) -> Result<Lines, Error> {
        let Order { image, args, context, fresh } = order;
        let query = [
            ("dockerfile", "Containerfile".to_owned()),
            ("layers", "true".to_owned()),
            ("rm", "true".to_owned()),
            ("forcerm", "true".to_owned()),
            ("nocache", fresh.to_string()),
            ("outputformat", OCI.to_owned()),
            ("t", image.to_owned()),
            ("buildargs", args.to_string()),
        ];
        let api = Arc::clone(&self.api);
        self.wait(watch, async move {
            let query = query.each_ref().map(|(name, value)| (*name, value.as_str()));
            let (put, pieces) = mpsc::channel(AHEAD);
            let upload = Upload { pieces, length: context.length() };
            let socket = api.socket().clone();
            let reader = tokio::task::spawn_blocking(move || {
                let stopped = |_| failed(&socket, Fault::Unanswered("it stopped reading".to_owned()));
                context.write(&mut |piece| put.blocking_send(piece.to_vec()).map_err(stopped))
            });
            match api.build(&query, upload).await {
                Ok(lines) => Ok(lines),
                // A file that cannot be read ends the connection, too.
                Err(Fault::Unanswered(reason)) => match reader.await {
                    Ok(Err(error @ Error::File { .. })) => Err(error),
                    _ => Err(failed(api.socket(), Fault::Unanswered(reason))),
                },
                Err(fault) => Err(failed(api.socket(), fault)),
            }
        })?
    }

    /// The next line of an answer, and the lines after it; `None` at its end.
    fn next(&self, mut lines: Lines, watch: &dyn Watch) -> Result<Option<(Vec<u8>, Lines)>, Error> {
        self.ask(watch, async move |_| lines.next().await.map(|line| line.map(|line| (line, lines))))
    }
}

fn failed(socket: &Path, fault: Fault) -> Error {
    match fault {
        Fault::Refused { status, message } => Error::Refused { status, message },
        Fault::Unanswered(reason) => Unusable::Silent { socket: socket.to_owned(), reason }.into(),
    }
}

/// Whether a line is an image id, the last line of a successful build.
fn is_id(line: &str) -> bool {
    line.len() == 64 && line.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests;
