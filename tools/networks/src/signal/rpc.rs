//! Requests to signal-cli: JSON-RPC with one object a line. Answers come in any order, or not at all.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hearth_bridge::program::now;
use serde_json::{Map, Value, json};

/// Requests whose answers are waited for, or may come late.
const WAITING: usize = 1_000;

/// Why a request was not carried out, or may not have been.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum Trouble {
    /// Nothing was sent.
    #[error("{0}")]
    Down(String),
    /// It may have been carried out.
    #[error("{0}")]
    Lost(String),
    /// signal-cli says no.
    #[error("signal-cli says: {why}")]
    Refused { code: i64, why: String, data: Value },
}

pub(super) type Answer = Result<Value, Trouble>;

/// A request that was sent.
pub(super) struct Asked(Receiver<Answer>);

impl Asked {
    /// Waits for the answer; none if it does not come in time.
    pub(super) fn wait(&self, within: Duration) -> Option<Answer> {
        match self.0.recv_timeout(within) {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                Some(Err(Trouble::Lost("the connection to signal-cli ended before its answer".to_owned())))
            }
        }
    }
}

#[derive(Default)]
struct Shared {
    /// The way to the present connection.
    out: Option<SyncSender<Vec<u8>>>,
    connection: u64,
    /// The last number; never used twice, so that an answer of an earlier connection finds nothing.
    last: u64,
    waiting: BTreeMap<u64, Sender<Answer>>,
    heard: Duration,
    /// Messages in a row that were not answered in time.
    unanswered: u32,
}

/// The way to signal-cli, for all threads.
#[derive(Clone)]
pub(super) struct Rpc {
    account: Arc<str>,
    shared: Arc<Mutex<Shared>>,
}

impl Rpc {
    pub(super) fn new(account: &str) -> Self {
        Self { account: account.into(), shared: Arc::default() }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request.
    pub(super) fn start(&self, method: &str, mut parameters: Map<String, Value>) -> Result<Asked, Trouble> {
        // A daemon with several accounts needs it, and others ignore it.
        parameters.insert("account".to_owned(), json!(&*self.account));
        let mut shared = self.shared();
        let out = shared.out.clone().ok_or_else(|| Trouble::Down("signal-cli does not run".to_owned()))?;
        shared.last += 1;
        let id = shared.last;
        let mut line = json!({ "jsonrpc": "2.0", "method": method, "params": parameters, "id": id }).to_string();
        line.push('\n');
        let (sender, receiver) = channel();
        shared.waiting.insert(id, sender);
        if shared.waiting.len() > WAITING {
            shared.waiting.pop_first();
        }
        if out.try_send(line.into_bytes()).is_err() {
            shared.waiting.remove(&id);
            return Err(Trouble::Down("signal-cli reads no requests".to_owned()));
        }
        Ok(Asked(receiver))
    }

    /// Sends a request and waits for the answer.
    pub(super) fn ask(&self, method: &str, parameters: Map<String, Value>, within: Duration) -> Answer {
        let answer = self.start(method, parameters)?.wait(within);
        answer.unwrap_or_else(|| Err(Trouble::Lost(format!("signal-cli did not answer within {within:?}"))))
    }

    /// Passes on the answer to a request, if that is what an object is.
    pub(super) fn answered(&self, object: &Value) -> bool {
        let Some(id) = object.get("id").and_then(Value::as_u64) else { return false };
        let answer = match (object.get("result"), object.get("error")) {
            (_, Some(error)) if !error.is_null() => Err(Trouble::Refused {
                code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
                why: error.get("message").and_then(Value::as_str).unwrap_or_default().chars().take(300).collect(),
                data: error.get("data").cloned().unwrap_or_default(),
            }),
            (Some(result), _) => Ok(result.clone()),
            (None, _) => return false,
        };
        if let Some(sender) = self.shared().waiting.remove(&id) {
            // Its thread may wait no longer.
            drop(sender.send(answer));
        }
        true
    }

    pub(super) fn hears(&self) {
        self.shared().heard = now();
    }

    /// For how long nothing came.
    pub(super) fn silence(&self) -> Duration {
        now().saturating_sub(self.shared().heard)
    }

    /// A message was answered, or not in time.
    pub(super) fn sent(&self, is_answered: bool) {
        let mut shared = self.shared();
        shared.unanswered = if is_answered { 0 } else { shared.unanswered.saturating_add(1) };
    }

    pub(super) fn unanswered(&self) -> u32 {
        self.shared().unanswered
    }

    /// A connection begins. It ends when what this returns is dropped: then what waits for an answer ends, too.
    pub(super) fn begin(&self) -> Connection {
        let mut shared = self.shared();
        shared.connection += 1;
        Connection { rpc: self.clone(), number: shared.connection }
    }

    /// Requests can be sent, unless the connection with that number has ended already.
    pub(super) fn connect(&self, number: u64, out: SyncSender<Vec<u8>>) {
        let mut shared = self.shared();
        if shared.connection != number {
            return;
        }
        (shared.out, shared.heard, shared.unanswered) = (Some(out), now(), 0);
    }

    /// They cannot any more, and what waits for an answer ends.
    pub(super) fn disconnect(&self) {
        let mut shared = self.shared();
        shared.out = None;
        shared.connection += 1;
        shared.waiting.clear();
    }
}

/// A connection, for the thread that reads it.
pub(super) struct Connection {
    rpc: Rpc,
    pub(super) number: u64,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // There may be a later one by now.
        if self.rpc.shared().connection == self.number {
            self.rpc.disconnect();
        }
    }
}

