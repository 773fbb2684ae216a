//! Removes what a file made and does not name any more. What was made by commands or by Hearth itself stays.

use std::collections::BTreeSet;

use super::configure::{Aftermath, Made};
use super::{Cx, Result, agents, people, wirings};
use crate::model::address::{ChannelName, ForeignId, UserId};
use crate::model::configure::Change;
use crate::model::entity::{Folder, Origin};
use crate::state::Write;

/// What a list of changes names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    agents: BTreeSet<Folder>,
    users: BTreeSet<UserId>,
    chats: BTreeSet<(ChannelName, ForeignId)>,
    wirings: BTreeSet<(ChannelName, ForeignId, Folder)>,
}

/// Removes wirings, chats, users and agents of origin file that are not named, in an order in which each goes by itself.
pub(super) fn prune(cx: &Cx<'_>, txn: &mut Write<'_>, named: &Named, after: &mut Aftermath) -> Result<Made> {
    let mut reports = Vec::new();
    let mut note = |made: Made| made.map(|mut made| reports.append(&mut made));
    for (channel, id, folder) in absent_wirings(cx, txn, named)? {
        if let Err(reason) = note(wirings::remove(cx, txn, (&channel, &id), &folder, after)?) {
            return Ok(Err(reason));
        }
    }
    for (_, chat) in cx.db.chats.collect_range(txn, .., usize::MAX)? {
        let place = (chat.channel, chat.platform_id);
        let goes = chat.archived.is_none() && chat.origin == Origin::File && !named.chats.contains(&place);
        if goes && let Err(reason) = note(wirings::remove_chat(cx, txn, (&place.0, &place.1), after)?) {
            return Ok(Err(reason));
        }
    }
    for (_, user) in cx.db.users.collect_range(txn, .., usize::MAX)? {
        let goes = user.origin == Origin::File && !named.users.contains(&user.id);
        if goes && let Err(reason) = note(people::remove(cx, txn, &user.id)?) {
            return Ok(Err(reason));
        }
    }
    for (_, agent) in cx.db.agents.collect_range(txn, .., usize::MAX)? {
        let goes = agent.archived.is_none() && agent.origin == Origin::File && !named.agents.contains(&agent.folder);
        if goes && let Err(reason) = note(agents::remove(cx, txn, &agent.folder, &mut after.effects)?) {
            return Ok(Err(reason));
        }
    }
    Ok(Ok(reports))
}

fn absent_wirings(cx: &Cx<'_>, txn: &Write<'_>, named: &Named) -> Result<Vec<(ChannelName, ForeignId, Folder)>> {
    let mut absent = Vec::new();
    for ((chat, agent), wiring) in cx.db.wirings.collect_range(txn, .., usize::MAX)? {
        if wiring.origin != Origin::File {
            continue;
        }
        let chat = cx.db.chats.require(txn, &chat)?;
        let agent = cx.db.agents.require(txn, &agent)?;
        let wiring = (chat.channel, chat.platform_id, agent.folder);
        if agent.archived.is_none() && !named.wirings.contains(&wiring) {
            absent.push(wiring);
        }
    }
    Ok(absent)
}

impl Named {
    /// What some changes name.
    pub(super) fn of(changes: &[Change]) -> Self {
        let mut named = Self::default();
        for change in changes {
            match change {
                Change::PutAgent(folder, _) => drop(named.agents.insert(folder.clone())),
                Change::PutUser(user) => drop(named.users.insert(user.id.clone())),
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
    use super::*;
    use crate::engine::scene::{Scene, chat, folder, person, settings};
    use crate::model::configure::UserSpec;

    fn user(id: &str) -> UserSpec {
        UserSpec { id: person(id), name: None, roles: Vec::new(), member_of: Vec::new() }
    }

    /// Two of everything by a file, beside what the scene made by commands.
    fn scene() -> Scene {
        let scene = Scene::new();
        for name in ["f", "g"] {
            scene.done(|cx, txn, after| agents::put(cx, txn, (&folder(name), settings()), Origin::File, after));
        }
        for name in ["f", "g"] {
            let id = format!("net:{name}");
            scene.done(|cx, txn, _| people::put(cx, txn, &user(&id), Origin::File));
            scene.done(|cx, txn, after| wirings::put_chat(cx, txn, &chat(name, &["f", "g"]), Origin::File, after));
        }
        scene.done(|cx, txn, _| people::put(cx, txn, &user("net:mine"), Origin::Runtime));
        // A wiring of the file in a chat that a command made.
        scene.done(|cx, txn, after| wirings::put_chat(cx, txn, &chat("C", &["f"]), Origin::File, after));
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

    /// What goes when some of the changes are not there any more.
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
            assert_eq!(scene.done(|cx, txn, after| prune(cx, txn, &named, after)), expected);
            assert_eq!(scene.done(|cx, txn, after| prune(cx, txn, &named, after)), "", "the second time");
            let kept = scene.keys("agents_by_folder");
            assert!(["a", "b"].iter().all(|name| kept.contains(&(*name).to_owned())), "{kept:?}");
            assert!(scene.keys("users").contains(&"net/mine".to_owned()));
            assert!(scene.keys("wirings").contains(&"mg1/ag1".to_owned()));
        }
    }
}
