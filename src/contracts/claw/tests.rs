use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::judge::{ClaimedPath, judge};
use super::*;
use crate::model::content::RawJson;
use crate::model::record::{RecordBody, SessionRecord, SpeakerRole};
use crate::model::session::{Compaction, SessionLabel, SessionSource};
use crate::model::take_in::{FileSession, SessionHead};
use crate::model::time::Timestamp;
use crate::model::workspace::Fingerprint;

const META: &str = r#"{"created_at_ms":5,"session_id":"a","type":"session_meta","updated_at_ms":9,"version":1}"#;
const SAID: &str = r#"{"message":{"blocks":[{"text":"hi","type":"text"}],"role":"user"},"type":"message"}"#;

fn read_bytes(bytes: &[u8]) -> Result<FileSession, Damage> {
    decode(bytes, "file-name", Timestamp::from_millis(777))
}

fn read_text(text: &str) -> FileSession {
    read_bytes(text.as_bytes()).unwrap()
}

fn again(session: &FileSession) -> String {
    encode(&session.head, &session.records)
}

#[test]
fn a_file_that_was_written_here_is_written_again_byte_for_byte() {
    let file = concat!(
        r#"{"created_at_ms":1795231871315,"fork":{"branch_name":"b 1","parent_session_id":"p"},"model":"anthropic/claude-opus-4-7","#,
        r#""session_id":"session-1795231871316-0","type":"session_meta","updated_at_ms":1795231876455,"version":1,"workspace_root":"/w2"}"#,
        "\n",
        r#"{"count":1,"removed_message_count":4,"summary":"They met.","type":"compaction"}"#,
        "\n",
        r#"{"text":"hello one","timestamp_ms":1795231876385,"type":"prompt_history"}"#,
        "\n",
        r#"{"message":{"blocks":[{"text":"h🦞\n\u007f","type":"text"}],"role":"user"},"type":"message"}"#,
        "\n",
        r#"{"message":{"blocks":[{"signature":"sig-123","thinking":"hm","type":"thinking"},"#,
        r#"{"id":"t1","input":"{\"a\":1}","name":"bash","type":"tool_use"}],"role":"assistant","#,
        r#""usage":{"cache_creation_input_tokens":1,"cache_read_input_tokens":2,"input_tokens":10,"output_tokens":4}},"type":"message"}"#,
        "\n",
        r#"{"message":{"blocks":[{"is_error":false,"output":"x","tool_name":"bash","tool_use_id":"t1","type":"tool_result"}],"role":"tool"},"type":"message"}"#,
        "\n",
    );
    let session = read_text(file);
    assert_eq!(again(&session), file);
    assert_eq!((session.records.len(), session.head.created.millis()), (4, 1_795_231_871_315));
    assert_eq!(session.head.source.root.as_deref(), Some(b"/w2".as_slice()));
    assert!(!session.head.source.from_name);
}

#[test]
fn what_only_its_maker_knows_is_written_back() {
    let file = concat!(
        r#"{"created_at_ms":5,"fork":{"depth":2.50,"parent_session_id":"p"},"session_id":"a","type":"session_meta","updated_at_ms":9,"version":1,"zoo":{"b":{},"c":[]}}"#,
        "\n",
        r#"{"by":"me","count":1,"removed_message_count":0,"summary":"s","type":"compaction"}"#,
        "\n",
        r#"{"lang":"de","text":"t","timestamp_ms":3,"type":"prompt_history"}"#,
        "\n",
        r#"{"at":1,"message":{"blocks":[{"cache":{"x":1e3},"text":"hi","type":"text"},{"type":"image","url":"u"}],"mood":null,"role":"user"},"type":"message"}"#,
        "\n",
        r#"{"anything":[1,2.0,18446744073709551616],"type":"health"}"#,
        "\n",
        r#"{"text":"no time","type":"prompt_history"}"#,
        "\n",
    );
    assert_eq!(again(&read_text(file)), file);
}

