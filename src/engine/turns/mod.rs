//! Agents' output: claims, turn ends with their answers, and messages sent during a turn. Each file is applied once.

use crate::delivery::notice;
use crate::lifecycle::failures::Failures;
use crate::lifecycle::retry::FailedTurn;
use crate::lifecycle::{budget, capacity, caps, dispatch, fallback, replies, retry, start_backoff, unattended};
use crate::model::id::{MessageId, OutboundId, SessionId};
use crate::model::incarnation::{IncarnationId, Phase};
use crate::model::journal::Event;
use crate::model::mailbox::{Answer, CollectedRecord, Collection, Failure, Recipient, Record, RetryHint, Said};
use crate::model::message::{Completion, Message, MessageState};
use crate::model::report::Reply;
use crate::model::spend::ReportedUse;
use crate::model::task::Gated;
use crate::requests::Accepted;
use crate::rows::{journal, messages, session_files, sessions, spend};
use crate::tx::Tx;
use crate::{Result, lifecycle, requests, skips};

pub(crate) mod calls;
pub(crate) mod connections;
pub(crate) mod said;

/// Applies the files collected from one session's mailbox. Closes the incarnation if there will be no more.
pub(crate) fn ingest(tx: &mut Tx<'_, '_>, collection: Collection) -> Result<Reply> {
    let session = collection.session;
    let Some(row) = sessions::load(tx, session)? else { return Ok(Reply::Done) };
    let mut intake = Collector {
        session,
        live: row.live,
        ended: false,
        noted: None,
        about: vec![],
        over: vec![],
        used: vec![],
        tools: vec![],
        models: None,
    };
    for found in collection.found {
        intake.take(tx, found)?;
    }
    intake.get_on(tx)?;
    let over = intake.over;
    if !over.is_empty() || !intake.used.is_empty() {
        session_files::discard(tx, session, over.clone(), intake.used)?;
    }
    if intake.ended || collection.closes.is_some() {
        skips::look_after(tx, Some(session), row.agent)?;
    }
    match (collection.closes, row.live) {
        (Some(number), _) => lifecycle::close(tx, IncarnationId { session, number }, &intake.tools)?,
        (None, Some(number)) if intake.ended => {
            lifecycle::stop_if_idle(tx, IncarnationId { session, number })?;
            after_turn(tx, session, &over)?;
        }
        (None, _) => {}
    }
    Ok(Reply::Done)
}

/// Lets a waiting session take this one's slot. Otherwise exports messages that did not fit into the mailbox before.
fn after_turn(tx: &mut Tx<'_, '_>, session: SessionId, over: &[u64]) -> Result<()> {
    budget::turn_ended(tx, session)?;
    capacity::assign_free_slots(tx)?;
    unattended::withdraw(tx, session)?;
    dispatch::dispatch_rest(tx, session, over)
}

struct Collector {
    session: SessionId,
    live: Option<u32>,
    ended: bool,
    noted: Option<Vec<Event>>,
    /// The messages that this collection's output is about.
    about: Vec<Option<u64>>,
    over: Vec<u64>,
    used: Vec<String>,
    /// The tools that the run used in its last turn.
    tools: Vec<String>,
    /// What the turn that ends next used of models.
    models: Option<TurnUse>,
}

/// What a turn used of models.
struct TurnUse {
    seq: u64,
    incarnation: u32,
    used: Vec<ReportedUse>,
}

/// What an incarnation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Claimed,
    Said,
    Ended,
}

impl Collector {
    fn take(&mut self, tx: &mut Tx<'_, '_>, found: CollectedRecord) -> Result<()> {
        let CollectedRecord { record, files } = found;
        match record {
            Record::Unreadable { file, reason } => self.refuse(tx, file, reason)?,
            Record::Hidden(hidden) => notice::secrets_hidden(tx, self.session, &hidden)?,
            Record::Claim { incarnation, .. }
            | Record::End { incarnation, .. }
            | Record::Said(Said { incarnation, .. })
                if self.live != Some(incarnation) =>
            {
                if !self.was_taken_in(tx, &record)? {
                    let file = files.first().cloned().unwrap_or_default();
                    self.refuse(tx, file, format!("incarnation {incarnation} has been closed"))?;
                }
            }
            Record::Claim { seq, incarnation } => {
                if self.claim(tx, seq, incarnation)? {
                    self.note_progress(tx, incarnation, Step::Claimed)?;
                }
            }
            Record::Used { seq, incarnation, used } => self.models = Some(TurnUse { seq, incarnation, used }),
            Record::End { seq, also, incarnation, failure, gated, answers } => {
                if self.end(tx, seq, incarnation, TurnEnd { also, failure, gated, answers })? {
                    self.note_progress(tx, incarnation, Step::Ended)?;
                    self.ended = true;
                }
            }
            Record::Said(said) => {
                let accepted = said::accept(tx, self.session, &said)?;
                if accepted != Accepted::Known {
                    self.note_progress(tx, said.incarnation, Step::Said)?;
                    self.about.push(said.in_reply_to);
                }
                requests::tell_outcome(tx, self.session, &said, &accepted)?;
            }
            Record::Leftover(said) => said::discard(tx, self.session, &said)?,
            Record::Tools(names) => self.tools = names,
        }
        self.used.extend(files);
        Ok(())
    }

