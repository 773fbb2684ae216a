//! Every rule of the contract as a row, and odd files that agents can create under summary names.

use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use super::*;
use crate::model::skip::{SkipKind, SkipReport, SkipStep};

const SKILL: &str = "tessl__check-cfps";

/// A valid summary with one field replaced or removed.
fn summary(field: &str, value: Option<&str>) -> String {
    let good = [
        ("schema_version", "1"),
        ("skill", "\"tessl__check-cfps\""),
        ("step", "\"tier 3\""),
        ("reason", "\"nightly budget\""),
        ("items", "[\"cfp-1\", \"cfp-2\"]"),
        ("technical_failure", "false"),
        ("occurred_at", "\"2026-05-01T08:00:00Z\""),
    ];
    let fields: Vec<String> = good
        .iter()
        .filter_map(|(name, usual)| {
            let value = if *name == field { value? } else { *usual };
            Some(format!("\"{name}\": {value}"))
        })
        .collect();
    let extra = match value {
        Some(value) if good.iter().all(|(name, _)| *name != field) => format!(", \"{field}\": {value}"),
        _ => String::new(),
    };
    format!("{{{}{extra}}}", fields.join(", "))
}

fn read(text: &str) -> Result<SkipReport, SkipTrouble> {
    parse(SKILL, text.as_bytes(), digest(text.as_bytes()))
}

/// Field, value, and the error if it is invalid.
const CASES: &[(&str, &str, Option<&str>)] = &[
    ("schema_version", "1", None),
    ("schema_version", "2", Some("its schema_version is 2, but only 1 is supported")),
    ("schema_version", "0", Some("its schema_version is 0")),
    ("schema_version", "-1", Some("its schema_version is -1")),
    ("schema_version", "true", Some("schema_version is true or false, not an integer")),
    ("schema_version", "\"1\"", Some("schema_version is a string")),
    ("schema_version", "1.0", Some("schema_version is a number with a fraction")),
    ("schema_version", "1e0", Some("schema_version is a number with a fraction")),
    ("schema_version", "null", Some("schema_version is null")),
    ("schema_version", "99999999999999999999", Some("schema_version is")),
    ("skill", "\"tessl__other\"", Some("skill is \"tessl__other\", and the file is that of tessl__check-cfps")),
    ("skill", "7", Some("skill is an integer, not a string")),
    ("step", "3", None),
    ("step", "-3", None),
    ("step", "\"3\"", None),
    ("step", "\" \"", Some("step is blank")),
    ("step", "true", Some("step is true or false")),
    ("step", "1.5", Some("step is a number with a fraction")),
    ("step", "null", Some("step is null")),
    ("step", "[]", Some("step is an array")),
    ("reason", "\"\"", Some("reason is blank")),
    ("reason", "\" \\t\"", Some("reason is blank")),
    ("reason", "\"a\\nb\"", Some("more than one line")),
    ("reason", "\"a\\rb\"", Some("more than one line")),
    ("reason", "\"a\\u000bb\"", Some("more than one line")),
    ("reason", "\"a\\u000cb\"", Some("more than one line")),
    ("reason", "\"a\\u2028b\"", Some("more than one line")),
    ("reason", "\"a\\u2029b\"", Some("more than one line")),
    ("reason", "5", Some("reason is an integer")),
    ("items", "[]", None),
    ("items", "[\"b\", \"a\"]", None),
    ("items", "null", Some("items is null, not an array")),
    ("items", "\"a\"", Some("items is a string")),
    ("items", "[1]", Some("items[0] is an integer")),
    ("items", "[\"a\", \" \"]", Some("items[1] is blank")),
    ("items", "[\"a\", \"b\", \"a\"]", Some("items[2] is there twice")),
    ("technical_failure", "true", None),
    ("technical_failure", "1", Some("technical_failure is an integer")),
    ("technical_failure", "\"true\"", Some("technical_failure is a string")),
    ("technical_failure", "null", Some("technical_failure is null")),
    ("occurred_at", "\"2026-05-01T08:00:00.5Z\"", None),
    ("occurred_at", "\"2024-02-29T08:00:00.123456789Z\"", None),
    ("occurred_at", "\"2026-02-29T08:00:00Z\"", Some("occurred_at is")),
    ("occurred_at", "\"2026-13-01T08:00:00Z\"", Some("occurred_at is")),
    ("occurred_at", "\"2026-05-01T24:00:00Z\"", Some("occurred_at is")),
    ("occurred_at", "\"2026-05-01T08:00:60Z\"", Some("occurred_at is")),
    ("occurred_at", "\"2026-05-01T08:00:00+00:00\"", Some("occurred_at is")),
    ("occurred_at", "\"2026-05-01T08:00:00z\"", Some("occurred_at is")),
    ("occurred_at", "\"2026-05-01t08:00:00Z\"", Some("occurred_at is")),
    ("occurred_at", "\"2026-05-01 08:00:00Z\"", Some("occurred_at is")),
    ("occurred_at", "\"2026-05-01T08:00:00\"", Some("occurred_at is")),
    ("occurred_at", "\"2026-05-01T08:00Z\"", Some("occurred_at is")),
    ("occurred_at", "\"2026-05-01T08:00:00.Z\"", Some("occurred_at is")),
    ("occurred_at", "\"2026-05-01T08:00:00ZZ\"", Some("occurred_at is")),
    ("occurred_at", "\"+2026-05-01T08:00:00Z\"", Some("occurred_at is")),
    ("occurred_at", "1777622400", Some("occurred_at is an integer, not a string")),
    ("note", "{\"anything\": [1.5, null]}", None),
];

