//! Start parameters of a runner: directories, incarnation, and inherited descriptors.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::confine::{CONFINE_VARIABLE, Rules};
use crate::env::{self, INCARNATION_VARIABLE, LIFE_VARIABLE, LOCK_VARIABLE, ROOTS_VARIABLE};

/// For crash tests: die after so many durable steps, see `agent.rs`. A build without debug assertions ignores it.
#[cfg(debug_assertions)]
const CRASH_VARIABLE: &str = "HEARTH_TEST_CRASH_AFTER_STEPS";
/// For tests: ask a silent agent CLI so many times sooner whether it lives, see `provider/claude/wedge.rs`.
#[cfg(debug_assertions)]
pub(crate) const HASTE_VARIABLE: &str = "HEARTH_TEST_HASTE";

/// Why a runner cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A variable that has no default is missing.
    #[error("{name} is not set: this program is started by Hearth, which sets it")]
    Missing { name: &'static str },
    /// A variable with an invalid value.
    #[error("{name} is {value:?}: {reason}")]
    Invalid {
        name: &'static str,
        value: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// The agent's directories. In a container they are fixed; in the process runtime they are host paths.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Roots {
    /// The session's directory with `host/` and `agent/`.
    pub session: PathBuf,
    /// The agent's working directory.
    pub group: PathBuf,
    /// The agent's home directory.
    pub home: PathBuf,
    /// Directory for temporary files of this session, emptied when an incarnation starts; `None` means the system's.
    pub tmp: Option<PathBuf>,
    /// Directory that every agent may read.
    pub global: Option<PathBuf>,
    /// Directory that trusted agents share.
    pub trusted: Option<PathBuf>,
    /// Directory with data about all groups, for a main agent.
    pub project: Option<PathBuf>,
    /// Further directories declared by the operator.
    pub extra: Vec<PathBuf>,
    /// Directory of the installation's skills.
    pub skills: Option<PathBuf>,
}

impl Roots {
    /// The roots in a container. Directories that are not mounted are `None`.
    fn of_container() -> Self {
        let there = |path: &str| Some(PathBuf::from(path)).filter(|path| path.is_dir());
        let extra = std::fs::read_dir("/workspace/extra").into_iter().flatten().flatten().map(|entry| entry.path());
        let mut extra: Vec<PathBuf> = extra.filter(|path| path.is_dir()).collect();
        extra.sort();
        Self {
            global: there("/workspace/global"),
            trusted: there("/workspace/trusted"),
            project: there("/workspace/project/groups"),
            skills: there("/app/skills"),
            extra,
            ..Self::default()
        }
    }

    /// Further directories that an agent works with, in the order in which a provider is told about them. Skills are
    /// not included: they are found through the home.
    #[must_use]
    pub fn additional_dirs(&self) -> Vec<&Path> {
        self.extra.iter().chain(&self.global).chain(&self.trusted).chain(&self.project).map(PathBuf::as_path).collect()
    }

    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        let own = [&self.session, &self.group, &self.home].into_iter().chain(&self.tmp);
        own.chain(&self.global).chain(&self.trusted).chain(&self.project).chain(&self.extra).chain(&self.skills)
    }
}

impl Default for Roots {
    fn default() -> Self {
        Self {
            session: PathBuf::from("/workspace/session"),
            group: PathBuf::from("/workspace/group"),
            home: PathBuf::from("/home/node"),
            tmp: None,
            global: None,
            trusted: None,
            project: None,
            extra: Vec::new(),
            skills: None,
        }
    }
}

impl Roots {
    /// The configured directories, for commands that do not run a session.
    ///
    /// # Errors
    /// The variable's error.
    pub(crate) fn from_env() -> Result<Self, StartError> {
        parse_roots(env::variable(ROOTS_VARIABLE))
    }
}

/// Everything a runner knows before it reads its first file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    pub roots: Roots,
    pub incarnation: u32,
    /// The rules for itself and its children, if it has to confine itself.
    pub confine: Option<Rules>,
    /// Descriptor whose end means that the host is gone.
    pub life_fd: Option<u32>,
    /// Descriptor that is only kept open.
    pub lock_fd: Option<u32>,
    /// For crash tests: durable steps to survive.
    pub crash_after_steps: Option<u64>,
}

impl Start {
    /// Reads this process's variables.
    ///
    /// # Errors
    /// The first variable that is missing or wrong.
    pub(crate) fn from_env() -> Result<Self, StartError> {
        Self::from_variables(&env::variable)
    }

    /// Reads the variables through `get`, so that tests need no environment.
    ///
    /// # Errors
    /// The first variable that is missing or wrong.
    pub fn from_variables(get: &dyn Fn(&str) -> Option<String>) -> Result<Self, StartError> {
        let incarnation = get(INCARNATION_VARIABLE).ok_or(StartError::Missing { name: INCARNATION_VARIABLE })?;
        Ok(Self {
            roots: parse_roots(get(ROOTS_VARIABLE))?,
            incarnation: parse_number(INCARNATION_VARIABLE, incarnation)?,
            confine: parse_rules(get(CONFINE_VARIABLE))?,
            life_fd: parse_optional(LIFE_VARIABLE, get)?,
            lock_fd: parse_optional(LOCK_VARIABLE, get)?,
            #[cfg(debug_assertions)]
            crash_after_steps: parse_optional(CRASH_VARIABLE, get)?,
            #[cfg(not(debug_assertions))]
            crash_after_steps: None,
        })
    }
}

