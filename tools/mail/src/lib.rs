//! The bridge `hearth-mail`: people write to a mailbox, agents answer.
//!
//! One thread reads the mailbox over IMAP (`inbox.rs`), one sends over SMTP (`outbox.rs`), and the main loop talks with the
//! daemon. The daemon stores the place in the mailbox in the commit of each message, so that nothing is lost or
//! passed on twice. What decides who wrote a mail is in `verified.rs` and `message.rs`.

mod automatic;
pub mod compose;
mod connection;
mod headers;
mod imap;
mod inbox;
pub mod message;
mod outbox;
mod quoted;
mod run;
mod settings;
mod smtp;
mod state;
mod threads;
mod verified;
mod visible;

pub use headers::is_address;
pub use run::run;

/// The text of an HTML page that people see.
#[must_use]
pub fn visible_text(html: &str) -> String {
    visible::text(html).text
}
