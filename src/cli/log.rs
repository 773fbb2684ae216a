//! The log: lines for people or JSON for programs, on standard error.
//!
//! A repeated warning is logged once, and then every ten minutes with a count, so that a full disk is not filled with
//! warnings.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use clap::ValueEnum;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, format};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::print;
use crate::clock::Stopwatch;
use crate::config::env;

/// Time for which the same warning is suppressed.
const QUIET: Duration = Duration::from_secs(600);
/// Maximum number of warnings that are tracked.
const KNOWN_MAX: usize = 1_024;

/// The form of the lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

static CHOSEN: OnceLock<LogFormat> = OnceLock::new();

/// Prints a note that is not part of the command's output. In JSON format it becomes a JSON line.
pub(super) fn note(text: &str) {
    match CHOSEN.get() {
        Some(LogFormat::Json) => tracing::info!("{text}"),
        Some(LogFormat::Text) | None => print::note(text),
    }
}

/// Starts the log. One-shot commands log warnings and errors, the daemon also its actions. `HEARTH_LOG` overrides this.
pub(super) fn start(daemon: bool, wanted: LogFormat) {
    let default = if daemon { "hearth=info,warn" } else { "warn" };
    let levels = env::env_lookup("HEARTH_LOG").unwrap_or_else(|| default.to_owned());
    let filter = read(&levels).unwrap_or_else(|error| {
        print::warning(&format!("HEARTH_LOG is not a filter like `hearth=debug`: {error}; using `{default}`"));
        read(default).unwrap_or_default()
    });
    let wanted = *CHOSEN.get_or_init(|| wanted);
    let colours = wanted == LogFormat::Text && print::coloured(&std::io::stderr());
    let log = tracing_subscriber::fmt().with_max_level(Level::TRACE).with_writer(std::io::stderr).with_ansi(colours);
    let plain = format().with_target(false).with_ansi(colours);
    // A second logger in one process is rejected, but there is only this one.
    drop(match wanted {
        LogFormat::Text if env::in_journal() => {
            log.event_format(Once::new(plain.without_time(), wanted)).finish().with(filter).try_init()
        }
        LogFormat::Text => log.event_format(Once::new(plain, wanted)).finish().with(filter).try_init(),
        LogFormat::Json => {
            let json = format().json().flatten_event(true).with_current_span(false).with_span_list(false);
            let log = log.fmt_fields(format::JsonFields::new()).event_format(Once::new(json, wanted));
            log.finish().with(filter).try_init()
        }
    });
}

/// The crate whose modules are named in logs and filters as those of `hearth`, whose folders lie beside them.
const EDGES: &str = "hearth_edges::";

/// Parses the log filter: comma-separated levels, each optionally preceded by a module and `=`.
fn read(levels: &str) -> Result<Targets, String> {
    let parts: Vec<&str> = levels.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    // Without this check, such a part would be taken for a module name that matches nothing, and the log would be
    // silent.
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-:=".contains(c);
    if let Some(part) = parts.iter().find(|part| !part.chars().all(is_name)) {
        return Err(format!("`{part}` is neither a level nor a module"));
    }
    let edges = parts.iter().filter_map(|part| Some(format!("{EDGES}{}", part.strip_prefix("hearth::")?)));
    let all: Vec<String> = parts.iter().map(|part| (*part).to_owned()).chain(edges).collect();
    all.join(",").parse().map_err(|error| format!("{error}"))
}

/// Suppresses a repeated warning until some time has passed.
struct Once<F> {
    inner: F,
    form: LogFormat,
    began: Stopwatch,
    known: Mutex<HashMap<u64, SeenLine>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SeenLine {
    said: Duration,
    /// Number of repetitions since it was logged.
    again: u64,
}

/// What to do with a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogAction {
    Say,
    /// Log it again, with the number of repetitions.
    SayAgain(u64),
    Count,
}

impl<F> Once<F> {
    fn new(inner: F, form: LogFormat) -> Self {
        Self { inner, form, began: Stopwatch::start(), known: Mutex::default() }
    }

    fn judge(&self, event: &Event<'_>) -> LogAction {
        if *event.metadata().level() > Level::WARN {
            return LogAction::Say;
        }
        let mut digest = Digest(DefaultHasher::new());
        event.metadata().callsite().hash(&mut digest.0);
        event.record(&mut digest);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        decide(&mut known, digest.0.finish(), self.began.elapsed())
    }
}

