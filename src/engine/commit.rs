//! Group commit: many inputs, one sync. Each input can be undone by itself, so that one that fails harms nobody; nothing is
//! answered and no effect leaves before the group is on disk.

use std::cell::RefCell;
use std::sync::{PoisonError, RwLock};

use super::ahead::ahead;
use super::entropy::Entropy;
use super::pattern::Patterns;
use super::steady::Steady;
use super::{Applied, Careful, Cx, apply, workspaces};
use crate::model::input::Input;
use crate::model::policy::Policy;
use crate::model::task::TaskCommand;
use crate::model::time::{Millis, Moment};
use crate::state::{self, Admission, Store, Tables, Write};
use crate::time::zone::Zone;

/// One input and what is wanted of it.
#[derive(Debug, Clone)]
pub struct Submission {
    /// What happened.
    pub input: Input,
    /// Only say what would be done: the transaction is undone, its effects are not to be carried out.
    pub dry_run: bool,
}

/// What became of an input. A fault means that this input did nothing.
pub type Answer = Result<Applied, state::Error>;

/// The engine over one store.
#[derive(Debug)]
pub struct Engine {
    store: Store,
    policy: Policy,
    groups_path: Vec<u8>,
    builds: bool,
    zone: RwLock<Zone>,
    steady: Steady,
    patterns: Patterns,
}

