//! Secrets that agents received, for redaction of their output.

use crate::state::SessionKey;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, Weak};

use super::engine_thread::{Inbox, Item};
use super::mailbox_workers::{MailboxWorkers, lock};
use super::typing::Typing;
use crate::crash;
use crate::mailbox::Collected;
use crate::model::entity::Agent;
use crate::model::id::SessionId;
use crate::model::input::{Input, RuntimeEvent};
use crate::model::mailbox::{CollectedRecord, Record};
use crate::model::secrets::Secrets;
use crate::runtime::{Events, Known, known};

/// Secrets of a session's agent.
#[derive(Default)]
pub(super) struct Given {
    /// The incarnation; none if an earlier daemon started it.
    incarnation: Option<u32>,
    values: Known,
    /// Whether the agent and the owner have been told about a redaction.
    told: bool,
}

impl MailboxWorkers {
    /// The slot for the secret values of an incarnation. A repeated start gets the same slot.
    pub(super) fn given(&self, session: SessionId, incarnation: u32) -> Known {
        let mut all = lock(&self.secrets);
        if let Some(given) = all.get(&session).filter(|given| given.incarnation == Some(incarnation)) {
            return Arc::clone(&given.values);
        }
        let values = Known::default();
        let given = Given { incarnation: Some(incarnation), values: Arc::clone(&values), told: false };
        all.insert(session, given);
        values
    }

    /// Passes the secrets of a session's agent to its mailbox, for redaction by the next collection.
    pub(super) fn hide_secrets(&self, session: SessionId) {
        if let Some(secrets) = self.secrets_of(session).get() {
            self.mailboxes.hide(session, Arc::clone(secrets));
        }
    }

    /// The secrets of a session's agent. Secrets that an earlier daemon gave are resolved again. An agent that this
    /// daemon is still starting has written nothing yet.
    fn secrets_of(&self, session: SessionId) -> Known {
        let given = lock(&self.secrets).get(&session).map(|given| Arc::clone(&given.values));
        given.unwrap_or_else(|| {
            let values = Known::from(OnceLock::from(Arc::new(self.find_secrets(session))));
            let given = Given { values: Arc::clone(&values), ..Given::default() };
            lock(&self.secrets).insert(session, given);
            values
        })
    }

    /// The agent of a session.
    pub(super) fn agent_of(&self, session: SessionId) -> Result<Option<Agent>, crate::state::Error> {
        self.context.engine.store().read(|db, txn| {
            let Some(workspace) = db.sessions_by_id.get(txn, &session)? else { return Ok(None) };
            let row = db.sessions.get(txn, &SessionKey { workspace, session })?;
            let agent = row.and_then(|row| row.chat().map(|chat| chat.agent));
            agent.map(|agent| db.agents.get(txn, &agent)).transpose().map(Option::flatten)
        })
    }

    fn find_secrets(&self, session: SessionId) -> Secrets {
        match self.agent_of(session) {
            Ok(Some(agent)) => {
                let mut found = known(&agent.settings, &self.context.lookup);
                self.context.egress.values(session).iter().for_each(|(name, value)| found.add(name, value));
                found
            }
            Ok(None) => Secrets::default(),
            Err(error) => {
                tracing::warn!(%session, %error, "the secrets of an agent are unknown, so they are not removed from its output");
                Secrets::default()
            }
        }
    }

    /// Adds redactions to a collection's findings: values in texts once per incarnation, files each time. Returns
    /// whether values in texts are among them.
    pub(super) fn put_hidden(&self, session: SessionId, collected: &mut Collected) -> bool {
        let mut hidden = std::mem::take(&mut collected.hidden);
        if lock(&self.secrets).get(&session).is_some_and(|given| given.told) {
            hidden.names.clear();
        }
        let tells = !hidden.names.is_empty();
        if tells || !hidden.files.is_empty() {
            collected.collection.found.push(CollectedRecord { record: Record::Hidden(hidden), files: Vec::new() });
        }
        tells
    }

    /// Records that the agent and the owner have been told about a redaction.
    pub(super) fn note_told(&self, session: SessionId) {
        lock(&self.secrets).entry(session).or_default().told = true;
    }
}

/// Forwards events of the runtime. Redacts secrets from the last output of an agent, because it is stored, and the
/// runtime knows only the secrets that it passed itself.
pub(super) struct Hearer {
    inbox: Arc<Inbox>,
    typing: Arc<Typing>,
    workers: OnceLock<Weak<MailboxWorkers>>,
}

impl Hearer {
    pub(super) fn new(inbox: &Arc<Inbox>, typing: &Arc<Typing>) -> Self {
        Self { inbox: Arc::clone(inbox), typing: Arc::clone(typing), workers: OnceLock::new() }
    }

    /// The event handler for a runtime, which is created before the mailbox workers.
    pub(super) fn events(hearer: &Arc<Self>) -> Events {
        let hearer = Arc::clone(hearer);
        Arc::new(move |event| hearer.hear(event))
    }

    /// Connects the mailbox workers, which know the secrets.
    pub(super) fn hide_with(&self, workers: &Arc<MailboxWorkers>) {
        self.workers.get_or_init(|| Arc::downgrade(workers));
    }

    fn hear(&self, mut event: RuntimeEvent) {
        crash::point("runtime-event");
        if let RuntimeEvent::Gone { session, incarnation, stderr_tail, .. } = &mut event {
            self.typing.over(*session);
            let workers = self.workers.get().and_then(Weak::upgrade);
            workers.iter().for_each(|workers| workers.close_gateway(*session, *incarnation));
            let workers = workers.filter(|_| !stderr_tail.is_empty());
            if let Some(secrets) = workers.and_then(|room| room.secrets_of(*session).get().cloned()) {
                *stderr_tail = secrets.clean(stderr_tail, &mut BTreeSet::new()).into_owned();
            }
        }
        self.inbox.push(Item::of(Input::Runtime(event)));
    }
}
