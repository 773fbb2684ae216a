//! `hearth up` and `hearth chat`.

use std::collections::{HashMap, HashSet};
use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender as Mailer, channel};
use std::time::Duration;

use clap::Args;

use super::{Done, Failure, labels, offline, print, serve};
use crate::channel::terminal;
use crate::clock;
use crate::config::{Paths, seams};
use crate::daemon::DaemonOptions;
use crate::daemon::opening::Opening;
use crate::model::message::Reason;
use crate::socket::client::{Client, Sender, unexpected};
use crate::socket::protocol::{End, Request, Response};
use work::Work;

mod prompt;
mod work;

#[derive(Debug, Args)]
pub(super) struct UpArgs {
    /// Folder of the agent to talk to
    #[arg(long, value_name = "FOLDER")]
    agent: Option<String>,
    /// Create a store even where parts of an installation without one, or other files, are
    #[arg(long)]
    new: bool,
}

#[derive(Debug, Args)]
pub(super) struct ChatArgs {
    /// One question; unrelated messages are shown on standard error. Without it, talk until Ctrl-D
    #[arg(value_parser = question)]
    text: Option<String>,
    /// Folder of the agent to talk to
    #[arg(long, value_name = "FOLDER")]
    agent: Option<String>,
}

/// Parses a non-empty question. An empty one would start a conversation.
fn question(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() { Err("the text is empty; omit it to start a conversation") } else { Ok(text.to_owned()) }
}

/// Sets up what is missing, prints the paths, and starts a conversation.
pub(super) fn up(paths: &Paths, args: &UpArgs, json: bool) -> Done {
    print::note(&format!("data directory: {}", paths.data().display()));
    with_daemon(paths, Opening::or_new(args.new), |mut client| {
        if let Response::Status(daemon) = client.ask(&Request::Status)? {
            print::note(&format!("runtime: {}, because {}", daemon.runtime, daemon.runtime_why));
        }
        let attached = attach(&mut client, args.agent.as_deref(), shows_work(json))?;
        greet(&attached);
        converse(paths, client, &attached, None, json)
    })
}

/// Says which agent answers, with what, who its owner is, and what to do next.
fn greet(attached: &Attached) {
    let Attached { folder, provider, owners, .. } = attached;
    let echoes = provider == "echo";
    let does = if echoes { ", which only repeats what you write" } else { "" };
    print::note(&format!("agent: {folder}, with the provider {provider}{does}"));
    if owners.is_empty() {
        print::note("owner: none; `hearth roles grant CHANNEL:ID owner` makes one");
    } else {
        let me = format!("{}:{}", terminal::NAME, rustix::process::getuid().as_raw());
        let named: Vec<_> =
            owners.iter().map(|id| if *id == me { format!("{id} (you)") } else { id.clone() }).collect();
        print::note(&format!("owner: {}", named.join(", ")));
    }
    if echoes {
        print::note("next: `hearth setup` connects a model and a chat network, by asking questions");
    }
}

/// Starts a conversation, with the running daemon or with a temporary one.
pub(super) fn chat(paths: &Paths, args: &ChatArgs, json: bool) -> Done {
    with_daemon(paths, Opening::Existing, |mut client| {
        let attached = attach(&mut client, args.agent.as_deref(), shows_work(json))?;
        converse(paths, client, &attached, args.text.as_deref(), json)
    })
}

/// The answers to one question.
#[derive(Debug, Default)]
pub(super) struct Answered {
    pub(super) texts: Vec<String>,
    /// Whether the question did not get its answer.
    pub(super) failed: bool,
    /// Why not, if it is known.
    pub(super) error: Option<String>,
}

/// Asks an agent one question, with the running daemon or with a temporary one.
pub(super) fn ask(paths: &Paths, agent: &str, question: &str) -> Result<Answered, Failure> {
    let mut answered = Answered::default();
    with_daemon(paths, Opening::Existing, |mut client| {
        let attached = attach(&mut client, Some(agent), shows_work(false))?;
        let mut talk = Conversation::new(client.sender()?, prompt::Screen::collecting(), &attached);
        let (events, happened) = channel();
        listen(client, events);
        let done = talk.say(question).and_then(|()| talk.run(&happened, true));
        talk.sender.close();
        answered = Answered { texts: talk.screen.collected(), failed: talk.failed, error: talk.error };
        done
    })?;
    Ok(answered)
}

