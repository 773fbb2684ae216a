//! Access of tools to a turn: its context, and messages and requests that take effect at once.

use hearth_wire::{Context, InMessage, OutId, OutKind, limits};
use serde_json::Value;

use super::{Report, request_tool};
use crate::outgoing::{Attachment, OutgoingRecipient};
use crate::roots::Roots;
use crate::turn::TurnError;

/// The data available to tools.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    /// The current context.
    pub(crate) context: Context,
    /// The messages being handled, in order.
    pub(crate) asked: &'a [InMessage],
    /// The agent's directories.
    pub(crate) roots: &'a Roots,
    /// Identifies the turn.
    pub(crate) turn: u64,
}

/// A message or request to write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Post {
    pub(crate) kind: OutKind,
    pub(crate) content: Value,
    pub(crate) target: OutgoingRecipient,
    pub(crate) in_reply_to: Option<u64>,
    pub(crate) file: Option<Attachment>,
}

/// A message or request that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Posted {
    /// The request id, by which the host's answer is found.
    pub(crate) request: OutId,
    /// The agent's number for it.
    pub(crate) number: u64,
}

impl Report<'_> {
    /// The current data for tools.
    pub(crate) fn scene(&mut self) -> Result<Scene<'_>, TurnError> {
        let context = self.state.gate.pass()?;
        self.state.numbers.at_least(context.next_number);
        let turn = self.asked.last().map_or(0, |message| message.seq);
        Ok(Scene { context, asked: &self.asked, roots: &self.state.roots, turn })
    }

    /// Writes a message or request that takes effect at once, and asks the host for its answer. It counts as a tool
    /// until the answer comes. Returns an error, and writes nothing, if the host would reject it.
    pub(crate) fn post(&mut self, post: Post) -> Result<Result<Posted, String>, TurnError> {
        let Post { kind, content, target, in_reply_to, file } = post;
        let mut message = self.blank(&target, false, in_reply_to)?;
        message.request_id = Some(message.id.clone());
        message.files = file.iter().map(|file| file.name.clone()).collect();
        let (name, timeout_ms) = request_tool(&content);
        (message.kind, message.content) = (kind, content);
        let bytes = serde_json::to_vec(&message).map_or(u64::MAX, |bytes| bytes.len() as u64);
        let most = self.turn.context.limits.max_json_bytes.min(limits::JSON_BYTES);
        if bytes > most {
            return Ok(Err(format!(
                "this comes to {bytes} bytes, at most {most} can be sent at once; send a file instead"
            )));
        }
        if let Some(file) = &file {
            let most = self.turn.context.limits.max_file_bytes.min(limits::FILE_BYTES);
            match file.open(most) {
                Ok(mut content) => {
                    self.state.write(&mut |agent| agent.out_file(&message.id, &file.name, &mut content))?
                }
                Err(why) => return Ok(Err(why)),
            }
        }
        if kind == OutKind::System {
            self.tool_started(message.id.as_str(), &name, timeout_ms)?;
        } else {
            self.progress()?;
        }
        self.state.write(&mut |agent| agent.out(&message))?;
        Ok(Ok(Posted { request: message.id, number: message.number }))
    }
}
