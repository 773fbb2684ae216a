//! `hearth up` and `hearth chat`.

use std::collections::HashSet;
use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender as Mailer, channel};
use std::time::Duration;

use clap::Args;

use super::{Done, Failure, out, serve};
use crate::clock;
use crate::config::Paths;
use crate::socket::client::{Client, Error, Sender, unexpected};
use crate::socket::protocol::{Request, Response};

mod prompt;

#[derive(Debug, Args)]
pub(super) struct UpArgs {
    /// Folder of the agent to talk to
    #[arg(long, value_name = "FOLDER")]
    agent: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct ChatArgs {
    /// One question; without it the conversation goes on until Ctrl-D
    text: Option<String>,
    /// Folder of the agent to talk to
    #[arg(long, value_name = "FOLDER")]
    agent: Option<String>,
}

/// How long answers of a turn that ended for several messages at once may take to follow.
const AFTERMATH: Duration = Duration::from_millis(1_500);

/// Starts what is missing, says where things are, and talks.
pub(super) fn up(paths: &Paths, args: &UpArgs, json: bool) -> Done {
    out::note(&format!("data directory: {}", paths.data().display()));
    with_daemon(paths, |client| converse(paths, client, args.agent.as_deref(), None, json))
}

/// Talks, with the daemon that runs or with one of its own.
pub(super) fn chat(paths: &Paths, args: &ChatArgs, json: bool) -> Done {
    with_daemon(paths, |client| converse(paths, client, args.agent.as_deref(), args.text.as_deref(), json))
}

fn with_daemon(paths: &Paths, talk: impl FnOnce(Client) -> Done) -> Done {
    match Client::connect(paths) {
        Ok(client) => return talk(client),
        Err(Error::NotRunning { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let tokio = serve::tokio()?;
    let daemon = serve::start(paths, &tokio)?;
    let done = Client::connect(paths).map_err(Failure::from).and_then(talk);
    let stopped = serve::stop(&daemon);
    done.and(stopped)
}

/// What happens in a conversation.
enum Event {
    Daemon(Response),
    Closed(String),
    Typed(String),
    InputOver,
}

fn converse(paths: &Paths, mut client: Client, agent: Option<&str>, question: Option<&str>, json: bool) -> Done {
    let attached = client.ask(&Request::Attach { agent: agent.map(str::to_owned) })?;
    let Response::Attached { name, .. } = attached else { return Err(unexpected(attached).into()) };
    let sender = client.sender()?;
    let (events, happened) = channel();
    listen(client, events.clone());
    let screen = match question {
        Some(_) => prompt::Screen::plain(),
        None if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && !json => {
            out::note(&format!("talking to {name}; Ctrl-D leaves"));
            prompt::interactive(&paths.data().join("history"), events)?
        }
        None => prompt::piped(events),
    };
    let mut talk =
        Talk { sender, screen, json, seen: HashSet::new(), open: HashSet::new(), owed: HashSet::new(), failed: false };
    let done = match question {
        Some(text) => talk.say(text).and_then(|()| talk.run(&happened, true)),
        None => talk.run(&happened, false),
    };
    talk.sender.close();
    done?;
    if talk.failed && question.is_some() { Err(Failure::Told) } else { Ok(()) }
}

fn listen(mut client: Client, events: Mailer<Event>) {
    std::thread::spawn(move || {
        loop {
            let event = match client.next() {
                Ok(response) => Event::Daemon(response),
                Err(error) => Event::Closed(error.to_string()),
            };
            let over = matches!(event, Event::Closed(_));
            if events.send(event).is_err() || over {
                return;
            }
        }
    });
}

/// A conversation.
struct Talk {
    sender: Sender,
    screen: prompt::Screen,
    json: bool,
    /// Messages that were shown: each once.
    seen: HashSet<String>,
    /// What was said and has not ended: the client's ids, then Hearth's.
    open: HashSet<String>,
    /// Answers that were promised and have not come.
    owed: HashSet<String>,
    failed: bool,
}

impl Talk {
    fn say(&mut self, text: &str) -> Done {
        let id = format!("tty-{:016x}", clock::random()?);
        self.open.insert(id.clone());
        Ok(self.sender.send(&Request::Say { id, text: text.to_owned() })?)
    }

    /// Goes on until the input is over and everything that was asked has been answered.
    fn run(&mut self, happened: &Receiver<Event>, mut input_over: bool) -> Done {
        let mut heard_since_end = true;
        loop {
            let idle = input_over && self.open.is_empty() && self.owed.is_empty();
            let event = match (idle, heard_since_end) {
                (true, true) => return Ok(()),
                // It ended without an answer of its own: the answer to several messages comes with the last of them.
                (true, false) => match happened.recv_timeout(AFTERMATH) {
                    Ok(event) => event,
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(()),
                },
                (false, _) => happened.recv().map_err(|_| Failure::Failed("the conversation ended".to_owned()))?,
            };
            match event {
                Event::Typed(text) if text.trim().is_empty() => {}
                Event::Typed(text) => self.say(&text)?,
                Event::InputOver => {
                    input_over = true;
                    if self.screen.is_interactive() {
                        return Ok(());
                    }
                }
                Event::Closed(reason) => return Err(Failure::Failed(reason)),
                Event::Daemon(Response::Settled { message, state, error, answers }) => {
                    heard_since_end = answers.iter().any(|answer| self.seen.contains(answer)) || !answers.is_empty();
                    self.settled(&message, &state, error.as_deref(), answers)?;
                }
                Event::Daemon(response) => {
                    heard_since_end |= matches!(response, Response::Said { .. });
                    self.respond(response)?;
                }
            }
        }
    }

    fn respond(&mut self, response: Response) -> Done {
        if self.json {
            out::json(&response)?;
        }
        match response {
            Response::Said { id, speaker, text, files, .. } => {
                self.owed.remove(&id);
                if self.seen.insert(id.clone()) && !self.json {
                    self.screen.show(speaker.as_deref(), &text, &files)?;
                }
                Ok(self.sender.send(&Request::Shown { id })?)
            }
            Response::Accepted { id, message } => {
                if self.open.remove(&id) {
                    self.open.insert(message);
                }
                Ok(())
            }
            Response::Refused { message, .. } => Err(Failure::Failed(message)),
            _ => Ok(()),
        }
    }

    fn settled(&mut self, message: &str, state: &str, error: Option<&str>, answers: Vec<String>) -> Done {
        if !self.open.remove(message) {
            return Ok(());
        }
        self.owed.extend(answers.into_iter().filter(|answer| !self.seen.contains(answer)));
        self.failed |= state != "completed";
        if self.json {
            out::json(&serde_json::json!({ "is": "settled", "message": message, "state": state, "error": error }))?;
        }
        Ok(())
    }
}
