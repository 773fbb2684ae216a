//! Simulated agents: they claim, answer, ask, end, fail, hang and die, and write files that are collected late or
//! never.

use std::collections::BTreeSet;

use hearth::model::agent::{McpServer, Packages};
use hearth::model::card::CardOption;
use hearth::model::id::SessionId;
use hearth::model::incarnation::{Exit, IncarnationId, Phase};
use hearth::model::input::RuntimeEvent;
use hearth::model::mailbox::{CollectedRecord, Collection, Recipient, Record, RetryHint, Said};
use hearth::model::request::{NewQuestion, Request, RequestedAction, TaskRequest};
use hearth::model::spend::ReportedUse;
use hearth::model::task::Gated;
use hearth::model::{Input, Millis};

use super::plan::Setting;
use super::{Sim, outputs, without};
use crate::world::outside::{claim, end, failed, gone, leftover, mid_turn, said, try_again};

/// An incarnation's memory: messages that it began and ended.
#[derive(Debug, Default)]
pub(super) struct Mind {
    begun: BTreeSet<u64>,
    ended: BTreeSet<u64>,
}

/// Prefix of wire ids of files that seem to come from an incarnation that is gone.
pub(super) const GHOST: &str = "ghost";

impl Sim {
    pub(super) fn work(&mut self) {
        if let Some((session, number)) = self.somebody() {
            self.work_of(session, number);
        }
    }

    /// An incarnation acts: claims, sends, asks, ends, fails. Whether its mailbox is collected is random.
    pub(super) fn work_of(&mut self, session: SessionId, number: u32) {
        let mind = self.minds.entry((session, number)).or_default();
        let open = without(&mind.begun, &mind.ended);
        let inbox = self.world.outside.inbox.get(&session).cloned().unwrap_or_default();
        let next = inbox.values().find(|message| message.trigger && !mind.begun.contains(&message.seq)).map(|m| m.seq);
        let found = match (open.first(), next) {
            (Some(_), Some(seq)) if open.len() < 3 && self.chance.one_in(4) => vec![self.begin(session, number, seq)],
            (Some(seq), _) => self.go_on((session, number), *seq, &open),
            (None, Some(seq)) => vec![self.begin(session, number, seq)],
            (None, None) => return,
        };
        self.write((session, number), found);
    }

    fn begin(&mut self, session: SessionId, number: u32, seq: u64) -> CollectedRecord {
        self.minds.entry((session, number)).or_default().begun.insert(seq);
        claim(seq, number)
    }

    fn go_on(&mut self, (session, number): (SessionId, u32), seq: u64, open: &[u64]) -> Vec<CollectedRecord> {
        let words = self.words(session, number, seq);
        let dice = self.chance.next(24);
        let ends = !(4..=9).contains(&dice);
        let also: Vec<u64> = open[1..].iter().copied().filter(|_| self.chance.one_in(2)).collect();
        if ends {
            let mind = self.minds.entry((session, number)).or_default();
            mind.ended.insert(seq);
            mind.ended.extend(&also);
        }
        let mut found = match dice {
            0 => vec![failed(seq, number, "out of tokens")],
            1 => vec![try_again(seq, also, number, RetryHint::Later)],
            2 => vec![try_again(seq, also, number, RetryHint::Wait(None))],
            3 => {
                let why = Gated { why: "nothing to do".into(), failed: self.chance.one_in(2) };
                vec![with(end(seq, number, vec![]), also, Some(why))]
            }
            4 | 5 => vec![mid_turn(words)],
            6 => vec![leftover(words)],
            7 if self.plan.setting != Setting::Zones => vec![mid_turn(self.wish(words))],
            7..=9 => vec![],
            10..=12 => {
                let more = Said { wire_id: format!("{}b", words.wire_id), number: words.number + 2, ..words.clone() };
                self.numbers.insert(session, more.number);
                vec![with(end(seq, number, vec![words, more]), also, None)]
            }
            _ => vec![with(end(seq, number, vec![words]), also, None)],
        };
        if found.iter().any(|found| matches!(found.record, Record::End { gated: None, .. })) {
            found.insert(0, used(seq, number));
        }
        found
    }

    fn words(&mut self, session: SessionId, number: u32, seq: u64) -> Said {
        let context = self.world.outside.numbers.get(&session).copied().unwrap_or(1);
        let own = self.numbers.entry(session).or_insert(1);
        *own = (*own + 2).max(context);
        let own = *own;
        let to = match self.chance.next(8) {
            0 => Recipient::Destination("peer".to_owned()),
            1 => Recipient::Destination("nobody".to_owned()),
            _ => Recipient::Reply,
        };
        let mut words = said(own, number, Some(seq), to);
        if self.chance.one_in(10) {
            let after = self.chance.next(3 * 3_600_000);
            words.deliver_after = Some(self.world.now().wall.plus(Millis::new(after)));
        }
        words
    }

