//! Approvals over the whole engine: who is asked and where, presses, strangers, unknown chats, answers in words.

mod access;
mod approvers;
mod channels;
mod files;
mod floods;
mod ground;
mod presses;
mod senders;
mod words;
