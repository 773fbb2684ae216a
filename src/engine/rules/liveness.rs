//! Decides whether an incarnation is stuck. Pure, in awake time.

use crate::model::incarnation::{Incarnation, Phase, StopReason};
use crate::model::mailbox::Beat;
use crate::model::policy::Policy;
use crate::model::time::{Awake, Millis};

/// What to do about an incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// Nothing: it is healthy, or has time left.
    Leave,
    Stop(StopReason),
    /// Its start was requested without a result: request it again.
    LaunchAgain,
    /// It is from an earlier run of the daemon: ask the runtime for its state. It is not judged before the answer.
    Inquire,
    /// Its stop was requested without a result: request it again.
    StopAgain,
    /// It is gone, but its mailbox was not collected: request it again.
    CollectAgain,
}

/// The signs of life of an incarnation, besides its row.
#[derive(Debug, Clone)]
pub(crate) struct Signs {
    /// When each claim was made.
    pub(crate) claims: Vec<Awake>,
    /// Its heartbeat. None if the sweep did not observe its mailbox; silence is not judged then.
    pub(crate) beat: Option<Beat>,
}

/// Judges an incarnation. Heartbeats only detect a dead runner; they extend no deadline.
pub(crate) fn decide(incarnation: &Incarnation, signs: &Signs, policy: &Policy, now: Awake) -> Liveness {
    match &incarnation.phase {
        Phase::Closed { .. } => Liveness::Leave,
        Phase::Stopping { since, .. } if now.since(*since) >= policy.stop_again => Liveness::StopAgain,
        Phase::Collecting { since, .. } if now.since(*since) >= policy.stop_again => Liveness::CollectAgain,
        Phase::Stopping { .. } | Phase::Collecting { .. } => Liveness::Leave,
        Phase::Starting | Phase::Running => judge_live(incarnation, signs, policy, now),
    }
}

fn judge_live(incarnation: &Incarnation, signs: &Signs, policy: &Policy, now: Awake) -> Liveness {
    if incarnation.run() != now.run() {
        // The start inquires as well. This handles missing answers.
        return if now.ms() >= policy.stop_again.get() { Liveness::Inquire } else { Liveness::Leave };
    }
    if is_silent(incarnation, signs, policy, now) {
        return Liveness::Stop(StopReason::Silent);
    }
    let declared = incarnation.tool.as_ref().and_then(|tool| tool.timeout).unwrap_or(Millis::ZERO);
    let declared = declared.min(policy.tool_timeout_max);
    if incarnation.age(incarnation.progress, now) > policy.ceiling.max(declared) {
        return Liveness::Stop(StopReason::Ceiling);
    }
    let tolerance = policy.claim_tolerance.max(declared);
    let stuck = |claim: &Awake| incarnation.age(*claim, now) > tolerance && incarnation.progress <= *claim;
    if signs.claims.iter().any(stuck) {
        return Liveness::Stop(StopReason::ClaimStuck);
    }
    let unheard = incarnation.phase == Phase::Starting && now.since(incarnation.launched) >= policy.stop_again;
    if unheard { Liveness::LaunchAgain } else { Liveness::Leave }
}

/// Whether a runner has been silent for too long. A runner with a claim is not resting. If its last heartbeat announced
/// a rest, silence counts from the newest claim.
fn is_silent(incarnation: &Incarnation, signs: &Signs, policy: &Policy, now: Awake) -> bool {
    let newest_claim = signs.claims.iter().map(|claim| incarnation.age(*claim, now)).min();
    let (silence, max) = match (signs.beat, newest_claim) {
        (None | Some(Beat::Unseen), _) => return false,
        (Some(Beat::None), _) if incarnation.has_beaten() => {
            (incarnation.age(incarnation.beat, now), policy.heartbeat_max)
        }
        (Some(Beat::None), _) => (incarnation.age(incarnation.launched, now), policy.first_beat_max),
        (Some(Beat::Heard { ago, rest: Millis::ZERO }), _) => (ago, policy.heartbeat_max),
        (Some(Beat::Heard { ago, .. }), Some(claimed)) => (ago.min(claimed), policy.heartbeat_max),
        (Some(Beat::Heard { ago, rest }), None) => (ago, rested_max(policy, rest)),
    };
    silence > max
}

