//! Pairing: a person proves which account is theirs by sending a code to the bot.
//!
//! Pairings are in memory only and end with the connection that requested them, so codes are in no file. A used or void
//! code is recognized until it expires, so that it does not reach an agent either.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock;
use crate::model::address::{ChannelName, UserId};
use crate::model::input::{InboundEvent, PairingCodeUse};
use crate::model::time::{Millis, Timestamp};

/// How long a code works.
const LIFE: Millis = Millis::minutes(10);
/// Wrong codes of one sender that end a pairing.
const WRONG_BY_SENDER_MAX: u32 = 5;
/// Wrong codes on one channel that end a pairing.
const WRONG_MAX: u32 = 50;
/// Digits of a typed code: Crockford's base 32, without letters that look like digits.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Length of a typed code, with 5 bits per digit.
const TYPED: usize = 8;
/// Length of the code in a link: 128 bits in hexadecimal digits.
const LINKED: usize = 32;
/// The text that a link sends to a bot, before the code.
const START: &str = "/start ";

/// The two codes of a pairing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Codes {
    /// Typed by a person.
    pub(super) typed: String,
    /// Sent by a link. A code of its own, because others can see the typed one.
    pub(super) linked: String,
}

impl Codes {
    fn random() -> std::io::Result<Self> {
        let linked = clock::entropy::<{ LINKED / 2 }>()?;
        Ok(Self { typed: typed_code()?, linked: linked.iter().map(|byte| format!("{byte:02x}")).collect() })
    }
}

/// A code that people type.
pub(super) fn typed_code() -> std::io::Result<String> {
    Ok(clock::entropy::<TYPED>()?.map(|byte| digit(byte % 32)).iter().collect())
}

/// A digit of a typed code. 256 is a multiple of 32, so all digits are equally likely.
fn digit(value: u8) -> char {
    DIGITS.get(usize::from(value)).copied().map_or('0', char::from)
}

/// The person who sent the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sender {
    pub(super) user: UserId,
    pub(super) name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PairingState {
    /// The code was not sent yet.
    Open,
    /// This person sent it.
    Answered(Sender),
    /// It no longer works.
    Void(Why),
}

/// Why a code no longer works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Why {
    #[error("the code was not sent within 10 minutes")]
    Expired,
    #[error("the code was sent in a group or together with other text, so others may have read it")]
    Exposed,
    #[error("too many wrong codes were sent")]
    Guessed,
    #[error("another `hearth channels pair` for this channel replaced it")]
    Replaced,
    #[error("the command that showed the code ended")]
    Left,
}

struct Pairing {
    id: u64,
    codes: Codes,
    opened: Timestamp,
    state: PairingState,
    wrong: BTreeMap<UserId, u32>,
}

impl Pairing {
    /// Whether it has expired. A clock that was set back counts as expiry.
    fn is_over(&self, now: Timestamp) -> bool {
        now < self.opened || now >= self.opened.plus(LIFE)
    }

    fn void(&mut self, why: Why) {
        if !matches!(self.state, PairingState::Void(_)) {
            self.state = PairingState::Void(why);
        }
    }

    /// Compares a message with the codes and changes the state accordingly.
    fn compare(&mut self, event: &InboundEvent) -> Option<PairingCodeUse> {
        let sent = Sent::read(event.content.text.trim());
        let sender = direct_sender(event);
        let is_right = sent.as_ref().is_some_and(|sent| sent.is_right(&self.codes));
        match (is_right, sender, &self.state) {
            (false, _, _) if contains(event, &self.codes) => Some(self.exposed()),
            (false, Some(user), PairingState::Open) if sent.is_some() => {
                self.count_wrong(user);
                None
            }
            (false, ..) => None,
            (true, Some(user), PairingState::Open) => {
                let name = event.content.sender_name.clone();
                self.state = PairingState::Answered(Sender { user, name });
                Some(PairingCodeUse::Accepted)
            }
            // The network repeats messages that were not confirmed.
            (true, Some(user), PairingState::Answered(known)) if known.user == user => Some(PairingCodeUse::Accepted),
            (true, Some(_), _) => Some(PairingCodeUse::Void),
            (true, None, _) => Some(self.exposed()),
        }
    }

    fn exposed(&mut self) -> PairingCodeUse {
        if self.state != PairingState::Open {
            return PairingCodeUse::Void;
        }
        self.void(Why::Exposed);
        PairingCodeUse::Exposed
    }

    fn count_wrong(&mut self, user: UserId) {
        let count = self.wrong.entry(user).or_default();
        *count = count.saturating_add(1);
        if *count >= WRONG_BY_SENDER_MAX || self.wrong_codes() >= WRONG_MAX {
            self.void(Why::Guessed);
        }
    }

    fn wrong_codes(&self) -> u32 {
        self.wrong.values().sum()
    }
}

/// The sender of a direct message, whose chat is the sender's own. A post in a channel is not in a group either, but it
/// has another chat.
pub(super) fn direct_sender(event: &InboundEvent) -> Option<UserId> {
    let sender = event.content.sender.clone()?;
    let is_direct = !event.group && sender == event.source.platform_id;
    is_direct.then(|| UserId::new(event.source.channel.clone(), sender))
}

/// A message in the form of a code.
enum Sent {
    Typed(String),
    Linked(String),
}

