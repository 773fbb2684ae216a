//! The way in: reads the mailbox over IMAP and passes on one mail after the other. The next one is read when the daemon has
//! stored this one with its place in the mailbox.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::panic::catch_unwind;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::sleep;
use std::time::Duration;

use crate::connection::{Trouble, Trust};
use crate::imap::{self, Imap, MAIL_BYTES_MAX, Selected};
use crate::message::{self, Account, Fetched, Mail, Written};
use crate::settings::Settings;
use crate::state::{Side, State, seconds};

/// How long the bridge waits for a mail before it asks whether the server is still there.
const IDLE: Duration = Duration::from_secs(55);
/// How often it looks if the server cannot tell.
const POLL: Duration = Duration::from_secs(30);
/// Waits before the server is tried again.
const RECONNECT_FIRST: Duration = Duration::from_secs(1);
const RECONNECT_MAX: Duration = Duration::from_secs(30);
/// Wait if the server refuses the account.
const REFUSED: Duration = Duration::from_secs(60);
const DAY_SECONDS: i64 = 86_400;

/// The place in the mailbox up to which mails were passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// It changes when the mailbox is made anew.
    pub(crate) validity: u32,
    pub(crate) uid: u32,
    /// When the newest of these mails was received, in seconds since 1970.
    pub(crate) received: i64,
}

impl Place {
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut numbers = text.split('.');
        let (validity, uid) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
        Some(Self { validity, uid, received: numbers.next()?.parse().ok()? })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.validity, self.uid, self.received)
    }
}

/// What the inbox has for the daemon.
#[derive(Debug)]
pub(crate) enum Found {
    /// The mailbox is open for the first time.
    Open,
    /// The account is refused.
    Refused(String),
    /// The server cannot be reached.
    Away,
    /// A message, and the place after it.
    Mail { written: Box<Written>, received: i64, place: Place },
    /// There was no message up to here.
    Nothing(Place),
}

/// The way to the main loop.
pub(crate) struct Hand {
    pub(crate) found: Sender<Found>,
    /// A byte wakes the main loop.
    pub(crate) wake: UnixStream,
    /// Says that what was found is stored.
    pub(crate) stored: Receiver<()>,
}

/// The main loop has ended.
struct Ended;

pub(crate) struct Inbox {
    pub(crate) settings: Settings,
    pub(crate) trust: Trust,
    pub(crate) token: String,
    pub(crate) state: State,
    pub(crate) hand: Hand,
    pub(crate) place: Option<Place>,
}

/// Why a session ended.
enum Over {
    Trouble(Trouble),
    Ended,
}

impl From<Trouble> for Over {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<Ended> for Over {
    fn from(_: Ended) -> Self {
        Self::Ended
    }
}

impl Inbox {
    /// Reads until the main loop ends.
    pub(crate) fn work(mut self) {
        let mut wait = RECONNECT_FIRST;
        loop {
            let Err(over) = self.session(&mut wait) else { return };
            let Over::Trouble(trouble) = over else { return };
            self.state.fails(Side::Inbox, trouble.to_string());
            let told = match trouble {
                Trouble::Credentials(why) => {
                    wait = REFUSED;
                    self.tell(Found::Refused(why))
                }
                Trouble::Lost(_) | Trouble::Odd(_) => self.tell(Found::Away),
            };
            if told.is_err() {
                return;
            }
            sleep(wait);
            wait = (wait * 2).min(RECONNECT_MAX);
        }
    }

    fn session(&mut self, wait: &mut Duration) -> Result<(), Over> {
        let mut imap = Imap::open(&self.settings, &self.trust, &self.token)?;
        let selected = imap.examine(&self.settings.mailbox)?;
        self.state.works(Side::Inbox);
        *wait = RECONNECT_FIRST;
        self.tell(Found::Open)?;
        self.begin(&mut imap, selected)?;
        loop {
            imap.has_news = false;
            self.catch_up(&mut imap)?;
            if imap.has_news {
                continue;
            }
            if imap.can("IDLE") {
                imap.idle(IDLE)?;
            } else {
                sleep(POLL);
                imap.noop()?;
            }
            self.state.works(Side::Inbox);
        }
    }

