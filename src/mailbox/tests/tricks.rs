//! Everything an agent can plant in its half. Each trick is reported once, disappears with the discard, and affects
//! nothing outside.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::json;

use crate::model::mailbox::{Answer, Record};

use super::{Place, SECRET, SESSION, ack, fifo, lines, names, said, said_with, unreadable};

const LINK: &str = "it is a symbolic link";

#[test]
fn directories_that_are_links() {
    for (path, target) in
        [("ack", "directory"), ("out", "directory"), ("out/files", "directory"), ("ack", "secret.json")]
    {
        let place = Place::new();
        fs::remove_dir_all(place.agent(path)).unwrap();
        symlink(place.outside().join(target), place.agent(path)).unwrap();
        place.assert_reported_once(path, LINK);
        // The agent can still work.
        assert!(fs::symlink_metadata(place.agent(path)).unwrap().is_dir());
        place.write("ack/4.1.processing.json", ack(4, 1, "processing", &[]));
        assert_eq!(lines(&place.found()), ["claim 4 by 1"]);
    }
}

#[test]
fn directories_that_are_something_else() {
    for path in ["ack", "out", "out/files"] {
        let place = Place::new();
        fs::remove_dir_all(place.agent(path)).unwrap();
        fs::write(place.agent(path), "x").unwrap();
        place.assert_reported_once(path, "it is a file, not a directory");
        fs::remove_dir_all(place.agent(path)).unwrap();
        fifo(&place.agent(path));
        place.assert_reported_once(path, "it is a FIFO");
        fs::remove_dir_all(place.agent(path)).unwrap();
        assert_eq!(place.found(), [], "a missing directory is an empty one");
        assert_eq!(place.rest(1).collection.closes, Some(1));
    }
}

#[test]
fn export_does_not_go_through_links_of_the_agent() {
    let place = Place::new();
    for path in ["out/files", "out", "ack"] {
        fs::remove_dir_all(place.agent(path)).unwrap();
        symlink(place.outside().join("directory"), place.agent(path)).unwrap();
        place.mailboxes.prepare(SESSION).unwrap();
    }
    place.assert_outside_untouched();
}

#[test]
fn files_that_are_links() {
    for (file, target) in [
        ("ack/4.1.completed.json", "directory/4.1.completed.json"),
        ("out/a.json", "directory/a.json"),
        ("out/a.json", "secret.json"),
        ("out/a.json", "directory"),
        ("out/a.json", "nowhere"),
    ] {
        let place = Place::new();
        symlink(place.outside().join(target), place.agent(file)).unwrap();
        place.assert_reported_once(file, LINK);
        assert!(fs::symlink_metadata(place.agent(file)).is_err());
    }
}

#[test]
fn files_with_a_second_name() {
    let place = Place::new();
    for file in ["ack/4.1.completed.json", "out/a.json"] {
        fs::hard_link(place.outside().join("secret.json"), place.agent(file)).unwrap();
        place.assert_reported_once(file, "it has 2 names (hard links)");
    }
    assert_eq!(fs::read_to_string(place.outside().join("secret.json")).unwrap(), SECRET);
}

#[test]
fn fifos_and_sockets_do_not_block() {
    let place = Place::new();
    for file in ["ack/4.1.completed.json", "out/a.json"] {
        fifo(&place.agent(file));
        place.assert_reported_once(file, "it is a FIFO");
        let socket = std::os::unix::net::UnixListener::bind(place.agent(file)).unwrap();
        place.assert_reported_once(file, "it is a socket");
        drop(socket);
    }
    for file in ["state.json", "heartbeat", "session.json"] {
        fifo(&place.agent(file));
    }
    let sight = place.mailboxes.observe(SESSION, 1).unwrap().unwrap();
    assert_eq!(place.mailboxes.note(sight, true), None);
    assert!(place.mailboxes.continuations(SESSION).unwrap().is_empty());
}

#[test]
fn directories_named_like_files() {
    let place = Place::new();
    for file in ["ack/4.1.completed.json", "out/a.json"] {
        place.write(&format!("{file}/deep/er/file"), "x");
        symlink(place.outside(), place.agent(file).join("deep/link")).unwrap();
        place.assert_reported_once(file, "it is a directory, not a file");
        assert!(!place.agent(file).exists());
    }
}

#[test]
fn files_without_rights() {
    // Root may read everything, so for root these files are valid.
    let place = Place::new();
    place.write("out/a.json", said("a", 1, 5, false));
    fs::set_permissions(place.agent("out/a.json"), fs::Permissions::from_mode(0o0)).unwrap();
    if fs::read(place.agent("out/a.json")).is_err() {
        place.assert_reported_once("out/a.json", "it may not be opened");
    }
}

