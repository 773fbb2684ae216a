//! Notices when containers end. Podman's events report it at once; a list every few seconds catches what they miss.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::Shared;

/// Time between lists.
const LIST: Duration = Duration::from_secs(3);
/// Pause before a broken event stream is reopened.
const REOPEN: Duration = Duration::from_millis(500);

/// Passes events on, forever.
pub(super) async fn events(shared: Arc<Shared>) {
    loop {
        let heard = |session, action: &str| match session {
            Some(session) if matches!(action, "died" | "remove" | "cleanup") => {
                shared.sessions.look(|candidate| candidate == session);
            }
            Some(_) => {}
            None => shared.sessions.look(|_| true),
        };
        shared.api.follow(&shared.setup.install, &heard).await;
        tokio::time::sleep(REOPEN).await;
        // Catches up on events missed meanwhile.
        compare(&shared).await;
    }
}

/// Compares running containers with the expected ones, forever.
pub(super) async fn lists(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(LIST).await;
        compare(&shared).await;
    }
}

async fn compare(shared: &Shared) {
    // Without an answer nothing is known. The next list decides.
    let Ok(listed) = shared.api.list(&shared.setup.install).await else { return };
    let alive: HashSet<_> = listed.iter().filter(|found| found.alive).filter_map(|found| found.session).collect();
    shared.sessions.look(|session| !alive.contains(&session));
}
