//! The ledger of what agents use of models, and its totals. The only writer of both.

use crate::Result;
use crate::model::address::{Address, UserId};
use crate::model::budget::Party;
use crate::model::gateway::ModelCall;
use crate::model::id::{AgentId, ChatId, MessageId};
use crate::model::message::Message;
use crate::model::spend::{Amounts, ReportedUse, Spend, SpendScope, SpendSource, SpendTotal};
use crate::model::time::{Day, Timestamp};
use crate::rows::{agents, budgets, chats, recent_turns, sessions, settings};
use crate::rules::caps::Used;
use crate::rules::prices;
use crate::state::{Basis, InboxKey, Read, ScopeKey, SpendKey, SpendTotalKey, Tables};
use crate::tx::Tx;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Number that stands for the report of the turn in the keys of entries. Calls have numbers above it.
const REPORT: u64 = 0;
/// Days of a total: more than a month has.
const DAYS_MAX: usize = 40;
/// Longest name of a model, in characters.
const MODEL_CHARS: usize = 100;

/// What an agent reports of a turn.
pub(crate) struct Report {
    pub(crate) incarnation: u32,
    pub(crate) used: Vec<ReportedUse>,
    /// Whether the gateway counted calls of the turn. Then the report is kept for comparison only.
    pub(crate) is_counted: bool,
}

/// Stores what an agent reports of a turn that ended with the acknowledgement of this message. The second report of the
/// same turn changes nothing.
pub(crate) fn turn_ended(tx: &mut Tx<'_, '_>, id: MessageId, message: &Message, report: Report) -> Result<()> {
    let Report { incarnation, used, is_counted } = report;
    let key = SpendKey { message: id, incarnation, call: REPORT };
    if tx.db.spend.contains(tx, &key)? {
        return Ok(());
    }
    let source = if used.is_empty() { SpendSource::Unreported } else { SpendSource::Reported };
    let entry = entry(tx, message, source, used)?;
    insert(tx, &key, Spend { counted: !is_counted, ..entry })
}

/// Stores a call that the gateway counted. If the report of the turn is stored already, it does not count any more.
pub(crate) fn called(tx: &mut Tx<'_, '_>, id: MessageId, call: &ModelCall) -> Result<()> {
    let key = SpendKey { message: id, incarnation: call.incarnation, call: call.number };
    let Some(tokens) = call.usage.filter(|tokens| tokens.total() > 0) else { return Ok(()) };
    if call.number == REPORT || tx.db.spend.contains(tx, &key)? {
        return Ok(());
    }
    let model = call
        .model
        .as_deref()
        .map(|model| model.chars().filter(|letter| !letter.is_control()).take(MODEL_CHARS).collect());
    let message = tx.db.messages.require(tx, &id)?;
    let used = ReportedUse { model, tokens, cost: None };
    let entry = entry(tx, &message, SpendSource::Gateway, vec![used])?;
    insert(tx, &key, entry)?;
    let key = SpendKey { call: REPORT, ..key };
    match tx.db.spend.get(tx, &key)? {
        Some(report) if report.counted => {
            change_totals(tx, &report, |total, amounts| total.kept = total.kept.minus(amounts))?;
            put(tx, &key, &Spend { counted: false, ..report })
        }
        _ => Ok(()),
    }
}

/// When a turn of this run ended that ended with the acknowledgement of the message.
pub(crate) fn turn_ended_at(tx: &Tx<'_, '_>, message: MessageId, incarnation: u32) -> Result<Option<Timestamp>> {
    let report = tx.db.spend.get(tx, &SpendKey { message, incarnation, call: REPORT })?;
    Ok(report.map(|report| report.at))
}

/// Whether the gateway counted calls of this run for the message.
pub(crate) fn has_calls(tx: &Tx<'_, '_>, message: MessageId, incarnation: u32) -> Result<bool> {
    let first = SpendKey { message, incarnation, call: REPORT + 1 };
    let last = SpendKey { message, incarnation, call: u64::MAX };
    Ok(tx.db.spend.first(tx, first..=last)?.is_some())
}

/// What a message has used, in all its turns.
pub(crate) fn used_for(tx: &Tx<'_, '_>, message: MessageId) -> Result<Used> {
    let mut used = Used::default();
    for row in tx.db.spend.prefix(tx, &message)? {
        let (_, entry) = row?;
        if entry.counted {
            used.tokens = entry.uses.iter().fold(used.tokens, |sum, one| sum.saturating_add(one.tokens.total()));
        }
        used.calls = used.calls.saturating_add((entry.source == SpendSource::Gateway).into());
    }
    Ok(used)
}

/// An entry for the ledger. One without uses is in no total, so it needs neither a sender nor the calendar.
fn entry(tx: &Tx<'_, '_>, message: &Message, source: SpendSource, used: Vec<ReportedUse>) -> Result<Spend> {
    let (at, session) = (tx.now.wall, message.session);
    if used.is_empty() {
        let Party { agent, chat, person, task } = bare_party(message);
        let day = Day::of(at, 0);
        return Ok(Spend { at, day, agent, session, chat, person, task, uses: Vec::new(), source, counted: true });
    }
    let settings = budgets::settings(tx)?;
    let day = settings::today(tx, &settings).day;
    let mut uses = Vec::with_capacity(used.len());
    for used in used {
        let configured = settings.price_of(used.model.as_deref());
        uses.push(prices::priced(used, configured, || is_near(tx, message))?);
    }
    let Party { agent, chat, person, task } = party(tx, message)?;
    Ok(Spend { at, day, agent, session, chat, person, task, uses, source, counted: true })
}