#[test]
fn directories_without_rights() {
    let place = Place::new();
    place.write("ack/4.1.processing.json", ack(4, 1, "processing", &[]));
    place.write("out/a.json/full/x", "x");
    for (path, mode) in
        [("out/a.json/full", 0), ("out/a.json", 0o555), ("out/files", 0), ("out", 0o555), ("ack", 0), ("", 0)]
    {
        fs::set_permissions(place.agent(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    let collected = place.collect();
    assert_eq!(lines(&collected.collection.found), ["unreadable out/a.json", "claim 4 by 1"]);
    place.discard(&collected.collection);
    assert_eq!(place.rest(1).collection.closes, Some(1));
    assert_eq!(names(&place.agent("out")), ["files"]);
}

#[test]
fn too_much_of_everything() {
    let place = Place::new();
    let reason = "it has 2097152 bytes, at most 1048576 are read";
    for file in ["ack/4.1.completed.json", "out/a.json"] {
        place.write(file, vec![b' '; 2 * 1024 * 1024]);
        place.assert_reported_once(file, reason);
        // A huge sparse file that uses no disk space.
        fs::File::create(place.agent(file)).unwrap().set_len(1 << 40).unwrap();
        place.assert_reported_once(file, "it has 1099511627776 bytes, at most 1048576 are read");
    }
    let blown_up = format!(r#"{{"text":[{}1e15]}}"#, "1e15,".repeat(200_000));
    let whole = said_with("a", 1, 5, json!({})).replace(r#"{"text":"text of a"}"#, &blown_up);
    place.write("out/a.json", &whole);
    place.assert_reported_once("out/a.json", "the content is too large when written out");
}

#[test]
fn broken_json() {
    let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
    let bomb = said_with("a", 1, 5, json!({})).replace(r#""text of a""#, &deep);
    for (text, reason) in [
        ("", "it is not JSON: EOF while parsing a value at line 1 column 0"),
        ("null", "it is not a JSON object"),
        ("[]", "it is not a JSON object"),
        ("{}", "it has no wire version"),
        (r#"{"v":"1"}"#, "it has no wire version"),
        (r#"{"v":2}"#, "it has wire version 2, this Hearth understands 1"),
        (r#"{"v":0}"#, "it has wire version 0, this Hearth understands 1"),
        (r#"{"v":1}"#, "missing field `id`"),
        (r#"{"v":1"#, "it is not JSON: EOF while parsing an object at line 1 column 6"),
        ("{\"v\":1}\0", "it is not JSON: trailing characters at line 1 column 8"),
        ("\u{feff}{}", "it is not JSON: expected value at line 1 column 1"),
        (&deep, "it is not JSON: recursion limit exceeded at line 1 column 128"),
        (&bomb, "it is not JSON: recursion limit exceeded at line 1 column 145"),
    ] {
        let place = Place::new();
        place.write("out/a.json", text);
        place.assert_reported_once("out/a.json", reason);
    }
}

#[test]
fn reasons_do_not_carry_what_the_agent_likes() {
    let place = Place::new();
    let text = said_with("a", 1, 5, json!({ "kind": format!("\u{1b}[31m\n{}", "x".repeat(100_000)) }));
    place.write("out/a.json", text);
    let found = place.found();
    let (_, reason) = &unreadable(&found)[0];
    assert!(reason.chars().count() <= 201 && !reason.chars().any(char::is_control), "{reason}");
}

#[test]
fn content_that_contradicts_the_name() {
    for (name, text) in [
        ("ack/4.1.completed.json", ack(6, 1, "completed", &[])),
        ("ack/4.1.completed.json", ack(4, 2, "completed", &[])),
        ("ack/4.1.completed.json", ack(4, 1, "failed", &[])),
        ("out/a.json", said("b", 1, 5, false)),
    ] {
        let place = Place::new();
        place.write(name, text);
        place.assert_reported_once(name, "name and content differ");
    }
}

#[test]
fn names_that_are_none() {
    let not_an_ack = "its name is not that of an ack";
    for (name, shown) in [
        (b"04.1.completed.json".as_slice(), "04.1.completed.json"),
        (b"4.1.done.json", "4.1.done.json"),
        (b"4.1.completed.json ", "4.1.completed.json "),
        (b"...", "..."),
        (b"-1.1.completed.json", "-1.1.completed.json"),
        (b"99999999999999999999.1.completed.json", "99999999999999999999.1.completed.json"),
        (b"4.4294967296.completed.json", "4.4294967296.completed.json"),
        (b"\xff\xfe.json", "%FF%FE.json"),
        (b"a\nb\x1b[31m", "a%0Ab%1B[31m"),
        ("\u{202e}nosj.x".as_bytes(), "%E2%80%AEnosj.x"),
        (b"%2E%2E", "%252E%252E"),
        (b"..\\..\\x", "..\\..\\x"),
    ] {
        let place = Place::new();
        fs::write(place.agent("ack").join(OsStr::from_bytes(name)), ack(4, 1, "completed", &[])).unwrap();
        place.assert_reported_once(&format!("ack/{shown}"), not_an_ack);
        assert_eq!(names(&place.agent("ack")), [""; 0]);
    }
    let place = Place::new();
    for name in ["a.b.json", "é.json", "a.JSON", &format!("{}.json", "x".repeat(65)), ".json"] {
        place.write(&format!("out/{name}"), said("a", 1, 5, false));
        let shown = name.replace('é', "%C3%A9");
        place.assert_reported_once(&format!("out/{shown}"), "its name is not that of an answer");
    }
}

#[test]
fn an_ack_cannot_name_files_elsewhere() {
    let place = Place::new();
    for id in ["../../host/context", "/etc/passwd", "files", ""] {
        place.write("ack/4.1.completed.json", ack(4, 1, "completed", &[id]));
        let found = place.found();
        if id == "files" {
            assert_eq!(lines(&found), ["end 4 by 1 [files missing]"]);
        } else {
            assert_eq!(lines(&found), ["unreadable ack/4.1.completed.json"], "{id}");
        }
    }
}

#[test]
fn attachments_that_are_something_else() {
    let place = Place::new();
    let secret = place.outside().join("secret.json");
    fs::create_dir_all(place.agent("out/files/a/directory")).unwrap();
    symlink(&secret, place.agent("out/files/a/link")).unwrap();
    fs::hard_link(&secret, place.agent("out/files/a/hard")).unwrap();
    fifo(&place.agent("out/files/a/fifo"));
    fs::File::create(place.agent("out/files/a/huge")).unwrap().set_len(64 * 1024 * 1024 + 1).unwrap();
    for (name, reason) in [
        ("link", LINK),
        ("hard", "it has 2 names (hard links)"),
        ("fifo", "it is a FIFO"),
        ("directory", "it is a directory, not a file"),
        ("huge", "it has 67108865 bytes, at most 67108864 are read"),
        ("absent", "it is not there"),
        ("../../../../../outside/secret.json", "it is not a safe name"),
    ] {
        place.write("out/a.json", said_with("a", 1, 5, json!({ "files": [name] })));
        let found = place.found();
        assert_eq!(unreadable(&found), [(format!("out/files/a/{name}"), reason.to_owned())]);
        let Record::Said(said) = &found[1].record else { panic!() };
        assert!(said.files.is_empty());
    }
    assert_eq!(names(&place.mailboxes.path(SESSION).join("kept")), [""; 0]);
    fs::remove_file(place.agent("out/files/a/hard")).unwrap();
    place.discard(&place.collect().collection);
    assert!(!place.agent("out/files/a").exists());
    place.assert_outside_untouched();
}

#[test]
fn attachments_whose_directory_is_a_link() {
    for path in ["out/files/a", "out/files"] {
        let place = Place::new();
        fs::remove_dir_all(place.agent("out/files")).unwrap();
        if path == "out/files/a" {
            fs::create_dir(place.agent("out/files")).unwrap();
        }
        symlink(place.outside(), place.agent(path)).unwrap();
        place.write("out/a.json", said_with("a", 1, 5, json!({ "final": true, "files": ["secret.json"] })));
        place.write("ack/4.1.completed.json", ack(4, 1, "completed", &["a"]));
        let collected = place.collect();
        let Some(Record::End { answers, .. }) = collected.collection.found.last().map(|f| &f.record) else { panic!() };
        let [Answer::Read(said)] = answers.as_slice() else { panic!() };
        assert!(said.files.is_empty());
        place.discard(&collected.collection);
        assert_eq!(names(&place.agent("out/files")), [""; 0]);
        assert_eq!(place.rest(1).collection.closes, Some(1));
        place.assert_outside_untouched();
    }
}

#[test]
fn the_host_half_is_not_trusted_either_where_the_agent_runs_unconfined() {
    let place = Place::new();
    fs::remove_dir_all(place.host("in")).unwrap();
    symlink(place.outside().join("directory"), place.host("in")).unwrap();
    assert!(place.mailboxes.prepare(SESSION).is_err());
    place.assert_outside_untouched();
}