/// Parameters from a JSON object.
pub(super) fn parameters(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    const NONE: Duration = Duration::ZERO;

    #[test]
    fn answers_find_their_requests_in_any_order() {
        let rpc = Rpc::new("+1");
        assert!(matches!(rpc.start("version", Map::new()), Err(Trouble::Down(_))));
        let (out, lines) = sync_channel(2);
        let connection = rpc.begin();
        rpc.connect(connection.number, out);
        let asked = ["a", "b"].map(|method| rpc.start(method, Map::new()).unwrap());
        let first: Value = serde_json::from_slice(&lines.recv().unwrap()).unwrap();
        assert_eq!(first, json!({ "jsonrpc": "2.0", "method": "a", "params": { "account": "+1" }, "id": 1 }));
        assert!(rpc.answered(&json!({ "id": 2, "result": 7 })));
        assert!(!rpc.answered(&json!({ "method": "receive" })) && !rpc.answered(&json!({ "id": "1", "result": 1 })));
        assert!(rpc.answered(&json!({ "id": 99, "result": 7 })), "nothing waits for it");
        assert_eq!((asked[0].wait(NONE), asked[1].wait(NONE)), (None, Some(Ok(json!(7)))));
        assert!(rpc.answered(&json!({ "id": 1, "error": { "code": -1, "message": "no" } })));
        let refused = Trouble::Refused { code: -1, why: "no".to_owned(), data: Value::Null };
        assert_eq!(asked[0].wait(NONE), Some(Err(refused)));
    }

    #[test]
    fn what_waits_ends_with_the_connection() {
        let rpc = Rpc::new("+1");
        let (out, _lines) = sync_channel(1);
        let (first, second) = (rpc.begin(), rpc.begin());
        rpc.connect(first.number, out.clone());
        assert!(rpc.start("send", Map::new()).is_err(), "that was an earlier one");
        rpc.connect(second.number, out);
        let asked = rpc.start("send", Map::new()).unwrap();
        assert!(matches!(rpc.start("send", Map::new()), Err(Trouble::Down(_))), "it reads nothing");
        drop(first);
        assert!(asked.wait(NONE).is_none(), "that was an earlier one");
        drop(second);
        assert!(matches!(asked.wait(NONE), Some(Err(Trouble::Lost(_)))));
    }
}
