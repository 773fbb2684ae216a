//! Group commit: many inputs, one sync. Each input can be undone on its own, so a failed one does not affect the
//! others. No answer and no effect leaves before the group is on disk.

use std::sync::{PoisonError, RwLock};

use super::housekeeping::deadline::ahead;
use super::indexing::Segments;
use super::rules::pattern::Patterns;
use super::tx::clock_guard::Steady;
use super::tx::counted::CountedWords;
use super::tx::entropy::Entropy;
use super::{Applied, Cx, Tx, apply, hooks, workspaces};
use crate::model::console_command::ConsoleCommand;
use crate::model::input::Input;
use crate::model::policy::Policy;
use crate::model::report::Reply;
use crate::model::task_command::TaskCommand;
use crate::model::time::{Millis, Moment};
use crate::state::recall::segments;
use crate::state::{self, Admission, Store, Tables, Write};
use crate::time::zone::Zone;

/// An input and how to run it.
#[derive(Debug, Clone)]
pub struct Submission {
    pub input: Input,
    /// Only report what would happen: the transaction is undone and its effects are not performed.
    pub dry_run: bool,
    counted: CountedWords,
}

impl Submission {
    /// Counts the words of an input on the thread that submits it, so that no transaction waits for that.
    #[must_use]
    pub fn new(input: Input) -> Self {
        let counted = CountedWords::of(&input);
        Self { input, dry_run: false, counted }
    }

    /// Whether only to report what would happen.
    #[must_use]
    pub fn dry(self, dry_run: bool) -> Self {
        Self { dry_run, ..self }
    }
}

/// The outcome of one input. After an error, the input changed nothing.
pub type Answer = Result<Applied, state::Error>;

/// The engine, working on one store.
#[derive(Debug)]
pub struct Engine {
    store: Store,
    policy: Policy,
    groups_path: Vec<u8>,
    builds: bool,
    zone: RwLock<Zone>,
    steady: Steady,
    patterns: Patterns,
    pub(super) segments: Segments,
}

impl Engine {
    /// Creates an engine over a store. `groups_path` is the canonical directory of the agent groups' folders.
    #[must_use]
    pub fn new(store: Store, policy: Policy, groups_path: Vec<u8>) -> Self {
        let zone = RwLock::new(Zone::utc());
        Self {
            store,
            policy,
            groups_path,
            builds: false,
            zone,
            steady: Steady::default(),
            patterns: Patterns::default(),
            segments: Segments::default(),
        }
    }

    /// Sets the machine's time zone, which applies unless another one is configured. The default is UTC.
    #[must_use]
    pub fn in_zone(self, zone: Zone) -> Self {
        self.move_to(zone);
        self
    }

    /// Changes the machine's time zone and returns the previous one. The caller then submits [`Input::Clock`].
    pub fn move_to(&self, zone: Zone) -> Zone {
        std::mem::replace(&mut *self.zone.write().unwrap_or_else(PoisonError::into_inner), zone)
    }

    /// The time until the next known deadline, when a sweep is worthwhile.
    ///
    /// # Errors
    /// Faults of the store.
    pub fn next_due(&self, now: Moment) -> Result<Option<Millis>, state::Error> {
        self.store.read(|db, txn| ahead(db, txn, now))
    }

    fn given(&self, now: Moment, entropy: u64, real: bool) -> CommitContext {
        let zone = self.zone.read().unwrap_or_else(PoisonError::into_inner).clone();
        CommitContext { now, entropy: Entropy::of(entropy), zone, steady: self.steady.look(&self.store, now, real) }
    }

    /// Tells the engine whether an image builder runs beside it and reports its results.
    #[must_use]
    pub fn with_builds(self, builds: bool) -> Self {
        Self { builds, ..self }
    }

    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Applies a group of inputs and commits it once. If the store is full, the reserve is released and the inputs are
    /// retried one by one, those that end or remove something first. An input that fails on a damaged row is retried
    /// without whatever needs that row. `entropy` must be unguessable and different for each call.
    ///
    /// # Errors
    /// A failure that leaves the state of the disk unknown. The process has to stop; the next start recovers.
    pub fn commit(&self, group: &[Submission], now: Moment, entropy: u64) -> Result<Vec<Answer>, state::Error> {
        let given = &self.given(now, entropy, true);
        let answers = match self.run(group, given, SalvageMode::Plain) {
            Err(error) if error.is_full() => {
                self.store.release_reserve()?;
                self.one_by_one(group, given)?
            }
            done => done?,
        };
        group.iter().zip(answers).map(|(one, answer)| self.mend(one, answer, given)).collect()
    }

