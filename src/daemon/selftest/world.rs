//! Snapshots of the host state that a hostile agent could want to change, taken before and after the attacks.

use super::Error;
use super::mailbox::{May, Says};
use super::scratch::{PEER, Scratch};
use crate::model::approval::{Approval, ApprovalSubject, Question};
use crate::model::delivery::{Act, Author, MessageRef, OutState, Outbound};
use crate::model::id::{OutboundId, QuestionId, SessionId, TaskId};
use crate::model::message::{Body, Message};
use crate::model::task::Task;
use crate::state;

/// Ids of data that the hostile agent must not touch, as it would name them.
pub(super) struct Foreign {
    /// Number of a message from the other session. The agent's own session has none with that number.
    pub(super) number: u64,
    /// Position of the message to the other session.
    pub(super) seq: u64,
    /// Its own question, and that of the other session.
    pub(super) questions: Vec<QuestionId>,
    /// A task of the other session.
    pub(super) task: TaskId,
}

/// Rows of the store.
pub(super) struct World {
    said: Vec<(OutboundId, Outbound)>,
    messages: Vec<(Message, Body)>,
    pub(super) questions: Vec<(QuestionId, Question)>,
    approvals: Vec<Approval>,
    tasks: Vec<(TaskId, Task)>,
    own: SessionId,
    other: SessionId,
}

