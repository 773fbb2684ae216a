//! The operator's options for image builds. They are stored as labels of the base image, so that later builds, such as
//! those of the daemon, use the same options.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::model::entity::Preset;

use super::{Context, Error};

/// Longest file of certificates.
const TRUST_MAX: u64 = 16 << 20;

/// Labels that store options.
const BASE: &str = "hearth.image.option.base";
const CLI: &str = "hearth.image.option.cli";
const REGISTRY: &str = "hearth.image.option.registry";
const TRUST: &str = "hearth.image.option.trust";
const WITH: &str = "hearth.image.option.with";
/// Between names in a label.
const AND: char = '+';

/// What images are built on, where their parts come from, and which certificates downloads trust.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Base image, unless it is the Debian that the recipe names.
    pub base: Option<String>,
    /// The agent CLI, as a directory or a program, unless it is downloaded.
    pub cli: Option<PathBuf>,
    /// Address of the npm registry, unless it is the public one.
    pub registry: Option<String>,
    /// A file with certificates, for networks whose proxy intercepts TLS. They do not stay in the image.
    pub trust: Option<PathBuf>,
    /// Known agents that are installed in the base image.
    pub with: Vec<Preset>,
    /// Ignores the build cache, so that updates of the distribution get in. Not stored.
    pub fresh: bool,
}

impl Options {
    /// These options, with gaps filled from `others`.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            base: self.base.or(others.base),
            cli: self.cli.or(others.cli),
            registry: self.registry.or(others.registry),
            trust: self.trust.or(others.trust),
            with: if self.with.is_empty() { others.with } else { self.with },
            fresh: self.fresh,
        }
    }

    /// Reads the options from an image's labels. Files that no longer exist are skipped.
    pub(super) fn remembered(label: &dyn Fn(&str) -> Option<String>) -> Self {
        let file = |key| label(key).map(PathBuf::from).filter(|path| path.exists());
        let with = label(WITH).unwrap_or_default().split(AND).filter_map(Preset::named).collect();
        Self { base: label(BASE), cli: file(CLI), registry: label(REGISTRY), trust: file(TRUST), with, fresh: false }
    }

    /// The labels that store these options. Values that need more than plain characters are not stored, and neither are
    /// addresses with a password: everyone who may use Podman can read labels.
    pub(super) fn labels(&self) -> Vec<(&'static str, String)> {
        let path = |path: &Option<PathBuf>| {
            let whole = std::path::absolute(path.as_deref()?).ok()?;
            whole.to_str().map(str::to_owned)
        };
        let plain =
            |text: &String| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-:/@%+~".contains(&byte));
        let registry = self.registry.clone().filter(|address| !address.contains('@'));
        let with = self.with.iter().map(|preset| preset.about().name).collect::<Vec<_>>().join(&AND.to_string());
        let all = [
            (BASE, self.base.clone()),
            (CLI, path(&self.cli)),
            (REGISTRY, registry),
            (TRUST, path(&self.trust)),
            (WITH, Some(with).filter(|with| !with.is_empty())),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key, value.filter(plain)?))).collect()
    }

    /// The program of the agent CLI, unless it is downloaded.
    pub(super) fn cli_program(&self) -> Option<PathBuf> {
        let program = |path: &Path| if path.is_dir() { path.join("claude") } else { path.to_owned() };
        self.cli.as_deref().map(program)
    }

    /// Build arguments, except the base.
    pub(super) fn args(&self) -> Result<Value, Error> {
        let Some(registry) = &self.registry else { return Ok(json!({})) };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/@%".contains(&byte);
        let web = registry.starts_with("https://") || registry.starts_with("http://");
        if !web || !registry.bytes().all(plain) {
            return Err(Error::Registry { given: registry.clone() });
        }
        Ok(json!({ "REGISTRY": registry.trim_end_matches('/') }))
    }

    /// Adds the directory with certificates, which always exists.
    pub(super) fn add_to(&self, context: Context) -> Result<Context, Error> {
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
mod tests {
    use super::*;

    #[test]
    fn registries_are_addresses() {
        let args = |registry: &str| Options { registry: Some(registry.to_owned()), ..Options::default() }.args();
        assert_eq!(args("http://127.0.0.1:80/npm/").unwrap(), json!({ "REGISTRY": "http://127.0.0.1:80/npm" }));
        for bad in ["", "registry.npmjs.org", "https://x/$(id)", "https://x/ y", "file:///x"] {
            assert!(matches!(args(bad), Err(Error::Registry { .. })), "{bad}");
        }
    }

    #[test]
    fn what_is_said_once_is_remembered_but_for_secrets_and_what_is_gone() {
        let there = tempfile::NamedTempFile::new().unwrap();
        let said = Options {
            base: Some("localhost/debian:13".to_owned()),
            cli: Some("/no/such/claude".into()),
            registry: Some("https://npm.example.org/x".to_owned()),
            trust: Some(there.path().to_owned()),
            with: vec![Preset::Opencode, Preset::ClaudeAcp],
            fresh: true,
        };
        let labels = said.labels();
        assert_eq!(labels.len(), 5, "{labels:?}");
        let read = |key: &str| labels.iter().find(|(known, _)| *known == key).map(|(_, value)| value.clone());
        assert_eq!(Options::remembered(&read), Options { cli: None, fresh: false, ..said.clone() });
        assert_eq!(Options::remembered(&|_| None), Options::default());
        for (registry, trust) in [("https://me:secret@x", "a b"), ("https://x\"", "a\"\nRUN reboot"), ("$X", "a$b")] {
            let odd = Options { registry: Some(registry.to_owned()), trust: Some(trust.into()), ..Options::default() };
            assert_eq!(odd.labels(), [], "{registry} {trust:?}");
        }
        let mine = Options { base: Some("mine".to_owned()), ..Options::default() };
        let both = mine.or(said.clone());
        assert_eq!((both.base.as_deref(), both.registry, both.fresh), (Some("mine"), said.registry, false));
    }
}
