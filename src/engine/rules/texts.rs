//! Error texts shared by several flows.

use std::fmt::Display;

/// The error text for something that does not exist, with a pointer to its list.
pub(crate) fn missing(what: &str, name: impl Display) -> String {
    format!("{what} {name} not found; see `hearth {what}s list`")
}
