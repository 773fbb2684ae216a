//! The store as JSON lines and back.

use proptest::prelude::{ProptestConfig, any, proptest};

use crate::backup::Unwatched;
use crate::lines::{Error, Import, Imported, export, import};
use crate::migrate::FORMAT;
use crate::model::id::{AgentId, BodyId, OutboundId};
use crate::tests::{recall, samples, small, store};
use crate::{Number, Store, Tables, Text, check};

fn exported(store: &Store) -> String {
    let mut out = Vec::new();
    export(store.reader(), &mut out, &Unwatched).unwrap();
    String::from_utf8(out).unwrap()
}

fn imported(text: &str, install: Option<u64>) -> (tempfile::TempDir, Result<Imported, Error>) {
    let dir = tempfile::tempdir().unwrap();
    let done = import(Import { data: dir.path(), install, epoch: 9 }, &mut text.as_bytes(), &|_| Ok(()), &Unwatched);
    (dir, done)
}

/// The rows of an export without what an import changes because it begins an epoch: the identity, and the next ids that
/// people and agents write down.
fn content(text: &str) -> Vec<&str> {
    let epoch = |line: &str| {
        let counter = |name| line.contains(&format!("\"table\":\"counters\",\"key\":[\"{name}\"]"));
        line.starts_with("{\"table\":\"meta\"")
            || line.starts_with("{\"end\"")
            || ["ap", "qu", "sk", "ta"].iter().any(counter)
    };
    text.lines().filter(|line| !epoch(line)).collect()
}

#[test]
fn what_was_exported_comes_back() {
    let (_dir, store) = store();
    store.write(samples::fill).unwrap();
    let text = exported(&store);
    let (dir, done) = imported(&text, None);
    assert_eq!(done.unwrap().install, 0x00c0_ffee);
    let other = Store::open(dir.path(), small()).unwrap();
    assert_eq!(content(&exported(&other)), content(&text));
    let (last, next) = (OutboundId::new(10), OutboundId::new(11));
    let [before, after] = [&store, &other].map(|store| store.read(|db, txn| db.meta.require(txn, &())).unwrap());
    assert_eq!((after.format, after.runs), (before.format, before.runs));
    assert_eq!(after.outgoing(last), before.outgoing(last), "what went out keeps its id");
    assert_ne!(after.outgoing(next), before.outgoing(next), "the number after it goes out as another one");
    assert!(other.read(check::check).unwrap().is_empty());
    for about in Tables::ABOUT {
        assert!(text.contains(&format!("\"{}\":", about.name)), "the last line counts {}", about.name);
    }
    let (dir, done) = imported(&text, Some(0xbeef));
    assert_eq!(done.unwrap().install, 0xbeef);
    assert_eq!(Store::open(dir.path(), small()).unwrap().install(), 0xbeef);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Whatever people write, and whatever numbers there are.
    #[test]
    fn export_import_export_is_export(
        rows in proptest::collection::btree_map("[^\u{0}]{1,40}", any::<u64>(), 0..40),
        said in any::<String>(),
    ) {
        let (_dir, store) = store();
        store.write(samples::fill).unwrap();
        store.write(|db, txn| {
            let mut body = db.bodies.require(txn, &BodyId::new(1))?;
            body.content.text.clone_from(&said);
            db.bodies.put(txn, &BodyId::new(1), &body)?;
            recall::index_again(db, txn)?;
            rows.iter().try_for_each(|(key, n)| db.counters.put(txn, &Text::new(format!("x{key}"))?, &Number(*n)))
        }).unwrap();
        let text = exported(&store);
        let (dir, done) = imported(&text, None);
        done.unwrap();
        let other = Store::open(dir.path(), small()).unwrap();
        assert_eq!(content(&exported(&other)), content(&text));
        assert!(other.read(check::check).unwrap().is_empty());
    }
}

/// Several batches, so that a failure late in the file has something to take back.
#[test]
fn long_exports_are_taken_in_batches() {
    let (_dir, store) = store();
    let key = |n: u64| Text::new(format!("x{n:05}")).unwrap();
    store.write(|db, txn| (0..3_210).try_for_each(|n| db.counters.put(txn, &key(n), &Number(n)))).unwrap();
    let text = exported(&store);
    let (dir, done) = imported(&text, None);
    assert_eq!(done.unwrap().rows, 3_211);
    assert_eq!(content(&exported(&Store::open(dir.path(), small()).unwrap())), content(&text));
    let bad = text.replace("x03000", "x03001");
    let (dir, done) = imported(&bad, None);
    assert!(matches!(done, Err(Error::Line { line: 3_003, .. })), "{done:?}");
    assert!(!dir.path().join("store").exists() && !dir.path().join("store.next").exists());
}