#[test]
fn every_field_is_as_the_contract_wants_it() {
    let long = |count: usize| format!("\"{}\"", "é".repeat(count));
    let many = |count: usize| {
        let items: Vec<String> = (0..count).map(|at| format!("\"i{at}\"")).collect();
        format!("[{}]", items.join(","))
    };
    let (step, reasons, items) = (long(1_025), [long(4_096), long(4_097)], [many(1_000), many(1_001)]);
    let item = format!("[{}]", long(1_025));
    let computed = [
        ("step", step.as_str(), Some("step has 1025 characters")),
        ("reason", reasons[0].as_str(), None),
        ("reason", reasons[1].as_str(), Some("reason has 4097 characters, at most 4096")),
        ("items", items[0].as_str(), None),
        ("items", items[1].as_str(), Some("items has 1001 entries")),
        ("items", item.as_str(), Some("items[0] has more than")),
    ];
    for (field, value, problem) in CASES.iter().copied().chain(computed) {
        let told = read(&summary(field, Some(value))).err().map(|trouble| trouble.to_string());
        match (&told, problem) {
            (None, None) => {}
            (Some(told), Some(problem)) => assert!(told.contains(problem), "{field} = {value}: {told}"),
            _ => panic!("{field} = {value}: {told:?}, expected {problem:?}"),
        }
    }
    for field in ["schema_version", "skill", "step", "reason", "items", "technical_failure", "occurred_at"] {
        let told = read(&summary(field, None)).unwrap_err();
        assert_eq!(told, SkipTrouble::Malformed(format!("{field} is missing")));
    }
}

#[test]
fn what_is_no_object_is_no_summary() {
    for text in ["", "{", "[]", "null", "7", "\"x\"", "{} x", "\u{feff}{}"] {
        assert!(matches!(read(text), Err(SkipTrouble::Malformed(_))), "{text:?}");
    }
    assert!(matches!(parse(SKILL, b"\xff\xfe{}", digest(b"")), Err(SkipTrouble::Malformed(_))));
    // An unknown version is reported as such, whatever the other fields are.
    assert_eq!(read("{\"schema_version\": 9}"), Err(SkipTrouble::Version(9)));
}

#[test]
fn a_summary_says_what_it_says() {
    let text = summary("", Some("0"));
    assert_eq!(
        read(&text),
        Ok(SkipReport {
            digest: digest(text.as_bytes()),
            step: SkipStep::Name("tier 3".to_owned()),
            reason: "nightly budget".to_owned(),
            items: vec!["cfp-1".to_owned(), "cfp-2".to_owned()],
            kind: SkipKind::Policy,
            occurred: crate::model::Timestamp::from_millis(1_777_622_400_000),
        })
    );
}

/// A data directory with the folder of the agent `a`.
fn place() -> (tempfile::TempDir, Paths, Folder) {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::find(Some(dir.path())).unwrap();
    let folder = Folder::new("a").unwrap();
    std::fs::create_dir_all(paths.group(&folder)).unwrap();
    (dir, paths, folder)
}

