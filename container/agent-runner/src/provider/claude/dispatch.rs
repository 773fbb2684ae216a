//! Whom a text is for: blocks to destinations, words for nobody, and the rest. Pure.
//!
//! What is decided here, where nothing is lost:
//! * `<internal>…</internal>` is for nobody, wherever it stands;
//! * `<message to="NAME">…</message>` goes to the destination of that name; blocks in a block belong to it, if all of
//!   them are closed, so that an agent can quote one;
//! * words beside blocks go to where the question came from. So do words without any block, if there is no more than one
//!   destination: what they are meant for is plain. Of several the agent is asked once to say which; if it does not, they
//!   go there, too;
//! * a block for a name nobody knows is told to the agent once, with the names there are; if it does not send it to one of
//!   them, it goes to where the question came from, with a note.

use hearth_wire::Destination;

use crate::outgoing::{Target, Utterance};
use crate::strip::strip_internal;

const BEGIN: &str = "<message";
const END: &str = "</message>";

/// What becomes of a result.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// This is the answer.
    Said(Vec<Utterance>),
    /// This much stands; the agent is told something, and its next result decides about the draft.
    Again { said: Vec<Utterance>, note: String, draft: Draft },
}

/// What the agent was asked to say better, and is said as it is if it does not.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Draft {
    kept: Vec<Utterance>,
    /// Blocks for unknown names; else words without a block.
    unknown: bool,
}

impl Draft {
    /// What is said if there is no better answer.
    pub(super) fn into_kept(self) -> Vec<Utterance> {
        self.kept
    }
}

/// Decides about a result; `draft` is what the agent was asked to say better before.
pub(super) fn decide(text: &str, destinations: &[Destination], draft: Option<Draft>) -> Verdict {
    let said = addressed(text);
    let is_known = |utterance: &Utterance| match &utterance.target {
        Target::Destination(name) => destinations.iter().any(|destination| destination.name == *name),
        Target::Reply | Target::Address(_) => false,
    };
    let is_bare = |utterance: &Utterance| utterance.target == Target::Reply;
    match draft {
        Some(Draft { kept, unknown: true }) if !said.iter().any(is_known) => {
            Verdict::Said(kept.into_iter().chain(said).collect())
        }
        Some(Draft { kept, .. }) if said.is_empty() => Verdict::Said(kept),
        Some(_) => Verdict::Said(said),
        None if destinations.len() > 1 && !said.is_empty() && said.iter().all(is_bare) => Verdict::Again {
            said: Vec::new(),
            note: unwrapped(destinations),
            draft: Draft { kept: said, unknown: false },
        },
        None => {
            let (said, kept): (Vec<_>, Vec<_>) = said.into_iter().partition(|one| is_bare(one) || is_known(one));
            if kept.is_empty() {
                return Verdict::Said(said);
            }
            let note = misdirected(&kept, destinations);
            Verdict::Again { said, note, draft: Draft { kept, unknown: true } }
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
        if let Target::Destination(name) = &utterance.target
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

/// Cuts a final text into what is said to whom, in its order. A tag that is not closed, or not written exactly so, is
/// ordinary text: nothing is lost by a mistake.
pub(super) fn addressed(text: &str) -> Vec<Utterance> {
    let text = strip_internal(text);
    let mut said = Vec::new();
    let mut bare = String::new();
    let mut at = 0;
    for Block { begin, name, inside, end } in blocks(&text) {
        // Blocks in a block belong to it.
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

/// A part of a text: places are bytes from its beginning.
struct Block<'a> {
    begin: usize,
    name: &'a str,
    inside: usize,
    end: usize,
}

/// What begins like a block and has an end, in the order of the beginnings. Its end is the one that closes it, or, where a
/// block in it is not closed, the first one. Both tags are looked for once: an agent may say very much.
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
    for block in &mut blocks {
        let is_closed = (block.inside..usize::MAX).contains(&block.end);
        if !is_closed {
            let first = ends.partition_point(|end| *end < block.inside);
            block.end = ends.get(first).copied().unwrap_or(usize::MAX);
        }
    }
    blocks.retain(|block| block.end < usize::MAX);
    blocks
}

/// The name in the rest of an opening tag, and what follows the tag.
fn opening(tag: &str) -> Option<(&str, &str)> {
    let quoted = tag.trim_start();
    let (name, after) = quoted.strip_prefix("to=\"").filter(|_| quoted.len() < tag.len())?.split_once('"')?;
    Some((name, after.trim_start().strip_prefix('>')?)).filter(|_| !name.is_empty())
}

fn flush(bare: &mut String, said: &mut Vec<Utterance>) {
    if !bare.trim().is_empty() {
        said.push(Utterance::reply(bare.trim()));
    }
    bare.clear();
}

#[cfg(test)]
mod tests;
