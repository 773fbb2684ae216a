//! Floods of messages that wait for an approval.

use serde_json::{Value, json};

use super::ground::Ground;
use crate::host::wait_for;

const CHATS: usize = 1_500;

fn inject(ground: &Ground, lines: &[Value]) {
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    let ended = ground.host.run(&["inject", "--json"], lines.join("\n").as_bytes());
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// The owner sees a few cards and a count, and still gets an answer from the agent.
pub(super) fn unknown_chats(ground: &mut Ground) {
    let mention = |n: usize| {
        json!({"channelType": "web", "platformId": format!("c{n}"), "message": {
            "id": format!("m{n}"), "isMention": true, "content": {"text": "hi", "senderId": format!("u{n}")},
        }})
    };
    inject(ground, &(0..CHATS).map(mention).collect::<Vec<_>>());
    ground.telegram.happens(json!({"message": {
        "message_id": 900, "date": 1_700_000_000, "text": "what is new?",
        "from": {"id": 1, "is_bot": false, "first_name": "Boss"},
        "chat": {"id": 1, "type": "private", "first_name": "Boss"},
    }}));
    let shown = || ground.telegram.shown(1);
    wait_for("the answer", || shown().iter().any(|text| text.contains("what is new?")).then_some(()));
    let cards = || shown().iter().filter(|text| text.contains("New channel")).count();
    wait_for("ten cards and a count", || {
        (cards() == 10 && shown().iter().any(|text| text.contains("more question"))).then_some(())
    });
    let asked = |arguments: &[&str]| -> Value { serde_json::from_str(&ground.host.done(arguments, b"")).unwrap() };
    let listed = asked(&["approvals", "list", "--page", "3", "--json"]);
    assert_eq!((listed["total"].as_u64(), listed["approvals"].as_array().unwrap().len()), (Some(1_500), 50));
    let rejected = asked(&["approvals", "reject", "--channel", "web", "--json"]);
    assert_eq!(rejected["rejected"].as_array().unwrap().len(), CHATS);
    assert_eq!(cards(), 10, "what is rejected is not shown any more");
}

/// Files of unknown senders take a limited amount of space.
pub(super) fn stranger_files(ground: &mut Ground) {
    // Base64 of three megabytes.
    let data = "A".repeat(4 << 20);
    let message = |n: usize| {
        json!({"channelType": "telegram", "platformId": "123", "message": {"id": format!("m{n}"), "content": {
            "text": "look", "senderId": "9", "attachments": [{"name": format!("{n}.bin"), "data": format!("{n:04}{data}")}],
        }}})
    };
    for n in 0..8 {
        inject(ground, &[message(n)]);
    }
    let bytes = || -> u64 {
        let shards = std::fs::read_dir(ground.host.data().join("files")).unwrap().flatten();
        let files = shards.filter_map(|shard| std::fs::read_dir(shard.path()).ok()).flat_map(Iterator::flatten);
        files.map(|file| file.metadata().unwrap().len()).sum()
    };
    wait_for("the files beyond the bound to go", || (bytes() <= 10 << 20).then_some(()));
    assert!(bytes() > 0);
    assert_eq!(ground.host.rows("held").len(), 8, "the messages wait all the same");
}