impl Engine {
    /// An engine over a store; `groups_path` is the canonical directory of the agent groups' folders.
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
        }
    }

    /// The same engine for a machine whose people live in this zone, unless another one is configured; else it is UTC.
    #[must_use]
    pub fn in_zone(self, zone: Zone) -> Self {
        self.move_to(zone);
        self
    }

    /// From now on the machine is in this zone; it was in the one that is returned. What follows from that is
    /// [`Input::Clock`].
    pub fn move_to(&self, zone: Zone) -> Zone {
        std::mem::replace(&mut *self.zone.write().unwrap_or_else(PoisonError::into_inner), zone)
    }

    /// How long it is until something becomes due, as far as that is known: a sweep is of use then.
    ///
    /// # Errors
    /// Faults of the store.
    pub fn next_due(&self, now: Moment) -> Result<Option<Millis>, state::Error> {
        self.store.read(|db, txn| ahead(db, txn, now))
    }

    fn given(&self, now: Moment, entropy: u64, real: bool) -> Given {
        let zone = self.zone.read().unwrap_or_else(PoisonError::into_inner).clone();
        Given { now, entropy: Entropy::of(entropy), zone, steady: self.steady.look(&self.store, now, real) }
    }

    /// The same engine beside somebody who builds the images that agents need, and says what became of it.
    #[must_use]
    pub fn with_builds(self, builds: bool) -> Self {
        Self { builds, ..self }
    }

    /// The store.
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Carries out a group of inputs and commits it once. A group for which there is no room is tried again one by one,
    /// what ends or removes something first, after the reserve was given back. An input that a damaged row is in the way
    /// of is tried again without what needs that row. `entropy` is a number that nobody can guess, another one each time.
    ///
    /// # Errors
    /// A failure after which nobody knows what is on disk: the process has to stop, its next start recovers.
    pub fn commit(&self, group: &[Submission], now: Moment, entropy: u64) -> Result<Vec<Answer>, state::Error> {
        let given = &self.given(now, entropy, true);
        let answers = match self.run(group, given, Care::Plain) {
            Err(error) if error.is_full() => {
                self.store.release_reserve()?;
                self.one_by_one(group, given)?
            }
            done => done?,
        };
        group.iter().zip(answers).map(|(one, answer)| self.mend(one, answer, given)).collect()
    }

    fn one_by_one(&self, group: &[Submission], given: &Given) -> Result<Vec<Answer>, state::Error> {
        let mut answers: Vec<(usize, Answer)> = Vec::with_capacity(group.len());
        for new_work in [false, true] {
            for (at, one) in group.iter().enumerate().filter(|(_, one)| is_new_work(&one.input) == new_work) {
                answers.push((at, self.alone(one, given, Care::Plain)?));
            }
        }
        answers.sort_by_key(|(at, _)| *at);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }

    /// Says that there was no room for new work, and tries again what a damaged row was in the way of.
    fn mend(&self, one: &Submission, answer: Answer, given: &Given) -> Result<Answer, state::Error> {
        match answer {
            Err(error) if error.is_full() && is_new_work(&one.input) => {
                Ok(Ok(Applied::refused("store_full", error.to_string())))
            }
            Err(error) if error.is_damage() => self.alone(one, given, Care::Careful),
            answer => Ok(answer),
        }
    }

    /// What an input would answer at some moment. Nothing of it is ever committed, so this may run beside the thread that
    /// writes; it waits for that thread's transaction.
    ///
    /// # Errors
    /// Those of the transaction.
    pub fn rehearse(&self, input: Input, now: Moment) -> Result<crate::model::report::Reply, state::Error> {
        let one = Submission { input, dry_run: true };
        // What is undone may be guessed.
        let given = self.given(now, 0, false);
        let undone = self.store.write(|db, txn| Self::one(self.cx(db, &given, Care::Plain), txn, &one));
        Undo::answer(undone).map(|applied| applied.reply)
    }

    /// Commits one input by itself. One that finds no room did nothing, and is a fault of its own.
    fn alone(&self, one: &Submission, given: &Given, care: Care) -> Result<Answer, state::Error> {
        match self.run(std::slice::from_ref(one), given, care) {
            Ok(mut answers) => answers.pop().ok_or(state::Error::Full { doing: "committing" }),
            Err(error) if error.is_full() => Ok(Err(error)),
            Err(error) => Err(error),
        }
    }

    fn run(&self, group: &[Submission], given: &Given, care: Care) -> Result<Vec<Answer>, state::Error> {
        let needs_room = |one: &Submission| is_new_work(&one.input) || may_begin_work(&one.input);
        let no_room = if group.iter().any(needs_room) { self.no_room()? } else { None };
        let work = |db: &Tables, txn: &mut Write<'_>, one: &Submission| match &no_room {
            Some(refusal) if is_new_work(&one.input) => {
                Err(Undo::Answered(Box::new(Applied::refused("store_full", refusal.clone()))))
            }
            _ => Self::one(Cx { has_room: no_room.is_none(), ..self.cx(db, given, care) }, txn, one),
        };
        let undoable = |one: &Submission| may_be_undone(one, no_room.is_some());
        let answers = self.store.write_batch(group, work, undoable, Undo::no_room)?;
        Ok(answers.into_iter().map(Undo::answer).collect())
    }

    fn cx<'a>(&'a self, db: &'a Tables, given: &'a Given, care: Care) -> Cx<'a> {
        let careful = || Careful { store: &self.store, problems: RefCell::default() };
        Cx {
            db,
            policy: &self.policy,
            now: given.now,
            entropy: &given.entropy,
            groups_path: &self.groups_path,
            zone: &given.zone,
            builds: self.builds,
            steady: given.steady,
            has_room: true,
            patterns: &self.patterns,
            fires: RefCell::default(),
            careful: (care == Care::Careful).then(careful),
        }
    }

    fn one(cx: Cx<'_>, txn: &mut Write<'_>, one: &Submission) -> Result<Applied, Undo> {
        let mut applied = apply(&cx, txn, &one.input)?;
        applied.problems = cx.careful.map(|careful| careful.problems.into_inner()).unwrap_or_default();
        applied.fires = cx.fires.into_inner();
        if one.dry_run {
            applied.effects.clear();
        }
        if one.dry_run || applied.reply.is_refusal() {
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

/// What a commit is given from outside.
struct Given {
    now: Moment,
    entropy: Entropy,
    zone: Zone,
    steady: bool,
}

/// Whether an input is carried out as a whole, or as far as damaged rows let it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Care {
    Plain,
    Careful,
}

/// Why a transaction of a group is undone.
enum Undo {
    /// Its answer stands, what it wrote does not.
    Answered(Box<Applied>),
    /// It failed.
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

/// Whether an input may well be undone: it is only tried, or may answer with a refusal.
fn may_be_undone(one: &Submission, no_room: bool) -> bool {
    let refused = matches!(one.input, Input::Configure(_) | Input::Task(_) | Input::Group(..) | Input::Workspace(_));
    one.dry_run || refused || (no_room && is_new_work(&one.input))
}

/// What also begins the work whose time has come, if there is room.
fn may_begin_work(input: &Input) -> bool {
    matches!(input, Input::Start | Input::Sweep(_) | Input::Task(_) | Input::Collected(_))
}

/// What is refused when there is no room. Everything else ends or removes something, or is needed to run at all.
fn is_new_work(input: &Input) -> bool {
    match input {
        Input::Inbound(_) => true,
        Input::Configure(configure) => !configure.may_make_room(),
        Input::Task(command) => matches!(command, TaskCommand::Add(_) | TaskCommand::Set(..) | TaskCommand::Run(_)),
        Input::Workspace(input) => workspaces::is_new_work(input),
        Input::Start
        | Input::Collected(_)
        | Input::Runtime(_)
        | Input::Built(..)
        | Input::Delivered(..)
        | Input::Reachable(..)
        | Input::Pressed(_)
        | Input::Decide(..)
        | Input::DirectOpened(..)
        | Input::Sweep(_)
        | Input::Clock(_)
        | Input::Group(..)
        | Input::Continue(_) => false,
    }
}
