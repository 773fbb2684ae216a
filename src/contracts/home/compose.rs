//! Composes `CLAUDE.md` of an agent's folder from Hearth's and its skills' texts, at every start of an incarnation, and for
//! an agent with the Agent Client Protocol also the file that it reads, mostly `AGENTS.md`.

use std::collections::BTreeMap;

use crate::config::Paths;

use crate::model::entity::ProviderKind;

use super::super::dir::{Content, Dir, Kind};
use super::super::error::Error;
use super::{LOCAL, own_dir, set_aside, texts};

/// The first line of the composed file, by which Hearth recognizes it.
///
/// The same line as NanoClaw's, so that NanoClaw's file is recognized too.
const HEADER: &str = "<!-- Composed at spawn — do not edit. Edit CLAUDE.local.md for per-group content. -->";
const COMPOSED: &str = "CLAUDE.md";
/// File of instructions for most other agents, which know no imports.
const FOR_OTHERS: &str = "AGENTS.md";
/// How the file for others leads to the memory, which the agent changes while it runs.
const MEMORY: &str = "\n# Memory\n\n`CLAUDE.local.md` in this directory has your instructions and your memory. Read it before your first answer.\n";
const SHARED: &str = ".claude-shared.md";
const FRAGMENTS: &str = ".claude-fragments";
/// A skill's own instructions.
const INSTRUCTIONS: &str = "instructions.md";
/// Maximum length of such a text in bytes.
const INSTRUCTIONS_MAX: u64 = 64 * 1024;
/// Maximum length in bytes of one of Hearth's files, which an agent may have extended.
const OWN_MAX: u64 = 1 << 20;
/// Maximum number of files checked in the fragments' directory.
const FRAGMENTS_MAX: usize = 10_000;

pub(super) fn compose(group: &Dir, paths: &Paths, skills: &[String], provider: ProviderKind) -> Result<(), Error> {
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
    // The CLI loads the memory automatically only with a setting that Hearth disables.
    let memory = format!("@./{LOCAL}\n");
    let text: String = [format!("{HEADER}\n@./{SHARED}\n")].into_iter().chain(imports).chain([memory]).collect();
    keep_what_was_written(group)?;
    put(group, COMPOSED, &text)?;
    let others = match provider {
        ProviderKind::Acp | ProviderKind::OpenAi => Some(FOR_OTHERS),
        ProviderKind::Preset(preset) => preset.about().instructions,
        ProviderKind::Echo | ProviderKind::Command | ProviderKind::Claude => None,
    };
    others.map_or(Ok(()), |name| for_others(group, name, wanted.into_values()))
}

/// Writes the file of instructions of an agent that reads another one, unless there is one that Hearth did not compose.
fn for_others(group: &Dir, name: &str, fragments: impl Iterator<Item = String>) -> Result<(), Error> {
    let is_ours = match group.read(name.as_ref(), OWN_MAX)? {
        Content::Whole(bytes) => bytes.is_empty() || bytes.starts_with(HEADER.as_bytes()),
        Content::Absent => true,
        Content::Refused(_) => false,
    };
    if !is_ours {
        return Ok(());
    }
    let parts = [HEADER.to_owned(), texts::SHARED.to_owned()].into_iter().chain(fragments);
    put(group, name, &(parts.collect::<Vec<_>>().join("\n") + MEMORY))
}

/// Whether a file name may be one of Hearth's fragments.
fn is_fragment(name: &str) -> bool {
    name.ends_with(".md") && ["module-", "skill-", "mcp-"].iter().any(|kind| name.starts_with(kind))
}

/// Fragments by file name.
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

/// A `CLAUDE.md` that Hearth did not compose contains instructions for the agent. It becomes the agent's memory or, if
/// there already is one, is kept beside it.
fn keep_what_was_written(group: &Dir) -> Result<(), Error> {
    let bytes = match group.read(COMPOSED.as_ref(), OWN_MAX)? {
        Content::Whole(bytes) => bytes,
        Content::Absent => return Ok(()),
        // Too long for one of Hearth's files, or not a file. A link is simply replaced.
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

/// Writes a file unless it already has this content.
fn put(dir: &Dir, name: &str, text: &str) -> Result<(), Error> {
    if matches!(dir.read(name.as_ref(), OWN_MAX)?, Content::Whole(bytes) if bytes == text.as_bytes()) {
        return Ok(());
    }
    if matches!(dir.kind(name.as_ref())?, Kind::Directory | Kind::Other) {
        set_aside(dir, name)?;
    }
    dir.write(name, text.as_bytes())
}
