//! How many requests Discord wants: a window for each route and channel, one for everything, and an end to requests that are
//! refused.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Requests in a second; Discord allows 50.
const PER_SECOND: usize = 40;
/// Requests in the first second of this process: an earlier one may have sent [`PER_SECOND`] just before it was killed.
const AT_FIRST: usize = 10;
const SECOND: Duration = Duration::from_secs(1);
/// Longest pause that the server can ask for.
const PAUSE_MAX: Duration = Duration::from_secs(3_600);
/// The pause if it does not say how long.
const PAUSE: Duration = Duration::from_secs(5);
/// Windows that are remembered.
const REMEMBERED: usize = 10_000;
/// Refused requests in ten minutes; Discord bars addresses with 10,000.
const REFUSED_MAX: u32 = 2_000;
const REFUSED_WINDOW: Duration = Duration::from_secs(600);

/// What has limits of its own: a kind of request, and the channel or the like that it is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Route {
    pub(crate) kind: &'static str,
    pub(crate) about: String,
}

/// What an answer says of limits.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    /// The server's name for what shares a window.
    pub(crate) bucket: Option<String>,
    /// Requests that are left.
    pub(crate) remaining: Option<u64>,
    /// When the window begins anew.
    pub(crate) reset_after: Option<Duration>,
}

/// What is known of the limits.
#[derive(Debug)]
pub(crate) struct Limits {
    buckets: BTreeMap<&'static str, String>,
    until: BTreeMap<(String, String), Duration>,
    all_until: Duration,
    recent: VecDeque<Duration>,
    refused: u32,
    refused_since: Duration,
}

impl Limits {
    /// Limits of a process that begins now.
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            buckets: BTreeMap::new(),
            until: BTreeMap::new(),
            all_until: Duration::ZERO,
            recent: std::iter::repeat_n(now, PER_SECOND - AT_FIRST).collect(),
            refused: 0,
            refused_since: Duration::ZERO,
        }
    }

    /// How long a request has to wait. It counts as sent if that is nothing.
    pub(crate) fn wait(&mut self, route: &Route, now: Duration) -> Duration {
        while self.recent.front().is_some_and(|first| *first + SECOND <= now) {
            self.recent.pop_front();
        }
        let rate = self
            .recent
            .front()
            .filter(|_| self.recent.len() >= PER_SECOND)
            .map_or(Duration::ZERO, |first| *first + SECOND);
        let own = self.until.get(&self.key(route)).copied().unwrap_or_default();
        let wait = rate.max(own).max(self.all_until).saturating_sub(now);
        if wait.is_zero() {
            self.recent.push_back(now);
        }
        wait
    }

    fn key(&self, route: &Route) -> (String, String) {
        (self.buckets.get(route.kind).map_or(route.kind, String::as_str).to_owned(), route.about.clone())
    }

    /// Learns from an answer.
    pub(crate) fn learn(&mut self, route: &Route, told: Told, now: Duration) {
        if let Some(bucket) = told.bucket.filter(|bucket| bucket.len() <= 100) {
            self.buckets.insert(route.kind, bucket);
        }
        if let (Some(0), Some(reset)) = (told.remaining, told.reset_after) {
            self.hold(route, now + reset.min(PAUSE_MAX), now);
        }
    }

    /// The server refused a request because there were too many: how long to wait.
    pub(crate) fn pause(&mut self, route: &Route, named: Option<f64>, is_for_all: bool, now: Duration) -> Duration {
        let named = named.filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        let pause = named.map_or(PAUSE, |seconds| Duration::from_secs_f64(seconds.min(PAUSE_MAX.as_secs_f64())));
        match is_for_all {
            true => self.all_until = self.all_until.max(now + pause),
            false => self.hold(route, now + pause, now),
        }
        pause
    }

    fn hold(&mut self, route: &Route, until: Duration, now: Duration) {
        if self.until.len() >= REMEMBERED {
            self.until.retain(|_, until| *until > now);
        }
        let key = self.key(route);
        let known = self.until.entry(key).or_default();
        *known = until.max(*known);
    }

    /// A request was refused with 401, 403 or 429.
    pub(crate) fn refused(&mut self, now: Duration) {
        if self.refused == 0 || now.saturating_sub(self.refused_since) > REFUSED_WINDOW {
            (self.refused, self.refused_since) = (0, now);
        }
        self.refused += 1;
        if self.refused >= REFUSED_MAX {
            self.all_until = self.all_until.max(self.refused_since + REFUSED_WINDOW);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(about: &str) -> Route {
        Route { kind: "post messages", about: about.to_owned() }
    }

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn an_empty_window_holds_its_channel_and_no_other() {
        let mut limits = Limits::new(seconds(0));
        let told = |remaining| Told {
            bucket: Some("b".to_owned()),
            remaining: Some(remaining),
            reset_after: Some(seconds(3)),
        };
        limits.learn(&route("1"), told(1), seconds(1));
        assert_eq!(limits.wait(&route("1"), seconds(1)), Duration::ZERO);
        limits.learn(&route("1"), told(0), seconds(1));
        assert_eq!(limits.wait(&route("1"), seconds(2)), seconds(2));
        assert_eq!(limits.wait(&route("2"), seconds(2)), Duration::ZERO);
        // Another kind of request in the same bucket.
        let other = Route { kind: "patch message", about: "1".to_owned() };
        assert_eq!(limits.wait(&other, seconds(2)), Duration::ZERO);
        limits.learn(&other, told(1), seconds(2));
        assert_eq!(limits.wait(&other, seconds(2)), seconds(2));
        assert_eq!(limits.wait(&route("1"), seconds(4)), Duration::ZERO);
    }

    #[test]
    fn pauses_are_bounded_and_a_global_one_is_for_all() {
        let mut limits = Limits::new(seconds(0));
        assert_eq!(limits.pause(&route("1"), Some(31_536_000.0), false, seconds(0)), PAUSE_MAX);
        assert_eq!(limits.pause(&route("3"), None, false, seconds(0)), PAUSE);
        for odd in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(limits.pause(&route("3"), Some(odd), false, seconds(0)), PAUSE);
        }
        assert_eq!(limits.wait(&route("2"), seconds(0)), Duration::ZERO);
        assert_eq!(limits.pause(&route("1"), Some(0.5), true, seconds(0)), Duration::from_millis(500));
        assert_eq!(limits.wait(&route("2"), seconds(0)), Duration::from_millis(500));
    }

    #[test]
    fn a_process_that_follows_another_sends_few_requests_in_its_first_second() {
        let mut limits = Limits::new(seconds(7));
        assert!((0..AT_FIRST).all(|_| limits.wait(&route("1"), seconds(7)).is_zero()));
        assert_eq!(limits.wait(&route("1"), seconds(7)), SECOND);
        assert_eq!(limits.wait(&route("1"), seconds(8)), Duration::ZERO);
    }

    #[test]
    fn requests_in_a_second_and_refused_ones_are_counted() {
        let mut limits = Limits::new(seconds(0));
        assert!((0..PER_SECOND).all(|_| limits.wait(&route("1"), seconds(1)).is_zero()));
        assert_eq!(limits.wait(&route("1"), seconds(1)), SECOND);
        assert_eq!(limits.wait(&route("1"), seconds(2)), Duration::ZERO);
        (0..REFUSED_MAX).for_each(|_| limits.refused(seconds(100)));
        assert_eq!(limits.wait(&route("1"), seconds(200)), seconds(500));
    }
}
