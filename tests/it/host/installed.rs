//! A host on a system whose service programs are stand-ins.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::Value;

use super::{Ended, Host};

/// A host on a system whose programs are stand-ins.
pub(crate) struct System {
    pub(crate) host: Host,
    pub(crate) dir: PathBuf,
}

/// Records its arguments. It reports that the system is down if there is a file `down`, and prints the state of
/// services from `state`.
const PROGRAM: &str = r#"#!/bin/sh
echo "${0##*/} $*" >> DIR/told
case "$*" in
*--property=Version*|*daemon-reload*) [ -e DIR/down ] && { echo "Failed to connect to bus" >&2; exit 1; } ;;
*restart*) [ -e DIR/stuck ] && { echo "Job failed" >&2; exit 1; } ;;
*"show hearth"*|print*) [ -e DIR/state ] && cat DIR/state || echo LoadState=not-found ;;
*show-user*) echo no ;;
esac
exit 0
"#;

impl System {
    pub(crate) fn new() -> Self {
        let mut host = Host::new();
        let dir = host.path("system");
        std::fs::create_dir(&dir).unwrap();
        for name in ["systemctl", "loginctl", "journalctl", "launchctl", "tail"] {
            let path = dir.join(name);
            std::fs::write(&path, PROGRAM.replace("DIR", dir.to_str().unwrap())).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        host.env.push(("PATH".into(), format!("{}:{}", dir.display(), super::search_path())));
        Self { host, dir }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.host.run(&[&["service"], arguments].concat(), b"")
    }

    pub(crate) fn done(&self, arguments: &[&str]) -> Ended {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:#?}");
        ended
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.run(&[arguments, &["--json"]].concat()).stdout).unwrap()
    }

    pub(crate) fn state(&self, text: &str) {
        std::fs::write(self.dir.join("state"), text).unwrap();
    }

    /// What the programs of the system were told since the last look, without the names of units.
    pub(crate) fn told(&self) -> Vec<String> {
        let told = std::fs::read_to_string(self.dir.join("told")).unwrap_or_default();
        drop(std::fs::remove_file(self.dir.join("told")));
        let name = self.json(&["install", "--dry-run"])["name"].as_str().unwrap().to_owned();
        told.lines().map(|line| line.replace(&name, "UNIT")).filter(|line| !line.contains(" show")).collect()
    }
}

/// Installing as root is refused without an option, and tests may run as root.
pub(crate) const INSTALL: &[&str] = &["install", "--as-root"];
