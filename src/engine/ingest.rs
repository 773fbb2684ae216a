//! What agents wrote: claims, ends with their answers, things said at once. Each file changes something once.

use super::again::FailedTurn;
use super::notice::Told;
use super::outbox::Accepted;
use super::requests::replies;
use super::{
    Applied, Cx, Result, again, journal, lifecycle, messages, outbox, places, requests, sessions, skips, starts, wake,
};
use crate::model::effect::{Discard, Effect};
use crate::model::id::{MessageId, OutboundId, SessionId};
use crate::model::incarnation::Phase;
use crate::model::journal::Event;
use crate::model::mailbox::{Again, Answer, Collection, Failure, Found, Record, Said, Target};
use crate::model::message::{Completion, Message, MessageState};
use crate::model::task::Gated;
use crate::state::Write;

/// Takes in one session's mailbox; closes its incarnation if there will be nothing more.
pub(super) fn ingest(cx: &Cx<'_>, txn: &mut Write<'_>, collection: Collection) -> Result<Applied> {
    let mut effects = Vec::new();
    let session = collection.session;
    let Some(row) = sessions::load(cx, txn, session)? else { return Ok(Applied::done(effects)) };
    let mut intake = Intake {
        session,
        live: row.live,
        ended: false,
        noted: None,
        about: vec![],
        over: vec![],
        used: vec![],
        effects: vec![],
    };
    for found in collection.found {
        intake.take(cx, txn, found)?;
    }
    intake.get_on(cx, txn)?;
    effects.append(&mut intake.effects);
    let over = intake.over;
    if !over.is_empty() || !intake.used.is_empty() {
        effects.push(Effect::Discard(Discard { session, seqs: over.clone(), agent_files: intake.used }));
    }
    if intake.ended || collection.closes.is_some() {
        skips::look_after(cx, txn, (Some(session), row.agent), &mut effects)?;
    }
    match (collection.closes, row.live) {
        (Some(number), _) => lifecycle::close(cx, txn, (session, number), &mut effects)?,
        (None, Some(number)) if intake.ended => {
            lifecycle::end_outdated(cx, txn, (session, number), &mut effects)?;
            after_turn(cx, txn, (session, &over), &mut effects)?;
        }
        (None, _) => {}
    }
    Ok(Applied::done(effects))
}

/// A session that waits for a place may get this one's; else messages beyond what a mailbox holds at once follow.
fn after_turn(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (session, over): (SessionId, &[u64]),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    places::hand_on(cx, txn, effects)?;
    wake::follow_up(cx, txn, (session, over), effects)
}

struct Intake {
    session: SessionId,
    live: Option<u32>,
    ended: bool,
    noted: Option<Vec<Event>>,
    /// What was said in this look is about these messages.
    about: Vec<Option<u64>>,
    over: Vec<u64>,
    used: Vec<String>,
    effects: Vec<Effect>,
}

/// What an incarnation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Claimed,
    Said,
    Ended,
}

impl Intake {
    fn take(&mut self, cx: &Cx<'_>, txn: &mut Write<'_>, found: Found) -> Result<()> {
        let Found { record, files } = found;
        match record {
            Record::Unreadable { file, reason } => self.refuse(cx, txn, file, reason)?,
            Record::Claim { incarnation, .. }
            | Record::End { incarnation, .. }
            | Record::Said(Said { incarnation, .. })
                if self.live != Some(incarnation) =>
            {
                if !self.was_taken_in(cx, txn, &record)? {
                    let file = files.first().cloned().unwrap_or_default();
                    self.refuse(cx, txn, file, format!("incarnation {incarnation} has been closed"))?;
                }
            }
            Record::Claim { seq, incarnation } => {
                if self.claim(cx, txn, seq, incarnation)? {
                    self.note_progress(cx, txn, incarnation, Step::Claimed)?;
                }
            }
            Record::End { seq, also, incarnation, failure, gated, answers } => {
                if self.end(cx, txn, (seq, incarnation), TurnEnd { also, failure, gated, answers })? {
                    self.note_progress(cx, txn, incarnation, Step::Ended)?;
                    self.ended = true;
                }
            }
            Record::Said(said) => {
                let accepted = outbox::accept(cx, txn, (self.session, &said), &mut self.effects)?;
                if accepted != Accepted::Known {
                    self.note_progress(cx, txn, said.incarnation, Step::Said)?;
                    self.about.push(said.in_reply_to);
                }
                requests::tell_outcome(cx, txn, (self.session, &said), &accepted, &mut self.effects)?;
            }
            Record::Leftover(said) => outbox::abandon(cx, txn, self.session, &said)?,
        }
        self.used.extend(files);
        Ok(())
    }

