//! Errors of session commands, for people on standard error and for programs on standard output.

use serde_json::{Map, Value, json};

use crate::cli::hint::Hint;
use crate::cli::offline::SubmitError;
use crate::cli::workspace::Refused;
use crate::cli::{Failure, print};
use crate::socket::command::RequestRefused;

/// Why a command about sessions failed.
#[derive(Debug)]
pub(super) struct Trouble {
    /// Code for programs.
    pub(super) kind: String,
    /// Message for people.
    pub(super) message: String,
    /// What to do next.
    pub(super) hint: Hint,
    /// Further fields for programs.
    pub(super) fields: Map<String, Value>,
    /// Exit code of the command.
    pub(super) exit: u8,
}

impl Trouble {
    pub(super) fn new(kind: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let hint = Hint::new(kind, hint);
        Self { kind: kind.to_owned(), message: message.into(), hint, fields: Map::new(), exit: 1 }
    }

    /// Creates an error with the default hint of its kind.
    pub(super) fn of_kind(kind: &str, message: impl Into<String>) -> Self {
        Self::new(kind, message, "")
    }

    /// Adds a field.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// Marks the error as a usage error.
    pub(super) fn usage(self) -> Self {
        Self { exit: 2, ..self }
    }

    /// Reports the error and ends the command.
    pub(super) fn tell(self, action: &str, json: bool) -> Failure {
        let Self { kind, message, hint, fields, exit } = self;
        if !json {
            print::error(&format!("{message}\n{}", hint.as_str()));
            return Failure::Exit(exit);
        }
        let mut envelope = fields;
        for (name, value) in [
            ("kind", json!(kind)),
            ("error_kind", json!(kind)),
            ("action", json!(action)),
            ("status", json!("error")),
            ("error", json!(message)),
            ("hint", json!(hint.as_str())),
            ("exit_code", json!(exit)),
        ] {
            envelope.insert(name.to_owned(), value);
        }
        match print::json(&envelope) {
            // A closed standard output does not turn the error into success.
            Ok(()) | Err(Failure::Exit(_)) => Failure::Exit(exit),
            Err(failure) => failure,
        }
    }
}

impl From<RequestRefused> for Trouble {
    fn from(refusal: RequestRefused) -> Self {
        let mut trouble = Self::new(&refusal.code, refusal.message, refusal.hint.unwrap_or_default());
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

impl From<SubmitError> for Trouble {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Refused(refusal) => (*refusal).into(),
            SubmitError::Failed(failure) => failure.into(),
        }
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
