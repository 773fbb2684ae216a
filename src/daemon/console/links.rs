//! Links that sign a person in once. They are in memory only.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::{self, Stopwatch};
use crate::console::{digest, new_token};
use crate::model::address::UserId;
use crate::model::console::TokenDigest;
use crate::model::time::{Millis, Timestamp};

/// How long a link works.
const LIFE: Millis = Millis::seconds(60);
/// Links at a time; the oldest one ends with another one.
const MAX: usize = 20;

#[derive(Default)]
pub(super) struct Links(Mutex<Vec<Link>>);

struct Link {
    digest: TokenDigest,
    user: UserId,
    /// Time since it was made, whatever happens to the clock.
    made: Stopwatch,
}

pub(super) struct NewLink {
    pub(super) code: String,
    pub(super) expires: Timestamp,
}

impl Links {
    pub(super) fn make(&self, user: &UserId) -> std::io::Result<NewLink> {
        let code = new_token()?;
        let mut links = self.lock();
        if links.len() >= MAX {
            links.remove(0);
        }
        links.push(Link { digest: digest(&code), user: user.clone(), made: Stopwatch::start() });
        Ok(NewLink { code, expires: clock::wall().plus(LIFE) })
    }

    /// The person of a link that still works.
    pub(super) fn user(&self, code: &str) -> Option<UserId> {
        let wanted = digest(code);
        self.lock().iter().find(|link| link.digest == wanted).map(|link| link.user.clone())
    }

    /// The same, and the link no longer works.
    pub(super) fn take(&self, code: &str) -> Option<UserId> {
        let wanted = digest(code);
        let mut links = self.lock();
        let at = links.iter().position(|link| link.digest == wanted)?;
        Some(links.remove(at).user)
    }

    /// The links that still work.
    fn lock(&self) -> MutexGuard<'_, Vec<Link>> {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|link| link.made.elapsed() < LIFE.duration());
        links
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> UserId {
        UserId::parse("terminal:1000").unwrap()
    }

    #[test]
    fn a_link_works_once() {
        let links = Links::default();
        let link = links.make(&user()).unwrap();
        assert_eq!((links.user(&link.code), links.user(&link.code)), (Some(user()), Some(user())));
        assert_eq!((links.user("0"), links.take("")), (None, None));
        assert_eq!(links.take(&link.code), Some(user()));
        assert_eq!((links.user(&link.code), links.take(&link.code)), (None, None));
    }

    #[test]
    fn there_are_never_many_links() {
        let links = Links::default();
        let first = links.make(&user()).unwrap();
        for _ in 0..MAX {
            links.make(&user()).unwrap();
        }
        assert_eq!((links.user(&first.code), links.lock().len()), (None, MAX));
    }
}
