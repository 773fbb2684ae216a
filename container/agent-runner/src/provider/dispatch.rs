//! Splits an agent's text by recipient: blocks to destinations, internal text, and the rest. Pure.
//!
//! Rules, under which no text is lost:
//! * `<internal>…</internal>` is removed, wherever it is;
//! * `<message to="NAME">…</message>` goes to the destination of that name; nested blocks belong to the outer block if
//!   all of them are closed, so that an agent can quote one;
//! * text outside of blocks goes to the chat that asked;
//! * if no chat or several chats asked, the agent has several destinations, and its text has no block at all, the agent
//!   is asked once to choose. If it does not, the text goes where the newest message of the turn came from;
//! * a block for an unknown name is reported to the agent once, with the known names. If the agent does not redirect
//!   it, it goes to the chat that asked, with a note.

use hearth_wire::Destination;

use crate::outgoing::{Origin, OutgoingRecipient, Utterance};
use crate::strip::strip_internal;

pub(super) const BEGIN: &str = "<message";
pub(super) const END: &str = "</message>";

/// Result of checking a text.
#[derive(Debug, PartialEq)]
pub(super) enum ResultAction {
    /// The messages to send.
    Said(Vec<Utterance>),
    /// The messages to send now. The agent gets a note, and its next result decides about the draft.
    Again { said: Vec<Utterance>, note: String, draft: Draft },
}

/// Text that the agent was asked to correct. It is sent unchanged if the agent does not.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Draft {
    kept: Vec<Utterance>,
    /// Whether it has blocks for unknown names; otherwise it is text without a block.
    unknown: bool,
}

impl Draft {
    /// The text to send if there is no better answer.
    pub(super) fn into_kept(self) -> Vec<Utterance> {
        self.kept
    }
}

/// Checks a result. `draft` is the text that the agent was asked to correct before.
pub(super) fn decide(text: &str, origin: Origin, destinations: &[Destination], draft: Option<Draft>) -> ResultAction {
    let said = addressed(text);
    let is_known = |utterance: &Utterance| match &utterance.target {
        OutgoingRecipient::Destination(name) => destinations.iter().any(|destination| destination.name == *name),
        OutgoingRecipient::Reply | OutgoingRecipient::Address(_) => false,
    };
    let is_bare = |utterance: &Utterance| utterance.target == OutgoingRecipient::Reply;
    match draft {
        Some(Draft { kept, unknown: true }) if !said.iter().any(is_known) => {
            ResultAction::Said(kept.into_iter().chain(said).collect())
        }
        Some(Draft { kept, .. }) if said.is_empty() => ResultAction::Said(kept),
        Some(_) => ResultAction::Said(said),
        None if origin == Origin::Unclear && destinations.len() > 1 && !said.is_empty() && said.iter().all(is_bare) => {
            let note = unwrapped(destinations);
            ResultAction::Again { said: Vec::new(), note, draft: Draft { kept: said, unknown: false } }
        }
        None => {
            let (said, kept): (Vec<_>, Vec<_>) = said.into_iter().partition(|one| is_bare(one) || is_known(one));
            if kept.is_empty() {
                return ResultAction::Said(said);
            }
            let note = misdirected(&kept, destinations);
            ResultAction::Again { said, note, draft: Draft { kept, unknown: true } }
        }
    }
}

fn unwrapped(destinations: &[Destination]) -> String {
    let names = names(destinations);
    format!(
        "<system>Your response was not delivered — it was not wrapped in <message to=\"name\">...</message> blocks. All \
         output must be wrapped: use <message to=\"name\"> for content to send, or <internal> for scratchpad. Your \
         destinations: {names}. Please re-send your response with the correct wrapping.</system>"
    )
}

fn misdirected(unknown: &[Utterance], destinations: &[Destination]) -> String {
    let mut wanted: Vec<String> = Vec::new();
    for utterance in unknown {
        if let OutgoingRecipient::Destination(name) = &utterance.target
            && !wanted.contains(&format!("\"{name}\""))
        {
            wanted.push(format!("\"{name}\""));
        }
    }
    let (wanted, names) = (wanted.join(", "), names(destinations));
    format!(
        "<system>Not delivered, because there is no destination of that name: {wanted}. Your destinations: {names}. \
         Please re-send only what was addressed there, to one of them; the rest was delivered.</system>"
    )
}

fn names(destinations: &[Destination]) -> String {
    match destinations {
        [] => "(none)".to_owned(),
        some => some.iter().map(|destination| destination.name.as_str()).collect::<Vec<_>>().join(", "),
    }
}

/// Splits a final text by recipient, in order. A tag that is not closed or is misspelled is ordinary text, so that no
/// text is lost by a mistake.
pub(super) fn addressed(text: &str) -> Vec<Utterance> {
    let text = strip_internal(text);
    let mut said = Vec::new();
    let mut bare = String::new();
    let mut at = 0;
    for Block { begin, name, inside, end } in blocks(&text) {
        // Nested blocks belong to the outer one.
        let Some(before) = text.get(at..begin) else { continue };
        bare.push_str(before);
        flush(&mut bare, &mut said);
        let body = text.get(inside..end).unwrap_or_default().trim();
        if !body.is_empty() {
            said.push(Utterance::to(name, body));
        }
        at = end + END.len();
    }
    bare.push_str(text.get(at..).unwrap_or_default());
    flush(&mut bare, &mut said);
    said
}

/// A block of a text; positions are byte offsets.
struct Block<'a> {
    begin: usize,
    name: &'a str,
    inside: usize,
    end: usize,
}

/// The closed blocks of a text, in order of their beginnings. A block ends at its own closing tag or, if a nested block
/// is not closed, at the first one. Each kind of tag is searched once, because a text may be very long.
fn blocks(text: &str) -> Vec<Block<'_>> {
    let opening = |(begin, _)| {
        let (name, inside) = opening(text.get(begin + BEGIN.len()..)?)?;
        Some(Block { begin, name, inside: text.len() - inside.len(), end: usize::MAX })
    };
    let mut blocks: Vec<Block<'_>> = text.match_indices(BEGIN).filter_map(opening).collect();
    let ends: Vec<usize> = text.match_indices(END).map(|(end, _)| end).collect();
    let mut open = Vec::new();
    let mut begun = 0;
    for end in &ends {
        while blocks.get(begun).is_some_and(|block| block.begin < *end) {
            open.push(begun);
            begun += 1;
        }
        if let Some(block) = open.pop().and_then(|last| blocks.get_mut(last)) {
            block.end = *end;
        }
    }
    for block in blocks.iter_mut().filter(|block| block.end == usize::MAX) {
        let first = ends.partition_point(|end| *end < block.inside);
        block.end = ends.get(first).copied().unwrap_or(usize::MAX);
    }
    blocks.retain(|block| block.end < usize::MAX);
    blocks
}

/// The name in the rest of an opening tag, and the text after the tag. A name has no angle brackets, so that tags never
/// overlap.
pub(super) fn opening(tag: &str) -> Option<(&str, &str)> {
    let quoted = tag.trim_start();
    let (name, after) = quoted.strip_prefix("to=\"").filter(|_| quoted.len() < tag.len())?.split_once('"')?;
    let inside = after.trim_start().strip_prefix('>')?;
    (!name.is_empty() && !name.contains(['<', '>'])).then_some((name, inside))
}

fn flush(bare: &mut String, said: &mut Vec<Utterance>) {
    if !bare.trim().is_empty() {
        said.push(Utterance::reply(bare.trim()));
    }
    bare.clear();
}

#[cfg(test)]
mod tests;
