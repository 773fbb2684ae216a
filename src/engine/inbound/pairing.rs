//! Messages with a code for pairing or signing in. They are recorded as dropped, without text, so that the code is in no
//! message, prompt or journal.

use crate::delivery::notice;
use crate::inbound::duplicate;
use crate::model::input::{InboundEvent, PairingCodeUse};
use crate::model::message::Reason;
use crate::model::report::{Outcome, Reply, RouteReport};
use crate::routing::seen::{EventKey, SeenOutcome};
use crate::routing::threads;
use crate::rows::chats;
use crate::tx::Tx;
use crate::{Result, routing};

/// Consumes a message with a code. The daemon has compared the code and holds the pairing.
pub(crate) fn code(tx: &mut Tx<'_, '_>, event: &InboundEvent, used: PairingCodeUse) -> Result<Reply> {
    if let Some(repeated) = consume(tx, event)? {
        return Ok(repeated);
    }
    match used {
        PairingCodeUse::Accepted => {
            let text = "Hearth has received your code. Confirm at the terminal that shows it.";
            notice::say_to(tx, event.source.clone(), None, text.to_owned())?;
        }
        PairingCodeUse::Exposed => {
            let text = format!(
                "A pairing code was sent on {}, but not alone in a direct message with the bot. It does not work any more, \
                 because others may have read it. `hearth channels pair` makes another one.",
                event.source.channel
            );
            notice::tell_owner(tx, &text)?;
        }
        PairingCodeUse::Void => {}
    }
    consumed(tx, event)
}

/// Records a message as dropped, without its text. Returns the answer if it was consumed before.
pub(crate) fn consume(tx: &mut Tx<'_, '_>, event: &InboundEvent) -> Result<Option<Reply>> {
    let remembered = EventKey::of(event);
    if let Some(seen) = remembered.as_ref().map(|event| event.find(tx)).transpose()?.flatten() {
        let threads = threads::known(tx, event)?;
        return duplicate::repeat(tx, event, threads, &seen).map(Some);
    }
    let chat = chats::find(tx, &event.source.channel, &event.source.platform_id)?.map(|(id, _)| id);
    routing::record_drop(tx, event, chat, None, Reason::PairingCode)?;
    if let Some(remembered) = remembered {
        remembered.remember(tx, SeenOutcome::refused(Reason::PairingCode))?;
    }
    Ok(None)
}

/// The answer to a message with a code.
pub(crate) fn consumed(tx: &Tx<'_, '_>, event: &InboundEvent) -> Result<Reply> {
    let chat = chats::find(tx, &event.source.channel, &event.source.platform_id)?.map(|(id, _)| id);
    let report =
        RouteReport { outcome: Outcome::Consumed, reason: Some(Reason::PairingCode), ..routing::blank(event, chat) };
    Ok(Reply::Routed(report))
}
