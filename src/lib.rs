//! Hearth.
