//! The location of a session file, and the directory that it names.

use std::os::unix::fs::symlink;

use serde_json::Value;

use super::{Used, import, json, listed, put, session};
use crate::host::Host;

#[test]
fn every_place_and_every_root_has_its_answer_and_no_file_is_touched() {
    let host = Host::new();
    let (own, other) = (Used::new(&host, "own"), Used::new(&host, "other"));
    let gone = host.path("gone").display().to_string();
    let sibling = own.flat("0123456789abcdef/l10.jsonl");
    let alias = host.path("alias");
    symlink(&own.root, &alias).unwrap();
    symlink(other.flat("l9.jsonl"), own.own_dir().join("l11.jsonl")).unwrap();
    let rows = [
        ("L1", own.flat("l1.jsonl"), Some(own.text()), "taken"),
        ("L1 json", own.flat("l1j.json"), Some(own.text()), "taken"),
        ("L2", own.flat("l2.jsonl"), None, "taken"),
        ("L3", own.flat("l3.jsonl"), Some(other.text()), "workspace_mismatch"),
        ("L4", own.flat("l4.jsonl"), Some(&gone), "workspace_mismatch"),
        ("L5", own.own("l5.jsonl"), Some(other.text()), "workspace_mismatch"),
        ("L6", own.own("l6.jsonl"), None, "taken"),
        ("L7 link", own.own("l7.jsonl"), alias.to_str(), "taken"),
        ("L7 relative", own.own("l7r.jsonl"), Some("."), "workspace_mismatch"),
        ("L8", other.flat("l8.jsonl"), Some(own.text()), "taken"),
        ("L9", other.flat("l9.jsonl"), None, "legacy_session_no_workspace_binding"),
        ("L10", sibling.clone(), None, "other_partition"),
        ("L11", own.own("l11.jsonl"), None, "session_path_is_link"),
        ("L12", own.flat("l12.json"), None, "session_corrupt"),
        ("L13", own.own("l13.jsonl"), Some("/home/original"), "workspace_mismatch"),
    ];
    for (case, path, root, _) in &rows {
        let id = case.to_lowercase().replace(' ', "-");
        match *case {
            "L11" => {}
            "L12" => put(path, b"{\"version\":1,\"messages\":[\xff]}"),
            _ => put(path, session(&id, *root, 1)),
        }
    }
    let before: Vec<_> = rows.iter().map(|(_, path, ..)| std::fs::read(path).unwrap()).collect();
    for (case, path, root, expected) in &rows {
        let (code, said) = import(&host, &own, &[path]);
        let file = &said["files"][0];
        let word = if file["result"] == "refused" { &file["kind"] } else { &file["result"] };
        assert_eq!((word.as_str(), code), (Some(*expected), Some(i32::from(*expected != "taken"))), "{case}: {said}");
        if *expected == "workspace_mismatch" {
            assert_eq!(file["expected_workspace_root"], own.text(), "{case}");
            assert_eq!(file["actual_workspace_root"].as_str(), *root, "{case}");
        }
    }
    let after: Vec<_> = rows.iter().map(|(_, path, ..)| std::fs::read(path).unwrap()).collect();
    assert_eq!(before, after);
    assert!(std::fs::symlink_metadata(own.own("l11.jsonl")).unwrap().is_symlink());
    assert_eq!(listed(&host, &own), ["l1", "l1-json", "l2", "l6", "l7-link", "l8"]);
    // Files that name the old path are imported once the directory was adopted.
    let moved = host.path("moved");
    std::fs::rename(&own.root, &moved).unwrap();
    let moved = Used { root: moved.canonicalize().unwrap() };
    put(&moved.flat("l14.jsonl"), session("l14", Some(own.text()), 1));
    assert_eq!(import(&host, &moved, &[&moved.flat("l14.jsonl")]).0, Some(1));
    host.done(&["workspace", "adopt", moved.text()], b"");
    let (code, said) = import(&host, &moved, &[&moved.flat("l14.jsonl")]);
    assert_eq!((code, &said["files"][0]["result"]), (Some(0), &Value::from("taken")), "{said}");
    assert!(listed(&host, &moved).contains(&"l14".to_owned()));
    host.check();
}

#[test]
fn a_refused_file_makes_no_store() {
    let host = Host::before_the_first_start();
    let used = Used::new(&host, "w");
    put(&used.flat("bad.jsonl"), "{");
    assert_eq!(import(&host, &used, &[&used.flat("bad.jsonl")]).0, Some(1));
    assert_eq!(import(&host, &used, &[&used.flat("none.jsonl")]).0, Some(1));
    put(&used.flat("good.jsonl"), session("good", None, 1));
    let ended = host.run(&["import", "claw", used.text(), "--dry-run", "--json"], b"");
    assert_eq!(json(&ended.stdout)["taken"], 1, "{ended:#?}");
    assert!(!host.data().exists());
    assert_eq!(host.run(&["import", "claw", "/no/such/dir"], b"").code, Some(1));
    assert_eq!(host.run(&["session", "import"], b"").code, Some(2));
}