/// Whether the model that worked on a message runs on this machine or in its network.
fn is_near(tx: &Tx<'_, '_>, message: &Message) -> Result<bool> {
    let Some(session) = sessions::load(tx, message.session)? else { return Ok(false) };
    let agent = tx.db.agents.require(tx, &session.agent)?;
    Ok(agents::settings_in(tx.db, tx, message.session, &session, &agent)?.has_near_server())
}

/// Whom the use of models by a message is counted for.
pub(crate) fn party(tx: &Tx<'_, '_>, message: &Message) -> Result<Party> {
    let mut party = bare_party(message);
    // A body may be large.
    party.person = match budgets::reservations(tx)?.of_message(InboxKey::of(message)) {
        Some(reservation) => reservation.party.person.clone(),
        None => tx.db.bodies.get(tx, &message.body)?.and_then(|body| body.sender),
    };
    party.chat = chat_of(tx, message.reply.as_ref())?;
    Ok(party)
}

/// Likewise, for a message of a person that asks for an answer in this place.
pub(crate) fn party_of_person(
    tx: &Tx<'_, '_>,
    agent: AgentId,
    reply: Option<&Address>,
    person: &UserId,
) -> Result<Party> {
    Ok(Party { agent, chat: chat_of(tx, reply)?, person: Some(person.clone()), task: None })
}

fn chat_of(tx: &Tx<'_, '_>, reply: Option<&Address>) -> Result<Option<ChatId>> {
    reply.map_or(Ok(None), |reply| chats::id_of(tx, &reply.channel, &reply.platform_id))
}

fn bare_party(message: &Message) -> Party {
    Party { agent: message.agent, chat: None, person: None, task: message.slot.map(|slot| slot.task) }
}

fn insert(tx: &mut Tx<'_, '_>, key: &SpendKey, entry: Spend) -> Result<()> {
    put(tx, key, &entry)?;
    change_totals(tx, &entry, |total, amounts| total.kept = total.kept.plus(amounts))
}

fn put(tx: &mut Tx<'_, '_>, key: &SpendKey, entry: &Spend) -> Result<()> {
    let newest = recent_turns::known(tx);
    tx.db.spend.put(tx, key, entry)?;
    recent_turns::stored(tx, newest, key, entry);
    Ok(())
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
    let mut known = tx.known::<PeriodTotals>(Basis::Totals, &()).map(|known| (*known).clone());
    for (scope, amounts) in entry.amounts() {
        let key = SpendTotalKey { scope: ScopeKey::of(&scope)?, day: entry.day };
        let before = tx.db.spend_totals.get(tx, &key)?.unwrap_or_default();
        let mut total = before;
        change(&mut total, amounts);
        tx.db.spend_totals.put(tx, &key, &total)?;
        let within = |one: &&mut PeriodTotal| one.scope == scope && one.days.contains(&entry.day);
        for one in known.iter_mut().flatten().filter(within) {
            one.sum = one.sum.minus(before.sum()).plus(total.sum());
        }
    }
    if let Some(known) = known {
        tx.keep(Basis::Totals, &(), Arc::new(known));
    }
    Ok(())
}

/// The total of the days of a budget's period until today, in memory.
#[derive(Clone)]
pub(crate) struct PeriodTotal {
    scope: SpendScope,
    days: RangeInclusive<Day>,
    sum: Amounts,
}

/// Such totals of the scopes of budgets.
pub(crate) type PeriodTotals = Vec<PeriodTotal>;

/// The totals that are known.
pub(crate) fn totals_of_periods(tx: &Tx<'_, '_>) -> Result<Arc<PeriodTotals>> {
    tx.once(Basis::Totals, &(), || Ok(PeriodTotals::new()))
}

/// The total of the days of a budget's period until today. It is added up once a day and then changes with its rows.
pub(crate) fn total_of_period(
    tx: &Tx<'_, '_>,
    known: &mut Arc<PeriodTotals>,
    scope: &SpendScope,
    days: RangeInclusive<Day>,
) -> Result<Amounts> {
    if let Some(one) = known.iter().find(|one| one.scope == *scope && one.days == days) {
        return Ok(one.sum);
    }
    let sum = total(tx.db, tx, &ScopeKey::of(scope)?, days.clone())?;
    let all = Arc::make_mut(known);
    // Totals of earlier days are not needed any more.
    all.retain(|one| one.days.end() == days.end());
    all.push(PeriodTotal { scope: scope.clone(), days, sum });
    tx.keep(Basis::Totals, &(), Arc::clone(known));
    Ok(sum)
}

/// The total of some days.
pub(crate) fn total(db: &Tables, txn: &Read<'_>, scope: &ScopeKey, days: RangeInclusive<Day>) -> Result<Amounts> {
    let key = |day: Day| SpendTotalKey { scope: scope.clone(), day };
    let rows = db.spend_totals.collect_range(txn, key(*days.start())..=key(*days.end()), DAYS_MAX)?;
    Ok(rows.iter().fold(Amounts::default(), |sum, (_, total)| sum.plus(total.sum())))
}
