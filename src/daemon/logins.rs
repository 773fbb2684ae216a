//! Codes with which people sign in to the console by a message to a bot: `/login CODE`.
//!
//! They are in memory only, so a code is in no file. A message with one is stored without its text and goes to no agent,
//! and neither does any other message that begins with the command while it is switched on.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::pairing;
use crate::clock::Stopwatch;
use crate::console::NewLogin;
use crate::model::address::UserId;
use crate::model::console::TokenDigest;
use crate::model::input::{InboundEvent, LoginCodeUse};

/// How long a code works.
const LIFE: Duration = Duration::from_secs(180);
/// Codes at a time. A full list refuses new ones: if it dropped old ones instead, anyone could end the code that a person is
/// just sending.
const MAX: usize = 100;
/// Codes at a time for browsers at one address, so that one machine alone does not fill the list.
const MAX_BY_ADDRESS: usize = 5;
/// Wrong codes of one sender, after which no code of the sender is looked at for a while.
const WRONG_BY_SENDER_MAX: u32 = 5;
/// For how long.
const WRONG_FOR: Duration = Duration::from_secs(600);
/// Wrong codes of all senders in that time that end all codes.
const WRONG_MAX: u32 = 50;
/// Senders whose wrong codes are counted.
const SENDERS_MAX: usize = 1_000;
const COMMAND: &str = "/login";

/// State of a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LoginState {
    /// Its code was not sent yet.
    Waiting { code: String },
    /// This person sent it.
    Proved(UserId),
    /// It no longer works.
    Void,
}

/// Why a browser gets no code.
#[derive(Debug)]
pub(super) enum NoCode {
    /// It is switched off.
    Off,
    /// Others have all of them.
    Full,
    /// The system provides no random numbers.
    NoEntropy(std::io::Error),
}

struct Login {
    /// Digest of what the browser has.
    browser: TokenDigest,
    /// Where the browser is.
    network: IpAddr,
    /// What the browser calls itself.
    name: String,
    code: String,
    state: LoginState,
    /// When it began.
    made: Duration,
}

#[derive(Default)]
struct State {
    enabled: bool,
    logins: Vec<Login>,
    wrong: BTreeMap<UserId, Wrong>,
}

/// Wrong codes of a sender.
struct Wrong {
    count: u32,
    /// When the first one came.
    since: Duration,
}

/// All sign-ins under way. Times are counted from when it was made, whatever happens to the clock.
pub(super) struct Logins {
    began: Stopwatch,
    state: Mutex<State>,
}

impl Default for Logins {
    fn default() -> Self {
        Self { began: Stopwatch::start(), state: Mutex::default() }
    }
}

impl Logins {
    /// Switches it on or off. Off, no code works.
    pub(super) fn enable(&self, enabled: bool) {
        let mut state = self.lock(self.began.elapsed());
        state.enabled = enabled;
        if !enabled {
            state.logins.clear();
        }
    }

    /// Whether it is switched on.
    pub(super) fn is_enabled(&self) -> bool {
        self.lock(self.began.elapsed()).enabled
    }

    /// Begins a sign-in of a browser. An earlier code of the same browser ends, and no other one.
    ///
    /// # Errors
    /// [`NoCode`].
    pub(super) fn begin(&self, new: NewLogin<'_>) -> Result<(), NoCode> {
        self.begin_at(self.began.elapsed(), new)
    }

    fn begin_at(&self, now: Duration, new: NewLogin<'_>) -> Result<(), NoCode> {
        let code = pairing::typed_code().map_err(NoCode::NoEntropy)?;
        let mut state = self.lock(now);
        if !state.enabled {
            return Err(NoCode::Off);
        }
        let network = network(new.address);
        let others = || state.logins.iter().filter(|login| Some(login.browser) != new.before);
        if others().count() >= MAX || others().filter(|login| login.network == network).count() >= MAX_BY_ADDRESS {
            return Err(NoCode::Full);
        }
        state.logins.retain(|login| Some(login.browser) != new.before);
        let waiting = LoginState::Waiting { code: code.clone() };
        let name = new.name.chars().filter(|c| !c.is_control()).take(100).collect();
        state.logins.push(Login { browser: new.browser, network, name, code, state: waiting, made: now });
        Ok(())
    }

    /// The state of a browser's sign-in; none if it has none, or it is over.
    pub(super) fn state(&self, browser: TokenDigest) -> Option<LoginState> {
        self.state_at(self.began.elapsed(), browser)
    }