fn write(paths: &Paths, folder: &Folder, name: impl AsRef<Path>, text: &str) {
    std::fs::write(paths.group(folder).join(name), text).unwrap();
}

#[test]
fn only_plain_files_with_the_name_of_a_skill_are_read() {
    let (dir, paths, folder) = place();
    let group = paths.group(&folder);
    write(&paths, &folder, file_name(SKILL), &summary("", Some("0")));
    write(&paths, &folder, ".skip-summary-tessl__Bad.json", "{}");
    write(&paths, &folder, ".skip-summary-tessl__a.json.tmp", "{}");
    write(&paths, &folder, "..skip-summary-tessl__a.json.x7.tmp", "{}");
    write(&paths, &folder, "notes.md", "");
    write(&paths, &folder, ".skip-summary-tessl__huge.json", &" ".repeat(FILE_MAX as usize + 1));
    let outside = dir.path().join("outside");
    std::fs::write(&outside, summary("", Some("0"))).unwrap();
    std::os::unix::fs::symlink(&outside, group.join(file_name("tessl__link"))).unwrap();
    std::fs::hard_link(&outside, group.join(file_name("tessl__hard"))).unwrap();
    std::fs::create_dir(group.join(file_name("tessl__dir"))).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        group.join(file_name("tessl__fifo")),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let raw = OsString::from_vec(b".skip-summary-tessl__\xff.json".to_vec());
    write(&paths, &folder, raw, "{}");
    let found = find(&paths, &folder).unwrap();
    let line = |one: &FoundSkip| match &one.content {
        Ok(report) => format!("{}: {}", one.skill, report.reason),
        Err(trouble) => format!("{}: {trouble}", one.skill),
    };
    assert_eq!(
        found.skips.iter().map(line).collect::<Vec<_>>(),
        [
            "tessl__check-cfps: nightly budget",
            "tessl__dir: it is not a regular file",
            "tessl__fifo: it is not a regular file",
            "tessl__hard: it has 2 names (hard links)",
            "tessl__huge: it has 262145 bytes, at most 262144 are read",
            "tessl__link: it is a link, and links are not followed there",
        ]
    );
    assert_eq!(
        found.strange,
        [
            Strange::Temporary("..skip-summary-tessl__a.json.x7.tmp".to_owned()),
            Strange::NoSkill(".skip-summary-tessl__Bad.json".to_owned()),
            Strange::Temporary(".skip-summary-tessl__a.json.tmp".to_owned()),
            Strange::NoSkill(".skip-summary-tessl__\u{fffd}.json".to_owned()),
        ]
    );
    assert!(!found.cut);
    assert_eq!(find(&paths, &Folder::new("nobody").unwrap()).unwrap(), SkipDirectory::default());
}

#[test]
fn only_the_file_that_is_meant_is_removed() {
    let (_dir, paths, folder) = place();
    let (first, second) = (summary("step", Some("1")), summary("step", Some("2")));
    let gone = |text: &str| remove(&paths, &folder, SKILL, &digest(text.as_bytes())).unwrap();
    let there = || std::fs::read_to_string(paths.group(&folder).join(file_name(SKILL))).ok();
    write(&paths, &folder, file_name(SKILL), &second);
    gone(&first);
    assert_eq!(there().as_deref(), Some(second.as_str()), "another report stays");
    gone(&second);
    assert_eq!(there(), None);
    gone(&second);
    // Leftovers of an interrupted removal do no harm.
    let aside = format!(".{}.removed.tmp", file_name(SKILL));
    write(&paths, &folder, aside.clone(), &second);
    write(&paths, &folder, file_name(SKILL), &first);
    gone(&first);
    assert_eq!(there(), None);
    write(&paths, &folder, aside.clone(), &first);
    gone(&first);
    assert_eq!(there(), None);
    // The interrupted removal had moved another report away: that one is put back.
    write(&paths, &folder, aside, &second);
    gone(&first);
    assert_eq!(there().as_deref(), Some(second.as_str()));
    gone(&second);
    assert_eq!(std::fs::read_dir(paths.group(&folder)).unwrap().count(), 0);
    remove(&paths, &Folder::new("nobody").unwrap(), SKILL, &digest(b"")).unwrap();
}
