//! `container-uptime`: since when the container has been running, from the file that its engine creates at the start.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::json::Json;
use super::options::Options;
use super::{End, time};
use crate::clock;

/// The command line of `container-uptime`.
pub(crate) const OPTIONS: Options =
    Options { tool: "container-uptime", usage: "usage: container-uptime", values: &[], flags: &[] };

/// The files of Docker and Podman.
const MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

/// Reports the uptime.
pub(crate) fn main(words: &[String]) -> Result<Json, End> {
    OPTIONS.read(words)?;
    let begin = MARKS.iter().find_map(|mark| std::fs::metadata(Path::new(mark)).ok()).map(|known| known.mtime());
    Ok(uptime(begin, i64::try_from(clock::now_ms() / 1000).unwrap_or_default()))
}

/// Both in seconds since 1970. If the start is in the future, the uptime is zero.
fn uptime(begin: Option<i64>, now: i64) -> Json {
    let Some(begin) = begin else {
        return Json::object([("uptime_text", Json::text("unknown")), ("started", Json::Null)]);
    };
    let hours = now.saturating_sub(begin).max(0) / 3600;
    let started = time::utc(begin);
    let text = format!("{}d {}h (since {started})", hours / 24, hours % 24);
    Json::object([("uptime_text", Json::text(&text)), ("started", Json::text(&started))])
}

#[cfg(test)]
mod tests {
    use super::super::json::line;
    use super::*;

    #[test]
    fn days_and_hours_are_counted() {
        let now = 1_777_302_000;
        for (begin, wanted) in [
            (None, r#"{"uptime_text": "unknown", "started": null}"#),
            (
                Some(now - 172_800),
                r#"{"uptime_text": "2d 0h (since 2026-04-25T15:00:00Z)", "started": "2026-04-25T15:00:00Z"}"#,
            ),
            (
                Some(now - 5 * 3600 - 3599),
                r#"{"uptime_text": "0d 5h (since 2026-04-27T09:00:01Z)", "started": "2026-04-27T09:00:01Z"}"#,
            ),
            (
                Some(now + 3600),
                r#"{"uptime_text": "0d 0h (since 2026-04-27T16:00:00Z)", "started": "2026-04-27T16:00:00Z"}"#,
            ),
        ] {
            assert_eq!(line(&uptime(begin, now)), wanted);
        }
    }
}
