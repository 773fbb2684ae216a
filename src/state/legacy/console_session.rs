//! Older versions of sessions of the console.

use serde::{Deserialize, Serialize};

use crate::envelope::Unreadable;
use crate::model::Timestamp;
use crate::model::address::UserId;
use crate::model::console::{ConsoleSession, Login, ReplacedToken};

#[derive(Serialize, Deserialize)]
pub(crate) struct ConsoleSessionV1 {
    pub(crate) user: UserId,
    pub(crate) token: [u8; 32],
    pub(crate) replaced: Option<ReplacedTokenV1>,
    pub(crate) seed: [u8; 32],
    pub(crate) browser: String,
    pub(crate) signed_in: Timestamp,
    pub(crate) rotated: Timestamp,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ReplacedTokenV1 {
    pub(crate) token: [u8; 32],
    pub(crate) until: Option<Timestamp>,
}

impl From<ConsoleSessionV1> for ConsoleSession {
    fn from(old: ConsoleSessionV1) -> Self {
        let ConsoleSessionV1 { user, token, replaced, seed, browser, signed_in, rotated } = old;
        let replaced = replaced.map(|ReplacedTokenV1 { token, until }| ReplacedToken { token, until });
        Self { user, token, replaced, seed, browser, signed_in, rotated, login: Login::Link }
    }
}

pub(crate) fn upgrade(version: u16, body: &[u8]) -> Result<ConsoleSession, Unreadable> {
    super::first::<ConsoleSessionV1, ConsoleSession>(version, body)
}
