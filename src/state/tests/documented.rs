//! docs/store-format.md agrees with the code. With `HEARTH_UPDATE_DOCS=1` the test of tables and types
//! writes them.

use std::path::{Path, PathBuf};

use crate::envelope::seal_version;
use crate::hex::hex;
use crate::model::card::PromptSubject;
use crate::model::entity::Role;
use crate::model::group::StatePart;
use crate::model::id::{AgentId, ChatId, MessageId, QuestionId, SessionId};
use crate::model::recall::{RecallScope, SaidId};
use crate::model::session::Route;
use crate::model::time::Day;
use crate::model::workspace::{Discriminator, Fingerprint};
use crate::model::{Awake, ForeignId, Timestamp, Turn};
use crate::recall::keys::Term;
use crate::records::RECORDS;
use crate::tests::{samples, store};
use crate::{Digest, Error, ForeignKey, KeyPart, RouteKey, ScopeKey, Tables, Text, migrate};

mod types;

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/store-format.md")
}

fn document() -> String {
    std::fs::read_to_string(path()).unwrap()
}

/// Bytes in the form of the document: `01 2c`.
fn spaced(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

/// The examples and their bytes, from every row of the table below a heading that has both.
fn examples(document: &str, heading: &str) -> Vec<(String, String)> {
    let (_, section) = document.split_once(heading).unwrap();
    let section = section.split_once("\n#").map_or(section, |(section, _)| section);
    let rows = section.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        let [_, _, example, bytes] = cells[..] else { return None };
        let example = example.strip_prefix('`').and_then(|text| text.strip_suffix('`')).unwrap_or(example);
        Some((example.to_owned(), bytes.strip_prefix('`')?.strip_suffix('`')?.to_owned()))
    });
    rows.collect()
}

fn assert_examples(heading: &str, expected: &[(&str, Vec<u8>)]) {
    let expected: Vec<(String, String)> =
        expected.iter().map(|(example, bytes)| ((*example).to_owned(), spaced(bytes))).collect();
    assert_eq!(examples(&document(), heading), expected);
}

fn foreign(text: &str) -> ForeignKey {
    ForeignKey::of(&ForeignId::new("id", text).unwrap())
}

#[test]
fn parts_of_keys_are_encoded_as_the_document_says() {
    let none: Option<ForeignKey> = None;
    let thread = Route::PerThread(ChatId::new(1), Some(ForeignId::new("id", "7").unwrap()));
    assert_examples(
        "\n## Keys\n",
        &[
            ("()", ().to_bytes()),
            ("300", 300_u32.to_bytes()),
            ("300", 300_u64.to_bytes()),
            ("se300", SessionId::new(300).to_bytes()),
            ("1970-01-01T00:00:00.001Z", Timestamp::from_millis(1).to_bytes()),
            ("run 1, 5,000 ms", Awake::new(1, 5_000).to_bytes()),
            ("50a2ebab761da68d", Fingerprint::from_number(0x50a2_ebab_761d_a68d).to_bytes()),
            ("1", Discriminator(1).to_bytes()),
            ("of the empty text", Digest::of(b"").to_bytes()),
            ("main", Text::new("main").unwrap().to_bytes()),
            ("42", foreign("42").to_bytes()),
            ("97 times `x`", foreign(&"x".repeat(97)).to_bytes()),
            ("none", none.to_bytes()),
            ("chat `mg1`", RouteKey::Shared(ChatId::new(1)).to_bytes()),
            ("chat `mg1`, thread `7`", RouteKey::from(&thread).to_bytes()),
            ("all chats of an agent", RouteKey::AgentShared.to_bytes()),
            ("administrator of `ag1`", Role::AdminOf(AgentId::new(1)).to_bytes()),
            ("later", Turn::Later.to_bytes()),
            ("sessions", StatePart::Sessions.to_bytes()),
            ("question `qu9`", PromptSubject::Question(QuestionId::new(9)).to_bytes()),
            ("2026-04-20", Day::parse("2026-04-20").unwrap().to_bytes()),
            ("agent `ag1`", ScopeKey::Agent(AgentId::new(1)).to_bytes()),
            ("agent `ag1` in chat `mg2`", RecallScope::Chat(AgentId::new(1), Some(ChatId::new(2))).to_bytes()),
            ("message `ms3`", SaidId::Message(MessageId::new(3)).to_bytes()),
            ("main", Term::new("main").unwrap().to_bytes()),
        ],
    );
}

