//! The files of an agent that are there before an incarnation of it starts, and what it is to see of the machine.
//!
//! ```text
//! groups/<folder>/   CLAUDE.local.md      its memory, begun with its instructions
//!                    CLAUDE.md            composed: imports of what follows
//!                    .claude-shared.md    what every agent is told
//!                    .claude-fragments/   module-*.md, skill-*.md
//! homes/<folder>/    .claude/settings.json, .claude/skills/<name> -> the skill
//! groups/global/     read by every agent          groups/CLAUDE.md   read by main agents
//! trusted/           shared by main and trusted   skills/<name>/     given to agents
//! ```
//!
//! Everything may be done again and by several sessions of an agent at once; what is as it should be is not written.

use std::ffi::OsStr;
use std::path::Path;

use crate::config::Paths;
use crate::model::entity::{Access, AgentSettings, ExtraMount, Skills, Trust};
use crate::model::mount::{APP_SKILLS, GLOBAL, Mount, PROJECT, TRUSTED};

use super::allowlist::{self, Verdict};
use super::dir::{Dir, Kind};
use super::error::Error;

mod compose;
mod settings;
mod skills;
#[cfg(test)]
mod tests;
mod texts;

/// What an agent is told about itself, and what it remembers by itself.
pub(super) const LOCAL: &str = "CLAUDE.local.md";
const GLOBAL_DIR: &str = "global";
const PROJECT_FILE: &str = "CLAUDE.md";
pub(super) const CLAUDE_DIR: &str = ".claude";

/// Where an agent runs, as far as its files depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Files are mounted at fixed paths.
    Container,
    /// Files are where they are on this machine.
    Host,
}

/// Whose files are wanted.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The agent's folder.
    pub folder: &'a str,
    /// How it is run.
    pub settings: &'a AgentSettings,
    /// Where.
    pub place: Place,
}

/// What there is for an incarnation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prepared {
    /// What it is to see beside its session, its folder and its home; checked and resolved.
    pub mounts: Vec<Mount>,
    /// What the operator wanted and it does not get, and why; it starts all the same.
    pub left_out: Vec<String>,
}

/// Makes an agent's files be there, and says what it is to see.
///
/// # Errors
/// [`Error`] if one of them cannot be made; then it must not start.
pub fn prepare(paths: &Paths, wanted: &Wanted<'_>) -> Result<Prepared, Error> {
    let Wanted { folder, settings, place } = *wanted;
    let mut prepared = Prepared::default();
    let group = ensure_place(&paths.groups())?.ensure_dir(folder)?;
    let instructions = settings.instructions.as_deref().unwrap_or_default();
    group.write_new(LOCAL, instructions.as_bytes())?;
    let selected = skills::select(paths, &settings.skills)?;
    prepared.left_out.extend(selected.left_out);
    compose::compose(&group, paths, &selected.names)?;
    let home = ensure_place(&paths.homes())?.ensure_dir(folder)?;
    let claude = own_dir(&home, CLAUDE_DIR)?;
    claude.tidy(&["settings.json"])?;
    settings::offer(&claude)?;
    let base = match place {
        Place::Container => Path::new(APP_SKILLS).to_owned(),
        Place::Host => paths.skills(),
    };
    skills::link(&own_dir(&claude, "skills")?, &selected.names, (&base, &paths.skills()))?;
    prepared.mounts = shared(paths, settings.trust)?;
    for (mount, verdict) in settings.mounts.iter().zip(allowlist::judge(paths, &settings.mounts)) {
        match verdict {
            Verdict::Allowed(allowed) => prepared.mounts.push(allowed.mount),
            Verdict::Refused(reason) => prepared.left_out.push(refusal(mount, &reason)),
        }
    }
    Ok(prepared)
}

/// What an agent would be without if it started now: refused mounts, skills that are not there. Changes nothing.
///
/// # Errors
/// [`Error`] if the skills cannot be listed.
pub fn left_out(paths: &Paths, settings: &AgentSettings) -> Result<Vec<String>, Error> {
    let mut left_out = skills::select(paths, &settings.skills)?.left_out;
    for (mount, verdict) in settings.mounts.iter().zip(allowlist::judge(paths, &settings.mounts)) {
        if let Verdict::Refused(reason) = verdict {
            left_out.push(refusal(mount, &reason));
        }
    }
    Ok(left_out)
}

/// Names of the skills that an agent has.
///
/// # Errors
/// [`Error`] if they cannot be listed.
pub fn skill_names(paths: &Paths, wanted: &Skills) -> Result<Vec<String>, Error> {
    skills::select(paths, wanted).map(|selected| selected.names)
}

fn refusal(mount: &ExtraMount, reason: &str) -> String {
    format!("mount {}: {reason}", mount.host_path)
}

/// What agents see by their trust.
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

/// A directory that belongs to Hearth though an agent may have put something else under its name.
fn own_dir(parent: &Dir, name: &str) -> Result<Dir, Error> {
    if matches!(parent.kind(name.as_ref())?, Kind::File | Kind::Other) {
        set_aside(parent, name)?;
    }
    parent.ensure_dir(name)
}

/// Most things of one name that are kept when they are in the way.
const ASIDE_MAX: usize = 10_000;

/// Renames what is in the way, so that nothing is lost that somebody wrote.
fn set_aside(dir: &Dir, name: &str) -> Result<(), Error> {
    for number in 1..=ASIDE_MAX {
        let new = format!("saved-{number}-{}", name.trim_start_matches('.'));
        match dir.rename_to_free(name, &new) {
            Ok(true) => {
                let path = dir.path().join(name);
                tracing::warn!(path = %path.display(), new, "something in the way of Hearth's own files was renamed");
                return Ok(());
            }
            Ok(false) => {}
            // Another session of the same agent was faster.
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    let reason = format!("it is in the way, and {ASIDE_MAX} others were renamed before it");
    Err(Error::Unusable { path: dir.path().join(name), reason })
}