/// A line as it would be if it had been written that way.
fn resealed(line: &str) -> String {
    let (open, _) = line.rsplit_once(",\"sum\":\"").unwrap();
    super::super::lines::seal(&format!("{open}}}"))
}

#[test]
fn lines_that_are_wrong_are_named() {
    let (_dir, store) = store();
    store.write(samples::fill).unwrap();
    let text = exported(&store);
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| line.contains("\"table\":\"agents\"")).unwrap();
    let number = at + 1;
    let with = |change: &dyn Fn(&str) -> String| -> String {
        let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        lines[at] = change(&lines[at]);
        lines.join("\n") + "\n"
    };
    let changed = |from: &'static str, to: &'static str| with(&|line| resealed(&line.replacen(from, to, 1)));
    let cases = [
        (with(&|line| line.replacen("main", "mian", 1)), format!("line {number}: its checksum is wrong")),
        (with(&|_| "rubbish".to_owned()), format!("line {number}: its checksum is wrong")),
        (
            changed("\"version\":8", "\"version\":9"),
            format!("line {number}: its record has version 9, this Hearth supports"),
        ),
        (changed("\"table\":\"agents\"", "\"table\":\"agentz\""), format!("line {number}: unknown table `agentz`")),
        (changed("\"key_bytes\":\"00", "\"key_bytes\":\"0"), format!("line {number}: its key is not hex")),
        (changed("\"key_bytes\":\"00", "\"key_bytes\":\""), format!("line {number}: its key is not one of agents")),
        (changed("\"folder\":", "\"holder\":"), format!("line {number}: its value is not one of agents")),
        (changed("\"key\":", "\"novel\":1,\"key\":"), format!("line {number}: it is not a row")),
        (with(&|line| format!("{line}\n{line}")), format!("line {}: table agents already has a row ag1", number + 1)),
        (text.replacen(lines[at], "", 1).replace("\n\n", "\n"), "lines are missing or duplicated".to_owned()),
        (text.clone() + "{}\n", format!("line {}: there is more data after the last line", lines.len() + 1)),
        (String::new(), "cut off after line 0".to_owned()),
        (lines[..5].join("\n") + "\n", "cut off after line 5".to_owned()),
        (text.trim_end().to_owned(), format!("cut off after line {}", lines.len() - 1)),
        (text[..text.len() / 2].to_owned(), "cut off after line".to_owned()),
        (
            resealed(&lines[0].replace("export\":1", "export\":2")) + "\n",
            "line 1: the export was made by a newer".to_owned(),
        ),
        (
            resealed(&lines[0].replace(&format!("format\":{FORMAT}"), &format!("format\":{}", FORMAT + 1))) + "\n",
            "line 1: the export was made by a newer".to_owned(),
        ),
        ("{\"meta\":1}\n".to_owned(), "line 1: its checksum is wrong or missing".to_owned()),
    ];
    for (text, expected) in cases {
        let (dir, done) = imported(&text, None);
        let message = done.unwrap_err().to_string();
        assert!(message.contains(&expected), "{message}\n{expected}");
        assert!(!dir.path().join("store").exists() && !dir.path().join("store.next").exists(), "{expected}");
    }
    let swapped = text.replacen(lines[2], "swap", 1).replacen(lines[3], lines[2], 1).replacen("swap", lines[3], 1);
    assert!(imported(&swapped, None).1.unwrap_err().to_string().contains("lines were moved"));
}

#[test]
fn only_a_new_data_directory_takes_an_import() {
    let (dir, store) = store();
    let text = exported(&store);
    drop(store);
    let done =
        import(Import { data: dir.path(), install: None, epoch: 9 }, &mut text.as_bytes(), &|_| Ok(()), &Unwatched);
    assert!(done.unwrap_err().to_string().contains("already has a store"));
}

#[test]
fn what_is_broken_is_not_exported_and_not_taken_in() {
    let (_dir, store) = store();
    store.write(samples::fill).unwrap();
    store.write(|db, txn| db.agents_by_folder.set(txn, &Text::new("nobody")?, &AgentId::new(1))).unwrap();
    let (dir, done) = imported(&exported(&store), None);
    assert!(matches!(done, Err(Error::Unsound { .. })), "{done:?}");
    assert!(!dir.path().join("store").exists());
    store.write(|db, txn| db.agents.put_bytes(txn, &AgentId::new(1), b"rubbish!")).unwrap();
    let failed = export(store.reader(), &mut Vec::new(), &Unwatched).unwrap_err();
    assert!(failed.to_string().contains("the row ag1 of table agents is damaged"), "{failed}");
}
