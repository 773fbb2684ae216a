//! `skip emit`: a skill reports that it skipped work. The file itself is the message: the skill's caller finds it,
//! tells the owner, and removes it.

use std::path::PathBuf;

use super::json::{Json, Text, pretty};
use super::options::{Options, ParsedArgs, Usage};
use super::places::Places;
use super::{End, breaks_line, files, time};
use crate::clock;

/// The command line of `skip emit`.
pub(crate) const OPTIONS: Options = Options {
    tool: "skip",
    usage: "usage: hearth-runner skip emit --skill tessl__NAME --step STEP --reason TEXT [--item ID]... [--technical]\n\
        writes .skip-summary-<skill>.json into the group's directory; --technical says that trying again may help",
    values: &["--skill", "--step", "--reason", "--item"],
    flags: &["--technical"],
};

// The host's limits. Summaries beyond them are rejected here, so that the skill gets the error.
/// Maximum length of a skill's name in bytes.
const SKILL_BYTES: usize = 128;
/// Maximum length of a step, and of an item, in characters.
const NAME_CHARACTERS: usize = 1024;
/// Maximum length of a reason in characters; it becomes one message.
const REASON_CHARACTERS: usize = 4096;
/// Maximum number of items in one summary.
const ITEMS: usize = 1000;
/// Maximum size of the file in bytes.
const FILE_BYTES: usize = 256 << 10;

/// A complete and valid summary.
#[derive(Debug, PartialEq)]
pub(crate) struct Summary {
    skill: String,
    step: Json,
    reason: String,
    items: Vec<String>,
    technical: bool,
}

/// Writes a summary. Invalid ones are rejected before anything is written.
pub(crate) fn main(words: &[String]) -> Result<Json, End> {
    match words.split_first() {
        Some((command, rest)) if command == "emit" => emit(&OPTIONS.read(rest)?),
        Some((help, _)) if ["-h", "--help"].contains(&help.as_str()) => Err(Usage::Help.into()),
        _ => Err(Usage::wrong("there is `skip emit`").into()),
    }
}

fn emit(given: &ParsedArgs) -> Result<Json, End> {
    let items: Vec<&str> = given.all("--item").collect();
    let summary = Summary::new(
        given.required("--skill")?,
        given.required("--step")?,
        given.required("--reason")?,
        &items,
        given.has("--technical"),
    )
    .map_err(Usage::Wrong)?;
    let (path, replaced) =
        summary.write(&Places::of_process(OPTIONS.tool), clock::now_ms() / 1000).map_err(End::Failed)?;
    Ok(Json::object([
        ("path", Json::Text(Text::of_system(path.as_os_str()))),
        ("skill", Json::text(&summary.skill)),
        ("replaced", Json::Bool(replaced)),
    ]))
}

