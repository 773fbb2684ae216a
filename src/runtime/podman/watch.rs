//! Who notices that a container has ended: Podman's events tell at once, a list every few seconds makes up for what they
//! miss.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::Shared;

/// Time between lists.
const LIST: Duration = Duration::from_secs(3);
/// Pause before a stream of events that broke is opened again.
const REOPEN: Duration = Duration::from_millis(500);

/// Passes on what the events say, for ever.
pub(super) async fn events(shared: Arc<Shared>) {
    loop {
        let heard = |session, action: &str| match session {
            Some(session) if matches!(action, "died" | "remove" | "cleanup") => {
                shared.table.look(|candidate| candidate == session);
            }
            Some(_) => {}
            None => shared.table.look(|_| true),
        };
        shared.api.follow(&shared.setup.install, &heard).await;
        tokio::time::sleep(REOPEN).await;
        // What happened while nobody listened.
        compare(&shared).await;
    }
}

/// Compares what runs with what should, for ever.
pub(super) async fn lists(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(LIST).await;
        compare(&shared).await;
    }
}

async fn compare(shared: &Shared) {
    // Without an answer nothing is known; the next list will tell.
    let Ok(listed) = shared.api.list(&shared.setup.install).await else { return };
    let alive: HashSet<_> = listed.iter().filter(|found| found.alive).filter_map(|found| found.session).collect();
    shared.table.look(|session| !alive.contains(&session));
}
