//! `CLAUDE.md` of an agent's folder: composed anew whenever an incarnation starts, from what Hearth and its skills say.

use std::collections::BTreeMap;

use crate::config::Paths;

use super::super::dir::{Content, Dir, Kind};
use super::super::error::Error;
use super::{LOCAL, own_dir, set_aside, texts};

/// The first line of the composed file; how Hearth knows its own.
///
/// NanoClaw's line, so that a file of it is known.
const HEADER: &str = "<!-- Composed at spawn — do not edit. Edit CLAUDE.local.md for per-group content. -->";
const COMPOSED: &str = "CLAUDE.md";
const SHARED: &str = ".claude-shared.md";
const FRAGMENTS: &str = ".claude-fragments";
/// What a skill says about itself.
const INSTRUCTIONS: &str = "instructions.md";
/// Longest of such texts, in bytes.
const INSTRUCTIONS_MAX: u64 = 64 * 1024;
/// Longest file of ours, as it may be after somebody wrote to it.
const OWN_MAX: u64 = 1 << 20;
/// Fragments, ours and others, that are looked at.
const FRAGMENTS_MAX: usize = 10_000;

pub(super) fn compose(group: &Dir, paths: &Paths, skills: &[String]) -> Result<(), Error> {
    let wanted = fragments(paths, skills)?;
    group.tidy(&[LOCAL, SHARED, COMPOSED])?;
    put(group, SHARED, texts::SHARED)?;
    let dir = own_dir(group, FRAGMENTS)?;
    dir.tidy(&wanted.keys().map(String::as_str).collect::<Vec<_>>())?;
    for name in dir.list(FRAGMENTS_MAX)? {
        let ours = name.to_str().is_some_and(is_fragment);
        let unwanted = ours && !name.to_str().is_some_and(|name| wanted.contains_key(name));
        if unwanted && dir.kind(&name)? != Kind::Directory {
            dir.remove(&name)?;
        }
    }
    for (name, text) in &wanted {
        put(&dir, name, text)?;
    }
    let imports = wanted.keys().map(|name| format!("@./{FRAGMENTS}/{name}\n"));
    // The CLI looks for the memory by itself only with settings of its own that Hearth keeps it from.
    let memory = format!("@./{LOCAL}\n");
    let text: String = [format!("{HEADER}\n@./{SHARED}\n")].into_iter().chain(imports).chain([memory]).collect();
    keep_what_was_written(group)?;
    put(group, COMPOSED, &text)
}

/// Whether Hearth may have made a fragment of this name.
fn is_fragment(name: &str) -> bool {
    name.ends_with(".md") && ["module-", "skill-", "mcp-"].iter().any(|kind| name.starts_with(kind))
}

/// Fragments by their file's name.
fn fragments(paths: &Paths, skills: &[String]) -> Result<BTreeMap<String, String>, Error> {
    let mut fragments = BTreeMap::new();
    for (module, text) in texts::MODULES {
        fragments.insert(format!("module-{module}.md"), text.to_owned());
    }
    let Some(all) = Dir::find(&paths.skills())? else { return Ok(fragments) };
    for name in skills {
        let Some(skill) = all.dir(name.as_ref())? else { continue };
        let why = match skill.read(INSTRUCTIONS.as_ref(), INSTRUCTIONS_MAX)? {
            Content::Whole(bytes) => match String::from_utf8(bytes) {
                Ok(text) => {
                    fragments.insert(format!("skill-{name}.md"), text);
                    continue;
                }
                Err(_) => "it is not UTF-8 text".to_owned(),
            },
            Content::Absent => continue,
            Content::Refused(why) => why,
        };
        tracing::warn!(skill = name, why, "the instructions of a skill cannot be used");
    }
    Ok(fragments)
}

/// A `CLAUDE.md` that Hearth did not compose is what somebody wanted the agent to know: it becomes its memory, or, if it
/// has one, is kept beside it.
fn keep_what_was_written(group: &Dir) -> Result<(), Error> {
    let bytes = match group.read(COMPOSED.as_ref(), OWN_MAX)? {
        Content::Whole(bytes) => bytes,
        Content::Absent => return Ok(()),
        // Too long for one of ours, or no file; a link is only replaced.
        Content::Refused(_) if group.kind(COMPOSED.as_ref())? == Kind::Link => return Ok(()),
        Content::Refused(_) => return set_aside(group, COMPOSED),
    };
    if bytes.is_empty() || bytes.starts_with(HEADER.as_bytes()) {
        return Ok(());
    }
    if group.size(LOCAL.as_ref())? == Some(0) {
        return group.write(LOCAL, &bytes);
    }
    set_aside(group, COMPOSED)
}

/// Writes a file unless it says this already.
fn put(dir: &Dir, name: &str, text: &str) -> Result<(), Error> {
    if matches!(dir.read(name.as_ref(), OWN_MAX)?, Content::Whole(bytes) if bytes == text.as_bytes()) {
        return Ok(());
    }
    if matches!(dir.kind(name.as_ref())?, Kind::Directory | Kind::Other) {
        set_aside(dir, name)?;
    }
    dir.write(name, text.as_bytes())
}
