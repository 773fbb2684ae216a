//! One JSON-RPC message by itself: what it would come to, with nothing written and nobody asked.

use hearth_wire::{Context, InMessage};
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::rpc::{self, Incoming, Question};
use super::{catalogue, plan};
use crate::report::Scene;
use crate::roots::Roots;

/// The answer to a message; of a call that would write something, that as `{"post": content}`. None if it wants no
/// answer, or calls a tool that works on files of its own.
#[must_use]
pub fn rehearse(message: Value, context: &Context, asked: &[InMessage], roots: &Roots) -> Option<Value> {
    let (id, question) = match rpc::read(message) {
        Incoming::Asked { id, question } => (id, question),
        Incoming::Cancelled(_) | Incoming::Nothing => return None,
        Incoming::Wrong { id, code, message } => return Some(rpc::failure(&id, code, &message)),
    };
    let result = match question {
        Question::Initialize { version } => rpc::greeting(version.as_deref()),
        Question::Ping => json!({}),
        Question::ListTools => catalogue::tools(),
        Question::Call { name, arguments } => {
            let Some(tool) = plan::tool(&name) else { return Some(rpc::success(&id, &rpc::unknown_tool(&name))) };
            let scene = Scene { context: context.clone(), asked, roots, turn: 0 };
            match Arguments::read(arguments).and_then(|arguments| tool(&arguments, &scene)) {
                Ok(plan) => return Some(json!({ "post": plan.post.content })),
                Err(why) => rpc::tool_result(Err(why)),
            }
        }
    };
    Some(rpc::success(&id, &result))
}