type Compared = Vec<(&'static str, Result<String, String>)>;

impl World {
    pub(super) fn look(scratch: &Scratch<'_>) -> Result<Self, Error> {
        let said = scratch.outbound()?;
        let messages = scratch.messages()?;
        let (own, other) = (scratch.own.0, scratch.other.0);
        let (bodies, questions, approvals, tasks) = scratch.daemon.store().read(|db, txn| {
            let bodies = messages.iter().map(|message| db.bodies.require(txn, &message.body));
            let bodies: Vec<Body> = bodies.collect::<Result<_, _>>()?;
            let questions = db.questions.iter(txn)?.collect::<Result<_, _>>()?;
            let approvals = db.approvals.iter(txn)?.map(|row| row.map(|(_, row)| row)).collect::<Result<_, _>>()?;
            let tasks = db.tasks.iter(txn)?.collect::<Result<_, _>>()?;
            Ok::<_, state::Error>((bodies, questions, approvals, tasks))
        })?;
        let messages = messages.into_iter().zip(bodies).collect();
        Ok(Self { said, messages, questions, approvals, tasks, own, other })
    }

    /// Ids that the hostile agent can name. An error if there are none, because then nothing would be proved.
    pub(super) fn foreign(&self) -> Result<Foreign, Error> {
        let missing = |what: &str| Error::Trial(format!("there is {what} as a target for the hostile agent"));
        let last = |session| self.spoken_by(session).filter_map(|(_, row)| number(row)).max().unwrap_or_default();
        let number = Some(last(self.other)).filter(|number| *number > last(self.own));
        let heard = |session| self.heard_by(session).map(|message| message.seq).max().unwrap_or_default();
        let seq = Some(heard(self.other)).filter(|seq| *seq > heard(self.own));
        let of = |session| self.questions.iter().find(|(_, row)| row.session == session).map(|(id, _)| *id);
        let questions = of(self.own).zip(of(self.other)).map(|(own, other)| vec![own, other]);
        Ok(Foreign {
            number: number.ok_or_else(|| missing("no number"))?,
            seq: seq.ok_or_else(|| missing("no message"))?,
            questions: questions.ok_or_else(|| missing("no question"))?,
            task: self.tasks.first().map(|(id, _)| *id).ok_or_else(|| missing("no task"))?,
        })
    }

    fn spoken_by(&self, session: SessionId) -> impl Iterator<Item = &(OutboundId, Outbound)> {
        self.said
            .iter()
            .filter(move |(_, row)| matches!(row.author, Author::Agent { session: by, .. } if by == session))
    }

    fn heard_by(&self, session: SessionId) -> impl Iterator<Item = &Message> {
        self.messages.iter().map(|(message, _)| message).filter(move |message| message.session == session)
    }

    /// Messages with the name of an attack that were not refused.
    fn spoken<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Outbound> {
        let of = move |row: &&Outbound| {
            matches!(&row.author, Author::Agent { wire_id, .. } if wire_id.starts_with(name))
                && !matches!(row.state, OutState::Refused { .. } | OutState::Abandoned { .. })
        };
        self.said.iter().map(|(_, row)| row).filter(of)
    }

    pub(super) fn judge(&self, says: &Says) -> Result<String, String> {
        let spoken: Vec<&Outbound> = self.spoken(says.name).filter(|row| row.text == says.name).collect();
        let with_files = spoken.iter().find(|row| !row.files.is_empty());
        match (says.may, spoken.first(), with_files) {
            (May::Be | May::BeBare, None, _) => Err("the agent's permitted message was not sent".to_owned()),
            (May::NotBe, Some(_), _) => Err("it was said".to_owned()),
            (May::BeBare, _, Some(row)) => Err(format!("it was sent: {:?}", row.files)),
            _ => Ok("it had no effect".to_owned()),
        }
    }

    pub(super) fn silent(&self, name: &str) -> Result<String, String> {
        match self.spoken(name).find(|row| !row.files.is_empty() || row.text != name) {
            Some(_) => Err("it was said".to_owned()),
            None => Ok("it had no effect".to_owned()),
        }
    }

    /// Checks that protected state is unchanged.
    pub(super) fn compare(&self, after: &Self) -> Compared {
        let same = |same: bool, what: &str| if same { Ok("it had no effect".to_owned()) } else { Err(what.to_owned()) };
        let states = |world: &Self| -> Vec<_> { world.messages.iter().map(|(row, _)| row.state.clone()).collect() };
        let states = states(after).get(..self.messages.len()) == Some(&states(self));
        // One message to the other agent is permitted.
        let heard = after.heard_by(self.other).count() == self.heard_by(self.other).count() + 1;
        let open = |approval: &Approval| approval.state.is_open();
        let mut compared = vec![
            ("forged-end", same(states, "a finished message was changed")),
            ("foreign-agent", same(heard, "the other agent received it")),
            ("foreign-message", same(!self.is_changed(after), "the other session's message was changed")),
            ("foreign-question", same(after.questions == self.questions, "a question was changed")),
            ("foreign-task", same(after.tasks == self.tasks, "a task was changed")),
            ("false-sender", after.named()),
        ];
        // Without approvals, nothing can be decided.
        if !after.approvals.is_empty() {
            compared.push(("forged-decision", same(after.approvals.iter().all(open), "something was decided")));
            let plain = |approval: &Approval| match &approval.about {
                ApprovalSubject::McpServer { server, .. } => server.env.is_empty(),
                _ => false,
            };
            compared.push(("reference", same(after.approvals.iter().all(plain), "people are asked to approve it")));
        }
        compared
    }

    /// Whether something was done to the other session's earlier messages, or they changed or disappeared.
    fn is_changed(&self, after: &Self) -> bool {
        let words = |(id, row): &(OutboundId, Outbound)| (*id, row.act.clone(), row.content.clone(), row.to.clone());
        let before: Vec<_> = self.spoken_by(self.other).map(words).collect();
        let now: Vec<_> = after.spoken_by(self.other).map(words).take(before.len()).collect();
        let touches = |act: &Act| match act {
            Act::Edit(MessageRef::Ours(to)) | Act::React(MessageRef::Ours(to)) => {
                before.iter().any(|(id, ..)| id == to)
            }
            _ => false,
        };
        now != before || after.said.iter().any(|(_, row)| touches(&row.act))
    }

    /// The sender that the receiving agent was told.
    fn named(&self) -> Result<String, String> {
        let from_own = |message: &Message| message.from.is_some_and(|hop| hop.session == self.own);
        let Some((_, body)) = self.messages.iter().find(|(message, _)| from_own(message)) else {
            return Err("the agent's permitted message was not sent".to_owned());
        };
        let sender = body.sender.as_ref().map(ToString::to_string).unwrap_or_default();
        let names = [body.content.sender_name.as_deref().unwrap_or_default(), body.content.raw.as_str()];
        if sender.starts_with("agent:") && !names.iter().any(|name| name.contains("Boss")) {
            Ok(format!("{PEER} was told that {sender} wrote"))
        } else {
            Err(format!("{PEER} was told that {sender} wrote, or {}", names.join(" ")))
        }
    }
}

/// The agent's number of an outgoing message.
const fn number(row: &Outbound) -> Option<u64> {
    match row.author {
        Author::Agent { number, .. } => Some(number),
        Author::Hearth => None,
    }
}
