//! The skills that come with Hearth. Setup puts them where agents get skills from.

use crate::config::Paths;

/// A skill that comes with Hearth.
struct BuiltInSkill {
    name: &'static str,
    text: &'static str,
}

macro_rules! skill {
    ($name:literal) => {
        BuiltInSkill {
            name: $name,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/container/skills/", $name, "/SKILL.md")),
        }
    };
}

const SKILLS: [BuiltInSkill; 4] =
    [skill!("what-i-can-do"), skill!("remember"), skill!("remind-me"), skill!("summarise-a-page")];

/// Installs the skills if there is no directory of skills yet, and returns their names. Otherwise returns none: changes
/// and removals by a person are kept.
pub(super) fn put(paths: &Paths) -> std::io::Result<Vec<&'static str>> {
    let dir = paths.skills();
    if std::fs::symlink_metadata(&dir).is_ok() {
        return Ok(Vec::new());
    }
    // The directory is complete before it gets its final name, however the process ends.
    let unfinished = dir.with_file_name(".skills.new");
    match std::fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    for skill in &SKILLS {
        let own = unfinished.join(skill.name);
        std::fs::create_dir_all(&own)?;
        std::fs::write(own.join("SKILL.md"), skill.text)?;
    }
    std::fs::rename(&unfinished, &dir)?;
    Ok(SKILLS.iter().map(|skill| skill.name).collect())
}
