//! The console and the browsers of people.

use super::{ada, at};
use crate::model::console::{ConsoleSession, ConsoleSettings, ReplacedToken};
use crate::model::id::{ConsoleSessionId, Counted};
use crate::{Number, Result, Tables, Text, Write};

pub(super) fn fill(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    db.console.put(txn, &(), &ConsoleSettings { enabled: true, ..ConsoleSettings::default() })?;
    let first = ConsoleSession {
        user: ada(),
        token: [1; 32],
        replaced: None,
        seed: [1; 32],
        browser: "Firefox".to_owned(),
        signed_in: at(5),
        rotated: at(5),
    };
    let replaced = Some(ReplacedToken { token: [2; 32], until: Some(at(9)) });
    let second = ConsoleSession { token: [3; 32], replaced, rotated: at(8), ..first.clone() };
    db.console_sessions.put(txn, &ConsoleSessionId::new(1), &first)?;
    db.console_sessions.put(txn, &ConsoleSessionId::new(2), &second)?;
    db.counters.put(txn, &Text::from(ConsoleSessionId::COUNTER), &Number(2))
}
