//! Images of agents: what they are made of, and how Podman is told to make them.
//!
//! A build happens over the REST API. The crate for that API packs and compresses the whole context in memory and has no
//! end for a build that hangs, so these few calls have a connection of their own.

use std::collections::VecDeque;
use std::path::PathBuf;

use serde_json::{Value, json};

mod context;
mod error;
mod http;
mod images;
mod recipe;
pub mod runner;
mod trial;

use context::Context;
pub use error::Error;
pub use http::Engine;
use http::{Body, Call, quoted};
pub use images::{Image, Info};
pub(super) use recipe::{AGENT, INSTALL};
pub use recipe::{AgentImage, BaseImage, base_digest};
pub use trial::{Limited, Trial, Tried};

/// Longest file of certificates.
const TRUST_MAX: u64 = 16 << 20;
/// Lines of a failed build that are told.
const TAIL: usize = 15;

/// Who watches a call: sees what is said, and says when it was enough.
pub trait Watch {
    /// Podman said this. Anything may be in it.
    fn said(&self, line: &str);

    /// Whether there is no time left. Asked at least twice a second.
    fn expired(&self) -> bool;
}

/// Where fetching goes, and whom it trusts.
#[derive(Debug, Clone, Default)]
pub struct Fetch {
    /// Address of the registry of npm packages, if it is not the public one.
    pub registry: Option<String>,
    /// A file with certificates, for networks whose proxy opens TLS. They do not stay in the image.
    pub trust: Option<PathBuf>,
    /// Takes no step from the cache: what the distribution mended meanwhile gets in.
    pub fresh: bool,
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

impl Fetch {
    /// Arguments of a build.
    fn args(&self) -> Result<Value, Error> {
        let Some(registry) = &self.registry else { return Ok(json!({})) };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/@%".contains(&byte);
        let web = registry.starts_with("https://") || registry.starts_with("http://");
        if !web || !registry.bytes().all(plain) {
            return Err(Error::Registry { given: registry.clone() });
        }
        Ok(json!({ "REGISTRY": registry.trim_end_matches('/') }))
    }

    /// The directory with certificates, which is always there.
    fn add_to(&self, context: Context) -> Result<Context, Error> {
        let context = context.directory("trust/");
        let Some(path) = &self.trust else { return Ok(context) };
        let failed = |source| Error::File { path: path.clone(), source };
        let found = std::fs::metadata(path).map_err(failed)?;
        if !found.is_file() || found.len() > TRUST_MAX {
            let what = format!("it must be a file of at most {TRUST_MAX} bytes");
            return Err(failed(std::io::Error::new(std::io::ErrorKind::InvalidInput, what)));
        }
        let bytes = std::fs::read(path).map_err(failed)?;
        Ok(context.bytes("trust/ca.pem", bytes))
    }
}

#[cfg(test)]
mod tests;
