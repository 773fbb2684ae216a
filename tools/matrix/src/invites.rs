//! Invitations to rooms: who may invite the bot is a setting.

use hearth_bridge::program::log;
use hearth_bridge::program::settings::part;
use serde_json::{Value, json};

use crate::api::{Api, Trouble};
use crate::settings::{Invitor, is_user, server_of};

/// Invitations that are answered at once.
const AT_ONCE: usize = 20;

/// Who may invite the bot.
pub(crate) struct Invites {
    pub(crate) api: Api,
    pub(crate) me: String,
    pub(crate) from: Vec<Invitor>,
}

impl Invites {
    /// Answers the invitations of a batch.
    pub(crate) fn answer(&self, batch: &Value) -> Result<(), Trouble> {
        let rooms = batch.pointer("/rooms/invite").and_then(Value::as_object);
        for (room, invite) in rooms.into_iter().flatten().take(AT_ONCE) {
            let inviter = inviter(invite, &self.me);
            let may = inviter.is_some_and(|inviter| self.may(inviter));
            let (verb, said) =
                if may { ("join", "joined") } else { ("leave", "refused; `invites` does not name them") };
            let shown = inviter.unwrap_or("a person without an id");
            match self.api.post(&format!("client/v3/rooms/{}/{verb}", part(room)), &json!({})) {
                Ok(_) => log(&format!("invited to {room} by {shown}: {said}")),
                // The same invitation comes again with the same question.
                Err(trouble) if trouble.is_passing() => return Err(trouble),
                Err(trouble) => log(&format!("invited to {room} by {shown}, but {verb} failed: {trouble}")),
            }
        }
        Ok(())
    }

    fn may(&self, inviter: &str) -> bool {
        self.from.iter().any(|from| match from {
            Invitor::Person(person) => person == inviter,
            Invitor::OwnServer => server_of(inviter).is_some_and(|server| Some(server) == server_of(&self.me)),
        })
    }
}

/// Who invited the bot, as the server says.
fn inviter<'i>(invite: &'i Value, me: &str) -> Option<&'i str> {
    let events = invite.pointer("/invite_state/events").and_then(Value::as_array)?;
    let text = |event: &'i Value, name: &str| event.get(name).and_then(Value::as_str);
    let own = events.iter().find(|event| {
        text(event, "type") == Some("m.room.member")
            && text(event, "state_key") == Some(me)
            && event.pointer("/content/membership").and_then(Value::as_str) == Some("invite")
    })?;
    text(own, "sender").filter(|sender| is_user(sender))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_is_named_may_invite() {
        let with = |from: &[Invitor]| Invites {
            api: Api::new("http://127.0.0.1:9", ""),
            me: "@bot:x.test".to_owned(),
            from: from.to_vec(),
        };
        let ann = Invitor::Person("@ann:y.test".to_owned());
        assert!(!with(&[]).may("@ann:x.test"));
        assert!(with(std::slice::from_ref(&ann)).may("@ann:y.test"));
        assert!(!with(&[ann]).may("@ann:y.test.evil"));
        assert!(with(&[Invitor::OwnServer]).may("@eve:x.test"));
        assert!(!with(&[Invitor::OwnServer]).may("@eve:x.test:8448"));
    }

    #[test]
    fn the_inviter_is_who_the_server_says() {
        let event = |key: &str, sender: &str, membership: &str| json!({"type": "m.room.member", "state_key": key, "sender": sender, "content": {"membership": membership}});
        let invite = |events: &[Value]| json!({"invite_state": {"events": events}});
        let all = invite(&[event("@ann:x", "@ann:x", "join"), event("@bot:x", "@eve:x", "invite")]);
        assert_eq!(inviter(&all, "@bot:x"), Some("@eve:x"));
        assert_eq!(inviter(&invite(&[event("@bot:x", "eve", "invite")]), "@bot:x"), None);
        assert_eq!(inviter(&json!({}), "@bot:x"), None);
    }
}