    fn state_at(&self, now: Duration, browser: TokenDigest) -> Option<LoginState> {
        self.lock(now).logins.iter().find(|login| login.browser == browser).map(|login| login.state.clone())
    }

    /// The person who sent the browser's code, once.
    pub(super) fn take(&self, browser: TokenDigest) -> Option<UserId> {
        let mut state = self.lock(self.began.elapsed());
        let at = state.logins.iter().position(|login| login.browser == browser)?;
        match state.logins.get(at)?.state.clone() {
            LoginState::Proved(user) => {
                state.logins.remove(at);
                Some(user)
            }
            LoginState::Waiting { .. } | LoginState::Void => None,
        }
    }

    /// Compares a message with the codes. One that is returned goes to no agent. `authenticated` says whether the network
    /// proves who a sender is.
    pub(super) fn compare(&self, event: &InboundEvent, authenticated: bool) -> Option<LoginCodeUse> {
        self.compare_at(self.began.elapsed(), event, authenticated)
    }

    fn compare_at(&self, now: Duration, event: &InboundEvent, authenticated: bool) -> Option<LoginCodeUse> {
        let mut state = self.lock(now);
        if !state.enabled {
            return None;
        }
        let text = event.content.text.trim();
        let sender = pairing::direct_sender(event).filter(|_| authenticated);
        let Some(sent) = command(text) else {
            // A code in any other text can be read and used by others.
            return state.void_all_in(text).then_some(LoginCodeUse::Exposed);
        };
        let Some(user) = sender else {
            state.void_all_in(text);
            return Some(LoginCodeUse::NotHere);
        };
        Some(state.sent(now, user, &sent))
    }

    /// The sign-ins that are not over.
    fn lock(&self, now: Duration) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.logins.retain(|login| now.saturating_sub(login.made) < LIFE);
        state.wrong.retain(|_, wrong| now.saturating_sub(wrong.since) < WRONG_FOR);
        state
    }
}

impl State {
    /// A command in a direct message of an authenticated sender.
    fn sent(&mut self, now: Duration, user: UserId, sent: &str) -> LoginCodeUse {
        if self.wrong.get(&user).is_some_and(|wrong| wrong.count >= WRONG_BY_SENDER_MAX) {
            return LoginCodeUse::TooMany;
        }
        let found = self.logins.iter_mut().find(|login| pairing::equal(sent, &login.code));
        match found {
            Some(login) => match &login.state {
                LoginState::Waiting { .. } => {
                    login.state = LoginState::Proved(user);
                    LoginCodeUse::Accepted { browser: login.name.clone() }
                }
                // The network repeats messages that were not confirmed.
                LoginState::Proved(known) if *known == user => LoginCodeUse::Accepted { browser: login.name.clone() },
                LoginState::Proved(_) | LoginState::Void => self.wrong(now, user),
            },
            None => self.wrong(now, user),
        }
    }

    fn wrong(&mut self, now: Duration, user: UserId) -> LoginCodeUse {
        if self.wrong.len() < SENDERS_MAX || self.wrong.contains_key(&user) {
            let wrong = self.wrong.entry(user).or_insert(Wrong { count: 0, since: now });
            wrong.count = wrong.count.saturating_add(1);
        }
        let all: u32 = self.wrong.values().map(|wrong| wrong.count).fold(0, u32::saturating_add);
        if all >= WRONG_MAX {
            self.logins.iter_mut().for_each(|login| login.state = LoginState::Void);
        }
        LoginCodeUse::Wrong
    }

    /// Ends the codes that a text contains, written with or without dashes and spaces. Returns whether there were any.
    fn void_all_in(&mut self, text: &str) -> bool {
        let plain: String = text.chars().filter_map(pairing::typed_digit).collect();
        let mut found = false;
        for login in self.logins.iter_mut().filter(|login| plain.contains(&login.code)) {
            login.state = LoginState::Void;
            found = true;
        }
        found
    }
}

/// The addresses that one machine can take by itself: over IPv6, all that begin with the same 64 bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address @ IpAddr::V4(_) => address,
    }
}

/// What follows the command, as digits of a code; none if a message is another one.
fn command(text: &str) -> Option<String> {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, rest) = text.split_at_checked(end)?;
    let name = word.split_once('@').map_or(word, |(name, _)| name);
    if !name.eq_ignore_ascii_case(COMMAND) {
        return None;
    }
    Some(
        rest.chars()
            .filter(|c| !c.is_whitespace() && *c != '-')
            .map(|c| pairing::typed_digit(c).unwrap_or(c))
            .collect(),
    )
}

#[cfg(test)]
mod tests;
