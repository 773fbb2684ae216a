//! The bridge `hearth-matrix`: people write in rooms of Matrix, agents answer there. Rooms with encryption cannot be read.
//!
//! One thread asks the server for what is new (`inbox.rs`), one sends (`outbox.rs`), one shows typing and read messages
//! (`signs.rs`), and the main loop passes on what the daemon says. The daemon stores the place in what the server tells
//! in the commit of each message. What is sent has a transaction id made of Hearth's id, so that the server recognises a
//! repeat.

mod api;
mod directs;
mod event;
mod html;
mod inbox;
mod invites;
mod media;
mod noticed;
mod outbox;
mod rooms;
mod run;
mod settings;
mod signs;

pub use run::run;
