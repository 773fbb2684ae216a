//! A stand-in for the Anthropic Messages API on a loopback port, so that the real agent CLI can be tested offline.
//!
//! What it answers is written in the newest prompt, in double brackets:
//!
//! | directive | effect |
//! |---|---|
//! | `[[tool NAME JSON]]` | calls a tool; several are called one after the other, each in a round of its own |
//! | `[[tools NAME JSON ;; NAME JSON]]` | calls several tools in one round |
//! | `[[first TEXT]]` | a text before the first round of calls, written like that of `say` |
//! | `[[say TEXT]]` | the text of the answer, `{{` and `}}` in it standing for `<` and `>`; |
//! | | without it the answer is `heard: ` and the prompt without its tags |
//! | `[[recall]]` | the answer is all earlier prompts of the conversation, without their tags, joined by ` / ` |
//! | `[[better TEXT]]` | the answer when the agent is asked again where its answer to this prompt goes |
//! | `[[error STATUS TYPE]]` | an API error instead of an answer |
//! | `[[stop N]]` | the text of the answer stops after N characters until [`FakeApi::open`] |
//! | `[[gate N]]` | the answer after N rounds of calls waits until [`FakeApi::open`] |
//!
//! As a model would, it does not call `send_message` again when it is told that this was delivered already.
//!
//! Used by the tests of the runner and of the daemon, hence in neither of them.

#![allow(dead_code, reason = "each crate that includes this file uses a part of it")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// A running API; it stops when it is dropped.
pub(crate) struct FakeApi {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    answered: AtomicU64,
    requests: Mutex<Vec<Value>>,
    /// Number of requests that wait at a gate.
    waiting: AtomicU64,
    open: AtomicBool,
    trouble: Mutex<Option<Trouble>>,
    /// The only accepted key; empty accepts any.
    key: Mutex<String>,
    /// The models that it lists; `claude-test` if there are none.
    models: Mutex<Vec<String>>,
    /// Received keys, in order.
    keys: Mutex<Vec<String>>,
}

/// A failure that every request gets instead of an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trouble {
    /// A status with its type, and a header with the seconds after which to retry.
    Status(u16, &'static str, Option<u32>),
    /// A stream that breaks off in the middle.
    Breaks,
    /// A stream that begins and stalls.
    Stalls,
    /// No answer at all, not even response headers.
    Mute,
}

/// The directives of the newest prompt.
#[derive(Debug, Default)]
struct Script {
    /// A text before the calls.
    first: Option<String>,
    /// Rounds of calls.
    tools: Vec<Vec<(String, Value)>>,
    say: String,
    error: Option<(u16, String)>,
    /// Tools that were called already.
    called: usize,
    gate: Option<usize>,
    /// Characters of the text that come before the gate opens.
    stop: Option<usize>,
}

impl Shared {
    /// Waits at the gate.
    fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while !self.open.load(Ordering::SeqCst) && !self.stopped.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

struct Request {
    method: String,
    path: String,
    /// From `x-api-key`, or a bearer token.
    key: String,
    body: Value,
}

impl FakeApi {
    /// Listens on a free port of the loopback interface.
    pub(crate) fn start() -> Self {
        Self::start_at(0)
    }

    /// Listens on a port of the loopback interface.
    pub(crate) fn start_at(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if serving.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let serving = Arc::clone(&serving);
                // A client that hangs up in the middle is no error.
                std::thread::spawn(move || serve(stream, &serving).ok());
            }
        });
        Self { address, shared }
    }

    /// For `ANTHROPIC_BASE_URL`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Releases requests that wait at a gate, and all later ones.
    pub(crate) fn open(&self) {
        self.shared.open.store(true, Ordering::SeqCst);
    }

    /// How many requests have reached a gate.
    pub(crate) fn gated(&self) -> u64 {
        self.shared.waiting.load(Ordering::SeqCst)
    }

    /// From now on every request gets this failure, or an answer again.
    pub(crate) fn trouble(&self, trouble: Option<Trouble>) {
        *self.shared.trouble.lock().unwrap() = trouble;
    }

    /// The only key that is accepted from now on, as an API key or a bearer token.
    pub(crate) fn takes(&self, key: &str) {
        *self.shared.key.lock().unwrap() = key.to_owned();
    }

    /// The models that it lists from now on.
    pub(crate) fn offers(&self, models: &[&str]) {
        *self.shared.models.lock().unwrap() = models.iter().map(|&id| id.to_owned()).collect();
    }

    /// The keys of all requests, in order.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.shared.keys.lock().unwrap().clone()
    }

    /// Bodies of the requests for a message, in order.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.shared.requests.lock().unwrap().clone()
    }
}

