//! Tools that send a message to a chat, or change one. They plan and do not write.

use hearth_wire::OutKind;
use serde_json::{Value, json};

use super::address::{NamedRecipient, conversation, place};
use super::arguments::Arguments;
use super::file;
use super::plan::{AcceptedReply, PlannedCall};
use crate::outgoing::OutgoingRecipient;
use crate::report::{Post, Scene};

pub(super) fn send_message(arguments: &Arguments, scene: &Scene<'_>) -> Result<PlannedCall, String> {
    let arguments = &arguments.for_people();
    let text = arguments.filled("text").ok_or("text is required")?;
    let NamedRecipient { target, in_reply_to, name } = place(arguments, scene)?;
    let post = Post { kind: OutKind::Chat, content: json!({ "text": text }), target, in_reply_to, file: None };
    Ok(PlannedCall::chat(post, AcceptedReply::Number(format!("Message sent to {name} (id: "), ")".to_owned())))
}

pub(super) fn send_file(arguments: &Arguments, scene: &Scene<'_>) -> Result<PlannedCall, String> {
    let arguments = &arguments.for_people();
    let path = arguments.filled("path").ok_or("path is required")?;
    let NamedRecipient { target, in_reply_to, name } = place(arguments, scene)?;
    let file = file::attachment(scene.roots, path, arguments.filled("filename"))?;
    let told = AcceptedReply::Number(format!("File sent to {name} (id: "), format!(", filename: {})", file.name));
    let content = json!({ "text": arguments.string("text").unwrap_or_default() });
    Ok(PlannedCall::chat(Post { kind: OutKind::Chat, content, target, in_reply_to, file: Some(file) }, told))
}

pub(super) fn edit_message(arguments: &Arguments, scene: &Scene<'_>) -> Result<PlannedCall, String> {
    let arguments = &arguments.for_people();
    let (Some(number), Some(text)) = (arguments.number("messageId"), arguments.filled("text")) else {
        return Err("messageId and text are required".to_owned());
    };
    let content = json!({"operation": "edit", "messageId": number, "text": text});
    Ok(change(content, scene, format!("Message edit queued for #{number}")))
}

pub(super) fn add_reaction(arguments: &Arguments, scene: &Scene<'_>) -> Result<PlannedCall, String> {
    let (Some(number), Some(emoji)) = (arguments.number("messageId"), arguments.filled("emoji")) else {
        return Err("messageId and emoji are required".to_owned());
    };
    let content = json!({"operation": "reaction", "messageId": number, "emoji": emoji});
    Ok(change(content, scene, format!("Reaction queued for #{number}")))
}

/// A change goes to the message's chat. The host knows that chat, and whether the message exists.
fn change(content: Value, scene: &Scene<'_>, told: String) -> PlannedCall {
    let in_reply_to = scene.asked.last().map(|message| message.seq);
    let post = Post { kind: OutKind::ChatSdk, content, target: OutgoingRecipient::Reply, in_reply_to, file: None };
    PlannedCall::chat(post, AcceptedReply::Text(told))
}

pub(super) fn send_card(arguments: &Arguments, scene: &Scene<'_>) -> Result<PlannedCall, String> {
    let arguments = &arguments.for_people();
    let card = arguments.given("card").filter(|card| card.is_object()).ok_or("card is required")?;
    let NamedRecipient { target, in_reply_to, .. } = conversation(scene)?;
    let mut content = json!({"type": "card", "card": card});
    if let (Some(fields), Some(text)) = (content.as_object_mut(), arguments.filled("fallbackText")) {
        fields.insert("fallbackText".to_owned(), text.into());
    }
    let post = Post { kind: OutKind::ChatSdk, content, target, in_reply_to, file: None };
    Ok(PlannedCall::chat(post, AcceptedReply::Number("Card sent (id: ".to_owned(), ")".to_owned())))
}