    /// Whether a file of a closed incarnation was applied earlier and could not be removed yet.
    fn was_taken_in(&self, tx: &Tx<'_, '_>, record: &Record) -> Result<bool> {
        match record {
            Record::Claim { seq, incarnation } => match messages::at(tx, self.session, *seq)? {
                Some((_, message)) if message.failed_in >= *incarnation => Ok(true),
                // A claim that is found after its end is not new either.
                Some((_, message)) if !messages::is_open(&message) && self.ran(tx, *incarnation)? => Ok(true),
                Some((id, _)) => Ok(journal::last_of_message(tx, id)?.contains(&Event::Claimed(*incarnation))),
                None => Ok(false),
            },
            Record::End { seq, incarnation, answers, .. } => {
                if !self.ran(tx, *incarnation)? {
                    return Ok(false);
                }
                for answer in answers {
                    if let Answer::Read(said) = answer
                        && !messages::is_known(tx, self.session, &said.wire_id)?
                    {
                        return Ok(false);
                    }
                }
                let message = messages::at(tx, self.session, *seq)?;
                Ok(message.is_some_and(|(_, message)| is_settled(&message, *incarnation)))
            }
            Record::Said(said) => messages::is_known(tx, self.session, &said.wire_id),
            Record::Leftover(_)
            | Record::Unreadable { .. }
            | Record::Hidden(_)
            | Record::Tools(_)
            | Record::Used { .. } => Ok(false),
        }
    }

    /// Whether the incarnation ever existed. One that did not cannot have claimed or ended anything.
    fn ran(&self, tx: &Tx<'_, '_>, incarnation: u32) -> Result<bool> {
        tx.db.incarnations.contains(tx, &IncarnationId::new(self.session, incarnation))
    }

    /// Records that a file was refused; only once, however often it is found before it is removed.
    fn refuse(&mut self, tx: &mut Tx<'_, '_>, file: String, reason: String) -> Result<()> {
        let noted = match &mut self.noted {
            Some(noted) => noted,
            None => self.noted.insert(journal::last_of_session(tx, self.session)?),
        };
        let same = |event: &Event| matches!(event, Event::FileRefused { file: known, .. } if *known == file);
        if noted.iter().any(same) {
            return Ok(());
        }
        let event = Event::FileRefused { file, reason };
        noted.push(event.clone());
        journal::of_session(tx, self.session, event)
    }

    /// Refuses an acknowledgement of a message that does not exist. No later message gets this position, because the
    /// same file may be found again then and must stay without effect.
    fn refuse_position(&mut self, tx: &mut Tx<'_, '_>, file: String, seq: u64) -> Result<()> {
        let last = sessions::load(tx, self.session)?.map_or(seq, |row| row.last_number);
        if seq > last && seq <= last.saturating_add(said::NUMBER_JUMP_MAX) {
            sessions::update(tx, self.session, |row| row.last_number = seq)?;
        }
        self.refuse(tx, file, format!("the session has no message {seq}"))
    }

    /// Records that the incarnation did something. A file that is found again does not count.
    fn note_progress(&self, tx: &mut Tx<'_, '_>, number: u32, step: Step) -> Result<()> {
        let key = IncarnationId { session: self.session, number };
        let before = tx.db.incarnations.require(tx, &key)?;
        let mut incarnation = before.clone();
        incarnation.begin(tx.now.awake);
        incarnation.claimed |= step != Step::Said;
        if incarnation.claimed && !before.claimed {
            start_backoff::succeeded(tx, self.session)?;
        }
        if incarnation.phase == Phase::Starting {
            incarnation.phase = Phase::Running;
        }
        if incarnation == before { Ok(()) } else { tx.db.incarnations.put(tx, &key, &incarnation) }
    }

