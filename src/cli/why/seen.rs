//! The history of a message as the console shows it.

use std::collections::BTreeSet;

use super::find;
use super::json::{AnswerJson, EventJson, MessageJson};
use super::query::{HearthId, Query, Scope};
use super::rows::Rows;
use super::waits::Daemon;
use super::{after_colon, delivery_detail, trace};
use crate::console::view::{Decision, Step, StepKind, Why};
use crate::console::{Rank, Visitor};
use crate::model::console::CHANNEL;
use crate::model::time::Awake;
use crate::state::{self, Read, Tables};

/// The newest event that an id names, as far as a person may see it; none if there is no such event.
pub(in crate::cli) fn event(
    db: &Tables,
    txn: &Read<'_>,
    awake: Option<Awake>,
    id: &str,
    who: &Visitor,
) -> Result<Option<Why>, state::Error> {
    let query = match (id, HearthId::parse(id)) {
        ("latest", _) => Query::Latest,
        (_, Some(id)) => Query::Id(id),
        (_, None) => return Ok(None),
    };
    let found = find::find(db, txn, &query, &Scope::All, &mut Rows::new())?;
    let Some(hit) = found.hits.first() else { return Ok(None) };
    let event = trace::trace(db, txn, Daemon::Running(awake), hit)?;
    Ok(restricted(event, who).map(|event| view(id, event)))
}

/// What a person sees of an event: all of the own messages, and else what concerns agents that the person administers. Of
/// other events only an answer to the own chat with an agent is left.
fn restricted(mut event: EventJson, who: &Visitor) -> Option<EventJson> {
    if who.rank == Rank::Everything || event.sender.as_deref() == Some(who.user.to_string().as_str()) {
        return Some(event);
    }
    let sees = |agent: Option<&String>| agent.is_some_and(|agent| who.rank.sees(agent));
    let may = match event.answer.as_ref().and_then(|answer| answer.agent.as_ref()) {
        Some(agent) => sees(Some(agent)),
        // An agent that ignored a message has not read it.
        None if event.messages.is_empty() => event.wirings.iter().any(|wiring| sees(wiring.agent.as_ref())),
        None => event.messages.iter().any(|message| sees(Some(&message.agent))),
    };
    if may {
        event.messages.retain(|message| sees(Some(&message.agent)));
        event.wirings.retain(|wiring| wiring.agent.is_none() || sees(wiring.agent.as_ref()));
        let seen: BTreeSet<&str> = event.messages.iter().map(|message| message.message.as_str()).collect();
        event.timeline.retain(|step| step.message.as_deref().is_none_or(|message| seen.contains(message)));
        return Some(event);
    }
    let is_alone = event.messages.is_empty();
    let answer = event.answer.take().filter(|answer| answer.to.as_deref().is_some_and(|to| is_own_chat(to, who)))?;
    event.timeline.retain(|step| is_alone && step.message.is_none());
    Some(EventJson { answer: Some(answer), timeline: event.timeline, ..EventJson::default() })
}

/// Whether a place is a person's chat with an agent in the console.
fn is_own_chat(place: &str, who: &Visitor) -> bool {
    let chat = place.strip_prefix(CHANNEL).and_then(|rest| rest.strip_prefix('/')?.split_once('/'));
    chat.is_some_and(|(_, user)| user == who.user.to_string())
}

