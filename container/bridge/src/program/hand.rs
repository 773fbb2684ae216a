//! The way of one thread to the daemon: one question after the other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::sleep;
use std::time::Duration;

use super::FrameWriter;
use crate::{Action, Cursors, Event, FromBridge, ToBridge};

/// Longest wait before something that was put off comes again.
const AGAIN_MAX: u64 = 60;
/// How often is looked whether messages are taken again.
const LOOK: Duration = Duration::from_millis(200);

/// The daemon is gone.
#[derive(Debug)]
pub struct Ended;

impl From<io::Error> for Ended {
    fn from(_: io::Error) -> Self {
        Self
    }
}

/// What the daemon is asked.
#[derive(Clone)]
enum Question {
    Wanted(Event),
    Event(Event, Cursors),
    Place(Cursors),
    Press(Action),
}

/// The daemon's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    /// It is over.
    Done,
    /// Files are wanted.
    Wanted,
    /// The result of a pressed button, for people.
    Pressed(String),
}

/// One way to the daemon. Several threads can have one each.
#[derive(Debug)]
pub struct Hand {
    pub(super) writer: FrameWriter,
    /// Answers of the daemon.
    pub(super) answers: Receiver<ToBridge>,
    /// The daemon takes no messages yet, or no more.
    pub(super) is_closed: Arc<AtomicBool>,
    /// The last number. Each way has its own numbers, by which its answers find it.
    pub(super) seq: u64,
    pub(super) step: u64,
}

impl Hand {
    /// A number that no file of this process has yet.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.seq
    }

    /// Whether an agent would get a message.
    ///
    /// # Errors
    /// [`Ended`]
    pub fn is_wanted(&mut self, event: &Event) -> Result<bool, Ended> {
        Ok(self.ask(&Question::Wanted(event.clone()))? == Answer::Wanted)
    }

    /// Passes on a message. Afterwards it is stored, or refused for good.
    ///
    /// # Errors
    /// [`Ended`]
    pub fn give(&mut self, event: Event, cursors: Cursors) -> Result<(), Ended> {
        self.ask(&Question::Event(event, cursors)).map(drop)
    }

    /// Stores a place without a message.
    ///
    /// # Errors
    /// [`Ended`]
    pub fn store(&mut self, cursors: Cursors) -> Result<(), Ended> {
        self.ask(&Question::Place(cursors)).map(drop)
    }

    /// Passes on a pressed button: what the person who pressed it is told.
    ///
    /// # Errors
    /// [`Ended`]
    pub fn press(&mut self, action: Action) -> Result<String, Ended> {
        match self.ask(&Question::Press(action))? {
            Answer::Pressed(text) => Ok(text),
            Answer::Done | Answer::Wanted => Ok(String::new()),
        }
    }

    fn ask(&mut self, question: &Question) -> Result<Answer, Ended> {
        loop {
            while self.is_closed.load(Ordering::SeqCst) {
                sleep(LOOK);
            }
            self.seq += self.step;
            let seq = self.seq;
            self.writer.send(&match question.clone() {
                Question::Wanted(wanted) => FromBridge::Wanted { wanted, seq },
                Question::Event(event, cursors) => FromBridge::Event { event, seq, cursors },
                Question::Place(cursor) => FromBridge::Cursor { cursor, seq },
                Question::Press(action) => FromBridge::Action { action, seq },
            })?;
            loop {
                match self.answers.recv().map_err(|_| Ended)? {
                    ToBridge::Taken { taken: number, .. } | ToBridge::Refused { refused: number, .. }
                        if number == seq =>
                    {
                        return Ok(Answer::Done);
                    }
                    ToBridge::Wanted { wanted, yes } if wanted == seq => {
                        return Ok(if yes { Answer::Wanted } else { Answer::Done });
                    }
                    ToBridge::Pressed { pressed, text, .. } if pressed == seq => return Ok(Answer::Pressed(text)),
                    ToBridge::Later { later, after, .. } if later == seq => {
                        sleep(Duration::from_secs(after.min(AGAIN_MAX)));
                        break;
                    }
                    _ => {}
                }
            }
        }
    }
}
