//! Tracks which messages a result covers. Pure.
//!
//! The CLI reports when it reads a message: at the beginning of a turn, or during one, after a tool. The next result
//! covers every message read until then. Unread messages will be a turn of their own. A CLI without such reports gets
//! one message at a time.

/// The origin of a message for the CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// The prompt that began the turn.
    Prompt,
    /// Messages that arrived during the turn, by their id in the report.
    Arrival(u64),
    /// The runner's own note about how to answer.
    Note,
}

/// Messages given to the CLI that no result covers yet.
#[derive(Debug, Default)]
pub(super) struct UncoveredMessages {
    messages: Vec<(String, What, bool)>,
    /// Whether the CLI reports what it reads.
    tells: bool,
}

impl UncoveredMessages {
    pub(super) fn give(&mut self, uuid: String, what: What) {
        self.messages.push((uuid, what, false));
    }

    /// Records that the CLI will report what it reads.
    pub(super) fn queued(&mut self) {
        self.tells = true;
    }

    /// Records that the CLI has read a message. Returns which one, unless it was already read.
    pub(super) fn took(&mut self, uuid: &str) -> Option<What> {
        self.tells = true;
        let (_, what, taken) = self.messages.iter_mut().find(|(known, _, taken)| known == uuid && !*taken)?;
        *taken = true;
        Some(*what)
    }

    /// Whether another message can be given before the result of the last one.
    pub(super) fn takes_more(&self) -> bool {
        self.tells
    }

    /// Returns what a new result covers. Empty for a result without a request.
    pub(super) fn result(&mut self) -> Vec<What> {
        let tells = self.tells;
        let (covered, rest) =
            std::mem::take(&mut self.messages).into_iter().partition(|(_, _, taken)| *taken || !tells);
        self.messages = rest;
        let covered: Vec<(String, What, bool)> = covered;
        covered.into_iter().map(|(_, what, _)| what).collect()
    }

    /// Whether the CLI works on a message, as far as it tells, and not on its own account.
    pub(super) fn is_read(&self) -> bool {
        self.messages.iter().any(|(_, _, taken)| *taken || !self.tells)
    }

    /// Whether no message waits for a result.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Drops all waiting messages, because their turn has failed.
    pub(super) fn clear(&mut self) {
        self.messages.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `+a`: given, `q`: queued, `a`: taken, `.`: a result. Shown is what each result covers.
    fn play(script: &str) -> (String, bool) {
        let mut given = UncoveredMessages::default();
        let mut shown = Vec::new();
        for word in script.split_whitespace() {
            let what = |name: &str| name.bytes().next().map_or(What::Note, |byte| What::Arrival(byte.into()));
            match word.strip_prefix('+') {
                Some(name) => given.give(name.to_owned(), what(name)),
                None if word == "." => {
                    let name = |what: &What| match what {
                        What::Arrival(byte) => char::from(u8::try_from(*byte).unwrap()),
                        _ => '?',
                    };
                    shown.push(given.result().iter().map(name).collect::<String>());
                }
                None if word == "q" => given.queued(),
                None => drop(given.took(word)),
            }
        }
        (shown.join("|"), given.is_empty())
    }

    #[test]
    fn a_result_is_about_what_was_taken_before_it() {
        for (script, expected, done) in [
            ("+a a .", "a", true),
            ("+a a +b b .", "ab", true),
            ("+a a +b . b .", "a|b", true),
            ("+a a +b +c . b c .", "a|bc", true),
            ("+a a +b .", "a", false),
            ("+a a . .", "a|", true),
            ("+a a . . +b . b .", "a|||b", true),
            ("+a .", "a", true),
            ("+a a x . a .", "a|", true),
            ("+a q . a .", "|a", true),
        ] {
            assert_eq!(play(script), (expected.to_owned(), done), "{script}");
        }
    }
}
