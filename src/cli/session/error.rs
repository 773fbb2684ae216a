//! What went wrong with a session, for people on standard error and for programs on standard output.

use serde_json::{Map, Value, json};

use crate::cli::workspace::Refused;
use crate::cli::{Failure, out};
use crate::socket::session::SessionRefusalJson;

/// Why a command about sessions failed.
#[derive(Debug)]
pub(super) struct Trouble {
    /// A word for programs.
    pub(super) kind: String,
    /// What.
    pub(super) message: String,
    /// What to do next.
    pub(super) hint: String,
    /// What else programs can use.
    pub(super) fields: Map<String, Value>,
    /// How the command ends.
    pub(super) exit: u8,
}

impl Trouble {
    pub(super) fn new(kind: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), message: message.into(), hint: hint.into(), fields: Map::new(), exit: 1 }
    }

    /// With a field.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// The command was used wrongly.
    pub(super) fn usage(self) -> Self {
        Self { exit: 2, ..self }
    }

    /// Tells it and ends the command.
    pub(super) fn tell(self, action: &str, json: bool) -> Failure {
        let Self { kind, message, hint, fields, exit } = self;
        if !json {
            out::error(&if hint.is_empty() { message } else { format!("{message}\n{hint}") });
            return Failure::Exit(exit);
        }
        let mut envelope = fields;
        for (name, value) in [
            ("kind", json!(kind)),
            ("error_kind", json!(kind)),
            ("action", json!(action)),
            ("status", json!("error")),
            ("error", json!(message)),
            ("hint", json!(hint)),
            ("exit_code", json!(exit)),
        ] {
            envelope.insert(name.to_owned(), value);
        }
        match out::json(&envelope) {
            // That nobody read it does not make it done.
            Ok(()) | Err(Failure::Exit(_)) => Failure::Exit(exit),
            Err(failure) => failure,
        }
    }
}

impl From<SessionRefusalJson> for Trouble {
    fn from(refusal: SessionRefusalJson) -> Self {
        let mut trouble = Self::new(&refusal.kind, refusal.message, refusal.hint);
        for (name, value) in [
            ("retry_safe", refusal.retry_safe.map(Value::from)),
            ("expected", refusal.expected.map(Value::from)),
            ("found", refusal.found.map(Value::from)),
            ("pid", refusal.pid.map(Value::from)),
        ] {
            trouble.fields.extend(value.map(|value| (name.to_owned(), value)));
        }
        trouble
    }
}

impl From<Refused> for Trouble {
    fn from(refused: Refused) -> Self {
        let Refused { kind, message, hint, fields, exit } = refused;
        Self { kind, message, hint, fields, exit }
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Refused::from(failure).into()
    }
}

impl From<crate::state::Error> for Trouble {
    fn from(error: crate::state::Error) -> Self {
        Failure::from(error).into()
    }
}
