//! `hearth why MESSAGE`: everything that became of one event, and why. Reads the store beside the daemon.

use clap::Args;
use serde::Serialize;

use super::{Done, Failure, out};
use crate::config::Paths;
use crate::state::{self, Reader};

pub(super) mod find;
mod trace;

use find::Query;
use trace::EventJson;

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct WhyArgs {
    /// An id like ms12, the platform's id of a message, or `latest`
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
    /// Whether there is more in the store than was looked at.
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
        out::json(&answer)?;
    } else {
        for (number, event) in answer.events.iter().enumerate() {
            if number > 0 {
                out::line("")?;
            }
            print(event)?;
        }
    }
    if answer.events.is_empty() { Err(Failure::Failed(nothing(&query, answer.cut))) } else { Ok(()) }
}

fn query(args: &WhyArgs) -> Query {
    match (&args.message, &args.text) {
        (_, Some(words)) => Query::Words(words.clone()),
        (Some(text), None) if text == "latest" => Query::Latest,
        (Some(text), None) => text.parse().map_or_else(|_| Query::Platform(text.clone()), Query::Message),
        (None, None) => Query::Latest,
    }
}

fn nothing(query: &Query, cut: bool) -> String {
    let what = match query {
        Query::Message(id) => return format!("there is no message {id}; `hearth why latest` explains the newest one"),
        Query::Platform(id) => format!("no message and no refusal has the platform's id {id}"),
        Query::Words(words) => format!("no stored message has \"{words}\" in it"),
        Query::Latest => return "nothing has been said yet".to_owned(),
    };
    let looked = if cut { "of the newest ones, " } else { "" };
    format!(
        "{looked}{what}; a message leaves no trace where nobody listens and the bot is not addressed, and refusals keep no text"
    )
}

fn print(event: &EventJson) -> Done {
    let name = event.platform_message.as_ref().map_or_else(|| "without a platform's id".to_owned(), Clone::clone);
    let place = event.chat.clone().unwrap_or_else(|| "nowhere".to_owned());
    let thread = event.thread.as_ref().map_or_else(String::new, |thread| format!(" (thread {thread})"));
    out::line(&format!("event   {name} in {place}{thread}"))?;
    let name = event.sender_name.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
    let sender = event.sender.clone().unwrap_or_else(|| "nobody that is known".to_owned());
    out::line(&format!("from    {sender}{name}"))?;
    if let Some(text) = &event.text {
        out::line(&format!("text    {text}"))?;
    }
    if event.expired {
        out::line("text    expired: what it said is not kept any more")?;
    }
    for file in &event.files {
        let error = file.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
        out::line(&format!("file    {} ({} bytes){error}", file.name, file.size))?;
    }
    out::line("")?;
    let row = |wiring: &trace::WiringJson| {
        let agent = wiring.agent.clone().unwrap_or_else(|| "-".to_owned());
        vec![agent, wiring.decision.to_owned(), wiring.words.clone()]
    };
    out::table(&["AGENT", "DECISION", "WHY"], event.wirings.iter().map(row).collect())?;
    out::line("")?;
    let row =
        |step: &trace::StepJson| vec![step.at.clone(), step.message.clone().unwrap_or_default(), step.what.clone()];
    out::table(&["AT", "MESSAGE", "WHAT"], event.timeline.iter().map(row).collect())?;
    for message in &event.messages {
        out::line("")?;
        let words = message.words.as_ref().map_or_else(String::new, |words| format!(": {words}"));
        out::line(&format!("{} is {}{words}", message.message, message.state))?;
        for answer in &message.answers {
            let words = answer.words.as_ref().map_or_else(String::new, |words| format!(": {words}"));
            out::line(&format!("  {} is {}{words}", answer.outbound, answer.state))?;
        }
    }
    Ok(())
}
