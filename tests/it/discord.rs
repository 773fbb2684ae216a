//! `hearth-networks discord` between a daemon and a stand-in for Discord.

use std::time::Duration;

use serde_json::{Value, json};

use crate::host::chaos::Chaos;
use crate::host::discord::{ANN, DIRECT, Discord, EVE, GENERAL, THREAD};
use crate::host::{wait_for, wait_for_or};

#[test]
fn conversations_on_discord() {
    let mut discord = Discord::start();
    discord.connect("");
    discord.says("**how** @everyone?");
    let answer = discord.answer("@everyone");
    assert_eq!((&answer["channel_id"], &answer["flags"]), (&json!(DIRECT), &json!(4)));

    // In a server only what addresses the bot has content, in a thread it is answered there, and only Ann may write.
    discord.writes(&json!({ "text": "not for the bot", "channel": GENERAL }));
    discord.writes(&json!({ "text": "<@900000000000000042> in a thread", "channel": THREAD }));
    assert_eq!(discord.answer("in a thread")["channel_id"], THREAD);
    discord.writes(
        &json!({ "text": "<@900000000000000042> by a stranger", "channel": GENERAL, "by": EVE, "senderId": ANN }),
    );
    let other = "900000000000000043";
    discord.writes(&json!({ "text": "<@900000000000000042> by a program", "channel": GENERAL, "by": other }));
    discord.writes(&json!({ "text": "<@900000000000000042> by a hook", "channel": GENERAL, "webhook_id": "1" }));
    let update = json!({ "id": "1", "channel_id": DIRECT, "author": { "id": ANN }, "content": "by an edit" });
    discord.asks(&json!({ "event": { "t": "MESSAGE_UPDATE", "d": update } }));
    // What cannot be read, or is deep or large, stops nothing.
    discord.asks(&json!({ "event": { "t": "MESSAGE_CREATE", "d": { "id": "../x", "author": [] } } }));
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    discord.asks(&json!({ "frame": format!("{{\"op\": 0, \"t\": \"NEWS\", \"s\": null, \"d\": {deep}}}") }));
    discord.asks(&json!({ "event": { "t": "NEWS", "d": "x".repeat(60_000) } }));
    let answered = discord.answer("in a thread");
    let referenced = json!({ "id": answered["id"], "channel_id": THREAD, "author": { "id": "900000000000000042", "username": "hearth" }, "content": "what?" });
    let reply = json!({ "text": "an answer to the bot", "channel": GENERAL, "type": 19, "referenced_message": referenced, "mentions": [{ "id": "900000000000000042", "username": "hearth" }] });
    discord.writes(&reply);
    assert_eq!(discord.answer("an answer to the bot")["channel_id"], GENERAL);
    let stored = discord.stored();
    for text in ["by an edit", "by a program", "by a hook", "not for the bot", "by a stranger"] {
        assert!(!stored.contains(text), "{text}: {stored}");
    }
    assert!(stored.contains(&format!("\"handle\":\"{ANN}\"")), "{stored}");

    // A long text comes in parts, none of which Discord refuses; the limit of a channel holds.
    discord.asks(&json!({ "set": { "window": [3, 1.0] } }));
    discord.says(&format!("{} the end.", "A sentence of a long text. ".repeat(300)));
    discord.answer("the end.");
    discord.fine();
}

/// Files of people, with addresses that do not work any more.
#[test]
fn files_on_discord() {
    let mut discord = Discord::start();
    discord.connect("");
    let files = |text: &str| json!([["a.txt", text], ["../../b\n.txt", text]]);
    discord.writes(&json!({ "text": "two files", "files": files("the first content") }));
    discord.answer("two files");
    let now = discord.facts()["time"].clone();
    discord.asks(&json!({ "set": { "expired": now } }));
    discord.writes(&json!({ "text": "later files", "files": files("the second content") }));
    discord.answer("later files");
    let kept: Vec<Vec<u8>> = std::fs::read_dir(discord.host.data().join("files"))
        .unwrap()
        .flatten()
        .flat_map(|entry| walk(&entry.path()))
        .collect();
    for content in ["the first content", "the second content"] {
        assert!(kept.iter().any(|kept| kept == content.as_bytes()), "{content}");
    }
    discord.fine();
}

fn walk(path: &std::path::Path) -> Vec<Vec<u8>> {
    match std::fs::read_dir(path) {
        Ok(entries) => entries.flatten().flat_map(|entry| walk(&entry.path())).collect(),
        Err(_) => vec![std::fs::read(path).unwrap()],
    }
}

