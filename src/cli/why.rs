//! `hearth why`: the history of one event, or the state of a task, approval or session, with reasons. Reads the store
//! beside the daemon.

use clap::Args;
use serde::Serialize;

use super::human_time;
use super::labels;
use super::listed::{self, Column, Listed, or_empty};
use super::lookup::ChatRef;
use super::{Done, Failure, entity, print};
use crate::config::Paths;
use crate::model::address::{ChannelName, ForeignId};
use crate::model::id::OutgoingId;
use crate::state::{self, ChatKey, Reader};

mod answers;
mod find;
mod heard;
mod json;
mod mutes;
mod query;
mod rows;
mod seen;
mod spoken;
mod subject;
mod trace;
mod waits;

use find::SearchResult;
use json::{AnswerJson, EventJson, MessageJson};
use query::{HearthId, Query, Scope};
use rows::Rows;
pub(super) use seen::event;
use subject::Subject;
use waits::Daemon;

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").args(["message", "text"]).required(true))]
pub(super) struct WhyArgs {
    /// An id: of a message (ms12, or the platform's own), an answer (mo17, 5f0c91ab-mo17), a task (ta1), an approval (ap1),
    /// a question (qu1), a session (se8), a skip (sk1), a held message (mb3) or a dropped message (dr4); or `latest`
    message: Option<String>,
    /// Find the newest messages that contain these words
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    text: Option<String>,
    /// Only messages of this channel; MESSAGE is the platform's id, or `latest`
    #[arg(long, value_name = "NAME", conflicts_with = "chat")]
    channel: Option<String>,
    /// Only messages of this chat, mg7 or channel/platform-id; MESSAGE is the platform's id, or `latest`
    #[arg(long, value_name = "CHAT")]
    chat: Option<ChatRef>,
}

/// The answer of `hearth why --json`.
#[derive(Debug, Serialize)]
struct WhyJson {
    /// The subject of the id, if it is not an event.
    #[serde(flatten)]
    subject: Option<Subject>,
    /// Newest first.
    events: Vec<EventJson>,
    /// Whether more events match.
    cut: bool,
    /// Number of rows that the search skipped because they cannot be read.
    unreadable: u64,
    /// Number of chats in which the events are.
    #[serde(skip)]
    chats: usize,
    /// Whether older outgoing and dropped messages may have the same id in other chats.
    #[serde(skip)]
    newest_only: bool,
}

/// Explains an event.
pub(super) fn why(paths: &Paths, args: &WhyArgs, json: bool) -> Done {
    let reader = Reader::open(paths.data())?;
    let scope = scope(&reader, args)?;
    let query = query(args, &scope)?;
    let daemon = Daemon::ask(paths);
    let answer = explain(paths, &reader, daemon, &query, &scope)?;
    if json {
        print::json(&answer)?;
    } else {
        print(&answer)?;
    }
    if answer.events.is_empty() && answer.subject.is_none() {
        return Err(Failure::Failed(nothing(&query, &scope)));
    }
    if let (Query::Platform(id), 2..) = (&query, answer.chats) {
        print::note(&format!(
            "{} chats have a message with the id {id}: choose one with `--chat CHAT`, or a network with `--channel NAME`",
            answer.chats
        ));
    }
    if let (Query::Platform(id), true) = (&query, answer.newest_only) {
        print::note(&format!(
            "of outgoing and dropped messages, only the newest {} were looked through for {id}; `--chat CHAT` explains one \
             of another chat",
            find::NEWEST
        ));
    }
    if answer.cut {
        print::note("more messages match; only the newest ones are shown");
    }
    match answer.events.iter().flat_map(|event| &event.damaged).next() {
        Some(damage) => Err(Failure::Failed(format!(
            "the store is damaged, so this is incomplete: {damage}; run `hearth check`, and restore a backup with `hearth restore \
             BACKUP --replace`"
        ))),
        None if answer.unreadable > 0 => Err(Failure::Failed(format!(
            "the store is damaged, so this may be incomplete: {} cannot be read; run `hearth check`",
            labels::count(answer.unreadable, "row", "rows")
        ))),
        None => Ok(()),
    }
}

