//! Commands for agents' destinations, and for chats that are denied.

use crate::Result;
use crate::entities::change;
use crate::entities::change::{ChangeResult, ChangedAgents};
use crate::model::address::{Address, ChannelName, ForeignId};
use crate::model::configure::DestinationSpec;
use crate::model::entity::{Destination, Folder, normalize_name};
use crate::model::report::Action;
use crate::rows::{agents, chats};
use crate::state::{DestinationKey, Text};
use crate::tx::Tx;

/// Adds a destination: a chat or agent that an agent may write to, under a local name.
pub(crate) fn add(
    tx: &mut Tx<'_, '_>,
    folder: &Folder,
    name: &str,
    target: &DestinationSpec,
    after: &mut ChangedAgents,
) -> Result<ChangeResult> {
    let Some((agent, _)) = agents::find(tx, folder)? else { return Ok(Err(agents::missing(folder))) };
    if let Some(problem) = decide_name(name) {
        return Ok(Err(problem));
    }
    let destination = match target {
        DestinationSpec::Chat(channel, id) => match chats::find(tx, channel, id)? {
            Some((chat, _)) => Destination::Chat(chat),
            None => return Ok(Err(no_chat(channel, id))),
        },
        DestinationSpec::Agent(other) => match agents::find(tx, other)? {
            Some((other, _)) => Destination::Agent(other),
            None => return Ok(Err(agents::missing(other))),
        },
    };
    let key = DestinationKey { agent, name: Text::new(name)? };
    let action = match tx.db.destinations.get(tx, &key)? {
        Some(before) if before == destination => Action::Unchanged,
        Some(_) => Action::Updated,
        None => Action::Created,
    };
    if action != Action::Unchanged {
        tx.db.destinations.put(tx, &key, &destination)?;
        after.changed.insert(agent);
    }
    Ok(Ok(vec![change::report(entity(folder, name), action)]))
}

/// Removes a destination.
pub(crate) fn remove(
    tx: &mut Tx<'_, '_>,
    folder: &Folder,
    name: &str,
    after: &mut ChangedAgents,
) -> Result<ChangeResult> {
    let Some((agent, _)) = agents::find(tx, folder)? else { return Ok(Err(agents::missing(folder))) };
    if decide_name(name).is_some()
        || !tx.db.destinations.delete(tx, &DestinationKey { agent, name: Text::new(name)? })?
    {
        return Ok(Err(format!("{folder} has no destination {name}; see `hearth destinations list`")));
    }
    after.changed.insert(agent);
    Ok(Ok(vec![change::report(entity(folder, name), Action::Removed)]))
}

/// Denies a chat, so that no approval is requested for it, or allows it again.
pub(crate) fn deny(
    tx: &mut Tx<'_, '_>,
    channel: &ChannelName,
    platform_id: &ForeignId,
    denied: bool,
) -> Result<ChangeResult> {
    let known = chats::find(tx, channel, platform_id)?;
    let is_new = known.is_none();
    let (id, mut chat) = match known {
        Some(known) => known,
        None if denied => {
            let at = Address { channel: channel.clone(), platform_id: platform_id.clone(), thread: None };
            chats::discover(tx, &at, false)?
        }
        None => return Ok(Err(no_chat(channel, platform_id))),
    };
    let action = match chat.denied {
        _ if is_new => Action::Created,
        before if before.is_some() == denied => Action::Unchanged,
        _ => Action::Updated,
    };
    if action != Action::Unchanged {
        chat.denied = denied.then_some(tx.now.wall);
        tx.db.chats.put(tx, &id, &chat)?;
    }
    Ok(Ok(vec![change::report(format!("chat {channel}/{platform_id}"), action)]))
}

/// Checks a destination's name, which agents write. It has the form of the names that wirings get.
fn decide_name(name: &str) -> Option<String> {
    let plain = name == normalize_name(name) && name.len() <= Text::MAX_TEXT;
    (!plain).then(|| {
        format!("`{name}` cannot be a destination's name; use lower-case letters, digits and `-`, like `{}`", {
            let short: String = name.chars().take(40).collect();
            normalize_name(&short)
        })
    })
}

