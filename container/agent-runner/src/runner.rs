//! The main loop: wait for messages, take them, prompt the provider, write answers and acks.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use hearth_wire::{Context, InMessage};

use crate::agent::AgentHalf;
use crate::beat::{self, Pace};
use crate::commands::{self, Command};
use crate::failure::Failure;
use crate::gate::RunGuard;
use crate::host::HostHalf;
use crate::inbox::Inbox;
use crate::memory::Memory;
use crate::numbers::Numbers;
use crate::outgoing::{LastAddresses, Utterance};
use crate::provider::Drivers;
use crate::report::Report;
use crate::roots::Start;
use crate::runner_state::RunnerState;
use crate::script::{self, ScriptDecision};
use crate::state::StateBoard;
use crate::stop::Stop;
use crate::tool_calls::CallLedger;
use crate::turn::{Turn, TurnError};
use crate::watch::Watch;
use crate::{life, log, tmp};

/// Runs until it is stopped or fails.
pub(crate) fn run(start: &Start) -> Result<Infallible, Stop> {
    let state = open(start)?;
    let pace = beat::start(&state.agent, RunGuard::new(state.host.clone(), start.incarnation))?;
    let watch = Watch::new(&state.host);
    let (root, drivers) = (start.roots.session.clone(), Drivers::new(start.roots.clone()));
    let mut runner = Runner { root, drivers, state, pace, recapped: false };
    let Err(stop) = work(&mut runner, &watch);
    runner.drivers.close();
    Err(stop)
}

/// Takes over the session directory.
pub(crate) fn open(start: &Start) -> Result<RunnerState, Stop> {
    life::hold(start)?;
    life::heed()?;
    let host = HostHalf::new(&start.roots.session);
    let mut gate = RunGuard::new(host.clone(), start.incarnation);
    let context = gate.pass()?;
    let agent = Arc::new(AgentHalf::new(&start.roots.session, start.crash_after_steps));
    agent.sweep_temporaries()?;
    tmp::empty(&start.roots);
    let memory = Memory::load(Arc::clone(&agent), start.incarnation, context.epoch);
    let numbers = Numbers::new(context.next_number, agent.highest_number()?, memory.reserved_numbers());
    let board = StateBoard::start(Arc::clone(&agent), start.incarnation)?;
    let (inbox, heard, roots) = (Inbox::default(), LastAddresses::default(), start.roots.clone());
    let (usage, calls) = (Vec::new(), CallLedger::default());
    Ok(RunnerState { host, gate, agent, memory, numbers, board, inbox, heard, roots, usage, calls })
}

fn work(runner: &mut Runner, watch: &Watch) -> Result<Infallible, Stop> {
    loop {
        runner.state.gate.check()?;
        if !runner.step()? {
            runner.state.board.flush()?;
            runner.state.memory.flush()?;
            runner.pace.idle();
            watch.wait();
        }
    }
}

struct Runner {
    /// The session's directory.
    root: PathBuf,
    drivers: Drivers,
    state: RunnerState,
    /// Pace of the heartbeat.
    pace: Pace,
    /// Whether a prompt had the recap. A failed turn ends the incarnation, and the next one has it again.
    recapped: bool,
}