/// Runs something with a connection to the daemon, which is started for so long if none runs.
pub(super) fn with_daemon(paths: &Paths, opening: Opening, talk: impl FnOnce(Client) -> Done) -> Done {
    let options = DaemonOptions { policy: seams::policy(), runtime: None, metrics: None, opening };
    let here = || serve::Served::start(paths, &options, serve::EndedBy::Caller).map(|served| (None, Some(served)));
    let (client, own) = offline::daemon_or(paths, |client| (Some(client), None), here)?;
    let connected = client.map_or_else(|| Client::connect(paths), Ok);
    let done = connected.map_err(Failure::from).and_then(talk);
    match own {
        // The daemon's failure explains more than the broken connection.
        Some(served) => served.stop().and(done),
        None => done,
    }
}

/// What ends a conversation on a terminal.
const LEAVE: [&str; 4] = ["exit", "quit", "/exit", "/quit"];
/// What can be typed on a terminal.
const HELP: &str = "what you can type:
  any text                  a message to the agent; a number, or the words of a button, answers an open question
  /stop                     stop what the agent is doing; /stop all freezes it
  /new                      begin a new conversation
  /status, /usage           what the agent does; messages, turns and costs of today
  /model NAME, /think LEVEL use another model or effort here; default goes back
  /tasks, /approvals        the agent's tasks here; what you can decide
  /clear                    begin a new conversation, after everything written before
  /compact                  shorten the conversation (agents with a model)
  /context, /cost, /files   what the conversation holds, costs and has read (agents with a model)
  exit, quit                leave, like Ctrl-D";

fn is_command(text: &str, commands: &[&str]) -> bool {
    commands.iter().any(|command| text.trim().eq_ignore_ascii_case(command))
}

/// An event of a conversation.
enum Event {
    Daemon(Box<Response>),
    Closed(String),
    Typed(String),
    InputOver,
}

/// The agent of a conversation.
struct Attached {
    folder: String,
    name: String,
    provider: String,
    owners: Vec<String>,
    /// Whether to show what the agent does.
    shows_work: bool,
}

/// Whether a person sees what the agent does: not in the output of programs.
fn shows_work(json: bool) -> bool {
    !json && std::io::stdout().is_terminal() && print::coloured(&std::io::stderr())
}

fn attach(client: &mut Client, agent: Option<&str>, shows_work: bool) -> Result<Attached, Failure> {
    match client.ask(&Request::Attach { agent: agent.map(str::to_owned), tools: shows_work, writing: shows_work })? {
        Response::Attached { agent, name, provider, owners } => {
            Ok(Attached { folder: agent, name, provider, owners, shows_work })
        }
        other => Err(unexpected(other).into()),
    }
}

fn converse(paths: &Paths, client: Client, attached: &Attached, question: Option<&str>, json: bool) -> Done {
    let sender = client.sender()?;
    let (events, happened) = channel();
    listen(client, events.clone());
    let screen = match question {
        Some(_) => prompt::Screen::plain(),
        None if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && !json => {
            print::note(&format!("talking to {}; `/help` lists what you can type, Ctrl-D leaves", attached.name));
            prompt::interactive(&paths.data().join("history"), events)?
        }
        None => prompt::piped(events),
    };
    let aside = question.is_some().then(UnrelatedMessages::default);
    let mut talk = Conversation { json, aside, ..Conversation::new(sender, screen, attached) };
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
                Ok(response) => Event::Daemon(Box::new(response)),
                Err(error) => Event::Closed(error.to_string()),
            };
            let over = matches!(event, Event::Closed(_));
            if events.send(event).is_err() || over {
                return;
            }
        }
    });
}

struct Conversation {
    sender: Sender,
    screen: prompt::Screen,
    /// What the agent does, if it is shown.
    work: Option<Work>,
    json: bool,
    /// Ids of shown messages, so that each is shown once.
    seen: HashSet<String>,
    /// Client ids of sent messages that are not accepted yet.
    said: HashSet<String>,
    /// Ends of messages that may belong to `said`.
    early: HashMap<String, End>,
    /// Hearth's ids of accepted messages that have not ended.
    open: HashSet<String>,
    /// Ids of announced answers that have not arrived.
    owed: HashSet<String>,
    /// Only for a single question: messages that do not answer it, as far as known.
    aside: Option<UnrelatedMessages>,
    failed: bool,
    /// Why a message failed.
    error: Option<String>,
}

