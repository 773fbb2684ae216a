//! Whether a message is addressed to the bot. Only the platform's own entities count, never a name in the text.

use super::wire::{Entity, Message, User};

/// Addressee of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meant {
    /// The bot was addressed, or it is a direct message.
    Us,
    /// Addressed to no one in particular.
    All,
    /// A command for another bot; ignored.
    AnotherBot,
}

/// Determines the addressee. `me` is the bot.
pub(super) fn meant(message: &Message, me: &User) -> Meant {
    let (text, entities) = words(message);
    let command = entities.iter().find(|entity| entity.kind == "bot_command" && entity.offset == 0);
    if let Some((_, bot)) = command.and_then(|entity| slice(text, entity)).and_then(|command| command.split_once('@')) {
        return if is_me(bot, me) { Meant::Us } else { Meant::AnotherBot };
    }
    let named = entities.iter().any(|entity| names(text, entity, me));
    let answered = answered(message).and_then(|answered| answered.from.as_ref()).is_some_and(|from| from.id == me.id);
    if message.chat.kind == "private" || named || answered { Meant::Us } else { Meant::All }
}

/// Text or caption, with its entities.
pub(super) fn words(message: &Message) -> (&str, &[Entity]) {
    match (&message.text, &message.caption) {
        (Some(text), _) => (text, &message.entities),
        (None, Some(caption)) => (caption, &message.caption_entities),
        (None, None) => ("", &[]),
    }
}

/// The message replied to. In a topic, every message that is no reply refers to the topic's first message.
pub(super) fn answered(message: &Message) -> Option<&Message> {
    let begins = |answered: &&Message| {
        answered.forum_topic_created
            || (message.is_topic_message && Some(answered.message_id) == message.message_thread_id)
    };
    message.reply_to_message.as_deref().filter(|answered| !begins(answered))
}

/// The text without the bot's name after a command at its beginning: `/clear@our_bot now` is `/clear now`.
pub(super) fn without_our_name(text: &str, entities: &[Entity], me: &User) -> String {
    let command = entities.iter().find(|entity| entity.kind == "bot_command" && entity.offset == 0);
    let command = command.and_then(|entity| slice(text, entity));
    match command.and_then(|command| Some((command, command.split_once('@')?))) {
        Some((command, (verb, bot))) if is_me(bot, me) => {
            format!("{verb}{}", text.strip_prefix(command).unwrap_or_default())
        }
        _ => text.to_owned(),
    }
}

fn names(text: &str, entity: &Entity, me: &User) -> bool {
    match entity.kind.as_str() {
        "mention" => slice(text, entity).and_then(|name| name.strip_prefix('@')).is_some_and(|name| is_me(name, me)),
        "text_mention" => entity.user.as_ref().is_some_and(|user| user.id == me.id),
        "bot_command" => {
            slice(text, entity).and_then(|command| command.split_once('@')).is_some_and(|(_, name)| is_me(name, me))
        }
        _ => false,
    }
}

/// Names of bots are ASCII and case-insensitive.
fn is_me(name: &str, me: &User) -> bool {
    me.username.as_deref().is_some_and(|mine| !mine.is_empty() && mine.eq_ignore_ascii_case(name))
}

/// The text of an entity; `None` if its bounds are not on character boundaries.
fn slice<'t>(text: &'t str, entity: &Entity) -> Option<&'t str> {
    let begin = at_unit(text, entity.offset)?;
    let end = at_unit(text, entity.offset.checked_add(entity.length)?)?;
    text.get(begin..end)
}

/// The byte offset of a UTF-16 offset.
fn at_unit(text: &str, unit: usize) -> Option<usize> {
    let mut units = 0;
    for (at, c) in text.char_indices() {
        if units >= unit {
            return (units == unit).then_some(at);
        }
        units += c.len_utf16();
    }
    (units == unit).then_some(text.len())
}
