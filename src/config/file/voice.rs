//! `[voice]`: what turns speech into text, and text into speech.

use super::secrets::is_reference;
use super::section::{Keys, Problems, Section, excerpt};
use crate::model::time::Millis;
use crate::model::voice::{AudioFormat, SpeakWhen, Speaker, SpeechTool, Transcriber, Voice};
use crate::time::every::Every;

pub(super) const KEYS: Keys = Keys { place: "[voice]", known: &["transcribe", "speak"], later: &[] };
pub(super) const TRANSCRIBE: Keys = Keys {
    place: "`voice.transcribe`",
    known: &["command", "url", "model", "key", "language", "max_bytes", "timeout"],
    later: &[],
};
pub(super) const SPEAK: Keys = Keys {
    place: "`voice.speak`",
    known: &["command", "url", "model", "key", "voice", "format", "when", "max_chars", "max_bytes", "timeout"],
    later: &[],
};
/// Words for which answers are spoken.
const WHEN: [(&str, SpeakWhen); 2] =
    [(SpeakWhen::Asked.as_str(), SpeakWhen::Asked), (SpeakWhen::Always.as_str(), SpeakWhen::Always)];
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
    let speak = section.table(problems, "speak", &SPEAK).and_then(|section| {
        Some(Speaker {
            voice: section.line(problems, "voice"),
            format: section
                .word(problems, "format", &AudioFormat::ALL.map(|format| (format.as_str(), format)))
                .unwrap_or_default(),
            when: section.word(problems, "when", &WHEN).unwrap_or_default(),
            max_chars: section
                .number(problems, "max_chars", 1..=i64::from(Speaker::CHARS_MAX))
                .unwrap_or(Speaker::CHARS),
            max_bytes: section.number(problems, "max_bytes", 1..=bound(Speaker::BYTES_MAX)).unwrap_or(Speaker::BYTES),
            timeout: timeout(problems, &section),
            tool: tool(problems, &section)?,
        })
    });
    let voice = Voice { transcribe, speak };
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
    for key in ["model", "key", "language", "voice", "format"] {
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

/// The tools of the section, by their places.
fn tools(voice: &Voice) -> impl Iterator<Item = (&'static str, &SpeechTool, Millis)> {
    let transcribe = voice.transcribe.as_ref().map(|by| ("voice.transcribe", &by.tool, by.timeout));
    let speak = voice.speak.as_ref().map(|by| ("voice.speak", &by.tool, by.timeout));
    transcribe.into_iter().chain(speak)
}

/// The commands of the section, by their keys.
pub(super) fn commands<'v>(voice: &'v Voice) -> Vec<(String, &'v [String])> {
    let command = |(place, tool, _): (&str, &'v SpeechTool, Millis)| match tool {
        SpeechTool::Command(words) => Some((format!("{place}.command"), words.as_slice())),
        SpeechTool::Server { .. } => None,
    };
    tools(voice).filter_map(command).collect()
}

/// The texts of the section, by their keys.
pub(super) fn lines(voice: &Voice) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let mut add = |place: &str, key: &str, text: Option<&str>| {
        lines.extend(text.map(|text| (format!("{place}.{key}"), text.to_owned())));
    };
    for (place, tool, timeout) in tools(voice) {
        if let SpeechTool::Server { url, model, key } = tool {
            add(place, "url", Some(url));
            add(place, "model", model.as_deref());
            add(place, "key", key.as_deref());
        }
        let timeout = Every::of(timeout).map_or_else(|_| timeout.get().to_string(), |every| every.to_string());
        add(place, "timeout", Some(&timeout));
    }
    if let Some(by) = &voice.transcribe {
        add("voice.transcribe", "language", by.language.as_deref());
    }
    if let Some(by) = &voice.speak {
        let place = "voice.speak";
        add(place, "voice", by.voice.as_deref());
        // Programs are not asked for a format.
        add(place, "format", Some(by.format.as_str()).filter(|_| matches!(by.tool, SpeechTool::Server { .. })));
        add(place, "when", Some(by.when.as_str()));
    }
    lines
}

/// The numbers of the section, by their keys.
pub(super) fn numbers(voice: &Voice) -> Vec<(&'static str, u64)> {
    let transcribe = voice.transcribe.iter().map(|by| ("voice.transcribe.max_bytes", by.max_bytes));
    let speak = voice.speak.iter();
    let speak = speak
        .flat_map(|by| [("voice.speak.max_chars", u64::from(by.max_chars)), ("voice.speak.max_bytes", by.max_bytes)]);
    transcribe.chain(speak).collect()
}
