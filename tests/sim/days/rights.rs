//! Permissions: decisions with everything that follows from them, and which people are admitted.

use std::collections::{BTreeMap, BTreeSet};

use hearth::model::Turn;
use hearth::model::address::UserId;
use hearth::model::approval::{Approval, ApprovalState, ApprovalSubject, Decider};
use hearth::model::entity::{Agent, Destination, Role};
use hearth::model::id::{AgentId, ApprovalId, ChatId, MessageId, SessionId};
use hearth::model::message::{Message, Reason};
use hearth::state::{ApproverKey, DestinationKey, GrantKey, HeldKey, MemberKey, PersonKey, Text};

use super::Sim;
use super::people::WITH_ROLES;

/// Maximum number of cards that one person is shown at once.
pub(super) const CARDS: usize = 3;

impl Sim {
    /// The number of open cards per person is limited; further approvals wait.
    fn cards_are_few(&self) {
        let asked = self.world.read(|db, txn| {
            let mut asked: BTreeMap<_, usize> = BTreeMap::new();
            for row in db.approvals_by_decider.iter(txn)? {
                let (ApproverKey { approver, turn, .. }, ()) = row?;
                *asked.entry(approver).or_default() += usize::from(turn == Turn::Now);
            }
            Ok(asked)
        });
        assert!(asked.values().all(|cards| *cards <= CARDS), "{asked:?}");
    }

    /// A decision is made once, by an approver, together with everything that follows: nothing waits for it any more,
    /// and the requested thing exists.
    pub(super) fn decisions_are_whole(&mut self, all: bool) {
        self.cards_are_few();
        let next = self.memory.newest_asked.map_or(ApprovalId::new(0), |id| ApprovalId::new(id.number() + 1));
        let new = self.world.read(|db, txn| db.approvals.range(txn, next..)?.collect::<Result<Vec<_>, _>>());
        self.memory.newest_asked = new.last().map(|(id, _)| *id).or(self.memory.newest_asked);
        self.memory.asked.extend(new.iter().map(|(id, _)| *id));
        for id in self.memory.asked.clone() {
            let approval = self.world.read(|db, txn| db.approvals.require(txn, &id));
            if approval.state.is_open() {
                continue;
            }
            let held = self.world.read(|db, txn| db.held_messages.collect_prefix(txn, &id, 10));
            assert!(held.is_empty(), "{id} is decided and {} messages wait for it", held.len());
            self.is_decided_by_somebody_who_may(id, &approval.state);
            self.hosts_are_decided(id, &approval);
            if matches!(approval.state, ApprovalState::Approved { .. }) {
                self.what_was_approved_is_there(id, &approval);
            }
            self.memory.asked.remove(&id);
            self.memory.decided.insert(id, approval.state);
        }
        if all {
            let rows: BTreeMap<ApprovalId, Approval> = self.world.read(|db, txn| db.approvals.iter(txn)?.collect());
            for (id, known) in &self.memory.decided {
                assert_eq!(*known, rows[id].state, "{id} was decided twice");
            }
        }
    }

    /// An event that waits for a decision is held for an approval.
    pub(super) fn what_waits_for_a_decision_is_held(&self) {
        let held: BTreeSet<(ApprovalId, String)> = self.world.read(|db, txn| {
            let mut all = BTreeSet::new();
            for row in db.held_messages.iter(txn)? {
                let (HeldKey { approval: id, body }, _) = row?;
                let message = db.bodies.require(txn, &body)?.platform_message;
                all.extend(message.map(|message| (id, message.to_string())));
            }
            Ok(all)
        });
        let seen: Vec<_> = self.world.read(|db, txn| db.seen_events.iter(txn)?.collect());
        for (key, seen) in seen {
            assert!(!seen.messages.is_empty() || seen.refused.is_some(), "{key:?} became nothing");
            let waits = matches!(seen.refused, Some(Reason::SenderHeld | Reason::ChannelHeld));
            let is_held = seen.held.is_some_and(|id| held.contains(&(id, seen.platform_message.to_string())));
            assert!(!waits || is_held, "{key:?} waits for nothing: {seen:?}");
        }
    }

    fn is_decided_by_somebody_who_may(&self, id: ApprovalId, state: &ApprovalState) {
        let (ApprovalState::Approved { by, .. } | ApprovalState::Rejected { by, .. }) = state else { return };
        let Decider::Person(user) = by else { return };
        assert!(has_role(user), "{id} was decided by {user}, who has no role");
    }

