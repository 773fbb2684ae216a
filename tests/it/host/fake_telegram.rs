//! A fake Telegram Bot API on a loopback port: the real forms of requests and answers, and faults as they happen on
//! real networks.
//!
//! It stores what people would see in each chat, so that a test can count duplicates. Used by the tests of the adapter
//! and of the daemon.

#![allow(dead_code, reason = "each crate that includes this file uses a part of it")]

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

/// The bot's token.
pub(crate) const TOKEN: &str = "4242:AAfakefakefakefakefakefakefakefakef";
pub(crate) const ME: i64 = 4242;
pub(crate) const NAME: &str = "hearth_bot";

/// A fault of one call.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    None,
    /// An error in the API's form, with parameters.
    Error(u16, &'static str, Value),
    /// The connection closes before the call takes effect.
    Close,
    /// The call takes effect, and the connection closes before the answer.
    LoseAnswer,
    /// The call takes effect, and the answer is this, with this status.
    Say(u16, String),
    /// The call takes effect after [`FakeTelegram::release`] was called.
    Hold,
}

/// One call that was made.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) parameters: Value,
    /// Field, name and bytes of uploaded files.
    pub(crate) files: Vec<(String, String, Vec<u8>)>,
}

/// A running server; it stops when it is dropped.
pub(crate) struct FakeTelegram {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    stopped: bool,
    /// Open connections, as far as they were not closed yet.
    lines: Vec<Weak<TcpStream>>,
    /// Whether held calls take effect.
    released: bool,
    token: String,
    next_update: i64,
    updates: BTreeMap<i64, Value>,
    /// What a person wrote last.
    last: Value,
    calls: Vec<Call>,
    faults: BTreeMap<String, VecDeque<Fault>>,
    /// What is shown: chat, message, and its content.
    shown: Vec<(String, i64, Value)>,
    files: BTreeMap<String, (String, Vec<u8>)>,
}

impl FakeTelegram {
    /// Listens on a free port of the loopback interface.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        shared.lock().next_update = 1_000;
        shared.lock().token = TOKEN.to_owned();
        let listening = Some(listen(listener, Arc::clone(&shared)));
        Self { address, shared, listening }
    }

    /// Closes every connection and, for this long, refuses new ones. Calls under way may have taken effect, but their
    /// answers are lost. What happened until then is known afterwards.
    pub(crate) fn restart(&mut self, away: Duration) {
        self.stop();
        for line in std::mem::take(&mut self.shared.lock().lines).iter().filter_map(Weak::upgrade) {
            line.shutdown(Shutdown::Both).ok();
        }
        std::thread::sleep(away);
        self.shared.lock().stopped = false;
        self.listening = Some(listen(TcpListener::bind(self.address).unwrap(), Arc::clone(&self.shared)));
    }

    fn stop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_all();
        TcpStream::connect(self.address).ok();
        self.listening.take().map(JoinHandle::join);
    }

    /// Its port, for the script of people.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// For `base_url`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds an update: `{"message": …}`. Returns its number.
    pub(crate) fn happens(&self, update: Value) -> i64 {
        self.happen_at_once([update])
    }

    /// Adds several updates that are always answered together. Returns the number of the last one.
    pub(crate) fn happen_at_once(&self, updates: impl IntoIterator<Item = Value>) -> i64 {
        let mut state = self.shared.lock();
        for update in updates {
            let number = state.next_update;
            state.next_update += 1;
            state.add(number, update);
        }
        self.shared.changed.notify_all();
        state.next_update - 1
    }

    /// Repeats an update.
    pub(crate) fn again(&self, number: i64, update: Value) {
        self.shared.lock().add(number, update);
        self.shared.changed.notify_all();
    }

    /// The next calls of a method fail in this way, one after the other.
    pub(crate) fn fails(&self, method: &str, faults: impl IntoIterator<Item = Fault>) {
        self.shared.lock().faults.entry(method.to_owned()).or_default().extend(faults);
    }

    /// Lets held and later calls take effect.
    pub(crate) fn release(&self) {
        self.shared.lock().released = true;
        self.shared.changed.notify_all();
    }

    /// The only token that is accepted from now on.
    pub(crate) fn takes(&self, token: &str) {
        self.shared.lock().token = token.to_owned();
    }

    /// A file that can be fetched.
    pub(crate) fn has_file(&self, id: &str, path: &str, bytes: Vec<u8>) {
        self.shared.lock().files.insert(id.to_owned(), (path.to_owned(), bytes));
    }

    /// Calls of a method, in order.
    pub(crate) fn calls(&self, method: &str) -> Vec<Call> {
        self.shared.lock().calls.iter().filter(|call| call.method == method).cloned().collect()
    }

    /// The texts that people see in a chat, in order.
    pub(crate) fn shown(&self, chat: i64) -> Vec<String> {
        let chat = chat.to_string();
        let state = self.shared.lock();
        let here = state.shown.iter().filter(|(place, _, _)| *place == chat);
        here.map(|(_, _, what)| what["text"].as_str().or(what["caption"].as_str()).unwrap_or_default().to_owned())
            .collect()
    }

    /// A message that people see.
    pub(crate) fn message(&self, chat: i64, id: i64) -> Option<Value> {
        let chat = chat.to_string();
        let state = self.shared.lock();
        let found = state.shown.iter().find(|(place, message, _)| *place == chat && *message == id);
        found.map(|(_, _, what)| what.clone())
    }

    /// Updates that were not confirmed yet.
    pub(crate) fn unconfirmed(&self) -> Vec<i64> {
        self.shared.lock().updates.keys().copied().collect()
    }
}

