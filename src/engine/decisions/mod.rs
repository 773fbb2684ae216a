//! Carries out people's decisions: button presses, operator commands, expiry of approvals.

pub(crate) mod channels;
pub(crate) mod decide;
pub(crate) mod due;
pub(crate) mod hosts;
pub(crate) mod naming;
pub(crate) mod outcome;
pub(crate) mod press;
pub(crate) mod reconsider;
pub(crate) mod senders;
pub(crate) mod tools;
pub(crate) mod unheard;