/// The connection breaks in each way that Discord knows; nothing is lost or comes twice.
#[test]
fn connections_to_the_gateway_go_on() {
    let mut discord = Discord::start();
    discord.connect("");
    discord.asks(&json!({ "set": { "twice": true } }));
    let mut texts = Vec::new();
    let breaks = [
        json!({ "frame": { "op": 7, "d": null } }),
        json!({ "frame": { "op": 9, "d": true } }),
        json!({ "close": 4_000 }),
        json!({ "close": 1_001 }),
        json!({ "abort": true }),
        json!({ "frame": "no JSON" }),
        json!({ "set": { "acks": false } }),
        json!({ "frame": { "op": 1, "d": null } }),
    ];
    for (number, trouble) in breaks.iter().enumerate() {
        discord.asks(trouble);
        texts.push(format!("break-{number}."));
        discord.says(&texts[number]);
        discord.asks(&json!({ "set": { "acks": true } }));
        discord.answer(&texts[number]);
    }
    assert_eq!(discord.facts()["identified"], 1, "all went on");
    // Sessions that cannot go on: what was written meanwhile is asked for, also in a chat without earlier messages.
    for trouble in [json!({ "frame": { "op": 9, "d": false } }), json!({ "close": 4_009 })] {
        discord.asks(&json!({ "forget": true }));
        let number = texts.len();
        texts.push(format!("break-{number}."));
        discord.writes(&json!({ "text": texts[number], "silent": true }));
        texts.push(format!("break-{}.", number + 1));
        let text = format!("<@900000000000000042> {}", texts[number + 1]);
        discord.writes(&json!({ "text": text, "channel": GENERAL, "silent": true }));
        discord.asks(&trouble);
        discord.answer(&texts[number]);
        discord.answer(&texts[number + 1]);
    }
    // One more where a heartbeat was late while the server had forgotten the session.
    assert!(discord.facts()["identified"].as_u64() >= Some(3), "{}", discord.facts());
    once(&discord, &texts);
}

/// Without a session of the gateway nothing is heard. The channel says so instead of looking well, and sends all the same.
#[test]
fn without_a_session_of_the_gateway_discord_is_shown_as_down() {
    let mut discord = Discord::start();
    discord.asks(&json!({ "set": { "welcomes": false } }));
    discord.begin("");
    let down = wait_for("the reason", || Some(discord.listed()).filter(|one| one["state"] == "down"));
    assert!(down["why"].as_str().unwrap().contains("gateway of Discord has not answered"), "{down}");
    discord.asks(&json!({ "set": { "welcomes": true } }));
    discord.asks(&json!({ "abort": true }));
    wait_for("the session", || (discord.facts()["identified"].as_u64() >= Some(2)).then_some(()));
    discord.says("at last.");
    discord.answer("at last.");
}

/// Each text was answered once, and stored once.
fn once(discord: &Discord, texts: &[String]) {
    let has_all = || {
        let shown: Vec<String> = discord.heard().iter().map(|message| message["shown"].to_string()).collect();
        texts.iter().all(|text| shown.iter().any(|shown| shown.contains(text.as_str()))).then_some(())
    };
    wait_for_or("all answers", &mut || has_all(), || discord.host.unfinished());
    // A second copy would come within moments.
    std::thread::sleep(Duration::from_secs(2));
    let all: String =
        discord.heard().iter().map(|message| format!("{}\n", message["shown"].as_str().unwrap())).collect();
    for text in texts {
        assert_eq!(all.matches(text.as_str()).count(), 1, "{text}: {all}");
    }
    assert_eq!(discord.host.rows("bodies").len(), texts.len(), "each message is stored once");
    discord.fine();
}

/// Bridge and daemon are killed in the middle of messages in both directions: everything is there exactly once.
#[test]
fn nothing_is_lost_or_doubled_on_discord() {
    let mut discord = Discord::start();
    discord.connect("");
    let mut chaos = Chaos::new(6);
    // Discord does not tell a bot which direct chats there are: the first message of one is only in the session.
    discord.says("first.");
    discord.answer("first.");
    for (number, burst) in chaos.bursts() {
        burst.iter().for_each(|text| drop(discord.says(text)));
        std::thread::sleep(Duration::from_millis(97 * (number as u64 % 5)));
        match number % 3 {
            0 | 1 => discord.kill(),
            _ => {
                discord.host.kill();
                wait_for("the bridge to end with the daemon", || discord.running().is_empty().then_some(()));
                discord.host.start();
            }
        }
        chaos.follow(number, || discord.shown(), || discord.host.unfinished());
    }
    chaos.end(|| discord.shown(), || discord.host.unfinished());
    chaos.texts.push("first.".to_owned());
    // More than one page, while the session ended and no bridge ran.
    discord.host.stop();
    discord.asks(&json!({ "forget": true }));
    let many: Vec<String> = (0..120).map(|number| format!("many-{number}.")).collect();
    let says: Vec<Value> = many.iter().map(|text| json!({ "say": { "text": text, "silent": true } })).collect();
    discord.asks(&json!({ "all": says }));
    chaos.texts.extend(many);
    discord.host.start();
    chaos.once(|| discord.shown(), || discord.host.unfinished());
    assert_eq!(discord.host.rows("bodies").len(), chaos.texts.len(), "each message is stored once");
    discord.fine();
}