#[test]
fn every_way_of_writing_a_file_is_read() {
    let surrogates = SAID.replace("hi", "\\ud83e\\udd9e");
    let lobster = read_text(&format!("{META}\n{surrogates}\n"));
    assert!(again(&lobster).contains("🦞"));
    let plain = read_text(&format!("{META}\n{SAID}\n"));
    for same in [
        format!("{META}\r\n{SAID}\r\n"),
        format!("\u{feff}{META}\n{SAID}\n"),
        format!("\n  {META}  \n\n{SAID}"),
        format!("{SAID}\n{META}\n"),
        format!(
            "{}\n{META}\n{SAID}\n",
            META.replace(":5,", ":6,").replace("\"version\"", "\"model\":\"m\",\"version\"")
        ),
        format!("{}\n{SAID}\n", META.replace(":9,", ":9.0,").replace(":5,", ":0.5e1,")),
        format!("{}\n{SAID}\n", META.replace(":5,", ":5,\"model\":null,\"fork\":null,")),
    ] {
        assert_eq!(read_text(&same), plain, "{same}");
    }
    let whole = r#"{"version":1,"session_id":"a","created_at_ms":5,"updated_at_ms":9,
        "messages":[{"role":"user","blocks":[{"type":"text","text":"hi"}]}]}"#;
    assert_eq!(read_text(whole), plain);
}

