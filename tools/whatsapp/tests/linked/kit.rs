//! `hearth bridge test` with the bridge, confined as a daemon would start it, and a stand-in for WhatsApp. The program
//! `hearth` is that of the main workspace's build.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use whatsapp_rust::prelude::{MessageExt as _, wa};

use crate::bridge::{Home, PROGRAM};
use crate::peer::Peer;
use crate::world::{ANN, BOT, World, jid};

const HEARTH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/debug/hearth");

/// A program that passes its words on to the test.
const PEOPLE: &str = "#!/usr/bin/env python3
import json, socket, sys
with socket.create_connection(('127.0.0.1', PORT), 60) as line:
    line.sendall(json.dumps(sys.argv[1:]).encode() + b'\\n')
    print(line.makefile(encoding='utf-8').read())
";

fn text(message: &wa::Message) -> Option<String> {
    Some(message.get_base_message().text_content()?.to_owned())
}

/// The text that a message has after an edit.
fn changed(message: &wa::Message) -> Option<String> {
    let outer = message.edited_message.as_option().and_then(|outer| outer.message.as_option()).unwrap_or(message);
    text(outer.protocol_message.as_option()?.edited_message.as_option()?)
}

/// Answers a call of that program.
fn answer(stream: &TcpStream, ann: &Peer, heard: &Mutex<Vec<String>>) {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    let words: Vec<String> = serde_json::from_str(&line).unwrap();
    let mut to = stream;
    match words.as_slice() {
        [say, texts @ ..] if say == "say" => texts.iter().for_each(|text| drop(ann.say(&jid(BOT), text))),
        [can] if can == "can" => to.write_all(b"edit-parts: what was changed stays in their list").unwrap(),
        _ => to.write_all(heard.lock().unwrap().join("\n").as_bytes()).unwrap(),
    }
}

#[test]
fn it_passes_every_case() {
    if !Path::new(HEARTH).exists() {
        return eprintln!(
            "SKIPPED: {HEARTH} is not built (`cargo build` of the main workspace), so the kit is not tried"
        );
    }
    let (world, home) = (World::start(), Home::new());
    home.link(&world);
    let ann = Arc::new(Peer::new(&world, ANN, 0));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (listener, texts) = (Arc::clone(&ann), Arc::clone(&heard));
    std::thread::spawn(move || {
        while let Some(found) = listener.heard_at_last() {
            let mut texts = texts.lock().unwrap();
            for found in &found {
                match changed(&found.message) {
                    // An edit to the text that is there shows people nothing new.
                    Some(edited) if texts.contains(&edited) => {}
                    edited => texts.extend(edited.or_else(|| text(&found.message))),
                }
            }
        }
    });
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in server.incoming().map_while(Result::ok) {
            answer(&stream, &ann, &heard);
        }
    });
    let people = home.root().join("people");
    std::fs::write(&people, PEOPLE.replace("PORT", &port.to_string())).unwrap();
    std::fs::set_permissions(&people, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::set_permissions(home.root(), PermissionsExt::from_mode(0o755)).unwrap();
    let settings = json!({ "account": "bot", "server": world.address.to_string() }).to_string();
    let mut command = Command::new(HEARTH);
    command.args(["--json", "bridge", "test", "--patience", "20", "--chat", ANN, "--settings", &settings]);
    command.arg("--network").arg(&people).arg("--directory").arg(home.root()).arg("--").arg(PROGRAM);
    let ended = command.output().unwrap();
    let found: Value = serde_json::from_slice(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&ended.stderr)));
    assert_eq!(found["failed"], 0, "{found:#}");
    let cases = found["cases"].as_array().unwrap();
    let passed = cases.iter().filter(|case| case["result"] == "passed").count();
    assert!(passed * 2 >= cases.len(), "most are tried: {found:#}");
}