fn decide(known: &mut HashMap<u64, SeenLine>, key: u64, now: Duration) -> LogAction {
    if let Some(one) = known.get_mut(&key) {
        if now.saturating_sub(one.said) < QUIET {
            one.again = one.again.saturating_add(1);
            return LogAction::Count;
        }
        let again = std::mem::take(&mut one.again);
        one.said = now;
        return if again > 0 { LogAction::SayAgain(again) } else { LogAction::Say };
    }
    if known.len() >= KNOWN_MAX {
        known.retain(|_, one| now.saturating_sub(one.said) < QUIET);
    }
    // Beyond that number, all warnings are logged.
    if known.len() < KNOWN_MAX {
        known.insert(key, SeenLine { said: now, again: 0 });
    }
    LogAction::Say
}

impl<S, N, F> FormatEvent<S, N> for Once<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, cx: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let again = match self.judge(event) {
            LogAction::Say => None,
            LogAction::Count => return Ok(()),
            LogAction::SayAgain(again) => Some(again),
        };
        let mut line = String::new();
        self.inner.format_event(cx, Writer::new(&mut line), event)?;
        let line = with_module(&one_line(line.trim_end()), self.form);
        match again {
            None => writer.write_str(&line)?,
            Some(again) => writer.write_str(&with_count(&line, again, self.form))?,
        }
        writer.write_char('\n')
    }
}

/// Escapes control characters. Errors contain foreign text and file names, which must not forge log lines or send
/// terminal commands. Uses JSON escapes, so that a JSON line stays valid.
fn one_line(line: &str) -> String {
    let mut plain = String::new();
    for (at, c) in line.char_indices() {
        if (print::is_harmless(c) && c != '\n') || line.get(at..).is_some_and(is_colour) {
            plain.push(c);
        } else {
            plain.push_str(&format!("\\u{:04x}", u32::from(c)));
        }
    }
    plain
}

/// Whether a text begins with a colour sequence. Only the log itself sets these: foreign ones are already escaped.
fn is_colour(text: &str) -> bool {
    let code = text.strip_prefix("\u{1b}[");
    code.is_some_and(|code| code.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m'))
}

/// Names the module that logs as the filter does.
fn with_module(line: &str, form: LogFormat) -> String {
    match form {
        LogFormat::Json => line.replacen(&format!("\"target\":\"{EDGES}"), "\"target\":\"hearth::", 1),
        LogFormat::Text => line.to_owned(),
    }
}

fn with_count(line: &str, again: u64, form: LogFormat) -> String {
    match (form, line.strip_suffix('}')) {
        (LogFormat::Json, Some(open)) => format!("{open},\"again\":{again}}}"),
        _ => format!("{line} again={again}"),
    }
}

/// Digest of a warning with its fields. Ignores the names of temporary files, which differ each time.
struct Digest(DefaultHasher);

/// Removes the prefixes of temporary file names (`.tmp-` and numbers) from a text.
fn settled(text: &str) -> String {
    let mut parts = text.split(".tmp-");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut name = part;
        while let Some((number, rest)) = name.split_once('-')
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            name = rest;
        }
        out.push_str(name);
    }
    out
}

