//! Channel instances, as an operator describes them, and what each can do.

use super::configure::{Aftermath, Made, report};
use super::requests::peers;
use super::{Cx, Result};
use crate::model::address::ChannelName;
use crate::model::channel::{Capabilities, ChannelInstance, ChannelKind};
use crate::model::configure::ChannelSpec;
use crate::model::effect::Effect;
use crate::model::entity::Origin;
use crate::model::report::Action;
use crate::state::{ForeignKey, Write};

/// The channel that is always there.
const TERMINAL: &str = "terminal";

/// Makes a channel instance be as described.
pub(super) fn put(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    spec: &ChannelSpec,
    origin: Origin,
    after: &mut Aftermath,
) -> Result<Made> {
    if spec.name.as_str() == peers::CHANNEL {
        return Ok(Err(format!(
            "a channel cannot be called `{}`: agents have that name among those who speak",
            spec.name
        )));
    }
    let key = ForeignKey::of(&spec.name);
    let before = cx.db.channels.get(txn, &key)?;
    let row = ChannelInstance {
        name: spec.name.clone(),
        kind: spec.kind,
        token: spec.token.clone(),
        base_url: spec.base_url.clone(),
        secret: spec.secret.clone(),
        listen: spec.listen,
        origin: before.as_ref().map_or(origin, |before| before.origin),
        created: before.as_ref().map_or(cx.now.wall, |before| before.created),
    };
    let action = match &before {
        Some(before) if *before == row => Action::Unchanged,
        Some(_) => Action::Updated,
        None => Action::Created,
    };
    if action != Action::Unchanged {
        cx.db.channels.put(txn, &key, &row)?;
        after.effects.push(Effect::Reconnect(spec.name.clone()));
    }
    Ok(Ok(vec![report(format!("channel {}", spec.name), action)]))
}

/// Removes a channel instance; what waits for it waits as for any channel without an adapter.
pub(super) fn remove(cx: &Cx<'_>, txn: &mut Write<'_>, name: &ChannelName, after: &mut Aftermath) -> Result<Made> {
    if !cx.db.channels.delete(txn, &ForeignKey::of(name))? {
        return Ok(Err(format!("there is no channel {name}; see `hearth channels list`")));
    }
    after.effects.push(Effect::Reconnect(name.clone()));
    Ok(Ok(vec![report(format!("channel {name}"), Action::Removed)]))
}

/// What a channel can do; none for one that nobody described.
pub(super) fn capabilities(cx: &Cx<'_>, txn: &Write<'_>, name: &ChannelName) -> Result<Option<Capabilities>> {
    if name.as_str() == TERMINAL {
        return Ok(Some(ChannelKind::Terminal.capabilities()));
    }
    let row = cx.db.channels.get(txn, &ForeignKey::of(name))?;
    Ok(row.filter(|row| row.name == *name).map(|row| row.kind.capabilities()))
}
