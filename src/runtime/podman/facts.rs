//! What Podman says of itself. Of what it says only a few fields are read: those of another version may be others.

use std::path::PathBuf;

use serde_json::Value;

/// What Podman said of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) version: String,
    pub(super) rootless: bool,
    /// `v1` or `v2`, as it calls them; empty if it does not say.
    pub(super) cgroups: String,
    /// What control groups can bound here.
    pub(super) controllers: Vec<String>,
    /// Its name for the processor; empty if it does not say.
    pub(super) arch: String,
    /// File of the seccomp profile that containers get unless they are given another one.
    pub(super) profile: Option<PathBuf>,
}

impl Facts {
    /// Reads the answer to `info`; none if it is not one of Podman.
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

    /// Whether it has everything that is needed.
    pub(super) fn is_new_enough(&self) -> bool {
        let mut parts = self.version.split('.').map_while(|part| part.parse::<u32>().ok());
        (parts.next(), parts.next()) >= (Some(4), Some(3))
    }

    /// Whether containers can be limited in something. Without root the first kind of cgroups limits nothing, whatever it has.
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
            let facts = Facts { version: version.to_owned(), ..Facts::default() };
            assert_eq!(facts.is_new_enough(), enough, "{version}");
        }
    }

    #[test]
    fn what_podman_says_of_itself() {
        let said = |cgroups: &str, rootless: bool, seccomp: bool| {
            let security =
                json!({ "rootless": rootless, "seccompEnabled": seccomp, "seccompProfilePath": "/p", "new": [1] });
            let host = json!({ "cgroupVersion": cgroups, "cgroupControllers": ["cpu", "pids"], "security": security });
            let facts = Facts::of(&json!({ "host": host, "version": { "Version": "5.0.0" }, "store": 7 })).unwrap();
            assert!(!facts.limits("memory"));
            (facts.limits("cpu"), facts.profile.is_some(), facts.rootless)
        };
        assert_eq!(said("v2", true, true), (true, true, true));
        assert_eq!(said("v1", true, false), (false, false, true));
        assert_eq!(said("v1", false, true), (true, true, false));
        assert_eq!(Facts::of(&json!({ "host": {} })), None);
        assert_eq!(
            Facts::of(&json!({ "version": { "Version": "5" } })),
            Some(Facts { version: "5".to_owned(), ..Facts::default() })
        );
    }
}
