//! Requeues the unfinished work of a run that ended.

use crate::Result;
use crate::lifecycle::Loss;
use crate::lifecycle::failures::Failures;
use crate::model::id::MessageId;
use crate::model::journal::Event;
use crate::model::message::{Due, Message, MessageState};
use crate::model::policy::Policy;
use crate::model::time::Millis;
use crate::rows::{agents, journal, messages};
use crate::tx::Tx;

/// Queues an unfinished message again, or adds it to the failures after its last try. Returns the message as it was.
pub(crate) fn requeue(
    tx: &mut Tx<'_, '_>,
    id: MessageId,
    incarnation: u32,
    loss: Loss,
    end_words: &str,
    failures: &mut Failures,
) -> Result<Message> {
    let message = tx.db.messages.require(tx, &id)?;
    if agents::is_removed(tx, message.agent)? {
        return messages::drop_message(tx, id).map(|()| message);
    }
    // Context never fails. It waits for the next turn, no matter how this one ended.
    let loss = if message.trigger { loss } else { Loss::Ours };
    match decide_again(tx.policy, loss, message.tries) {
        RequeueDelay::Now => {
            messages::update(tx, id, |message| message.state = MessageState::Pending(Due::Now))?;
        }
        RequeueDelay::After { tries, wait } => {
            let due = Due::Retry(tx.now.awake.plus(wait));
            messages::update(tx, id, |message| {
                message.state = MessageState::Pending(due);
                message.tries = tries;
            })?;
            let why = end_words.to_owned();
            journal::of_message(tx, id, Event::TurnLost { incarnation, tries, why })?;
        }
        RequeueDelay::Never => {
            let error = format!("failed after {} tries; the last one ended with: {end_words}", message.tries);
            failures.add(id, message.clone(), &error);
        }
    }
    Ok(message)
}

#[derive(Debug, PartialEq, Eq)]
enum RequeueDelay {
    Now,
    After { tries: u32, wait: Millis },
    Never,
}

fn decide_again(policy: &Policy, loss: Loss, tries: u32) -> RequeueDelay {
    match loss {
        Loss::Ours => RequeueDelay::Now,
        Loss::Own if tries >= policy.max_tries => RequeueDelay::Never,
        Loss::Own => RequeueDelay::After { tries: tries + 1, wait: policy.backoff(tries) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits and number of tries as in NanoClaw: 5, 10, 20, 40, 80 s, then failed.
    #[test]
    fn tries_back_off_and_end() {
        let policy = &Policy::STANDARD;
        let waits: Vec<RequeueDelay> = (0..6).map(|tries| decide_again(policy, Loss::Own, tries)).collect();
        let after = |tries, seconds| RequeueDelay::After { tries, wait: Millis::seconds(seconds) };
        assert_eq!(waits, [after(1, 5), after(2, 10), after(3, 20), after(4, 40), after(5, 80), RequeueDelay::Never]);
        assert_eq!(decide_again(policy, Loss::Ours, 5), RequeueDelay::Now);
    }
}
