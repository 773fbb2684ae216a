//! Keeps the connection to signal-cli: starts it again when it ends, hangs or writes what is no JSON.

use std::sync::mpsc::Sender;
use std::thread::sleep;
use std::time::Duration;

use hearth_bridge::program::run::failed;
use hearth_bridge::program::state::{Side, State};
use hearth_bridge::program::{FrameWriter, log, now};
use serde_json::{Map, Value};

use super::link::{Link, NoLink, Place};
use super::rpc::{Rpc, Trouble};
use super::{UNLINKED_AGAIN, is_unlinked, unlinked};
use hearth_bridge::program::spool::{Number, Spool};

/// Waits before a new connection.
const FIRST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(60);
/// After so long a connection was well.
const WELL: Duration = Duration::from_secs(60);
/// How often is looked whether it works.
const LOOK: Duration = Duration::from_secs(5);
/// After so long without a line it is asked whether it works.
const SILENCE: Duration = Duration::from_secs(15);
/// Time for an answer to that.
const ANSWER: Duration = Duration::from_secs(15);
/// So many messages in a row without an answer: it hangs.
const DEAF: u32 = 2;
/// Lines in a row that are no JSON.
const GARBAGE: u32 = 20;
/// Wait before a line that could not be stored is tried again.
const DISK: Duration = Duration::from_secs(2);

/// What is done with the lines of a connection.
#[derive(Clone)]
pub(super) struct Feed {
    pub(super) rpc: Rpc,
    pub(super) spool: Spool,
    pub(super) news: Sender<Number>,
}

impl Feed {
    pub(super) fn open(&self, place: &Place) -> Result<Link, NoLink> {
        let (feed, connection, mut garbage) = (self.clone(), self.rpc.begin(), 0);
        let number = connection.number;
        let sink = Box::new(move |line: Vec<u8>| {
            // It ends with the thread that reads.
            let _ = &connection;
            feed.take(&line, &mut garbage)
        });
        let (link, out) = Link::open(place, sink)?;
        self.rpc.connect(number, out);
        Ok(link)
    }

    /// Handles a line. One that reports something is on disk before the next one is read.
    fn take(&self, line: &[u8], garbage: &mut u32) -> Result<(), String> {
        let Ok(object @ Value::Object(_)) = serde_json::from_slice::<Value>(line) else {
            if line.trim_ascii().is_empty() {
                return Ok(());
            }
            *garbage += 1;
            if *garbage == 1 {
                log(&format!("signal-cli wrote what is no JSON: {}", String::from_utf8_lossy(line)));
            }
            return if *garbage < GARBAGE { Ok(()) } else { Err("it writes what is no JSON".to_owned()) };
        };
        *garbage = 0;
        self.rpc.hears();
        if self.rpc.answered(&object) || object.get("method").and_then(Value::as_str) != Some("receive") {
            return Ok(());
        }
        let number = self.store(line);
        self.news.send(number).map_err(|_| "the bridge ends".to_owned())
    }

    /// signal-cli has forgotten the message by now, so this does not give up.
    fn store(&self, line: &[u8]) -> Number {
        let mut is_told = false;
        loop {
            match self.spool.add(line) {
                Ok(number) => return number,
                Err(error) => {
                    if !is_told {
                        log(&format!("a message cannot be stored, and nothing more is read before it is: {error}"));
                    }
                    is_told = true;
                    sleep(DISK);
                }
            }
        }
    }
}

pub(super) struct Keeper {
    pub(super) feed: Feed,
    pub(super) place: Place,
    pub(super) number: String,
    pub(super) state: State,
    pub(super) writer: FrameWriter,
}

impl Keeper {
    /// Connects until the main loop ends. It begins with the connection that there is.
    pub(super) fn work(self, first: Link) {
        let (mut wait, mut link) = (FIRST, Ok(first));
        loop {
            let began = now();
            let why = match link {
                Ok(link) => self.attend(link),
                Err(NoLink { why, .. }) => why,
            };
            self.feed.rpc.disconnect();
            if is_unlinked(&why) {
                // If the daemon is gone, the main loop notices.
                return drop(self.writer.send(&failed(unlinked(&self.number, &self.place), Some(UNLINKED_AGAIN))));
            }
            log(&format!("not connected: {why}"));
            self.state.fails(Side::Inbox, why);
            wait = if now().saturating_sub(began) >= WELL { FIRST } else { wait };
            sleep(wait);
            wait = (wait * 2).min(MOST);
            link = self.feed.open(&self.place);
        }
    }

    /// Attends to a connection until its end; why it ended.
    fn attend(&self, link: Link) -> String {
        if let Err(trouble) = self.feed.rpc.ask("subscribeReceive", Map::new(), ANSWER) {
            return link.close(trouble.to_string());
        }
        self.state.works(Side::Inbox);
        loop {
            if let Some(why) = link.ended(LOOK) {
                return link.close(why);
            }
            if self.feed.rpc.unanswered() >= DEAF {
                return link.close("signal-cli does not answer what it is to send".to_owned());
            }
            if self.feed.rpc.silence() >= SILENCE
                && let Err(trouble @ (Trouble::Down(_) | Trouble::Lost(_))) =
                    self.feed.rpc.ask("version", Map::new(), ANSWER)
            {
                return link.close(trouble.to_string());
            }
            self.state.works(Side::Inbox);
        }
    }
}
