//! Keeps the backup of keys at the server up to date, on a thread of its own and in small steps, so that it delays no message.

use std::thread::sleep;
use std::time::Duration;

use hearth_bridge::program::log;

use crate::api::Trouble;
use crate::crypto::{Crypto, Kept};

/// Between two steps while there is more.
const STEP: Duration = Duration::from_secs(1);
/// How often new keys are looked for.
const LOOK: Duration = Duration::from_secs(15);
/// After a fault.
const AGAIN: Duration = Duration::from_secs(30);
/// Seconds for which the bot's signing keys are waited for.
const SIGNING: u32 = 60;

/// Works until the bridge ends, or until the server has a backup that may not be used.
pub(crate) fn keep(crypto: &Crypto) {
    for _ in 0..SIGNING {
        if crypto.is_settled() {
            break;
        }
        sleep(STEP);
    }
    let (mut is_prepared, mut seen) = (false, None);
    loop {
        let changes = crypto.table().changes();
        let wait = match step(crypto, is_prepared, seen == Some(changes)) {
            Ok(Kept::Refused) => return,
            Ok(Kept::More) => {
                is_prepared = true;
                STEP
            }
            Ok(Kept::All) => {
                seen = Some(changes);
                LOOK
            }
            Err(Trouble::Paused(pause)) => pause,
            Err(trouble) => {
                log(&format!("the backup of keys waits: {trouble}"));
                AGAIN
            }
        };
        sleep(wait);
    }
}

fn step(crypto: &Crypto, is_prepared: bool, is_same: bool) -> Result<Kept, Trouble> {
    match (is_prepared, is_same) {
        (false, _) => crypto.prepare_backup(),
        (true, true) => Ok(Kept::All),
        (true, false) => crypto.back_up(),
    }
}