impl Summary {
    /// Checks everything that a reader checks. A step of digits only is a number.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn new(skill: &str, step: &str, reason: &str, items: &[&str], technical: bool) -> Result<Self, String> {
        if !is_skill(skill) {
            return Err(format!(
                "--skill '{skill}' must be the full identifier tessl__<name>: lower-case letters and digits, words joined by single hyphens, at most {SKILL_BYTES} bytes"
            ));
        }
        if is_blank(step) {
            return Err("--step must not be blank".to_owned());
        }
        if step.chars().count() > NAME_CHARACTERS {
            return Err(format!("--step must have at most {NAME_CHARACTERS} characters"));
        }
        if is_blank(reason) || reason.contains(breaks_line) {
            return Err("--reason must be one line, and not blank".to_owned());
        }
        if reason.chars().count() > REASON_CHARACTERS {
            return Err(format!("--reason must have at most {REASON_CHARACTERS} characters"));
        }
        if items.len() > ITEMS {
            return Err(format!("there must be at most {ITEMS} of --item"));
        }
        for (at, item) in items.iter().enumerate() {
            if is_blank(item) {
                return Err("--item must not be blank".to_owned());
            }
            if item.chars().count() > NAME_CHARACTERS {
                return Err(format!("--item must have at most {NAME_CHARACTERS} characters"));
            }
            if items.iter().take(at).any(|earlier| earlier == item) {
                return Err(format!("--item '{item}' is given twice"));
            }
        }
        let summary = Self {
            skill: skill.to_owned(),
            step: match step.parse::<i64>() {
                Ok(number) if number.to_string() == step => Json::integer(number),
                _ => Json::text(step),
            },
            reason: reason.to_owned(),
            items: items.iter().map(|item| (*item).to_owned()).collect(),
            technical,
        };
        if summary.content(0).len() > FILE_BYTES {
            return Err(format!("all --item together are too long: the file may have {FILE_BYTES} bytes"));
        }
        Ok(summary)
    }

    /// Writes the file with a given time. Returns its path, and whether it replaced an unreported one.
    ///
    /// # Errors
    /// Why it was not written.
    pub(crate) fn write(&self, places: &Places, now: u64) -> Result<(PathBuf, bool), String> {
        let path = places.group(&format!(".skip-summary-{}.json", self.skill));
        let replaced = path.exists();
        match files::write(&path, self.content(now).as_bytes()) {
            Ok(()) => Ok((path, replaced)),
            Err(error) => Err(format!("failed to write {}: {}", path.display(), files::system(&error, &path))),
        }
    }

    /// The content of the file for a given time.
    fn content(&self, now: u64) -> String {
        let occurred_at = time::utc(i64::try_from(now).unwrap_or(i64::MAX));
        pretty(&Json::object([
            ("schema_version", Json::integer(1)),
            ("skill", Json::text(&self.skill)),
            ("step", self.step.clone()),
            ("reason", Json::text(&self.reason)),
            ("items", Json::Array(self.items.iter().map(|item| Json::text(item)).collect())),
            ("technical_failure", Json::Bool(self.technical)),
            ("occurred_at", Json::text(&occurred_at)),
        ]))
    }
}

fn is_skill(skill: &str) -> bool {
    let word = |word: &str| !word.is_empty() && word.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9'));
    skill.len() <= SKILL_BYTES && skill.strip_prefix("tessl__").is_some_and(|name| name.split('-').all(word))
}

fn is_blank(text: &str) -> bool {
    text.chars().all(super::is_space)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_would_not_read_is_refused() {
        let long = |characters: usize| "é".repeat(characters);
        let refused = |skill: &str, step: &str, reason: &str, items: &[String]| {
            let items: Vec<&str> = items.iter().map(String::as_str).collect();
            Summary::new(skill, step, reason, &items, false).err().unwrap_or_default()
        };
        let numbered = |count: usize, item: &str| (0..count).map(|at| format!("{item}{at}")).collect::<Vec<_>>();
        let skill = |bytes: usize| format!("tessl__{}", "a".repeat(bytes - 7));
        for (skill, step, reason, items, words) in [
            (skill(128), long(1024), long(4096), numbered(1000, "a"), ""),
            (skill(128), "1".to_owned(), "r".to_owned(), vec![long(1024)], ""),
            (skill(129), "1".to_owned(), "r".to_owned(), vec![], "at most 128 bytes"),
            (skill(9), long(1025), "r".to_owned(), vec![], "--step must have at most 1024"),
            (skill(9), "1".to_owned(), long(4097), vec![], "--reason must have at most 4096"),
            (skill(9), "1".to_owned(), "r".to_owned(), vec![long(1025)], "--item must have at most 1024"),
            (skill(9), "1".to_owned(), "r".to_owned(), numbered(1001, ""), "at most 1000 of --item"),
            (skill(9), "1".to_owned(), "r".to_owned(), numbered(60, &long(1000)), "may have 262144 bytes"),
        ] {
            let said = refused(&skill, &step, &reason, &items);
            assert!(said.contains(words) && words.is_empty() == said.is_empty(), "{said:?} {words:?}");
        }
    }
}