/// The longest allowed silence of a resting runner. A rest is never longer than the host requested.
fn rested_max(policy: &Policy, rest: Millis) -> Millis {
    let rest = rest.min(policy.idle_beat);
    Millis::new(policy.heartbeat_max.get().saturating_add(rest.get()))
}

#[cfg(test)]
mod tests {
    use crate::model::incarnation::{SpecDigest, ToolUse};
    use crate::model::time::Timestamp;
    use crate::rules::liveness::*;

    const NOW: u64 = 10 * 3_600;

    fn at(seconds_ago: u64) -> Awake {
        Awake::new(1, (NOW - seconds_ago) * 1_000)
    }

    fn running(progress_ago: u64, tool: Option<(&str, Option<u64>)>) -> Incarnation {
        Incarnation {
            phase: Phase::Running,
            beat: at(1),
            progress: at(progress_ago),
            tool: tool.map(|(name, seconds)| ToolUse { name: name.into(), timeout: seconds.map(Millis::seconds) }),
            claimed: true,
            ..Incarnation::new(at(NOW), Timestamp::from_millis(0), SpecDigest::new(0))
        }
    }

    /// Judges an incarnation by its stored heartbeat, without one from this run of the daemon.
    fn decide(incarnation: &Incarnation, claims: &[Awake], policy: &Policy, now: Awake) -> Liveness {
        super::decide(incarnation, &Signs { claims: claims.to_vec(), beat: Some(Beat::None) }, policy, now)
    }

    /// NanoClaw's cases, with the last progress in place of the heartbeat. Long-running tools of any name count.
    #[test]
    fn stuck_decisions_follow_the_table() {
        use StopReason::{Ceiling, ClaimStuck};
        let half_hour = 30 * 60;
        for (number, progress, tool, claim, expected) in [
            (1, 5, None, None, Liveness::Leave),
            (2, half_hour + 1, None, None, Liveness::Stop(Ceiling)),
            (4, 65, None, Some(65), Liveness::Stop(ClaimStuck)),
            (5, 45 * 60, Some(("Bash", Some(7_200))), None, Liveness::Leave),
            (6, 75, None, Some(70), Liveness::Stop(ClaimStuck)),
            (7, 2, None, Some(70), Liveness::Leave),
            (8, 70, None, Some(5), Liveness::Leave),
            (9, 305, Some(("Bash", Some(600))), Some(300), Liveness::Leave),
            (11, half_hour, None, None, Liveness::Leave),
            (12, 60, None, Some(60), Liveness::Leave),
            (13, 70, None, Some(70), Liveness::Stop(ClaimStuck)),
            (14, 45 * 60, Some(("WebFetch", Some(7_200))), None, Liveness::Leave),
            (15, 45 * 60, Some(("Bash", None)), None, Liveness::Stop(Ceiling)),
            (16, 7_201, Some(("Bash", Some(36_000))), None, Liveness::Stop(Ceiling)),
        ] {
            let claims: Vec<Awake> = claim.map(at).into_iter().collect();
            let verdict = decide(&running(progress, tool), &claims, &Policy::STANDARD, at(0));
            assert_eq!(verdict, expected, "case {number}");
        }
    }

    #[test]
    fn a_beating_heart_extends_nothing_and_a_silent_one_is_dead() {
        let mut incarnation = running(5, None);
        incarnation.beat = at(31);
        assert_eq!(decide(&incarnation, &[], &Policy::STANDARD, at(0)), Liveness::Stop(StopReason::Silent));
        incarnation.beat = at(30);
        assert_eq!(decide(&incarnation, &[], &Policy::STANDARD, at(0)), Liveness::Leave);
        // A runner that never sent a heartbeat gets more time.
        (incarnation.launched, incarnation.beat) = (at(31), at(31));
        assert_eq!(decide(&incarnation, &[], &Policy::STANDARD, at(0)), Liveness::Leave);
    }

