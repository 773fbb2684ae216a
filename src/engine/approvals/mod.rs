//! What somebody has to decide: asked by card, answered once by somebody who may, carried out in the same transaction.
//!
//! [`ask()`] makes an approval and has its card shown to the first approver that can be reached; a card that cannot be
//! shown is shown to the next one ([`send`]). A press, an answer in words or a command of the operator becomes one
//! decision ([`outcome`]), which takes effect together with the end of the approval.

mod answer;
mod approvers;
mod ask;
mod channels;
mod decide;
mod direct;
mod due;
mod held;
mod naming;
mod outcome;
mod press;
mod reconsider;
mod rows;
mod send;
mod senders;
mod texts;

pub(super) use answer::answer;
pub(super) use approvers::{administers, reach};
pub(super) use ask::ask;
pub(super) use channels::{Unheard, unheard};
pub(super) use decide::decide;
pub(super) use direct::opened as direct_opened;
pub(super) use due::due;
pub(super) use held::hold;
pub(super) use press::pressed;
pub(super) use reconsider::reconsider;
pub(super) use send::card_settled;
pub(super) use senders::{Stranger, admit};