    fn what_was_approved_is_there(&mut self, id: ApprovalId, approval: &Approval) {
        match &approval.about {
            ApprovalSubject::Sender { sender, agents, .. } => {
                let may = agents.iter().any(|agent| self.is_in(*agent, sender));
                assert!(may, "{id}: {sender} was approved and is no member");
                self.count("senders approved");
            }
            ApprovalSubject::Channel { chat, sender, .. } => {
                let heard = self.listeners(*chat);
                assert!(!heard.is_empty(), "{id}: {chat} was approved and nobody listens there");
                let may = |sender| heard.iter().any(|agent| self.is_in(*agent, sender));
                assert!(sender.as_ref().is_none_or(may), "{id}: {sender:?} is heard by nobody in {chat}");
                self.count("chats approved");
            }
            ApprovalSubject::Packages { session, apt, npm, .. } => {
                let has = self.agent_of(*session).1.settings.packages;
                let all =
                    apt.iter().all(|name| has.apt.contains(name)) && npm.iter().all(|name| has.npm.contains(name));
                assert!(all, "{id}: packages were approved, and the agent has only {has:?}");
                self.count("packages approved");
            }
            ApprovalSubject::McpServer { session, server } => {
                let has = self.agent_of(*session).1.settings.mcp_servers;
                assert!(has.contains(server), "{id}: {server:?} was approved, and the agent has only {has:?}");
                self.count("servers approved");
            }
            ApprovalSubject::Host(_) | ApprovalSubject::Hosts(_) => self.count("hosts allowed"),
            ApprovalSubject::Budget(_) => self.count("budgets extended"),
            ApprovalSubject::Tool(_) => self.count("tools approved"),
            ApprovalSubject::CreateAgent { session, name, .. } => {
                self.was_made(id, *session, name);
                self.count("agents approved");
            }
        }
    }

    /// An agent of this name, with its destinations and the agents that may write to it.
    fn was_made(&self, id: ApprovalId, session: SessionId, name: &str) {
        let (parent, _) = self.agent_of(session);
        let made = self.world.read(|db, txn| {
            let mut made = Vec::new();
            for row in db.destinations.prefix(txn, &parent)? {
                let (DestinationKey { name: local, .. }, destination) = row?;
                let Destination::Agent(child) = destination else { continue };
                let up = db.destinations.get(txn, &DestinationKey { agent: child, name: Text::new("parent")? })?;
                if up == Some(Destination::Agent(parent)) && db.agents.require(txn, &child)?.settings.name == name {
                    made.push(local);
                }
            }
            Ok(made)
        });
        assert!(!made.is_empty(), "{id}: {name} was approved, and {parent} cannot write to such an agent");
    }

    fn listeners(&self, chat: ChatId) -> Vec<AgentId> {
        let wirings = self.world.read(|db, txn| db.wirings.collect_prefix(txn, &chat, 100));
        wirings.into_iter().map(|(wiring, _)| wiring.agent).collect()
    }

    fn agent_of(&self, session: SessionId) -> (AgentId, Agent) {
        let id = self.world.session(session).agent;
        (id, self.world.read(|db, txn| db.agents.require(txn, &id)))
    }

    /// Members were admitted by the operator or an approver, and every role was granted.
    pub(super) fn nobody_is_let_in(&self) {
        let members: Vec<_> = self.world.read(|db, txn| db.members.iter(txn)?.collect());
        for (MemberKey { agent, person }, row) in members {
            assert_eq!(person, PersonKey::of(&row.user), "{agent}: a membership under another's name");
            assert!(row.by.as_ref().is_none_or(has_role), "{agent}: {} was let in by {:?}", row.user, row.by);
        }
        let roles: Vec<_> = self.world.read(|db, txn| db.roles.iter(txn)?.collect());
        for (GrantKey { person, role }, grant) in roles {
            assert_eq!(person, PersonKey::of(&grant.user), "a {role:?} under another's name");
            assert!(has_role(&grant.user), "{} has become a {role:?}", grant.user);
        }
    }

    /// The sender of a message is a user of its channel, and in chats of known people agents hear only known people.
    pub(super) fn nobody_strange_is_heard(&mut self, id: MessageId, message: &Message) {
        let body = self.world.read(|db, txn| db.bodies.get(txn, &message.body));
        let Some(body) = body else { return };
        let (Some(source), Some(sender)) = (&body.source, &body.sender) else { return };
        assert_eq!(*sender.channel(), source.channel, "{id}: whose id {sender} is was up to them");
        assert_eq!(body.content.sender.as_ref(), Some(sender.handle()), "{id}: {sender} is not who said it");
        if sender.handle().as_str().contains(':') {
            self.count("messages of borrowed names");
        }
        let known = [("net", "M"), ("web", "K")];
        let place = (source.channel.as_str(), source.platform_id.as_str());
        // What only goes along with what others say may be of anyone, but not in the strict chat.
        if (message.trigger || place == ("web", "K")) && known.contains(&place) {
            assert!(self.is_in(message.agent, sender), "{id} is of {sender}, whom {} does not know", message.agent);
        }
    }

    fn is_in(&self, agent: AgentId, user: &UserId) -> bool {
        let person = PersonKey::of(user);
        self.world.read(|db, txn| {
            let roles = [Role::Owner, Role::GlobalAdmin, Role::AdminOf(agent)];
            let mut known = db.members.contains(txn, &MemberKey { agent, person: person.clone() })?;
            for role in roles {
                known |= db.roles.contains(txn, &GrantKey { person: person.clone(), role })?;
            }
            Ok(known)
        })
    }
}

fn has_role(user: &UserId) -> bool {
    WITH_ROLES.contains(&(user.channel().as_str(), user.handle().as_str()))
}
