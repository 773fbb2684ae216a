//! Sessions that are made before anything is said in them, so that what another host remembers can be put there.

use super::configure::{Made, missing, report};
use super::{Cx, Result, agents, channels, chats, readable, sessions};
use crate::model::address::Address;
use crate::model::entity::Folder;
use crate::model::report::Action;
use crate::state::Write;

/// Makes the session that messages of this chat or thread would go to, unless it is there.
pub(super) fn session(cx: &Cx<'_>, txn: &mut Write<'_>, folder: &Folder, address: &Address) -> Result<Made> {
    let Address { channel, platform_id, thread } = address;
    let Some((agent, _)) = agents::find(cx, txn, folder)? else { return Ok(Err(agents::missing(folder))) };
    let place = format!("{channel}/{platform_id}");
    let Some((id, chat)) = chats::find(cx, txn, channel, platform_id)? else {
        return Ok(Err(missing("chat", place)));
    };
    let Some(wiring) = cx.db.wirings.get(txn, &(id, agent))? else {
        return Ok(Err(format!("{folder} does not listen in {place}; `hearth wirings add` lets it")));
    };
    let threads = readable(channels::capabilities(cx, txn, channel))?.map(|can| can.threads);
    let address = match (threads, thread) {
        (Some(false), Some(_)) => Address { thread: None, ..address.clone() },
        _ => address.clone(),
    };
    let mode = sessions::decide_mode(wiring.session, threads, chat.group);
    let route = sessions::decide_route(mode, id, &address);
    let (session, made) = sessions::open(cx, txn, agent, route, &address)?;
    let action = if made { Action::Created } else { Action::Unchanged };
    Ok(Ok(vec![report(format!("session {session} of agent {folder}"), action)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::scene::{Scene, folder, place};

    #[test]
    fn a_session_is_made_once_and_only_where_its_agent_listens() {
        let scene = Scene::new();
        for (agent, chat, expected) in [
            ("z", "C", Err("there is no agent z")),
            ("a", "D", Err("there is no chat net/D")),
            ("b", "C", Err("b does not listen in net/C")),
            ("a", "C", Ok("created session se1 of agent a")),
            ("a", "C", Ok("unchanged session se1 of agent a")),
        ] {
            let (channel, platform_id) = place(chat);
            let address = Address { channel, platform_id, thread: None };
            let told = scene.tell(|cx, txn, _| session(cx, txn, &folder(agent), &address));
            match (&told, expected) {
                (Ok(told), Ok(expected)) => assert_eq!(told, expected),
                (Err(told), Err(expected)) => assert!(told.starts_with(expected), "{told}"),
                _ => panic!("{told:?} {expected:?}"),
            }
        }
    }
}