/// Messages that arrive while a single question is open.
#[derive(Default)]
struct UnrelatedMessages {
    /// Hearth's ids of the asked messages.
    asked: HashSet<String>,
    /// Messages that may answer something else.
    others: Vec<ReceivedMessage>,
}

struct ReceivedMessage {
    id: String,
    speaker: Option<String>,
    text: String,
    files: Vec<String>,
    in_reply_to: Option<String>,
    /// Whether it was already shown on standard error.
    told: bool,
}

impl UnrelatedMessages {
    /// Returns `words` if it answers a message of this command. Anything else is shown at once, because the user may
    /// not wait for the end.
    fn sort(&mut self, words: ReceivedMessage) -> Option<ReceivedMessage> {
        if words.in_reply_to.as_ref().is_some_and(|asked| self.asked.contains(asked)) {
            return Some(words);
        }
        self.others.push(words);
        // Until the ids of the asked messages are known, any message may be an answer.
        if !self.asked.is_empty() {
            self.tell();
        }
        None
    }

    /// What was asked is known, or has ended with these answers, which may answer more than that: what came before of
    /// them.
    fn answers(&mut self, message: &str, answers: &[String]) -> Vec<ReceivedMessage> {
        self.asked.insert(message.to_owned());
        let asked = &self.asked;
        let answers = |words: &mut ReceivedMessage| {
            answers.contains(&words.id) || words.in_reply_to.as_ref().is_some_and(|of| asked.contains(of))
        };
        let found = self.others.extract_if(.., answers).collect();
        self.tell();
        found
    }

    /// Returns a message that turned out to answer this command.
    fn taken(&mut self, id: &str) -> Vec<ReceivedMessage> {
        self.others.extract_if(.., |words| words.id == id).collect()
    }

    /// Shows unrelated messages that were not shown yet, on standard error.
    fn tell(&mut self) {
        for words in self.others.iter_mut().filter(|words| !words.told) {
            words.told = true;
            let files = words.files.iter().map(|file| format!("\n[file] {file}"));
            print::note(&format!("{}{}", words.text, files.collect::<String>()));
        }
    }
}

impl Conversation {
    fn new(sender: Sender, screen: prompt::Screen, attached: &Attached) -> Self {
        Self {
            sender,
            screen,
            work: attached.shows_work.then(|| Work::of(attached.name.clone())),
            json: false,
            seen: HashSet::new(),
            said: HashSet::new(),
            early: HashMap::new(),
            open: HashSet::new(),
            owed: HashSet::new(),
            aside: None,
            failed: false,
            error: None,
        }
    }

    fn say(&mut self, text: &str) -> Done {
        let id = format!("tty-{:016x}", clock::random()?);
        self.said.insert(id.clone());
        Ok(self.sender.send(&Request::Say { id, text: text.to_owned() })?)
    }

