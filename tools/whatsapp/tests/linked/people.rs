//! The stand-in for WhatsApp as a program, and people there, for tests that run a whole daemon (`tests/it/whatsapp_linked.rs`
//! of the main workspace). It is an example because only those are built under their own names, with what tests need.
//!
//! `whatsapp-people serve DIRECTORY` serves until its standard input ends. It writes into the directory the files `port`,
//! where WhatsApp is, `control`, where its operations are (a POST with JSON that names one as `do`), and at last `ready`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stderr,
    dead_code,
    reason = "a part of tests, and most of the stand-in is for other tests"
)]

#[path = "answers.rs"]
mod answers;
#[path = "http.rs"]
mod http;
#[path = "peer.rs"]
mod peer;
#[path = "wire.rs"]
mod wire;
#[path = "world.rs"]
mod world;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use http::{Request, answer};
use peer::{Heard, Peer};
use serde_json::{Value, json};
use whatsapp_rust::UploadOptions;
use whatsapp_rust::prelude::{MessageField, wa};
use whatsapp_rust::wacore::download::MediaType;
use world::{ANN, BOT, DEVICE, World, address, jid};

/// A person, and what they got.
struct Person {
    peer: Arc<Peer>,
    heard: Arc<Mutex<Vec<Value>>>,
}

impl Person {
    fn new(world: &World, number: &str) -> Self {
        let (peer, heard) = (Arc::new(Peer::new(world, number, 0)), Arc::<Mutex<Vec<Value>>>::default());
        let (listener, list) = (Arc::clone(&peer), Arc::clone(&heard));
        std::thread::spawn(move || {
            while let Some(messages) = listener.heard_at_last() {
                let shown: Vec<Value> = messages.iter().map(|message| shown(&listener, message)).collect();
                list.lock().unwrap().extend(shown);
            }
        });
        Self { peer, heard }
    }

    /// Writes to the bot; the id of the message.
    fn say(&self, asked: &Value) -> String {
        let text = asked["text"].as_str().unwrap();
        match asked["file"].as_str() {
            Some(name) => self.peer.send(&jid(BOT), self.file(name, text)),
            None => self.peer.say(&jid(BOT), text),
        }
    }

    /// A message with a file that has this content.
    fn file(&self, name: &str, content: &str) -> wa::Message {
        let bytes = content.as_bytes().to_vec();
        let uploaded = self.peer.wait(self.peer.client.upload(bytes, MediaType::Document, UploadOptions::new()));
        let uploaded = uploaded.unwrap();
        let document = wa::message::DocumentMessage {
            file_name: Some(name.to_owned()),
            mimetype: Some("text/plain".to_owned()),
            url: Some(uploaded.url),
            direct_path: Some(uploaded.direct_path),
            media_key: Some(uploaded.media_key.to_vec()),
            file_sha256: Some(uploaded.file_sha256.to_vec()),
            file_enc_sha256: Some(uploaded.file_enc_sha256.to_vec()),
            file_length: Some(uploaded.file_length),
            ..Default::default()
        };
        wa::Message { document_message: MessageField::some(document), ..Default::default() }
    }
}

/// A message as a person has it.
fn shown(peer: &Peer, heard: &Heard) -> Value {
    let file = heard.message.document_message.as_option().map(|document| {
        let bytes = peer.wait(peer.client.download(document)).unwrap();
        json!({ "name": document.file_name, "text": String::from_utf8_lossy(&bytes) })
    });
    json!({ "id": heard.id, "text": heard.text, "file": file })
}

/// What tests ask for.
struct Control {
    world: World,
    /// By their numbers, from when they are first named.
    people: Mutex<BTreeMap<String, Arc<Person>>>,
}

impl Control {
    fn person(&self, number: &str) -> Arc<Person> {
        let mut people = self.people.lock().unwrap();
        Arc::clone(people.entry(number.to_owned()).or_insert_with(|| Arc::new(Person::new(&self.world, number))))
    }

    fn operate(&self, asked: &Value) -> Value {
        let person = || self.person(asked["person"].as_str().unwrap_or(ANN));
        let device = address(BOT, DEVICE);
        match asked["do"].as_str().unwrap() {
            // The phone of the bot's account scans the code that links the bridge.
            "scan" => self.world.scan(asked["code"].as_str().unwrap(), BOT, DEVICE),
            "cut" => self.world.cut(&device),
            "remove" => self.world.remove(&device),
            "is-online" => {
                return json!(self.world.known().devices.get(&device).is_some_and(|found| found.is_online()));
            }
            "say" => return json!({ "id": person().say(asked) }),
            "sent" => return Value::from(person().heard.lock().unwrap().clone()),
            other => panic!("{other}"),
        }
        Value::Null
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, serve, directory] = words.as_slice() else { return eprintln!("usage: whatsapp-people serve DIRECTORY") };
    assert_eq!(serve, "serve");
    let world = World::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (here, control) = (Path::new(directory), listener.local_addr().unwrap().port());
    for (name, text) in [("port", world.address.port()), ("control", control), ("ready", 0)] {
        std::fs::write(here.join(name), text.to_string()).unwrap();
    }
    let control = Control { world, people: Mutex::default() };
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let Some(request) = Request::read(&stream) else { continue };
            let result = control.operate(&serde_json::from_slice(&request.body).unwrap());
            answer(&stream, Some(result.to_string().as_bytes()));
        }
    });
    drop(std::io::stdin().read_to_end(&mut Vec::new()));
}
