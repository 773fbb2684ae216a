//! Parses an agent's files into validated types. Pure. Every refusal has a reason.

use hearth_wire::limits::ENDS_PER_ACK;
use hearth_wire::{Ack, AckName, AckStatus, OutId, OutKind, OutMessage, Retry, WIRE_VERSION};
use serde_json::Value;

use crate::model::address::{Address, ChannelName, ForeignId};
use crate::model::content::RawJson;
use crate::model::mailbox::{Failure, Recipient, Record, RetryHint, Said};
use crate::model::request::RequestedAction;
use crate::model::spend::{Money, ReportedUse, Tokens};
use crate::model::task::Gated;
use crate::model::time::{Millis, Timestamp};

use super::cleaner::Cleaner;
use super::{action, text};

/// Upper bound of message numbers, far below 16 digits, so that no agent can use up the numbers of its session.
const NUMBER_END: u64 = 1_000_000_000_000_000;
/// Fields of a payload that name the sender.
const SPEAKER: [&str; 4] = ["sender", "senderId", "senderName", "author"];
/// Characters of the error of a failed turn.
const ERROR_CHARS: usize = 2_000;
/// Characters of the name of a model.
const MODEL_CHARS: usize = 100;
/// Largest cost of one model in one turn, in millionths of a dollar: $10,000.
const COST_MAX: u64 = 10_000_000_000;
/// Longest wait that a provider may ask for.
const WAIT_MAX: Millis = Millis::minutes(24 * 60);

/// A parsed outgoing message.
#[derive(Debug)]
pub(super) struct Parsed {
    /// What; its files are not kept yet.
    pub(super) said: Said,
    /// Whether it waits for an ack.
    pub(super) is_final: bool,
    /// Names of the files that go with it.
    pub(super) files: Vec<String>,
}

/// Why a file of `out/` was refused.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) reason: String,
    /// Whether it is marked as final: then the ack that names it decides when the refusal is reported.
    pub(super) is_final: bool,
}

/// Reads an ack. The name is its identity, so the content has to agree with it.
pub(super) fn ack(name: AckName, bytes: &[u8], cleaner: &mut Cleaner<'_>) -> Result<Ack, String> {
    // Unknown keys belong to later versions.
    let ack: Ack = serde_json::from_value(cleaner.clean(versioned(bytes)?)).map_err(invalid)?;
    if (ack.seq, ack.incarnation, ack.status) != (name.seq, name.incarnation, name.status) {
        return Err("name and content differ".to_owned());
    }
    if ack.ends.len() > ENDS_PER_ACK {
        return Err(format!("it ends {} messages, at most {ENDS_PER_ACK} are accepted", ack.ends.len()));
    }
    if ack.status == AckStatus::Processing && !ack.ends.is_empty() {
        return Err("a claim ends no messages".to_owned());
    }
    Ok(ack)
}

/// How a turn failed, shortened for storage. Waits requested by the agent are capped at [`WAIT_MAX`].
pub(super) fn failure(ack: &Ack) -> Failure {
    let error = match ack.error.as_deref().map(str::trim) {
        None | Some("") => "the agent gave no reason".to_owned(),
        Some(error) => text::cut(error, ERROR_CHARS),
    };
    let again = match ack.retry {
        None => RetryHint::Never,
        Some(Retry { rate_limited: false, .. }) => RetryHint::Later,
        Some(Retry { unreachable: true, .. }) => RetryHint::Unreachable,
        Some(Retry { after_ms, .. }) => RetryHint::Wait(after_ms.map(|after| Millis::new(after).min(WAIT_MAX))),
    };
    Failure { error, again }
}

/// What a turn used of models, bounded. An agent's numbers are its own claim.
pub(super) fn used(ack: &Ack) -> Option<Record> {
    let bounded = |tokens: u64| tokens.min(Tokens::MAX);
    let mut found: Vec<ReportedUse> = Vec::new();
    for usage in &ack.usage {
        let tokens = Tokens {
            input: bounded(usage.input),
            output: bounded(usage.output),
            cache_read: bounded(usage.cache_read),
            cache_write: bounded(usage.cache_write),
            reasoning: bounded(usage.reasoning).min(bounded(usage.output)),
        };
        let model = usage.model.as_deref().map(|model| text::cut(&model.replace(char::is_control, ""), MODEL_CHARS));
        let cost = usage.cost_micros.map(|micros| Money::micros(micros.min(COST_MAX)));
        let used = ReportedUse { model: model.map(Into::into), tokens, cost };
        // One model has one entry; a second one is a mistake of the agent, and the larger one costs more.
        match found.iter_mut().find(|known| known.model == used.model) {
            Some(known) if known.tokens.total() >= used.tokens.total() => {}
            Some(known) => *known = used,
            None => found.push(used),
        }
    }
    (!found.is_empty()).then_some(Record::Used { seq: ack.seq, incarnation: ack.incarnation, used: found })
}

/// Why a task ended without its agent, as far as it is stored.
pub(super) fn gated(ack: &Ack) -> Option<Gated> {
    let gated = ack.gated.as_ref().filter(|_| ack.status == AckStatus::Completed)?;
    Some(Gated { why: text::cut(gated.why.trim(), ERROR_CHARS), failed: gated.failed })
}

