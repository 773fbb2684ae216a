//! Handles one JSON-RPC message without writing anything or asking the host, for tests.

use hearth_wire::{Context, InMessage};
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::rpc::{self, Incoming};
use super::{at_once, tool};
use crate::outgoing::OutgoingRecipient;
use crate::report::{Post, Scene};
use crate::roots::Roots;

/// The answer to a message. For a call that would write something, the answer is `{"post": message}`, in the format of
/// the files in `agent/out/`. `None` if the message needs no answer. Tools that change the group's files are unknown
/// here.
#[must_use]
pub fn rehearse(message: Value, context: &Context, asked: &[InMessage], roots: &Roots) -> Option<Value> {
    let (id, question) = match rpc::read(message) {
        Incoming::Asked { id, question } => (id, question),
        Incoming::Cancelled(_) | Incoming::Nothing => return None,
        Incoming::Wrong { id, code, message } => return Some(rpc::failure(&id, code, &message)),
    };
    let result = match at_once(question) {
        Ok(result) => result,
        Err((name, arguments)) => match tool(&name) {
            None => rpc::unknown_tool(&name),
            Some(tool) => {
                let scene = Scene { context: context.clone(), asked, roots, turn: 0 };
                match Arguments::read(arguments).and_then(|arguments| tool(&arguments, &scene)) {
                    Ok(plan) => return Some(json!({ "post": file_of(plan.post) })),
                    Err(why) => rpc::tool_result(Err(why)),
                }
            }
        },
    };
    Some(rpc::success(&id, &result))
}

fn file_of(post: Post) -> Value {
    let (destination, address) = match post.target {
        OutgoingRecipient::Reply => (None, None),
        OutgoingRecipient::Destination(name) => (Some(name), None),
        OutgoingRecipient::Address(address) => (None, Some(address)),
    };
    json!({
        "kind": post.kind, "content": post.content, "in_reply_to": post.in_reply_to,
        "destination": destination, "address": address,
    })
}
