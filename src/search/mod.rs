//! Full-text search without a store: words of texts, queries, ranking, and the bytes in which an index keeps words. Pure.
//!
//! [`Words`] are the counted terms of one text. Terms that are no words of a text begin with a control character, which
//! no word contains: [`terms`] has them. A [`segment`] has the words of many texts, sorted, with the texts that contain them.

pub mod documents;
pub mod excerpt;
pub mod fold;
pub mod packed;
pub mod query;
pub mod rank;
pub mod segment;
pub mod terms;
pub mod tokens;
pub mod words;

pub use excerpt::Excerpt;
pub use query::{Clause, Query};
pub use words::Words;

/// The way in which texts become terms. An index that was made in another way is made again.
pub const VERSION: u64 = 1;

#[cfg(test)]
mod tests;
