//! What the agent CLI does beside answering: tasks in the background, text before tools, images, a lost conversation.

use hearth_wire::{InMessage, InName, SessionFile};
use serde_json::{Value, json};

use crate::bench::{Bench, until_go, wait_for};
use crate::claude::{bench, conversation, start};
use crate::fake_api::FakeApi;

/// The text of the newest prompt that the model got.
fn prompt(api: &FakeApi) -> String {
    api.requests().last().unwrap()["messages"].to_string()
}

/// A turn ends while its task goes on. The host sees a tool until the task ends, and what the agent says then is sent.
#[test]
fn a_task_in_the_background_is_work_between_turns() {
    let Some((bench, api)) = bench() else { return };
    let input = json!({"command": until_go("begun"), "run_in_background": true, "description": "build"});
    bench.say(2, &format!("[[tool Bash {input}]] [[say started]]"));
    let _runner = start(&bench, &api);
    assert_eq!(bench.texts(2), ["started"]);
    let tool = wait_for("the task", || bench.state().and_then(|state| state.tool));
    assert_eq!((tool.name.as_str(), tool.timeout_ms), ("background task", Some(7_200_000)));
    bench.say(4, "[[say still here]]");
    assert_eq!(bench.texts(4), ["still here"]);
    assert!(bench.path("group/begun").exists() && bench.said_at_once().is_empty());
    bench.go();
    wait_for("the end of the task", || (!bench.said_at_once().is_empty()).then_some(()));
    wait_for("no tool", || bench.state().unwrap().tool.is_none().then_some(()));
}

#[test]
fn a_text_before_a_tool_is_not_lost() {
    let Some((bench, api)) = bench() else { return };
    let name = bench.context.destinations[0].name.clone();
    bench.say(2, &format!("[[first {{{{message to=\"{name}\"}}}}Soon.{{{{/message}}}}]] [[tool Bash {{\"command\":\"true\"}}]] [[say Done.]]"));
    let _runner = start(&bench, &api);
    assert_eq!(bench.texts(2), ["Done."]);
    assert_eq!(bench.said_at_once(), ["Soon."]);
    bench.say(
        4,
        &format!(
            "[[first It is 7.]] [[tool Bash {{\"command\":\"{}\"}}]] [[say {{{{internal}}}}{{{{/internal}}}}]]",
            until_go("shown")
        ),
    );
    let writing = wait_for("the text beside the tool", || {
        bench.state().filter(|state| state.tool.is_some()).and_then(|state| state.writing)
    });
    assert_eq!(writing.text, "It is 7.");
    bench.go();
    assert_eq!(bench.texts(4), Vec::<String>::new(), "silence that was meant");
}

#[test]
fn a_verbose_agent_says_what_it_writes_before_a_tool() {
    let Some((mut bench, api)) = bench() else { return };
    bench.context.provider.verbosity = hearth_wire::Verbosity::Verbose;
    bench.publish();
    bench.say(2, "[[first It is 7.]] [[tool Bash {\"command\":\"true\"}]] [[say Done.]]");
    let _runner = start(&bench, &api);
    assert_eq!(bench.texts(2), ["Done."]);
    assert_eq!(bench.said_at_once(), ["It is 7."]);
}

/// A message with files.
fn with_files(bench: &Bench, seq: u64, text: &str, files: &[(&str, &[u8])]) {
    let dir = format!("host/in/files/{seq:016}");
    let mut attachments = Vec::new();
    for (name, bytes) in files {
        std::fs::create_dir_all(bench.session(&dir)).unwrap();
        std::fs::write(bench.session(&format!("{dir}/{name}")), bytes).unwrap();
        attachments
            .push(json!({"name": name, "type": "image", "size": bytes.len(), "localPath": format!("{dir}/{name}")}));
    }
    let message = InMessage {
        v: 1,
        seq,
        id: format!("ms{seq}"),
        kind: "chat".to_owned(),
        trigger: true,
        timestamp: "2026-01-02T03:04:05.000Z".to_owned(),
        unknown_sender: false,
        reply: None,
        content: json!({"text": text, "attachments": attachments}),
    };
    bench.place(&format!("host/in/{}", InName { seq }), &message);
}

#[test]
fn the_model_sees_images() {
    let Some((bench, api)) = bench() else { return };
    let gif =
        b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff!\xf9\x04\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";
    with_files(
        &bench,
        2,
        "what is it? [[say a dot]]",
        &[("dot.gif", gif), ("half.gif", &gif[..20]), ("a.txt", b"GIF89a")],
    );
    let _runner = start(&bench, &api);
    assert_eq!(bench.texts(2), ["a dot"]);
    let requests = api.requests();
    let blocks: Vec<&Value> = requests.last().unwrap()["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|message| message["content"].as_array())
        .flatten()
        .collect();
    let images: Vec<&&Value> = blocks.iter().filter(|block| block["type"] == "image").collect();
    assert_eq!(images.len(), 1, "{blocks:?}");
    assert_eq!(images[0]["source"]["media_type"], "image/gif");
    let prompt = prompt(&api);
    for name in ["dot.gif", "half.gif", "a.txt"] {
        assert!(prompt.contains(&format!("host/in/files/{:016}/{name}", 2)), "{prompt}");
    }
}

/// The people and the agent are told once that the conversation is gone.
#[test]
fn a_lost_conversation_begins_anew_and_says_so() {
    let Some((bench, api)) = bench() else { return };
    let continuations = [("claude".to_owned(), "00000000-0000-4000-8000-000000000000".to_owned())].into();
    bench.place("agent/session.json", &SessionFile { v: 1, incarnation: 1, epoch: 0, continuations });
    bench.say(2, "[[say here I am]]");
    let _runner = start(&bench, &api);
    assert_eq!(bench.texts(2), ["here I am"]);
    let said = bench.said_at_once();
    assert!(matches!(&said[..], [one] if one.contains("lost the record of our conversation")), "{said:?}");
    assert!(prompt(&api).contains("this is a new conversation"), "{}", prompt(&api));
    assert_ne!(conversation(&bench).unwrap(), "00000000-0000-4000-8000-000000000000");
    bench.say(4, "[[say and on]]");
    assert_eq!(bench.texts(4), ["and on"]);
    assert_eq!(bench.said_at_once().len(), 1);
}
