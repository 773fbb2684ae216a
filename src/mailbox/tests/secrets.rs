//! Values of an agent's secrets are removed before anything else processes its output.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::model::mailbox::Hidden;
use crate::model::secrets::Secrets;

const VALUE: &str = "sk-ant-0123456789-\"x\"";

fn place() -> Place {
    let place = Place::new();
    let mut secrets = Secrets::default();
    secrets.add("KEY", VALUE.as_bytes());
    place.mailboxes.hide(SESSION, Arc::new(secrets));
    place
}

fn hidden(collected: &Collected) -> (Vec<&str>, Vec<(&str, &str)>) {
    let Hidden { names, files } = &collected.hidden;
    let files = files.iter().map(|file| (file.file.as_str(), file.name.as_str())).collect();
    (names.iter().map(String::as_str).collect(), files)
}

/// For every kind of record, wherever in it the value is, in every JSON spelling.
#[test]
fn nothing_that_is_taken_in_has_them() {
    let place = place();
    let escaped = VALUE.replace('s', "\\u0073").replace('"', "\\\"");
    let content = json!({ "text": "TEXT", VALUE: [{ "deep": format!("a {VALUE} b") }] });
    let said = said_with("a", 1, 5, json!({ "content": content })).replace("TEXT", &escaped);
    assert!(!said.contains(&format!("\"text\":\"{VALUE}")));
    place.write("out/a.json", said);
    let request = json!({ "action": "create_agent", "name": VALUE, "instructions": VALUE });
    place.write("out/b.json", said_with("b", 1, 7, json!({ "kind": "system", "content": request })));
    place.write("out/c.json", said_with("c", 1, 9, json!({ "destination": VALUE })));
    let edit = json!({ "operation": "edit", "messageId": "5", "text": VALUE });
    place.write("out/d.json", said_with("d", 1, 11, json!({ "content": edit })));
    place.write(&format!("out/{VALUE}"), "an odd name");
    let mut failed: Value = serde_json::from_str(&ack(4, 1, "failed", &[])).unwrap();
    failed["error"] = json!(format!("cannot use {VALUE}"));
    place.write("ack/4.1.failed.json", failed.to_string());
    let collected = place.collect();
    let shown = format!("{:?}", collected.collection.found);
    assert!(collected.faults.is_empty() && collected.collection.found.len() >= 5, "{shown}");
    assert!(
        !format!("{:?}", collected.collection.found.iter().map(|found| &found.record).collect::<Vec<_>>())
            .contains("0123456789-"),
        "{shown}"
    );
    assert!(shown.matches("[secret KEY]").count() >= 6, "{shown}");
    assert_eq!(hidden(&collected), (vec!["KEY"], vec![]));
    place.discard(&collected.collection);
    assert_eq!(hidden(&place.collect()), (vec![], vec![]));
}

/// Also if the value spans two of the pieces in which a file is copied.
#[test]
fn a_file_that_has_one_is_not_sent() {
    for before in [0, 8 * 1024 - 5, 64 * 1024 - 3, 1 << 20] {
        let place = place();
        let content = [&vec![b'.'; before], VALUE.as_bytes(), b"after"].concat();
        place.write("out/files/a/bad.txt", content);
        place.write("out/files/a/good.txt", "nothing");
        place.write("out/a.json", said_with("a", 1, 5, json!({ "files": ["bad.txt", "good.txt"] })));
        let collected = place.collect();
        assert_eq!(hidden(&collected), (vec![], vec![("bad.txt", "KEY")]), "{before}");
        let Some(Record::Said(said)) = collected
            .collection
            .found
            .iter()
            .map(|found| &found.record)
            .find(|record| matches!(record, Record::Said(_)))
        else {
            panic!("{:?}", collected.collection);
        };
        let kept: Vec<&str> = said.files.iter().map(|file| file.kept.as_str()).collect();
        assert_eq!(kept, ["se12/kept/1.a/good.txt"]);
        assert_eq!(names(&place.mailboxes.path(SESSION).join("kept/1.a")), ["good.txt"]);
        let reasons = unreadable(&collected.collection.found);
        assert!(reasons.iter().any(|(_, reason)| reason.contains("the value of KEY")), "{reasons:?}");
    }
}
