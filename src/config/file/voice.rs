//! `[voice]`: what turns speech into text.

use super::secrets::is_reference;
use super::section::{Keys, Problems, Section, excerpt};
use crate::model::time::Millis;
use crate::model::voice::{SpeechTool, Transcriber, Voice};
use crate::time::every::Every;

const KEYS: Keys = Keys { place: "[voice]", known: &["transcribe"], later: &["speak"] };
const TRANSCRIBE: Keys = Keys {
    place: "`voice.transcribe`",
    known: &["command", "url", "model", "key", "language", "max_bytes", "timeout"],
    later: &[],
};
/// Longest URL, and most arguments of a command.
const URL_MAX: usize = 1_000;
const ARGUMENTS_MAX: usize = 100;

pub(super) fn read(problems: &mut Problems<'_>, top: &Section<'_>) -> Option<Voice> {
    let section = top.table(problems, "voice", &KEYS)?;
    let transcribe = section.table(problems, "transcribe", &TRANSCRIBE).and_then(|section| {
        Some(Transcriber {
            language: section.line(problems, "language"),
            max_bytes: section
                .number(problems, "max_bytes", 1..=bound(Transcriber::BYTES_MAX))
                .unwrap_or(Transcriber::BYTES),
            timeout: timeout(problems, &section),
            tool: tool(problems, &section)?,
        })
    });
    let voice = Voice { transcribe };
    (voice != Voice::default()).then_some(voice)
}

fn bound(limit: u64) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn timeout(problems: &mut Problems<'_>, section: &Section<'_>) -> Millis {
    let Some((at, text)) = section.text(problems, "timeout") else { return SpeechTool::TIMEOUT };
    match Every::parse(text) {
        Ok(every) if every.length() <= SpeechTool::TIMEOUT_MAX => return every.length(),
        Ok(_) => problems.add(at, format!("`timeout` cannot be \"{}\"; write at most 10m", excerpt(text))),
        Err(error) => problems.add(at, format!("`timeout`: {error}")),
    }
    SpeechTool::TIMEOUT
}

/// Exactly one of `command` and `url`.
fn tool(problems: &mut Problems<'_>, section: &Section<'_>) -> Option<SpeechTool> {
    let place = section.subject().to_owned();
    match (section.get("command"), section.get("url")) {
        (Some(_), Some(url)) => {
            problems.add(url.span().start, format!("{place} has `command` and `url`; keep one of them"));
            None
        }
        (None, None) => {
            problems.add(section.at(), format!("{place} has neither `command` nor `url`; add one of them"));
            None
        }
        (Some(_), None) => command(problems, section),
        (None, Some(_)) => {
            let (model, key) = (section.line(problems, "model"), key(problems, section));
            url(problems, section).map(|url| SpeechTool::Server { url, model, key })
        }
    }
}

fn command(problems: &mut Problems<'_>, section: &Section<'_>) -> Option<SpeechTool> {
    for key in ["model", "key", "language"] {
        if let Some(value) = section.get(key) {
            let what = format!("`{key}` is for servers; pass it to the program as an argument in `command`");
            problems.add(value.span().start, what);
        }
    }
    let words = section.texts(problems, "command");
    let at = section.get("command").map_or(section.at(), |value| value.span().start);
    match words.first() {
        Some((_, program)) if program.starts_with('/') && words.len() <= ARGUMENTS_MAX => {}
        Some((_, program)) if program.starts_with('/') => {
            problems.add(at, format!("`command` has {} words; write at most {ARGUMENTS_MAX}", words.len()));
            return None;
        }
        _ => {
            problems.add(at, "`command` does not begin with the path of a program; write [\"/path/to/program\", …]");
            return None;
        }
    }
    if words.iter().any(|(_, word)| word.contains('\0')) {
        problems.add(at, "`command` contains a zero byte; remove it");
        return None;
    }
    Some(SpeechTool::Command(words.into_iter().map(|(_, word)| word.to_owned()).collect()))
}

/// The base of a server's URLs, without a slash at the end.
fn url(problems: &mut Problems<'_>, section: &Section<'_>) -> Option<String> {
    let (at, text) = section.text(problems, "url")?;
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split('/').next().unwrap_or_default()).unwrap_or_default();
    let plain = text.len() <= URL_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
    if host.is_empty() || host.contains('@') || !plain || text.contains(['?', '#']) {
        let what = "`url` is not the base of a server's URLs; write one like \"https://api.openai.com/v1\"";
        problems.add(at, what);
        return None;
    }
    Some(text.trim_end_matches('/').to_owned())
}

/// The text is never part of a message: it may be the key itself.
fn key(problems: &mut Problems<'_>, section: &Section<'_>) -> Option<String> {
    let (at, text) = section.text(problems, "key")?;
    if !is_reference(text) {
        let what = "`key` is no reference to a secret; write \"env:NAME\", \"file:/path\" or \"cmd:program argument\"";
        problems.add(at, what);
        return None;
    }
    Some(text.to_owned())
}

/// The keys of a transcriber that are texts.
pub(super) fn texts(of: &Transcriber) -> Vec<(&'static str, String)> {
    let (url, model, key) = match &of.tool {
        SpeechTool::Command(_) => (None, None, None),
        SpeechTool::Server { url, model, key } => (Some(url.clone()), model.clone(), key.clone()),
    };
    let timeout = Every::of(of.timeout).map_or_else(|_| of.timeout.get().to_string(), |every| every.to_string());
    let all =
        [("url", url), ("model", model), ("key", key), ("language", of.language.clone()), ("timeout", Some(timeout))];
    all.into_iter().filter_map(|(key, text)| Some((key, text?))).collect()
}

/// The words of a transcriber's command.
pub(super) fn words(of: &Transcriber) -> &[String] {
    match &of.tool {
        SpeechTool::Command(words) => words,
        SpeechTool::Server { .. } => &[],
    }
}
