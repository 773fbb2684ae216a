//! `hearth why MESSAGE`: the history of one event, with reasons. Reads the store beside the daemon.

use clap::Args;
use serde::Serialize;

use super::human_time;
use super::listed::{self, Column, Listed, or_empty};
use super::{Done, Failure, print};
use crate::config::Paths;
use crate::model::id::OutgoingId;
use crate::state::{self, Reader};

pub(super) mod find;
mod trace;

use find::Query;
use trace::EventJson;

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct WhyArgs {
    /// An id like ms12, that of an answer like mo17 or 5f0c91ab-mo17, the platform's id of a message, or `latest`
    message: Option<String>,
    /// Find the newest message that contains these words
    #[arg(long, value_name = "WORDS")]
    text: Option<String>,
}

/// The answer of `hearth why --json`.
#[derive(Debug, Serialize)]
struct WhyJson {
    /// Newest first.
    events: Vec<EventJson>,
    /// Whether the search ended before it had read the whole store.
    cut: bool,
}

/// Explains an event.
pub(super) fn why(paths: &Paths, args: &WhyArgs, json: bool) -> Done {
    let query = query(args);
    let reader = Reader::open(paths.data())?;
    let answer = reader.read(|db, txn| {
        let search = find::find(db, txn, &query)?;
        let events = search.hits.iter().map(|hit| trace::trace(db, txn, hit)).collect::<Result<_, state::Error>>()?;
        Ok::<_, state::Error>(WhyJson { events, cut: search.cut })
    })?;
    if json {
        print::json(&answer)?;
    } else {
        for (number, event) in answer.events.iter().enumerate() {
            if number > 0 {
                print::line("")?;
            }
            print(event)?;
        }
    }
    if answer.events.is_empty() {
        return Err(Failure::Failed(nothing(&query, answer.cut)));
    }
    match answer.events.iter().flat_map(|event| &event.damaged).next() {
        Some(damage) => Err(Failure::Failed(format!(
            "the store is damaged, so this is incomplete: {damage}; run `hearth check`, and restore a backup with `hearth restore \
             BACKUP --replace`"
        ))),
        None => Ok(()),
    }
}

fn query(args: &WhyArgs) -> Query {
    match (&args.message, &args.text) {
        (_, Some(words)) => Query::Words(words.clone()),
        (Some(text), None) if text == "latest" => Query::Latest,
        (Some(text), None) => match (text.parse(), text.parse()) {
            (Ok(message), _) => Query::Message(message),
            (_, Ok(answer)) => Query::Answer(answer),
            _ => Query::Platform(text.clone()),
        },
        (None, None) => Query::Latest,
    }
}

fn nothing(query: &Query, cut: bool) -> String {
    let what = match query {
        Query::Message(id) => return format!("message not found: {id}; `hearth why latest` explains the newest one"),
        Query::Answer(OutgoingId { epoch: None, id }) => {
            return format!("no message has the answer {id}; `hearth why latest` explains the newest message");
        }
        Query::Answer(id) => {
            return format!(
                "{id} is no answer to a message in this store. After a restore, numbers are reused with another \
                 prefix: the message may be in the store that was moved aside"
            );
        }
        Query::Platform(id) => format!("no message or dropped message has the platform id {id}"),
        Query::Words(words) => format!("no stored message contains \"{words}\""),
        Query::Latest => return "no messages yet".to_owned(),
    };
    let looked = if cut { "of the newest ones, " } else { "" };
    format!(
        "{looked}{what}; Hearth keeps no record of messages in chats without agents that do not address the bot, and no text of dropped messages"
    )
}

fn print(event: &EventJson) -> Done {
    let name = event.platform_message.as_ref().map_or_else(|| "without a platform's id".to_owned(), Clone::clone);
    let place = event.chat.clone().unwrap_or_else(|| "nowhere".to_owned());
    let thread = event.thread.as_ref().map_or_else(String::new, |thread| format!(" (thread {thread})"));
    print::line(&format!("event   {name} in {place}{thread}"))?;
    let name = event.sender_name.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
    let sender = event.sender.clone().unwrap_or_else(|| "unknown".to_owned());
    print::line(&format!("from    {sender}{name}"))?;
    if let Some(text) = &event.text {
        print::line(&format!("text    {text}"))?;
    }
    if event.expired {
        print::line("text    removed by retention")?;
    }
    for file in &event.files {
        let error = file.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
        print::line(&format!("file    {} ({} bytes){error}", file.name, file.size))?;
    }
    print::line("")?;
    listed::table(&event.wirings)?;
    print::line("")?;
    listed::table(&event.timeline)?;
    for message in &event.messages {
        print::line("")?;
        let words = message.words.as_ref().map_or_else(String::new, |words| format!(": {words}"));
        print::line(&format!("{} is {}{words}", message.message, message.state))?;
        for answer in &message.answers {
            let words = answer.words.as_ref().map_or_else(String::new, |words| format!(": {words}"));
            print::line(&format!("  {} is {}{words}", answer.outbound, answer.state))?;
        }
    }
    Ok(())
}

impl Listed for trace::WiringJson {
    const PLURAL: &'static str = "wirings";
    const COLUMNS: &'static [Column<Self>] = &[
        ("AGENT", |wiring| wiring.agent.clone().unwrap_or_else(|| "-".to_owned())),
        ("DECISION", |wiring| wiring.decision.replace('_', " ")),
        ("REASON", |wiring| wiring.words.clone()),
    ];
}

impl Listed for trace::StepJson {
    const PLURAL: &'static str = "timeline";
    const COLUMNS: &'static [Column<Self>] = &[
        ("TIME", |step| human_time::local(&step.at)),
        ("MESSAGE", |step| or_empty(step.message.as_ref())),
        ("EVENT", |step| step.what.clone()),
    ];
}