    /// Records progress for output about messages that were claimed in the same collection and are still open: it came
    /// after the claim. All other output may be what the last turn did before the next message was claimed.
    fn get_on(&self, tx: &mut Tx<'_, '_>) -> Result<()> {
        let Some(number) = self.live else { return Ok(()) };
        let claimed = MessageState::Claimed { incarnation: number, since: tx.now.awake };
        for about in &self.about {
            let is_new = match about {
                Some(seq) => messages::at(tx, self.session, *seq)?.is_some_and(|(_, row)| row.state == claimed),
                None => true,
            };
            if is_new {
                let key = IncarnationId { session: self.session, number };
                let mut incarnation = tx.db.incarnations.require(tx, &key)?;
                incarnation.get_on(tx.now.awake);
                return tx.db.incarnations.put(tx, &key, &incarnation);
            }
        }
        Ok(())
    }

    fn claim(&mut self, tx: &mut Tx<'_, '_>, seq: u64, incarnation: u32) -> Result<bool> {
        let Some((id, message)) = messages::at(tx, self.session, seq)? else {
            let file = format!("ack/{seq}.{incarnation}.processing.json");
            self.refuse_position(tx, file, seq)?;
            return Ok(false);
        };
        let waits = matches!(message.state, MessageState::Pending(_)) && !is_settled(&message, incarnation);
        if waits {
            caps::turn_began(tx, id, &message, incarnation)?;
            let claimed = MessageState::Claimed { incarnation, since: tx.now.awake };
            let message = messages::update(tx, id, |message| message.state = claimed)?;
            budget::claimed(tx, &message, id)?;
            journal::of_message(tx, id, Event::Claimed(incarnation))?;
            fallback::claimed(tx, self.session, id)?;
        }
        Ok(waits)
    }

    /// Ends the messages of a turn together. The acknowledged message has the answers; the others share its outcome.
    /// Returns whether anything ended.
    fn end(&mut self, tx: &mut Tx<'_, '_>, seq: u64, incarnation: u32, turn: TurnEnd) -> Result<bool> {
        let Some((id, message)) = messages::at(tx, self.session, seq)? else {
            let file =
                format!("ack/{seq}.{incarnation}.{}.json", if turn.failure.is_some() { "failed" } else { "completed" });
            self.refuse_position(tx, file, seq)?;
            return Ok(false);
        };
        self.over.push(seq);
        if turn.gated.is_none() {
            // Also of a turn that ended too late: it has cost the same.
            let used = self.models.take_if(|models| (models.seq, models.incarnation) == (seq, incarnation));
            let used = used.map(|models| models.used).unwrap_or_default();
            let is_counted = calls::were_counted(tx, self.session, incarnation, id, &turn.also)?;
            spend::turn_ended(tx, id, &message, spend::Report { incarnation, used, is_counted })?;
            budget::watch(tx, &message)?;
        }
        if is_settled(&message, incarnation) {
            self.clear(tx, &turn.also, incarnation)?;
            // The message may have failed in the meantime. Its answers are kept but not sent.
            self.discard_answers(tx, turn.answers)?;
            return Ok(false);
        }
        let TurnEnd { also, mut failure, gated, answers } = turn;
        if let Some(failure) = failure.as_mut().filter(|failure| failure.again != RetryHint::Never)
            && let Some(why) = caps::spent(tx, id, &message)?
        {
            failure.again = RetryHint::Never;
            failure.error = format!("{why}; its last turn failed: {}", failure.error);
        }
        if let Some(failure) = failure.as_ref().filter(|failure| failure.again != RetryHint::Never) {
            self.over.extend(&also);
            self.discard_answers(tx, answers)?;
            let seqs = std::iter::once(seq).chain(also).collect();
            let turn = FailedTurn { session: self.session, incarnation, failure, seqs };
            return retry::turn_failed(tx, &turn).map(|()| true);
        }
        let error = failure.map(|failure| failure.error);
        let (said, trouble) = self.answers(tx, answers)?;
        let state = decide_end(error, gated, trouble.first().cloned(), tx);
        // A script's result says nothing about the provider.
        if matches!(state, MessageState::Completed { how: Completion::Answered, .. }) {
            fallback::succeeded(tx, self.session, message.agent)?;
        }
        let mut ended = Vec::new();
        for seq in also {
            if let Some((other, message)) = messages::at(tx, self.session, seq)? {
                self.over.push(seq);
                if other != id && messages::is_open(&message) {
                    ended.push((other, message));
                }
            }
        }
        ended.push((id, message));
        self.end_all(tx, ended, &state, said)?;
        replies::read(tx, self.session)?;
        Ok(true)
    }

