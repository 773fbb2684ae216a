//! The bridge `hearth-matrix`: people write in rooms of Matrix, agents answer there, with end-to-end encryption
//! where a room has it.
//!
//! One thread asks the server for what is new (`inbox.rs`), one sends (`outbox.rs`), one shows typing and read messages
//! (`signs.rs`), and the main loop passes on what the daemon says. The daemon stores the place in what the server tells
//! in the commit of each message. What is sent has a transaction id made of Hearth's id, so that the server recognises a
//! repeat.
//!
//! People verify the bot by comparing emoji (`crypto/verifying.rs`), with the owner, who sees them on this machine
//! (`comparison.rs`).
//!
//! With a recovery key (`crypto/recovery.rs`), keys are backed up at the server (`keeper.rs`).
//!
//! Keys of encryption (`crypto/`) are in a database of the bridge (`keys/`). They are stored before the place in what the
//! server tells, because keys are told once.

mod api;
mod comparison;
mod crypto;
mod directs;
mod event;
mod html;
mod inbox;
mod invites;
mod keeper;
mod keys;
mod media;
mod noticed;
mod outbox;
mod parked;
mod rooms;
mod run;
mod settings;
mod signs;
mod unsealed;
mod waiting;

pub use comparison::verify;
pub use crypto::recovery;
pub use run::run;