    fn one_by_one(&self, group: &[Submission], given: &CommitContext) -> Result<Vec<Answer>, state::Error> {
        let mut answers: Vec<(usize, Answer)> = Vec::with_capacity(group.len());
        for new_work in [false, true] {
            for (at, one) in group.iter().enumerate().filter(|(_, one)| is_new_work(&one.input) == new_work) {
                answers.push((at, self.alone(one, given, SalvageMode::Plain)?));
            }
        }
        answers.sort_by_key(|(at, _)| *at);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }

    /// Refuses new work for lack of space, and retries an input that failed on a damaged row.
    fn mend(&self, one: &Submission, answer: Answer, given: &CommitContext) -> Result<Answer, state::Error> {
        match answer {
            Err(error) if error.is_full() && is_new_work(&one.input) => Ok(Ok(refused_for_room(error.to_string()))),
            Err(error) if error.is_damage() => self.alone(one, given, SalvageMode::Salvage),
            answer => Ok(answer),
        }
    }

    /// The reply that an input would get at a given time. Nothing is committed, so this may run on another thread than
    /// the writer, but it waits for the writer's transaction to end.
    ///
    /// # Errors
    ///
    /// Errors of the transaction.
    pub fn rehearse(&self, input: Input, now: Moment) -> Result<Reply, state::Error> {
        let one = Submission::new(input).dry(true);
        // The transaction is undone, so its ids may be guessable.
        let given = self.given(now, 0, false);
        let undone = self.store.write(|db, txn| {
            let tx = self.tx(db, &given, &one, SalvageMode::Plain, txn);
            Self::one(tx, &one)
        });
        Undo::answer(undone).map(|applied| applied.reply)
    }

    /// Commits one input on its own. If the store is full, nothing is changed and the answer is an error.
    fn alone(&self, one: &Submission, given: &CommitContext, care: SalvageMode) -> Result<Answer, state::Error> {
        match self.run(std::slice::from_ref(one), given, care) {
            Ok(mut answers) => answers.pop().ok_or(state::Error::Full { doing: "committing" }),
            Err(error) if error.is_full() => Ok(Err(error)),
            Err(error) => Err(error),
        }
    }

    fn run(&self, group: &[Submission], given: &CommitContext, care: SalvageMode) -> Result<Vec<Answer>, state::Error> {
        let needs_room = |one: &Submission| is_new_work(&one.input) || may_begin_work(&one.input);
        let no_room = if group.iter().any(needs_room) { self.no_room()? } else { None };
        let mut made = self.segments.take();
        let work = |db: &Tables, txn: &mut Write<'_>, one: &Submission| match &no_room {
            Some(refusal) if is_new_work(&one.input) => {
                Err(Undo::Answered(Box::new(refused_for_room(refusal.clone()))))
            }
            _ => {
                made.drain(..).try_for_each(|segment| segments::write(db, txn, segment))?;
                let mut tx = self.tx(db, given, one, care, txn);
                tx.cx.has_room = no_room.is_none();
                Self::one(tx, one)
            }
        };
        let undoable = |one: &Submission| may_be_undone(one, no_room.is_some());
        let answers = self.store.write_batch(group, work, undoable, Undo::no_room)?;
        self.segments.ask(self.store.take_crowded());
        Ok(answers.into_iter().map(Undo::answer).collect())
    }

    fn tx<'a, 't>(
        &'a self,
        db: &'a Tables,
        given: &'a CommitContext,
        one: &'a Submission,
        care: SalvageMode,
        txn: &'a mut Write<'t>,
    ) -> Tx<'a, 't> {
        let cx = Cx {
            entropy: &given.entropy,
            groups_path: &self.groups_path,
            zone: &given.zone,
            builds: self.builds,
            steady: given.steady,
            has_room: true,
            patterns: &self.patterns,
            counted: &one.counted,
            hooks,
            salvage: (care == SalvageMode::Salvage).then_some(&self.store),
        };
        Tx::new(db, &self.policy, given.now, cx, txn)
    }

    fn one(mut tx: Tx<'_, '_>, one: &Submission) -> Result<Applied, Undo> {
        let reply = apply(&mut tx, &one.input)?;
        let mut applied = tx.into_applied(reply);
        let refused = applied.reply.is_refusal();
        if one.dry_run || refused {
            applied.effects.clear();
            applied.fires.clear();
            return Err(Undo::Answered(Box::new(applied)));
        }
        Ok(applied)
    }

    fn no_room(&self) -> Result<Option<String>, state::Error> {
        Ok(match self.store.admission()? {
            Admission::Open => None,
            Admission::Refuse(why) => Some(why.to_string()),
        })
    }
}

