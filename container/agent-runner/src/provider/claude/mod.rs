//! The provider `claude`: the Claude Code CLI, controlled by JSON lines. One process serves many turns.
//!
//! ```text
//!   launch ─> process ─ lines ─> session ─> report      hooks: which tools, how long     dispatch: whom a text is for
//!                  ^                │                    covered: what a result is about  trouble: what an error means, wedge: whether it lives
//!                  └─── control ────┘                    compaction: before it forgets
//!                                                          unfinished: what may be seen of a text before it is complete
//! ```
//!
//! * A turn is one user message; what arrives meanwhile is given to the CLI as well, and each result ends what it covers.
//! * The id of the conversation is stored at the first line that proves that it exists on disk (an assistant's or a good
//!   result): the CLI announces it earlier, but a process that is killed then leaves no conversation behind.
//! * The CLI asks the runner before it uses a tool, and for what the server `nanoclaw` offers (`crate::tools`).

mod compaction;
mod control;
mod covered;
mod hooks;
mod launch;
mod lines;
mod rehearse;
mod session;
mod trouble;
mod turns;
mod usage;
mod wedge;

pub use self::rehearse::{addressed, ended};

use self::covered::What;
use self::launch::Conversation;
use self::session::Session;
use self::turns::Attempt;
use super::Provider;
use crate::addendum::instructions;
use crate::child::LineProcess;
use crate::failure::Failure;
use crate::outgoing::Utterance;
use crate::report::Report;
use crate::roots::Roots;
use crate::turn::{Turn, TurnError};
use crate::{env, images, log};

/// Told to the people in the chat when the CLI's record of the conversation is gone.
const LOST: &str = "I lost the record of our conversation, so I do not remember what was said before this message. What \
                    I wrote into my files is still there.";
/// Told to the agent when the CLI's record of the conversation is gone.
const LOST_NOTE: &str = "<system>The record of the conversation so far is lost, so this is a new conversation. The people \
                         in the chat were told. Look into your memory and your files for what you noted.</system>";

/// The provider and its running CLI.
#[derive(Debug)]
struct Claude {
    roots: Roots,
    running: Option<Session>,
    /// A process in the middle of a failed turn. It cannot be used for another turn.
    given_up: Option<Session>,
}

/// Creates the provider without starting a process.
pub(super) fn open(roots: &Roots) -> Box<dyn Provider> {
    Box::new(Claude { roots: roots.clone(), running: None, given_up: None })
}

impl Claude {
    /// The process for this turn: the running one, if it still matches the context.
    fn session(&mut self, turn: &Turn, known: Option<String>) -> Result<Session, Failure> {
        let base = launch::base(&turn.context, &self.roots, &env::is_set);
        let instructions = instructions(&turn.context);
        if let Some(mut running) = self.running.take() {
            if running.serves(&base, &instructions) {
                return Ok(running);
            }
            running.close();
        }
        let conversation = Conversation::choose(known)
            .map_err(|error| Failure::lasting(format!("no id for a conversation: {error}")))?;
        let launch = launch::with_conversation(&base, &conversation);
        let process = LineProcess::start(&launch, &self.roots.group)?;
        process.tell(control::initialize(&instructions));
        Ok(Session::new((base, instructions), process, self.roots.clone()))
    }

    /// Tries a turn. `lost` says that the conversation begins anew because the last one does not exist any more.
    fn attempt(&mut self, turn: &Turn, lost: bool, report: &mut Report<'_>) -> Result<Attempt, TurnError> {
        let mut running = self.session(turn, report.continuation())?;
        if !running.has_worked {
            // The tasks of an earlier process ended with it.
            report.background(false)?;
        }
        match (&turn.native, lost) {
            (Some(command), _) => running.give(What::Prompt, command)?,
            (None, false) => running.give_with(What::Prompt, &turn.prompt, images::of(report.root(), turn))?,
            (None, true) => {
                let prompt = format!("{LOST_NOTE}\n\n{}", turn.prompt);
                running.give_with(What::Prompt, &prompt, images::of(report.root(), turn))?;
            }
        }
        match running.converse(turn, report) {
            Ok(Attempt::Ended) => self.running = Some(running),
            Ok(other) => {
                running.close();
                return Ok(other);
            }
            Err(error) => {
                running.interrupt();
                self.given_up = Some(running);
                report.background(false)?;
                return Err(error);
            }
        }
        Ok(Attempt::Ended)
    }
}

impl Provider for Claude {
    fn turn(&mut self, turn: &Turn, report: &mut Report<'_>) -> Result<(), TurnError> {
        let mut attempt = self.attempt(turn, false, report)?;
        if matches!(attempt, Attempt::Stale) {
            attempt = self.attempt(turn, false, report)?;
        }
        if matches!(attempt, Attempt::Unknown) {
            log::note("the conversation to go on with does not exist any more; a new one begins");
            let lost = report.continuation().is_some();
            if lost {
                report.say(Utterance::reply(LOST))?;
            }
            report.remember(None)?;
            attempt = self.attempt(turn, lost, report)?;
        }
        match attempt {
            Attempt::Ended => Ok(()),
            Attempt::Unknown | Attempt::Stale => {
                Err(TurnError::Failed("the agent CLI resumes another conversation than the requested one".to_owned()))
            }
        }
    }

    fn has_news(&mut self) -> bool {
        self.running.as_mut().is_some_and(Session::has_news)
    }

    fn between(&mut self, report: &mut Report<'_>) -> Result<(), TurnError> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        match running.listen(report) {
            Ok(true) => self.running = Some(running),
            Ok(false) => {}
            Err(error) => {
                running.interrupt();
                running.close();
                return Err(error);
            }
        }
        Ok(())
    }

    fn clean_up(&mut self) {
        if let Some(running) = self.given_up.take() {
            running.close();
        }
    }

    fn close(mut self: Box<Self>) {
        self.clean_up();
        if let Some(running) = self.running.take() {
            running.close();
        }
    }
}
