//! What created an entity.

use serde::{Deserialize, Serialize};

/// What created an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// `hearth apply`.
    File,
    /// A command, or Hearth itself as the result of a person's decision.
    Runtime,
}
