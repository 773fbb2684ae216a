//! Approvals over the whole engine: who is asked and where, presses, unknown senders, unknown chats, text answers.

mod access;
mod approvers;
mod channels;
mod files;
mod floods;
mod ground;
mod presses;
mod senders;
mod words;
