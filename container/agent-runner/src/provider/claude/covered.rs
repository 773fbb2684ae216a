//! Which messages a result covers. Pure.
//!
//! The CLI says when it takes a message it was given: at the beginning of a turn, or in the middle of one, after a tool.
//! The next result is about everything taken until then. What was given and not taken is about to be a turn of its own.
//! A CLI that does not say it gets one message at a time.

/// What a message for the CLI is to the runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// What the turn began with.
    Prompt,
    /// Messages that arrived in it, by the name the report gave them.
    Arrival(u64),
    /// The runner's own words about how to answer.
    Note,
}

/// Messages that were given to the CLI and are not covered by a result.
#[derive(Debug, Default)]
pub(super) struct Given {
    messages: Vec<(String, What, bool)>,
    /// Whether the CLI says what it takes.
    tells: bool,
}

impl Given {
    pub(super) fn give(&mut self, uuid: String, what: What) {
        self.messages.push((uuid, what, false));
    }

    /// The CLI says that it will say what it takes.
    pub(super) fn queued(&mut self) {
        self.tells = true;
    }

    /// The CLI took a message: which one, if it was not taken before.
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

    /// A result came: what it is about. Nothing: about something nobody asked for.
    pub(super) fn result(&mut self) -> Vec<What> {
        let tells = self.tells;
        let (covered, rest) =
            std::mem::take(&mut self.messages).into_iter().partition(|(_, _, taken)| *taken || !tells);
        self.messages = rest;
        let covered: Vec<(String, What, bool)> = covered;
        covered.into_iter().map(|(_, what, _)| what).collect()
    }

    /// Whether nothing waits for a result.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Forgets everything that waits: the turn they belonged to is given up.
    pub(super) fn clear(&mut self) {
        self.messages.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `+a`: given, `q`: queued, `a`: taken, `.`: a result. Shown is what each result covers.
    fn play(script: &str) -> (String, bool) {
        let mut given = Given::default();
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