    /// Runs until the input ends and every question is answered.
    fn run(&mut self, happened: &Receiver<Event>, mut input_over: bool) -> Done {
        while !input_over || self.is_open() {
            let wait = if self.is_open() { work::TICK } else { Duration::MAX };
            self.show_work(false)?;
            let event = match happened.recv_timeout(wait) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => {
                    self.show_work(true)?;
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::Failed("the conversation ended".to_owned()));
                }
            };
            if let Event::Typed(text) = &event {
                self.screen.typed(text)?;
            }
            match event {
                Event::Typed(text) if text.trim().is_empty() => {}
                Event::Typed(text) if self.screen.is_interactive() && is_command(&text, &LEAVE) => return Ok(()),
                Event::Typed(text) if self.screen.is_interactive() && is_command(&text, &["/help"]) => {
                    self.screen.show(None, HELP, &[])?;
                }
                Event::Typed(text) => self.say(&text)?,
                Event::InputOver if self.screen.is_interactive() => return Ok(()),
                Event::InputOver => input_over = true,
                Event::Closed(reason) => {
                    self.screen.break_off();
                    return Err(Failure::Failed(reason));
                }
                Event::Daemon(response) => self.respond(*response)?,
            }
        }
        Ok(())
    }

    /// Whether answers are awaited.
    fn is_open(&self) -> bool {
        !(self.said.is_empty() && self.open.is_empty() && self.owed.is_empty())
    }

    /// Shows what the agent does, if it is time for that, or that it does nothing any more.
    fn show_work(&mut self, now: bool) -> Done {
        let open = self.is_open();
        let Some(work) = &mut self.work else { return Ok(()) };
        let text = work.text(open, prompt::line_columns());
        if now || !open { self.screen.work(text) } else { Ok(()) }
    }

    fn respond(&mut self, response: Response) -> Done {
        match response {
            Response::Settled { message, end } => self.settled(message, end),
            response => {
                if self.json {
                    print::json(&response)?;
                }
                self.hear(response)
            }
        }
    }

    fn hear(&mut self, response: Response) -> Done {
        match response {
            Response::Said { id, speaker, text, files, in_reply_to } => {
                if self.seen.insert(id.clone()) && !self.json {
                    let words = ReceivedMessage { id: id.clone(), speaker, text, files, in_reply_to, told: false };
                    let promised = self.owed.contains(&id);
                    let words = match &mut self.aside {
                        Some(aside) if !promised => aside.sort(words),
                        _ => Some(words),
                    };
                    self.show(words)?;
                }
                self.owed.remove(&id);
                // If the daemon is gone, the next one shows the message again. The reader notices that it is gone.
                drop(self.sender.send(&Request::Shown { id }));
                Ok(())
            }
            Response::Accepted { id, message } => self.accepted(&id, message),
            Response::Consumed { id, reason, answer } => {
                // An interactive user sees the result of the answer. With a single question the command may end before
                // that, so it prints a note.
                let is_ours = self.said.remove(&id);
                if is_ours && reason == Reason::PairingCode.as_str() && !self.json {
                    print::note(&format!("this was not sent: {}", Reason::PairingCode.explanation()));
                }
                if let Some(answer) = answer.filter(|_| is_ours) {
                    let early = self.aside.as_mut().map(|aside| aside.taken(&answer));
                    self.owed.extend((!self.seen.contains(&answer)).then_some(answer));
                    self.show(early.into_iter().flatten())?;
                }
                if is_ours && reason == Reason::Answer.as_str() && !self.json && !self.screen.is_interactive() {
                    print::note(
                        "taken as the answer to what was asked; see `hearth approvals list --all` and `hearth questions list --all`",
                    );
                }
                Ok(())
            }
            Response::Refused { id: Some(id), refusal } if self.said.remove(&id) => {
                self.failed = true;
                if self.json { Ok(()) } else { self.screen.complain(&refusal.message) }
            }
            Response::Refused { refusal, .. } => Err(Failure::Failed(refusal.message)),
            Response::Tool { name } => {
                if let Some(work) = &mut self.work {
                    work.tool(name);
                }
                Ok(())
            }
            Response::Writing { message, text } => {
                if let Some(work) = self.work.as_mut().filter(|_| self.open.contains(&message)) {
                    work.writes(&text);
                    return self.show_work(true);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Handles the end of a message. It may be our own message whose acceptance has not arrived yet.
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

    /// Handles the end of one of our messages. Its announced answers may have been shown already.
    fn ended(&mut self, message: &str, end: End) -> Done {
        self.failed |= end.state != "completed";
        self.error = end.error.as_deref().map(labels::error).or_else(|| self.error.take());
        if self.json {
            let (state, error) = (&end.state, &end.error);
            print::json(&serde_json::json!({ "is": "settled", "message": message, "state": state, "error": error }))?;
        }
        let answers = self.aside.as_mut().map(|aside| aside.answers(message, &end.answers));
        self.owed.extend(end.answers.into_iter().filter(|answer| !self.seen.contains(answer)));
        self.show(answers.into_iter().flatten())
    }

    fn show(&mut self, all: impl IntoIterator<Item = ReceivedMessage>) -> Done {
        for ReceivedMessage { speaker, text, files, .. } in all {
            if let Some(work) = &mut self.work {
                work.writes("");
            }
            self.screen.show(speaker.as_deref(), &text, &files)?;
        }
        Ok(())
    }
}