impl Drop for FakeTelegram {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Serves until the server is stopped.
fn listen(listener: TcpListener, shared: Arc<Shared>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let stream = Arc::new(stream);
            {
                let mut state = shared.lock();
                if state.stopped {
                    return;
                }
                state.lines.retain(|line| line.strong_count() > 0);
                state.lines.push(Arc::downgrade(&stream));
            }
            let serving = Arc::clone(&shared);
            // A client that hangs up in the middle is no error.
            std::thread::spawn(move || serve(&stream, &serving).ok());
        }
    })
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// What happens among people, if anything, and everything that they see and the bot did.
    fn people(&self, asked: &Value) -> Value {
        let mut state = self.lock();
        let all = |name: &str| asked[name].as_array().cloned().unwrap_or_default();
        for file in all("files") {
            let word = |name: &str| file[name].as_str().unwrap_or_default().to_owned();
            state.files.insert(word("id"), (word("path"), unhex(&word("hex"))));
        }
        for fault in all("faults") {
            let method = fault["method"].as_str().unwrap_or_default().to_owned();
            state.faults.entry(method).or_default().push_back(fault_of(&fault));
        }
        let again = asked["again"].is_object().then(|| state.last.clone());
        for mut update in all("updates").into_iter().chain(again) {
            let number = state.next_update;
            state.next_update += 1;
            if update["message"].is_object() && update["message"]["message_id"].is_null() {
                update["message"]["message_id"] = json!(number);
                state.last = update.clone();
            }
            state.add(number, update);
        }
        self.changed.notify_all();
        let called = |name: &'static str| {
            state.calls.iter().filter(move |call| call.method == name).map(|call| call.parameters.clone())
        };
        let files = state.calls.iter().flat_map(|call| &call.files).map(|(_, name, bytes)| json!([name, hex(bytes)]));
        let shown = state.shown.iter().filter(|(place, ..)| place == "123").map(|(_, id, what)| {
            let mut what = what.clone();
            what["message_id"] = json!(id);
            what
        });
        let said: Vec<Value> = called("sendMessage").chain(called("editMessageText")).collect();
        json!({
            "shown": shown.collect::<Vec<_>>(),
            "files": files.collect::<Vec<_>>(),
            "reactions": called("setMessageReaction").collect::<Vec<_>>(),
            "said": said,
            "last": state.last["message"],
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// A fault that people asked for.
fn fault_of(asked: &Value) -> Fault {
    match (asked["status"].as_u64(), asked["body"].as_str()) {
        _ if asked["none"] == true => Fault::None,
        (None, _) => Fault::LoseAnswer,
        (Some(status), Some(body)) => Fault::Say(u16::try_from(status).unwrap(), body.to_owned()),
        (Some(status), None) => Fault::Error(u16::try_from(status).unwrap(), "a test", asked["more"].clone()),
    }
}

impl State {
    fn add(&mut self, number: i64, mut update: Value) {
        if update.is_object() {
            update["update_id"] = json!(number);
        }
        self.updates.insert(number, update);
    }
}

struct Request {
    path: String,
    parameters: Value,
    files: Vec<(String, String, Vec<u8>)>,
}

fn serve(stream: &TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader)? {
        let path: Vec<&str> = request.path.trim_start_matches('/').split('/').collect();
        let token = shared.lock().token.clone();
        match path.as_slice() {
            [bot, method] if *bot == format!("bot{token}") => {
                let method = (*method).to_owned();
                if !call(stream, shared, &method, request)? {
                    return stream.shutdown(Shutdown::Both);
                }
            }
            ["file", bot, rest @ ..] if *bot == format!("bot{token}") => {
                let path = rest.join("/").replace("%20", " ");
                let found =
                    shared.lock().files.values().find(|(known, _)| *known == path).map(|(_, bytes)| bytes.clone());
                match found {
                    Some(bytes) => respond(stream, 200, "application/octet-stream", &bytes)?,
                    None => respond_json(stream, 404, &error(404, "Not Found", &json!({})))?,
                }
            }
            ["people"] => respond_json(stream, 200, &shared.people(&request.parameters))?,
            [bot, _] if bot.starts_with("bot") => {
                respond_json(stream, 401, &error(401, "Unauthorized", &json!({})))?;
            }
            _ => respond(stream, 404, "text/html", b"<html>nothing here</html>")?,
        }
    }
    Ok(())
}

/// Carries out a call. Returns false if the connection has to be closed.
fn call(stream: &TcpStream, shared: &Shared, method: &str, request: Request) -> std::io::Result<bool> {
    let Request { parameters, files, .. } = request;
    let fault = {
        let mut state = shared.lock();
        state.calls.push(Call { method: method.to_owned(), parameters: parameters.clone(), files: files.clone() });
        state.faults.get_mut(method).and_then(VecDeque::pop_front)
    };
    match fault {
        Some(Fault::Error(code, words, more)) => {
            respond_json(stream, code, &error(code, words, &more))?;
            return Ok(true);
        }
        Some(Fault::Close) => return Ok(false),
        Some(Fault::Hold) => {
            drop(shared.changed.wait_while(shared.lock(), |state| !state.released && !state.stopped).unwrap());
        }
        Some(Fault::None | Fault::LoseAnswer | Fault::Say(..)) | None => {}
    }
    let (status, answer) = happen(shared, method, &parameters, &files);
    match fault {
        Some(Fault::LoseAnswer) => Ok(false),
        Some(Fault::Say(status, words)) => respond(stream, status, "text/html", words.as_bytes()).map(|()| true),
        _ => respond_json(stream, status, &answer).map(|()| true),
    }
}

fn error(code: u16, words: &str, more: &Value) -> Value {
    json!({ "ok": false, "error_code": code, "description": words, "parameters": more })
}

/// Applies a call and returns its result.
fn happen(shared: &Shared, method: &str, p: &Value, files: &[(String, String, Vec<u8>)]) -> (u16, Value) {
    let done = |result: Value| (200, json!({ "ok": true, "result": result }));
    let refused = |words: &str| (400, error(400, words, &json!({})));
    let chat = p["chat_id"].as_str().map_or_else(|| p["chat_id"].to_string(), str::to_owned);
    match method {
        "getMe" => done(json!({ "id": ME, "is_bot": true, "first_name": "Hearth", "username": NAME })),
        "getUpdates" => done(updates(shared, p)),
        "getFile" => match shared.lock().files.get(p["file_id"].as_str().unwrap_or_default()) {
            Some((path, bytes)) => {
                done(json!({ "file_id": p["file_id"], "file_path": path, "file_size": bytes.len() }))
            }
            None => refused("Bad Request: invalid file_id"),
        },
        "sendMessage" if p["text"].as_str().unwrap_or_default().encode_utf16().count() > 4_096 => {
            refused("Bad Request: message is too long")
        }
        "sendMessage" if p["text"].as_str().unwrap_or_default().is_empty() => {
            refused("Bad Request: message text is empty")
        }
        "sendMessage" | "sendPhoto" | "sendVoice" | "sendDocument" => {
            let mut state = shared.lock();
            let id = 100 + i64::try_from(state.shown.iter().filter(|(place, _, _)| *place == chat).count()).unwrap();
            let mut what = p.clone();
            if let Some((field, name, bytes)) = files.first() {
                what[field.as_str()] = json!({ "name": name, "bytes": bytes.len() });
            }
            state.shown.push((chat.clone(), id, what));
            done(json!({ "message_id": id, "date": 1, "chat": { "id": p["chat_id"], "type": "private" } }))
        }
        "editMessageText" | "deleteMessage" => {
            let mut state = shared.lock();
            let at = state.shown.iter().position(|(place, id, _)| *place == chat && json!(id) == p["message_id"]);
            let Some(at) = at else { return refused("Bad Request: message to edit not found") };
            if method == "deleteMessage" {
                state.shown.remove(at);
                return done(json!(true));
            }
            let what = &mut state.shown[at].2;
            if what["text"].is_null() {
                return refused("Bad Request: there is no text in the message to edit");
            }
            if what["text"] == p["text"] && what["reply_markup"] == p["reply_markup"] {
                return refused("Bad Request: message is not modified: specified new message content is the same");
            }
            *what = p.clone();
            done(p.clone())
        }
        "editMessageCaption" | "sendChatAction" | "sendMessageDraft" | "setMessageReaction" | "answerCallbackQuery" => {
            done(json!(true))
        }
        _ => (404, error(404, "Not Found: method not found", &json!({}))),
    }
}

/// Waits for updates from an offset on, and forgets those before it.
fn updates(shared: &Shared, p: &Value) -> Value {
    let offset = p["offset"].as_i64().unwrap_or(0);
    let limit = usize::try_from(p["limit"].as_u64().unwrap_or(100)).unwrap();
    let timeout = Duration::from_secs(p["timeout"].as_u64().unwrap_or(0));
    let mut state = shared.lock();
    state.updates.retain(|number, _| *number >= offset);
    if state.updates.is_empty() && !state.stopped {
        state = shared.changed.wait_timeout_while(state, timeout, |s| s.updates.is_empty() && !s.stopped).unwrap().0;
    }
    state.updates.values().take(limit).cloned().collect()
}

fn read_request(reader: &mut BufReader<&TcpStream>) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let path = line.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let (mut length, mut kind) = (0, String::new());
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        match header.trim_end().split_once(':') {
            None => break,
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap()
            }
            Some((name, value)) if name.eq_ignore_ascii_case("content-type") => kind = value.trim().to_owned(),
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (parameters, files) = match kind.split_once("boundary=") {
        Some((_, boundary)) => parts(&body, boundary.trim_matches('"')),
        None => (serde_json::from_slice(&body).unwrap_or_default(), Vec::new()),
    };
    Ok(Some(Request { path, parameters, files }))
}

