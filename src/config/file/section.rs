//! Tables of the file with typed fields, and the problems found while reading.

use std::ops::RangeInclusive;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{BadFile, Problem, TOP, folder};
use crate::config::nearest;
use crate::model::entity::Folder;
use crate::time::zone::Zone;

/// Problems of one file, collected while it is read.
pub(super) struct Problems<'t> {
    file: &'t str,
    text: &'t str,
    found: Vec<Problem>,
}

impl<'t> Problems<'t> {
    pub(super) fn new(file: &'t str, text: &'t str) -> Self {
        Self { file, text, found: Vec::new() }
    }

    /// Records a problem at a byte offset.
    pub(super) fn add(&mut self, at: usize, what: impl Into<String>) {
        let before = self.before(at);
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let (file, line) = (self.file.to_owned(), self.line(at));
        self.found.push(Problem { file, line, column, what: what.into() });
    }

    /// The line of a byte offset, from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.before(at).matches('\n').count() + 1
    }

    fn before(&self, at: usize) -> &'t str {
        let at = self.text.floor_char_boundary(at.min(self.text.len()));
        self.text.get(..at).unwrap_or_default()
    }

    /// The value if there was no problem.
    pub(super) fn finish<T>(mut self, value: T) -> Result<T, BadFile> {
        self.found.sort();
        self.found.dedup();
        if self.found.is_empty() { Ok(value) } else { Err(BadFile { problems: self.found }) }
    }
}

/// The keys a kind of table may have.
pub(super) struct Keys {
    /// Name of the table in messages.
    pub(super) place: &'static str,
    /// Known keys.
    pub(super) known: &'static [&'static str],
    /// Keys reserved for later versions.
    pub(super) later: &'static [&'static str],
}

pub(super) struct Section<'d> {
    keys: &'static Keys,
    at: usize,
    table: &'d DeTable<'d>,
    /// The thing it describes, for messages; empty until known.
    subject: String,
}

impl<'d> Section<'d> {
    pub(super) fn new(keys: &'static Keys, at: usize, table: &'d DeTable<'d>) -> Self {
        Self { keys, at, table, subject: String::new() }
    }

    /// Sets the thing that the table describes, such as `the chat 5`.
    pub(super) fn describes(&mut self, subject: impl Into<String>) {
        self.subject = subject.into();
    }

    /// The thing that the table describes; its heading until that is known.
    pub(super) fn subject(&self) -> &str {
        if self.subject.is_empty() { self.keys.place } else { &self.subject }
    }

    /// Offset of the table.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Reports unknown and reserved keys.
    pub(super) fn check_keys(&self, problems: &mut Problems<'_>) {
        let Keys { place, known, later } = self.keys;
        for (key, _) in self.table {
            let name = key.get_ref().as_ref();
            if later.contains(&name) {
                problems.add(key.span().start, format!("`{name}` is not supported yet in {place}; remove it"));
            } else if !known.contains(&name) {
                let advice = advice(name, self.keys);
                problems.add(key.span().start, format!("unknown key `{}` in {place}; {advice}", excerpt(name)));
            }
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&'d Spanned<DeValue<'d>>> {
        self.table.get(key)
    }

    pub(super) fn wrong_type(&self, problems: &mut Problems<'_>, key: &str, wanted: &str) {
        if let Some(value) = self.get(key) {
            let found = value.get_ref().type_str();
            problems.add(value.span().start, format!("`{key}` is {}; write {wanted}", with_article(found)));
        }
    }

    /// A string, with its place.
    pub(super) fn text(&self, problems: &mut Problems<'_>, key: &str) -> Option<(usize, &'d str)> {
        let value = self.get(key)?;
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.wrong_type(problems, key, "a string, in quotes");
        }
        Some((value.span().start, text?))
    }

    /// A required string.
    pub(super) fn needed(&self, problems: &mut Problems<'_>, key: &str) -> Option<(usize, &'d str)> {
        if self.get(key).is_none() {
            problems.add(self.at, format!("`{key}` is missing in {}; add it", self.keys.place));
        }
        self.text(problems, key)
    }

    /// A string for people: one line, not empty.
    pub(super) fn line(&self, problems: &mut Problems<'_>, key: &str) -> Option<String> {
        let (at, text) = self.text(problems, key)?;
        if !is_line(text) {
            problems.add(at, format!("`{key}` must be one line of text; correct it or omit it"));
            return None;
        }
        Some(text.to_owned())
    }

    /// An agent's folder.
    pub(super) fn folder(&self, problems: &mut Problems<'_>, key: &str) -> Option<(usize, Folder)> {
        let (at, text) = self.text(problems, key)?;
        folder(text).map_err(|what| problems.add(at, what)).ok().map(|folder| (at, folder))
    }

    /// A time zone, as it is spelled.
    pub(super) fn zone(&self, problems: &mut Problems<'_>, key: &str) -> Option<String> {
        let (at, text) = self.text(problems, key)?;
        let zone = Zone::parse(text).map_err(|error| problems.add(at, format!("`{key}`: {error}")));
        zone.ok().map(|zone| zone.name().to_owned())
    }

    /// One of some words.
    pub(super) fn word<T: Copy>(&self, problems: &mut Problems<'_>, key: &str, words: &[(&str, T)]) -> Option<T> {
        let (at, text) = self.text(problems, key)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let all: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            let (text, all) = (excerpt(text), all.join(" or "));
            let place = if self.subject.is_empty() { String::new() } else { format!(" in {}", self.subject) };
            problems.add(at, format!("`{key}` cannot be \"{text}\"{place}; write {all}"));
        }
        found
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, problems: &mut Problems<'_>, key: &str) -> Option<bool> {
        let flag = self.get(key)?.get_ref().as_bool();
        if flag.is_none() {
            self.wrong_type(problems, key, "true or false");
        }
        flag
    }

