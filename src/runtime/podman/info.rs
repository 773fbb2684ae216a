//! Podman's `info`. Only a few fields are read, because the others may differ between versions.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Unusable;
use super::build::runner::Machine;
use super::seccomp::Filter;

/// A Podman, described for people and callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// Version of Podman.
    pub version: String,
    /// Whether it runs without the rights of root.
    pub rootless: bool,
    /// Where it listens.
    pub socket: PathBuf,
    /// Version of the control groups: `v1` or `v2`.
    pub cgroups: String,
    /// Podman's name for the processor.
    pub arch: String,
    /// Which of `memory`, `cpu` and `pids` cannot be limited here.
    pub unlimited: Vec<&'static str>,
    /// Why agents can make user namespaces in their containers, if they can.
    pub unfiltered: Option<String>,
}

impl Info {
    pub(super) fn of(socket: &Path, info: &PodmanInfo) -> Result<Self, Unusable> {
        if !info.is_new_enough() {
            return Err(Unusable::TooOld { version: info.version.clone() });
        }
        let unlimited = ["memory", "cpu", "pids"].into_iter().filter(|name| !info.limits(name)).collect();
        let unfiltered = Filter::of(info.profile.as_deref()).err().map(|why| why.to_string());
        let PodmanInfo { version, rootless, cgroups, arch, .. } = info.clone();
        Ok(Self { version, rootless, socket: socket.to_owned(), cgroups, arch, unlimited, unfiltered })
    }

    /// The processor, if agents' images exist for it.
    #[must_use]
    pub fn machine(&self) -> Option<Machine> {
        Machine::of_podman(&self.arch)
    }
}

impl std::fmt::Display for Info {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rights = if self.rootless { "rootless" } else { "rootful" };
        write!(f, "podman {}, {rights}, unix://{}", self.version, self.socket.display())
    }
}

/// Podman's description of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PodmanInfo {
    pub(super) version: String,
    pub(super) rootless: bool,
    /// `v1` or `v2`, in Podman's notation; empty if it does not say.
    pub(super) cgroups: String,
    /// What control groups can limit here.
    pub(super) controllers: Vec<String>,
    /// Its name for the processor; empty if it does not say.
    pub(super) arch: String,
    /// File of the seccomp profile that containers get unless they are given another one.
    pub(super) profile: Option<PathBuf>,
}

impl PodmanInfo {
    /// Reads the answer to `info`; `None` if it is not Podman's.
    pub(super) fn of(info: &Value) -> Option<Self> {
        let text = |path: &str| info.pointer(path).and_then(Value::as_str);
        let is = |path: &str| info.pointer(path).and_then(Value::as_bool) == Some(true);
        let controllers = info.pointer("/host/cgroupControllers").and_then(Value::as_array);
        let profile = text("/host/security/seccompProfilePath").filter(|path| !path.is_empty());
        Some(Self {
            version: text("/version/Version")?.to_owned(),
            rootless: is("/host/security/rootless"),
            cgroups: text("/host/cgroupVersion").unwrap_or_default().to_owned(),
            controllers: controllers.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
            arch: text("/host/arch").unwrap_or_default().to_owned(),
            profile: profile.filter(|_| is("/host/security/seccompEnabled")).map(PathBuf::from),
        })
    }

    /// Whether its version is new enough.
    pub(super) fn is_new_enough(&self) -> bool {
        let mut parts = self.version.split('.').map_while(|part| part.parse::<u32>().ok());
        (parts.next(), parts.next()) >= (Some(4), Some(3))
    }

    /// Whether a container resource can be limited here. Rootless Podman cannot limit anything with cgroups v1,
    /// whatever controllers it lists.
    pub(super) fn limits(&self, what: &str) -> bool {
        !(self.rootless && self.cgroups == "v1") && self.controllers.iter().any(|controller| controller == what)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn versions() {
        for (version, enough) in
            [("4.3.1", true), ("4.10.0-dev", true), ("5.0.0", true), ("4.2.9", false), ("x", false)]
        {
            let info = PodmanInfo { version: version.to_owned(), ..PodmanInfo::default() };
            assert_eq!(info.is_new_enough(), enough, "{version}");
        }
    }

    #[test]
    fn what_podman_says_of_itself() {
        let said = |cgroups: &str, rootless: bool, seccomp: bool| {
            let security =
                json!({ "rootless": rootless, "seccompEnabled": seccomp, "seccompProfilePath": "/p", "new": [1] });
            let host = json!({ "cgroupVersion": cgroups, "cgroupControllers": ["cpu", "pids"], "security": security });
            let info = PodmanInfo::of(&json!({ "host": host, "version": { "Version": "5.0.0" }, "store": 7 })).unwrap();
            assert!(!info.limits("memory"));
            (info.limits("cpu"), info.profile.is_some(), info.rootless)
        };
        assert_eq!(said("v2", true, true), (true, true, true));
        assert_eq!(said("v1", true, false), (false, false, true));
        assert_eq!(said("v1", false, true), (true, true, false));
        assert_eq!(PodmanInfo::of(&json!({ "host": {} })), None);
        assert_eq!(
            PodmanInfo::of(&json!({ "version": { "Version": "5" } })),
            Some(PodmanInfo { version: "5".to_owned(), ..PodmanInfo::default() })
        );
    }
}