/// The refusal of new work while the store is full.
fn refused_for_room(why: String) -> Applied {
    let reply = Reply::refused("store_full", why);
    Applied { reply, effects: Vec::new(), problems: Vec::new(), fires: Vec::new() }
}

/// The outside values that one commit uses.
struct CommitContext {
    now: Moment,
    entropy: Entropy,
    zone: Zone,
    steady: bool,
}

/// Whether to apply an input as a whole, or only as far as damaged rows allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SalvageMode {
    Plain,
    Salvage,
}

/// Why one input of a group is undone.
enum Undo {
    /// The answer stands; the writes are undone.
    Answered(Box<Applied>),
    Fault(state::Error),
}

impl From<state::Error> for Undo {
    fn from(error: state::Error) -> Self {
        Self::Fault(error)
    }
}

impl Undo {
    fn no_room(&self) -> bool {
        matches!(self, Self::Fault(error) if error.is_full())
    }

    fn answer(done: Result<Applied, Self>) -> Answer {
        match done {
            Ok(applied) => Ok(applied),
            Err(Self::Answered(applied)) => Ok(*applied),
            Err(Self::Fault(error)) => Err(error),
        }
    }
}

/// Whether an input is likely to be undone: it is a dry run, or may be refused.
fn may_be_undone(one: &Submission, no_room: bool) -> bool {
    let refused = matches!(
        one.input,
        Input::Configure(_)
            | Input::CommandAs(..)
            | Input::Console(_)
            | Input::Task(_)
            | Input::Group(..)
            | Input::Workspace(_)
    );
    one.dry_run || refused || (no_room && is_new_work(&one.input))
}

/// Whether an input also starts work whose time has come, if there is space.
fn may_begin_work(input: &Input) -> bool {
    matches!(input, Input::Start | Input::Sweep(_) | Input::Task(_) | Input::CommandAs(..) | Input::Collected(_))
}

/// Whether a command about tasks starts work or stores more.
const fn begins(command: &TaskCommand) -> bool {
    matches!(command, TaskCommand::Add(_) | TaskCommand::Set(..) | TaskCommand::Run(_))
}

/// Whether an input is refused while the store is full. All others end or remove something, or are needed to run at
/// all.
fn is_new_work(input: &Input) -> bool {
    match input {
        Input::Inbound(_) | Input::PairingCode(..) | Input::LoginCode(..) => true,
        Input::Configure(configure) => !configure.may_make_room(),
        Input::Task(command) => begins(command),
        Input::CommandAs(_, command) => match &**command {
            ConsoleCommand::Task(command) => begins(command),
            ConsoleCommand::Change(change) => !change.takes_away(),
            ConsoleCommand::SignOut(_) => false,
        },
        Input::Workspace(input) => workspaces::is_new_work(input),
        Input::Start
        | Input::Collected(_)
        | Input::ModelCall(_)
        | Input::HostWanted(_)
        | Input::Connections(_)
        | Input::Runtime(_)
        | Input::Built(..)
        | Input::Delivered(..)
        | Input::Fetched(..)
        | Input::Transcribed(..)
        | Input::Spoken(..)
        | Input::Reachable(..)
        | Input::ChannelState(..)
        | Input::BridgeReady(..)
        | Input::BridgeCursors(..)
        | Input::Pressed(_)
        | Input::Decide(..)
        | Input::DecideAs(..)
        | Input::Console(_)
        | Input::DirectOpened(..)
        | Input::Sweep(_)
        | Input::Clock(_)
        | Input::Group(..)
        | Input::Continue(_) => false,
    }
}
