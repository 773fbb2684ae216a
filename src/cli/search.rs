//! `hearth search`: finds what was said. Reads the store beside the daemon.

use clap::Args;
use serde::Serialize;

use super::lookup::{self, ChatRef};
use super::{Done, Failure, entity, human_time, listed, print, time_args, zone};
use crate::clock;
use crate::config::Paths;
use crate::engine::recall::{Asked, Found, FoundText, Viewer, search as find};
use crate::model::id::{AgentId, ChatId};
use crate::state::{self, Read, Reader, Tables};

/// Filters, for the help.
const FILTERS: &str = "\
Words are found whatever their case and accents; the best matches come first, and newer ones count a little more.
  \"two words\"       the words next to each other
  begin*            words that begin so
  who:ada           from this sender; who:agent is what agents said
  chat:family       in chats with this id, address or name
  agent:main        received or said by this agent
  after:2026-04-20  since this day, time or age (7d); before: likewise
  has:file          with files
";

#[derive(Debug, Args)]
#[command(after_help = FILTERS)]
pub(super) struct SearchArgs {
    /// Words, and filters
    #[arg(required = true)]
    query: Vec<String>,
    /// Only what this agent received or said
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Only in this chat: mg7, or channel/platform-id
    #[arg(long, value_name = "CHAT")]
    chat: Option<ChatRef>,
    /// Only since then: a time like 2026-04-20T12:00, a day, or an age like 30m, 2h, 7d
    #[arg(long, value_name = "TIME", value_parser = time_args::parse)]
    since: Option<time_args::Since>,
    /// Show at most this many
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = listed::limit)]
    limit: usize,
}

/// The answer of `hearth search --json`.
#[derive(Debug, Serialize)]
struct SearchJson {
    /// The best first.
    found: Vec<FoundJson>,
    /// Whether more match.
    cut: bool,
    /// Whether older messages are not indexed yet.
    incomplete: bool,
}

#[derive(Debug, Serialize)]
struct FoundJson {
    /// The id, for `hearth why`.
    id: String,
    at: String,
    /// Folder of the agent; null for a message that waits for an approval.
    agent: Option<String>,
    /// The chat's channel and id, if it was said in a chat.
    chat: Option<String>,
    chat_id: Option<String>,
    who: String,
    /// The part of the text that matches.
    text: String,
    /// What matches: first byte and end in `text`.
    marks: Vec<[usize; 2]>,
    files: Vec<String>,
}

/// Finds what was said.
pub(super) fn search(paths: &Paths, args: &SearchArgs, json: bool) -> Done {
    let reader = Reader::open(paths.data())?;
    let (zone, words) = (zone::or_the_machines(None), args.query.join(" "));
    let agent = args.agent.as_deref().map(|agent| reader.read(|db, txn| agent_of(db, txn, agent))).transpose()?;
    let agent = match (agent, &args.agent) {
        (Some(None), Some(name)) => return Err(entity::missing("agent", name)),
        (found, _) => found.flatten(),
    };
    let chat = match &args.chat {
        Some(which) => Some(chat_of(&reader, which)?),
        None => None,
    };
    let asked = Asked {
        query: &words,
        agent,
        chat,
        after: args.since.map(time_args::Since::start),
        before: None,
        most: args.limit,
        now: clock::wall(),
        zone: &zone,
    };
    let answer = reader.read(|db, txn| match find(db, txn, &Viewer::Operator, &asked)? {
        Ok(found) => to_json(db, txn, found).map(Ok),
        Err(why) => Ok::<_, state::Error>(Err(why)),
    })?;
    let answer = answer.map_err(Failure::Failed)?;
    if json {
        return print::json(&answer);
    }
    show(&answer)
}

fn show(answer: &SearchJson) -> Done {
    if answer.found.is_empty() {
        print::line("nothing found")?;
    }
    for one in &answer.found {
        let place = [one.agent.as_deref(), one.chat.as_deref()];
        let place: Vec<&str> = place.into_iter().flatten().collect();
        let place = if place.is_empty() { "waits for an approval".to_owned() } else { place.join(" in ") };
        let who = if one.who.is_empty() { "-" } else { &one.who };
        print::line(&format!("{}  {}  {}  {who}", one.id, human_time::local(&one.at), place))?;
        print::line(&format!("    {}", marked(one)))?;
        if !one.files.is_empty() {
            print::line(&format!("    files: {}", one.files.join(", ")))?;
        }
    }
    if answer.cut {
        print::note("more matches: see --limit, or use more words");
    }
    if answer.incomplete {
        print::note("older messages are still being indexed; they are found later");
    }
    Ok(())
}

/// The text with `**` around what matches.
fn marked(one: &FoundJson) -> String {
    let mut out = String::new();
    let mut at = 0;
    for [from, to] in &one.marks {
        out.push_str(one.text.get(at..*from).unwrap_or_default());
        out.push_str("**");
        out.push_str(one.text.get(*from..*to).unwrap_or_default());
        out.push_str("**");
        at = *to;
    }
    out.push_str(one.text.get(at..).unwrap_or_default());
    out
}

fn agent_of(db: &Tables, txn: &Read<'_>, folder: &str) -> Result<Option<AgentId>, state::Error> {
    match state::Text::new(folder) {
        Ok(folder) => db.agents_by_folder.get(txn, &folder),
        Err(_) => Ok(None),
    }
}

fn chat_of(reader: &Reader, which: &ChatRef) -> Result<ChatId, Failure> {
    let found = reader.read(|db, txn| lookup::chat(db, txn, which))?;
    found.map(|(id, _)| id).ok_or_else(|| entity::missing("chat", &which.to_string()))
}

fn to_json(db: &Tables, txn: &Read<'_>, found: Found) -> Result<SearchJson, state::Error> {
    let Found { texts, cut, incomplete } = found;
    let found = texts.into_iter().map(|text| one(db, txn, text)).collect::<Result<_, _>>()?;
    Ok(SearchJson { found, cut, incomplete })
}

fn one(db: &Tables, txn: &Read<'_>, text: FoundText) -> Result<FoundJson, state::Error> {
    let chat = match text.chat {
        Some(chat) => db.chats.get(txn, &chat)?.map(|chat| format!("{}/{}", chat.channel, chat.platform_id)),
        None => None,
    };
    Ok(FoundJson {
        id: text.id.to_string(),
        at: text.at.to_string(),
        agent: text.agent.map(|agent| lookup::folder(db, txn, agent)).transpose()?,
        chat,
        chat_id: text.chat.map(|chat| chat.to_string()),
        who: text.who,
        marks: text.excerpt.marks.iter().map(|mark| [mark.start, mark.end]).collect(),
        text: text.excerpt.text,
        files: text.files,
    })
}
