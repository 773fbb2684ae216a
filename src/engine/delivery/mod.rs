//! Outgoing messages: queues, attempts, results, notices, prompts, and speech.

pub(crate) mod attempt;
pub(crate) mod notice;
pub(crate) mod prompts;
pub(crate) mod queue;
pub(crate) mod result;
pub(crate) mod speech;