impl Visit for Digest {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        field.name().hash(&mut self.0);
        settled(&format!("{value:?}")).hash(&mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_is_logged_is_chosen_by_module_and_level() {
        let debug = |filter: &Targets| filter.would_enable("hearth_edges::runtime", &Level::DEBUG);
        let warn = |filter: &Targets| filter.would_enable("another", &Level::WARN);
        for (levels, expected) in [
            ("hearth=info,warn", Some((false, true))),
            ("hearth=debug,info", Some((true, true))),
            (" hearth=debug , info,", Some((true, true))),
            ("hearth=debug", Some((true, false))),
            (",debug", Some((true, true))),
            ("off", Some((false, false))),
            ("hearth::runtime=trace", Some((true, false))),
            ("", Some((false, false))),
            ("hearth=debg", None),
            ("\"debug\"", None),
            ("*", None),
            ("[turn]=debug", None),
            ("hearth debug", None),
        ] {
            assert_eq!(read(levels).ok().map(|filter| (debug(&filter), warn(&filter))), expected, "{levels:?}");
        }
    }

    #[test]
    fn the_same_warning_is_said_once_and_counted() {
        let mut known = HashMap::new();
        let at = Duration::from_secs;
        for (seconds, key, expected) in [
            (0, 1, LogAction::Say),
            (1, 1, LogAction::Count),
            (1, 2, LogAction::Say),
            (599, 1, LogAction::Count),
            (600, 1, LogAction::SayAgain(2)),
            (601, 1, LogAction::Count),
            (700, 2, LogAction::Say),
            (1_300, 1, LogAction::SayAgain(1)),
        ] {
            assert_eq!(decide(&mut known, key, at(seconds)), expected, "{seconds} {key}");
        }
    }

    /// A full disk is logged once, not once per temporary file name.
    #[test]
    fn a_warning_about_an_unfinished_file_is_the_same_every_time() {
        let told = |text: &str| settled(&format!("{text:?}"));
        let one = told("cannot create /data/in/.tmp-7f00000001-1.json: No space left on device");
        assert_eq!(one, told("cannot create /data/in/.tmp-7f00000002-1.json: No space left on device"));
        assert_eq!(one, "\"cannot create /data/in/1.json: No space left on device\"");
        assert_eq!(told(".tmp-12-3-a `.tmp-13-4-b`: .tmp-"), told(".tmp-14-5-a `.tmp-15-6-b`: .tmp-"));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut known = HashMap::new();
        for key in 0..5_000 {
            assert_eq!(decide(&mut known, key, Duration::ZERO), LogAction::Say);
        }
        assert_eq!(known.len(), KNOWN_MAX);
        assert_eq!(decide(&mut known, 9_999, QUIET), LogAction::Say);
        assert_eq!(known.len(), 1);
    }

    /// Where a test's log goes.
    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The lines of a log with something hostile in a message, in a value and in an error.
    fn hostile(wanted: LogFormat) -> Vec<String> {
        let page = Page::default();
        let to = page.clone();
        let log = tracing_subscriber::fmt().with_writer(move || to.clone()).with_ansi(wanted == LogFormat::Text);
        let plain = format().with_target(false).with_ansi(wanted == LogFormat::Text);
        let text = "x\r\nERROR forged\u{1b}]0;gone\u{7}\u{9b}2J\u{202e}\u{7f}\u{b}\"}";
        let say = || {
            tracing::warn!(error = %text, name = text, debug = ?text, "a file {text} cannot be read");
            tracing::warn!("the next");
        };
        match wanted {
            LogFormat::Text => {
                tracing::subscriber::with_default(log.event_format(Once::new(plain, wanted)).finish(), say)
            }
            LogFormat::Json => {
                let log = log.fmt_fields(format::JsonFields::new());
                let json = format().json().flatten_event(true);
                tracing::subscriber::with_default(log.event_format(Once::new(json, wanted)).finish(), say);
            }
        }
        let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn whatever_is_logged_is_one_line_that_no_terminal_obeys() {
        for wanted in [LogFormat::Text, LogFormat::Json] {
            let lines = hostile(wanted);
            assert_eq!(lines.len(), 2, "{lines:#?}");
            let mut plain = lines[0].clone();
            for colour in ["\u{1b}[0m", "\u{1b}[2m", "\u{1b}[3m", "\u{1b}[33m"] {
                plain = plain.replace(colour, "");
            }
            assert!(plain.chars().all(print::is_harmless), "{plain:?}");
            assert!(plain.contains("forged") && lines[1].contains("the next"), "{lines:#?}");
            if wanted == LogFormat::Json {
                let read: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
                assert!(read["error"].as_str().unwrap().starts_with("x\r\nERROR"), "{read}");
            }
        }
    }

    #[test]
    fn every_module_is_named_as_one_of_hearth() {
        let line = "{\"message\":\"\\\"target\\\":\\\"hearth_edges::a\",\"target\":\"hearth_edges::runtime\"}";
        let named = "{\"message\":\"\\\"target\\\":\\\"hearth_edges::a\",\"target\":\"hearth::runtime\"}";
        assert_eq!(with_module(line, LogFormat::Json), named);
        assert_eq!(with_module(named, LogFormat::Text), named);
    }

    #[test]
    fn a_count_is_a_field_like_others() {
        assert_eq!(with_count("{\"a\":1}", 3, LogFormat::Json), "{\"a\":1,\"again\":3}");
        assert_eq!(with_count("WARN no room", 3, LogFormat::Text), "WARN no room again=3");
    }
}
