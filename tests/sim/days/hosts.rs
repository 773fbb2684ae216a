//! Hosts that agents want to reach, and their connections.

use std::collections::BTreeMap;

use hearth::model::approval::{Approval, ApprovalState, ApprovalSubject};
use hearth::model::host_grant::{HostDecision, HostRequest, ONCE};
use hearth::model::id::{AgentId, ApprovalId, SessionId};
use hearth::model::incarnation::IncarnationId;
use hearth::model::network::{
    ConnectionSeen, Endpoint, HostWanted, Judgement, NetRefusal, NetVerdict, NetworkPolicy, RuleOrigin, judge,
};
use hearth::model::report::Reply;
use hearth::model::{Input, Timestamp};
use hearth::state::{HostKey, Text};

use super::Sim;
use super::plan::Setting;
use crate::world::chance::Chance;

/// Tells the random numbers of these inputs from those of the steps.
const APART: u64 = 0x6e65_7477_6f72_6b73;
/// One in this many steps has such inputs.
const SELDOM: u64 = 5;
/// Hosts that the configuration allows to some agents, and denies.
const ALLOWED: &str = "listed.example:443";
const DENIED: &str = "denied.example:443";

/// What is known of hosts and connections.
#[derive(Clone, Default)]
pub(super) struct Known {
    /// When people decided about a host of an agent.
    decided: BTreeMap<(AgentId, String), Vec<Timestamp>>,
    /// Connections of each session that were recorded: their number, and the bytes in both directions.
    recorded: BTreeMap<SessionId, [u64; 3]>,
}

fn endpoint(text: &str) -> Endpoint {
    text.parse().unwrap()
}

impl Sim {
    /// Agents want to reach hosts, and connections are reported. The random numbers are separate from those of the steps.
    pub(super) fn reach_out(&mut self) {
        let mut chance = Chance::of_step(self.plan.seed ^ APART, self.step);
        let running = self.running();
        if running.is_empty() || !chance.one_in(SELDOM) {
            return;
        }
        let (session, incarnation) = *chance.pick(&running);
        let incarnation = if chance.one_in(8) { incarnation + 1 } else { incarnation };
        // A flood now and then.
        let wants = if chance.one_in(4) { 1 + chance.next(25) } else { 1 };
        for _ in 0..wants {
            let host = match chance.next(8) {
                0 => ALLOWED.to_owned(),
                1 => DENIED.to_owned(),
                2 => format!("hub{}.local:8123", chance.next(3)),
                _ => format!("h{}.example:{}", chance.next(30), chance.pick(&[443, 80])),
            };
            self.want(HostWanted { session, incarnation, endpoint: endpoint(&host), local: false });
        }
        let batch = (0..chance.next(4)).map(|_| self.connection(session, incarnation, &mut chance)).collect();
        self.record(batch);
    }

    /// A host that the gate asks about is allowed, asked about, or refused with a reason.
    fn want(&mut self, wanted: HostWanted) {
        let (session, to) = (wanted.session, wanted.endpoint.clone());
        let Some(reply) = self.put(Input::HostWanted(wanted)) else { return };
        let Reply::Host(answer) = reply else { panic!("{reply:?}") };
        self.count(if answer.is_ok() { "hosts asked about" } else { "hosts refused" });
        if answer == Err(NetRefusal::TooManyQuestions) {
            self.count("floods of hosts");
        }
        let policy = self.policy(session);
        let judged = policy.map(|policy| judge(&policy, &to));
        let is_asked = self.agent_of_session(session).is_some_and(|agent| {
            let key = HostKey { agent, host: Text::new(to.to_string()).unwrap() };
            self.world.read(|db, txn| db.approvals_by_host.contains(txn, &key))
        });
        let is_allowed = matches!(judged, Some(Judgement::Tunnel { .. }));
        match answer {
            Ok(()) => assert!(is_asked || is_allowed, "{to} is neither allowed nor asked about: {judged:?}"),
            Err(why @ (NetRefusal::TooManyQuestions | NetRefusal::NotNow | NetRefusal::NobodyToAsk)) => {
                assert!(!is_asked && !is_allowed, "{to} is asked about or allowed, and was refused: {why}");
            }
            Err(_) => {}
        }
    }

    fn connection(&self, session: SessionId, incarnation: u32, chance: &mut Chance) -> ConnectionSeen {
        let to = endpoint(chance.pick::<&str>(&[ALLOWED, DENIED, "h1.example:443", "h2.example:443"]));
        let verdict = match chance.next(3) {
            0 => NetVerdict::Allowed(RuleOrigin::Public),
            1 => NetVerdict::Refused(NetRefusal::Unlisted),
            _ => NetVerdict::Asked,
        };
        let now = self.world.now().wall;
        let (up, down) = (chance.next(1_000), chance.next(1_000));
        ConnectionSeen { session, incarnation, endpoint: to, verdict, began: now, ended: now, up, down, request: None }
    }

