//! Channel instances, as configured by an operator.

use crate::Result;
use crate::entities::change;
use crate::entities::change::{ChangeResult, ChangedAgents};
use crate::model::address::ChannelName;
use crate::model::channel::ChannelInstance;
use crate::model::configure::ChannelSpec;
use crate::model::effect::Effect;
use crate::model::entity::Origin;
use crate::model::report::Action;
use crate::rows::destinations;
use crate::state::ForeignKey;
use crate::tx::Tx;

/// Creates or changes a channel instance.
pub(crate) fn put(
    tx: &mut Tx<'_, '_>,
    spec: &ChannelSpec,
    origin: Origin,
    _after: &mut ChangedAgents,
) -> Result<ChangeResult> {
    if spec.name.as_str() == destinations::CHANNEL {
        return Ok(Err(format!(
            "a channel cannot be called `{}`: agents have that name among those who speak",
            spec.name
        )));
    }
    let key = ForeignKey::of(&spec.name);
    let before = tx.db.channels.get(tx, &key)?;
    let row = ChannelInstance {
        name: spec.name.clone(),
        kind: spec.kind,
        token: spec.token.clone(),
        base_url: spec.base_url.clone(),
        secret: spec.secret.clone(),
        listen: spec.listen,
        program: spec.program.clone(),
        link_previews: spec.link_previews,
        unknown_chats: spec.unknown_chats,
        tell_strangers: spec.tell_strangers,
        origin: before.as_ref().map_or(origin, |before| before.origin),
        created: before.as_ref().map_or(tx.now.wall, |before| before.created),
    };
    let action = match &before {
        Some(before) if *before == row => Action::Unchanged,
        Some(_) => Action::Updated,
        None => Action::Created,
    };
    if action != Action::Unchanged {
        tx.db.channels.put(tx, &key, &row)?;
        tx.effects.push(Effect::Reconnect(spec.name.clone()));
    }
    Ok(Ok(vec![change::report(format!("channel {}", spec.name), action)]))
}

/// Removes a channel instance. Its waiting messages are treated as those of any channel without an adapter.
pub(crate) fn remove(tx: &mut Tx<'_, '_>, name: &ChannelName, _after: &mut ChangedAgents) -> Result<ChangeResult> {
    if !tx.db.channels.delete(tx, &ForeignKey::of(name))? {
        return Ok(Err(format!("channel {name} not found; see `hearth channels list`")));
    }
    tx.db.bridges.delete(tx, &ForeignKey::of(name))?;
    tx.effects.push(Effect::Reconnect(name.clone()));
    Ok(Ok(vec![change::report(format!("channel {name}"), Action::Removed)]))
}
