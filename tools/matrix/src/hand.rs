//! The inbox's way to the daemon: one question after the other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::sleep;
use std::time::Duration;

use hearth_bridge::program::FrameWriter;
use hearth_bridge::{Cursors, Event, FromBridge, ToBridge};

/// Longest wait before something that was put off comes again.
const AGAIN_MAX: u64 = 60;
/// How often is looked whether messages are taken again.
const LOOK: Duration = Duration::from_millis(200);

/// The daemon is gone.
#[derive(Debug)]
pub(crate) struct Ended;

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
}

/// The daemon's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// It is over.
    Done,
    /// Files are wanted.
    Wanted,
}

pub(crate) struct Hand {
    pub(crate) writer: FrameWriter,
    /// Answers of the daemon.
    pub(crate) answers: Receiver<ToBridge>,
    /// The daemon takes no more messages.
    pub(crate) is_closed: Arc<AtomicBool>,
    pub(crate) seq: u64,
}

impl Hand {
    /// Whether an agent would get a message.
    pub(crate) fn is_wanted(&mut self, event: &Event) -> Result<bool, Ended> {
        Ok(self.ask(&Question::Wanted(event.clone()))? == Answer::Wanted)
    }

    /// Passes on a message. Afterwards it is stored, or refused for good.
    pub(crate) fn give(&mut self, event: Event, cursors: Cursors) -> Result<(), Ended> {
        self.ask(&Question::Event(event, cursors)).map(drop)
    }

    /// Stores a place without a message.
    pub(crate) fn store(&mut self, cursors: Cursors) -> Result<(), Ended> {
        self.ask(&Question::Place(cursors)).map(drop)
    }

    fn ask(&mut self, question: &Question) -> Result<Answer, Ended> {
        loop {
            while self.is_closed.load(Ordering::SeqCst) {
                sleep(LOOK);
            }
            self.seq += 1;
            let seq = self.seq;
            self.writer.send(&match question.clone() {
                Question::Wanted(wanted) => FromBridge::Wanted { wanted, seq },
                Question::Event(event, cursors) => FromBridge::Event { event, seq, cursors },
                Question::Place(cursor) => FromBridge::Cursor { cursor, seq },
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
