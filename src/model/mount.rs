//! Mounts: files of the host that an incarnation sees.

use std::path::PathBuf;

use super::entity::{Access, ExtraMount};

/// A directory or file of the host, mounted for an agent. Checked and resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Path on the host: absolute, links resolved.
    pub source: PathBuf,
    /// Path in a container: absolute. The process runtime shows it at `source`.
    pub target: PathBuf,
    /// What the agent may do with it.
    pub access: Access,
}

/// Path of the installation's skills in a container.
pub const APP_SKILLS: &str = "/app/skills";
/// Path in a container of the files that every agent may read.
pub const GLOBAL: &str = "/workspace/global";
/// Path in a container of the directory that `main` and `trusted` agents share.
pub const TRUSTED: &str = "/workspace/trusted";
/// Path in a container of the file about all groups that `main` agents read.
pub const PROJECT: &str = "/workspace/project/groups/CLAUDE.md";

/// Path of the extra mounts in a container.
pub const EXTRA: &str = "/workspace/extra";

/// Path of an extra mount below [`EXTRA`]: the declared one, else the last part of its path on the host. Blank paths,
/// absolute paths, and paths with `..`, `:`, an empty part or a control character are refused.
///
/// NanoClaw's rule, plus paths that no mount could have.
///
/// # Errors
/// The path that is refused.
pub fn container_path(mount: &ExtraMount) -> Result<&str, String> {
    let path = match &mount.container_path {
        Some(path) => path.as_str(),
        None => mount.host_path.trim_end_matches('/').rsplit('/').next().unwrap_or_default(),
    };
    let plain = !path.trim().is_empty() && !path.contains("..") && !path.starts_with('/') && !path.contains(':');
    let whole = path.split('/').all(|part| !part.is_empty() && part != ".") && !path.chars().any(char::is_control);
    if plain && whole { Ok(path) } else { Err(path.to_owned()) }
}
