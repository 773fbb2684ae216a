//! Prepares an agent's files before an incarnation starts, and determines its mounts.
//!
//! ```text
//! groups/<folder>/   CLAUDE.local.md      its memory, begun with its instructions
//!                    CLAUDE.md            composed: imports of what follows
//!                    AGENTS.md            the same in one file, for agents with the provider `acp`
//!                    .claude-shared.md    what every agent is told
//!                    .claude-fragments/   module-*.md, skill-*.md
//! homes/<folder>/    .claude/settings.json, .claude/skills/<name> -> the skill
//! groups/global/     read by every agent          groups/CLAUDE.md   read by main agents
//! trusted/           shared by main and trusted   skills/<name>/     given to agents
//! ```
//!
//! All steps can be repeated and can run for several sessions of an agent at once. Files with the right content are not
//! written.

use std::ffi::OsStr;
use std::path::Path;

use crate::config::Paths;
use crate::model::entity::{Access, AgentSettings, ExtraMount, Skills, Trust};
use crate::model::mount::{APP_SKILLS, GLOBAL, Mount, PROJECT, TRUSTED};

use super::allowlist::{self, MountDecision};
use super::dir::{Dir, Kind};
use super::error::Error;

mod compose;
mod settings;
mod skills;
#[cfg(test)]
mod tests;
mod texts;

/// The agent's instructions and memory.
pub const LOCAL: &str = "CLAUDE.local.md";
const GLOBAL_DIR: &str = "global";
const PROJECT_FILE: &str = "CLAUDE.md";
pub(super) const CLAUDE_DIR: &str = ".claude";

/// The kind of runtime, as far as an agent's files depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentHome {
    /// Files are mounted at fixed paths.
    Container,
    /// Files have their paths on this machine.
    Host,
}

/// The agent to prepare.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The agent's folder.
    pub folder: &'a str,
    pub settings: &'a AgentSettings,
    /// Its kind of runtime.
    pub place: AgentHome,
}

/// Result of the preparation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prepared {
    /// Mounts in addition to the session, folder and home, checked and resolved.
    pub mounts: Vec<Mount>,
    /// Configured items that are skipped, with reasons. The agent starts anyway.
    pub left_out: Vec<String>,
}

/// Creates an agent's files and determines its mounts.
///
/// # Errors
/// [`Error`] if one of them cannot be created. In that case the agent must not start.
pub fn prepare(paths: &Paths, wanted: &Wanted<'_>) -> Result<Prepared, Error> {
    let Wanted { folder, settings, place } = *wanted;
    let mut prepared = Prepared::default();
    let group = ensure_place(&paths.groups())?.ensure_dir(folder)?;
    let instructions = settings.instructions.as_deref().unwrap_or_default();
    group.write_new(LOCAL, instructions.as_bytes())?;
    let selected = skills::select(paths, &settings.skills)?;
    prepared.left_out.extend(selected.left_out);
    compose::compose(&group, paths, &selected.names, settings.provider)?;
    let home = ensure_place(&paths.homes())?.ensure_dir(folder)?;
    let claude = own_dir(&home, CLAUDE_DIR)?;
    claude.tidy(&["settings.json"])?;
    settings::offer(&claude)?;
    let base = match place {
        AgentHome::Container => Path::new(APP_SKILLS).to_owned(),
        AgentHome::Host => paths.skills(),
    };
    skills::link(&own_dir(&claude, "skills")?, &selected.names, &base, &paths.skills())?;
    prepared.mounts = shared(paths, settings.trust)?;
    for (mount, verdict) in settings.mounts.iter().zip(allowlist::judge(paths, &settings.mounts)) {
        match verdict {
            MountDecision::Allowed(allowed) => prepared.mounts.push(allowed.mount),
            MountDecision::Refused(reason) => prepared.left_out.push(refusal(mount, &reason)),
        }
    }
    Ok(prepared)
}

/// The items that would be skipped if the agent started now: rejected mounts, missing skills. Changes nothing.
///
/// # Errors
/// [`Error`] if the skills cannot be listed.
pub fn left_out(paths: &Paths, settings: &AgentSettings) -> Result<Vec<String>, Error> {
    let mut left_out = skills::select(paths, &settings.skills)?.left_out;
    for (mount, verdict) in settings.mounts.iter().zip(allowlist::judge(paths, &settings.mounts)) {
        if let MountDecision::Refused(reason) = verdict {
            left_out.push(refusal(mount, &reason));
        }
    }
    Ok(left_out)
}

/// Names of an agent's skills.
///
/// # Errors
/// [`Error`] if they cannot be listed.
pub fn skill_names(paths: &Paths, wanted: &Skills) -> Result<Vec<String>, Error> {
    skills::select(paths, wanted).map(|selected| selected.names)
}

fn refusal(mount: &ExtraMount, reason: &str) -> String {
    format!("mount {}: {reason}", mount.host_path)
}

/// The shared mounts that an agent gets according to its trust.
fn shared(paths: &Paths, trust: Trust) -> Result<Vec<Mount>, Error> {
    let groups = Dir::open(&paths.groups())?;
    let mut mounts = Vec::new();
    let mut add = |source: std::path::PathBuf, target: &str, access| {
        mounts.push(Mount { source, target: target.into(), access });
    };
    if groups.kind(GLOBAL_DIR.as_ref())? == Kind::Directory {
        add(paths.groups().join(GLOBAL_DIR), GLOBAL, Access::ReadOnly);
    }
    if trust != Trust::Untrusted {
        ensure_place(&paths.trusted())?;
        add(paths.trusted(), TRUSTED, Access::ReadWrite);
    }
    if trust == Trust::Main && groups.kind(PROJECT_FILE.as_ref())? == Kind::File {
        add(paths.groups().join(PROJECT_FILE), PROJECT, Access::ReadOnly);
    }
    if paths.skills().is_dir() {
        add(paths.skills(), APP_SKILLS, Access::ReadOnly);
    }
    Ok(mounts)
}

/// A directory of the data directory, which no agent controls.
fn ensure_place(path: &Path) -> Result<Dir, Error> {
    let parent = path.parent().unwrap_or(path);
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    match Dir::find(path)? {
        Some(dir) => Ok(dir),
        None => Dir::open(parent)?.ensure_dir(name),
    }
}

/// A directory of Hearth's inside an agent's directory. Anything else under its name is moved away.
fn own_dir(parent: &Dir, name: &str) -> Result<Dir, Error> {
    if matches!(parent.kind(name.as_ref())?, Kind::File | Kind::Other) {
        set_aside(parent, name)?;
    }
    parent.ensure_dir(name)
}

/// Maximum number of saved copies of one name.
const ASIDE_MAX: usize = 10_000;

/// Renames an obstacle instead of deleting it, so that nothing that a person or an agent wrote is lost.
fn set_aside(dir: &Dir, name: &str) -> Result<(), Error> {
    for number in 1..=ASIDE_MAX {
        let new = format!("saved-{number}-{}", name.trim_start_matches('.'));
        match dir.rename_to_free(name, &new) {
            Ok(true) => {
                let path = dir.path().join(name);
                tracing::warn!(path = %path.display(), new, "renamed a file that blocked Hearth's own files");
                return Ok(());
            }
            Ok(false) => {}
            // Another session of the same agent was faster.
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    let reason = format!("it blocks Hearth's file, and {ASIDE_MAX} others were already renamed");
    Err(Error::Unusable { path: dir.path().join(name), reason })
}