fn view(id: &str, event: EventJson) -> Why {
    let mut states = Vec::new();
    for message in &event.messages {
        let MessageJson { message: id, agent, state, words, .. } = message;
        states.push((format!("{id} for {agent}"), format!("{state}{}", after_colon(words.as_ref()))));
        states.extend(message.answers.iter().map(of_answer));
    }
    states.extend(event.answer.iter().filter(|_| event.messages.is_empty()).map(of_answer));
    let files: Vec<&str> = event.files.iter().map(|file| file.name.as_str()).collect();
    let heard = event.files.iter().filter_map(|file| file.transcript.as_ref()?.text.clone());
    let heard = heard.collect::<Vec<_>>().join("; ");
    let sender = event.sender.map(|sender| match &event.sender_name {
        Some(name) => format!("{sender} ({name})"),
        None => sender,
    });
    let facts = [
        ("Event", event.platform_message),
        ("Chat", event.chat),
        ("Thread", event.thread),
        ("From", sender),
        ("Text", if event.expired { Some("removed by retention".to_owned()) } else { event.text }),
        ("Files", Some(files.join(", ")).filter(|files| !files.is_empty())),
        ("Transcript", Some(heard).filter(|heard| !heard.is_empty())),
        ("Answer", event.answer.map(|answer| answer.text).filter(|text| !text.is_empty())),
        ("Damaged", Some(event.damaged.join("; ")).filter(|damaged| !damaged.is_empty())),
    ];
    let decisions = event.wirings.into_iter().map(|wiring| Decision {
        agent: wiring.agent,
        decision: wiring.decision.replace('_', " "),
        reason: wiring.words,
    });
    let step = |step: super::json::StepJson| Step { at: step.order, kind: kind(&step.what), what: step.what };
    Why {
        id: id.to_owned(),
        facts: facts.into_iter().filter_map(|(label, text)| Some((label, text?))).collect(),
        decisions: decisions.collect(),
        steps: event.timeline.into_iter().map(step).collect(),
        states,
    }
}

fn of_answer(answer: &AnswerJson) -> (String, String) {
    (answer.outbound.clone(), format!("{}{}", answer.state, delivery_detail(answer)))
}

/// Kinds of steps by words in them, most telling first. A step without any is an arrival. It only chooses a colour.
const KINDS: &[(&[&str], StepKind)] = &[
    (&["could not", "failed", "refused", "dropped", "discarded", "died", "killed"], StepKind::Trouble),
    (&["was delivered", "completed"], StepKind::Done),
    (&[" sent mo", "answer"], StepKind::Answer),
    (&["wait", "retr", "held", "approv", "limit", "budget"], StepKind::Wait),
    (&["claim", "run ", "started", "tokens", "connect", "model"], StepKind::Work),
];

fn kind(what: &str) -> StepKind {
    let has = |words: &[&str]| words.iter().any(|word| what.contains(word));
    KINDS.iter().find(|(words, _)| has(words)).map_or(StepKind::Arrival, |(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::TokenAge;
    use crate::model::address::{ChannelName, ForeignId, UserId};
    use crate::model::console::Login;
    use crate::model::id::{ConsoleSessionId, DropId};
    use crate::model::message::{Drop, Reason};
    use crate::model::time::Timestamp;
    use crate::state::{Options, Store};

    #[test]
    fn no_reason_is_shown_by_its_code() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), Options { reserve_bytes: 0, ..Options::new(1) }).unwrap();
        let owner = Visitor {
            session: ConsoleSessionId::new(1),
            user: UserId::parse("terminal:1").unwrap(),
            name: None,
            rank: Rank::Everything,
            login: Login::Link,
            seed: [0; 32],
            digest: [0; 32],
            token: TokenAge::Current,
        };
        let foreign = |text: String| ForeignId::new("id", text).unwrap();
        for (number, reason) in (1..).zip(Reason::ALL) {
            let drop = Drop {
                at: Timestamp::from_millis(i64::try_from(number).unwrap()),
                channel: ChannelName::new("net").unwrap(),
                platform_id: foreign("chat".to_owned()),
                thread: None,
                chat: None,
                agent: None,
                platform_message: Some(foreign(format!("event-{number}"))),
                sender: None,
                sender_name: None,
                reason,
            };
            let put = |db: &Tables, txn: &mut crate::state::Write<'_>| {
                db.dropped_events.append(txn, &DropId::new(number), &drop)
            };
            store.write::<_, state::Error>(put).unwrap();
            let id = DropId::new(number).to_string();
            let why = store.read(|db, txn| event(db, txn, None, &id, &owner)).unwrap().unwrap();
            let shown = format!("{:?} {:?} {:?} {:?}", why.facts, why.decisions, why.steps, why.states);
            let words: Vec<&str> = shown.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
            assert!(shown.contains(reason.explanation()), "{reason}: {shown}");
            assert!(!reason.as_str().contains('_') || !words.contains(&reason.as_str()), "{reason}: {shown}");
        }
    }
}