fn explain(paths: &Paths, reader: &Reader, daemon: Daemon, query: &Query, scope: &Scope) -> Result<WhyJson, Failure> {
    let subject = match query {
        Query::Id(id) => subject::find(paths, reader, daemon, *id)?,
        _ => None,
    };
    let mut rows = Rows::new();
    let (found, events) = reader.read(|db, txn| {
        let found = find::find(db, txn, query, scope, &mut rows)?;
        let events =
            found.hits.iter().map(|hit| trace::trace(db, txn, daemon, hit)).collect::<Result<_, state::Error>>();
        Ok::<_, state::Error>((SearchResult { hits: Vec::new(), ..found }, events?))
    })?;
    let SearchResult { cut, chats, newest_only, .. } = found;
    let answer = WhyJson { subject, events, cut, unreadable: rows.unreadable, chats, newest_only };
    // A platform may use ids that look like those of Hearth.
    match query {
        Query::Id(id) if answer.events.is_empty() && answer.subject.is_none() => {
            let same = Query::Platform(ForeignId::new("the id", id.to_string())?);
            explain(paths, reader, daemon, &same, scope)
        }
        _ => Ok(answer),
    }
}

/// The part of the store that is searched.
fn scope(reader: &Reader, args: &WhyArgs) -> Result<Scope, Failure> {
    match (&args.channel, &args.chat) {
        (Some(channel), _) => {
            let name = ChannelName::new(channel.as_str())?;
            Ok(Scope::channel(&name))
        }
        (None, Some(ChatRef::Place(channel, chat))) => Ok(Scope::Chat(ChatKey::of(channel, chat))),
        (None, Some(ChatRef::Id(id))) => {
            let row = reader.read(|db, txn| db.chats.get(txn, id))?;
            let chat = row.ok_or_else(|| entity::missing("chat", &id.to_string()))?;
            Ok(Scope::Chat(ChatKey::of(&chat.channel, &chat.platform_id)))
        }
        (None, None) => Ok(Scope::All),
    }
}

fn query(args: &WhyArgs, scope: &Scope) -> Result<Query, Failure> {
    match (&args.message, &args.text) {
        (_, Some(words)) => Ok(Query::Words(words.clone())),
        (Some(text), None) if text == "latest" => Ok(Query::Latest),
        (Some(text), None) => match HearthId::parse(text).filter(|_| *scope == Scope::All) {
            Some(id) => Ok(Query::Id(id)),
            None if text.is_empty() => Err(Failure::Failed("the id is empty".to_owned())),
            None => Ok(Query::Platform(ForeignId::new("the id", text.as_str())?)),
        },
        (None, None) => Ok(Query::Latest),
    }
}

fn nothing(query: &Query, scope: &Scope) -> String {
    let place = if *scope == Scope::All { "" } else { " there" };
    let what = match query {
        Query::Id(HearthId::Message(id)) => {
            return format!("message not found: {id}; `hearth why latest` explains the newest one");
        }
        Query::Id(HearthId::Answer(OutgoingId { epoch: None, id })) => {
            return format!(
                "answer not found: {id}; retention removes old ones, see `retention` in docs/configuration.md"
            );
        }
        Query::Id(HearthId::Answer(id)) => {
            return format!(
                "{id} is not an answer in this store. After a restore, numbers are reused with another \
                 prefix: the message may be in the store that was moved aside"
            );
        }
        Query::Id(HearthId::Dropped(id)) => {
            return format!("dropped message not found: {id}; `hearth dropped` lists those that are kept");
        }
        Query::Id(HearthId::Task(id)) => return format!("task not found: {id}; see `hearth tasks list --all`"),
        Query::Id(HearthId::Approval(id)) => {
            return format!("approval not found: {id}; see `hearth approvals list --all`");
        }
        Query::Id(HearthId::Question(id)) => {
            return format!("question not found: {id}; see `hearth questions list --all`");
        }
        Query::Id(HearthId::Session(id)) => return format!("session not found: {id}; see `hearth sessions list`"),
        Query::Id(HearthId::Skip(id)) => return format!("skip not found: {id}; see `hearth skips list --all`"),
        Query::Id(HearthId::Held(id)) => return format!("no message waits under the id {id}"),
        Query::Platform(id) => format!("no message{place} has the platform id {}", labels::excerpt(id.as_str())),
        Query::Words(words) => format!("no stored message{place} contains \"{}\"", labels::excerpt(words)),
        Query::Latest => return format!("no messages{place} yet"),
    };
    format!(
        "{what}; Hearth keeps no record of messages in chats without agents that do not address the bot, no text of dropped \
         messages, and nothing that retention removed"
    )
}

fn print(answer: &WhyJson) -> Done {
    if let Some(subject) = &answer.subject {
        subject.print()?;
    }
    for (number, event) in answer.events.iter().enumerate() {
        if number > 0 || answer.subject.is_some() {
            print::line("")?;
        }
        print_event(event)?;
    }
    Ok(())
}

