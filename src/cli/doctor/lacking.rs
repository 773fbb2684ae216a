//! Checks for prerequisites that agents need before they can answer.

use super::{Check, CheckStatus, bad, ok};
use crate::cli::prerequisites::{self, Gap};
use crate::config::Paths;
use crate::console::Rank;
use crate::socket::protocol::DaemonStatus;
use crate::state::Reader;

/// Fails for each prerequisite that is missing.
pub(super) fn lacking(paths: &Paths, reader: &Reader, daemon: Option<&DaemonStatus>) -> Vec<Check> {
    match reader.read(|db, txn| prerequisites::missing(paths, db, txn, daemon, &Rank::Everything)) {
        Ok(gaps) => {
            let owned = !gaps.iter().any(|gap| gap.check == "owner");
            // The checks of containers report more about Podman.
            let gaps = gaps.into_iter().filter(|gap| gap.check != "podman");
            let found = gaps.map(|Gap { check, found, mend }| bad(check, CheckStatus::Fail, found, mend));
            found.chain(owned.then(|| ok("owner", "configured"))).collect()
        }
        Err(error) => vec![bad("owner", CheckStatus::Fail, error.to_string(), "run `hearth check`")],
    }
}