    /// Whether a file of an incarnation that was closed is one that was taken in before and could not be removed yet.
    fn was_taken_in(&self, cx: &Cx<'_>, txn: &Write<'_>, record: &Record) -> Result<bool> {
        match record {
            Record::Claim { seq, incarnation } => match messages::at(cx, txn, self.session, *seq)? {
                Some((_, message)) if message.failed_in >= *incarnation => Ok(true),
                // A claim that was found after its end is nothing new, either.
                Some((_, message)) if !is_open(&message) && self.ran(cx, txn, *incarnation)? => Ok(true),
                Some((id, _)) => Ok(journal::last_of_message(cx, txn, id)?.contains(&Event::Claimed(*incarnation))),
                None => Ok(false),
            },
            Record::End { seq, incarnation, answers, .. } => {
                if !self.ran(cx, txn, *incarnation)? {
                    return Ok(false);
                }
                for answer in answers {
                    if let Answer::Read(said) = answer
                        && !outbox::is_known(cx, txn, self.session, &said.wire_id)?
                    {
                        return Ok(false);
                    }
                }
                let message = messages::at(cx, txn, self.session, *seq)?;
                Ok(message.is_some_and(|(_, message)| is_settled(&message, *incarnation)))
            }
            Record::Said(said) => outbox::is_known(cx, txn, self.session, &said.wire_id),
            Record::Leftover(_) | Record::Unreadable { .. } => Ok(false),
        }
    }

    /// What never ran cannot have claimed or ended anything.
    fn ran(&self, cx: &Cx<'_>, txn: &Write<'_>, incarnation: u32) -> Result<bool> {
        cx.db.incarnations.contains(txn, &(self.session, incarnation))
    }

    /// Notes that a file was not taken in; once, however often it is found before it is removed.
    fn refuse(&mut self, cx: &Cx<'_>, txn: &mut Write<'_>, file: String, reason: String) -> Result<()> {
        let noted = match &mut self.noted {
            Some(noted) => noted,
            None => self.noted.insert(journal::last_of_session(cx, txn, self.session)?),
        };
        let same = |event: &Event| matches!(event, Event::FileRefused { file: known, .. } if *known == file);
        if noted.iter().any(same) {
            return Ok(());
        }
        let event = Event::FileRefused { file, reason };
        noted.push(event.clone());
        journal::of_session(cx, txn, self.session, event)
    }

    /// Refuses an acknowledgement of a message that is not there. No later message gets its position, because the same file
    /// may be found again then and must not mean anything.
    fn refuse_position(&mut self, cx: &Cx<'_>, txn: &mut Write<'_>, file: String, seq: u64) -> Result<()> {
        let last = sessions::load(cx, txn, self.session)?.map_or(seq, |row| row.last_number);
        if seq > last && seq <= last.saturating_add(outbox::NUMBER_JUMP_MAX) {
            sessions::update(cx, txn, self.session, |row| row.last_number = seq)?;
        }
        self.refuse(cx, txn, file, format!("the session has no message {seq}"))
    }

    /// The incarnation did something. A file that is found again is nothing that happened.
    fn note_progress(&self, cx: &Cx<'_>, txn: &mut Write<'_>, number: u32, step: Step) -> Result<()> {
        let key = (self.session, number);
        let before = cx.db.incarnations.require(txn, &key)?;
        let mut incarnation = before.clone();
        incarnation.begin(cx.now.awake);
        incarnation.claimed |= step != Step::Said;
        if incarnation.claimed && !before.claimed {
            starts::succeeded(cx, txn, self.session)?;
        }
        if incarnation.phase == Phase::Starting {
            incarnation.phase = Phase::Running;
        }
        if incarnation == before { Ok(()) } else { cx.db.incarnations.put(txn, &key, &incarnation) }
    }

    /// Words about what was claimed in the same look, and has not ended in it, came later than the claim. Everything else may
    /// be what the last turn did before the next message was taken.
    fn get_on(&self, cx: &Cx<'_>, txn: &mut Write<'_>) -> Result<()> {
        let Some(number) = self.live else { return Ok(()) };
        let claimed = MessageState::Claimed { incarnation: number, since: cx.now.awake };
        for about in &self.about {
            let is_new = match about {
                Some(seq) => messages::at(cx, txn, self.session, *seq)?.is_some_and(|(_, row)| row.state == claimed),
                None => true,
            };
            if is_new {
                let key = (self.session, number);
                let mut incarnation = cx.db.incarnations.require(txn, &key)?;
                incarnation.get_on(cx.now.awake);
                return cx.db.incarnations.put(txn, &key, &incarnation);
            }
        }
        Ok(())
    }