    /// Discards the answers of a turn that is retried. The next turn will write them again.
    fn discard_answers(&self, tx: &mut Tx<'_, '_>, answers: Vec<Answer>) -> Result<()> {
        for answer in answers {
            if let Answer::Read(said) = answer {
                said::discard(tx, self.session, &said)?;
            }
        }
        Ok(())
    }

    /// Marks messages that ended earlier, whose files may still be in the mailbox.
    fn clear(&mut self, tx: &Tx<'_, '_>, seqs: &[u64], incarnation: u32) -> Result<()> {
        for seq in seqs {
            let message = messages::at(tx, self.session, *seq)?;
            if message.is_some_and(|(_, message)| is_settled(&message, incarnation)) {
                self.over.push(*seq);
            }
        }
        Ok(())
    }

    /// Ends the messages of a turn. If it failed without an answer, the people who asked are told. Context messages
    /// share the first notice, because no one waits for an answer to them.
    fn end_all(
        &mut self,
        tx: &mut Tx<'_, '_>,
        mut ended: Vec<(MessageId, Message)>,
        state: &MessageState,
        mut said: Vec<OutboundId>,
    ) -> Result<()> {
        if let (MessageState::Failed { error, .. }, true) = (state, said.is_empty()) {
            let mut failures = Failures::default();
            for (id, message) in ended.extract_if(.., |(_, message)| message.trigger) {
                failures.add(id, message, error);
            }
            said.extend(failures.settle(tx)?);
        }
        for (id, _) in ended {
            messages::end(tx, id, state.clone(), said.clone())?;
        }
        Ok(())
    }

    /// Whether an answer of scheduled work has no reply address. It is kept, and the turn has not failed.
    fn has_no_recipient(&self, tx: &Tx<'_, '_>, said: &Said) -> Result<bool> {
        let (Recipient::Reply, None, Some(seq)) = (&said.to, &said.request, said.in_reply_to) else { return Ok(false) };
        let Some((_, message)) = messages::at(tx, self.session, seq)? else { return Ok(false) };
        let session = sessions::load(tx, self.session)?;
        Ok(message.slot.is_some() && message.reply.is_none() && session.is_some_and(|row| row.reply.is_none()))
    }

    /// Stores the answers that an end names. Returns those that are queued, and the reasons of those that were refused.
    fn answers(&mut self, tx: &mut Tx<'_, '_>, answers: Vec<Answer>) -> Result<(Vec<OutboundId>, Vec<String>)> {
        let (mut said, mut trouble) = (Vec::new(), Vec::new());
        for answer in answers {
            match answer {
                Answer::Read(text) if self.has_no_recipient(tx, &text)? => {
                    said::discard(tx, self.session, &text)?;
                }
                Answer::Read(text) => {
                    let accepted = said::accept(tx, self.session, &text)?;
                    if text.request.is_some() {
                        requests::tell_outcome(tx, self.session, &text, &accepted)?;
                    }
                    match accepted {
                        Accepted::Stored(id) => said.push(id),
                        Accepted::Known | Accepted::Served | Accepted::Carried(_) => {}
                        Accepted::Refused(reason) => {
                            trouble.push(format!("the answer {} was refused: {reason}", text.wire_id));
                        }
                    }
                }
                Answer::Missing(id) if messages::is_known(tx, self.session, &id)? => {}
                Answer::Missing(id) => trouble.push(format!("the agent named the answer {id} and did not write it")),
                Answer::Refused { id, reason } => trouble.push(format!("the answer {id} cannot be imported: {reason}")),
            }
        }
        Ok((said, trouble))
    }
}

/// The end of a turn, without its incarnation.
struct TurnEnd {
    also: Vec<u64>,
    failure: Option<Failure>,
    gated: Option<Gated>,
    answers: Vec<Answer>,
}

/// Whether an incarnation's reports about a message are ignored from now on.
const fn is_settled(message: &Message, incarnation: u32) -> bool {
    !messages::is_open(message) || message.failed_in >= incarnation
}

/// The final state of a turn's message. An answer that cannot be sent makes it a failure, which is reported.
fn decide_end(error: Option<String>, gated: Option<Gated>, trouble: Option<String>, tx: &Tx<'_, '_>) -> MessageState {
    let at = tx.now.wall;
    match error.or(trouble) {
        Some(error) => MessageState::Failed { error, at },
        None => MessageState::Completed { how: gated.map_or(Completion::Answered, Completion::Gated), at },
    }
}
