//! The console and the browsers of people.

use super::{ada, at};
use crate::model::console::{CertificateFiles, ConsoleSession, ConsoleSettings, Login, ReplacedToken};
use crate::model::id::{ConsoleSessionId, Counted};
use crate::{Number, Result, Tables, Text, Write};

pub(super) fn fill(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    let settings = ConsoleSettings {
        enabled: true,
        chat_login: true,
        names: vec!["hearth.lan".to_owned()],
        certificate: Some(CertificateFiles { cert: "cert.pem".to_owned(), key: "key.pem".to_owned() }),
        ..ConsoleSettings::default()
    };
    db.console.put(txn, &(), &settings)?;
    let first = ConsoleSession {
        user: ada(),
        token: [1; 32],
        replaced: None,
        seed: [1; 32],
        browser: "Firefox".to_owned(),
        signed_in: at(5),
        rotated: at(5),
        login: Login::Link,
    };
    let replaced = Some(ReplacedToken { token: [2; 32], until: Some(at(9)) });
    let second = ConsoleSession { token: [3; 32], replaced, rotated: at(8), login: Login::Chat, ..first.clone() };
    db.console_sessions.put(txn, &ConsoleSessionId::new(1), &first)?;
    db.console_sessions.put(txn, &ConsoleSessionId::new(2), &second)?;
    db.counters.put(txn, &Text::from(ConsoleSessionId::COUNTER), &Number(2))
}
