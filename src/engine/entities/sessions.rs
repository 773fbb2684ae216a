//! Creates sessions before their first message, so that history from another host can be imported into them.

use crate::entities::change;
use crate::entities::change::ChangeResult;
use crate::model::address::Address;
use crate::model::entity::Folder;
use crate::model::id::AgentId;
use crate::model::report::Action;
use crate::model::workspace::{Fingerprint, Workspace};
use crate::rows::{agents, channels, chats, sessions};
use crate::rules::{engage, texts};
use crate::state::WiringKey;
use crate::tx::Tx;
use crate::workspaces::locate;
use crate::{Result, readable};

/// Creates the session that messages of this chat or thread are routed to, unless it exists.
pub(crate) fn session(tx: &mut Tx<'_, '_>, folder: &Folder, address: &Address) -> Result<ChangeResult> {
    let Address { channel, platform_id, thread } = address;
    let Some((agent, _)) = agents::find(tx, folder)? else { return Ok(Err(agents::missing(folder))) };
    let place = format!("{channel}/{platform_id}");
    let Some((id, chat)) = chats::find(tx, channel, platform_id)? else {
        return Ok(Err(texts::missing("chat", place)));
    };
    let Some(wiring) = tx.db.wirings.get(tx, &WiringKey { chat: id, agent })? else {
        return Ok(Err(format!("{folder} does not listen in {place}; `hearth wirings add` lets it")));
    };
    let threads = readable(channels::capabilities(tx, channel))?.map(|can| can.threads);
    let address = match (threads, thread) {
        (Some(false), Some(_)) => Address { thread: None, ..address.clone() },
        _ => address.clone(),
    };
    let mode = engage::decide_mode(wiring.session, threads, chat.group);
    let route = engage::decide_route(mode, id, &address);
    let (session, made) = sessions::open(tx, agent, route, &address)?;
    let action = if made { Action::Created } else { Action::Unchanged };
    Ok(Ok(vec![change::report(format!("session {session} of agent {folder}"), action)]))
}

/// Creates the workspace of an agent group's folder. Its key is the hash of the folder's current path and stays when
/// the data directory moves. A path whose hash collides gets the next discriminator.
pub(crate) fn make_workspace(tx: &mut Tx<'_, '_>, agent: AgentId, folder: &Folder) -> Result<()> {
    let mut path = tx.cx.groups_path.to_vec();
    path.push(b'/');
    path.extend_from_slice(folder.as_str().as_bytes());
    let fingerprint = Fingerprint::of_path(&path);
    let key = locate::free_key(tx, fingerprint)?;
    let workspace = Workspace {
        path: format!("groups/{folder}").into_bytes(),
        former_paths: Vec::new(),
        aliases: Vec::new(),
        agent: Some(agent),
        witness: None,
        project: None,
        replaced: None,
        current: None,
        created: tx.now.wall,
    };
    locate::stored(tx, key, None, &workspace)
}

#[cfg(test)]
mod tests {
    use crate::entities::sessions::*;
    use crate::scene::{Scene, folder, place};

    #[test]
    fn a_session_is_made_once_and_only_where_its_agent_listens() {
        let scene = Scene::new();
        for (agent, chat, expected) in [
            ("z", "C", Err("agent z not found")),
            ("a", "D", Err("chat net/D not found")),
            ("b", "C", Err("b does not listen in net/C")),
            ("a", "C", Ok("created session se1 of agent a")),
            ("a", "C", Ok("unchanged session se1 of agent a")),
        ] {
            let (channel, platform_id) = place(chat);
            let address = Address { channel, platform_id, thread: None };
            let told = scene.tell(|tx, _| session(tx, &folder(agent), &address));
            match (&told, expected) {
                (Ok(told), Ok(expected)) => assert_eq!(told, expected),
                (Err(told), Err(expected)) => assert!(told.starts_with(expected), "{told}"),
                _ => panic!("{told:?} {expected:?}"),
            }
        }
    }
}
