//! The loop: wait, take, prompt, answer, acknowledge.

use std::convert::Infallible;
use std::sync::Arc;

use hearth_wire::{AckStatus, Context, InMessage};

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
use crate::{beat, life, log};

/// Works until something ends it.
pub(crate) fn run(start: &Start) -> Result<Infallible, Stop> {
    life::hold(start)?;
    let host = HostHalf::new(&start.roots.session);
    let mut gate = Gate::new(host.clone(), start.incarnation);
    let context = gate.pass()?;
    let agent = Arc::new(AgentHalf::new(&start.roots.session, start.crash_after_steps));
    agent.sweep_temporaries()?;
    beat::start(&agent, Gate::new(host.clone(), start.incarnation))?;
    let watch = Watch::new(&host);
    let memory = Memory::load(Arc::clone(&agent), start.incarnation);
    let numbers = Numbers::new(context.next_number, agent.highest_number()?, memory.reserved_numbers());
    let state = StateBoard::start(Arc::clone(&agent), start.incarnation)?;
    let desk = Desk { gate, agent, memory, numbers, state };
    let mut runner = Runner { host, inbox: Inbox::default(), drivers: Drivers::new(start.roots.clone()), desk };
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
        self.desk.ack(seq, AckStatus::Processing, Vec::new(), None)?;
        self.desk.ack(seq, AckStatus::Failed, Vec::new(), Some(&error.to_string()))?;
        self.inbox.finish(seq);
        Ok(())
    }

    /// Takes everything that waits and ends it, well or badly.
    fn turn(&mut self) -> Result<(), Stop> {
        let messages = self.inbox.take();
        let seqs: Vec<u64> = messages.iter().map(|message| message.seq).collect();
        for seq in &seqs {
            self.desk.ack(*seq, AckStatus::Processing, Vec::new(), None)?;
        }
        let context = self.desk.gate.pass()?;
        self.desk.numbers.at_least(context.next_number);
        let turn = compose(context, messages);
        let mut report = Report::new(&mut self.desk, &turn);
        let outcome = self.drivers.turn(&turn, &mut report);
        let (status, out, error) = match outcome {
            Ok(()) => (AckStatus::Completed, report.finish()?, None),
            Err(TurnError::Failed(reason)) => {
                log::note(format_args!("the turn of message {:?} failed: {reason}", seqs.last()));
                report.give_up();
                (AckStatus::Failed, Vec::new(), Some(reason))
            }
            Err(TurnError::Stopped(stop)) => return Err(stop),
        };
        self.desk.state.settle()?;
        // The last message first: its ack is what makes the answers count. Killed before it, the whole turn comes back;
        // killed after it, the others come back and may be answered again, but nothing is lost.
        let mut out = Some(out);
        for seq in seqs.iter().rev() {
            self.desk.ack(*seq, status, out.take().unwrap_or_default(), error.as_deref())?;
            self.inbox.finish(*seq);
        }
        Ok(())
    }
}

/// What a turn is about: everything that asks, and the newest of what only tells.
fn compose(context: Context, messages: Vec<InMessage>) -> Turn {
    let (asked, mut background): (Vec<_>, Vec<_>) = messages.into_iter().partition(|message| message.trigger);
    let most = usize::try_from(context.limits.max_prompt_messages).unwrap_or(usize::MAX);
    background.drain(..background.len().saturating_sub(most));
    let prompt = prompt(&context.already_sent, &background, &asked);
    Turn { context, background, asked, prompt }
}
