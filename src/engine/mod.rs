//! WHY things happen: the transactions.
//!
//! [`apply()`] is the system: every input is one transaction over the store that returns what it decided and the effects
//! that follow. Nothing in this folder does I/O, reads a clock or makes random numbers; `now` and entropy come in
//! [`Cx`]. In every file the transaction comes first, then the pure decision it makes, then the tests.

use std::cell::RefCell;

use crate::model::effect::Effect;
use crate::model::input::Input;
use crate::model::policy::Policy;
use crate::model::report::{Refusal, Reply};
use crate::model::time::Moment;
use crate::state::{self, Store, Tables, Write};
use crate::time::zone::Zone;

mod access;
mod again;
mod agents;
mod ahead;
mod approvals;
mod attempt;
mod cards;
mod channels;
mod chats;
mod clock;
pub mod commit;
mod configure;
mod context;
mod deliver;
mod destinations;
mod duplicate;
mod engage;
pub mod entropy;
mod export;
mod gate;
mod group;
mod ingest;
mod journal;
mod json;
mod lifecycle;
mod messages;
mod mute_name;
mod notice;
mod open;
mod outbox;
pub mod pattern;
mod peek;
mod people;
mod places;
mod prune;
mod remove;
mod renew;
mod replay;
mod requests;
mod restart;
pub mod retention;
mod rights;
mod route;
#[cfg(test)]
mod scene;
mod schedule;
mod sessions;
mod skips;
mod spec;
mod start;
mod starts;
mod steady;
mod stuck;
mod sweep;
mod threads;
mod users;
mod wake;
mod wirings;
pub mod workspaces;

pub use peek::peek;

/// What every transaction needs and none may change.
pub struct Cx<'a> {
    /// The tables.
    pub db: &'a Tables,
    /// Thresholds and bounds.
    pub policy: &'a Policy,
    /// The time of this input.
    pub now: Moment,
    /// What numbers that nobody can guess are made of.
    pub entropy: &'a entropy::Entropy,
    /// Canonical path of the directory under which the agent groups' folders lie, raw bytes.
    pub groups_path: &'a [u8],
    /// The machine's zone, for people for whom none is configured.
    pub zone: &'a Zone,
    /// Whether somebody builds images of agents with packages.
    pub builds: bool,
    /// Whether the wall clock is believed in what cannot be undone.
    pub steady: bool,
    /// Whether new work may be taken in. What is due by the clock waits while there is no room; all else goes on.
    pub has_room: bool,
    /// Compiled engage patterns.
    pub patterns: &'a pattern::Patterns,
    /// What became of times of tasks, in words, to be counted once it is committed.
    pub fires: RefCell<Vec<&'static str>>,
    /// Set when the input failed because of a damaged row and is carried out again without what needs that row.
    pub careful: Option<Careful<'a>>,
}

/// How to leave out what cannot be done.
pub struct Careful<'a> {
    /// Makes parts of the transaction that can be undone by themselves.
    pub store: &'a Store,
    /// What was left out, and why.
    pub problems: RefCell<Vec<String>>,
}

impl Cx<'_> {
    /// Does one of several things that do not depend on each other. When a damaged row is in the way of a careful
    /// transaction, this one is undone and noted, and the others go on.
    fn apart<T>(
        &self,
        txn: &mut Write<'_>,
        effects: &mut Vec<Effect>,
        work: impl FnOnce(&mut Write<'_>, &mut Vec<Effect>) -> Result<T>,
    ) -> Result<Option<T>> {
        let Some(careful) = &self.careful else { return work(txn, effects).map(Some) };
        let mut own = Vec::new();
        match careful.store.part(txn, |part| work(part, &mut own)) {
            Ok(done) => {
                effects.append(&mut own);
                Ok(Some(done))
            }
            Err(error) if error.is_damage() => {
                careful.problems.borrow_mut().push(error.to_string());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// A row that others can do without: one that cannot be read counts as none. The checker finds it.
fn readable<T>(row: Result<Option<T>>) -> Result<Option<T>> {
    match row {
        Err(error) if error.is_damage() => Ok(None),
        row => row,
    }
}

/// What a transaction did.
#[derive(Debug)]
pub struct Applied {
    /// Its answer. A refusal undoes the transaction.
    pub reply: Reply,
    /// What to do once it is committed.
    pub effects: Vec<Effect>,
    /// What had to be left out because of damaged rows.
    pub problems: Vec<String>,
    /// What became of times of tasks, in words: only for those who count.
    pub fires: Vec<&'static str>,
}

/// Result of everything that touches the store: an error is a fault of the store or the machine, never a refusal.
pub type Result<T> = std::result::Result<T, state::Error>;

/// Carries out one input.
///
/// # Errors
/// Faults of the store; the transaction must not be committed then.
pub fn apply(cx: &Cx<'_>, txn: &mut Write<'_>, input: &Input) -> Result<Applied> {
    // Messages look at the sessions of agents only, one by one.
    cx.db.write_late(txn, matches!(input, Input::Inbound(_)))?;
    match input {
        Input::Start => start::start(cx, txn),
        Input::Inbound(event) => route::route(cx, txn, event),
        Input::Collected(collection) => ingest::ingest(cx, txn, collection.clone()),
        Input::Runtime(event) => lifecycle::runtime_event(cx, txn, event.clone()),
        Input::Built(agent, packages, built) => requests::built(cx, txn, (*agent, packages, built)).map(Applied::done),
        Input::Delivered(id, attempt, result) => deliver::delivered(cx, txn, (*id, *attempt), result.clone()),
        Input::Reachable(channel, address) => deliver::reachable(cx, txn, channel, address.as_ref()),
        Input::Pressed(press) => approvals::pressed(cx, txn, press),
        Input::Decide(matter, value) => approvals::decide(cx, txn, *matter, value),
        Input::DirectOpened(user, chat) => approvals::direct_opened(cx, txn, user, chat.clone()),
        Input::Sweep(observations) => sweep::sweep(cx, txn, observations),
        Input::Clock(change) => clock::changed(cx, txn, change),
        Input::Task(command) => {
            let mut effects = Vec::new();
            let changed = schedule::command(cx, txn, (command.clone(), None), &mut effects)?;
            Ok(match changed {
                Ok((id, task)) => Applied::new(Reply::Task(id, Box::new(task)), effects),
                Err(why) => Applied::refused("invalid", why),
            })
        }
        Input::Workspace(input) => workspaces::workspace(cx, txn, input),
        Input::Configure(configure) => configure::configure(cx, txn, configure.clone()),
        Input::Group(agent, happened) => group::apply(cx, txn, *agent, happened),
        Input::Continue(rest) => remove::go_on(cx, txn, *rest),
    }
}

impl Applied {
    fn new(reply: Reply, effects: Vec<Effect>) -> Self {
        Self { reply, effects, problems: Vec::new(), fires: Vec::new() }
    }

    fn done(effects: Vec<Effect>) -> Self {
        Self::new(Reply::Done, effects)
    }

    /// A button or an answer that decided nothing, and why.
    fn undecided(text: &str) -> Self {
        Self::new(Reply::Answered { decided: false, text: text.to_owned() }, Vec::new())
    }

    fn refused(code: &'static str, message: String) -> Self {
        Self::new(Reply::Refused(Refusal { code, message }), Vec::new())
    }
}
