//! How many sessions the bot began: Discord makes a token worthless that begins 1,000 within a day. Kept in a file, so that a
//! bridge that is started again and again counts on.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use hearth_bridge::program::log;
use hearth_bridge::program::state::seconds;

const DAY: i64 = 86_400;
/// Sessions within a day.
const DAILY: usize = 500;
/// Whole seconds between two; Discord allows one within five.
const GAP: i64 = 6;

/// When sessions began, in seconds since 1970.
pub(crate) struct Budget {
    path: PathBuf,
    began: VecDeque<i64>,
}

impl Budget {
    pub(crate) fn open(path: PathBuf) -> Self {
        // One that cannot be read begins anew; Discord counts, too.
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        Self { path, began: text.lines().filter_map(|line| line.parse().ok()).collect() }
    }

    /// How long the next session has to wait.
    pub(crate) fn wait(&mut self) -> Option<Duration> {
        let moment = seconds();
        self.began.retain(|began| (0..DAY).contains(&(moment - began)));
        let gap = self.began.back().map_or(0, |last| last + GAP - moment);
        let day = self.began.front().filter(|_| self.began.len() >= DAILY).map_or(0, |first| first + DAY - moment);
        let wait = u64::try_from(gap.max(day)).unwrap_or(0);
        (wait > 0).then(|| Duration::from_secs(wait))
    }

    /// A session begins.
    pub(crate) fn spend(&mut self) {
        self.began.push_back(seconds());
        let text: String = self.began.iter().map(|began| format!("{began}\n")).collect();
        let new = self.path.with_extension("new");
        if let Err(error) = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &self.path)) {
            log(&format!("sessions cannot be counted in {}: {error}", self.path.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_counted_beyond_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sessions");
        assert_eq!(Budget::open(path.clone()).wait(), None);
        Budget::open(path.clone()).spend();
        assert!(Budget::open(path.clone()).wait().is_some_and(|wait| wait <= Duration::from_secs(6)));
        let hour_ago = seconds() - 3_600;
        std::fs::write(&path, format!("x\n{}", format!("{hour_ago}\n").repeat(DAILY))).unwrap();
        assert!(Budget::open(path).wait().is_some_and(|wait| wait > Duration::from_secs(80_000)));
    }
}
