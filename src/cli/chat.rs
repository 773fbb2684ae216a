//! `hearth up` and `hearth chat`.

use std::collections::{HashMap, HashSet};
use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, Sender as Mailer, channel};

use clap::Args;

use super::{Done, Failure, local, out, serve};
use crate::clock;
use crate::config::Paths;
use crate::socket::client::{Client, Sender, unexpected};
use crate::socket::protocol::{End, Request, Response};

mod prompt;

#[derive(Debug, Args)]
pub(super) struct UpArgs {
    /// Folder of the agent to talk to
    #[arg(long, value_name = "FOLDER")]
    agent: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct ChatArgs {
    /// One question; whatever else waits here is shown on standard error. Without it, talk until Ctrl-D
    #[arg(value_parser = question)]
    text: Option<String>,
    /// Folder of the agent to talk to
    #[arg(long, value_name = "FOLDER")]
    agent: Option<String>,
}

/// A question that says something: without one a person would be let talk.
fn question(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() { Err("there is nothing in it; leave it out to talk") } else { Ok(text.to_owned()) }
}

/// Starts what is missing, says where things are, and talks.
pub(super) fn up(paths: &Paths, args: &UpArgs, json: bool) -> Done {
    out::note(&format!("data directory: {}", paths.data().display()));
    with_daemon(paths, |mut client| {
        if let Response::Status(daemon) = client.ask(&Request::Status)? {
            out::note(&format!("runtime: {}, because {}", daemon.runtime, daemon.runtime_why));
        }
        converse(paths, client, args.agent.as_deref(), None, json)
    })
}

/// Talks, with the daemon that runs or with one of its own.
pub(super) fn chat(paths: &Paths, args: &ChatArgs, json: bool) -> Done {
    with_daemon(paths, |client| converse(paths, client, args.agent.as_deref(), args.text.as_deref(), json))
}

fn with_daemon(paths: &Paths, talk: impl FnOnce(Client) -> Done) -> Done {
    let here = || serve::Served::start(paths, (None, None), serve::EndedBy::Caller).map(|served| (None, Some(served)));
    let (client, own) = local::daemon_or(paths, |client| (Some(client), None), here)?;
    let connected = client.map_or_else(|| Client::connect(paths), Ok);
    let done = connected.map_err(Failure::from).and_then(talk);
    match own {
        // Why the daemon could not go on says more than that the conversation broke.
        Some(served) => served.stop().and(done),
        None => done,
    }
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
    let mut talk = Talk {
        sender,
        screen,
        json,
        seen: HashSet::new(),
        said: HashSet::new(),
        early: HashMap::new(),
        open: HashSet::new(),
        owed: HashSet::new(),
        aside: question.is_some().then(Aside::default),
        failed: false,
    };
    let done = match question {
        Some(text) => talk.say(text).and_then(|()| talk.run(&happened, true)),
        None => talk.run(&happened, false),
    };
    talk.sender.close();
    talk.aside.take().unwrap_or_default().tell();
    done?;
    if talk.failed && !talk.screen.is_interactive() { Err(Failure::Told) } else { Ok(()) }
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
    /// What was said and is not known to be accepted, by our own ids.
    said: HashSet<String>,
    /// Ends of messages that may be among those.
    early: HashMap<String, End>,
    /// What was accepted and has not ended, by Hearth's ids.
    open: HashSet<String>,
    /// Answers that were promised and have not come.
    owed: HashSet<String>,
    /// Where there is one question: what does not answer it, as far as it is known.
    aside: Option<Aside>,
    failed: bool,
}

/// What came while one question was asked.
#[derive(Default)]
struct Aside {
    /// What was asked, by Hearth's ids.
    asked: HashSet<String>,
    /// What may answer something else.
    others: Vec<Words>,
}

/// Something that was said here.
struct Words {
    id: String,
    speaker: Option<String>,
    text: String,
    files: Vec<String>,
    in_reply_to: Option<String>,
    /// It was shown, beside the answers.
    told: bool,
}

impl Aside {
    /// Gives what answers what was asked; anything else is shown at once, since whoever asked may not wait for the end.
    fn sort(&mut self, words: Words) -> Option<Words> {
        if words.in_reply_to.as_ref().is_some_and(|asked| self.asked.contains(asked)) {
            return Some(words);
        }
        self.others.push(words);
        // Before it is known what was asked, it may be an answer.
        if !self.asked.is_empty() {
            self.tell();
        }
        None
    }

    /// What was asked is known, or has ended with these answers, which may answer more than that: what came before of them.
    fn answers(&mut self, message: &str, answers: &[String]) -> Vec<Words> {
        self.asked.insert(message.to_owned());
        let asked = &self.asked;
        let answers = |words: &mut Words| {
            answers.contains(&words.id) || words.in_reply_to.as_ref().is_some_and(|of| asked.contains(of))
        };
        let found = self.others.extract_if(.., answers).collect();
        self.tell();
        found
    }

