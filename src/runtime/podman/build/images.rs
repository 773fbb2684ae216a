//! What Podman says of itself and of images.

use serde_json::{Value, json};

use super::http::{Body, Call, Engine, quoted};
use super::recipe::{AGENT, DIGEST, INSTALL, KIND, VERSION};
use super::runner::Machine;
use super::{Error, Options, Watch};
use crate::runtime::podman::facts::Facts;
use crate::runtime::podman::seccomp::Filter;

/// Podman, in its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// Its version.
    pub version: String,
    /// Whether it runs without rights over the machine.
    pub rootless: bool,
    /// `v1` or `v2`.
    pub cgroups: String,
    /// What control groups can bound here.
    pub controllers: Vec<String>,
    /// Its name for the processor.
    pub arch: String,
    /// Why agents can make user namespaces in their containers, if they can.
    pub unfiltered: Option<String>,
}

impl Info {
    /// The processor, if agents' images exist for it.
    #[must_use]
    pub fn machine(&self) -> Option<Machine> {
        Machine::of_podman(&self.arch)
    }
}

/// An image of Hearth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its names; an image that lost its name to a newer one has none.
    pub names: Vec<String>,
    /// Its id.
    pub id: String,
    /// Bytes, with those that it shares with others.
    pub bytes: u64,
    /// When it was made, in seconds since 1970.
    pub created: i64,
    /// Version of the Hearth that built it, or its base.
    pub version: Option<String>,
    /// What its base is made of, see [`super::base_digest`].
    pub digest: Option<String>,
    /// Folder and installation of the agent it is for; none for the base.
    pub agent: Option<(String, String)>,
    /// With which options its base was built, as far as that is remembered.
    pub options: Options,
}

impl Engine {
    /// Asks Podman about itself.
    ///
    /// # Errors
    /// [`Error`] if it does not answer, or something unknown.
    pub fn info(&self, watch: &dyn Watch) -> Result<Info, Error> {
        let said = self.get("/info".to_owned(), watch)?;
        let facts = Facts::of(&said).ok_or_else(|| self.unclear("it does not say its version"))?;
        let Facts { version, rootless, cgroups, controllers, arch, profile } = facts;
        let unfiltered = Filter::of(profile.as_deref()).err().map(|why| why.to_string());
        Ok(Info { version, rootless, cgroups, controllers, arch, unfiltered })
    }

    /// The images that Hearth built and that have a name, each once.
    ///
    /// # Errors
    /// [`Error`] if Podman does not answer.
    pub fn images(&self, watch: &dyn Watch) -> Result<Vec<Image>, Error> {
        let filters = json!({ "label": [KIND] }).to_string();
        let said = self.get(format!("/images/json?filters={}", quoted(&filters)), watch)?;
        let images = said.as_array().into_iter().flatten().filter_map(image);
        Ok(images.filter(|image| !image.names.is_empty()).collect())
    }

    /// Whether there is an image of this name.
    ///
    /// # Errors
    /// [`Error`] if Podman does not answer.
    pub fn has_image(&self, name: &str, watch: &dyn Watch) -> Result<bool, Error> {
        match self.get(format!("/images/{}/exists", quoted(name)), watch) {
            Ok(_) => Ok(true),
            Err(Error::Refused { status: 404, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn get(&self, path: String, watch: &dyn Watch) -> Result<Value, Error> {
        self.ask(&Call { method: "GET", path, body: Body::Nothing }, watch)
    }
}

fn image(said: &Value) -> Option<Image> {
    let label = |key: &str| Some(said.get("Labels")?.get(key)?.as_str()?.to_owned());
    let names = said.get("Names").or_else(|| said.get("RepoTags")).and_then(Value::as_array);
    Some(Image {
        names: names.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
        id: said.get("Id")?.as_str()?.to_owned(),
        bytes: said.get("Size").and_then(Value::as_u64).unwrap_or(0),
        created: said.get("Created").and_then(Value::as_i64).unwrap_or(0),
        version: label(VERSION),
        digest: label(DIGEST),
        agent: label(AGENT).zip(label(INSTALL)),
        options: Options::remembered(&label),
    })
}