    /// A whole number.
    pub(super) fn integer(&self, problems: &mut Problems<'_>, key: &str) -> Option<i64> {
        let value = self.get(key)?;
        let Some(number) = value.get_ref().as_integer() else {
            self.wrong_type(problems, key, "a whole number");
            return None;
        };
        let parsed = i64::from_str_radix(number.as_str(), number.radix());
        parsed
            .map_err(|_| problems.add(value.span().start, format!("`{key}` is too large; write a smaller number")))
            .ok()
    }

    /// A whole number within bounds.
    pub(super) fn number<T>(&self, problems: &mut Problems<'_>, key: &str, range: RangeInclusive<i64>) -> Option<T>
    where
        T: TryFrom<i64>,
    {
        let number = self.integer(problems, key)?;
        if range.contains(&number) {
            return T::try_from(number).ok();
        }
        let at = self.get(key).map_or(self.at, |value| value.span().start);
        let bounds = match range.end() {
            &i64::MAX => format!("at least {}", range.start()),
            end => format!("from {} to {end}", range.start()),
        };
        problems.add(at, format!("`{key}` cannot be {number}; write a number {bounds}"));
        None
    }

    /// A number that may have a fraction.
    pub(super) fn decimal(&self, problems: &mut Problems<'_>, key: &str) -> Option<f64> {
        let value = self.get(key)?;
        let whole = value.get_ref().as_integer().map(|number| number.as_str());
        let number = whole.or_else(|| value.get_ref().as_float().map(|number| number.as_str()));
        let number = number.and_then(|text| text.replace('_', "").parse::<f64>().ok());
        if number.is_none() {
            self.wrong_type(problems, key, "a number like 1.5");
        }
        number
    }

    /// A list of strings, each with its place.
    pub(super) fn texts(&self, problems: &mut Problems<'_>, key: &str) -> Vec<(usize, &'d str)> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let Some(list) = value.get_ref().as_array() else {
            self.wrong_type(problems, key, "a list of strings, in brackets");
            return Vec::new();
        };
        let mut texts = Vec::new();
        for item in list {
            match item.get_ref().as_str() {
                Some(text) => texts.push((item.span().start, text)),
                None => {
                    let found = with_article(item.get_ref().type_str());
                    problems.add(item.span().start, format!("`{key}` contains {found}; write strings only"));
                }
            }
        }
        texts
    }

    /// The tables of `[key.<name>]` with their names and places, and with their keys checked.
    pub(super) fn named_tables(
        &self,
        problems: &mut Problems<'_>,
        key: &str,
        keys: &'static Keys,
    ) -> Vec<(&'d str, Section<'d>)> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let wrong = format!("`{key}` must have tables with names; begin each with {}", keys.place);
        let Some(named) = value.get_ref().as_table() else {
            problems.add(value.span().start, wrong);
            return Vec::new();
        };
        let mut sections = Vec::new();
        for (name, item) in named {
            match item.get_ref().as_table() {
                Some(table) => {
                    let section = Section::new(keys, name.span().start, table);
                    section.check_keys(problems);
                    sections.push((name.get_ref().as_ref(), section));
                }
                None => problems.add(item.span().start, wrong.clone()),
            }
        }
        sections
    }

    /// The table of `[key]`, with its keys checked.
    pub(super) fn table(&self, problems: &mut Problems<'_>, key: &str, keys: &'static Keys) -> Option<Section<'d>> {
        let value = self.get(key)?;
        let Some(table) = value.get_ref().as_table() else {
            let heading = keys.place.starts_with('[');
            let wanted =
                if heading { format!("a table; begin it with {}", keys.place) } else { "a table, in braces".into() };
            self.wrong_type(problems, key, &wanted);
            return None;
        };
        let section = Section::new(keys, value.span().start, table);
        section.check_keys(problems);
        Some(section)
    }

    /// The tables of `[[key]]`, with their keys checked.
    pub(super) fn tables(&self, problems: &mut Problems<'_>, key: &str, keys: &'static Keys) -> Vec<Section<'d>> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let wrong = format!("`{key}` must be a list of tables; begin each with {}", keys.place);
        let Some(list) = value.get_ref().as_array() else {
            problems.add(value.span().start, wrong);
            return Vec::new();
        };
        let mut sections = Vec::new();
        for item in list {
            match item.get_ref().as_table() {
                Some(table) => sections.push(Section::new(keys, item.span().start, table)),
                None => problems.add(item.span().start, wrong.clone()),
            }
        }
        for section in &sections {
            section.check_keys(problems);
        }
        sections
    }
}

/// Whether a text can be shown on one line, and there is something to show.
pub(super) fn is_line(text: &str) -> bool {
    !text.trim().is_empty() && !text.chars().any(char::is_control)
}

/// What to do about an unknown key.
fn advice(name: &str, keys: &Keys) -> String {
    match nearest(name, keys.known.iter().chain(keys.later).copied()) {
        Some(known) => format!("did you mean `{known}`?"),
        _ if TOP.known.contains(&name) => "it belongs at the top of the file, before the first table".to_owned(),
        _ => format!("possible are {}", keys.known.join(", ")),
    }
}

pub(super) fn with_article(name: &str) -> String {
    let vowel = name.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {name}", if vowel { "an" } else { "a" })
}

/// The beginning of a text, safe to show.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

/// A key as it is written.
pub(super) fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if bare { name.to_owned() } else { quoted(name) }
}

/// A string as it is written.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
