//! Decides whether an agent engages with a message.

use crate::model::address::Address;
use crate::model::entity::{ContextFrom, Engage, Ignored, SenderScope, SessionMode, UnknownSenders, Wiring};
use crate::model::id::ChatId;
use crate::model::message::{MessageKind, Reason};
use crate::model::report::Decision;
use crate::model::session::Route;
use crate::rules::access::AccessLevel;
use crate::rules::commands::CommandDecision;
use crate::rules::pattern::Patterns;
use crate::rules::{access, commands};

/// A wiring's decision about a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EngageDecision {
    pub(crate) decision: Decision,
    pub(crate) why: Reason,
    /// A reply for the sender, if any.
    pub(crate) told: Option<String>,
}

/// The facts a decision is based on.
pub(crate) struct EngageFacts<'a> {
    /// Text of the message.
    pub(crate) text: &'a str,
    /// The kind of message.
    pub(crate) kind: MessageKind,
    /// Whether the platform reports that the bot was addressed.
    pub(crate) mention: bool,
    /// Whether the agent follows the thread.
    pub(crate) sticky: bool,
    /// Whether the thread is muted for the agent.
    pub(crate) muted: bool,
    /// The chat's policy for unknown senders.
    pub(crate) unknown_senders: UnknownSenders,
    /// The sender's standing with the agent.
    pub(crate) standing: AccessLevel,
}

/// Decides what a wiring does with a message, and why.
///
/// The checks, in order: does it engage, may the sender talk to the agent, does the wiring accept the sender, may the
/// command pass. A refused message never becomes context. A message that does not engage is checked for whether its
/// sender's messages become context, and then for commands.
pub(crate) fn decide(wiring: &Wiring, facts: &EngageFacts<'_>, patterns: &Patterns) -> EngageDecision {
    let quiet = |decision, why| EngageDecision { decision, why, told: None };
    let engaged = match engages(&wiring.engage, facts, patterns) {
        Ok(_) if facts.muted => Err(Reason::Muted),
        engaged => engaged,
    };
    let engaged = match engaged {
        Ok(reason) => reason,
        Err(reason) if wiring.ignored == Ignored::Accumulate => {
            if let Err((decision, why)) = decide_context(wiring, facts, reason) {
                return quiet(decision, why);
            }
            // A sender who did not address the agent gets no reply either.
            return match decide_command(facts) {
                Ok(()) => quiet(Decision::Accumulated, reason),
                Err(EngageDecision { decision: Decision::Done, .. }) => {
                    quiet(Decision::Filtered, Reason::CommandFiltered)
                }
                Err(verdict) => EngageDecision { told: None, ..verdict },
            };
        }
        Err(reason) => return quiet(Decision::Ignored, reason),
    };
    if let Err(reason) = access::decide_access(facts.unknown_senders, facts.standing) {
        return quiet(Decision::Refused, reason);
    }
    match (wiring.senders, facts.standing) {
        (SenderScope::Known, AccessLevel::Nobody) => quiet(Decision::Refused, Reason::UnknownUserScope),
        (SenderScope::Known, AccessLevel::Stranger) => quiet(Decision::Refused, Reason::SenderScopeNotMember),
        _ => match decide_command(facts) {
            Ok(()) => quiet(Decision::Engaged, engaged),
            Err(verdict) => verdict,
        },
    }
}

/// Whether a message that does not engage becomes context. By default, in a strict chat only messages of senders who
/// may talk to the agent do. Elsewhere everyone's do, and the prompt marks unknown senders. The wiring can override the
/// default.
fn decide_context(
    wiring: &Wiring,
    facts: &EngageFacts<'_>,
    reason: Reason,
) -> std::result::Result<(), (Decision, Reason)> {
    let strict = facts.unknown_senders == UnknownSenders::Strict;
    let whose = wiring.context_from.unwrap_or(if strict { ContextFrom::Known } else { ContextFrom::Anyone });
    match (whose, facts.standing) {
        (ContextFrom::Anyone, _) | (ContextFrom::Known, AccessLevel::Known(_)) => Ok(()),
        (ContextFrom::Known, standing) if strict => match access::decide_access(facts.unknown_senders, standing) {
            Ok(_) => Ok(()),
            Err(why) => Err((Decision::Refused, why)),
        },
        // No approval is requested for a sender who did not address the agent.
        (ContextFrom::Known, _) => Err((Decision::Ignored, reason)),
    }
}

