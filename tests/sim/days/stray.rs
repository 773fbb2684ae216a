//! Inputs that change nothing: repeated ones, and reports that match nothing. And groups of inputs, which have the
//! effect of the inputs one after the other.

use hearth::model::configure::Change;
use hearth::model::delivery::{Attempt, DeliveryResult};
use hearth::model::id::{OutboundId, SessionId};
use hearth::model::incarnation::{Exit, IncarnationId};
use hearth::model::input::RuntimeEvent;
use hearth::model::mailbox::{CollectedRecord, Collection, Recipient, RetryHint, Said};
use hearth::model::report::Reply;
use hearth::model::task::TaskOrigin;
use hearth::model::task_command::TaskCommand;
use hearth::model::{Awake, Input};

use super::Sim;
use super::agents::GHOST;
use crate::world::World;
use crate::world::outside::{claim, end, failed, gone, leftover, mid_turn, said, try_again};

/// Each time the store has grown by this many rows, it is compared half as often.
const ROWS_COMPARED: u64 = 1_000;

/// Whether repeating the input at once must change nothing.
pub(super) fn is_idempotent(input: &Input) -> bool {
    let thread = |change: &Change| matches!(change, Change::Mute(..) | Change::Unmute(..) | Change::EndSticky(..));
    match input {
        Input::Inbound(_) | Input::Collected(_) | Input::Delivered(..) | Input::Runtime(_) => true,
        Input::Pressed(_) | Input::Decide(..) | Input::HostWanted(_) => true,
        Input::Configure(configure) => configure.changes.iter().all(thread),
        Input::Task(TaskCommand::Add(new)) => matches!(new.origin, TaskOrigin::Agent(_)),
        Input::Task(_) => true,
        _ => false,
    }
}

impl Sim {
    /// The same input a second time.
    pub(super) fn changes_nothing(&mut self, input: Input) {
        if self.is_tight() {
            return; // what was refused may be accepted the second time
        }
        let once = self.world.text();
        self.put_all(vec![input.clone()]);
        same(&once, &self.world.text(), || format!("{input:?} a second time"));
        self.count("inputs repeated");
    }

    /// The whole store is compared, so the check becomes rarer as the store grows.
    pub(super) fn pays_for_comparison(&mut self) -> bool {
        let rows = self.world.read(|db, txn| Ok(db.messages.len(txn)? + db.journal.len(txn)?));
        self.plan.check == Some(1) || self.chance.one_in(1 + rows / ROWS_COMPARED)
    }

    /// Applies inputs as one group. The result is the same as one after the other.
    pub(super) fn put_group(&mut self, inputs: Vec<Input>) -> Vec<Option<Reply>> {
        if self.is_tight() || !self.pays_for_comparison() {
            return self.put_all(inputs);
        }
        let mut twin = self.world.twin();
        let replies = self.put_all(inputs.clone());
        inputs.iter().for_each(|input| drop(twin.put(input.clone())));
        same(&without_nonces(&self.world), &without_nonces(&twin), || format!("not as a group: {inputs:?}"));
        self.count("groups compared");
        replies
    }

    /// A report about an attempt that is over, or an incarnation that is closed or never existed.
    pub(super) fn stray(&mut self) {
        let input = self.stray_report(0);
        self.put(input);
    }

    /// Such a report for a group of inputs. Another input of the group may begin the next incarnation, so one that never
    /// existed has a number that none will have.
    pub(super) fn stray_report_beside_others(&mut self) -> Input {
        self.stray_report(1_000)
    }

    /// A report about an incarnation whose number is so much higher if there was none with it.
    fn stray_report(&mut self, higher: u32) -> Input {
        let session = SessionId::new(1 + self.chance.next(6));
        let mut number = 1 + u32::try_from(self.chance.next(4)).unwrap();
        let (live, known) = self.world.read(|db, txn| {
            let known = db.incarnations.contains(txn, &IncarnationId { session, number })?;
            Ok((db.live_incarnations.get(txn, &session)?, known))
        });
        if live == Some(number) {
            number += 1 + higher;
        } else if !known {
            number += higher;
        }
        match self.chance.next(6) {
            0 => self.stray_result(),
            1 => Input::Runtime(RuntimeEvent::Running(session, number)),
            2 => gone(session, number, Exit::Code(0)),
            _ => {
                let found = (0..1 + self.chance.next(3)).map(|_| self.stray_file(number)).collect();
                let closes = self.chance.one_in(5).then_some(number);
                Input::Collected(Collection { session, found, closes })
            }
        }
    }

    fn stray_file(&mut self, number: u32) -> CollectedRecord {
        let (seq, out) = (2 * (1 + self.chance.next(4)), 2 * (1 + self.chance.next(5)));
        let ghost = |number_of_words| {
            let words = said(number_of_words, number, Some(seq), Recipient::Reply);
            Said { wire_id: format!("{GHOST}-{}", words.wire_id), ..words }
        };
        match self.chance.next(8) {
            0 => claim(seq, number),
            1 => end(seq, number, vec![ghost(out + 1)]),
            2 => failed(seq, number, "no luck"),
            3 => mid_turn(ghost(out + 1)),
            4 => leftover(ghost(out + 1)),
            5 => try_again(seq, vec![seq + 2], number, RetryHint::Later),
            6 => try_again(seq, vec![seq + 2], number, RetryHint::Wait(None)),
            _ => mid_turn(ghost(out)), // a number of the host
        }
    }

    /// A result of an attempt that is not the newest. Success of an earlier one counts, so that is excluded.
    fn stray_result(&mut self) -> Input {
        let id = OutboundId::new(1 + self.chance.next(20));
        let row = self.world.read(|db, txn| db.outbound.get(txn, &id));
        let mut number = 1 + u32::try_from(self.chance.next(3)).unwrap();
        let mut results = vec![
            DeliveryResult::Rejected("no".into()),
            DeliveryResult::Retry("502".into()),
            DeliveryResult::Uncertain("cut off".into()),
            DeliveryResult::Absent,
            DeliveryResult::NoAdapter,
        ];
        match row {
            Some(row) if row.attempts == number => number += 1,
            Some(_) => {}
            None => results.push(DeliveryResult::Delivered { platform_message: None }),
        }
        let result = self.chance.pick(&results).clone();
        Input::Delivered(id, Attempt { number, since: Awake::new(1, 0) }, result)
    }
}

fn same(left: &str, right: &str, what: impl Fn() -> String) {
    let differs = left.lines().zip(right.lines()).find(|(left, right)| left != right);
    assert!(left == right, "{} changes something: {differs:?}", what());
}

/// The store without the nonces of cards, which differ with each commit.
fn without_nonces(world: &World) -> String {
    let text = world.text();
    let mut parts = text.split("nonce: ");
    let first = parts.next().unwrap_or_default().to_owned();
    let without = |part: &str| {
        let part = part.strip_prefix("Some(").unwrap_or(part);
        part.trim_start_matches(|digit: char| digit.is_ascii_digit()).to_owned()
    };
    parts.fold(first, |text, part| text + &without(part))
}
