//! Which of an agent's providers gets the next turn.

use crate::model::time::Awake;

/// Whether one of an agent's providers takes work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// As far as known, it does.
    Well,
    /// Its pause is over, and no turn has succeeded since. One session at a time tries it.
    OnTrial {
        /// Whether another session does.
        taken: bool,
    },
    /// It does not, before this.
    Paused(Awake),
}

/// Where a turn goes. Numbers are places in the agent's list: 0 is its own provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// To this provider.
    Use(usize),
    /// To none, before the pause of this one is over.
    Wait(usize),
}

/// The first provider that takes work. If each is paused or tried by another session, the first one that is tried, whose
/// slot becomes free, else the one whose pause ends first. None of an empty list.
pub(crate) fn decide_provider(health: &[Health]) -> Option<Choice> {
    let first = |fits: fn(Health) -> bool| health.iter().position(|health| fits(*health)).map(Choice::Use);
    let paused = health.iter().enumerate().filter_map(|(place, health)| match health {
        Health::Paused(until) => Some((*until, place)),
        Health::Well | Health::OnTrial { .. } => None,
    });
    first(|health| matches!(health, Health::Well | Health::OnTrial { taken: false }))
        .or_else(|| first(|health| matches!(health, Health::OnTrial { taken: true })))
        .or_else(|| paused.min().map(|(_, place)| Choice::Wait(place)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIAL: Health = Health::OnTrial { taken: false };
    const TAKEN: Health = Health::OnTrial { taken: true };

    const fn paused(ms: u64) -> Health {
        Health::Paused(Awake::new(1, ms))
    }

    #[test]
    fn the_first_provider_that_takes_work_gets_it() {
        for (health, expected) in [
            (vec![], None),
            (vec![Health::Well, Health::Well], Some(Choice::Use(0))),
            (vec![TRIAL, Health::Well], Some(Choice::Use(0))),
            (vec![TAKEN, Health::Well], Some(Choice::Use(1))),
            (vec![paused(5), TRIAL, Health::Well], Some(Choice::Use(1))),
            (vec![paused(5), TAKEN, Health::Well], Some(Choice::Use(2))),
            (vec![paused(5), paused(9), TAKEN], Some(Choice::Use(2))),
            (vec![paused(9), paused(5), paused(7)], Some(Choice::Wait(1))),
            (vec![paused(5), paused(5)], Some(Choice::Wait(0))),
            (vec![paused(5)], Some(Choice::Wait(0))),
        ] {
            assert_eq!(decide_provider(&health), expected, "{health:?}");
        }
    }

    /// Laws over all lists of up to four providers.
    #[test]
    fn work_waits_only_if_every_provider_is_paused() {
        let kinds = [Health::Well, TRIAL, TAKEN, paused(3), paused(8)];
        let mut lists = vec![vec![]];
        for _ in 0..4 {
            let longer =
                lists.iter().flat_map(|list: &Vec<Health>| kinds.map(|kind| [list.as_slice(), &[kind]].concat()));
            lists = longer.chain(std::iter::once(vec![])).collect();
            for list in lists.iter().filter(|list| !list.is_empty()) {
                match decide_provider(list).unwrap() {
                    Choice::Use(place) => {
                        assert!(!matches!(list[place], Health::Paused(_)), "{list:?}");
                        let better =
                            |health: &Health| matches!(health, Health::Well | Health::OnTrial { taken: false });
                        assert!(list[..place].iter().all(|before| !better(before)), "{list:?}");
                    }
                    Choice::Wait(place) => {
                        assert!(list.iter().all(|health| matches!(health, Health::Paused(_))), "{list:?}");
                        let until =
                            |health: &Health| if let Health::Paused(until) = health { *until } else { unreachable!() };
                        assert!(list.iter().all(|other| until(&list[place]) <= until(other)), "{list:?}");
                    }
                }
            }
        }
    }
}
