//! `migrate-addresses-block`: lets the block of addresses in the owner's profile have the version of today.

use std::path::PathBuf;

use super::json::{Json, Text};
use super::options::{Given, Options};
use super::places::Places;
use super::{End, files};
use crate::env;

/// The command line of `migrate-addresses-block`.
pub(crate) const OPTIONS: Options = Options {
    tool: "migrate-addresses-block",
    usage: "usage: migrate-addresses-block [--profile PATH]",
    values: &["--profile"],
    flags: &[],
};

const HEADING: &str = "## Addresses";
const STAMP: &str = "schema_version";
const VERSION: i64 = 2;
const REQUIRED: [&str; 2] = ["current_home", "home_airport"];

/// Raises the version of the block, if it is complete and not of a later version.
pub(crate) fn main(words: &[String]) -> Result<Json, End> {
    let path = profile(&OPTIONS.read(words)?)?;
    let shown = path.display();
    let failed =
        |what: &str, error: &std::io::Error| End::Failed(format!("{what} {shown}: {}", files::system(error, &path)));
    let bytes = files::read(&path).map_err(|error| failed("cannot read owner profile", &error))?;
    let bytes = bytes.ok_or_else(|| End::Failed(format!("owner profile not found at {shown}")))?;
    let text = String::from_utf8(bytes).map_err(|_| End::Failed(format!("owner profile {shown} is not UTF-8")))?;
    let plan = plan(&text).map_err(|why| End::Failed(format!("{shown}: {why}")))?;
    let from = plan.from.map_or(Json::Null, Json::integer);
    let migrated = plan.text.is_some();
    if let Some(text) = plan.text {
        files::write(&path, text.as_bytes()).map_err(|error| failed("cannot write owner profile", &error))?;
    }
    Ok(Json::object([
        ("migrated", Json::Bool(migrated)),
        ("from", from),
        ("to", Json::integer(VERSION)),
        ("path", Json::Text(Text::of_system(path.as_os_str()))),
    ]))
}

fn profile(given: &Given) -> Result<PathBuf, End> {
    let told = given.value("--profile").map(PathBuf::from).or_else(|| env::raw("USER_PROFILE_PATH").map(PathBuf::from));
    let own = || Places::of_process(OPTIONS.tool).trusted("user_profile.md");
    told.or_else(own).ok_or_else(super::not_trusted)
}

#[derive(Debug, PartialEq, Eq)]
struct Plan {
    from: Option<i64>,
    /// The new text, if it is another.
    text: Option<String>,
}

/// What would become of a profile.
fn plan(text: &str) -> Result<Plan, String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let heading = lines.iter().position(|line| line.trim() == HEADING);
    let begin = heading.ok_or_else(|| format!("no `{HEADING}` block; add one with {}", REQUIRED.join(" and ")))? + 1;
    let (before, rest) = lines.split_at(begin);
    let end = rest.iter().position(|line| line.starts_with("## ")).unwrap_or(rest.len());
    let (block, after) = rest.split_at(end);
    let stamp = block.iter().position(|line| entry(line).is_some_and(|(key, _)| key == STAMP));
    let from = match stamp.and_then(|at| block.get(at)).and_then(|line| entry(line)) {
        None => None,
        Some((_, value)) => Some(value.parse::<i64>().map_err(|_| {
            format!("unreadable schema_version '{value}' in the `{HEADING}` block; it must be a whole number")
        })?),
    };
    match from {
        Some(version) if version > VERSION => Err(format!(
            "the `{HEADING}` block has schema_version {version}, above this writer's {VERSION}; it was left as it is, and upgrading this plugin is the way on"
        )),
        Some(VERSION) => Ok(Plan { from, text: None }),
        _ => {
            complete(block)?;
            let stamped = stamped(block, stamp);
            Ok(Plan { from, text: Some([before.concat(), stamped, after.concat()].concat()) })
        }
    }
}

/// Every required key must have a value, or the stamp would say too much.
fn complete(block: &[&str]) -> Result<(), String> {
    let has =
        |key: &str| block.iter().filter_map(|line| entry(line)).any(|(name, value)| name == key && !value.is_empty());
    let missing: Vec<&str> = REQUIRED.into_iter().filter(|key| !has(key)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("the `{HEADING}` block lacks a value for {}; fill it in, and run this again", missing.join(", ")))
}

/// The block with the version in place of the old stamp, or above the first entry.
fn stamped(block: &[&str], stamp: Option<usize>) -> String {
    let first = block.iter().position(|line| line.trim_start().starts_with('-'));
    let mut out = String::new();
    for (at, line) in block.iter().enumerate() {
        let content = line.trim_end_matches(['\n', '\r']);
        let ending = line.get(content.len()..).unwrap_or_default();
        if stamp == Some(at) {
            let key = content.split_once(':').map_or(content, |(key, _)| key);
            out.push_str(&format!("{key}: {VERSION}{ending}"));
            continue;
        }
        if stamp.is_none() && first == Some(at) {
            let ending = if ending.is_empty() { "\n" } else { ending };
            out.push_str(&format!("- {STAMP}: {VERSION}{ending}"));
        }
        out.push_str(line);
    }
    remarked(&out)
}

/// With the version in the first comment that names one.
fn remarked(block: &str) -> String {
    const NAMES: &str = "schema v";
    let mut from = 0;
    while let Some(open) = block.get(from..).and_then(|rest| rest.find("<!--")).map(|at| from + at) {
        let rest = block.get(open..).unwrap_or_default();
        let comment = rest.get(..rest.find("-->").unwrap_or(rest.len())).unwrap_or_default();
        for (at, _) in comment.match_indices(NAMES) {
            let begin = open + at + NAMES.len();
            let number = block.get(begin..).unwrap_or_default();
            let digits = number.bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 {
                let (before, after) = (block.get(..begin), block.get(begin + digits..));
                return format!("{}{VERSION}{}", before.unwrap_or_default(), after.unwrap_or_default());
            }
        }
        from = open + "<!--".len();
    }
    block.to_owned()
}

/// Key and value of `- key: value`.
fn entry(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.trim().strip_prefix('-')?.split_once(':')?;
    Some((key.trim(), value.trim()))
}