fn parse_roots(text: Option<String>) -> Result<Roots, StartError> {
    let Some(text) = text else { return Ok(Roots::of_container()) };
    let invalid = |value: String, reason: String| StartError::Invalid { name: ROOTS_VARIABLE, value, reason };
    // Parsed as an object first: a struct would also be read from an array.
    let object = serde_json::from_str::<serde_json::Map<_, _>>(&text);
    let roots: Roots = match object.and_then(|object| serde_json::from_value(object.into())) {
        Ok(roots) => roots,
        Err(error) => {
            let wanted = r#"it must be a JSON object like {"session":"/a","group":"/b","home":"/c"}"#;
            return Err(invalid(text, format!("{wanted} ({error})")));
        }
    };
    for path in roots.all() {
        if !path.is_absolute() {
            return Err(invalid(text, format!("{} is not an absolute path", path.display())));
        }
    }
    Ok(roots)
}

/// Parses the rules. If they are invalid, the runner must not start.
fn parse_rules(text: Option<String>) -> Result<Option<Rules>, StartError> {
    let Some(text) = text else { return Ok(None) };
    let object = serde_json::from_str::<serde_json::Map<_, _>>(&text);
    let reason = match object.and_then(|object| serde_json::from_value::<Rules>(object.into())) {
        Ok(rules) if rules.paths().all(Path::is_absolute) => return Ok(Some(rules)),
        Ok(_) => "one of its paths is not absolute".to_owned(),
        Err(error) => format!(r#"it must be a JSON object like {{"read":[],"write":[],"devices":[]}} ({error})"#),
    };
    Err(StartError::Invalid { name: CONFINE_VARIABLE, value: text, reason })
}

fn parse_optional<N: std::str::FromStr>(
    name: &'static str,
    get: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<N>, StartError> {
    get(name).filter(|value| !value.is_empty()).map(|value| parse_number(name, value)).transpose()
}

fn parse_number<N: std::str::FromStr>(name: &'static str, value: String) -> Result<N, StartError> {
    match value.parse() {
        Ok(number) => Ok(number),
        Err(_) => Err(StartError::Invalid { name, value, reason: "it must be a decimal number".to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(pairs: &[(&str, &str)]) -> Result<Start, StartError> {
        Start::from_variables(&|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn a_container_needs_only_the_incarnation() {
        let start = start(&[(INCARNATION_VARIABLE, "7")]).unwrap();
        assert_eq!(start.incarnation, 7);
        assert_eq!(start.roots.session, PathBuf::from("/workspace/session"));
        assert_eq!((start.life_fd, start.lock_fd), (None, None));
    }

    #[test]
    fn roots_and_descriptors_are_read() {
        let roots = r#"{"session":"/s","group":"/g","home":"/h"}"#;
        let start =
            start(&[(INCARNATION_VARIABLE, "1"), (ROOTS_VARIABLE, roots), (LIFE_VARIABLE, "3"), (LOCK_VARIABLE, "4")])
                .unwrap();
        assert_eq!(start.roots.home, PathBuf::from("/h"));
        assert_eq!((start.life_fd, start.lock_fd), (Some(3), Some(4)));
    }

    #[test]
    fn further_directories_are_told_in_one_order() {
        let roots = r#"{"session":"/s","group":"/g","home":"/h","project":"/p","global":"/gl","skills":"/k","extra":["/y","/x"]}"#;
        let start = start(&[(INCARNATION_VARIABLE, "1"), (ROOTS_VARIABLE, roots)]).unwrap();
        assert_eq!(start.roots.additional_dirs(), ["/y", "/x", "/gl", "/p"].map(Path::new));
        assert_eq!((start.roots.trusted, start.roots.skills), (None, Some("/k".into())));
    }

    #[test]
    fn wrong_variables_are_named() {
        for (pairs, word) in [
            (vec![], INCARNATION_VARIABLE),
            (vec![(INCARNATION_VARIABLE, "x")], "decimal"),
            (vec![(INCARNATION_VARIABLE, "1"), (ROOTS_VARIABLE, "/s")], "JSON object"),
            (vec![(INCARNATION_VARIABLE, "1"), (ROOTS_VARIABLE, r#"{"session":"s"}"#)], "absolute"),
            (vec![(INCARNATION_VARIABLE, "1"), (ROOTS_VARIABLE, r#"{"extra":["s"]}"#)], "absolute"),
            (vec![(INCARNATION_VARIABLE, "1"), (LIFE_VARIABLE, "three")], LIFE_VARIABLE),
            (vec![(INCARNATION_VARIABLE, "1"), (CONFINE_VARIABLE, "")], CONFINE_VARIABLE),
            (vec![(INCARNATION_VARIABLE, "1"), (CONFINE_VARIABLE, r#"{"read":["/"]}"#)], "missing field"),
            (
                vec![(INCARNATION_VARIABLE, "1"), (CONFINE_VARIABLE, r#"{"read":["a"],"write":[],"devices":[]}"#)],
                "absolute",
            ),
        ] {
            let message = start(&pairs).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }
}
