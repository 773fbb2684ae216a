//! Images of Hearth.

use serde_json::{Value, json};

use super::recipe::{AGENT, DIGEST, INSTALL, KIND, VERSION};
use super::{Engine, Error, Options, Watch};

/// An image of Hearth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its names; an image that lost its name to a newer one has none.
    pub names: Vec<String>,
    pub id: String,
    /// Size in bytes, including layers shared with other images.
    pub bytes: u64,
    /// When it was made, in seconds since 1970.
    pub created: i64,
    /// Version of the Hearth that built it, or its base.
    pub version: Option<String>,
    /// What its base is made of, see [`super::base_digest`].
    pub digest: Option<String>,
    /// Folder and installation of the agent it is for; none for the base.
    pub agent: Option<(String, String)>,
    /// The options its base was built with, as far as they are stored.
    pub options: Options,
}

impl Image {
    /// Reads a listed image.
    pub(in crate::runtime::podman) fn of(listed: &Value) -> Option<Self> {
        let label = |key: &str| Some(listed.get("Labels")?.get(key)?.as_str()?.to_owned());
        let names = listed.get("Names").or_else(|| listed.get("RepoTags")).and_then(Value::as_array);
        Some(Self {
            names: names.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
            id: listed.get("Id")?.as_str()?.to_owned(),
            bytes: listed.get("Size").and_then(Value::as_u64).unwrap_or(0),
            created: listed.get("Created").and_then(Value::as_i64).unwrap_or(0),
            version: label(VERSION),
            digest: label(DIGEST),
            agent: label(AGENT).zip(label(INSTALL)),
            options: Options::remembered(&label),
        })
    }
}

impl Engine {
    /// The images that Hearth built and that have a name, each once.
    ///
    /// # Errors
    /// [`Error`] if Podman does not answer.
    pub fn images(&self, watch: &dyn Watch) -> Result<Vec<Image>, Error> {
        self.ask(watch, async |api| api.images(&json!({ "label": [KIND] })).await)
    }

    /// Whether there is an image of this name.
    ///
    /// # Errors
    /// [`Error`] if Podman does not answer.
    pub fn has_image(&self, name: &str, watch: &dyn Watch) -> Result<bool, Error> {
        let name = name.to_owned();
        self.ask(watch, async move |api| api.has_image(&name).await)
    }
}
