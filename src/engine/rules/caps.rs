//! Caps: what one message of an agent may use. Pure.

use crate::model::budget::Caps;
use crate::model::gateway::{Allowance, Cap};
use crate::model::time::Millis;

/// Caps of agents that configure none. No honest message comes near them; a loop does.
const TOKENS: u64 = 100_000_000;
const CALLS: u32 = 1_000;
const MINUTES: u32 = 720;

/// What a message has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// Tokens of all its turns.
    pub(crate) tokens: u64,
    /// Calls of models, as far as the gateway counted them.
    pub(crate) calls: u32,
}

/// What a message may still use.
pub(crate) fn left(caps: &Caps, used: Used) -> Allowance {
    Allowance {
        tokens: Some(caps.tokens.unwrap_or(TOKENS).saturating_sub(used.tokens)),
        calls: Some(caps.calls.unwrap_or(CALLS).saturating_sub(used.calls)),
    }
}

/// The cap because of which a message gets no further turn.
pub(crate) fn reached(caps: &Caps, used: Used) -> Option<Cap> {
    match left(caps, used) {
        Allowance { tokens: Some(0), .. } => Some(Cap::Tokens),
        Allowance { calls: Some(0), .. } => Some(Cap::Calls),
        Allowance { .. } => None,
    }
}

/// How long a turn may take.
pub(crate) fn time(caps: &Caps) -> Millis {
    Millis::minutes(caps.minutes.unwrap_or(MINUTES).into())
}

/// Says that a message reached a cap; reads on after "the agent was stopped:".
pub(crate) fn text(caps: &Caps, cap: Cap) -> String {
    let (most, what) = match cap {
        Cap::Tokens => (caps.tokens.unwrap_or(TOKENS), "token"),
        Cap::Calls => (caps.calls.unwrap_or(CALLS).into(), "model call"),
        Cap::Minutes => (caps.minutes.unwrap_or(MINUTES).into(), "minute"),
    };
    let s = if most == 1 { "" } else { "s" };
    format!("it reached the limit of {most} {what}{s} for one message")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_message_ends_at_the_first_cap_that_it_reaches() {
        let caps = Caps { tokens: Some(10), calls: Some(2), ..Caps::default() };
        for (tokens, calls, cap) in [
            (0, 0, None),
            (9, 1, None),
            (10, 0, Some(Cap::Tokens)),
            (9, 2, Some(Cap::Calls)),
            (u64::MAX, u32::MAX, Some(Cap::Tokens)),
        ] {
            assert_eq!(reached(&caps, Used { tokens, calls }), cap, "{tokens} {calls}");
        }
        assert_eq!(reached(&Caps::default(), Used { tokens: 50_000_000, calls: 500 }), None);
        assert_eq!(text(&caps, Cap::Calls), "it reached the limit of 2 model calls for one message");
        assert_eq!(text(&Caps::default(), Cap::Minutes), "it reached the limit of 720 minutes for one message");
    }

    proptest! {
        /// Using more never leaves more, and a message without anything left gets no further turn.
        #[test]
        fn more_use_leaves_less(tokens: u64, calls: u32, more: u32, cap_tokens: Option<u64>, cap_calls: Option<u32>) {
            let caps = Caps { tokens: cap_tokens, calls: cap_calls, ..Caps::default() };
            let used = Used { tokens, calls };
            let later = Used { tokens: tokens.saturating_add(more.into()), calls: calls.saturating_add(more) };
            let (now, then) = (left(&caps, used), left(&caps, later));
            prop_assert!(then.tokens <= now.tokens && then.calls <= now.calls);
            prop_assert!(reached(&caps, used).is_none() || reached(&caps, later).is_some());
        }
    }
}
