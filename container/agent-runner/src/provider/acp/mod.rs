//! The provider `acp`: any agent that speaks the Agent Client Protocol, version 1. One process serves many turns.
//!
//! ```text
//!   launch ─> process ─ rpc ─> session ─> report     words: what is the answer       offers: mode, model, effort
//!                                 │                  permission: what is allowed      trouble: what an error means
//!                                 │                  usage: what numbers count
//!   the agent's client of tools ─ relay ─> tools
//! ```
//!
//! * A turn is one prompt. What arrives meanwhile waits for the next one: several agents cancel a turn on a second
//!   prompt.
//! * The session's id is stored when the agent has answered something: some write nothing to the disk before.
//! * An agent that does not know the session any more begins a new one.

mod agent;
mod handshake;
mod known;
mod launch;
mod offers;
mod peer;
mod permission;
mod rpc;
mod session;
mod start;
mod transcript;
mod trouble;
mod usage;
mod words;

pub(crate) use self::handshake::handshake;

use self::launch::Parameters;
use self::session::{Attempt, Session};
use super::Provider;
use crate::log;
use crate::report::Report;
use crate::roots::Roots;
use crate::turn::{Turn, TurnError};

/// The provider and its running agent.
#[derive(Debug)]
struct Acp {
    roots: Roots,
    running: Option<Session>,
    /// A process in the middle of a failed turn. It cannot be used for another turn.
    given_up: Option<Session>,
}

/// Creates the provider without starting a process.
pub(super) fn open(roots: &Roots) -> Box<dyn Provider> {
    Box::new(Acp { roots: roots.clone(), running: None, given_up: None })
}

impl Acp {
    /// The session for this turn: the running one, if it still matches the context.
    fn session(&mut self, turn: &Turn, report: &mut Report<'_>) -> Result<Session, TurnError> {
        let parameters = Parameters::of(&turn.context, &self.roots).map_err(TurnError::Failed)?;
        if let Some(mut running) = self.running.take() {
            if running.serves(&parameters) {
                return Ok(running);
            }
            running.close();
        }
        start::session(parameters, &self.roots, report)
    }

    fn attempt(&mut self, turn: &Turn, report: &mut Report<'_>) -> Result<Attempt, TurnError> {
        let mut session = self.session(turn, report)?;
        match session.converse(turn, report) {
            Ok(Attempt::Ended) => {
                self.running = Some(session);
                Ok(Attempt::Ended)
            }
            Ok(other) => {
                session.close();
                Ok(other)
            }
            Err(error) => {
                session.cancel();
                self.given_up = Some(session);
                Err(error)
            }
        }
    }
}

impl Provider for Acp {
    fn turn(&mut self, turn: &Turn, report: &mut Report<'_>) -> Result<(), TurnError> {
        loop {
            match self.attempt(turn, report)? {
                Attempt::Ended => return Ok(()),
                // Only a process of earlier turns can be stale, and it is not kept.
                Attempt::Stale => {}
                Attempt::Unknown => {
                    log::note("the agent does not know the session to go on with any more; a new one begins");
                    report.remember(None)?;
                }
            }
        }
    }

    fn has_news(&mut self) -> bool {
        self.running.as_mut().is_some_and(Session::has_news)
    }

    fn between(&mut self, report: &mut Report<'_>) -> Result<(), TurnError> {
        let Some(mut session) = self.running.take() else { return Ok(()) };
        if session.between(report)? {
            self.running = Some(session);
        }
        Ok(())
    }

    fn clean_up(&mut self) {
        if let Some(session) = self.given_up.take() {
            session.close();
        }
    }

    fn close(mut self: Box<Self>) {
        self.clean_up();
        if let Some(session) = self.running.take() {
            session.close();
        }
    }
}
