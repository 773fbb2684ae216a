//! The recipes of images.

use std::path::{Path, PathBuf};

use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{Context, Engine, Error, Options, Order, Watch};
use crate::model::entity::{Packages, Preset};
use crate::model::request::{is_apt_package, is_npm_package};
use crate::runtime::image;

/// The Containerfile of the base image.
const BASE: &str = include_str!("../../../../container/Containerfile");

/// Label of every image of Hearth: `base` or `agent`.
///
/// Containers inherit the labels of their image, so none of these may be a label by which containers are found.
pub(super) const KIND: &str = "hearth.image.kind";
/// Version of the Hearth that built it.
pub(super) const VERSION: &str = "hearth.image.version";
/// [`base_digest`] of the base; an agent's image inherits it.
pub(super) const DIGEST: &str = "hearth.image.digest";
/// Folder of the agent.
pub(super) const AGENT: &str = "hearth.image.agent";
/// Installation of the agent.
pub(super) const INSTALL: &str = "hearth.image.install";

/// Installs the apt packages in `$@`, deletes the package lists and removes setuid bits.
const APT: &str = "export DEBIAN_FRONTEND=noninteractive; apt-get update -qq \
    && apt-get install -qq -y --no-install-recommends -- \"$@\" \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /var/log/apt /var/log/dpkg.log \
    && find / -xdev -type f -perm /6000 -exec chmod a-s {} +";
/// Installs the npm packages in `$@`.
const NPM: &str = "if [ -s /mnt/ca.pem ]; then export NODE_EXTRA_CA_CERTS=/mnt/ca.pem; fi; export HOME=/tmp/npm; \
    npm install --global --prefix /usr/local --no-audit --no-fund --no-update-notifier --registry \"$REGISTRY\" -- \"$@\" \
    && rm -rf /tmp/npm";
/// Installs the packages of PyPI in `$@`, each with a Python of its own, and links their programs.
const PYPI: &str = "if [ -s /mnt/ca.pem ]; then export PIP_CERT=/mnt/ca.pem; fi; export HOME=/tmp/pip; \
    for package in \"$@\"; do name=\"${package%%[-=]*}\" \
    && python3 -m venv \"/opt/$name\" && \"/opt/$name/bin/pip\" install --quiet --no-cache-dir -- \"$package\" \
    && ln -s \"/opt/$name/bin/$name\" \"/usr/local/bin/$name\" || exit 1; done; rm -rf /tmp/pip";
/// The step of a build that sees the certificates to trust.
const TRUSTING: &str = "--mount=type=bind,source=trust,target=/mnt ";
/// Major version of Node in the base.
const NODE_OF_BASE: u32 = 20;
/// Default npm registry.
const REGISTRY: &str = "https://registry.npmjs.org";

/// The base image, which every agent can be started from.
#[derive(Debug, Clone)]
pub struct BaseImage {
    /// A statically linked runner, see [`super::runner::check`].
    pub runner: PathBuf,
    /// The other inputs.
    pub options: Options,
}

/// The image of an agent with packages.
#[derive(Debug, Clone, Copy)]
pub struct AgentImage<'a> {
    pub image: &'a str,
    /// The image without the packages.
    pub base: &'a str,
    pub install: &'a str,
    pub folder: &'a str,
    /// The packages to install.
    pub packages: &'a Packages,
}