impl Drop for FakeApi {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        TcpStream::connect(self.address).ok();
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let request = read_request(&stream)?;
    let path = request.path.split('?').next().unwrap_or_default();
    shared.keys.lock().unwrap().push(request.key.clone());
    let key = shared.key.lock().unwrap().clone();
    if !key.is_empty() && key != request.key && path.starts_with("/v1/") {
        return respond(&mut stream, 401, &failure("authentication_error", "invalid x-api-key"));
    }
    match (request.method.as_str(), path) {
        ("GET", "/v1/models") => models(&mut stream, shared),
        ("POST", "/v1/messages") => answer(&mut stream, shared, &request.body),
        ("POST", "/v1/messages/count_tokens") => respond(&mut stream, 200, &json!({"input_tokens": 100})),
        ("HEAD", _) | ("GET", "/") => respond(&mut stream, 200, &Value::Null),
        _ => respond(&mut stream, 404, &failure("not_found_error", "the stand-in has no such page")),
    }
}

fn models(stream: &mut TcpStream, shared: &Shared) -> std::io::Result<()> {
    let trouble = *shared.trouble.lock().unwrap();
    match trouble {
        Some(trouble) => be_in_trouble(stream, shared, trouble, false),
        None => {
            let mut models = shared.models.lock().unwrap().clone();
            if models.is_empty() {
                models.push("claude-test".to_owned());
            }
            let models: Vec<Value> = models.iter().map(|id| json!({"type": "model", "id": id})).collect();
            respond(stream, 200, &json!({"data": models, "has_more": false}))
        }
    }
}

fn read_request(stream: &TcpStream) -> std::io::Result<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (mut length, mut key) = (0, String::new());
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        match header.trim_end().split_once(':') {
            None => break,
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap()
            }
            Some((name, value)) if name.eq_ignore_ascii_case("x-api-key") => key = value.trim().to_owned(),
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                key = value.trim().trim_start_matches("Bearer ").to_owned();
            }
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Request { method, path, key, body: serde_json::from_slice(&body).unwrap_or_default() })
}

fn answer(stream: &mut TcpStream, shared: &Shared, body: &Value) -> std::io::Result<()> {
    shared.requests.lock().unwrap().push(body.clone());
    let number = shared.answered.fetch_add(1, Ordering::SeqCst);
    let script = script(body);
    let trouble = *shared.trouble.lock().unwrap();
    if let Some(trouble) = trouble {
        return be_in_trouble(stream, shared, trouble, body["stream"] == true);
    }
    if script.gate == Some(script.called) {
        shared.wait();
    }
    if let Some((status, kind)) = &script.error {
        return respond(stream, *status, &failure(kind, "as the prompt asked"));
    }
    // Requests without tools, such as for a summary, cannot call any.
    let round =
        script.tools.get(script.called).filter(|_| body["tools"].as_array().is_some_and(|tools| !tools.is_empty()));
    let (content, reason) = match round {
        Some(calls) => {
            let call = |(place, (name, input)): (usize, &(String, Value))| json!({"type": "tool_use", "id": format!("toolu_{number}_{place}"), "name": name, "input": input});
            let first = script.first.filter(|_| script.called == 0).map(|text| json!({"type": "text", "text": text}));
            (first.into_iter().chain(calls.iter().enumerate().map(call)).collect::<Vec<_>>(), "tool_use")
        }
        None => (vec![json!({"type": "text", "text": script.say})], "end_turn"),
    };
    let message = json!({
        "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": body["model"],
        "content": content, "stop_reason": reason, "stop_sequence": null,
        "usage": {"input_tokens": 100, "output_tokens": 10},
    });
    if body["stream"] == true {
        stream_message(stream, shared, message, script.stop)
    } else {
        respond(stream, 200, &message)
    }
}

fn be_in_trouble(stream: &mut TcpStream, shared: &Shared, trouble: Trouble, streamed: bool) -> std::io::Result<()> {
    if let Trouble::Status(status, kind, after) = trouble {
        let after = after.map(|after| format!("retry-after: {after}\r\n")).unwrap_or_default();
        let body = failure(kind, "the API is in trouble").to_string();
        write!(
            stream,
            "HTTP/1.1 {status} .\r\ncontent-type: application/json\r\n{after}content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )?;
        return stream.flush();
    }
    let wait = || {
        while !shared.stopped.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    if matches!(trouble, Trouble::Mute) {
        wait();
        return Ok(());
    }
    if !streamed {
        // The same in one piece: shorter than the announced length.
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{{\"id\": ")?;
        return stream.flush();
    }
    let message = json!({
        "id": "msg_trouble", "type": "message", "role": "assistant", "model": "claude", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 100, "output_tokens": 1},
    });
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
    send(stream, &json!({"type": "message_start", "message": message}))?;
    send(stream, &json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}))?;
    send(stream, &json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "half"}}))?;
    if matches!(trouble, Trouble::Stalls) {
        wait();
    }
    Ok(())
}

