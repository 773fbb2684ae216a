//! Links the installation's skills into an agent's `.claude/skills`.

use std::ffi::OsStr;
use std::path::Path;

use crate::config::Paths;
use crate::config::file::is_skill_name;
use crate::model::entity::Skills;
use crate::model::mount::APP_SKILLS;

use super::super::dir::{Dir, Kind};
use super::super::error::Error;

/// Maximum number of an installation's skills, and of entries in an agent's directory.
const ENTRIES_MAX: usize = 10_000;

/// The skills of one agent.
#[derive(Debug, Default)]
pub(super) struct Selected {
    /// Sorted; each is a directory.
    pub(super) names: Vec<String>,
    /// Skills that cannot be linked, with reasons.
    pub(super) left_out: Vec<String>,
}

pub(super) fn select(paths: &Paths, wanted: &Skills) -> Result<Selected, Error> {
    let mut selected = Selected::default();
    let there = Dir::find(&paths.skills())?;
    let names = match (wanted, &there) {
        (Skills::Only(names), _) => names.iter().map(Into::into).collect(),
        (Skills::All, Some(there)) => there.list(ENTRIES_MAX)?,
        (Skills::All, None) => Vec::new(),
    };
    for name in names {
        let shown = name.to_string_lossy();
        let kind = there.as_ref().map_or(Ok(Kind::Nothing), |there| there.kind(&name))?;
        match (kind, name.to_str().filter(|name| is_skill_name(name))) {
            (Kind::Directory, Some(name)) => selected.names.push(name.to_owned()),
            (Kind::Directory, None) => selected.left_out.push(format!(
                "skill {}: it is not a valid skill name; use letters, digits, `_`, `-` and `.`",
                shown.escape_debug()
            )),
            (Kind::Link, _) => selected.left_out.push(format!(
                "skill {}: it is a link, and a container would not find what it leads to; copy the directory",
                shown.escape_debug()
            )),
            // Other files beside the skills are ignored.
            (Kind::File | Kind::Other | Kind::Nothing, _) if *wanted == Skills::All => {}
            (Kind::File | Kind::Other | Kind::Nothing, _) => selected.left_out.push(format!(
                "skill {}: there is no directory {}",
                shown.escape_debug(),
                paths.skills().join(&name).display()
            )),
        }
    }
    Ok(selected)
}

/// Creates the links of the selected skills and removes Hearth's other links. Everything that the agent created is
/// kept, even under the name of a skill.
pub(super) fn link(dir: &Dir, names: &[String], base: &Path, skills: &Path) -> Result<(), Error> {
    for name in dir.list(ENTRIES_MAX)? {
        let target = if dir.kind(&name)? == Kind::Link { dir.link(&name)? } else { None };
        let Some(target) = target.filter(|target| is_ours(&name, target, skills)) else { continue };
        let wanted = names.iter().any(|wanted| *name == **wanted) && target == base.join(&name);
        if !wanted {
            dir.remove(&name)?;
        }
    }
    for name in names {
        if dir.kind(name.as_ref())? == Kind::Nothing {
            dir.make_link(name.as_ref(), &base.join(name))?;
        }
    }
    Ok(())
}

/// Whether Hearth created a link: it leads to the skill of its name, here, in a container, or in a former data
/// directory.
fn is_ours(name: &OsStr, target: &Path, skills: &Path) -> bool {
    let Some(parent) = target.parent().filter(|_| target.file_name() == Some(name)) else { return false };
    let moved = || parent.is_absolute() && parent.file_name() == Some(OsStr::new("skills")) && !target.exists();
    parent == skills || parent == Path::new(APP_SKILLS) || moved()
}
