//! Removes entities that a file created and no longer names. Entities created by commands or by Hearth stay.

use crate::Result;
use crate::entities::change::{ChangeResult, ChangedAgents};
use crate::entities::{agents, channels, people, wirings};
use crate::model::address::{ChannelName, ForeignId, UserId};
use crate::model::configure::Change;
use crate::model::entity::{Folder, Origin};
use crate::state::WiringKey;
use crate::tx::Tx;
use std::collections::BTreeSet;

/// The entities that a list of changes names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Named {
    agents: BTreeSet<Folder>,
    users: BTreeSet<UserId>,
    chats: BTreeSet<(ChannelName, ForeignId)>,
    wirings: BTreeSet<(ChannelName, ForeignId, Folder)>,
    channels: BTreeSet<ChannelName>,
}

/// Removes wirings, chats, users, agents and channels of origin file that are not named, in an order in which each can
/// be removed on its own.
pub(crate) fn prune(tx: &mut Tx<'_, '_>, named: &Named, after: &mut ChangedAgents) -> Result<ChangeResult> {
    let mut reports = Vec::new();
    let mut note = |made: ChangeResult| made.map(|mut made| reports.append(&mut made));
    for (channel, id, folder) in absent_wirings(tx, named)? {
        if let Err(reason) = note(wirings::remove(tx, &channel, &id, &folder, after)?) {
            return Ok(Err(reason));
        }
    }
    for (_, chat) in tx.db.chats.collect_range(tx, .., usize::MAX)? {
        let place = (chat.channel, chat.platform_id);
        let goes = chat.archived.is_none() && chat.origin == Origin::File && !named.chats.contains(&place);
        if goes && let Err(reason) = note(wirings::remove_chat(tx, &place.0, &place.1, after)?) {
            return Ok(Err(reason));
        }
    }
    for (_, user) in tx.db.users.collect_range(tx, .., usize::MAX)? {
        let goes = user.origin == Origin::File && !named.users.contains(&user.id);
        if goes && let Err(reason) = note(people::remove(tx, &user.id)?) {
            return Ok(Err(reason));
        }
    }
    for (_, agent) in tx.db.agents.collect_range(tx, .., usize::MAX)? {
        let goes = agent.archived.is_none() && agent.origin == Origin::File && !named.agents.contains(&agent.folder);
        if goes && let Err(reason) = note(agents::remove(tx, &agent.folder)?) {
            return Ok(Err(reason));
        }
    }
    for (_, channel) in tx.db.channels.collect_range(tx, .., usize::MAX)? {
        let goes = channel.origin == Origin::File && !named.channels.contains(&channel.name);
        if goes && let Err(reason) = note(channels::remove(tx, &channel.name, after)?) {
            return Ok(Err(reason));
        }
    }
    Ok(Ok(reports))
}

fn absent_wirings(tx: &Tx<'_, '_>, named: &Named) -> Result<Vec<(ChannelName, ForeignId, Folder)>> {
    let mut absent = Vec::new();
    for (WiringKey { chat, agent }, wiring) in tx.db.wirings.collect_range(tx, .., usize::MAX)? {
        if wiring.origin != Origin::File {
            continue;
        }
        let chat = tx.db.chats.require(tx, &chat)?;
        let agent = tx.db.agents.require(tx, &agent)?;
        let wiring = (chat.channel, chat.platform_id, agent.folder);
        if agent.archived.is_none() && !named.wirings.contains(&wiring) {
            absent.push(wiring);
        }
    }
    Ok(absent)
}

impl Named {
    /// Collects the entities that these changes name.
    pub(crate) fn of(changes: &[Change]) -> Self {
        let mut named = Self::default();
        for change in changes {
            match change {
                Change::PutAgent(folder, _) => drop(named.agents.insert(folder.clone())),
                Change::PutUser(user) => drop(named.users.insert(user.id.clone())),
                Change::PutChannel(channel) => drop(named.channels.insert(channel.name.clone())),
                Change::PutChat(chat) => {
                    named.chats.insert((chat.channel.clone(), chat.platform_id.clone()));
                    named.wirings.extend(
                        chat.wirings
                            .iter()
                            .map(|wiring| (chat.channel.clone(), chat.platform_id.clone(), wiring.agent.clone())),
                    );
                }
                _ => {}
            }
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use crate::configure::prune::*;
    use crate::model::configure::UserSpec;
    use crate::scene::{Scene, chat, folder, person, settings};

    fn user(id: &str) -> UserSpec {
        UserSpec { id: person(id), name: None, roles: Vec::new(), member_of: Vec::new() }
    }

    /// Adds two of each entity by a file, next to those that the scene created by commands.
    fn scene() -> Scene {
        let scene = Scene::new();
        for name in ["f", "g"] {
            scene.done(|tx, after| agents::put(tx, &folder(name), settings(), Origin::File, after));
        }
        for name in ["f", "g"] {
            let id = format!("net:{name}");
            scene.done(|tx, _| people::put(tx, &user(&id), Origin::File));
            scene.done(|tx, after| wirings::put_chat(tx, &chat(name, &["f", "g"]), Origin::File, after));
        }
        scene.done(|tx, _| people::put(tx, &user("net:mine"), Origin::Runtime));
        // A wiring from the file, in a chat created by a command.
        scene.done(|tx, after| wirings::put_chat(tx, &chat("C", &["f"]), Origin::File, after));
        scene
    }

    fn everything() -> Vec<Change> {
        let mut changes = Vec::new();
        for name in ["f", "g"] {
            changes.push(Change::PutAgent(folder(name), settings()));
            changes.push(Change::PutUser(user(&format!("net:{name}"))));
            changes.push(Change::PutChat(chat(name, &["f", "g"])));
        }
        changes.push(Change::PutChat(chat("C", &["f"])));
        changes
    }

    /// The entities that are removed when some of the changes are missing.
    #[test]
    fn what_is_not_named_goes_and_nothing_else() {
        let all = "removed wiring net/C -> f, removed wiring net/f -> f, removed wiring net/f -> g, removed wiring net/g -> f, \
                   removed wiring net/g -> g, removed chat net/f, removed chat net/g, removed user net:f, removed user net:g, \
                   removed agent f, removed agent g";
        let g = "removed wiring net/f -> g, removed wiring net/g -> f, removed wiring net/g -> g, removed chat net/g, \
                 removed user net:g, removed agent g";
        let keep_f = |change: &Change| match change {
            Change::PutAgent(name, _) => name.as_str() == "f",
            Change::PutUser(user) => user.id == person("net:f"),
            _ => true,
        };
        let f_alone = |changes: Vec<Change>| {
            let mut changes: Vec<Change> = changes.into_iter().filter(keep_f).collect();
            changes.retain(|change| !matches!(change, Change::PutChat(_)));
            changes.extend([Change::PutChat(chat("f", &["f"])), Change::PutChat(chat("C", &["f"]))]);
            changes
        };
        for (changes, expected) in [(everything(), ""), (Vec::new(), all), (f_alone(everything()), g)] {
            let scene = scene();
            let named = Named::of(&changes);
            assert_eq!(scene.done(|tx, after| prune(tx, &named, after)), expected);
            assert_eq!(scene.done(|tx, after| prune(tx, &named, after)), "", "the second time");
            let kept = scene.keys("agents_by_folder");
            assert!(["a", "b"].iter().all(|name| kept.contains(&(*name).to_owned())), "{kept:?}");
            assert!(scene.keys("users").contains(&"net/mine".to_owned()));
            assert!(scene.keys("wirings").contains(&"mg1/ag1".to_owned()));
        }
    }
}