/// Reads an outgoing message.
pub(super) fn out(id: &OutId, bytes: &[u8], cleaner: &mut Cleaner<'_>) -> Result<Parsed, Refusal> {
    let value = versioned(bytes).map_err(|reason| Refusal { reason, is_final: false })?;
    let is_final = value.get("final").and_then(Value::as_bool).unwrap_or(false);
    let message = serde_json::from_value(cleaner.clean(value)).map_err(invalid);
    message.and_then(|message| said(id, message)).map_err(|reason| Refusal { reason, is_final })
}

/// Parses a JSON object of this contract version. The parser's own bound on nesting keeps the stack safe.
pub(super) fn versioned(bytes: &[u8]) -> Result<Value, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|e| text::reason(&format!("it is not JSON: {e}")))?;
    if !value.is_object() {
        return Err("it is not a JSON object".to_owned());
    }
    match value.get("v").and_then(Value::as_u64) {
        Some(v) if v == u64::from(WIRE_VERSION) => Ok(value),
        Some(v) => Err(format!("it has wire version {v}, this Hearth understands {WIRE_VERSION}")),
        None => Err("it has no wire version".to_owned()),
    }
}

fn invalid(error: serde_json::Error) -> String {
    text::reason(&error.to_string())
}

fn said(id: &OutId, message: OutMessage) -> Result<Parsed, String> {
    if message.id != *id {
        return Err("name and content differ".to_owned());
    }
    if message.number.is_multiple_of(2) || message.number >= NUMBER_END {
        return Err(format!("the number {} is not odd and below {NUMBER_END}", message.number));
    }
    let Value::Object(mut content) = message.content else { return Err("the content is not an object".to_owned()) };
    if message.kind != OutKind::System {
        // An agent never chooses the sender's identity.
        SPEAKER.iter().for_each(|key| drop(content.remove(*key)));
    }
    let (action, text) = action::parse(message.kind, &content);
    let raw = Value::Object(content).to_string();
    if raw.len() as u64 > hearth_wire::limits::JSON_BYTES {
        return Err("the content is too large when written out".to_owned());
    }
    let deliver_after = message.deliver_after.as_deref().map(time).transpose()?;
    let asks = matches!(action, RequestedAction::Request(_)) || message.kind == OutKind::System;
    let request = message.request_id.or_else(|| asks.then_some(message.id));
    let said = Said {
        wire_id: id.to_string(),
        incarnation: message.incarnation,
        number: message.number,
        in_reply_to: message.in_reply_to,
        to: target(message.destination, message.address)?,
        text,
        content: RawJson::trusted(raw),
        files: Vec::new(),
        deliver_after,
        action,
        request: request.map(String::from),
    };
    Ok(Parsed { said, is_final: message.is_final, files: message.files })
}

fn target(destination: Option<String>, address: Option<hearth_wire::Address>) -> Result<Recipient, String> {
    match (destination, address) {
        (None, None) => Ok(Recipient::Reply),
        (Some(_), Some(_)) => Err("it names a destination and an address".to_owned()),
        (Some(name), None) => {
            let name = ForeignId::optional("the destination", Some(name)).map_err(|e| e.to_string())?;
            let name = name.ok_or("the destination is empty")?;
            Ok(Recipient::Destination(name.as_str().to_owned()))
        }
        (None, Some(address)) => model_address(address).map(Recipient::Address),
    }
}

fn model_address(address: hearth_wire::Address) -> Result<Address, String> {
    let bad = |e: crate::model::address::BadName| e.to_string();
    Ok(Address {
        channel: ChannelName::new(address.channel).map_err(bad)?,
        platform_id: ForeignId::new("the chat", address.platform_id).map_err(bad)?,
        thread: ForeignId::optional("the thread", address.thread_id).map_err(bad)?,
    })
}

fn time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).ok_or_else(|| text::reason(&format!("`{text}` is not a time")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(usage: Value) -> Vec<ReportedUse> {
        let ack = json!({ "v": 1, "seq": 2, "incarnation": 1, "status": "completed", "at": "", "usage": usage });
        match used(&serde_json::from_value(ack).unwrap()) {
            Some(Record::Used { used, .. }) => used,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_an_agent_says_of_its_tokens_is_bounded() {
        let absurd = of(json!([{ "model": "m".repeat(5_000), "input": u64::MAX, "output": 3, "reasoning": u64::MAX,
            "cost_micros": u64::MAX }]));
        let [used] = absurd.as_slice() else { panic!("{absurd:?}") };
        assert_eq!((used.tokens.input, used.tokens.reasoning), (Tokens::MAX, 3));
        assert_eq!(used.cost, Some(Money::micros(COST_MAX)));
        assert!(used.model.as_ref().unwrap().chars().count() <= MODEL_CHARS + 1, "{used:?}");
        let doubled = of(json!([{ "model": "a\u{0}\n", "input": 5 }, { "model": "a", "input": 9 }, { "model": "a" }]));
        let found: Vec<_> = doubled.iter().map(|used| (used.model.as_deref(), used.tokens.input)).collect();
        assert_eq!(found, [(Some("a"), 9)], "one model has one entry");
    }
}
