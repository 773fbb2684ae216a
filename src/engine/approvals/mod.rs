//! Approvals: each is asked by card, answered once by an authorized person, and carried out in the same transaction.
//!
//! [`ask::ask`] creates an approval and shows its card to the first reachable approver. If a card cannot be shown, the
//! next approver gets it ([`send`]). A button press, a text answer or an operator's command becomes one decision
//! ([`decisions`](super::decisions)), which is applied together with the end of the approval.

pub(crate) mod approvers;
pub(crate) mod ask;
pub(crate) mod direct;
pub(crate) mod send;
pub(crate) mod texts;
pub(crate) mod waitlist;
