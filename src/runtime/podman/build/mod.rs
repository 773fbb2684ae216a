//! Images of agents: what they are made of, and how Podman is told to make them.
//!
//! A build happens over the REST API. The crate for that API packs and compresses the whole context in memory and has no
//! end for a build that hangs, so these few calls have a connection of their own.

use std::collections::VecDeque;

use serde_json::Value;

mod context;
mod error;
mod http;
mod images;
mod options;
mod recipe;
pub mod runner;
mod trial;

use context::Context;
pub use error::Error;
pub use http::Engine;
use http::{Body, Call, quoted};
pub use images::{Image, Info};
pub use options::Options;
pub(super) use recipe::{AGENT, INSTALL};
pub use recipe::{AgentImage, BaseImage, base_digest};
pub use trial::{Limited, Trial, Tried};

use crate::crash;

/// Lines of a failed build that are told.
const TAIL: usize = 15;

/// Who watches a call: sees what is said, and says when it was enough.
pub trait Watch {
    /// Podman said this. Anything may be in it.
    fn said(&self, line: &str);

    /// Whether there is no time left. Asked at least twice a second.
    fn expired(&self) -> bool;
}

/// A build as Podman is told of it.
struct Order<'a> {
    image: &'a str,
    args: Value,
    context: Context,
    fresh: bool,
}

/// Podman's media type of an OCI image. With its own default no step of a build over the API is taken from the cache.
const OCI: &str = "application/vnd.oci.image.manifest.v1+json";

impl Engine {
    /// Builds an image and gives it its name, which is taken from the image that had it. A build that fails changes
    /// nothing. Answers with the image's id.
    fn build(&self, order: &Order<'_>, watch: &dyn Watch) -> Result<String, Error> {
        let path = format!(
            "/build?dockerfile=Containerfile&layers=true&rm=true&forcerm=true&nocache={}&outputformat={}&t={}&buildargs={}",
            order.fresh,
            quoted(OCI),
            quoted(order.image),
            quoted(&order.args.to_string())
        );
        let call = Call { method: "POST", path, body: Body::Tar(&order.context) };
        crash::point("image-build");
        let mut answer = self.stream(&call, watch)?;
        let mut tail = VecDeque::new();
        let mut id = None;
        while let Some(line) = answer.line()? {
            let Ok(news) = serde_json::from_str::<Value>(&line) else { continue };
            if let Some(said) = news.get("error").and_then(Value::as_str) {
                let tail = tail.make_contiguous().join("\n");
                return Err(Error::Build { image: order.image.to_owned(), said: said.trim().to_owned(), tail });
            }
            let said = news.get("stream").and_then(Value::as_str).unwrap_or_default();
            for line in said.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
                watch.said(line);
                id = is_id(line).then(|| line.to_owned());
                if tail.len() == TAIL {
                    tail.pop_front();
                }
                tail.push_back(line.to_owned());
            }
        }
        id.ok_or_else(|| self.unclear("a build ended without the id of an image"))
    }
}

/// The last line of a build that succeeded.
fn is_id(line: &str) -> bool {
    line.len() == 64 && line.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests;