fn print_event(event: &EventJson) -> Done {
    if let Some(answer) = &event.answer {
        print_answer(answer)?;
        print::line("")?;
        if event.messages.is_empty() {
            return listed::table(&event.timeline);
        }
    }
    print_head(event)?;
    print::line("")?;
    listed::table(&event.wirings)?;
    print::line("")?;
    listed::table(&event.timeline)?;
    for message in &event.messages {
        print::line("")?;
        print_message(message)?;
    }
    Ok(())
}

fn print_answer(answer: &AnswerJson) -> Done {
    let AnswerJson { outbound, outgoing_id, text, state, .. } = answer;
    let known = if outbound == outgoing_id { String::new() } else { format!(", outgoing id {outgoing_id}") };
    print::line(&format!("answer  {outbound}{known}"))?;
    let from = match (&answer.agent, &answer.session, answer.incarnation) {
        (Some(agent), Some(session), Some(run)) => format!("{agent}, run {run} of {session}"),
        _ => "Hearth".to_owned(),
    };
    print::line(&format!("from    {from}"))?;
    print::line(&format!("to      {}", answer.to_words.as_deref().unwrap_or("no chat")))?;
    if !text.is_empty() {
        print::line(&format!("text    {text}"))?;
    }
    if let Some(written) = &answer.spoken_form_of {
        print::line(&format!("text    the spoken form of {written}"))?;
    }
    if let Some(about) = &answer.about {
        print::line(&format!("card    asks about {about}"))?;
    }
    if let Some(id) = &answer.platform_message {
        print::line(&format!("id      {id} on its network"))?;
    }
    print::line(&format!("state   {state}{}", delivery_detail(answer)))
}

fn print_head(event: &EventJson) -> Done {
    let made = event.messages.first().and_then(|message| message.task.as_ref());
    if let (Some(task), None) = (made, &event.chat) {
        print::line(&format!("event   a run of task {task}"))?;
        return print_content(event);
    }
    let name = event.platform_message.as_ref().map_or_else(|| "without a platform's id".to_owned(), Clone::clone);
    let place = event.chat.clone().unwrap_or_else(|| "nowhere".to_owned());
    let thread = event.thread.as_ref().map_or_else(String::new, |thread| format!(" (thread {thread})"));
    print::line(&format!("event   {name} in {place}{thread}"))?;
    let name = event.sender_name.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
    let sender = event.sender.clone().unwrap_or_else(|| "unknown".to_owned());
    print::line(&format!("from    {sender}{name}"))?;
    print_content(event)
}

fn print_content(event: &EventJson) -> Done {
    if let Some(text) = &event.text {
        print::line(&format!("text    {text}"))?;
    }
    if event.expired {
        print::line("text    removed by retention")?;
    }
    for file in &event.files {
        let error = file.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
        print::line(&format!("file    {} ({} bytes){error}", file.name, file.size))?;
        if let Some(text) = file.transcript.as_ref().and_then(|transcript| transcript.text.as_ref()) {
            print::line(&format!("heard   {text}"))?;
        }
    }
    Ok(())
}

fn print_message(message: &MessageJson) -> Done {
    print::line(&format!("{} is {}{}", message.message, message.state, after_colon(message.words.as_ref())))?;
    for answer in &message.answers {
        let to = answer.to_words.as_ref().map_or_else(String::new, |to| format!(" to {to}"));
        print::line(&format!("  {}{to} is {}{}", answer.outbound, answer.state, delivery_detail(answer)))?;
    }
    Ok(())
}

/// Why an answer is in its state, and its next try.
fn delivery_detail(answer: &AnswerJson) -> String {
    let ahead = |at: &String| human_time::ahead(at).unwrap_or_else(|| "now".to_owned());
    let next = answer.next_try.as_ref().map_or_else(String::new, |at| format!(", next try {}", ahead(at)));
    format!("{}{next}", after_colon(answer.words.as_ref()))
}

fn after_colon(words: Option<&String>) -> String {
    words.map_or_else(String::new, |words| format!(": {words}"))
}

impl Listed for json::WiringJson {
    const PLURAL: &'static str = "wirings";
    const COLUMNS: &'static [Column<Self>] = &[
        ("AGENT", |wiring| wiring.agent.clone().unwrap_or_else(|| "-".to_owned())),
        ("DECISION", |wiring| wiring.decision.replace('_', " ")),
        ("REASON", |wiring| wiring.words.clone()),
    ];
}

impl Listed for json::StepJson {
    const PLURAL: &'static str = "timeline";
    const COLUMNS: &'static [Column<Self>] = &[
        ("TIME", |step| human_time::local(&step.at)),
        ("MESSAGE", |step| or_empty(step.message.as_ref())),
        ("EVENT", |step| step.what.clone()),
    ];
}