    /// A random request to Hearth.
    fn wish(&mut self, words: Said) -> Said {
        let option = |word: &str| CardOption { label: word.into(), chosen: word.into(), value: word.into() };
        let before = words.number.saturating_sub(2 + 2 * self.chance.next(3));
        let request = match self.chance.next(13) {
            0 => return Said { action: RequestedAction::Edit(before), ..words },
            1 => return Said { action: RequestedAction::React(before), ..words },
            2 | 3 => Request::Question(NewQuestion {
                title: "Deploy?".into(),
                body: "To production".into(),
                options: vec![option("yes"), option("no")],
                timeout: Millis::seconds(60 + self.chance.next(3_600)),
            }),
            9..=11 => self.tool_question(),
            12 => self.tools_used(),
            4 => Request::CreateAgent { name: format!("Made {}", self.chance.next(4)), instructions: None },
            5 => Request::Tasks(TaskRequest::List(None)),
            6 => Request::AddMcpServer(McpServer {
                name: format!("server-{}", self.chance.next(3)),
                command: "server".into(),
                args: vec![],
                env: vec![],
            }),
            7 => Request::InstallPackages {
                packages: Packages { apt: vec!["jq".into()], npm: vec![] },
                reason: Some("to read JSON".into()),
            },
            _ => {
                let at = self.world.now().wall.plus(Millis::new(self.chance.next(30 * 3_600_000)));
                Request::Tasks(TaskRequest::Schedule {
                    prompt: "Look".into(),
                    first: at.to_string(),
                    recurrence: None,
                    script: None,
                })
            }
        };
        let name = format!("r{}", words.number);
        Said { action: RequestedAction::Request(Box::new(request)), request: Some(name), ..words }
    }

    /// Files appear in a mailbox; mostly they are collected at once.
    fn write(&mut self, (session, number): (SessionId, u32), found: Vec<CollectedRecord>) {
        let outputs = self.outputs.entry((session, number)).or_default();
        found.iter().for_each(|found| outputs.add(found));
        let seen = self.world.outside.write(session, found);
        if self.chance.one_in(2) {
            self.put(seen);
        }
    }

    /// Collects a mailbox: everything in it, or what was written first.
    pub(super) fn look(&mut self) {
        let sessions: Vec<SessionId> = self.world.outside.written.keys().copied().collect();
        if sessions.is_empty() {
            return;
        }
        let session = *self.chance.pick(&sessions);
        let mut found = self.world.outside.files_of(session);
        if !found.is_empty() && self.chance.one_in(3) {
            let some = 1 + self.chance.next(u64::try_from(found.len()).unwrap());
            found.truncate(usize::try_from(some).unwrap());
            // What a turn used comes with its end, from the same file.
            found.pop_if(|last| matches!(last.record, Record::Used { .. }));
        }
        self.put(Input::Collected(Collection { session, found, closes: None }));
    }

    /// Files with the number of a closed incarnation: from an old mount, a wrong clock, or a forgery.
    pub(super) fn ghost(&mut self) {
        let launched = self.world.outside.launched.clone();
        if launched.is_empty() {
            return;
        }
        let (session, number) = *self.chance.pick(&launched);
        let closed = self.world.read(|db, txn| {
            Ok(db
                .incarnations
                .get(txn, &IncarnationId { session, number })?
                .is_none_or(|row| matches!(row.phase, Phase::Closed { .. })))
        });
        if !closed {
            return;
        }
        let seq = 2 * (1 + self.chance.next(60));
        let mut words = said(1_000_001 + 2 * self.chance.next(1_000), number, Some(seq), Recipient::Reply);
        words.wire_id = format!("{GHOST}-{}", words.wire_id);
        let found = match self.chance.next(5) {
            0 => vec![claim(seq, number)],
            1 => vec![claim(seq, number), end(seq, number, vec![words])],
            2 => vec![failed(seq, number, "a ghost")],
            3 => vec![mid_turn(words)],
            _ => vec![leftover(words)],
        };
        let seen = self.world.outside.write(session, found);
        self.put(seen);
    }

    /// An incarnation dies; mostly the runtime reports it.
    pub(super) fn die(&mut self) {
        let Some((session, number)) = self.somebody() else { return };
        let exit = self.chance.pick(&[Exit::Signal(9), Exit::Code(0), Exit::Code(1), Exit::Unknown]).clone();
        let gone = self.world.outside.end(session, number, exit);
        if !self.chance.one_in(3) {
            self.put(gone);
        }
    }

    /// An old report that arrives late, or again.
    pub(super) fn old_news(&mut self) -> Option<Input> {
        if self.chance.one_in(2)
            && let Some(news) = self.late.pop_front()
        {
            return Some(news);
        }
        let launched = self.world.outside.launched.clone();
        if launched.is_empty() {
            return None;
        }
        let (session, number) = *self.chance.pick(&launched);
        let runs = self.world.outside.running.get(&session) == Some(&number);
        Some(match runs {
            true => Input::Runtime(RuntimeEvent::Running(session, number)),
            false => gone(session, number, Exit::Unknown),
        })
    }

    /// Incarnations without work forget everything: their numbers never come again.
    pub(super) fn forget_old_minds(&mut self) {
        let running = self.world.outside.running.clone();
        self.minds.retain(|(session, number), _| running.get(session) == Some(number));
    }
}

/// What the turn used of a model: the number tells it apart from other turns.
fn used(seq: u64, incarnation: u32) -> CollectedRecord {
    let tokens = outputs::tokens_of(seq, incarnation);
    let used = vec![ReportedUse { model: Some("gpt-5".into()), tokens, cost: None }];
    let file = format!("ack/{seq}.{incarnation}.completed.json");
    CollectedRecord { record: Record::Used { seq, incarnation, used }, files: vec![file] }
}

/// An end that names further messages and says why the agent was not woken.
fn with(mut found: CollectedRecord, more: Vec<u64>, why: Option<Gated>) -> CollectedRecord {
    if let Record::End { also, gated, .. } = &mut found.record {
        (*also, *gated) = (more, why);
    }
    found
}