    #[test]
    fn silence_is_longer_for_a_runner_that_rests_and_has_claimed_nothing() {
        let policy = &Policy::STANDARD;
        let mut incarnation = running(5, None);
        incarnation.beat = at(NOW - 1); // the stored one is the first
        let rest = policy.idle_beat.get();
        // (silence and rest in ms, age of a claim in s, whether it is dead)
        for (ago, rest, claim, dead) in [
            (30_000, 0, None, false),
            (30_001, 0, None, true),
            (30_001, 0, Some(5), true), // a claim is no sign of life of a runner that does not rest
            (30_001, rest, None, false),
            (rest + 30_000, rest, None, false),
            (rest + 30_001, rest, None, true),
            (rest + 30_001, 10 * rest, None, true), // longer than the host asked for
            (30_001, 60_000, None, false),
            (90_001, 60_000, None, true),
            (rest, rest, Some(30), false),
            (rest, rest, Some(31), true),
            (30_000, rest, Some(50), false),
        ] {
            let beat = Beat::Heard { ago: Millis::new(ago), rest: Millis::new(rest) };
            let signs = Signs { claims: claim.map(at).into_iter().collect(), beat: Some(beat) };
            let expected = if dead { Liveness::Stop(StopReason::Silent) } else { Liveness::Leave };
            assert_eq!(super::decide(&incarnation, &signs, policy, at(0)), expected, "{signs:?}");
        }
        for beat in [None, Some(Beat::Unseen)] {
            let signs = Signs { claims: Vec::new(), beat };
            assert_eq!(super::decide(&incarnation, &signs, policy, at(0)), Liveness::Leave, "no look: {beat:?}");
        }
    }

    /// An incarnation of an earlier daemon is not judged until it is adopted. From then on, its ages are measured.
    #[test]
    fn another_run_counts_from_the_adoption() {
        let mut incarnation = running(5, None);
        for (ms, verdict) in [(9_999, Liveness::Leave), (10_000, Liveness::Inquire), (9_000_000, Liveness::Inquire)] {
            let now = Awake::new(2, ms);
            assert_eq!(decide(&incarnation, &[at(3_000)], &Policy::STANDARD, now), verdict, "{ms}");
        }
        incarnation.adopted = Some(Awake::new(2, 300_000));
        for (ms, verdict) in [(330_000, Liveness::Leave), (330_001, Liveness::Stop(StopReason::Silent))] {
            let now = Awake::new(2, ms);
            assert_eq!(decide(&incarnation, &[at(3_000)], &Policy::STANDARD, now), verdict, "{ms}");
        }
        // Its heartbeat is current, but its earlier claim is not done.
        incarnation.beat = Awake::new(2, 360_000);
        incarnation.progress = at(3_001);
        for (ms, verdict) in [(360_000, Liveness::Leave), (360_001, Liveness::Stop(StopReason::ClaimStuck))] {
            let now = Awake::new(2, ms);
            assert_eq!(decide(&incarnation, &[at(3_000)], &Policy::STANDARD, now), verdict, "{ms}");
        }
    }

    #[test]
    fn lost_effects_are_asked_for_again() {
        let policy = &Policy::STANDARD;
        let mut incarnation = running(10, None);
        (incarnation.phase, incarnation.launched, incarnation.beat) = (Phase::Starting, at(10), at(10));
        assert_eq!(decide(&incarnation, &[], policy, at(0)), Liveness::LaunchAgain);
        assert_eq!(decide(&incarnation, &[], policy, Awake::new(2, 10_000)), Liveness::Inquire);
        incarnation.phase = Phase::Stopping { why: StopReason::Ceiling, since: at(10) };
        assert_eq!(decide(&incarnation, &[], policy, at(0)), Liveness::StopAgain);
        incarnation.phase = Phase::Collecting { exit: crate::model::incarnation::Exit::Code(0), since: at(10) };
        assert_eq!(decide(&incarnation, &[], policy, at(0)), Liveness::CollectAgain);
        // Not before their time, because the requests are still in progress.
        for phase in [
            Phase::Starting,
            Phase::Stopping { why: StopReason::Ceiling, since: at(9) },
            Phase::Collecting { exit: crate::model::incarnation::Exit::Code(0), since: at(9) },
        ] {
            (incarnation.phase, incarnation.launched, incarnation.beat) = (phase, at(9), at(9));
            assert_eq!(decide(&incarnation, &[], policy, at(0)), Liveness::Leave);
        }
    }
}