#[test]
fn an_identity_comes_from_the_file_then_from_its_name_and_never_from_now() {
    let whole = |rest: &str| format!(r#"{{"version":1,"messages":[]{rest}}}"#);
    for (text, stem, label, (created, updated), from_name) in [
        (String::new(), "x", "x", (777, 777), true),
        (
            SAID.to_owned(),
            "session-1743724800123-0",
            "session-1743724800123-0",
            (1_743_724_800_123, 1_743_724_800_123),
            true,
        ),
        (whole(""), "../x y", "x-y", (777, 777), true),
        (whole(r#","session_id":"session-44-0""#), "x", "session-44-0", (44, 44), false),
        (whole(r#","created_at_ms":3,"updated_at_ms":4"#), "x", "x", (3, 4), true),
        (META.replace("\"created_at_ms\":5,", ""), "x", "a", (777, 9), false),
        (
            META.replace("\"created_at_ms\":5,", "").replace("\"a\"", "\"session-1743724800123-0\""),
            "x",
            "session-1743724800123-0",
            (1_743_724_800_123, 9),
            false,
        ),
        (META.replace("\"a\"", "\"../../evil\""), "kept", "kept", (5, 9), false),
        (META.replace("\"a\"", "\"latest\""), "latest", "file-latest-", (5, 9), false),
    ] {
        let head = decode(text.as_bytes(), stem, Timestamp::from_millis(777)).unwrap().head;
        assert_eq!(head.label.as_str(), label, "{text}");
        assert_eq!((head.created.millis(), head.updated.millis()), (created, updated), "{text}");
        assert_eq!(head.source.from_name, from_name, "{text}");
        assert_eq!(head.source.id.is_some(), text.contains("evil") || text.contains("latest"), "{text}");
    }
}

#[test]
fn damage_names_its_line_and_what_can_be_read() {
    let line = |bad: &str| format!("{META}\n{SAID}\n{bad}\n{SAID}\n");
    for (text, at, why, recoverable) in [
        (line("{\"type\":"), Some(3), "it ends too early", 2),
        (line("nonsense"), Some(3), "an unknown word at byte 0", 2),
        (line("[]"), Some(3), "it is not an object", 2),
        (line("{}"), Some(3), "the record has no type", 2),
        (line(r#"{"type":"message"}"#), Some(3), "message is missing", 2),
        (line(r#"{"type":"message","message":{"blocks":[],"role":"boss"}}"#), Some(3), "`boss` is not a role", 2),
        (line(r#"{"type":"message","message":{"blocks":[]}}"#), Some(3), "role is missing", 2),
        (line(r#"{"type":"message","message":{"role":"user"}}"#), Some(3), "blocks is missing", 2),
        (line(&SAID.replace("\"text\":\"hi\",", "")), Some(3), "text is missing in a block of type text", 2),
        (line(&SAID.replace(",\"type\":\"text\"", "")), Some(3), "the type of a block is missing", 2),
        (line(r#"{"type":"compaction","count":1}"#), Some(3), "removed_message_count is missing", 2),
        (line(r#"{"type":"compaction","count":-1}"#), Some(3), "count is out of range", 2),
        (META.replace("\"version\":1", "\"x\":1"), Some(1), "version is missing", 0),
        (META.replace("\"updated_at_ms\":9", "\"x\":1"), Some(1), "updated_at_ms is missing", 0),
        (META.replace(":5,", ":-5,"), Some(1), "created_at_ms is out of range", 0),
        (META.replace("\"version\":1", "\"version\":1.5"), Some(1), "version is out of range", 0),
        ("{\"version\":1,\"mess".to_owned(), Some(1), "it ends too early", 0),
        ("{\"version\":1}".to_owned(), Some(1), "the record has no type", 0),
        (
            r#"{"messages":[{"role":"user","blocks":[]},7],"version":1}"#.to_owned(),
            None,
            "message 2: message has to be an object",
            1,
        ),
        (r#"{"messages":7,"version":1}"#.to_owned(), None, "messages has to be a list", 0),
        (r#"{"messages":[]}"#.to_owned(), None, "version is missing", 0),
    ] {
        let damage = read_bytes(text.as_bytes()).unwrap_err();
        assert_eq!(damage, Damage::Record { line: at, why: why.to_owned(), recoverable }, "{text}");
    }
    let broken = [META.as_bytes(), b"\n", SAID.as_bytes(), b"\n{\"a\":\"\xff\"}\n", SAID.as_bytes(), b"\n"].concat();
    let damage = read_bytes(&broken).unwrap_err().to_string();
    assert_eq!(damage, "line 3: it is not UTF-8 from byte 6 on; 2 records of it can be read");
}

#[test]
fn a_line_that_was_torn_off_is_kept_beside_what_is_whole() {
    let lobster = SAID.replace("hi", "🦞");
    for cut in 1..lobster.len() {
        let torn = &lobster.as_bytes()[..cut];
        let session = read_bytes(&[META.as_bytes(), b"\n", SAID.as_bytes(), b"\n", torn].concat()).unwrap();
        assert_eq!((session.records.len(), session.head.source.torn_tail.as_deref()), (1, Some(torn)), "{cut}");
    }
    let secret = read_text(&format!("{META}\n{{\"text\":\"XAI_API_KEY=abc"));
    assert_eq!(secret.head.source.torn_tail.as_deref(), Some(b"{\"text\":\"XAI_API_KEY=[redacted]".as_slice()));
}

#[test]
fn a_line_that_is_too_long_is_an_error_of_its_own() {
    let mut file = format!("{META}\n").into_bytes();
    file.resize(file.len() + LINE_MAX, b' ');
    assert_eq!(read_bytes(&file), Err(Damage::LineTooLong { line: 2, bytes: LINE_MAX }));
}

#[test]
fn newer_versions_are_read_and_tell_so() {
    assert_eq!(read_text(&META.replace("\"version\":1", "\"version\":99")).version, 99);
}

#[test]
fn secrets_and_long_texts_never_come_in() {
    let long = format!("OPENAI_API_KEY=abc {}", "x".repeat(20_000));
    let file = format!(
        "{META}\n{}\n{}\n{}\n",
        r#"{"text":"sk-ant-1 x","timestamp_ms":1,"type":"prompt_history"}"#,
        r#"{"message":{"blocks":[{"id":"t","input":"Authorization: Bearer abc","name":"n","type":"tool_use"}],"role":"assistant"},"type":"message"}"#,
        format_args!(
            r#"{{"message":{{"blocks":[{{"is_error":false,"output":"{long}","tool_name":"n","tool_use_id":"t","type":"tool_result"}},{{"type":"other","key":"sk-ant-2"}}],"role":"tool"}},"type":"message"}}"#
        ),
    );
    let session = read_text(&file);
    let once = again(&session);
    for secret in ["abc", "sk-ant-1", "sk-ant-2"] {
        assert!(!once.contains(secret) && !format!("{session:?}").contains(secret), "{secret}");
    }
    assert!(once.contains("… [truncated for session JSONL]\""));
    let mut text = once.clone();
    for _ in 0..5 {
        text = again(&read_text(&text));
        assert_eq!(text, once);
    }
}

#[test]
fn a_root_that_is_no_text_is_written_so_that_it_can_be_read() {
    let mut session = read_text(META);
    session.head.source.root = Some(b"/tmp/\xff".to_vec());
    let text = again(&session);
    assert!(text.contains("\"workspace_root\":\"/tmp/\u{fffd}\",\"workspace_root_bytes\":\"L3RtcC//\""), "{text}");
    assert_eq!(read_text(&text), session);
}

/// Combinations of a file's location and the workspace it names. `/w` is the workspace, which was `/old` before; `/v`
/// is another one.
#[test]
fn files_are_judged_by_what_they_name_and_where_they_lie() {
    let home = Home { path: "/w".into(), also: vec!["/old".into()] };
    let (own, old, other) = (Fingerprint::of_path(b"/w"), Fingerprint::of_path(b"/old"), Fingerprint::of_path(b"/v"));
    let flat = "/w/.claw/sessions/a.jsonl".to_owned();
    let partition = format!("/w/.claw/sessions/{own}/a.jsonl");
    for (case, file, root, verdict) in [
        ("flat, names this workspace", &flat, Some("/w"), "ok"),
        ("flat, names none", &flat, None, "ok"),
        ("flat, names another workspace", &flat, Some("/v"), "/w /v"),
        ("flat, names a directory below", &flat, Some("/w/sub"), "/w /w/sub"),
        ("flat, names a directory above", &flat, Some("/"), "/w /"),
        ("flat, names a directory that is gone", &flat, Some("/gone"), "/w /gone"),
        ("in its own partition, names another workspace", &partition, Some("/v"), "/w /v"),
        ("in its own partition, names none", &partition, None, "ok"),
        ("in its own partition, names a relative path", &partition, Some("."), "/w ."),
        ("in another workspace, names this one", &"/v/.claw/sessions/a.jsonl".to_owned(), Some("/w"), "ok"),
        ("in another workspace, names none", &"/v/.claw/sessions/a.jsonl".to_owned(), None, "unbound"),
        (
            "in a directory whose name begins like this workspace's, names none",
            &"/w2/a.jsonl".to_owned(),
            None,
            "unbound",
        ),
        (
            "in the partition of another workspace, names none",
            &format!("/w/.claw/sessions/{other}/a.jsonl"),
            None,
            "partition",
        ),
        (
            "in the partition of another workspace, names that one",
            &format!("/w/.claw/sessions/{other}/a.jsonl"),
            Some("/v"),
            "/w /v",
        ),
        ("copied with its directory, names where it was", &partition, Some("/original"), "/w /original"),
        ("names where the workspace was before it moved", &partition, Some("/old"), "ok"),
        (
            "in the partition that the workspace had before it moved",
            &format!("/w/.claw/sessions/{old}/a.jsonl"),
            None,
            "ok",
        ),
        ("anywhere below this workspace, names none", &"/w/exports/a.jsonl".to_owned(), None, "ok"),
    ] {
        let root = root.map(PathBuf::from);
        let place = ClaimedPath { file: file.into(), written: root.clone(), root };
        let said = match judge(&home, &place) {
            Ok(()) => "ok".to_owned(),
            Err(Unfit::Mismatch { expected, actual }) => format!("{} {}", expected.display(), actual.display()),
            Err(Unfit::Unbound { .. }) => "unbound".to_owned(),
            Err(Unfit::OtherPartition { partition, .. }) => {
                assert_eq!(partition, other.to_string());
                "partition".to_owned()
            }
        };
        assert_eq!(said, verdict, "{case}");
    }
}

fn put(path: &Path, bytes: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn files_are_found_with_their_older_states_and_opened_without_links() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let home = Home { path: place.join("w"), also: Vec::new() };
    let own = Fingerprint::of_path(home.path.as_os_str().as_encoded_bytes());
    let (flat, data) = (home.path.join(".claw/sessions"), place.join("data"));
    let partition = flat.join(own.to_string());
    for name in [
        "b.jsonl",
        "b.rot-20.jsonl",
        "b.rot-3.jsonl",
        "b.jsonl.before-clear-9.bak",
        "b.json",
        "b.jsonl.tmp-1-0",
        "notes.txt",
    ] {
        put(&partition.join(name), "");
    }
    put(&flat.join("flat.json"), "");
    put(&flat.join("gone.rot-5.jsonl"), "");
    put(&flat.join("0000000000000000/x.jsonl"), "");
    put(&data.join(format!("sessions/{own}/d.jsonl")), "");
    let found = find(&home, Some(&data)).unwrap();
    let names: Vec<_> = found.files.iter().map(|file| file.path.file_name().unwrap().to_str().unwrap()).collect();
    let order = [
        "b.json",
        "b.rot-3.jsonl",
        "b.jsonl.before-clear-9.bak",
        "b.rot-20.jsonl",
        "b.jsonl",
        "flat.json",
        "gone.rot-5.jsonl",
        "d.jsonl",
    ];
    assert_eq!(names, order);
    assert!(found.files[1..5].iter().all(|file| file.owner == partition.join("b.jsonl")));
    assert_eq!(found.others, [flat.join("0000000000000000")]);
    assert_eq!(find(&Home { path: place.join("none"), also: Vec::new() }, None).unwrap(), WorkspaceScan::default());

    put(
        &flat.join("bound.jsonl"),
        META.replace("\"version\"", &format!("\"workspace_root\":\"{}/../w\",\"version\"", home.path.display())),
    );
    put(&flat.join("new.jsonl"), META.replace("\"version\":1", "\"version\":2"));
    put(&flat.join("bad.jsonl"), "{}");
    put(&place.join("outside.jsonl"), META);
    std::os::unix::fs::symlink(place.join("outside.jsonl"), flat.join("link.jsonl")).unwrap();
    for (file, code) in [
        (flat.join("bound.jsonl"), "ok"),
        (flat.join("flat.json"), "ok"),
        (flat.join("none.jsonl"), "session_not_found"),
        (place.join("nowhere/none.jsonl"), "session_not_found"),
        (flat.clone(), "session_path_is_directory"),
        (flat.join("link.jsonl"), "session_path_is_link"),
        (flat.join("new.jsonl"), "session_version_newer"),
        (flat.join("bad.jsonl"), "session_corrupt"),
        (place.join("outside.jsonl"), "legacy_session_no_workspace_binding"),
        ("/dev/null".into(), "session_unreadable"),
    ] {
        assert_eq!(
            read(&file, &home).and_then(|file| file.session).map_or_else(|trouble| trouble.code(), |_| "ok"),
            code,
            "{}",
            file.display()
        );
    }
}

#[test]
fn a_file_is_written_whole_and_only_where_it_may_be() {
    let place = tempfile::tempdir().unwrap();
    let (file, link) = (place.path().join("a.jsonl"), place.path().join("l.jsonl"));
    write(&file, b"1", OverwriteRule::New).unwrap();
    assert!(write(&file, b"2", OverwriteRule::New).unwrap_err().to_string().contains("--force"));
    write(&file, b"3", OverwriteRule::Any).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert!(write(&link, b"4", OverwriteRule::Any).unwrap_err().to_string().contains("it is a link"));
    assert!(write(place.path(), b"4", OverwriteRule::Any).is_err());
    assert_eq!(std::fs::read(&file).unwrap(), b"3");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 2);
}

fn any_text() -> impl Strategy<Value = String> {
    let odd = "[\u{0}-\u{20}\"\\\\\u{7f}-\u{a0}\u{2028}🦞a]{0,12}";
    prop_oneof![odd, "XAI_API_KEY=[a-z]{0,3}", Just("sk-ant-x y".to_owned())].prop_map(|text| sanitize::sanitize(&text))
}

fn any_record() -> impl Strategy<Value = SessionRecord> {
    let block = prop_oneof![
        any_text().prop_map(|text| serde_json::json!({"type": "text", "text": text})),
        (any_text(), any_text()).prop_map(|(a, b)| serde_json::json!({"type": "thinking", "thinking": a, "signature": b})),
        (any_text(), any::<bool>()).prop_map(|(text, flag)| {
            serde_json::json!({"type": "tool_result", "tool_use_id": "t", "tool_name": "n", "output": text, "is_error": flag})
        }),
        any::<i64>().prop_map(|number| serde_json::json!({"type": "unheard-of", "of": [number, null]})),
    ];
    let role = proptest::sample::select(vec![
        SpeakerRole::System,
        SpeakerRole::User,
        SpeakerRole::Assistant,
        SpeakerRole::Tool,
    ]);
    let canonical =
        |value: &serde_json::Value| RawJson::trusted(json::write(&json::parse(&value.to_string()).unwrap()));
    let message = (role, proptest::collection::vec(block, 0..3), any::<Option<u32>>(), any::<bool>());
    let message = message.prop_map(move |(role, blocks, usage, extra)| {
        let usage = usage.map(|n| {
            canonical(&serde_json::json!({"input_tokens": n, "output_tokens": 1,
                "cache_read_input_tokens": 2, "cache_creation_input_tokens": 3}))
        });
        let blocks = canonical(&serde_json::Value::Array(blocks));
        let body = RecordBody::Message { role, blocks, usage, ends_turn: None };
        let extra = extra.then(|| RawJson::trusted("{\"message\":{\"x\":{}},\"y\":1.50}".to_owned()));
        SessionRecord { at: Timestamp::from_millis(9), body, extra }
    });
    let foreign = Just(RecordBody::Foreign(RawJson::trusted("{\"n\":-0,\"type\":\"z\"}".to_owned())));
    let foreign = foreign.prop_map(|body| SessionRecord { at: Timestamp::from_millis(9), body, extra: None });
    prop_oneof![4 => message, 1 => foreign]
}

fn any_prompt() -> impl Strategy<Value = SessionRecord> {
    let prompt = (0..i64::MAX, any_text().prop_filter("nothing", |text| !text.is_empty()));
    prompt.prop_map(|(ms, text)| SessionRecord {
        at: Timestamp::from_millis(ms),
        body: RecordBody::Prompt(text),
        extra: None,
    })
}

fn any_session() -> impl Strategy<Value = FileSession> {
    let compaction = proptest::option::of((any::<u32>(), any::<u64>(), any_text()));
    let parent = proptest::option::of((any_text(), proptest::option::of("[a-z]{1,4}")));
    let records = (proptest::collection::vec(any_prompt(), 0..3), proptest::collection::vec(any_record(), 0..6));
    let root = proptest::option::of(proptest::collection::vec(any::<u8>(), 1..9));
    ((0..i64::MAX, compaction, parent), (records, root, proptest::option::of(any_text()))).prop_map(
        |((created, compaction, parent), ((prompts, others), root, model))| FileSession {
            version: VERSION,
            head: SessionHead {
                label: SessionLabel::new("a-1").unwrap(),
                model,
                created: Timestamp::from_millis(created),
                updated: Timestamp::from_millis(9),
                parent,
                compaction: compaction.map(|(count, removed, summary)| Compaction { count, removed, summary }),
                source: SessionSource {
                    path: Vec::new(),
                    id: None,
                    from_name: false,
                    root,
                    torn_tail: None,
                    extra: None,
                },
            },
            records: prompts.into_iter().chain(others).collect(),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_is_written_is_read_again(session in any_session()) {
        let text = again(&session);
        prop_assert_eq!(&read_text(&text), &session);
        prop_assert_eq!(again(&read_text(&text)), text.clone());
        // The lines are also valid JSON for other parsers.
        for line in text.lines() {
            prop_assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{}", line);
        }
    }

    #[test]
    fn bytes_are_a_session_or_damaged_at_a_place(
        bytes in proptest::collection::vec(any::<u8>(), 0..200), stem in ".{0,20}",
    ) {
        let lines = u64::try_from(bytes.split(|b| *b == b'\n').count()).unwrap();
        match decode(&bytes, &stem, Timestamp::from_millis(0)) {
            Ok(session) => prop_assert_eq!(read_text(&again(&session)).records, session.records),
            Err(Damage::Record { line, why, recoverable }) => {
                prop_assert!(!why.is_empty() && recoverable <= lines);
                prop_assert!(line.is_none_or(|line| (1..=lines).contains(&line)), "{:?} of {}", line, lines);
            }
            Err(Damage::LineTooLong { .. }) => prop_assert!(false, "none is that long"),
        }
    }

    #[test]
    fn no_lines_are_too_strange(pieces in proptest::collection::vec(proptest::sample::select(vec![
        META, SAID, "{", "}", "\n", "\"", "\\u", "d83e", ":", ",", "[", "]", "1e", "-", "null", "\"messages\"", "\"type\"",
        "\"message\"", "\"blocks\"", "\u{feff}", "\r", "🦞",
    ]), 0..30)) {
        if let Ok(session) = read_bytes(pieces.concat().as_bytes()) {
            let text = again(&session);
            prop_assert_eq!(again(&read_text(&text)), text);
        }
    }
}