fn engages(engage: &Engage, facts: &EngageFacts<'_>, patterns: &Patterns) -> std::result::Result<Reason, Reason> {
    match engage {
        Engage::Pattern(pattern) if patterns.matches(pattern, facts.text) => Ok(Reason::PatternMatch),
        Engage::Pattern(_) => Err(Reason::PatternMismatch),
        Engage::Mention | Engage::MentionSticky if facts.mention => Ok(Reason::Mentioned),
        Engage::MentionSticky if facts.sticky => Ok(Reason::Sticky),
        Engage::Mention | Engage::MentionSticky => Err(Reason::NotMentioned),
    }
}

/// Only people can send commands. Messages of other agents and of Hearth never count as commands.
fn decide_command(facts: &EngageFacts<'_>) -> std::result::Result<(), EngageDecision> {
    let said = match facts.kind {
        MessageKind::Chat | MessageKind::ChatSdk => facts.text,
        MessageKind::Task | MessageKind::Webhook | MessageKind::System => return Ok(()),
    };
    match commands::decide(said, facts.standing.decides()) {
        CommandDecision::Pass => Ok(()),
        CommandDecision::Own => Err(EngageDecision { decision: Decision::Done, why: Reason::OwnCommand, told: None }),
        CommandDecision::Filtered(_) => {
            Err(EngageDecision { decision: Decision::Filtered, why: Reason::CommandFiltered, told: None })
        }
        CommandDecision::Denied(command) => {
            let told = Some(commands::denial(&command));
            Err(EngageDecision { decision: Decision::Denied, why: Reason::CommandDenied, told })
        }
    }
}

/// How the messages of a chat share sessions. In groups with threads each thread has its own, unless the agent has one
/// session for everything. If threads are unknown, and in direct messages, the wiring decides.
pub(crate) fn decide_mode(wired: SessionMode, threads: Option<bool>, group: bool) -> SessionMode {
    match wired {
        SessionMode::AgentShared => SessionMode::AgentShared,
        SessionMode::Shared | SessionMode::PerThread if threads == Some(true) && group => SessionMode::PerThread,
        wired => wired,
    }
}

/// The session that a chat message belongs to.
pub(crate) fn decide_route(mode: SessionMode, chat: ChatId, source: &Address) -> Route {
    match mode {
        SessionMode::Shared => Route::Shared(chat),
        SessionMode::PerThread => Route::PerThread(chat, source.thread.clone()),
        SessionMode::AgentShared => Route::AgentShared,
    }
}

#[cfg(test)]
mod tests {
    use crate::model::address::{ChannelName, ForeignId};
    use crate::model::entity::{Origin, SessionMode};
    use crate::model::time::Timestamp;
    use crate::rules::engage::*;

    fn wiring(engage: Engage, senders: SenderScope, ignored: Ignored) -> Wiring {
        let created = Timestamp::from_millis(0);
        let (session, origin) = (SessionMode::Shared, Origin::File);
        Wiring { engage, senders, ignored, session, priority: 0, context_from: None, origin, created }
    }

