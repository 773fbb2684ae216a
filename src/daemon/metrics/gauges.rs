//! Gauges: the current state, mostly lengths of indexes, which LMDB knows without reading rows.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::Words;
use crate::channel::health::LineState;
use crate::clock;
use crate::daemon::Daemon;
use crate::engine::budgets;
use crate::model::id::SessionId;
use crate::model::message::Reason;
use crate::state::{self, InboxKey, Read, Tables};

/// Maximum number of sessions that are checked for waiting messages.
const WAITING_MAX: u64 = 10_000;

/// Gauges, updated for each metrics request.
#[derive(Default)]
pub(super) struct Gauges {
    messages: Family<Words, Gauge<f64, AtomicU64>>,
    outbound: Family<Words, Gauge<f64, AtomicU64>>,
    open: Family<Words, Gauge<f64, AtomicU64>>,
    incarnations: Gauge<f64, AtomicU64>,
    waiting: Gauge<f64, AtomicU64>,
    tasks_due: Gauge<f64, AtomicU64>,
    store: Family<Words, Gauge<f64, AtomicU64>>,
    readers: Gauge<f64, AtomicU64>,
    queued: Gauge<f64, AtomicU64>,
    terminals: Gauge<f64, AtomicU64>,
    channels: Family<[(&'static str, String); 1], Gauge<f64, AtomicU64>>,
    budgets: Family<[(&'static str, String); 1], Gauge<f64, AtomicU64>>,
}

impl Gauges {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let own = Self::default();
        registry.register("messages", "Messages that are not over, by where they are", own.messages.clone());
        registry.register("undelivered", "Messages on their way out, by where they are", own.outbound.clone());
        registry.register("asked", "Open approvals and questions, by kind", own.open.clone());
        registry.register("incarnations", "Incarnations that live", own.incarnations.clone());
        registry.register(
            "sessions_waiting",
            "Sessions with due messages and without an incarnation",
            own.waiting.clone(),
        );
        registry.register("tasks_due", "Tasks that will come", own.tasks_due.clone());
        registry.register_with_unit("store", "Room of the store, by what it is", Unit::Bytes, own.store.clone());
        registry.register("store_readers", "Slots that readers of the store have used at once", own.readers.clone());
        registry.register("inputs_queued", "Inputs that wait for the engine", own.queued.clone());
        registry.register("terminals", "Terminals that are attached", own.terminals.clone());
        registry.register("channel_up", "Whether a configured channel is up", own.channels.clone());
        registry.register("budget_used_ratio", "The part of a budget that is spent", own.budgets.clone());
        own
    }

    pub(super) fn read(&self, daemon: &Daemon) -> Result<(), state::Error> {
        daemon.store().read(|db, txn| self.count(db, txn))?;
        self.read_budgets(daemon)?;
        let usage = daemon.store().usage()?;
        for (what, bytes) in
            [("used", usage.used), ("limit", usage.limit), ("free", usage.free), ("unused", usage.unused)]
        {
            self.store.get_or_create(&[("what", what)]).set(float(bytes));
        }
        self.readers.set(f64::from(daemon.store().reader().readers().0));
        self.queued.set(float(daemon.queued() as u64));
        self.terminals.set(float(daemon.terminals().count() as u64));
        // Channels that are no longer configured must not be reported as down.
        self.channels.clear();
        for line in daemon.channels() {
            let up = if line.health.state == LineState::Up { 1.0 } else { 0.0 };
            self.channels.get_or_create(&[("channel", line.name.to_string())]).set(up);
        }
        Ok(())
    }

    fn read_budgets(&self, daemon: &Daemon) -> Result<(), state::Error> {
        let zone = daemon.machine_zone();
        let all = daemon.store().read(|db, txn| budgets(db, txn, clock::wall(), &zone))?;
        self.budgets.clear();
        for account in all {
            let money = account.money().map(|limit| ratio(account.spent_money().as_micros(), limit.as_micros()));
            let tokens = account.tokens().map(|limit| ratio(account.spent.tokens.total(), limit));
            let used = money.into_iter().chain(tokens).fold(0.0, f64::max);
            self.budgets.get_or_create(&[("budget", account.budget.name())]).set(used);
        }
        Ok(())
    }

    fn count(&self, db: &Tables, txn: &Read<'_>) -> Result<(), state::Error> {
        for (state, count) in [
            ("due", db.ready_messages.len(txn)?),
            ("claimed", db.claimed_messages.len(txn)?),
            ("scheduled", db.scheduled_messages.len(txn)?),
            ("backing_off", db.messages_in_backoff.len(txn)?),
            ("over_budget", db.budget_waits.len(txn)?),
            ("context", db.context_messages.len(txn)?),
            ("held", db.held_messages.len(txn)?),
        ] {
            self.messages.get_or_create(&[("state", state)]).set(float(count));
        }
        for (state, count) in [("lane", db.outgoing_queues.len(txn)?), ("later", db.scheduled_outbound.len(txn)?)] {
            self.outbound.get_or_create(&[("state", state)]).set(float(count));
        }
        for (kind, count) in [("approval", db.approvals_due.len(txn)?), ("question", db.questions_due.len(txn)?)] {
            self.open.get_or_create(&[("kind", kind)]).set(float(count));
        }
        self.incarnations.set(float(db.live_incarnations.len(txn)?));
        self.tasks_due.set(float(db.tasks_due.len(txn)?));
        self.waiting.set(float(waiting(db, txn)?));
        Ok(())
    }
}

/// Counts sessions with queued messages and without an incarnation. Costs one seek per session.
fn waiting(db: &Tables, txn: &Read<'_>) -> Result<u64, state::Error> {
    let (mut count, mut from) = (0_u64, InboxKey { session: SessionId::new(0), seq: 0 });
    while count < WAITING_MAX
        && let Some((InboxKey { session, .. }, _)) = db.ready_messages.first(txn, from..)?
    {
        count = count.saturating_add(u64::from(!db.live_incarnations.contains(txn, &session)?));
        from = InboxKey { session: SessionId::new(session.number().saturating_add(1)), seq: 0 };
    }
    Ok(count)
}

#[expect(clippy::cast_precision_loss, reason = "nobody counts to 2^53 here, and a monitoring system has nothing finer")]
fn float(count: u64) -> f64 {
    count as f64
}

/// A limit of zero counts as used up.
fn ratio(spent: u64, limit: u64) -> f64 {
    if limit == 0 { 1.0 } else { float(spent) / float(limit) }
}

/// Classifies a refusal: `noise` occurs in every chat, `policy` follows from a decision, `fault` is a failure of
/// Hearth.
pub(super) fn kind(reason: Reason) -> &'static str {
    match reason {
        Reason::UnknownChat
        | Reason::NoAgentEngaged
        | Reason::PatternMismatch
        | Reason::NotMentioned
        | Reason::Muted
        | Reason::Answer
        | Reason::AlreadyStored
        | Reason::Superseded
        | Reason::CommandFiltered
        | Reason::PairingCode
        | Reason::OwnCommand => "noise",
        Reason::NoAgentWired
        | Reason::ApprovalUnavailable
        | Reason::HeldFull
        | Reason::ApprovalsFull
        | Reason::NobodyToAsk
        | Reason::TooManyHops
        | Reason::Backlog
        | Reason::StoreFull => "fault",
        Reason::ChatDenied
        | Reason::UnknownUserScope
        | Reason::SenderScopeNotMember
        | Reason::UnknownUser
        | Reason::UnknownSenderStrict
        | Reason::SenderHeld
        | Reason::ChannelHeld
        | Reason::Rejected
        | Reason::ApprovalExpired
        | Reason::ChatRemoved
        | Reason::CommandDenied
        | Reason::Budget
        | Reason::AgentRemoved
        | Reason::Owner
        | Reason::GlobalAdmin
        | Reason::AdminOfAgent
        | Reason::Member
        | Reason::Public
        | Reason::PatternMatch
        | Reason::Mentioned
        | Reason::Sticky
        | Reason::RaisedToTrigger => "policy",
    }
}
