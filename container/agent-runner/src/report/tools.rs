//! Decides about tool calls: by the rules of the context, or by asking the host.

use hearth_tool_rules::{Basis, Call, Place, ToolRule, ToolVerdict};
use hearth_wire::{Context, OutId, OutKind, limits};
use serde_json::{Value, json};

use super::Report;
use crate::outgoing::{OutgoingRecipient, answered};
use crate::tool_calls::{CallEnd, CalledTool, Decided};
use crate::turn::TurnError;

/// Bytes of an input that a person can be asked about. The rest of the message needs some, too.
const INPUT_BYTES: usize = 256 * 1024;

/// The answer to a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToolAnswer {
    /// It may run.
    Allowed,
    /// It may not, for this reason.
    Denied(String),
    /// A person is asked; [`Report::decision`] has the answer later.
    Asked(OutId),
}

impl Report<'_> {
    /// Decides about a call by the newest rules, or asks the host.
    pub(crate) fn judge(&mut self, call: &CalledTool<'_>) -> Result<ToolAnswer, TurnError> {
        let context = self.state.gate.pass()?;
        let place = self.place();
        let judged = context.tools.judge(&Call { tool: call.name, kind: call.kind, input: call.input, place: &place });
        self.state.calls.begin(call, &Decided::Judged(judged.basis.clone()));
        match judged.verdict {
            ToolVerdict::Allow => Ok(ToolAnswer::Allowed),
            ToolVerdict::Deny => Ok(self.deny(call.id, denial(call.name, &judged.basis))),
            ToolVerdict::Ask => self.ask_host(call, &place, &context),
        }
    }

    /// Records a call that is denied without a judgement.
    pub(crate) fn blocked(&mut self, call: &CalledTool<'_>) {
        self.state.calls.begin(call, &Decided::Blocked);
        self.state.calls.end(call.id, CallEnd::Denied);
    }

    /// Records that `permissions` of the agent's configuration decides about a call which the rules allow.
    pub(crate) fn left_to_permissions(&mut self, call: &str) {
        self.state.calls.decided(call, &Decided::Permissions);
    }

    fn deny(&mut self, call: &str, reason: String) -> ToolAnswer {
        self.state.calls.end(call, CallEnd::Denied);
        ToolAnswer::Denied(reason)
    }

    fn ask_host(&mut self, call: &CalledTool<'_>, place: &Place, context: &Context) -> Result<ToolAnswer, TurnError> {
        let size = call.input.to_string().len() as u64;
        let most = (INPUT_BYTES as u64).min(context.limits.max_json_bytes.min(limits::JSON_BYTES) / 2);
        if size > most {
            self.state.calls.decided(call.id, &Decided::Unasked);
            let reason = format!(
                "Tool '{}' needs the permission of a person, and its input of {size} bytes is too large to be read by one: \
                 at most {most} bytes.",
                call.name
            );
            return Ok(self.deny(call.id, reason));
        }
        // The host has to know how an earlier call of the same kind ended.
        self.report_all_calls()?;
        let content = json!({
            "action": "use_tool",
            "tool": call.name,
            "kind": call.kind,
            "input": call.input,
            "folder": place.folder,
        });
        Ok(ToolAnswer::Asked(self.ask(content, &OutgoingRecipient::Reply)?))
    }

    /// The host's decision about a call, if it is there.
    pub(crate) fn decision(&mut self, call: &str, request: &OutId) -> Result<Option<ToolAnswer>, TurnError> {
        let Some(reply) = self.reply(request)? else { return Ok(None) };
        self.state.calls.decided(call, &Decided::Host(reply.result.clone()));
        if reply.ok && reply.result.get("verdict").and_then(Value::as_str) == Some("allow") {
            return Ok(Some(ToolAnswer::Allowed));
        }
        let reason = reply.result.get("reason").and_then(Value::as_str).or(reply.error.as_deref());
        Ok(Some(self.deny(call, reason.unwrap_or("It was not allowed.").to_owned())))
    }

    /// Stops waiting for a decision. The call does not run.
    pub(crate) fn undecided(&mut self, call: &str, request: &OutId) -> Result<(), TurnError> {
        self.state.calls.end(call, CallEnd::Denied);
        self.tool_ended(request.as_str())
    }

    /// Records the end of a call about which the agent's program may not have asked.
    pub(crate) fn seen(&mut self, call: &CalledTool<'_>, end: CallEnd) {
        if !self.state.calls.knows(call.id) {
            self.state.calls.begin(call, &Decided::Unasked);
        }
        self.state.calls.end(call.id, end);
    }

    /// Records how a call ended.
    pub(crate) fn call_ended(&mut self, call: &str, end: CallEnd) {
        self.state.calls.end(call, end);
    }

    /// Reports calls that are over to the host, if it is time.
    pub(super) fn report_calls(&mut self) -> Result<(), TurnError> {
        if self.state.calls.is_due() { self.report_all_calls() } else { Ok(()) }
    }

    /// Reports all calls that are over to the host.
    pub(super) fn report_all_calls(&mut self) -> Result<(), TurnError> {
        while let Some(content) = self.state.calls.report() {
            let to = OutgoingRecipient::Reply;
            let in_reply_to = answered(&self.asked, &to, None);
            let mut message = self.blank(&to, false, in_reply_to)?;
            (message.kind, message.content) = (OutKind::System, content);
            message.request_id = Some(message.id.clone());
            self.state.write(&mut |agent| agent.out(&message))?;
        }
        Ok(())
    }

    fn place(&self) -> Place {
        let roots = &self.state.roots;
        let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
        let tmp = roots.tmp.as_deref().map_or_else(|| "/tmp".to_owned(), text);
        Place {
            folder: text(&roots.group),
            inside: vec![text(&roots.group), tmp],
            conversation: self.own_destinations().into_iter().map(str::to_owned).collect(),
        }
    }
}

fn denial(tool: &str, basis: &Basis) -> String {
    let why = match basis {
        Basis::Rule(ToolRule { verdict, pattern }) => format!("the rule `{} {pattern}`", verdict.as_str()),
        Basis::Preset(preset) => format!("the preset `{}`", preset.as_str()),
        Basis::Granted(pattern) => format!("`{pattern}`"),
    };
    format!(
        "Tool '{tool}' is denied for this agent by {why} of its configuration, and only its operator can change that."
    )
}