    /// Finds the place from which to read on.
    fn begin(&mut self, imap: &mut Imap, selected: Selected) -> Result<(), Over> {
        let last = selected.next.saturating_sub(1);
        let place = match self.place {
            Some(place) if place.validity == selected.validity => return Ok(()),
            // Made anew, with other numbers: the daemon recognises the mails that it has by their ids.
            Some(old) => {
                let since = imap::day(old.received - DAY_SECONDS);
                let uids = imap.search(&format!("SINCE {since}"))?;
                self.place = Some(Place { validity: selected.validity, uid: 0, received: old.received });
                self.pass_on(imap, &uids, Some(old.received))?;
                let received = self.place.map_or(old.received, |place| place.received);
                Place { validity: selected.validity, uid: last, received }
            }
            // What was there before the channel is not for an agent.
            None => Place { validity: selected.validity, uid: last, received: seconds() },
        };
        let place = Place {
            uid: place.uid.max(self.place.filter(|now| now.validity == place.validity).map_or(0, |now| now.uid)),
            ..place
        };
        self.give(Found::Nothing(place), place)?;
        Ok(())
    }

    fn catch_up(&mut self, imap: &mut Imap) -> Result<(), Over> {
        let Some(place) = self.place else { return Ok(()) };
        let Some(next) = place.uid.checked_add(1) else { return Ok(()) };
        // Beyond the end, `n:*` means the last mail.
        let uids = imap.search(&format!("UID {next}:*"))?;
        let uids: Vec<u32> = uids.into_iter().filter(|uid| *uid > place.uid).collect();
        self.pass_on(imap, &uids, None)
    }

    /// Passes on mails; those that the server received before a time are not read.
    fn pass_on(&mut self, imap: &mut Imap, uids: &[u32], since: Option<i64>) -> Result<(), Over> {
        let mut skipped = None;
        for uid in uids {
            let Some(place) = self.place else { return Ok(()) };
            let Some(summary) = imap.summary(*uid)? else { continue };
            self.state.works(Side::Inbox);
            let after = Place { uid: *uid, received: place.received.max(summary.received.min(seconds())), ..place };
            if since.is_some_and(|since| summary.received < since) {
                skipped = Some(after);
                continue;
            }
            let account = &self.settings.account;
            let mut mail = read(&summary.header, Fetched::HeaderOnly, account);
            if matches!(mail, Mail::Message(_)) && summary.size <= MAIL_BYTES_MAX {
                let Some(raw) = imap.fetch(*uid)? else { continue };
                mail = read(&raw, Fetched::Whole, account);
            }
            match mail {
                Mail::Skipped(why) => {
                    // It is log.
                    drop(writeln!(std::io::stdout(), "mail {uid} is not passed on: {why}"));
                    skipped = Some(after);
                }
                Mail::Message(written) => {
                    skipped = None;
                    self.give(Found::Mail { written, received: summary.received, place: after }, after)?;
                }
            }
        }
        if let Some(place) = skipped {
            self.give(Found::Nothing(place), place)?;
        }
        Ok(())
    }

    /// Hands something over and waits until it is stored.
    fn give(&mut self, found: Found, place: Place) -> Result<(), Ended> {
        self.tell(found)?;
        self.hand.stored.recv().map_err(|_| Ended)?;
        self.place = Some(place);
        Ok(())
    }

    fn tell(&mut self, found: Found) -> Result<(), Ended> {
        self.hand.found.send(found).map_err(|_| Ended)?;
        self.hand.wake.write_all(b"x").map_err(|_| Ended)
    }
}

/// Reads a mail. One that broke the parser would break it again after each restart, so it is skipped.
fn read(raw: &[u8], fetched: Fetched, account: &Account) -> Mail {
    catch_unwind(|| message::read(raw, fetched, account)).unwrap_or(Mail::Skipped("it cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        let place = Place { validity: 7, uid: 4_294_967_295, received: -1 };
        assert_eq!(Place::read(&place.to_string()), Some(place));
        for text in ["", "1", "1.2", "1.2.x", "a.b.c", "99999999999.1.1"] {
            assert_eq!(Place::read(text), None);
        }
    }
}
