//! The record of tool calls: those under way, and those that are over and not yet reported to the host.

use std::collections::BTreeMap;
use std::time::Duration;

use hearth_tool_rules::{Basis, digest};
use serde_json::{Map, Value, json};

use crate::clock::Stopwatch;
use crate::secrets;

/// How long a call that is over may wait for others to be reported with it.
const REPORT_AFTER: Duration = Duration::from_secs(1);
/// Calls in one report.
const PER_REPORT: usize = 32;
/// Calls under way whose start is remembered.
const MOST_OPEN: usize = 256;
/// Characters of an input that are reported.
const EXCERPT_CHARS: usize = 300;

/// A tool call, as its provider names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CalledTool<'a> {
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    /// What the tool does, in the words of the Agent Client Protocol; empty if that is not known.
    pub(crate) kind: &'a str,
    pub(crate) input: &'a Value,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallEnd {
    Ran,
    Failed,
    Denied,
    Unknown,
}

impl CallEnd {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ran => "ran",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Unknown => "unknown",
        }
    }
}

/// What decided about a call.
#[derive(Debug, Clone)]
pub(crate) enum Decided {
    Judged(Basis),
    /// `blocked_tools`, or the runner itself.
    Blocked,
    /// `permissions` of the agent's configuration, or a person of the conversation that it asks.
    Permissions,
    /// The host; contains its answer.
    Host(Value),
    /// It could not be asked about.
    Unasked,
}

/// The calls of this runner.
#[derive(Debug, Default)]
pub(crate) struct CallLedger {
    open: BTreeMap<String, OpenCall>,
    over: Vec<Value>,
    /// Since when the first one that is over waits.
    since: Option<Stopwatch>,
}

#[derive(Debug)]
struct OpenCall {
    fields: Map<String, Value>,
    since: Stopwatch,
}

impl CallLedger {
    /// Records the start of a call.
    pub(crate) fn begin(&mut self, call: &CalledTool<'_>, decided: &Decided) {
        if self.open.len() >= MOST_OPEN {
            return;
        }
        let excerpt: String = secrets::redacted(&call.input.to_string()).chars().take(EXCERPT_CHARS).collect();
        let mut fields = Map::new();
        fields.insert("tool".to_owned(), call.name.into());
        fields.insert("digest".to_owned(), digest(call.name, call.input).into());
        fields.insert("excerpt".to_owned(), excerpt.into());
        fields.extend(basis(decided));
        self.open.insert(call.id.to_owned(), OpenCall { fields, since: Stopwatch::start() });
    }

    /// Whether a call is under way.
    pub(crate) fn knows(&self, id: &str) -> bool {
        self.open.contains_key(id)
    }

    /// Records who decided about a call that was asked about.
    pub(crate) fn decided(&mut self, id: &str, decided: &Decided) {
        if let Some(call) = self.open.get_mut(id) {
            for key in ["preset", "rule", "pattern", "granted"] {
                call.fields.remove(key);
            }
            call.fields.extend(basis(decided));
        }
    }

    /// Records the end of a call.
    pub(crate) fn end(&mut self, id: &str, end: CallEnd) {
        if let Some(OpenCall { mut fields, since }) = self.open.remove(id) {
            let took = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
            fields.insert("ms".to_owned(), took.into());
            fields.insert("outcome".to_owned(), end.as_str().into());
            self.over.push(fields.into());
            self.since.get_or_insert_with(Stopwatch::start);
        }
    }

    /// Records that nothing is known of the end of the calls under way.
    pub(crate) fn abandon(&mut self) {
        for id in self.open.keys().cloned().collect::<Vec<_>>() {
            self.end(&id, CallEnd::Unknown);
        }
    }

    /// Whether calls should be reported now.
    pub(crate) fn is_due(&self) -> bool {
        self.over.len() >= PER_REPORT || self.since.as_ref().is_some_and(|since| since.elapsed() >= REPORT_AFTER)
    }

    /// The next report, if there is anything to say.
    pub(crate) fn report(&mut self) -> Option<Value> {
        let calls: Vec<Value> = self.over.drain(..self.over.len().min(PER_REPORT)).collect();
        self.since = (!self.over.is_empty()).then(Stopwatch::start);
        (!calls.is_empty()).then(|| json!({"action": "tool_calls", "calls": calls}))
    }
}

fn basis(decided: &Decided) -> Map<String, Value> {
    let of = |value: Value| value.as_object().cloned().unwrap_or_default();
    match decided {
        Decided::Judged(Basis::Preset(preset)) => of(json!({"preset": preset.as_str()})),
        Decided::Judged(Basis::Rule(rule)) => of(json!({"rule": rule.verdict.as_str(), "pattern": rule.pattern})),
        Decided::Judged(Basis::Granted(pattern)) => of(json!({ "granted": pattern })),
        Decided::Blocked => of(json!({"blocked": true})),
        Decided::Permissions => of(json!({"permissions": true})),
        Decided::Host(answer) => {
            let known =
                ["approval", "granted"].into_iter().filter_map(|key| Some((key.to_owned(), answer.get(key)?.clone())));
            known.collect()
        }
        Decided::Unasked => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use hearth_tool_rules::ToolPreset;

    use super::*;

    #[test]
    fn calls_are_reported_together_when_they_are_over() {
        let mut ledger = CallLedger::default();
        let input = json!({"command": "ls"});
        let call = |id| CalledTool { id, name: "Bash", kind: "", input: &input };
        let preset = Decided::Judged(Basis::Preset(ToolPreset::Open));
        ledger.begin(&call("1"), &preset);
        ledger.begin(&call("2"), &preset);
        assert_eq!(ledger.report(), None);
        ledger.decided("2", &Decided::Host(json!({"verdict": "allow", "approval": "ap7"})));
        ledger.end("1", CallEnd::Ran);
        ledger.end("unknown", CallEnd::Ran);
        ledger.abandon();
        let report = ledger.report().unwrap();
        let calls = report["calls"].as_array().unwrap();
        assert_eq!((calls[0]["outcome"].as_str(), calls[0]["preset"].as_str()), (Some("ran"), Some("open")));
        assert_eq!((calls[1]["outcome"].as_str(), calls[1]["approval"].as_str()), (Some("unknown"), Some("ap7")));
        assert_eq!((calls[1].get("preset"), calls.len()), (None, 2));
        assert_eq!((ledger.report(), ledger.is_due()), (None, false));
    }
}