    fn facts(text: &str) -> EngageFacts<'_> {
        let (kind, standing) = (MessageKind::Chat, AccessLevel::Stranger);
        let unknown_senders = UnknownSenders::Public;
        EngageFacts { text, kind, mention: false, sticky: false, muted: false, unknown_senders, standing }
    }

    fn decide_for(wiring: &Wiring, standing: AccessLevel, unknown_senders: UnknownSenders) -> (Decision, Reason) {
        let verdict =
            decide(wiring, &EngageFacts { unknown_senders, standing, ..facts("hello") }, &Patterns::default());
        (verdict.decision, verdict.why)
    }

    /// NanoClaw decides the same way, except that it may record one gate's refusal as another's.
    #[test]
    fn decisions_follow_the_wiring_table() {
        let always = || Engage::Pattern(".".into());
        let never = || Engage::Pattern("^bye$".into());
        let known = AccessLevel::Known(Reason::Member);
        for (engage, senders, ignored, standing, expected) in [
            (always(), SenderScope::All, Ignored::Drop, known, (Decision::Engaged, Reason::PatternMatch)),
            (
                always(),
                SenderScope::All,
                Ignored::Accumulate,
                AccessLevel::Stranger,
                (Decision::Refused, Reason::UnknownSenderStrict),
            ),
            (
                never(),
                SenderScope::All,
                Ignored::Accumulate,
                AccessLevel::Stranger,
                (Decision::Refused, Reason::UnknownSenderStrict),
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
            (AccessLevel::Stranger, (Decision::Refused, Reason::SenderScopeNotMember)),
            (AccessLevel::Nobody, (Decision::Refused, Reason::UnknownUserScope)),
            (AccessLevel::Known(Reason::Member), (Decision::Engaged, Reason::PatternMatch)),
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
                let facts = EngageFacts { mention, sticky, muted, ..facts("hello") };
                let wiring = wiring(engage.clone(), SenderScope::All, ignored);
                let verdict = decide(&wiring, &facts, &Patterns::default());
                assert_eq!((verdict.decision, verdict.why), expected, "{engage:?} {fact:?} {ignored:?}");
            }
        }
    }

    /// The command gate comes last, and replies only to senders whose message would have engaged.
    #[test]
    fn commands_follow_what_else_is_decided() {
        use Decision::{Accumulated, Denied, Done, Engaged, Filtered, Ignored as Left, Refused};
        let (always, never) = (Engage::Pattern(".".into()), Engage::Pattern("^bye$".into()));
        let (member, admin) = (AccessLevel::Known(Reason::Member), AccessLevel::Known(Reason::AdminOfAgent));
        let strict = UnknownSenders::Strict;
        for (text, engage, standing, decision, told) in [
            ("/clear", &always, member, Denied, true),
            ("/clear", &always, admin, Engaged, false),
            ("/clear", &always, AccessLevel::Stranger, Refused, false),
            ("/clear", &never, member, Denied, false),
            ("/clear", &never, admin, Accumulated, false),
            ("/help", &always, admin, Done, false),
            ("/login", &always, admin, Filtered, false),
            ("/help", &never, admin, Filtered, false),
            ("/review", &always, member, Engaged, false),
        ] {
            let wiring = wiring(engage.clone(), SenderScope::All, Ignored::Accumulate);
            let facts = EngageFacts { unknown_senders: strict, standing, ..facts(text) };
            let verdict = decide(&wiring, &facts, &Patterns::default());
            assert_eq!((verdict.decision, verdict.told.is_some()), (decision, told), "{text} {standing:?}");
        }
        let wiring = wiring(never, SenderScope::All, Ignored::Drop);
        let verdict = decide(&wiring, &facts("/clear"), &Patterns::default());
        assert_eq!(verdict.decision, Left, "what nobody keeps needs no gate");
        let told = EngageFacts { kind: MessageKind::System, ..facts("/clear") };
        assert_eq!(
            decide(&self::wiring(always, SenderScope::All, Ignored::Drop), &told, &Patterns::default()).decision,
            Engaged
        );
    }

    #[test]
    fn threads_of_groups_have_sessions_of_their_own() {
        use SessionMode::{AgentShared, PerThread, Shared};
        for (wired, threads, group, expected) in [
            (Shared, Some(true), true, PerThread),
            (PerThread, Some(true), true, PerThread),
            (AgentShared, Some(true), true, AgentShared),
            (Shared, Some(true), false, Shared),
            (PerThread, Some(true), false, PerThread),
            (Shared, Some(false), true, Shared),
            (Shared, None, true, Shared),
            (PerThread, None, true, PerThread),
        ] {
            assert_eq!(decide_mode(wired, threads, group), expected, "{wired:?} {threads:?} {group}");
        }
    }

    #[test]
    fn threads_matter_only_per_thread() {
        let source = |thread: Option<&str>| Address {
            channel: ChannelName::new("slack").unwrap(),
            platform_id: ForeignId::new("chat", "C1").unwrap(),
            thread: thread.map(|t| ForeignId::new("thread", t).unwrap()),
        };
        let chat = ChatId::new(7);
        assert_eq!(decide_route(SessionMode::Shared, chat, &source(Some("t1"))), Route::Shared(chat));
        assert_eq!(decide_route(SessionMode::AgentShared, chat, &source(Some("t1"))), Route::AgentShared);
        assert_eq!(decide_route(SessionMode::PerThread, chat, &source(None)), Route::PerThread(chat, None));
        assert_ne!(
            decide_route(SessionMode::PerThread, chat, &source(Some("t1"))),
            decide_route(SessionMode::PerThread, chat, &source(Some("t2")))
        );
    }
}