fn entity(folder: &Folder, name: &str) -> String {
    format!("destination {folder} -> {name}")
}

fn no_chat(channel: &ChannelName, id: &ForeignId) -> String {
    format!("chat {channel}/{id} not found; add it with `hearth chats add {channel}/{id}`")
}

#[cfg(test)]
mod tests {
    use crate::entities::destinations::*;
    use crate::scene::{Scene, folder, place};

    fn to_chat(id: &str) -> DestinationSpec {
        let (channel, id) = place(id);
        DestinationSpec::Chat(channel, id)
    }

    #[test]
    fn destinations_come_change_and_go() {
        let scene = Scene::new();
        let to_b = || DestinationSpec::Agent(folder("b"));
        for (agent, name, target, expected) in [
            ("b", "home", to_chat("C"), Ok("created destination b -> home")),
            ("b", "home", to_chat("C"), Ok("unchanged destination b -> home")),
            ("b", "home", to_b(), Ok("updated destination b -> home")),
            ("a", "peer", to_b(), Ok("created destination a -> peer")),
            ("z", "home", to_chat("C"), Err("agent z not found")),
            ("a", "home", to_chat("D"), Err("chat net/D not found; add it with `hearth chats add net/D`")),
            ("a", "home", DestinationSpec::Agent(folder("z")), Err("agent z not found")),
            ("a", "Home", to_b(), Err("`Home` cannot be a destination's name")),
        ] {
            let told = scene.tell(|tx, after| add(tx, &folder(agent), name, &target, after));
            match (told, expected) {
                (Ok(told), Ok(expected)) => assert_eq!(told, expected),
                (Err(told), Err(expected)) => assert!(told.starts_with(expected), "{told}"),
                other => panic!("{agent} {name}: {other:?}"),
            }
        }
        assert_eq!(scene.keys("destinations"), ["ag1/net-mg1", "ag1/peer", "ag2/home"]);
        let take = |agent: &str, name: &str| scene.tell(|tx, after| remove(tx, &folder(agent), name, after));
        assert_eq!(take("b", "home").unwrap(), "removed destination b -> home");
        assert!(take("b", "home").unwrap_err().starts_with("b has no destination home"));
        assert!(take("b", "\0").unwrap_err().starts_with("b has no destination"));
        assert!(take("z", "home").unwrap_err().starts_with("agent z not found"));
        assert_eq!(scene.keys("destinations"), ["ag1/net-mg1", "ag1/peer"]);
    }

    /// Only agents whose context changes are told.
    #[test]
    fn whoever_writes_elsewhere_is_told() {
        let scene = Scene::new();
        for (target, told) in [(to_chat("C"), true), (to_chat("C"), false), (DestinationSpec::Agent(folder("a")), true)]
        {
            scene.done(|tx, after| {
                let made = add(tx, &folder("b"), "home", &target, after)?;
                assert_eq!(!after.changed.is_empty(), told, "{target:?}");
                Ok(made)
            });
        }
    }

    #[test]
    fn chats_are_denied_and_allowed() {
        let scene = Scene::new();
        let decide = |id: &str, denied: bool| {
            let (channel, id) = place(id);
            scene.tell(|tx, _| deny(tx, &channel, &id, denied))
        };
        for (denied, expected) in [
            (false, "unchanged chat net/C"),
            (true, "updated chat net/C"),
            (true, "unchanged chat net/C"),
            (false, "updated chat net/C"),
        ] {
            assert_eq!(decide("C", denied).unwrap(), expected);
            let shown = scene.rows("chats").join("\n");
            assert_eq!(shown.contains("denied: Some"), denied, "{shown}");
        }
        assert!(decide("D", false).unwrap_err().starts_with("chat net/D not found"));
        assert_eq!(decide("D", true).unwrap(), "created chat net/D");
    }

    #[test]
    fn names_are_plain() {
        for name in ["family", "a-b-2", "0"] {
            assert_eq!(decide_name(name), None, "{name}");
        }
        for name in ["", "Family", "a b", "-a", "a\0", "ä", &"x".repeat(401)] {
            assert!(decide_name(name).is_some(), "{name}");
        }
    }
}
