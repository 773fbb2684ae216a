//! Errors of commands about workspaces and their sessions, for people on standard error and for programs on standard output.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::put_path;
use crate::cli::hint::Hint;
use crate::cli::offline::SubmitError;
use crate::cli::{Failure, print};
use crate::socket::command::RequestRefused;

/// Why a command about workspaces or sessions failed.
#[derive(Debug)]
pub(in crate::cli) struct WorkspaceError {
    /// Code for programs.
    pub(in crate::cli) kind: String,
    /// Message for people.
    pub(in crate::cli) message: String,
    /// What to do next.
    pub(in crate::cli) hint: Hint,
    /// Further fields for programs.
    pub(in crate::cli) fields: Map<String, Value>,
    /// Exit code of the command.
    pub(in crate::cli) exit: u8,
}

impl WorkspaceError {
    pub(in crate::cli) fn new(kind: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let hint = Hint::new(kind, hint);
        Self { kind: kind.to_owned(), message: message.into(), hint, fields: Map::new(), exit: 1 }
    }

    /// Creates an error with the default hint of its kind.
    pub(in crate::cli) fn of_kind(kind: &str, message: impl Into<String>) -> Self {
        Self::new(kind, message, "")
    }

    /// Adds a field.
    pub(in crate::cli) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// Adds the path that the error is about.
    pub(in crate::cli) fn at(mut self, path: &Path) -> Self {
        put_path(&mut self.fields, "path", path.as_os_str().as_encoded_bytes());
        self
    }

    /// Marks the error as a usage error.
    pub(in crate::cli) fn usage(self) -> Self {
        Self { exit: 2, ..self }
    }

    /// Reports the error and ends the command.
    pub(in crate::cli) fn tell(self, action: &str, json: bool) -> Failure {
        let Self { kind, message, hint, fields, exit } = self;
        if message.is_empty() {
            return Failure::Exit(exit);
        }
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

impl From<RequestRefused> for WorkspaceError {
    fn from(refusal: RequestRefused) -> Self {
        let mut error = Self::new(&refusal.code, refusal.message, refusal.hint.unwrap_or_default());
        for (name, value) in [
            ("retry_safe", refusal.retry_safe.map(Value::from)),
            ("expected", refusal.expected.map(Value::from)),
            ("found", refusal.found.map(Value::from)),
            ("pid", refusal.pid.map(Value::from)),
        ] {
            error.fields.extend(value.map(|value| (name.to_owned(), value)));
        }
        error
    }
}

impl From<SubmitError> for WorkspaceError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Refused(refusal) => (*refusal).into(),
            SubmitError::Failed(failure) => failure.into(),
        }
    }
}

impl From<Failure> for WorkspaceError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Failed(message) | Failure::Changed(message) => Self::of_kind("failed", message),
            Failure::Store("store_busy", message) => Self::of_kind("store_busy", message).with("retry_safe", true),
            Failure::Store(kind, message) => Self::of_kind(kind, message),
            Failure::Told => Self::of_kind("failed", ""),
            Failure::Exit(exit) => Self { exit, ..Self::of_kind("failed", "") },
        }
    }
}

impl From<crate::state::Error> for WorkspaceError {
    fn from(error: crate::state::Error) -> Self {
        Failure::from(error).into()
    }
}