impl Sent {
    fn read(text: &str) -> Option<Self> {
        if let Some(linked) = text.strip_prefix(START) {
            let is_code = linked.len() == LINKED && linked.bytes().all(|byte| byte.is_ascii_hexdigit());
            return is_code.then(|| Self::Linked(linked.to_owned()));
        }
        let typed = text.split_once('-').map_or_else(|| text.to_owned(), |(first, second)| format!("{first}{second}"));
        let digits = typed.chars().map(typed_digit).collect::<Option<String>>()?;
        (digits.len() == TYPED).then_some(Self::Typed(digits))
    }

    fn is_right(&self, codes: &Codes) -> bool {
        match self {
            Self::Typed(typed) => equal(typed, &codes.typed),
            Self::Linked(linked) => equal(linked, &codes.linked),
        }
    }
}

/// A digit as people type it. Letters that look like a digit are that digit.
pub(super) fn typed_digit(c: char) -> Option<char> {
    match c.to_ascii_uppercase() {
        'O' => Some('0'),
        'I' | 'L' => Some('1'),
        c => u8::try_from(c).is_ok_and(|byte| DIGITS.contains(&byte)).then_some(c),
    }
}

/// Compares codes in a time that does not depend on where they differ.
pub(super) fn equal(sent: &str, code: &str) -> bool {
    let difference = sent.bytes().zip(code.bytes()).fold(0, |all, (sent, code)| all | (sent ^ code));
    sent.len() == code.len() && difference == 0
}

/// Whether a message contains a code anywhere, also in what it quotes, written with or without dashes and spaces.
fn contains(event: &InboundEvent, codes: &Codes) -> bool {
    [event.content.text.as_str(), event.content.raw.as_str()].into_iter().any(|text| {
        let plain: String = text.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
        plain.to_ascii_uppercase().contains(&codes.typed) || plain.to_ascii_lowercase().contains(&codes.linked)
    })
}

/// All pairings, at most one per channel.
#[derive(Default)]
pub(super) struct Pairings {
    rows: Mutex<BTreeMap<ChannelName, Pairing>>,
}

impl Pairings {
    /// Compares a message with the codes of its channel. The message with a code goes to no agent.
    pub(super) fn compare(&self, event: &InboundEvent, now: Timestamp) -> Option<PairingCodeUse> {
        let mut rows = self.lock();
        let pairing = rows.get_mut(&event.source.channel)?;
        if pairing.is_over(now) {
            rows.remove(&event.source.channel);
            return None;
        }
        pairing.compare(event)
    }

    /// Compares a message whose sender no network proves with the codes of all channels. A code in it no longer works.
    pub(super) fn expose(&self, event: &InboundEvent, now: Timestamp) -> Option<PairingCodeUse> {
        let sent = Sent::read(event.content.text.trim());
        let mut rows = self.lock();
        let has = |codes: &Codes| contains(event, codes) || sent.as_ref().is_some_and(|sent| sent.is_right(codes));
        let exposed = rows.values_mut().filter(|pairing| !pairing.is_over(now) && has(&pairing.codes));
        // All of them are void, and the owner is told of one.
        exposed.map(Pairing::exposed).fold(None, |all, used| match all {
            Some(PairingCodeUse::Exposed) => all,
            _ => Some(used),
        })
    }

    /// Opens a pairing that replaces an earlier one of the channel.
    ///
    /// # Errors
    /// The system has no entropy.
    pub(super) fn open(self: &Arc<Self>, channel: &ChannelName, now: Timestamp) -> std::io::Result<PairingGuard> {
        let (codes, id) = (Codes::random()?, clock::random()?);
        let pairing =
            Pairing { id, codes: codes.clone(), opened: now, state: PairingState::Open, wrong: BTreeMap::new() };
        self.lock().insert(channel.clone(), pairing);
        Ok(PairingGuard { pairings: Arc::clone(self), channel: channel.clone(), id, codes })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ChannelName, Pairing>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the operator sees of a pairing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PairingView {
    pub(super) state: PairingState,
    /// Wrong codes that were sent.
    pub(super) wrong: u32,
}

/// An open pairing. Dropping this ends it.
pub(super) struct PairingGuard {
    pairings: Arc<Pairings>,
    pub(super) channel: ChannelName,
    id: u64,
    pub(super) codes: Codes,
}

impl PairingGuard {
    /// Length of time for which the codes work.
    pub(super) const LIFE: Millis = LIFE;

    /// The state now.
    pub(super) fn view(&self, now: Timestamp) -> PairingView {
        let rows = self.pairings.lock();
        let Some(pairing) = rows.get(&self.channel).filter(|pairing| pairing.id == self.id) else {
            return PairingView { state: PairingState::Void(Why::Replaced), wrong: 0 };
        };
        let is_late = pairing.state == PairingState::Open && pairing.is_over(now);
        let state = if is_late { PairingState::Void(Why::Expired) } else { pairing.state.clone() };
        PairingView { state, wrong: pairing.wrong_codes() }
    }
}

impl Drop for PairingGuard {
    fn drop(&mut self) {
        let mut rows = self.pairings.lock();
        if let Some(pairing) = rows.get_mut(&self.channel).filter(|pairing| pairing.id == self.id) {
            pairing.void(Why::Left);
        }
    }
}

#[cfg(test)]
mod tests;