fn body(value: &impl serde::Serialize) -> Vec<u8> {
    seal_version(1, value).unwrap().split_off(7)
}

#[test]
fn bodies_of_records_are_encoded_as_the_document_says() {
    let refused: Result<u8, &str> = Err("no");
    assert_examples(
        "\n## Records\n",
        &[
            ("true", body(&true)),
            ("250", body(&250_u64)),
            ("251", body(&251_u64)),
            ("65536", body(&65_536_u64)),
            ("4294967296", body(&4_294_967_296_u64)),
            ("-3", body(&-3_i32)),
            ("Ada", body(&"Ada")),
            ("[1, 2]", body(&vec![1_u32, 2])),
            ("(1, true)", body(&(1_u32, true))),
            ("Some(7)", body(&Some(7_u32))),
            ("Err(\"no\")", body(&refused)),
            ("se300", body(&SessionId::new(300))),
            ("1 ms after 1970", body(&Timestamp::from_millis(1))),
            ("run 1, 9,000 ms", body(&Awake::new(1, 9_000))),
            ("192.168.1.20", body(&std::net::IpAddr::from([192, 168, 1, 20]))),
            ("127.0.0.1:8787", body(&std::net::SocketAddr::from(([127, 0, 0, 1], 8_787)))),
        ],
    );
}

/// A row of the worked example: its table, key and value.
fn example(block: &str) -> (String, String, String) {
    let mut lines = block.lines().map(|line| line.split('#').next().unwrap().trim());
    let table = lines.next().unwrap().to_owned();
    assert_eq!(lines.next(), Some("key"), "{table}");
    let bytes = lines.collect::<Vec<_>>().join("").replace(' ', "");
    let (key, value) = bytes.split_once("value").unwrap();
    (table, format!("0x{key}"), format!("0x{value}"))
}

#[test]
fn the_worked_example_has_the_bytes_of_the_store() {
    let document = document();
    let rows: Vec<_> =
        document.split("```hex\n").skip(1).map(|block| example(block.split("```").next().unwrap())).collect();
    assert_eq!(rows.len(), 4);
    let (_dir, store) = store();
    store.write(samples::fill).unwrap();
    for (table, key, value) in rows {
        let found = store
            .read(|db, txn| {
                let (_, rows) = db.all().find(|(about, _)| about.name == table).unwrap();
                rows.bytes().slice(txn, None, usize::MAX, usize::MAX)
            })
            .unwrap();
        let found: Vec<_> = found.iter().map(|(key, value)| (hex(key), hex(value))).collect();
        assert!(found.contains(&(key.clone(), value.clone())), "{table}: {key} = {value} is not among {found:#?}");
    }
}

