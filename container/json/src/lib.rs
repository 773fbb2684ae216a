//! Lossless JSON: members keep their order, numbers keep their digits, and unpaired surrogates are kept or replaced.
//! Hearth uses it to change single values in other programs' files.
//!
//! `serde_json` does not fit: its features for order and exact numbers would apply to the whole build, and it rejects
//! `NaN` and unpaired surrogates, which other programs write into these files.
//!
//! [`parse`] follows [`Rules`]. It returns errors as a [`BadJson`] without text, because each user of this crate words
//! them like the program whose files it shares. [`write()`] supports three [`Form`]s.

mod number;
mod read;
mod text;
mod value;
mod write;

pub use number::{Number, Numbers};
pub use read::{BadJson, Dialect, Nesting, Position, Problem, Rules, parse};
pub use text::{Text, TextForm};
pub use value::{Json, Member, Object};
pub use write::{Form, write, write_within};

#[cfg(test)]
mod tests;
