//! Builds the instructions that precede all messages: the agent's identity, and how its messages are addressed. Pure.

use hearth_wire::{Context, Destination};

/// The last part of the system prompt.
pub(crate) fn instructions(context: &Context) -> String {
    let name = &context.agent_name;
    let mut parts = Vec::new();
    if !name.is_empty() {
        parts.push(format!(
            "# You are {name}\n\nYour name is **{name}**. Use it when the channel asks who you are, when introducing \
             yourself, and when signing any message that explicitly calls for a signature."
        ));
    }
    parts.push(format!("## Sending messages\n\n{}", places(&context.destinations)));
    if !context.destinations.is_empty() {
        parts.push(WRAPPING.to_owned());
        parts.push(
            "Your text is delivered when your turn ends. To say something before that, use the tool `send_message`: it \
             delivers to the same destinations at once, and what it delivered must not be said again at the end."
                .to_owned(),
        );
    }
    parts.join("\n\n")
}

const WRAPPING: &str = "Text without a block goes to the chat that you answer. To write to a destination, wrap the text in a \
     block: `<message to=\"name\">…</message>`, with its name. Use blocks if that is what you were asked to do, if no chat \
     asked, as in a task without a chat, or if you answer messages `from` several chats. Several blocks, also to different \
     destinations, are delivered one by one. What is for nobody, such as notes to yourself, goes into \
     `<internal>…</internal>` and is never delivered.";

fn places(destinations: &[Destination]) -> String {
    match destinations {
        [] => "You currently have no configured destinations. You cannot send messages until an admin wires one up."
            .to_owned(),
        [only] => format!("Your destination is {}.", shown(only)),
        many => {
            let mut many: Vec<&Destination> = many.iter().collect();
            many.sort_by(|a, b| a.name.cmp(&b.name));
            let lines: String = many.into_iter().map(|one| format!("\n- {}", shown(one))).collect();
            format!("You can send messages to the following destinations:\n{lines}")
        }
    }
}

fn shown(destination: &Destination) -> String {
    let name = &destination.name;
    match destination.display.as_ref().filter(|display| *display != name) {
        Some(display) => format!("`{name}` ({display})"),
        None => format!("`{name}`"),
    }
}

#[cfg(test)]
mod tests {
    use hearth_wire::DestinationTarget;
    use serde_json::json;

    use super::*;

    fn context(agent_name: &str, destinations: &[(&str, Option<&str>)]) -> Context {
        let destination = |(name, display): &(&str, Option<&str>)| Destination {
            name: (*name).to_owned(),
            display: display.map(str::to_owned),
            target: DestinationTarget::Channel { channel: "c".to_owned(), platform_id: "p".to_owned() },
        };
        let mut context: Context = serde_json::from_value(json!({
            "v": 1, "version": 1, "install": "i", "session": "se1", "agent": "a", "agent_name": agent_name,
            "incarnation": 1, "session_name": "default", "provider": {"name": "echo"}, "timezone": "UTC",
            "limits": {"max_prompt_messages": 1, "max_json_bytes": 1, "max_file_bytes": 1}, "next_number": 1,
        }))
        .unwrap();
        context.destinations = destinations.iter().map(destination).collect();
        context
    }

    #[test]
    fn the_shape_follows_the_number_of_destinations() {
        let none = instructions(&context("", &[]));
        assert_eq!(
            none,
            "## Sending messages\n\nYou currently have no configured destinations. You cannot send messages until an \
             admin wires one up."
        );
        let one = instructions(&context("Andy", &[("family", Some("The Family"))]));
        assert!(one.starts_with("# You are Andy\n\nYour name is **Andy**. Use it when"), "{one}");
        assert!(one.contains("\n\n## Sending messages\n\nYour destination is `family` (The Family).\n\n"), "{one}");
        assert!(one.contains("goes to the chat that you answer") && one.contains("send_message"), "{one}");
        let many = instructions(&context("", &[("b", Some("b")), ("a", None)]));
        assert!(many.contains("following destinations:\n\n- `a`\n- `b`\n\n"), "{many}");
        assert!(many.contains("<message to=\"name\">…</message>") && many.contains("<internal>"), "{many}");
        assert_eq!(many.split("\n\n").count(), 5, "{many}");
    }
}
