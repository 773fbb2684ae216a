//! What an incarnation sees of the host's files.

use std::path::PathBuf;

use super::entity::{Access, ExtraMount};

/// One directory or file of the host at a place of the agent's, checked and resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Where it is: absolute, links resolved.
    pub source: PathBuf,
    /// Where a container sees it: absolute. The process runtime shows it at `source`.
    pub target: PathBuf,
    /// What the agent may do with it.
    pub access: Access,
}

/// Where a container has the installation's skills.
pub const APP_SKILLS: &str = "/app/skills";
/// Where a container has what every agent may read.
pub const GLOBAL: &str = "/workspace/global";
/// Where a container has what `main` and `trusted` agents share.
pub const TRUSTED: &str = "/workspace/trusted";
/// Where a container has what `main` agents read about all groups.
pub const PROJECT: &str = "/workspace/project/groups/CLAUDE.md";

/// Where a container has the extra mounts.
pub const EXTRA: &str = "/workspace/extra";

/// Where below [`EXTRA`] an extra mount is to be seen: what was declared, else the last part of its path on the host. The
/// error is the path that cannot be one: blank, absolute, with `..`, `:`, an empty part or a control character.
///
/// NanoClaw's rule, and what no mount could have.
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
