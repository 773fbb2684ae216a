//! The names of people, asked once in a while.

use std::collections::BTreeMap;
use std::time::Duration;

use hearth_bridge::program::now;
use serde_json::Value;

use super::api::{Api, Trouble};
use super::event::text;
use super::mrkdwn::is_person;

/// People whose names are remembered.
const REMEMBERED: usize = 5_000;
/// How long a name holds.
const FRESH: Duration = Duration::from_secs(3_600);
/// Longest name, in characters.
const NAME_MAX: usize = 100;

/// The names by ids.
pub(super) struct People {
    api: Api,
    known: BTreeMap<String, Known>,
    /// Until when Slack wants no questions.
    paused: Duration,
}

struct Known {
    name: Option<String>,
    at: Duration,
}

impl People {
    pub(super) fn new(api: Api) -> Self {
        Self { api, known: BTreeMap::new(), paused: Duration::ZERO }
    }

    /// The name of a person. A message is not held up by a name that cannot be had.
    pub(super) fn name(&mut self, id: &str) -> Option<String> {
        if let Some(known) = self.known.get(id)
            && now().saturating_sub(known.at) < FRESH
        {
            return known.name.clone();
        }
        if !is_person(id) || now() < self.paused {
            return self.known.get(id).and_then(|known| known.name.clone());
        }
        let name = match self.api.get("users.info", &[("user", id)]) {
            Ok(answer) => name(&answer),
            Err(trouble) => {
                if let Trouble::Paused(pause) = trouble {
                    self.paused = now() + pause;
                }
                self.known.get(id).and_then(|known| known.name.clone())
            }
        };
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        self.known.insert(id.to_owned(), Known { name: name.clone(), at: now() });
        name
    }
}

fn name(answer: &Value) -> Option<String> {
    let places = ["/user/profile/display_name", "/user/profile/real_name", "/user/real_name", "/user/name"];
    let bare = |name: &str| name.chars().filter(|char| !char.is_control()).take(NAME_MAX).collect::<String>();
    let names = places.iter().filter_map(|place| text(answer, place)).map(|name| bare(name.trim()));
    names.into_iter().find(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_shown_name_comes_first() {
        let of = |display: &str| name(&json!({ "user": { "name": "ann", "profile": { "display_name": display } } }));
        assert_eq!((of("Ann\n B"), of(" ")), (Some("Ann B".to_owned()), Some("ann".to_owned())));
        assert_eq!(name(&json!({ "user": { "name": 5 } })), None);
    }
}
