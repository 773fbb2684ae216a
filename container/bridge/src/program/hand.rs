//! The way of one thread to the daemon: one question after the other. A message that the daemon puts off waits, with later
//! ones of its chat, and other chats go on.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::sleep;
use std::time::Duration;

use super::put_off::{PutOff, Ticket};
use super::{FrameWriter, now};
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
    /// Nothing was stored. It has to come again after that time.
    Later(Duration),
}

/// What happened to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Given {
    /// It is stored, or refused for good.
    Over,
    /// It waits. [`Hand::again`] tells when it is over.
    Waits(Ticket),
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
    /// Messages that wait.
    pub(super) put_off: PutOff,
    /// Messages that waited, and are over.
    pub(super) over: Vec<Ticket>,
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

    /// Passes on a message. One that is put off waits, and later ones of its chat behind it. Places after it are held back
    /// until nothing waits.
    ///
    /// # Errors
    /// [`Ended`]
    pub fn give(&mut self, event: Event, cursors: Cursors) -> Result<Given, Ended> {
        while self.put_off.is_full() {
            sleep(self.wait().unwrap_or_default());
            self.pass_on_again()?;
        }
        if self.put_off.is_behind(&event) {
            self.put_off.hold(cursors);
            return Ok(Given::Waits(self.put_off.add(event, now())));
        }
        let places = if self.put_off.is_empty() { cursors.clone() } else { Cursors::new() };
        let answer = self.ask_once(&Question::Event(event.clone(), places))?;
        if self.put_off.is_empty() && !matches!(answer, Answer::Later(_)) {
            return Ok(Given::Over);
        }
        self.put_off.hold(cursors);
        match answer {
            Answer::Later(after) => Ok(Given::Waits(self.put_off.add(event, now() + after))),
            Answer::Done | Answer::Wanted | Answer::Pressed(_) => Ok(Given::Over),
        }
    }

    /// How long the next message that was put off still waits; none if there is none.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.put_off.due().map(|due| due.saturating_sub(now()))
    }

    /// What a thread receives next; none if a message that was put off is due before.
    ///
    /// # Errors
    /// [`Ended`]
    pub fn next<T>(&self, from: &Receiver<T>) -> Result<Option<T>, Ended> {
        let Some(wait) = self.wait() else { return from.recv().map(Some).map_err(|_| Ended) };
        match from.recv_timeout(wait) {
            Ok(next) => Ok(Some(next)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Ended),
        }
    }

    /// Passes on again what was put off and is due. The messages that waited and are over now.
    ///
    /// # Errors
    /// [`Ended`]
    pub fn again(&mut self) -> Result<Vec<Ticket>, Ended> {
        self.pass_on_again()?;
        Ok(std::mem::take(&mut self.over))
    }

    fn pass_on_again(&mut self) -> Result<(), Ended> {
        while let Some((ticket, event, cursors)) = self.put_off.next(now()) {
            match self.ask_once(&Question::Event(event, cursors))? {
                Answer::Later(after) => self.put_off.wait(ticket, now() + after),
                Answer::Done | Answer::Wanted | Answer::Pressed(_) => {
                    self.put_off.done(ticket);
                    self.over.push(ticket);
                }
            }
        }
        Ok(())
    }

    /// Stores a place without a message, as soon as nothing waits.
    ///
    /// # Errors
    /// [`Ended`]
    pub fn store(&mut self, cursors: Cursors) -> Result<(), Ended> {
        if self.put_off.is_empty() {
            return self.ask(&Question::Place(cursors)).map(drop);
        }
        self.put_off.hold(cursors);
        Ok(())
    }

    /// Passes on a pressed button: what the person who pressed it is told.
    ///
    /// # Errors
    /// [`Ended`]
    pub fn press(&mut self, action: Action) -> Result<String, Ended> {
        match self.ask(&Question::Press(action))? {
            Answer::Pressed(text) => Ok(text),
            Answer::Done | Answer::Wanted | Answer::Later(_) => Ok(String::new()),
        }
    }

    /// Asks until there is another answer than to ask later.
    fn ask(&mut self, question: &Question) -> Result<Answer, Ended> {
        loop {
            match self.ask_once(question)? {
                Answer::Later(after) => sleep(after),
                answer => return Ok(answer),
            }
        }
    }

    fn ask_once(&mut self, question: &Question) -> Result<Answer, Ended> {
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
                ToBridge::Taken { taken: number, .. } | ToBridge::Refused { refused: number, .. } if number == seq => {
                    return Ok(Answer::Done);
                }
                ToBridge::Wanted { wanted, yes } if wanted == seq => {
                    return Ok(if yes { Answer::Wanted } else { Answer::Done });
                }
                ToBridge::Pressed { pressed, text, .. } if pressed == seq => return Ok(Answer::Pressed(text)),
                ToBridge::Later { later, after, .. } if later == seq => {
                    return Ok(Answer::Later(Duration::from_secs(after.min(AGAIN_MAX)).max(LOOK)));
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::{Sender, channel};

    use serde_json::json;

    use super::*;
    use crate::Lines;

    /// The daemon's side of a hand.
    struct Daemon {
        socket: UnixStream,
        lines: Lines,
        answers: Sender<ToBridge>,
    }

    impl Daemon {
        fn hand() -> (Hand, Self) {
            let (ours, socket) = UnixStream::pair().unwrap();
            let (answers, receiver) = channel();
            let writer = super::super::Daemon::new(ours).unwrap().writer();
            let (put_off, over) = (PutOff::default(), Vec::new());
            let hand = Hand { writer, answers: receiver, is_closed: Arc::default(), seq: 0, step: 1, put_off, over };
            (hand, Self { socket, lines: Lines::default(), answers })
        }

        /// Answers the next frames in their order: `true` takes, `false` puts off. The texts and cursors that came.
        fn answers(mut self, plan: &[bool]) -> (Self, Vec<(String, Cursors)>) {
            let (mut plan, mut seen) = (VecDeque::from(plan.to_vec()), Vec::new());
            let mut bytes = [0; 4096];
            while let Some(takes) = plan.pop_front() {
                let line = loop {
                    if let Some(line) = self.lines.next_frame().unwrap() {
                        break line;
                    }
                    let count = std::io::Read::read(&mut self.socket, &mut bytes).unwrap();
                    self.lines.push(&bytes[..count]);
                };
                let Some(FromBridge::Event { event, seq, cursors }) = FromBridge::read(&line).unwrap() else {
                    panic!()
                };
                seen.push((event.rest["text"].as_str().unwrap().to_owned(), cursors));
                let later = ToBridge::Later { later: seq, after: 0, why: "a test".to_owned() };
                self.answers.send(if takes { ToBridge::Taken { taken: seq, report: None } } else { later }).unwrap();
            }
            (self, seen)
        }
    }

    fn event(chat: &str, text: &str) -> Event {
        let rest = [("platformId".to_owned(), json!(chat)), ("text".to_owned(), json!(text))];
        Event { sender: None, files: Vec::new(), rest: rest.into() }
    }

    fn at(place: &str) -> Cursors {
        Cursors::from([("at".to_owned(), place.to_owned())])
    }

    #[test]
    fn what_was_put_off_holds_up_its_chat_and_cursors_and_nothing_else() {
        let (mut hand, daemon) = Daemon::hand();
        // The first one is put off twice.
        let daemon = std::thread::spawn(move || daemon.answers(&[false, true, false, true, true, true]));
        let given =
            [("a", "1"), ("a", "2"), ("b", "3")].map(|(chat, text)| hand.give(event(chat, text), at(text)).unwrap());
        assert_eq!(given, [Given::Waits(1), Given::Waits(2), Given::Over]);
        hand.store(at("4")).unwrap();
        let mut over = Vec::new();
        while let Some(wait) = hand.wait() {
            sleep(wait);
            over.extend(hand.again().unwrap());
        }
        assert_eq!(over, [1, 2]);
        assert_eq!(hand.give(event("a", "5"), at("5")).unwrap(), Given::Over);
        let (_, seen) = daemon.join().unwrap();
        let none = Cursors::new;
        let expected = [("1", at("1")), ("3", none()), ("1", none()), ("1", none()), ("2", at("4")), ("5", at("5"))];
        assert_eq!(seen, expected.map(|(text, cursors)| (text.to_owned(), cursors)));
    }
}
