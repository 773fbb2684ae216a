//! What WhatsApp's requests are answered with. A report with messages is on disk before its 200: WhatsApp forgets it then, and
//! repeats it for days otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use hearth_bridge::program::log;
use hearth_bridge::program::state::{Side, State};
use serde_json::Value;

use super::http::{Reply, Request, value};
use super::report;
use super::signature::Key;
use super::statuses::Statuses;
use hearth_bridge::program::spool::{Number, Spool};

/// Reports that may wait on disk; WhatsApp keeps the rest.
const WAITING: usize = 250;
/// Longest text that proves the address.
const CHALLENGE: usize = 256;

pub(super) struct Webhook {
    pub(super) path: String,
    /// The verify token, which the operator chose.
    pub(super) verify: String,
    pub(super) key: Key,
    pub(super) number: String,
    pub(super) statuses: Statuses,
    pub(super) state: State,
    pub(super) spool: Spool,
    pub(super) news: Sender<Number>,
    /// How many reports are on disk.
    pub(super) waiting: Arc<AtomicUsize>,
}

impl Webhook {
    pub(super) fn answer(&self, request: &Request) -> Reply {
        if request.path != self.path {
            return Reply::status(404);
        }
        match request.method.as_str() {
            "GET" => self.subscribe(&request.query),
            "POST" => Reply::status(self.report(request)),
            _ => Reply::status(405),
        }
    }

    /// Proves to WhatsApp that this address was meant.
    fn subscribe(&self, query: &str) -> Reply {
        let token = value(query, "hub.verify_token").unwrap_or_default();
        let is_known =
            self.key.is_same(&token, &self.verify) && value(query, "hub.mode").as_deref() == Some("subscribe");
        let challenge = value(query, "hub.challenge").filter(|text| (1..=CHALLENGE).contains(&text.len()));
        match challenge {
            Some(text) if is_known => Reply { status: 200, text },
            _ => {
                log("a request to verify the address was refused: its verify token is not the one of `secret`");
                Reply::status(403)
            }
        }
    }

    /// Takes a report; the status of the answer.
    fn report(&self, request: &Request) -> u16 {
        // Nothing is read before its signature was checked.
        if !request.signature.as_deref().is_some_and(|header| self.key.signs(header, &request.body)) {
            log("a request was refused that is not signed with the app's secret");
            return 401;
        }
        let Ok(whole) = serde_json::from_slice::<Value>(&request.body) else {
            log("a signed request was refused that is no JSON");
            return 400;
        };
        self.state.works(Side::Inbox);
        let report = report::read(&whole, &self.number);
        report.statuses.into_iter().for_each(|status| self.statuses.add(status));
        if report.messages.is_empty() { 200 } else { self.keep(&request.body) }
    }

    fn keep(&self, body: &[u8]) -> u16 {
        if self.waiting.load(Ordering::SeqCst) >= WAITING {
            return 503;
        }
        match self.spool.add(body) {
            Ok(number) => {
                self.waiting.fetch_add(1, Ordering::SeqCst);
                // If the other side is gone, the process ends, and the next one finds it on disk.
                self.news.send(number).map_or(503, |()| 200)
            }
            Err(error) => {
                log(&format!("a message cannot be stored, and WhatsApp is asked to repeat it: {error}"));
                503
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    fn webhook(directory: &std::path::Path) -> (Webhook, Receiver<Number>) {
        let (news, numbers) = channel();
        let webhook = Webhook {
            path: "/w".to_owned(),
            verify: "mine".to_owned(),
            key: Key::new("secret").unwrap(),
            number: "42".to_owned(),
            statuses: Statuses::default(),
            state: State::default(),
            spool: Spool::open(directory).unwrap().0,
            news,
            waiting: Arc::default(),
        };
        (webhook, numbers)
    }

    fn asked(method: &str, path: &str, query: &str) -> Request {
        let [method, path, query] = [method, path, query].map(str::to_owned);
        Request { method, path, query, signature: None, body: b"{}".to_vec() }
    }

    #[test]
    fn an_address_is_proved_to_those_who_know_the_verify_token() {
        let root = tempfile::tempdir().unwrap();
        let (webhook, _numbers) = webhook(root.path());
        let good = "hub.mode=subscribe&hub.verify_token=mine&hub.challenge=77";
        assert_eq!(webhook.answer(&asked("GET", "/w", good)), Reply { status: 200, text: "77".to_owned() });
        for query in [
            "",
            "hub.mode=subscribe&hub.verify_token=min&hub.challenge=77",
            "hub.mode=other&hub.verify_token=mine&hub.challenge=77",
            "hub.mode=subscribe&hub.verify_token=mine",
            "hub.mode=subscribe&hub.challenge=77",
            &format!("hub.mode=subscribe&hub.verify_token=mine&hub.challenge={}", "7".repeat(257)),
        ] {
            assert_eq!(webhook.answer(&asked("GET", "/w", query)), Reply::status(403), "{query}");
        }
        assert_eq!(webhook.answer(&asked("GET", "/", good)).status, 404);
        assert_eq!(
            (webhook.answer(&asked("PUT", "/w", "")).status, webhook.answer(&asked("POST", "/w", "")).status),
            (405, 401)
        );
    }

    #[test]
    fn a_report_is_on_disk_before_it_is_confirmed() {
        let root = tempfile::tempdir().unwrap();
        let (webhook, numbers) = webhook(root.path());
        let message = "{\"entry\":[{\"changes\":[{\"field\":\"messages\",\"value\":{\"metadata\":{\"phone_number_id\":\"42\"},\
                       \"messages\":[{\"from\":\"15550000001\",\"id\":\"a\",\"type\":\"text\",\"text\":{\"body\":\"hi\"}}]}}]}]}";
        let signed = |body: &str, hex: &str| {
            let signature = Some(format!("sha256={hex}"));
            webhook.answer(&Request { signature, body: body.as_bytes().to_vec(), ..asked("POST", "/w", "") }).status
        };
        // Python: hmac.new(b"secret", message, "sha256").hexdigest()
        let hex = "a5e22975ff2270122ed98ca2c03d1abde6eee8bab9cf63db3912f5b5d64a6150";
        assert_eq!(signed(message, hex), 200);
        let number = numbers.try_recv().unwrap();
        assert_eq!(webhook.spool.get(number).unwrap().as_deref(), Some(message.as_bytes()));
        assert_eq!((signed(message, &hex.replace('0', "1")), signed("{}", hex)), (401, 401));
        assert_eq!(
            (
                signed("x", "117eca332f7e13ccb8e4574e4f33daa212a9231353670c2b8b4797df0bb77afa"),
                signed("{}", "77325902caca812dc259733aacd046b73817372c777b8d95b402647474516e13")
            ),
            (400, 200)
        );
        webhook.waiting.store(WAITING, Ordering::SeqCst);
        assert_eq!(signed(message, hex), 503);
        webhook.waiting.store(0, Ordering::SeqCst);
        drop(root);
        assert_eq!(signed(message, hex), 503);
        assert!(numbers.try_recv().is_err());
    }
}