/// The parts of a form: values, and files.
fn parts(body: &[u8], boundary: &str) -> (Value, Vec<(String, String, Vec<u8>)>) {
    let (mut values, mut files) = (json!({}), Vec::new());
    let mark = format!("--{boundary}");
    for part in split(body, mark.as_bytes()) {
        let Some(at) = find(part, b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&part[..at]).into_owned();
        let bytes = part[at + 4..].strip_suffix(b"\r\n").unwrap_or(&part[at + 4..]);
        let attribute = |name: &str| {
            let after = head.split_once(&format!("{name}=\""))?.1;
            Some(after.split('"').next()?.to_owned())
        };
        let Some(name) = attribute("; name") else { continue };
        match attribute("filename") {
            Some(file) => files.push((name, file, bytes.to_vec())),
            None => {
                let text = String::from_utf8_lossy(bytes).into_owned();
                let number = if name.ends_with("_id") { text.parse::<i64>().ok() } else { None };
                values[name] = number.map_or_else(|| json!(text), |number| json!(number));
            }
        }
    }
    (values, files)
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

fn split<'t>(mut text: &'t [u8], mark: &[u8]) -> Vec<&'t [u8]> {
    let mut pieces = Vec::new();
    while let Some(at) = find(text, mark) {
        pieces.push(&text[..at]);
        text = &text[at + mark.len()..];
    }
    pieces
}

fn respond_json(stream: &TcpStream, status: u16, body: &Value) -> std::io::Result<()> {
    respond(stream, status, "application/json", body.to_string().as_bytes())
}

fn respond(mut stream: &TcpStream, status: u16, kind: &str, body: &[u8]) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 {status} Status\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    stream.flush()
}
