//! What has to hold after every step: the promises of the README, a function each or two. Those that cost little look at
//! what changed and are asked after every step; the whole store is gone over from time to time and after deaths.

use std::collections::{BTreeMap, BTreeSet};

use hearth::model::address::UserId;
use hearth::model::approval::{ApprovalState, Matters};
use hearth::model::delivery::{Author, OutState};
use hearth::model::entity::Role;
use hearth::model::id::{AgentId, ApprovalId, MessageId, OutboundId, SessionId};
use hearth::model::message::{Message, MessageState};
use hearth::model::task::Slot;
use hearth::model::{Effect, Timestamp};
use hearth::state::{ForeignKey, Meta};

use super::Sim;
use super::agents::GHOST;
use crate::slots::DAY;
use crate::world::World;

/// Steps between looks at everything while the store is empty. A look costs what the store has, so they become rarer as it
/// grows.
const EVERY: u64 = 8;

/// What is remembered of earlier looks.
pub(super) struct Memory {
    meta: Meta,
    /// Messages that are not over, oldest first, and how many of all were seen.
    open: BTreeSet<MessageId>,
    newest: Option<MessageId>,
    /// How each message ended.
    over: BTreeMap<MessageId, MessageState>,
    newest_out: Option<OutboundId>,
    /// What agents said, and slots that were used: each once.
    said: BTreeSet<(SessionId, String)>,
    slots: BTreeSet<Slot>,
    decided: BTreeMap<ApprovalId, ApprovalState>,
    incarnations: BTreeMap<SessionId, u32>,
    /// Events up to here were found where they have to be.
    found: usize,
    steps: u64,
    /// The daemon is new: everything is to be looked at, as far as that can be paid for.
    pub(super) restarted: bool,
}

impl Memory {
    pub(super) fn of(world: &World) -> Self {
        Self {
            meta: world.read(|db, txn| db.meta.require(txn, &())),
            open: BTreeSet::new(),
            newest: None,
            over: BTreeMap::new(),
            newest_out: None,
            said: BTreeSet::new(),
            slots: BTreeSet::new(),
            decided: BTreeMap::new(),
            incarnations: BTreeMap::new(),
            found: 0,
            steps: 0,
            restarted: false,
        }
    }

    /// Whether the time since the last look at everything pays for another one.
    pub(super) fn is_time_for_all(&self, world: &World) -> bool {
        let rows = world.read(|db, txn| Ok(db.messages.len(txn)? + db.seen.len(txn)?));
        let paid = EVERY + rows / 8;
        self.steps >= if self.restarted { paid / 4 } else { paid }
    }
}

impl Sim {
    /// After a step.
    pub(super) fn prove(&mut self) {
        self.memory.steps += 1;
        let all = self.plan.check_always || self.memory.is_time_for_all(&self.world);
        self.what_was_acknowledged_is_stored(all);
        self.every_message_is_in_one_state(all);
        self.one_incarnation_lives();
        self.what_was_written_is_taken_in();
        self.decisions_are_whole();
        self.nothing_is_shown_twice_unmarked();
        self.a_store_is_only_its_own();
        self.nobody_is_let_in();
        if all {
            // Where there is no room, a time that waited for a run is the next one again until there is.
            if !self.tight {
                self.book.prove(&self.world, &mut self.chance);
            }
            self.indexes_agree();
            self.memory.steps = 0;
            self.memory.restarted = false;
        }
    }

    /// What a platform was told to be taken is in the store, through deaths, cut power and full maps: what it became, where
    /// it waits, or why it was refused.
    fn what_was_acknowledged_is_stored(&mut self, all: bool) {
        let from = if all { self.events.len().saturating_sub(200) } else { self.memory.found };
        let now = self.world.now().wall.millis();
        for event in &self.events[from..] {
            if !event.kept || event.chat.0.is_empty() || (now - event.at).abs() > 20 * DAY {
                continue;
            }
            let key = [event.chat.0, event.chat.1, &event.id].map(|text| ForeignKey::of(&text.to_owned()));
            let [channel, chat, id] = key;
            let seen = self.world.read(|db, txn| db.seen.get(txn, &(channel, chat, id)));
            let seen = seen.unwrap_or_else(|| panic!("{event:?} was taken and is not there"));
            assert!(!seen.messages.is_empty() || seen.refused.is_some(), "{event:?} became nothing: {seen:?}");
        }
        self.memory.found = self.events.len();
    }

