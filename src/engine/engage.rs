//! Whether a message is an agent's business: pure.

use super::access::{Standing, decide_access};
use super::pattern::Patterns;
use crate::model::entity::{Engage, Ignored, SenderScope, UnknownSenders, Wiring};
use crate::model::message::Reason;
use crate::model::report::Decision;

/// What a decision is made of.
pub(super) struct Facts<'a> {
    /// Text of the message.
    pub(super) text: &'a str,
    /// The platform says that the bot was addressed.
    pub(super) mention: bool,
    /// The chat's policy towards strangers.
    pub(super) unknown_senders: UnknownSenders,
    /// What the sender is to the agent.
    pub(super) standing: Standing,
}

/// What one wiring makes of a message, and why. Gates are asked only if the message engages: a refusal is never turned
/// into context, and what is kept as context needs no permission.
pub(super) fn decide(wiring: &Wiring, facts: &Facts<'_>, patterns: &Patterns) -> (Decision, Reason) {
    let engaged = match engages(&wiring.engage, facts, patterns) {
        Ok(reason) => reason,
        Err(reason) if wiring.ignored == Ignored::Accumulate => return (Decision::Accumulated, reason),
        Err(reason) => return (Decision::Ignored, reason),
    };
    if let Err(reason) = decide_access(facts.unknown_senders, facts.standing) {
        return (Decision::Refused, reason);
    }
    match (wiring.senders, facts.standing) {
        (SenderScope::Known, Standing::Nobody) => (Decision::Refused, Reason::UnknownUserScope),
        (SenderScope::Known, Standing::Stranger) => (Decision::Refused, Reason::SenderScopeNotMember),
        _ => (Decision::Engaged, engaged),
    }
}

fn engages(engage: &Engage, facts: &Facts<'_>, patterns: &Patterns) -> Result<Reason, Reason> {
    match engage {
        Engage::Pattern(pattern) if patterns.matches(pattern, facts.text) => Ok(Reason::PatternMatch),
        Engage::Pattern(_) => Err(Reason::PatternMismatch),
        // Stickiness has no fact to stand on yet; the file refuses the mode, a stored one is at least a mention.
        Engage::Mention | Engage::MentionSticky if facts.mention => Ok(Reason::Mentioned),
        Engage::Mention | Engage::MentionSticky => Err(Reason::NotMentioned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::entity::{Origin, SessionMode};
    use crate::model::time::Timestamp;

    fn wiring(engage: Engage, senders: SenderScope, ignored: Ignored) -> Wiring {
        let created = Timestamp::from_millis(0);
        Wiring { engage, senders, ignored, session: SessionMode::Shared, priority: 0, origin: Origin::File, created }
    }

    fn decide_for(wiring: &Wiring, standing: Standing, unknown_senders: UnknownSenders) -> (Decision, Reason) {
        let facts = Facts { text: "hello", mention: false, unknown_senders, standing };
        decide(wiring, &facts, &Patterns::default())
    }

    /// The peer's table, without its weakness that a refusal of one gate is recorded as another's.
    #[test]
    fn decisions_follow_the_wiring_table() {
        let always = || Engage::Pattern(".".into());
        let never = || Engage::Pattern("^bye$".into());
        let known = Standing::Known(Reason::Member);
        for (engage, senders, ignored, standing, expected) in [
            (always(), SenderScope::All, Ignored::Drop, known, (Decision::Engaged, Reason::PatternMatch)),
            (
                always(),
                SenderScope::All,
                Ignored::Accumulate,
                Standing::Stranger,
                (Decision::Refused, Reason::UnknownSenderStrict),
            ),
            (
                never(),
                SenderScope::All,
                Ignored::Accumulate,
                Standing::Stranger,
                (Decision::Accumulated, Reason::PatternMismatch),
            ),
            (never(), SenderScope::All, Ignored::Drop, known, (Decision::Ignored, Reason::PatternMismatch)),
            (Engage::Mention, SenderScope::All, Ignored::Drop, known, (Decision::Ignored, Reason::NotMentioned)),
            (
                Engage::Mention,
                SenderScope::All,
                Ignored::Accumulate,
                known,
                (Decision::Accumulated, Reason::NotMentioned),
            ),
        ] {
            let decided = decide_for(&wiring(engage, senders, ignored), standing, UnknownSenders::Strict);
            assert_eq!(decided, expected);
        }
    }

    #[test]
    fn a_public_chat_can_have_a_wiring_for_known_people_only() {
        let wiring = wiring(Engage::Pattern(".".into()), SenderScope::Known, Ignored::Accumulate);
        for (standing, expected) in [
            (Standing::Stranger, (Decision::Refused, Reason::SenderScopeNotMember)),
            (Standing::Nobody, (Decision::Refused, Reason::UnknownUserScope)),
            (Standing::Known(Reason::Member), (Decision::Engaged, Reason::PatternMatch)),
        ] {
            assert_eq!(decide_for(&wiring, standing, UnknownSenders::Public), expected);
        }
    }
}
