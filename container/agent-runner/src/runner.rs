//! The loop: wait, take, prompt, answer, acknowledge.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_wire::{Context, InMessage, OutId};

use crate::agent::AgentHalf;
use crate::gate::Gate;
use crate::host::{HostHalf, ReadError};
use crate::inbox::Inbox;
use crate::memory::Memory;
use crate::numbers::Numbers;
use crate::prompt::prompt;
use crate::provider::Drivers;
use crate::report::{Desk, Report, Turn, TurnError};
use crate::roots::Start;
use crate::state::StateBoard;
use crate::stop::Stop;
use crate::watch::Watch;
use crate::{beat, life, log, tmp};

/// Works until something ends it.
pub(crate) fn run(start: &Start) -> Result<Infallible, Stop> {
    life::hold(start)?;
    let host = HostHalf::new(&start.roots.session);
    let mut gate = Gate::new(host.clone(), start.incarnation);
    let context = gate.pass()?;
    let agent = Arc::new(AgentHalf::new(&start.roots.session, start.crash_after_steps));
    agent.sweep_temporaries()?;
    tmp::empty(&start.roots);
    beat::start(&agent, Gate::new(host.clone(), start.incarnation))?;
    let watch = Watch::new(&host);
    let memory = Memory::load(Arc::clone(&agent), start.incarnation, context.epoch);
    let numbers = Numbers::new(context.next_number, agent.highest_number()?, memory.reserved_numbers());
    let state = StateBoard::start(Arc::clone(&agent), start.incarnation)?;
    let roots = start.roots.clone();
    let desk = Desk { host: host.clone(), gate, agent, memory, numbers, state, roots };
    let (root, drivers) = (start.roots.session.clone(), Drivers::new(start.roots.clone()));
    let mut runner = Runner { root, host, inbox: Inbox::default(), drivers, desk };
    loop {
        runner.desk.gate.check()?;
        if !runner.step()? {
            runner.desk.state.flush()?;
            runner.desk.memory.flush()?;
            watch.wait();
        }
    }
}

struct Runner {
    /// The session's directory.
    root: PathBuf,
    host: HostHalf,
    inbox: Inbox,
    drivers: Drivers,
    desk: Desk,
}

impl Runner {
    /// Does one turn if something asks for one.
    fn step(&mut self) -> Result<bool, Stop> {
        let found = self.inbox.look(&self.host, &self.desk.agent)?;
        self.desk.numbers.seen(found.highest);
        for (seq, error) in &found.broken {
            self.refuse(*seq, error)?;
        }
        let asks = self.inbox.asks();
        if asks {
            self.turn()?;
        }
        Ok(asks)
    }

    /// A message that can never be read is a message that failed: somebody is told.
    fn refuse(&mut self, seq: u64, error: &ReadError) -> Result<(), Stop> {
        log::note(format_args!("message {seq} cannot be read: {error}"));
        self.desk.claim(&[seq])?;
        self.desk.end(&[seq], Vec::new(), Some(&error.to_string()))?;
        self.inbox.finish(&[seq]);
        Ok(())
    }

    /// Takes what waits and ends it, well or badly, with one ack: killed before it, all of it comes back, killed after
    /// it, nothing does.
    fn turn(&mut self) -> Result<(), Stop> {
        let messages = self.inbox.take();
        let seqs: Vec<u64> = messages.iter().map(|message| message.seq).collect();
        self.desk.claim(&seqs)?;
        let asked = messages.iter().any(|message| message.trigger);
        let (out, error) = if asked { self.answer(messages)? } else { (Vec::new(), None) };
        self.desk.end(&seqs, out, error.as_deref())?;
        self.inbox.finish(&seqs);
        Ok(())
    }

    /// Drives the provider; returns what it answered, or nothing and why it failed.
    fn answer(&mut self, messages: Vec<InMessage>) -> Result<(Vec<OutId>, Option<String>), Stop> {
        let context = self.desk.gate.pass()?;
        self.desk.numbers.at_least(context.next_number);
        let turn = compose(&self.root, context, messages);
        let mut report = Report::new(&mut self.desk, &turn);
        let ended = match self.drivers.turn(&turn, &mut report) {
            Ok(()) => (report.finish()?, None),
            Err(TurnError::Failed(reason)) => {
                log::note(format_args!("the turn of message {:?} failed: {reason}", turn.asked.last().map(|m| m.seq)));
                report.give_up();
                (Vec::new(), Some(reason))
            }
            Err(TurnError::Stopped(stop)) => return Err(stop),
        };
        self.desk.state.settle()?;
        Ok(ended)
    }
}

/// What a turn is about: everything that asks, and the newest of what only tells.
fn compose(root: &Path, context: Context, messages: Vec<InMessage>) -> Turn {
    let (asked, mut background): (Vec<_>, Vec<_>) = messages.into_iter().partition(|message| message.trigger);
    let most = usize::try_from(context.limits.max_prompt_messages).unwrap_or(usize::MAX);
    background.drain(..background.len().saturating_sub(most));
    let prompt = prompt(root, &context.already_sent, &background, &asked);
    Turn { context, background, asked, prompt }
}
