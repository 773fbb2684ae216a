//! `skip emit`: a skill says that it left something undone. The file's existence is the whole message: whoever called the
//! skill finds it, tells the owner, and removes it.

use std::path::PathBuf;

use super::json::{Json, Text, pretty};
use super::options::{Given, Options, Usage};
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

/// Characters of a reason, which becomes one message.
const REASON_CHARACTERS: usize = 4096;

/// What was skipped, complete and checked.
#[derive(Debug, PartialEq)]
pub(crate) struct Summary {
    skill: String,
    step: Json,
    reason: String,
    items: Vec<String>,
    technical: bool,
}

/// Writes a summary; what a strict reader would not read is refused before anything is written.
pub(crate) fn main(words: &[String]) -> Result<Json, End> {
    match words.split_first() {
        Some((command, rest)) if command == "emit" => emit(&OPTIONS.read(rest)?),
        Some((help, _)) if ["-h", "--help"].contains(&help.as_str()) => Err(Usage::Help.into()),
        _ => Err(Usage::wrong("there is `skip emit`").into()),
    }
}

fn emit(given: &Given) -> Result<Json, End> {
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
    /// Checks everything that a reader checks. A step of digits alone is a number.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn new(skill: &str, step: &str, reason: &str, items: &[&str], technical: bool) -> Result<Self, String> {
        if !is_skill(skill) {
            return Err(format!(
                "--skill '{skill}' must be the full identifier tessl__<name>: lower-case letters and digits, words joined by single hyphens"
            ));
        }
        if is_blank(step) {
            return Err("--step must not be blank".to_owned());
        }
        if is_blank(reason) || reason.contains(breaks_line) {
            return Err("--reason must be one line, and not blank".to_owned());
        }
        if reason.chars().count() > REASON_CHARACTERS {
            return Err(format!("--reason must have at most {REASON_CHARACTERS} characters"));
        }
        for (at, item) in items.iter().enumerate() {
            if is_blank(item) {
                return Err("--item must not be blank".to_owned());
            }
            if items.iter().take(at).any(|earlier| earlier == item) {
                return Err(format!("--item '{item}' is given twice"));
            }
        }
        Ok(Self {
            skill: skill.to_owned(),
            step: match step.parse::<i64>() {
                Ok(number) if number.to_string() == step => Json::integer(number),
                _ => Json::text(step),
            },
            reason: reason.to_owned(),
            items: items.iter().map(|item| (*item).to_owned()).collect(),
            technical,
        })
    }

    /// Writes the file as of a time; second whether it took the place of one that nobody had reported yet.
    ///
    /// # Errors
    /// Why it was not written.
    pub(crate) fn write(&self, places: &Places, now: u64) -> Result<(PathBuf, bool), String> {
        let path = places.group(&format!(".skip-summary-{}.json", self.skill));
        let occurred_at = time::utc(i64::try_from(now).unwrap_or(i64::MAX));
        let content = Json::object([
            ("schema_version", Json::integer(1)),
            ("skill", Json::text(&self.skill)),
            ("step", self.step.clone()),
            ("reason", Json::text(&self.reason)),
            ("items", Json::Array(self.items.iter().map(|item| Json::text(item)).collect())),
            ("technical_failure", Json::Bool(self.technical)),
            ("occurred_at", Json::text(&occurred_at)),
        ]);
        let replaced = path.exists();
        match files::write(&path, pretty(&content).as_bytes()) {
            Ok(()) => Ok((path, replaced)),
            Err(error) => Err(format!("failed to write {}: {}", path.display(), files::system(&error, &path))),
        }
    }
}

fn is_skill(skill: &str) -> bool {
    let word = |word: &str| !word.is_empty() && word.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9'));
    skill.len() <= 200 && skill.strip_prefix("tessl__").is_some_and(|name| name.split('-').all(word))
}

fn is_blank(text: &str) -> bool {
    text.chars().all(super::is_space)
}
