//! The definition file of the service: its path, its content and its owner.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::{Manager, program};
use crate::cli::Failure;
use crate::config::{Paths, env};
use crate::crash;
use crate::daemon::opening::Installation;
use crate::state;

/// Marker in every service file that Hearth creates, and in no other.
pub(super) const MARK: &str = "Made by `hearth service install`";

/// Option that tells the daemon which installation it runs.
pub(super) const INSTALLATION: &str = "--installation";

/// The intended service.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) manager: Manager,
    /// Its name in the service manager: `hearth.service`, `hearth.daemon`.
    pub(super) name: String,
    /// Path of its file.
    pub(super) file: PathBuf,
    /// Content of its file.
    pub(super) text: String,
    /// Path of its log, if the system does not collect the output.
    pub(super) log: Option<PathBuf>,
    /// The program that is started.
    pub(super) program: PathBuf,
    /// The file with environment variables, if the system reads one.
    pub(super) environment: Option<PathBuf>,
}

/// Input for a definition. Every path in it is one line of text.
pub(super) struct UnitFields<'a> {
    pub(super) program: &'a str,
    pub(super) data: &'a str,
    /// The only installation that the daemon may run; none if there is no store yet.
    pub(super) installation: Option<Installation>,
    /// `PATH` of the user who installs the service; none if it is not worth keeping.
    pub(super) path: Option<&'a str>,
    pub(super) environment: Option<&'a str>,
    pub(super) log: Option<&'a str>,
    pub(super) name: &'a str,
}

/// What exists at the path of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExistingUnit {
    Nothing,
    /// The intended content.
    Same,
    /// Other content that Hearth created.
    Ours,
    /// A file that Hearth did not create.
    Foreign,
}

impl Definition {
    pub(super) fn of(paths: &Paths, manager: Manager) -> Result<Self, Failure> {
        let homeless = || Failure::Failed("HOME is not set: there is no directory for the service's file".to_owned());
        let home = paths.user_home().ok_or_else(homeless)?;
        let suffix = paths.instance().map(|hash| format!("-{hash}")).unwrap_or_default();
        let program = program()?;
        let (name, file, log, environment) = match manager {
            Manager::Systemd => {
                let name = format!("hearth{suffix}.service");
                let units = paths.user_config().ok_or_else(homeless)?.join("systemd/user");
                (name.clone(), units.join(name), None, paths.service_environment())
            }
            Manager::Launchd => {
                let name = format!("hearth.daemon{suffix}");
                let file = home.join("Library/LaunchAgents").join(format!("{name}.plist"));
                (name, file, Some(home.join(format!("Library/Logs/hearth{suffix}.log"))), None)
            }
        };
        let path = env::child_path().into_string().ok().filter(|path| is_line(path));
        let facts = UnitFields {
            program: text(&program)?,
            data: text(paths.data())?,
            installation: installation(paths, &file),
            path: path.as_deref(),
            environment: environment.as_deref().map(text).transpose()?,
            log: log.as_deref().map(text).transpose()?,
            name: &name,
        };
        let text = match manager {
            Manager::Systemd => super::unit::unit(&facts),
            Manager::Launchd => super::plist::plist(&facts),
        };
        Ok(Self { manager, name, file, text, log, program, environment })
    }

    /// Reads what exists at the path of the file.
    pub(super) fn found(&self) -> Result<ExistingUnit, Failure> {
        match std::fs::read(&self.file) {
            Ok(bytes) if bytes == self.text.as_bytes() => Ok(ExistingUnit::Same),
            Ok(bytes) if String::from_utf8_lossy(&bytes).contains(MARK) => Ok(ExistingUnit::Ours),
            Ok(_) => Ok(ExistingUnit::Foreign),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(ExistingUnit::Nothing),
            Err(error) => Err(self.failed("read", &error)),
        }
    }

    /// Whether the existing file does not say which installation the daemon runs.
    pub(super) fn names_no_installation(&self) -> bool {
        std::fs::read_to_string(&self.file).is_ok_and(|text| text.contains(MARK) && named(&text).is_none())
    }

    /// Whether the service manager has loaded the file since it was last written.
    pub(super) fn is_known(&self) -> bool {
        !self.untold().exists()
    }

    /// Records that the service manager has loaded the current file.
    pub(super) fn know(&self) -> Result<(), Failure> {
        crash::point("service-known");
        match std::fs::remove_file(self.untold()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(self.failed("record that the service manager loaded", &error))
            }
            _ => Ok(()),
        }
    }

    /// Path of a marker file. It exists from before the file is written until the service manager has loaded it,
    /// because a command may die in between.
    fn untold(&self) -> PathBuf {
        self.file.with_file_name(format!(".{}.untold", self.name))
    }

    /// Writes the file atomically. The temporary file has a fixed name, so that the next command replaces a leftover.
    pub(super) fn write(&self) -> Result<(), Failure> {
        let dir = self.file.parent().unwrap_or(Path::new("/"));
        let put = || -> std::io::Result<()> {
            crash::point("service-dir");
            std::fs::create_dir_all(dir)?;
            let unfinished = dir.join(format!("{}.new", self.name));
            crash::point("service-write");
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
            file.write_all(self.text.as_bytes())?;
            file.sync_all()?;
            crash::point("service-untold");
            std::fs::write(self.untold(), "")?;
            crash::point("service-rename");
            std::fs::rename(&unfinished, &self.file)
        };
        put().map_err(|error| self.failed("write", &error))
    }

    pub(super) fn remove(&self) -> Result<(), Failure> {
        crash::point("service-remove");
        std::fs::remove_file(&self.file).map_err(|error| self.failed("remove", &error))
    }

    fn failed(&self, what: &str, error: &std::io::Error) -> Failure {
        Failure::Failed(format!("cannot {what} {}: {error}", self.file.display()))
    }
}

/// The installation of the store; without a store, the one in the existing file.
fn installation(paths: &Paths, file: &Path) -> Option<Installation> {
    let of_store = state::installation(paths.data()).ok().map(Installation);
    of_store.or_else(|| named(&std::fs::read_to_string(file).ok()?))
}

/// The installation in the text of a service file of either kind.
fn named(text: &str) -> Option<Installation> {
    let (_, rest) = text.rsplit_once(INSTALLATION)?;
    rest.split(|c: char| !c.is_ascii_alphanumeric()).find_map(|word| word.parse().ok())
}

fn text(path: &Path) -> Result<&str, Failure> {
    let shown =
        || Failure::Failed(format!("the path {} is not one line of text, which a service needs", path.display()));
    path.to_str().filter(|text| is_line(text)).ok_or_else(shown)
}

fn is_line(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_installation_is_found_in_both_kinds_of_files() {
        let id = Some(Installation(0xab));
        for text in [
            "ExecStart=\"/h\" run --data \"/--installation 1\" --installation 00000000000000ab\nRestart=on-failure\n",
            "<string>--installation</string><string>00000000000000ab</string></array>",
        ] {
            assert_eq!(named(text), id, "{text}");
        }
        for text in ["", "ExecStart=/h run --data /d", "--installation", "--installation 12"] {
            assert_eq!(named(text), None, "{text}");
        }
    }
}