#[test]
fn the_document_names_the_current_format_and_every_changed_record() {
    let document = document();
    assert!(document.contains(&format!("The current format of the store is {}.", migrate::FORMAT)));
    let (_, section) = document.split_once("\n### Versions\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let named: Vec<String> = section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split(" | ").take(2).collect())
        .collect();
    let changed: Vec<String> = RECORDS
        .iter()
        .filter(|(_, version)| *version > 1)
        .map(|(name, version)| format!("| `{name}`{version}"))
        .collect();
    assert_eq!(named, changed);
}

/// The types of a table's keys and values, from the list of tables.
fn types_of(name: &str) -> (&'static str, &'static str) {
    let schema = include_str!("../schema.rs");
    let declared = [format!(" as \"{name}\""), format!(" {name}")].into_iter().find_map(|declared| {
        let after = schema.split(declared.as_str()).skip(1);
        after.into_iter().find(|after| after.starts_with(": ") || after.starts_with(" basis "))
    });
    let (_, types) = declared.unwrap().split_once(": ").unwrap();
    let (key, rest) = types.split_once(" => ").unwrap();
    (key, rest.split(['{', ';', '\n']).next().unwrap().trim())
}

fn tables() -> String {
    let (_dir, store) = store();
    let rows = |db: &Tables| {
        let row = |(about, rows): (&crate::About, &dyn crate::untyped::Untyped)| {
            let (key, value) = types_of(about.name);
            let value = match rows.record() {
                Some((name, version)) => format!("record `{value}` (`{name}` {version})"),
                None => format!("`{value}`"),
            };
            format!("| `{}` | {} | `{key}` | {value} | {} |\n", about.name, about.kind.as_str(), about.purpose)
        };
        db.all().map(row).collect::<String>()
    };
    let rows = store.read(|db, _| Ok::<_, Error>(rows(db))).unwrap();
    format!("\n| table | kind | key | value | purpose |\n|---|---|---|---|---|\n{rows}\n")
}

/// The fields of every key with named parts, read from its declaration.
fn keys() -> String {
    let (mut rows, mut parts) = (String::new(), Vec::new());
    let row = |name: &str, parts: &[&str]| format!("| `{name}` | `{}` |\n", parts.join("`, `"));
    let mut name = None;
    for line in include_str!("../keys.rs").lines() {
        let declared = line.strip_prefix("    ").and_then(|line| line.strip_suffix(" {"));
        if let Some(declared) = declared.filter(|name| name.chars().all(char::is_alphanumeric)) {
            name = Some(declared);
        } else if let Some(part) = line.strip_prefix("        ").filter(|line| !line.starts_with('/')) {
            parts.extend(name.and(part.strip_suffix(',')));
        } else if line.starts_with("    }") {
            rows.extend(name.take().map(|name| row(name, &std::mem::take(&mut parts))));
        } else if let Some((name, rest)) = line.strip_prefix("key_parts!(").and_then(|line| line.split_once(" { ")) {
            rows.push_str(&row(name, &rest.split_once(" }").unwrap().0.split(", ").collect::<Vec<_>>()));
        }
    }
    format!("\n| key | parts |\n|---|---|\n{rows}\n")
}

/// Compares the text between two marks of the document with the expected text, or writes it if requested.
#[expect(clippy::disallowed_methods, reason = "a developer asks for the update by a variable")]
fn assert_generated(what: &str, generated: &str) {
    let (begin, end) = (format!("<!-- {what}: generated from "), format!("<!-- end of {what} -->"));
    let document = document();
    let begins = document.find(&begin).unwrap_or_else(|| panic!("the beginning of the {what}"));
    let begins = begins + document[begins..].find('\n').unwrap() + 1;
    let (shown, after) = document[begins..].split_once(&end).unwrap_or_else(|| panic!("the end of the {what}"));
    if shown == generated {
        return;
    }
    if std::env::var_os("HEARTH_UPDATE_DOCS").is_some() {
        std::fs::write(path(), format!("{}{generated}{end}{after}", &document[..begins])).unwrap();
        return;
    }
    let differs = shown.lines().zip(generated.lines()).find(|(shown, generated)| shown != generated);
    panic!(
        "the {what} of docs/store-format.md differ from the code; run this test with HEARTH_UPDATE_DOCS=1: {differs:?}"
    );
}

/// In one test, because each of them may write the document.
#[test]
fn the_document_lists_every_key_table_and_type() {
    assert_generated("keys", &keys());
    assert_generated("tables", &tables());
    assert_generated("types", &types::listed());
}
