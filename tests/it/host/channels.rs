//! Webhook channels: signed requests to the daemon, and a receiver of its messages.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;

use super::wait_for;

pub(crate) const SECRET: &str = "a secret of both sides";

/// A free port of this machine. It is below the range from which the system assigns ports, and each is used only once,
/// so that no other program takes it first.
pub(crate) fn free_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 100).unwrap() * 100;
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(|| 20_000 + (first + GIVEN.fetch_add(1, Ordering::Relaxed)) % 10_000).find(free).unwrap()
}

pub(crate) fn sign(secret: &str, stamp: &str, body: &str) -> String {
    let mut sum = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    sum.update(format!("{stamp}.{body}").as_bytes());
    let hex: String = sum.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("v1={hex}")
}

/// Calls the web service; none if no service listens there.
pub(crate) fn post(port: u16, secret: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
    let body = body.to_string();
    let stamp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\nx-hearth-timestamp: {stamp}\r\nx-hearth-signature: {}\r\n\r\n{body}",
        body.len(),
        sign(secret, &stamp, &body)
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some((status, serde_json::from_str(body).unwrap_or_default()))
}

/// A receiver that shows each message once. It loses the given number of answers after it accepted the request.
pub(crate) struct Receiver {
    port: u16,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    pub(crate) fn start(answers: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut answers = answers.iter();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(body) = read_request(&mut stream) else { continue };
                let body: Value = serde_json::from_slice(&body).unwrap();
                let is_sign = body["act"] == "typing";
                record.lock().unwrap().push(body);
                let answer = if is_sign { Some(&"501 No") } else { answers.next() };
                let answer = answer.copied().unwrap_or("200 OK");
                if !answer.is_empty() {
                    let id = r#"{"messageId": "b1", "platformId": "alone"}"#;
                    let length = id.len();
                    let answer =
                        format!("HTTP/1.1 {answer}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{id}");
                    stream.write_all(answer.as_bytes()).ok();
                }
            }
        });
        Self { port, asked }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("base_url = \"http://127.0.0.1:{}\"", self.port)
    }

    pub(crate) fn said(&self) -> Vec<Value> {
        self.did("say")
    }

    pub(crate) fn did(&self, act: &str) -> Vec<Value> {
        self.asked.lock().unwrap().iter().filter(|body| body["act"] == act).cloned().collect()
    }

    pub(crate) fn wait(&self, act: &str) -> Value {
        wait_for(act, || self.did(act).pop())
    }
}

pub(crate) fn read_request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut read = Vec::new();
    loop {
        let mut part = [0; 4_096];
        let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
        read.extend_from_slice(&part[..count]);
        let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let body = end + 4..end + 4 + length.parse::<usize>().unwrap();
        if let Some(body) = read.get(body) {
            return Some(body.to_vec());
        }
    }
}
