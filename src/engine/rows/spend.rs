//! The ledger of what agents use of models, and its totals. The only writer of both.

use crate::Result;
use crate::model::id::MessageId;
use crate::model::message::Message;
use crate::model::spend::{Amounts, ModelUse, ReportedUse, Spend, SpendSource, SpendTotal};
use crate::model::time::{Day, Timestamp};
use crate::rows::{chats, settings};
use crate::rules::prices;
use crate::state::{ScopeKey, SpendKey, SpendTotalKey};
use crate::tx::Tx;

/// Number that stands for the report of the turn in the keys of entries.
const REPORT: u32 = 0;

/// Stores what an agent reports of a turn that ended with the acknowledgement of this message. The second report of the
/// same turn changes nothing.
pub(crate) fn turn_ended(
    tx: &mut Tx<'_, '_>,
    id: MessageId,
    message: &Message,
    incarnation: u32,
    used: Vec<ReportedUse>,
) -> Result<()> {
    let key = SpendKey { message: id, incarnation, call: REPORT };
    if tx.db.spend.contains(tx, &key)? {
        return Ok(());
    }
    let source = if used.is_empty() { SpendSource::Unreported } else { SpendSource::Reported };
    let uses = used.into_iter().map(|used| priced(tx, used)).collect::<Result<Vec<_>>>()?;
    insert(tx, &key, message, source, uses)
}

/// The use with the price of its model.
fn priced(tx: &Tx<'_, '_>, used: ReportedUse) -> Result<ModelUse> {
    let settings = tx.db.settings.get(tx, &())?.unwrap_or_default();
    let configured = settings.prices.iter().find(|known| used.model.as_deref() == Some(known.model.as_str()));
    Ok(prices::priced(used, configured.map(|known| known.price)))
}

fn insert(
    tx: &mut Tx<'_, '_>,
    key: &SpendKey,
    message: &Message,
    source: SpendSource,
    uses: Vec<ModelUse>,
) -> Result<()> {
    let mut entry = Spend {
        at: tx.now.wall,
        day: day_of(tx, tx.now.wall)?,
        agent: message.agent,
        session: message.session,
        chat: None,
        person: None,
        task: message.slot.map(|slot| slot.task),
        uses,
        source,
        counted: true,
    };
    // Who caused it is needed only for totals.
    if !entry.uses.is_empty() {
        entry.person = tx.db.bodies.get(tx, &message.body)?.and_then(|body| body.sender);
        if let Some(reply) = &message.reply {
            entry.chat = chats::known(tx, reply)?.as_ref().as_ref().map(|(chat, _)| *chat);
        }
    }
    tx.db.spend.put(tx, key, &entry)?;
    change_totals(tx, &entry, |total, amounts| total.kept = total.kept.plus(amounts))
}

/// Removes an entry. Its amounts stay in the totals.
pub(crate) fn forget(tx: &mut Tx<'_, '_>, key: &SpendKey, entry: &Spend) -> Result<()> {
    tx.db.spend.delete(tx, key)?;
    change_totals(tx, entry, |total, amounts| {
        total.kept = total.kept.minus(amounts);
        total.forgotten = total.forgotten.plus(amounts);
    })
}

fn change_totals(tx: &mut Tx<'_, '_>, entry: &Spend, change: impl Fn(&mut SpendTotal, Amounts)) -> Result<()> {
    for (scope, amounts) in entry.amounts() {
        let key = SpendTotalKey { scope: ScopeKey::of(&scope)?, day: entry.day };
        let mut total = tx.db.spend_totals.get(tx, &key)?.unwrap_or_default();
        change(&mut total, amounts);
        tx.db.spend_totals.put(tx, &key, &total)?;
    }
    Ok(())
}

/// The day of an instant, by the calendar of the installation's users.
pub(crate) fn day_of(tx: &Tx<'_, '_>, at: Timestamp) -> Result<Day> {
    Ok(Day::of(at, settings::zone(tx)?.offset_at(at.millis().div_euclid(1_000))))
}