/// Answers that are lost, pauses, faults and refusals: each message is there once.
#[test]
fn troubles_of_discord_lose_and_double_nothing() {
    let mut discord = Discord::start();
    discord.connect("");
    let posts = format!("POST /channels/{DIRECT}/messages");
    let html = "<html>error</html>";
    let rules = [
        json!({ "match": posts, "after": true }),
        json!({ "match": posts, "status": 429, "body": "{\"retry_after\": 0.3, \"global\": false}", "headers": { "X-RateLimit-Scope": "shared" } }),
        json!({ "match": posts, "status": 429, "body": "{\"retry_after\": 0.2, \"global\": true}" }),
        json!({ "match": posts, "status": 502, "body": html }),
        json!({ "match": posts, "status": 500, "body": "" }),
        json!({ "match": posts, "status": 200, "body": "[".repeat(10_000), "after": false }),
        json!({ "match": posts, "status": 503, "body": html, "repeat": 600_000 }),
    ];
    let mut texts = Vec::new();
    for (number, rule) in rules.iter().enumerate() {
        discord.asks(&json!({ "rule": rule }));
        texts.push(format!("trouble-{number}."));
        discord.says(&texts[number]);
        discord.answer(&texts[number]);
    }
    once(&discord, &texts);
    // A refusal is final, and holds nothing up.
    discord.asks(&json!({ "rule": { "match": posts, "status": 403, "body": "{\"code\": 50007, \"message\": \"Cannot send\"}" } }));
    discord.says("refused.");
    // Otherwise both are one turn.
    let is_refused = |row: &Value| row["value"]["state"].to_string().contains("Failed");
    wait_for("the refusal", || discord.host.outgoing().iter().any(is_refused).then_some(()));
    discord.says("afterwards.");
    discord.answer("afterwards.");
    assert!(discord.heard().iter().all(|message| !message["shown"].as_str().unwrap().contains("refused.")));
    // Nothing is asked with a refused token.
    discord.asks(&json!({ "rule": { "match": ".*", "times": 1_000, "status": 401, "body": "{\"message\": \"401: Unauthorized\"}" } }));
    discord.says("with a refused token.");
    let why = wait_for("the refused token", || {
        discord.listed()["why"].as_str().filter(|why| why.contains("does not accept the token")).map(str::to_owned)
    });
    assert!(!why.contains(&discord.read("token")));
    let asked = |discord: &Discord| discord.facts()["asked"].as_array().unwrap().len();
    let before = asked(&discord);
    std::thread::sleep(Duration::from_secs(3));
    assert!(asked(&discord) <= before + 1, "it asks on");
}

/// A card has buttons; a press is answered, and counts once.
#[test]
fn buttons_on_discord() {
    let mut discord = Discord::start();
    discord.connect("");
    let mut stranger = crate::host::event("1", "may I?");
    stranger["channelType"] = "discord".into();
    stranger["platformId"] = GENERAL.into();
    stranger["message"]["isMention"] = true.into();
    stranger["message"]["isGroup"] = true.into();
    discord.host.done(&["chats", "set", &format!("discord/{GENERAL}"), "--unknown-senders", "request_approval"], b"");
    discord.host.done(&["inject", "--json"], stranger.to_string().as_bytes());
    let card = wait_for("the card", || discord.heard().into_iter().find(|message| message["components"] != json!([])));
    let buttons = card["components"][0]["components"].as_array().unwrap().clone();
    let press = |by: &str| {
        discord.asks(&json!({ "press": { "message": card["id"], "custom_id": buttons[0]["custom_id"], "by": by } }));
    };
    press(EVE);
    press(ANN);
    press(ANN);
    let interactions = wait_for("the answers", || {
        let all = discord.facts()["interactions"].as_array().unwrap().clone();
        (all.len() == 3 && all.iter().all(|one| one["type"] == 6)).then_some(all)
    });
    assert_eq!(interactions.len(), 3);
    let told = wait_for("what they are told", || {
        Some(discord.facts()["told"].clone()).filter(|told| told.as_array().unwrap().len() >= 2)
    });
    assert!(told.as_array().unwrap().iter().all(|told| told["flags"] == 64), "{told}");
    wait_for("the decision", || {
        let open = discord.host.done(&["approvals", "list", "--json"], b"");
        (!open.contains("\"ap1\"")).then_some(())
    });
    // The buttons go when the card is over.
    let gone = |message: &Value| message["id"] == card["id"] && message["components"] == json!([]);
    wait_for("the end of the buttons", || discord.heard().iter().any(gone).then_some(()));
    discord.fine();
}

/// What cannot work until something is changed is told in words, and nothing is tried on and on.
#[test]
fn without_the_right_to_read_discord_says_where_it_is_switched_on() {
    let mut discord = Discord::start();
    discord.asks(&json!({ "set": { "content": false } }));
    discord.connect("");
    discord.says("first.");
    discord.answer("first.");
    let toml = discord.host.done(&["export"], b"").replace("server = \"", "content = \"on\", server = \"");
    discord.host.apply(&toml);
    wait_for("the reason", || {
        discord.listed()["why"].as_str().filter(|why| why.contains("Message Content Intent")).map(drop)
    });
    assert_eq!(discord.facts()["identified"], 2);
}
