//! Whether a message is an agent's business.

use super::access::{Standing, decide_access, standing};
use super::gate::{self, Gate};
use super::pattern::Patterns;
use super::{Cx, Result, threads};
use crate::model::address::UserId;
use crate::model::entity::{Chat, Engage, Ignored, SenderScope, UnknownSenders, Wiring};
use crate::model::id::AgentId;
use crate::model::input::InboundEvent;
use crate::model::message::{MessageKind, Reason};
use crate::model::report::Decision;
use crate::state::Write;

/// A message on its way to a wiring.
#[derive(Clone, Copy)]
pub(super) struct Heard<'a> {
    /// The message; a thread that its channel does not have is gone from its source.
    pub(super) event: &'a InboundEvent,
    /// Where it was said.
    pub(super) chat: &'a Chat,
    /// Who said it.
    pub(super) sender: Option<&'a UserId>,
    /// Whether its channel has threads, if anybody knows.
    pub(super) threads: Option<bool>,
}

/// What a wiring makes of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The decision.
    pub(super) decision: Decision,
    /// Why.
    pub(super) why: Reason,
    /// What the sender is told of it.
    pub(super) told: Option<String>,
}

/// Looks up what a decision is made of, and decides.
pub(super) fn weigh(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    heard: Heard<'_>,
    (agent, wiring): (AgentId, &Wiring),
) -> Result<Verdict> {
    let (event, source) = (heard.event, &heard.event.source);
    let may_stick = wiring.engage == Engage::MentionSticky && heard.chat.group && !event.mention;
    let facts = Facts {
        text: &event.content.text,
        kind: event.kind,
        mention: event.mention,
        sticky: may_stick && threads::sticks(cx, txn, agent, source)?,
        muted: threads::is_muted(cx, txn, agent, source)?,
        unknown_senders: heard.chat.unknown_senders,
        standing: standing(cx, txn, heard.sender, agent)?,
    };
    Ok(decide(wiring, &facts, cx.patterns))
}

/// What a decision is made of.
pub(super) struct Facts<'a> {
    /// Text of the message.
    pub(super) text: &'a str,
    /// What kind of message.
    pub(super) kind: MessageKind,
    /// The platform says that the bot was addressed.
    pub(super) mention: bool,
    /// The agent goes on listening in the thread.
    pub(super) sticky: bool,
    /// The thread is muted for the agent.
    pub(super) muted: bool,
    /// The chat's policy towards strangers.
    pub(super) unknown_senders: UnknownSenders,
    /// What the sender is to the agent.
    pub(super) standing: Standing,
}

/// What one wiring makes of a message, and why: does it engage, may the sender talk to the agent, does the wiring want
/// them, may the command pass. Of these only the last is asked of context as well: a refusal of the others is never turned
/// into context, and what is kept as context needs no permission.
pub(super) fn decide(wiring: &Wiring, facts: &Facts<'_>, patterns: &Patterns) -> Verdict {
    let quiet = |decision, why| Verdict { decision, why, told: None };
    let engaged = match engages(&wiring.engage, facts, patterns) {
        Ok(_) if facts.muted => Err(Reason::Muted),
        engaged => engaged,
    };
    let engaged = match engaged {
        Ok(reason) => reason,
        Err(reason) if wiring.ignored == Ignored::Accumulate => {
            // Who did not address the agent is not answered either.
            return match decide_command(facts) {
                Ok(()) => quiet(Decision::Accumulated, reason),
                Err(verdict) => Verdict { told: None, ..verdict },
            };
        }
        Err(reason) => return quiet(Decision::Ignored, reason),
    };
    if let Err(reason) = decide_access(facts.unknown_senders, facts.standing) {
        return quiet(Decision::Refused, reason);
    }
    match (wiring.senders, facts.standing) {
        (SenderScope::Known, Standing::Nobody) => quiet(Decision::Refused, Reason::UnknownUserScope),
        (SenderScope::Known, Standing::Stranger) => quiet(Decision::Refused, Reason::SenderScopeNotMember),
        _ => match decide_command(facts) {
            Ok(()) => quiet(Decision::Engaged, engaged),
            Err(verdict) => verdict,
        },
    }
}

fn engages(engage: &Engage, facts: &Facts<'_>, patterns: &Patterns) -> std::result::Result<Reason, Reason> {
    match engage {
        Engage::Pattern(pattern) if patterns.matches(pattern, facts.text) => Ok(Reason::PatternMatch),
        Engage::Pattern(_) => Err(Reason::PatternMismatch),
        Engage::Mention | Engage::MentionSticky if facts.mention => Ok(Reason::Mentioned),
        Engage::MentionSticky if facts.sticky => Ok(Reason::Sticky),
        Engage::Mention | Engage::MentionSticky => Err(Reason::NotMentioned),
    }
}