    /// Shows what was not shown yet to whoever looks, beside the answers.
    fn tell(&mut self) {
        for words in self.others.iter_mut().filter(|words| !words.told) {
            words.told = true;
            let files = words.files.iter().map(|file| format!("\n[file] {file}"));
            out::note(&format!("{}{}", words.text, files.collect::<String>()));
        }
    }
}

impl Talk {
    fn say(&mut self, text: &str) -> Done {
        let id = format!("tty-{:016x}", clock::random()?);
        self.said.insert(id.clone());
        Ok(self.sender.send(&Request::Say { id, text: text.to_owned() })?)
    }

    /// Goes on until the input is over and everything that was asked has been answered.
    fn run(&mut self, happened: &Receiver<Event>, mut input_over: bool) -> Done {
        while !(input_over && self.said.is_empty() && self.open.is_empty() && self.owed.is_empty()) {
            let event = happened.recv().map_err(|_| Failure::Failed("the conversation ended".to_owned()))?;
            match event {
                Event::Typed(text) if text.trim().is_empty() => {}
                Event::Typed(text) => self.say(&text)?,
                Event::InputOver if self.screen.is_interactive() => return Ok(()),
                Event::InputOver => input_over = true,
                Event::Closed(reason) => {
                    self.screen.break_off();
                    return Err(Failure::Failed(reason));
                }
                Event::Daemon(response) => self.respond(response)?,
            }
        }
        Ok(())
    }

    fn respond(&mut self, response: Response) -> Done {
        match response {
            Response::Settled { message, end } => self.settled(message, end),
            response => {
                if self.json {
                    out::json(&response)?;
                }
                self.hear(response)
            }
        }
    }

    fn hear(&mut self, response: Response) -> Done {
        match response {
            Response::Said { id, speaker, text, files, in_reply_to } => {
                if self.seen.insert(id.clone()) && !self.json {
                    let words = Words { id: id.clone(), speaker, text, files, in_reply_to, told: false };
                    let promised = self.owed.contains(&id);
                    let words = match &mut self.aside {
                        Some(aside) if !promised => aside.sort(words),
                        _ => Some(words),
                    };
                    self.show(words)?;
                }
                self.owed.remove(&id);
                // A daemon that is gone shows it again; that it is gone is heard as well.
                drop(self.sender.send(&Request::Shown { id }));
                Ok(())
            }
            Response::Accepted { id, message } => self.accepted(&id, message),
            Response::Consumed { id } => {
                // Who typed it sees what came of it; who asked one question may be gone before that is said.
                if self.said.remove(&id) && !self.json && !self.screen.is_interactive() {
                    out::note(
                        "taken as the answer to what was asked; see `hearth approvals list --all` and `hearth questions list --all`",
                    );
                }
                Ok(())
            }
            Response::Refused { id: Some(id), message, .. } if self.said.remove(&id) => {
                self.failed = true;
                if self.json { Ok(()) } else { self.screen.complain(&message) }
            }
            Response::Refused { message, .. } => Err(Failure::Failed(message)),
            _ => Ok(()),
        }
    }

    /// A message came to its end. It may be one of ours of which we have not heard yet that it was accepted.
    fn settled(&mut self, message: String, end: End) -> Done {
        if self.open.remove(&message) {
            return self.ended(&message, end);
        }
        if !self.said.is_empty() {
            self.early.insert(message, end);
        }
        Ok(())
    }

    fn accepted(&mut self, id: &str, message: String) -> Done {
        if !self.said.remove(id) {
            return Ok(());
        }
        let ended = self.early.remove(&message);
        if self.said.is_empty() {
            self.early.clear();
        }
        match ended {
            Some(end) => self.ended(&message, end),
            None => {
                let answers = self.aside.as_mut().map(|aside| aside.answers(&message, &[]));
                self.open.insert(message);
                self.show(answers.into_iter().flatten())
            }
        }
    }

    /// One of our messages came to its end; the answers that it promises may have been shown already.
    fn ended(&mut self, message: &str, end: End) -> Done {
        self.failed |= end.state != "completed";
        if self.json {
            let (state, error) = (&end.state, &end.error);
            out::json(&serde_json::json!({ "is": "settled", "message": message, "state": state, "error": error }))?;
        }
        let answers = self.aside.as_mut().map(|aside| aside.answers(message, &end.answers));
        self.owed.extend(end.answers.into_iter().filter(|answer| !self.seen.contains(answer)));
        self.show(answers.into_iter().flatten())
    }

    fn show(&mut self, all: impl IntoIterator<Item = Words>) -> Done {
        for Words { speaker, text, files, .. } in all {
            self.screen.show(speaker.as_deref(), &text, &files)?;
        }
        Ok(())
    }
}
