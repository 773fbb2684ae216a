//! Settings, and the cursors of walks.

use crate::Result;
use crate::model::configure::Settings;
use crate::model::entity::Folder;
use crate::rules::budgets::Today;
use crate::state::Basis;
use crate::time::zone::Zone;
use crate::tx::Tx;
use std::sync::Arc;

/// Clears the default agent if it is the removed one.
pub(crate) fn forget_default(tx: &mut Tx<'_, '_>, folder: &Folder) -> Result<()> {
    match tx.db.settings.get(tx, &())? {
        Some(settings) if settings.default_agent.as_ref() == Some(folder) => {
            tx.db.settings.put(tx, &(), &Settings { default_agent: None, ..settings })
        }
        _ => Ok(()),
    }
}

/// The time zone of the installation's users. The configured one was checked; if it is not a time zone any more, the
/// machine's applies.
pub(crate) fn zone(tx: &Tx<'_, '_>) -> Result<Zone> {
    Ok(zone_of(tx, &tx.db.settings.get(tx, &())?.unwrap_or_default()))
}

/// As [`zone`], by settings that were read already.
pub(crate) fn zone_of(tx: &Tx<'_, '_>, settings: &Settings) -> Zone {
    let configured = settings.timezone.as_deref().and_then(|name| Zone::parse(name).ok());
    configured.unwrap_or_else(|| tx.cx.zone.clone())
}

/// The day of the installation's users, by settings that were read already. It is computed once a day.
pub(crate) fn today(tx: &Tx<'_, '_>, settings: &Settings) -> Arc<Today> {
    let zone = settings.timezone.as_deref().unwrap_or_else(|| tx.cx.zone.name());
    let known = tx.known::<Today>(Basis::Settings, &());
    known.filter(|known| known.is_in(zone) && known.holds(tx.now.wall)).unwrap_or_else(|| {
        let today = Arc::new(Today::of(tx.now.wall, zone_of(tx, settings)));
        tx.keep(Basis::Settings, &(), Arc::clone(&today));
        today
    })
}

/// Walks with a cursor in the same table that remove nothing.
const OTHER_WALKS: [&str; 3] = [RENEWAL, RECONSIDERED, BUDGETS_RECONSIDERED];

/// Restarts every retention walk after its settings changed.
pub(crate) fn begin_again(tx: &mut Tx<'_, '_>) -> Result<()> {
    let rows = tx.db.retention_cursors.collect_range(tx, .., tx.policy.rows_per_input)?;
    for (key, _) in rows.into_iter().filter(|(key, _)| !OTHER_WALKS.contains(&key.as_str())) {
        tx.db.retention_cursors.delete(tx, &key)?;
    }
    Ok(())
}

/// Key of the walk over open approvals in `swept`. Its row exists only while the walk is in progress.
pub(crate) const RECONSIDERED: &str = "approvals_reconsidered";

/// Key of the walk over tasks in `swept`. Its row exists only while the walk is in progress.
pub(crate) const RENEWAL: &str = "tasks_renewed";

/// Key of the walk over messages that wait for budgets in `swept`. Its row exists only while the walk is in progress.
pub(crate) const BUDGETS_RECONSIDERED: &str = "budgets_reconsidered";