impl Runner {
    /// Runs one turn if a message triggers it, else handles the provider's output.
    fn step(&mut self) -> Result<bool, Stop> {
        let found = self.state.inbox.look(&self.state.host, &self.state.agent)?;
        self.state.numbers.seen(found.highest);
        for (seq, error) in &found.broken {
            self.pace.work();
            self.state.refuse(*seq, error)?;
        }
        if self.state.inbox.asks() {
            self.pace.work();
            self.turn()?;
            return Ok(true);
        }
        if self.drivers.has_news() {
            self.pace.work();
            self.between()?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Takes the waiting messages and finishes them with one ack. If the runner is killed before the ack, all of them
    /// are repeated; after it, none.
    fn turn(&mut self) -> Result<(), Stop> {
        let context = self.state.gate.pass()?;
        let provider = context.provider.name.clone();
        let (messages, later) = commands::cut(self.state.inbox.take(), &provider);
        self.state.inbox.put_back(later);
        let (mut messages, later) = commands::postpone_scripts(messages);
        self.state.inbox.put_back(later);
        if !self.wakes(&mut messages)? {
            self.state.inbox.put_back(messages);
            return Ok(());
        }
        let seqs: Vec<u64> = messages.iter().map(|message| message.seq).collect();
        self.state.claim(&seqs)?;
        if !messages.iter().any(|message| message.trigger) {
            return self.state.end(&seqs, Vec::new(), None);
        }
        let command = commands::of_turn(&messages, &provider);
        let context = self.state.gate.pass()?;
        self.state.numbers.at_least(context.next_number);
        let clears = command == Some(Command::Clear);
        let recap = if self.recapped { Vec::new() } else { context.recap.clone() };
        let mut turn = Turn::compose(&self.root, Context { recap, ..context }, messages);
        if let Some(Command::Native(words)) = command {
            turn.native = Some(words);
        } else {
            self.recapped = true;
        }
        let mut report = Report::new(&mut self.state, &turn, seqs);
        let ended = if clears { clear(&mut self.drivers, &mut report) } else { self.drivers.turn(&turn, &mut report) };
        conclude(report, ended)?;
        self.drivers.clean_up();
        Ok(())
    }

    /// Runs the script of the task among these messages, if there is one, and returns whether to wake the agent. If
    /// not, the task is finished and removed from the messages.
    fn wakes(&mut self, messages: &mut Vec<InMessage>) -> Result<bool, Stop> {
        let Some(place) = messages.iter().position(|message| commands::script_of(message).is_some()) else {
            return Ok(true);
        };
        let mut task = messages.remove(place);
        self.state.claim(&[task.seq])?;
        match script::run(&mut self.state, commands::script_of(&task).unwrap_or_default())? {
            ScriptDecision::Wake(data) => {
                if let Some(content) = task.content.as_object_mut() {
                    content.insert("scriptOutput".to_owned(), data);
                }
                messages.insert(place, task);
                Ok(true)
            }
            ScriptDecision::Rest(gated) => self.state.end_gated(task.seq, gated).map(|()| false),
        }
    }

    /// Handles the provider's output outside of turns.
    fn between(&mut self) -> Result<(), Stop> {
        let context = self.state.gate.pass()?;
        self.state.numbers.at_least(context.next_number);
        let turn = Turn::compose(&self.root, context, Vec::new());
        let mut report = Report::new(&mut self.state, &turn, Vec::new());
        match self.drivers.between(&mut report) {
            Err(TurnError::Stopped(stop)) => Err(stop),
            Err(TurnError::Failed(reason) | TurnError::Passing(reason, _)) => {
                log::note(format_args!("something the provider said between turns is lost: {reason}"));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// Ends whatever the provider has not ended itself.
fn conclude(mut report: Report<'_>, ended: Result<(), TurnError>) -> Result<(), Stop> {
    let outcome = match ended {
        Ok(()) => Ok(()),
        Err(TurnError::Failed(error)) => Err(Failure { error, retry: None }),
        Err(TurnError::Passing(error, retry)) => Err(Failure { error, retry: Some(retry) }),
        Err(TurnError::Stopped(stop)) => return Err(stop),
    };
    let ended = if report.is_open() { report.end_part(outcome) } else { Ok(()) };
    report.leave();
    match ended {
        Err(TurnError::Stopped(stop)) => Err(stop),
        _ => Ok(()),
    }
}

/// Clears the conversation. It is durably forgotten before the people in the chat are told.
fn clear(drivers: &mut Drivers, report: &mut Report<'_>) -> Result<(), TurnError> {
    report.forget()?;
    drivers.close();
    report.background(false)?;
    report.answer(Utterance::reply("Session cleared."))
}