/// A digest of what the base image is made of: the runner, the recipe, which pins downloads by version and checksum, and
/// the known agents in it.
///
/// # Errors
/// [`Error::File`] if the runner cannot be read.
pub fn base_digest(runner: &Path, with: &[Preset]) -> Result<String, Error> {
    let program = std::fs::read(runner).map_err(|source| Error::File { path: runner.to_owned(), source })?;
    let recipe = Sha256::new().chain_update(BASE).chain_update(known_agents(with));
    let digest = recipe.chain_update(program).finalize();
    Ok(digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

impl Engine {
    /// Builds the base image, [`image::OWN`], and returns its id.
    ///
    /// # Errors
    /// [`Error`] of each kind; nothing has changed in that case.
    pub fn build_base(&self, wanted: &BaseImage, watch: &dyn Watch) -> Result<String, Error> {
        let options = &wanted.options;
        let mut args = options.args()?;
        if let (Some(base), Some(args)) = (&options.base, args.as_object_mut()) {
            args.insert("BASE".to_owned(), json!(name(base)?));
        }
        let digest = base_digest(&wanted.runner, &options.with)?;
        let remembered = options.labels();
        let mut labels = vec![(KIND, "base"), (VERSION, env!("CARGO_PKG_VERSION")), (DIGEST, &digest)];
        labels.extend(remembered.iter().map(|(key, value)| (*key, value.as_str())));
        let text = format!("{BASE}{}{}", known_agents(&options.with), label(&labels));
        let mut context = Context::default().bytes("Containerfile", text).directory("cli/");
        if let Some(cli) = options.cli_program() {
            context = context.program("cli/claude", cli)?;
        }
        let context = options.add_to(context.program("hearth-runner", wanted.runner.clone())?)?;
        self.build(Order { image: image::OWN, args, context, fresh: options.fresh }, watch)
    }

    /// Builds the image of an agent with packages and returns its id. The `base` option is ignored.
    ///
    /// # Errors
    /// [`Error`] of each kind; nothing has changed in that case.
    pub fn build_agent(&self, wanted: &AgentImage<'_>, options: &Options, watch: &dyn Watch) -> Result<String, Error> {
        let context = Context::default().bytes("Containerfile", agent_recipe(wanted)?);
        let context = options.add_to(context)?;
        self.build(Order { image: wanted.image, args: options.args()?, context, fresh: options.fresh }, watch)
    }
}

/// The steps that install known agents. A newer Node comes first, because packages are installed for the one that runs.
fn known_agents(with: &[Preset]) -> String {
    let packages = || with.iter().map(|preset| preset.about().package);
    let specs = |python: bool| {
        packages().filter(|one| one.is_python() == python).map(|one| one.spec()).collect::<Vec<String>>()
    };
    let (pypi, npm) = (specs(true), specs(false));
    let mut steps = String::new();
    if packages().any(|package| package.node() > Some(NODE_OF_BASE)) {
        steps.push_str(&run(TRUSTING, NPM, &[format!("node@{}", Preset::NODE)]));
    }
    if !npm.is_empty() {
        steps.push_str(&run(TRUSTING, NPM, &npm));
    }
    if !pypi.is_empty() {
        steps.push_str(&run("", APT, &["python3-venv".to_owned()]));
        steps.push_str(&run(TRUSTING, PYPI, &pypi));
    }
    if steps.is_empty() { steps } else { format!("USER root\n{steps}USER node\n") }
}

/// The recipe of an agent's image. Package names are arguments of a fixed script and never part of it.
fn agent_recipe(wanted: &AgentImage<'_>) -> Result<String, Error> {
    let Packages { apt, npm } = wanted.packages;
    let bad = |kind, given: &String| Error::Package { kind, given: given.clone() };
    if let Some(given) = apt.iter().find(|package| !is_apt_package(package)) {
        return Err(bad("apt", given));
    }
    if let Some(given) = npm.iter().find(|package| !is_npm_package(package)) {
        return Err(bad("npm", given));
    }
    if apt.is_empty() && npm.is_empty() {
        return Err(Error::NoPackages { folder: wanted.folder.to_owned() });
    }
    let mut text = format!("FROM {}\nUSER root\nARG REGISTRY={REGISTRY}\n", name(wanted.base)?);
    if !apt.is_empty() {
        text.push_str(&run("", APT, apt));
    }
    if !npm.is_empty() {
        text.push_str(&run(TRUSTING, NPM, npm));
    }
    text.push_str("USER node\n");
    text.push_str(&label(&[(KIND, "agent"), (AGENT, wanted.folder), (INSTALL, wanted.install)]));
    Ok(text)
}

/// A step that runs a script with arguments.
fn run(flags: &str, script: &str, arguments: &[String]) -> String {
    let words: Vec<&str> =
        ["/bin/sh", "-c", script, "sh"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
    format!("RUN {flags}{}\n", json!(words))
}

/// A label instruction. Values are versions, numbers, folders and addresses, whose characters have no meaning in a
/// recipe.
fn label(labels: &[(&str, &str)]) -> String {
    let words: Vec<String> = labels.iter().map(|(key, value)| format!("\"{key}\"=\"{value}\"")).collect();
    format!("LABEL {}\n", words.join(" "))
}

/// Checks the name of an image that goes into a recipe, where a space or a newline would start something else.
fn name(image: &str) -> Result<&str, Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:/@".contains(&byte);
    let first = image.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if first && image.bytes().all(plain) { Ok(image) } else { Err(Error::ImageName { given: image.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(base: &str, apt: &[&str], npm: &[&str]) -> Result<String, Error> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let packages = Packages { apt: owned(apt), npm: owned(npm) };
        agent_recipe(&AgentImage { image: "localhost/x:1", base, install: "0a", folder: "ann", packages: &packages })
    }

    #[test]
    fn known_agents_are_installed_with_what_they_need() {
        assert_eq!(known_agents(&[]), "");
        let steps = known_agents(&[Preset::Opencode, Preset::Codex]);
        let lines: Vec<&str> = steps.lines().collect();
        assert_eq!((lines[0], lines[2], lines.len()), ("USER root", "USER node", 3), "{steps}");
        assert!(
            lines[1].contains("\"opencode-ai@") && lines[1].contains("\"@agentclientprotocol/codex-acp@"),
            "{steps}"
        );
        let steps = known_agents(&Preset::ALL);
        let lines: Vec<&str> = steps.lines().collect();
        assert!(lines[1].ends_with(&format!(",\"sh\",\"node@{}\"]", Preset::NODE)), "a newer Node is first: {steps}");
        assert!(lines[3].ends_with("\"python3-venv\"]") && lines[4].contains("hermes-agent[acp,mcp]=="), "{steps}");
    }

    #[test]
    fn packages_are_arguments_and_nothing_more() {
        let text = recipe("localhost/hearth-agent:1", &["jq", "tree"], &["@a/b"]).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..3],
            ["FROM localhost/hearth-agent:1", "USER root", "ARG REGISTRY=https://registry.npmjs.org"]
        );
        assert!(lines[3].starts_with("RUN [\"/bin/sh\",\"-c\",\"") && lines[3].ends_with(",\"sh\",\"jq\",\"tree\"]"));
        assert!(lines[4].starts_with("RUN --mount=type=bind,source=trust,target=/mnt [\"/bin/sh\","));
        assert!(lines[4].ends_with(",\"sh\",\"@a/b\"]"), "{}", lines[4]);
        let labels =
            "LABEL \"hearth.image.kind\"=\"agent\" \"hearth.image.agent\"=\"ann\" \"hearth.image.install\"=\"0a\"";
        assert_eq!(lines[5..], ["USER node", labels]);

        assert_eq!(recipe("x", &["jq"], &[]).unwrap().lines().count(), 6);
        assert!(matches!(recipe("x", &[], &[]), Err(Error::NoPackages { .. })));
        assert!(matches!(recipe("x", &["jq;reboot"], &[]), Err(Error::Package { kind: "apt", .. })));
        assert!(matches!(recipe("x", &["-o"], &[]), Err(Error::Package { kind: "apt", .. })));
        assert!(matches!(recipe("x", &[], &["a b"]), Err(Error::Package { kind: "npm", .. })));
        for base in ["", "x\nRUN reboot", "x y", "$X", "-x"] {
            assert!(matches!(recipe(base, &["jq"], &[]), Err(Error::ImageName { .. })), "{base:?}");
        }
    }
}