    fn claim(&mut self, cx: &Cx<'_>, txn: &mut Write<'_>, seq: u64, incarnation: u32) -> Result<bool> {
        let Some((id, message)) = messages::at(cx, txn, self.session, seq)? else {
            let file = format!("ack/{seq}.{incarnation}.processing.json");
            self.refuse_position(cx, txn, file, seq)?;
            return Ok(false);
        };
        let waits = matches!(message.state, MessageState::Pending(_)) && !is_settled(&message, incarnation);
        if waits {
            let claimed = MessageState::Claimed { incarnation, since: cx.now.awake };
            messages::update(cx, txn, id, |message| message.state = claimed)?;
            journal::of_message(cx, txn, id, Event::Claimed(incarnation))?;
        }
        Ok(waits)
    }

    /// Ends the messages of a turn together: the one whose acknowledgement says so has the answers, the others share its
    /// fate. Whether anything ended.
    fn end(&mut self, cx: &Cx<'_>, txn: &mut Write<'_>, (seq, incarnation): (u64, u32), turn: TurnEnd) -> Result<bool> {
        let Some((id, message)) = messages::at(cx, txn, self.session, seq)? else {
            let file =
                format!("ack/{seq}.{incarnation}.{}.json", if turn.failure.is_some() { "failed" } else { "completed" });
            self.refuse_position(cx, txn, file, seq)?;
            return Ok(false);
        };
        self.over.push(seq);
        if is_settled(&message, incarnation) {
            self.clear(cx, txn, (&turn.also, incarnation))?;
            // The message may have been given up in the meantime: what is said of it then is kept, and sent to nobody.
            self.put_aside(cx, txn, turn.answers)?;
            return Ok(false);
        }
        let TurnEnd { also, failure, gated, answers } = turn;
        if let Some(failure) = failure.as_ref().filter(|failure| failure.again != Again::Never) {
            self.over.extend(&also);
            self.put_aside(cx, txn, answers)?;
            let seqs = std::iter::once(seq).chain(also).collect();
            let turn = FailedTurn { session: self.session, incarnation, failure, seqs };
            return again::turn_failed(cx, txn, &turn, &mut self.effects).map(|()| true);
        }
        let error = failure.map(|failure| failure.error);
        let (said, trouble) = self.answers(cx, txn, answers)?;
        let state = decide_end((error, gated), trouble.first().cloned(), cx);
        // A failed turn may have said itself what went wrong.
        let mut failed = match &state {
            MessageState::Failed { error, .. } if said.is_empty() => Some(FailedAt { error, told: Told::default() }),
            _ => None,
        };
        let own = self.tell_failed(cx, txn, (id, &message), &mut failed)?;
        for seq in &also {
            if let Some((other, message)) = messages::at(cx, txn, self.session, *seq)? {
                self.over.push(*seq);
                if other != id && is_open(&message) {
                    let told = self.tell_failed(cx, txn, (other, &message), &mut failed)?;
                    let said = if failed.is_some() { told } else { said.clone() };
                    messages::end(cx, txn, other, (state.clone(), said), &mut self.effects)?;
                }
            }
        }
        let said = if failed.is_some() { own } else { said };
        // A script says nothing about the provider.
        if matches!(state, MessageState::Completed { how: Completion::Answered, .. }) {
            again::turn_succeeded(cx, txn, message.agent)?;
        }
        messages::end(cx, txn, id, (state, said), &mut self.effects)?;
        replies::read(cx, txn, self.session)?;
        Ok(true)
    }

    /// What a turn said that is taken again is not sent: the next one will say it.
    fn put_aside(&self, cx: &Cx<'_>, txn: &mut Write<'_>, answers: Vec<Answer>) -> Result<()> {
        for answer in answers {
            if let Answer::Read(said) = answer {
                outbox::abandon(cx, txn, self.session, &said)?;
            }
        }
        Ok(())
    }