    /// A message that was accepted is pending, claimed by the incarnation that lives, or over for good; and over
    /// includes a reason.
    fn every_message_is_in_one_state(&mut self, all: bool) {
        let next = self.memory.newest.map_or(MessageId::new(0), |id| MessageId::new(id.number() + 1));
        let new = self.world.read(|db, txn| db.messages.range(txn, next..)?.collect::<Result<Vec<_>, _>>());
        self.memory.newest = new.last().map(|(id, _)| *id).or(self.memory.newest);
        self.memory.open.extend(new.iter().map(|(id, _)| *id));
        for (id, message) in &new {
            self.nobody_strange_is_heard(*id, message);
            let first = message.slot.is_none_or(|slot| self.memory.slots.insert(slot));
            assert!(first, "{id} is of a slot that was used before: {:?}", message.slot);
        }
        let open = self.world.read(|db, txn| {
            let row = |id: &MessageId| Ok((*id, db.messages.require(txn, id)?));
            self.memory.open.iter().map(row).collect::<Result<Vec<_>, _>>()
        });
        for (id, message) in open {
            match &message.state {
                MessageState::Pending(_) => {}
                MessageState::Claimed { incarnation, .. } => {
                    let live = self.world.read(|db, txn| db.live.get(txn, &message.session));
                    assert_eq!(live, Some(*incarnation), "{id} is claimed by somebody who does not live");
                }
                MessageState::Completed { .. } | MessageState::Dropped { .. } => self.is_over(id, message.state),
                MessageState::Failed { .. } => {
                    self.somebody_is_told(id, &message);
                    self.is_over(id, message.state);
                }
            }
        }
        if all {
            for (id, state) in &self.memory.over {
                assert_eq!(self.world.state_of(*id), *state, "{id} was over");
            }
        }
    }

    fn is_over(&mut self, id: MessageId, state: MessageState) {
        self.memory.open.remove(&id);
        self.memory.over.insert(id, state);
    }