/// Commands come from people only: what other agents and Hearth itself say is never one.
fn decide_command(facts: &Facts<'_>) -> std::result::Result<(), Verdict> {
    let said = match facts.kind {
        MessageKind::Chat | MessageKind::ChatSdk => facts.text,
        MessageKind::Task | MessageKind::Webhook | MessageKind::System => return Ok(()),
    };
    let admin = [Reason::Owner, Reason::GlobalAdmin, Reason::AdminOfAgent];
    let is_admin = matches!(facts.standing, Standing::Known(reason) if admin.contains(&reason));
    match gate::decide(said, is_admin) {
        Gate::Pass => Ok(()),
        Gate::Filtered(_) => Err(Verdict { decision: Decision::Filtered, why: Reason::CommandFiltered, told: None }),
        Gate::Denied(command) => {
            let told = Some(gate::denial(&command));
            Err(Verdict { decision: Decision::Denied, why: Reason::CommandDenied, told })
        }
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

    fn facts(text: &str) -> Facts<'_> {
        let (kind, standing) = (MessageKind::Chat, Standing::Stranger);
        let unknown_senders = UnknownSenders::Public;
        Facts { text, kind, mention: false, sticky: false, muted: false, unknown_senders, standing }
    }

    fn decide_for(wiring: &Wiring, standing: Standing, unknown_senders: UnknownSenders) -> (Decision, Reason) {
        let verdict = decide(wiring, &Facts { unknown_senders, standing, ..facts("hello") }, &Patterns::default());
        (verdict.decision, verdict.why)
    }

    /// As NanoClaw decides; there a refusal of one gate could be recorded as another's.
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

    /// (mentioned, sticky, muted) with a wiring that keeps context, and with one that does not.
    #[test]
    fn threads_follow_the_table() {
        use Decision::{Accumulated, Engaged, Ignored as Left};
        use Reason::{Mentioned, Muted, NotMentioned, PatternMatch, PatternMismatch, Sticky};
        let pattern = |text: &str| Engage::Pattern(text.into());
        for (engage, fact, keeping, dropping) in [
            (Engage::MentionSticky, (false, false, false), (Accumulated, NotMentioned), (Left, NotMentioned)),
            (Engage::MentionSticky, (true, false, false), (Engaged, Mentioned), (Engaged, Mentioned)),
            (Engage::MentionSticky, (false, true, false), (Engaged, Sticky), (Engaged, Sticky)),
            (Engage::MentionSticky, (true, true, false), (Engaged, Mentioned), (Engaged, Mentioned)),
            (Engage::MentionSticky, (true, false, true), (Accumulated, Muted), (Left, Muted)),
            (Engage::MentionSticky, (false, true, true), (Accumulated, Muted), (Left, Muted)),
            (Engage::MentionSticky, (false, false, true), (Accumulated, NotMentioned), (Left, NotMentioned)),
            (Engage::Mention, (false, true, false), (Accumulated, NotMentioned), (Left, NotMentioned)),
            (pattern("."), (false, false, false), (Engaged, PatternMatch), (Engaged, PatternMatch)),
            (pattern("."), (false, false, true), (Accumulated, Muted), (Left, Muted)),
            (pattern("^x$"), (false, true, true), (Accumulated, PatternMismatch), (Left, PatternMismatch)),
        ] {
            for (ignored, expected) in [(Ignored::Accumulate, keeping), (Ignored::Drop, dropping)] {
                let (mention, sticky, muted) = fact;
                let facts = Facts { mention, sticky, muted, ..facts("hello") };
                let wiring = wiring(engage.clone(), SenderScope::All, ignored);
                let verdict = decide(&wiring, &facts, &Patterns::default());
                assert_eq!((verdict.decision, verdict.why), expected, "{engage:?} {fact:?} {ignored:?}");
            }
        }
    }

    /// The command gate comes last, and answers only who would have been heard.
    #[test]
    fn commands_follow_what_else_is_decided() {
        use Decision::{Accumulated, Denied, Engaged, Filtered, Ignored as Left, Refused};
        let (always, never) = (Engage::Pattern(".".into()), Engage::Pattern("^bye$".into()));
        let (member, admin) = (Standing::Known(Reason::Member), Standing::Known(Reason::AdminOfAgent));
        let strict = UnknownSenders::Strict;
        for (text, engage, standing, decision, told) in [
            ("/clear", &always, member, Denied, true),
            ("/clear", &always, admin, Engaged, false),
            ("/clear", &always, Standing::Stranger, Refused, false),
            ("/clear", &never, member, Denied, false),
            ("/clear", &never, admin, Accumulated, false),
            ("/help", &always, admin, Filtered, false),
            ("/help", &never, admin, Filtered, false),
            ("/review", &always, member, Engaged, false),
        ] {
            let wiring = wiring(engage.clone(), SenderScope::All, Ignored::Accumulate);
            let facts = Facts { unknown_senders: strict, standing, ..facts(text) };
            let verdict = decide(&wiring, &facts, &Patterns::default());
            assert_eq!((verdict.decision, verdict.told.is_some()), (decision, told), "{text} {standing:?}");
        }
        let wiring = wiring(never, SenderScope::All, Ignored::Drop);
        let verdict = decide(&wiring, &facts("/clear"), &Patterns::default());
        assert_eq!(verdict.decision, Left, "what nobody keeps needs no gate");
        let told = Facts { kind: MessageKind::System, ..facts("/clear") };
        assert_eq!(
            decide(&self::wiring(always, SenderScope::All, Ignored::Drop), &told, &Patterns::default()).decision,
            Engaged
        );
    }
}