    /// Files of messages that ended before this look may still lie there.
    fn clear(&mut self, cx: &Cx<'_>, txn: &Write<'_>, (seqs, incarnation): (&[u64], u32)) -> Result<()> {
        for seq in seqs {
            let message = messages::at(cx, txn, self.session, *seq)?;
            if message.is_some_and(|(_, message)| is_settled(&message, incarnation)) {
                self.over.push(*seq);
            }
        }
        Ok(())
    }

    /// Tells the place from which a message of a failed turn came, once for all of them that came from there; and what was
    /// said there. Nobody waits for an answer to what was only context.
    fn tell_failed(
        &mut self,
        cx: &Cx<'_>,
        txn: &mut Write<'_>,
        (id, message): (MessageId, &Message),
        failed: &mut Option<FailedAt<'_>>,
    ) -> Result<Vec<OutboundId>> {
        let Some(failed) = failed else { return Ok(Vec::new()) };
        if !message.trigger {
            return Ok(failed.told.first().into_iter().collect());
        }
        if failed.told.known(message).is_none() {
            journal::of_message(cx, txn, id, Event::GivenUp(failed.error.to_owned()))?;
        }
        let said = failed.told.message_failed(cx, txn, (id, message, failed.error), &mut self.effects)?;
        Ok(said.into_iter().collect())
    }

    /// Whether an answer of scheduled work has nobody to go to: it is kept, and nothing has failed.
    fn is_for_nobody(&self, cx: &Cx<'_>, txn: &Write<'_>, said: &Said) -> Result<bool> {
        let (Target::Reply, None, Some(seq)) = (&said.to, &said.request, said.in_reply_to) else { return Ok(false) };
        let Some((_, message)) = messages::at(cx, txn, self.session, seq)? else { return Ok(false) };
        let session = sessions::load(cx, txn, self.session)?;
        Ok(message.slot.is_some() && message.reply.is_none() && session.is_some_and(|row| row.reply.is_none()))
    }

    /// Takes in the answers an end names: those on their way, and the reasons of those that cannot be taken in.
    fn answers(
        &mut self,
        cx: &Cx<'_>,
        txn: &mut Write<'_>,
        answers: Vec<Answer>,
    ) -> Result<(Vec<OutboundId>, Vec<String>)> {
        let (mut said, mut trouble) = (Vec::new(), Vec::new());
        for answer in answers {
            match answer {
                Answer::Read(text) if self.is_for_nobody(cx, txn, &text)? => {
                    outbox::abandon(cx, txn, self.session, &text)?;
                }
                Answer::Read(text) => {
                    let accepted = outbox::accept(cx, txn, (self.session, &text), &mut self.effects)?;
                    if text.request.is_some() {
                        requests::tell_outcome(cx, txn, (self.session, &text), &accepted, &mut self.effects)?;
                    }
                    match accepted {
                        Accepted::Stored(id) => said.push(id),
                        Accepted::Known | Accepted::Served | Accepted::Carried(_) => {}
                        Accepted::Refused(reason) => {
                            trouble.push(format!("the answer {} was refused: {reason}", text.wire_id));
                        }
                    }
                }
                Answer::Missing(id) if outbox::is_known(cx, txn, self.session, &id)? => {}
                Answer::Missing(id) => trouble.push(format!("the agent named the answer {id} and did not write it")),
                Answer::Refused { id, reason } => trouble.push(format!("the answer {id} cannot be taken in: {reason}")),
            }
        }
        Ok((said, trouble))
    }
}

/// How a turn ended, besides whose.
struct TurnEnd {
    also: Vec<u64>,
    failure: Option<Failure>,
    gated: Option<Gated>,
    answers: Vec<Answer>,
}

/// A turn that failed without a word: why, and who was told so far.
struct FailedAt<'a> {
    error: &'a str,
    told: Told,
}

/// Whether nothing that an incarnation says of a message counts any more.
const fn is_settled(message: &Message, incarnation: u32) -> bool {
    !is_open(message) || message.failed_in >= incarnation
}

/// Whether a message has not ended yet.
pub(super) const fn is_open(message: &Message) -> bool {
    matches!(message.state, MessageState::Pending(_) | MessageState::Claimed { .. })
}

/// How a turn ended for a message: an answer that cannot be sent is a failure that somebody is told of.
fn decide_end((error, gated): (Option<String>, Option<Gated>), trouble: Option<String>, cx: &Cx<'_>) -> MessageState {
    let at = cx.now.wall;
    match error.or(trouble) {
        Some(error) => MessageState::Failed { error, at },
        None => MessageState::Completed { how: gated.map_or(Completion::Answered, Completion::Gated), at },
    }
}