/// The message as a series of server-sent events.
fn stream_message(
    stream: &mut TcpStream,
    shared: &Shared,
    mut message: Value,
    stop: Option<usize>,
) -> std::io::Result<()> {
    let contents = message["content"].take();
    let reason = message["stop_reason"].take();
    message["content"] = json!([]);
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
    send(stream, &json!({"type": "message_start", "message": message}))?;
    for (index, content) in contents.as_array().into_iter().flatten().enumerate() {
        let (start, deltas) = if let Some(text) = content["text"].as_str() {
            let at = stop.and_then(|stop| text.char_indices().nth(stop)).map_or(text.len(), |(at, _)| at);
            let (before, after) = text.split_at(at);
            let pieces = [before, after].into_iter().filter(|piece| !piece.is_empty());
            let delta = |piece: &str| json!({"type": "text_delta", "text": piece});
            (json!({"type": "text", "text": ""}), pieces.map(delta).collect())
        } else {
            let delta = json!({"type": "input_json_delta", "partial_json": content["input"].to_string()});
            let mut start = content.clone();
            start["input"] = json!({});
            (start, vec![delta])
        };
        send(stream, &json!({"type": "content_block_start", "index": index, "content_block": start}))?;
        for (number, delta) in deltas.iter().enumerate() {
            if number > 0 {
                shared.wait();
            }
            send(stream, &json!({"type": "content_block_delta", "index": index, "delta": delta}))?;
        }
        send(stream, &json!({"type": "content_block_stop", "index": index}))?;
    }
    send(stream, &json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 10}}))?;
    send(stream, &json!({"type": "message_stop"}))
}

fn send(stream: &mut TcpStream, event: &Value) -> std::io::Result<()> {
    write!(stream, "event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())?;
    stream.flush()
}

fn respond(stream: &mut TcpStream, status: u16, body: &Value) -> std::io::Result<()> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} .\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )?;
    stream.flush()
}

fn failure(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

/// Reads the newest prompt, and what happened since.
fn script(body: &Value) -> Script {
    let mut prompts: Vec<String> = Vec::new();
    let mut script = Script::default();
    for message in body["messages"].as_array().into_iter().flatten().filter(|message| message["role"] == "user") {
        match prompt_of(message) {
            Some(prompt) => {
                prompts.push(prompt);
                script.called = 0;
            }
            None => script.called += 1,
        }
    }
    let newest = prompts.pop().unwrap_or_default();
    let was_said = newest.contains(SAID_ALREADY);
    script.say = format!("heard: {}", newest.trim());
    if let (true, Some(before)) = (is_told_off(&newest), prompts.iter().rfind(|prompt| !is_told_off(prompt)))
        && let Some((better, _)) = before.split_once("[[better ").and_then(|(_, rest)| rest.split_once("]]"))
    {
        script.say = better.replace("{{", "<").replace("}}", ">");
    }
    for directive in newest.split("[[").skip(1).filter_map(|part| part.split_once("]]")).map(|(directive, _)| directive)
    {
        let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "tool" if was_said && first.ends_with("send_message") => {
                // The gate is where it would have been.
                script.gate = script.gate.map(|gate| gate.saturating_sub(1));
            }
            "tool" => script.tools.push(vec![(first.to_owned(), serde_json::from_str(second).unwrap())]),
            "tools" => script.tools.push(rest.split(";;").map(call).collect()),
            "better" => {}
            "first" => script.first = Some(rest.replace("{{", "<").replace("}}", ">")),
            "say" => script.say = rest.replace("{{", "<").replace("}}", ">"),
            "recall" => script.say = prompts.iter().map(|prompt| prompt.trim()).collect::<Vec<_>>().join(" / "),
            "stop" => script.stop = Some(rest.parse().unwrap()),
            "gate" => script.gate = Some(rest.parse().unwrap()),
            "error" => script.error = Some((first.parse().unwrap(), second.to_owned())),
            _ => script.say = format!("the stand-in knows no directive {word}"),
        }
    }
    script
}

/// Whether the runner asks for a corrected answer.
fn is_told_off(prompt: &str) -> bool {
    ["Your response was not delivered", "Not delivered"].iter().any(|words| prompt.trim().starts_with(words))
}

/// The runner's heading above the messages that an interrupted turn has already sent.
const SAID_ALREADY: &str = "This was already delivered and must not be sent again:";

/// `NAME JSON`.
fn call(text: &str) -> (String, Value) {
    let (name, input) = text.trim().split_once(' ').unwrap();
    (name.to_owned(), serde_json::from_str(input.trim()).unwrap())
}

/// A person's text in a message, without tags and escapes; `None` for tool results.
fn prompt_of(message: &Value) -> Option<String> {
    let texts: Vec<&str> = match &message["content"] {
        Value::String(text) => vec![text],
        blocks => blocks.as_array()?.iter().filter_map(|block| block["text"].as_str()).collect(),
    };
    // The agent CLI adds reminders, and where it keeps images.
    let is_added = |text: &str| ["<system-reminder>", "[Image: source:"].iter().any(|begin| text.starts_with(begin));
    let text = texts.into_iter().rfind(|text| !is_added(text.trim_start()))?;
    let without_tags: String =
        text.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect();
    let unescaped = without_tags.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">");
    Some(unescaped.replace("&amp;", "&"))
}
