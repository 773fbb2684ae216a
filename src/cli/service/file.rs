//! The file by which the system knows the service: where it lies, what is in it, whose it is.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::{Manager, program};
use crate::cli::Failure;
use crate::config::{Paths, env};
use crate::crash;

/// In every file that Hearth makes, and in no other.
pub(super) const MARK: &str = "Made by `hearth service install`";

/// The service as it should be.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) manager: Manager,
    /// What the system calls it: `hearth.service`, `hearth.daemon`.
    pub(super) name: String,
    /// Where its file lies.
    pub(super) file: PathBuf,
    /// What is in it.
    pub(super) text: String,
    /// Where it logs to, if the system does not collect that.
    pub(super) log: Option<PathBuf>,
    /// The program that is started.
    pub(super) program: PathBuf,
    /// The file of variables, if the system reads one.
    pub(super) environment: Option<PathBuf>,
}

/// What a definition is made of; every path in it is text of one line.
pub(super) struct Facts<'a> {
    pub(super) program: &'a str,
    pub(super) data: &'a str,
    /// The search path of whoever installs it; none if it is nothing to keep.
    pub(super) path: Option<&'a str>,
    pub(super) environment: Option<&'a str>,
    pub(super) log: Option<&'a str>,
    pub(super) name: &'a str,
}

/// What is in the place of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing.
    Nothing,
    /// What should be there.
    Same,
    /// Another one that Hearth made.
    Ours,
    /// Something that Hearth did not make.
    Foreign,
}

impl Definition {
    pub(super) fn of(paths: &Paths, manager: Manager) -> Result<Self, Failure> {
        let homeless = || Failure::Failed("HOME is not set: there is no place for the service's file".to_owned());
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
        let facts = Facts {
            program: text(&program)?,
            data: text(paths.data())?,
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

    /// Looks what is there.
    pub(super) fn found(&self) -> Result<Found, Failure> {
        match std::fs::read(&self.file) {
            Ok(bytes) if bytes == self.text.as_bytes() => Ok(Found::Same),
            Ok(bytes) if String::from_utf8_lossy(&bytes).contains(MARK) => Ok(Found::Ours),
            Ok(_) => Ok(Found::Foreign),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Found::Nothing),
            Err(error) => Err(self.failed("read", &error)),
        }
    }

    /// Whether the system was told of the file after it was last put in place.
    pub(super) fn is_known(&self) -> bool {
        !self.untold().exists()
    }

    /// What was put in place is what runs, now or from the next start on.
    pub(super) fn know(&self) -> Result<(), Failure> {
        crash::point("service-known");
        match std::fs::remove_file(self.untold()) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.failed("note that the system knows", &error)),
            _ => Ok(()),
        }
    }

    /// A file that is there from before the file is put in place until the system runs what it says: a command may die in
    /// between.
    fn untold(&self) -> PathBuf {
        self.file.with_file_name(format!(".{}.untold", self.name))
    }

    /// Puts the file in place, whole or not at all. One that a command died over has the same name as the next, so that it
    /// does not stay.
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

fn text(path: &Path) -> Result<&str, Failure> {
    let shown =
        || Failure::Failed(format!("the path {} is not one line of text, which a service needs", path.display()));
    path.to_str().filter(|text| is_line(text)).ok_or_else(shown)
}

fn is_line(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}
