//! Outgoing messages: queues, attempts, results, notices, and prompts.

pub(crate) mod attempt;
pub(crate) mod notice;
pub(crate) mod prompts;
pub(crate) mod queue;
pub(crate) mod result;