    fn record(&mut self, batch: Vec<ConnectionSeen>) {
        if batch.is_empty() {
            return;
        }
        let known = |seen: &&ConnectionSeen| {
            let run = IncarnationId::new(seen.session, seen.incarnation);
            self.world.read(|db, txn| db.incarnations.contains(txn, &run))
        };
        let counted: Vec<ConnectionSeen> = batch.iter().filter(known).cloned().collect();
        if self.put(Input::Connections(batch)).is_none() {
            return;
        }
        for seen in counted {
            let [count, up, down] = self.memory.hosts.recorded.entry(seen.session).or_default();
            (*count, *up, *down) = (*count + 1, *up + seen.up, *down + seen.down);
            self.count("connections");
        }
    }

    fn policy(&self, session: SessionId) -> Option<NetworkPolicy> {
        let now = self.world.now().wall;
        self.world.read(|db, txn| hearth::engine::network_policy(db, txn, session, now))
    }

    fn agent_of_session(&self, session: SessionId) -> Option<AgentId> {
        self.world.read(|db, txn| {
            let Some(workspace) = db.sessions_by_id.get(txn, &session)? else { return Ok(None) };
            let row = db.sessions.get(txn, &hearth::state::SessionKey { workspace, session })?;
            Ok(row.and_then(|row| row.as_chat().map(|chat| chat.agent)))
        })
    }

    /// A decision about hosts is noted. What was allowed is there for as long as it is allowed.
    pub(super) fn hosts_are_decided(&mut self, id: ApprovalId, approval: &Approval) {
        let requests: &[HostRequest] = match &approval.about {
            ApprovalSubject::Host(request) => std::slice::from_ref(request),
            ApprovalSubject::Hosts(request) => &request.hosts,
            _ => return,
        };
        let (at, allowed) = match &approval.state {
            ApprovalState::Approved { at, .. } => (*at, true),
            ApprovalState::Rejected { at, .. } => (*at, false),
            _ => return,
        };
        for HostRequest { agent, to, .. } in requests {
            self.memory.hosts.decided.entry((*agent, to.to_string())).or_default().push(at);
            let key = HostKey { agent: *agent, host: Text::new(to.to_string()).unwrap() };
            let grant = self.world.read(|db, txn| db.host_grants.get(txn, &key));
            let is_over = self.world.now().wall >= at.plus(ONCE) || self.world.now().wall < at;
            assert!(!allowed || grant.is_some() || is_over, "{id}: {to} was allowed, and is not");
        }
    }

    /// Nothing is allowed without a rule or the decision of a person about exactly that host.
    pub(super) fn nothing_is_reached_undecided(&self) {
        let grants = self.world.read(|db, txn| db.host_grants.iter(txn)?.collect::<Result<Vec<_>, _>>());
        for (key, grant) in &grants {
            let decided = self.memory.hosts.decided.get(&(key.agent, grant.to.to_string()));
            let is_decided = decided.is_some_and(|times| times.contains(&grant.at));
            assert!(is_decided, "{} is {} without a decision", grant.to, grant.decision.as_str());
        }
        let probes = [ALLOWED, DENIED, "h1.example:443", "h1.example:80", "h2.example:443", "hub1.local:8123"];
        for (session, _) in self.running() {
            let (Some(policy), Some(agent)) = (self.policy(session), self.agent_of_session(session)) else { continue };
            for to in probes.map(endpoint) {
                let granted = grants.iter().find(|(key, grant)| key.agent == agent && grant.to == to);
                let passes = |decision: &HostDecision| match decision {
                    HostDecision::Always => true,
                    HostDecision::Once(passes) => passes.iter().any(|pass| pass.session == session),
                    HostDecision::Never => false,
                };
                match judge(&policy, &to) {
                    Judgement::Tunnel { rule: RuleOrigin::Grant(_), .. } => {
                        assert!(granted.is_some_and(|(_, grant)| passes(&grant.decision)), "{session} reaches {to}");
                    }
                    Judgement::Tunnel { rule: RuleOrigin::Allow(_), .. } => assert_eq!(to, endpoint(ALLOWED)),
                    Judgement::Tunnel { .. } => panic!("{session} reaches {to} without a rule"),
                    Judgement::Ask | Judgement::Refuse(_) => {}
                }
            }
        }
    }

    /// Every connection that was recorded is counted once.
    pub(super) fn connections_are_counted_once(&self) {
        if self.plan.setting == Setting::Zones {
            return;
        }
        let rows: Vec<_> = self.world.read(|db, txn| db.connections.iter(txn)?.collect::<Result<Vec<_>, _>>());
        let mut found: BTreeMap<SessionId, [u64; 3]> = BTreeMap::new();
        for (_, row) in rows {
            let [count, up, down] = found.entry(row.session).or_default();
            (*count, *up, *down) = (*count + row.count, *up + row.up, *down + row.down);
        }
        for (session, recorded) in &self.memory.hosts.recorded {
            let agent = self.agent_of_session(*session);
            let lives = agent.is_some_and(|agent| {
                let agent = self.world.read(|db, txn| db.agents.get(txn, &agent));
                agent.is_some_and(|agent| agent.archived.is_none())
            });
            if lives {
                assert_eq!(found.get(session), Some(recorded), "connections of {session}");
            }
        }
    }
}