    /// Somebody is told where the answer would have gone, of several messages of a turn once; or the turn said something
    /// itself.
    fn somebody_is_told(&self, id: MessageId, message: &Message) {
        let (Some(reply), MessageState::Failed { at, .. }) = (&message.reply, &message.state) else {
            return; // then the owner hears of it, at any time
        };
        let told = self.world.read(|db, txn| {
            for row in db.outbound.iter(txn)? {
                let (_, outbound) = row?;
                let told = match outbound.author {
                    Author::Hearth => outbound.to.as_ref() == Some(reply),
                    Author::Agent { session, .. } => session == message.session && outbound.to.is_some(),
                };
                if told && outbound.stored == *at {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        assert!(told, "{id} failed and nobody was told: {message:?}");
    }

    /// What runs is what the store says that lives, and numbers only grow.
    fn one_incarnation_lives(&mut self) {
        let live: Vec<(SessionId, u32)> = self.world.read(|db, txn| db.live.iter(txn)?.collect());
        let live: BTreeMap<SessionId, u32> = live.into_iter().collect();
        for (session, number) in &self.world.outside.running {
            assert_eq!(live.get(session), Some(number), "{session}.{number} runs and was thought to be gone");
        }
        for (session, number) in live {
            let before = self.memory.incarnations.insert(session, number);
            assert!(before.is_none_or(|before| before <= number), "{session} went back from {before:?} to {number}");
        }
    }

    /// A decision is made once, and with it everything that follows: nothing waits for it any more, and who was
    /// approved is a member.
    fn decisions_are_whole(&mut self) {
        let newest = self.memory.decided.last_key_value().map_or(1, |(id, _)| id.number().saturating_sub(40));
        let rows = self
            .world
            .read(|db, txn| db.approvals.range(txn, ApprovalId::new(newest)..)?.collect::<Result<Vec<_>, _>>());
        for (id, approval) in rows {
            if approval.state.is_open() {
                continue;
            }
            if let Some(known) = self.memory.decided.get(&id) {
                assert_eq!(*known, approval.state, "{id} was decided twice");
                continue;
            }
            let held = self.world.read(|db, txn| db.held.collect_prefix(txn, &id, 10));
            assert!(held.is_empty(), "{id} is decided and {} messages wait for it", held.len());
            if let (ApprovalState::Approved { .. }, Matters::Sender { sender, agents, .. }) =
                (&approval.state, &approval.about)
            {
                let in_now = agents.iter().filter(|agent| self.is_in(**agent, sender)).count();
                assert!(in_now > 0, "{id}: {sender} was approved and is no member");
            }
            self.memory.decided.insert(id, approval.state);
        }
    }

    /// An attempt is in the store before the network hears of it.
    pub(super) fn an_attempt_is_committed(&self, effect: &Effect) {
        let Effect::Deliver(delivery) = effect else { return };
        let row = self.world.outbound(delivery.id);
        assert!(row.attempts > 0, "{} goes out and no attempt is noted: {:?}", delivery.id, row.state);
    }

    /// What may be a repetition is marked on networks that cannot tell; what was delivered was seen; what an
    /// incarnation that is gone seems to say goes nowhere.
    fn nothing_is_shown_twice_unmarked(&mut self) {
        assert_eq!(self.platform.borrow().broken, Vec::<String>::new());
        let next = self.memory.newest_out.map_or(OutboundId::new(0), |id| OutboundId::new(id.number() + 1));
        let new = self.world.read(|db, txn| db.outbound.range(txn, next..)?.collect::<Result<Vec<_>, _>>());
        for (id, outbound) in new {
            self.memory.newest_out = Some(id);
            if let Author::Agent { session, wire_id, .. } = &outbound.author {
                let first = self.memory.said.insert((*session, wire_id.clone()));
                assert!(first, "{id} was stored before: {outbound:?}");
                let goes = !matches!(outbound.state, OutState::Refused { .. } | OutState::Abandoned { .. });
                assert!(!goes || !wire_id.starts_with(GHOST), "{id} is of somebody who is gone: {outbound:?}");
            }
        }
    }

    /// Every index says what its rows say: a series has one row among those that are due, too.
    fn indexes_agree(&self) {
        let violations = self.world.violations();
        assert!(violations.is_empty(), "{}", violations.join("\n"));
    }

    /// The store stays the one that it was, in the format that it had.
    fn a_store_is_only_its_own(&self) {
        let meta: Meta = self.world.read(|db, txn| db.meta.require(txn, &()));
        assert_eq!((meta.format, meta.install), (self.memory.meta.format, self.memory.meta.install));
        assert!(meta.runs >= self.memory.meta.runs);
    }

    /// Members were let in by the operator or by somebody who may.
    fn nobody_is_let_in(&self) {
        let members: Vec<_> = self.world.read(|db, txn| db.members.iter(txn)?.collect());
        for ((agent, ..), row) in members {
            let by = row.by.map(|by| by.to_string());
            let may = by.as_deref().is_none_or(|by| ["net:boss", "web:chief", "net:others"].contains(&by));
            assert!(may, "{agent}: {} was let in by {by:?}", row.user);
        }
    }

    /// In chats of known people, agents hear nobody else.
    fn nobody_strange_is_heard(&self, id: MessageId, message: &Message) {
        let body = self.world.read(|db, txn| db.bodies.get(txn, &message.body));
        let Some(body) = body else { return };
        let (Some(source), Some(sender)) = (&body.source, &body.sender) else { return };
        let known = [("net", "M"), ("web", "K")];
        // What only goes along with what others say may be of anybody.
        if message.trigger && known.contains(&(source.channel.as_str(), source.platform_id.as_str())) {
            assert!(self.is_in(message.agent, sender), "{id} is of {sender}, whom {} does not know", message.agent);
        }
    }

    fn is_in(&self, agent: AgentId, user: &UserId) -> bool {
        let key = (ForeignKey::of(user.channel()), ForeignKey::of(user.handle()));
        self.world.read(|db, txn| {
            let roles = [Role::Owner, Role::GlobalAdmin, Role::AdminOf(agent)];
            let mut known = db.members.contains(txn, &(agent, key.0.clone(), key.1.clone()))?;
            for role in roles {
                known |= db.roles.contains(txn, &(key.0.clone(), key.1.clone(), role))?;
            }
            Ok(known)
        })
    }

    /// How many messages there are, and when the newest was stored.
    pub(super) fn messages(&self) -> (u64, Option<Timestamp>) {
        self.world.read(|db, txn| Ok((db.messages.len(txn)?, db.messages.last(txn, ..)?.map(|(_, m)| m.stored))))
    }
}
