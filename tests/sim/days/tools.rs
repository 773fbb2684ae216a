//! Tool calls that agents ask about: an approval is for one execution.

use hearth::model::approval::{ApprovalState, ApprovalSubject};
use hearth::model::id::ApprovalId;
use hearth::model::request::Request;
use hearth::model::tool::{
    Call, NewToolCall, Place, ToolBasis, ToolCall, ToolField, ToolOutcome, ToolPattern, ToolPreset, ToolValue, digest,
};
use hearth::model::{Millis, RawJson};
use serde_json::{Value, json};

use super::Sim;

/// Few commands, so that the same call of the same message comes again.
const COMMANDS: [&str; 3] = ["git push", "curl example.org", "a\nb"];

impl Sim {
    /// A call that the rules of the agent ask about.
    pub(super) fn tool_question(&mut self) -> Request {
        let command = *self.chance.pick(&COMMANDS);
        let input = json!({ "command": command });
        let place = Place { folder: "/workspace/agent".to_owned(), ..Place::default() };
        let pattern = ToolPattern::of(&Call { tool: "Bash", kind: "", input: &input, place: &place });
        Request::UseTool(Box::new(NewToolCall {
            tool: "Bash".to_owned(),
            kind: String::new(),
            folder: place.folder,
            fields: vec![ToolField { name: "command".to_owned(), value: ToolValue::Text(command.to_owned()) }],
            digest: digest("Bash", &input),
            pattern: pattern.map(|pattern| pattern.to_string()),
            input: RawJson::trusted(input.to_string()),
        }))
    }

    /// Calls that are over. Some name an approval, perhaps one of another session.
    pub(super) fn tools_used(&mut self) -> Request {
        let approval = ApprovalId::new(1 + self.chance.next(30));
        let asked = ToolBasis::Asked { approval, by: None };
        let basis = self.chance.pick(&[ToolBasis::Preset(ToolPreset::Careful), asked.clone(), asked]).clone();
        let outcome = *self.chance.pick(&[ToolOutcome::Ran, ToolOutcome::Failed, ToolOutcome::Unknown]);
        let call = ToolCall {
            tool: "Bash".to_owned(),
            digest: "00".to_owned(),
            excerpt: "{}".to_owned(),
            basis,
            outcome,
            took: Millis::new(self.chance.next(5_000)),
        };
        Request::ToolCalls(vec![call])
    }

    /// An approval of a tool call is passed on to one question, and the store knows it by then.
    pub(super) fn approvals_of_tools_are_used_once(&mut self) {
        let mut allowed = Vec::new();
        for (session, replies) in &self.world.outside.replies {
            for (name, reply) in replies {
                let value: Value =
                    reply.as_ref().ok().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
                if value["verdict"] == "allow"
                    && let Some(id) = value["approval"].as_str()
                {
                    allowed.push((id.parse::<ApprovalId>().unwrap(), (*session, name.clone())));
                }
            }
        }
        for (id, to) in allowed {
            let approval = self.world.read(|db, txn| db.approvals.require(txn, &id));
            let ApprovalSubject::Tool(request) = approval.about else { panic!("{id} is about no tool") };
            assert!(matches!(approval.state, ApprovalState::Approved { .. }), "{id}: {:?}", approval.state);
            assert!(request.used.is_some(), "{id} was passed on and is not used");
            let known = self.memory.tools.entry(id).or_insert_with(|| to.clone());
            assert_eq!(*known, to, "{id} was passed on twice");
        }
    }
}
