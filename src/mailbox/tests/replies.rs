//! Answers to requests, and the golden files of requests as parsed by the host.

use std::fs;

use serde_json::{Value, json};

use crate::model::content::RawJson;
use crate::model::effect::{Export, ExportedReply};
use crate::model::mailbox::{Record, Said};
use crate::model::request::{Request, RequestedAction, TaskRequest};

use super::super::Error;
use super::export::context;
use super::{Place, SESSION, names};

fn fixture(name: &str) -> Vec<u8> {
    fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../container/wire/fixtures/").to_owned() + name).unwrap()
}

fn fixture_json(name: &str) -> Value {
    serde_json::from_slice(&fixture(name)).unwrap()
}

fn reply(request: &str, answer: Result<&Value, &str>) -> ExportedReply {
    let answer = answer.map(|json| RawJson::trusted(json.to_string())).map_err(str::to_owned);
    ExportedReply { request: request.to_owned(), answer }
}

fn replies(all: Vec<ExportedReply>) -> Export {
    Export {
        session: SESSION,
        context: Some(context(1, 1)),
        messages: vec![],
        replies: Some(all),
        exact: false,
        files: vec![],
    }
}

#[test]
fn answers_are_the_golden_files() {
    for name in [
        "reply.json",
        "reply-refused.json",
        "reply-question.json",
        "reply-timeout.json",
        "reply-submitted.json",
        "reply-said.json",
        "reply-task.json",
    ] {
        let golden = fixture_json(name);
        let request = golden["request_id"].as_str().unwrap();
        let answer = golden["error"].as_str().map_or(Ok(&golden["result"]), Err);
        let place = Place::new();
        place.mailboxes.export(&replies(vec![reply(request, answer)]), "UTC").unwrap();
        let written: Value =
            serde_json::from_slice(&fs::read(place.host(&format!("reply/{request}.json"))).unwrap()).unwrap();
        assert_eq!(written, golden, "{name}");
    }
}

/// The files are exactly the answers of the live incarnation: each is written once, and others are removed.
#[test]
fn answers_come_and_go_with_the_list() {
    let place = Place::new();
    let (one, two) = (json!(1), json!(2));
    place.mailboxes.export(&replies(vec![reply("a", Ok(&one)), reply("b", Err("no"))]), "UTC").unwrap();
    assert_eq!(names(&place.host("reply")), ["a.json", "b.json"]);
    let before = fs::read(place.host("reply/a.json")).unwrap();
    place.mailboxes.export(&replies(vec![reply("a", Ok(&two)), reply("c", Ok(&one))]), "UTC").unwrap();
    assert_eq!(names(&place.host("reply")), ["a.json", "c.json"]);
    assert_eq!(fs::read(place.host("reply/a.json")).unwrap(), before, "a file never changes");
    place.mailboxes.export(&replies(vec![]), "UTC").unwrap();
    assert!(names(&place.host("reply")).is_empty());
}

#[test]
fn no_name_leads_out_of_the_directory() {
    let place = Place::new();
    for name in ["../in/0000000000000002", "a/b", "", ".", "a.json"] {
        let done = place.mailboxes.export(&replies(vec![reply(name, Err("no"))]), "UTC");
        assert!(matches!(done, Err(Error::BadName { .. })), "{name:?}: {done:?}");
    }
    place.assert_outside_untouched();
}

fn said(name: &str) -> Said {
    let golden = fixture_json(name);
    let place = Place::new();
    place.write(&format!("out/{}.json", golden["id"].as_str().unwrap()), fixture(name));
    match place.found().pop().unwrap().record {
        Record::Said(said) => said,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn the_golden_requests_are_understood() {
    let (asked, packages, server, agent) =
        (said("out-question.json"), said("out-packages.json"), said("out-server.json"), said("out-agent.json"));
    assert_eq!(asked.request.as_deref(), Some("rq-21"));
    let request = |said: Said| match said.action {
        RequestedAction::Request(request) => *request,
        other => panic!("{other:?}"),
    };
    assert!(matches!(request(asked), Request::Question(question) if question.options.len() == 2));
    assert!(matches!(request(packages), Request::InstallPackages { packages, .. } if packages.npm == ["@scope/pkg"]));
    assert!(matches!(request(server), Request::AddMcpServer(server) if server.env.len() == 2));
    assert!(matches!(request(agent), Request::CreateAgent { name, .. } if name == "Research Bot"));
    let (edit, reaction, tasks) = (said("out-edit.json"), said("out-reaction.json"), said("out-request.json"));
    assert_eq!((edit.action, edit.text.as_str(), edit.request), (RequestedAction::Edit(13), "better", None));
    assert_eq!((reaction.action, reaction.text.as_str()), (RequestedAction::React(12), "thumbs_up"));
    assert_eq!(reaction.request.as_deref(), Some("rq-31"));
    assert!(matches!(request(tasks), Request::Tasks(TaskRequest::List(None))));
}

/// Only Hearth sets the sender, also in messages to other agents.
#[test]
fn an_agent_cannot_say_that_it_is_somebody_else() {
    let mut golden = fixture_json("out-peer.json");
    for (key, value) in
        [("sender", json!("owner")), ("senderId", json!("telegram:1")), ("author", json!({"userId": "1"}))]
    {
        golden["content"][key] = value;
    }
    golden["content"]["senderName"] = json!("The boss");
    let place = Place::new();
    place.write(&format!("out/{}.json", golden["id"].as_str().unwrap()), golden.to_string());
    let Record::Said(said) = place.found().pop().unwrap().record else { panic!() };
    assert_eq!(said.content.as_str(), r#"{"text":"look this up"}"#);
}
