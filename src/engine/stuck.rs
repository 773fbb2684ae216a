//! Whether an incarnation is stuck: pure, in awake time.

use crate::model::incarnation::{Incarnation, Phase, StopReason};
use crate::model::policy::Policy;
use crate::model::time::{Awake, Millis};

/// What has to be done about an incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is fine, or has time left.
    Leave,
    /// End it.
    Stop(StopReason),
    /// Its start was asked for and nothing was heard: ask again.
    LaunchAgain,
    /// An earlier run of the daemon left it: ask what became of it. Until the answer it is not judged.
    Inquire,
    /// Its end was asked for and nothing was heard: ask again.
    StopAgain,
    /// It is gone and its mailbox was not collected yet: ask again.
    CollectAgain,
}

/// Judges an incarnation by its claims (when each was made). Heartbeats only tell a dead runner; they extend nothing.
pub(super) fn decide(incarnation: &Incarnation, claims: &[Awake], policy: &Policy, now: Awake) -> Verdict {
    match &incarnation.phase {
        Phase::Closed { .. } => Verdict::Leave,
        Phase::Stopping { since, .. } if now.since(*since) >= policy.stop_again => Verdict::StopAgain,
        Phase::Collecting { since, .. } if now.since(*since) >= policy.stop_again => Verdict::CollectAgain,
        Phase::Stopping { .. } | Phase::Collecting { .. } => Verdict::Leave,
        Phase::Starting | Phase::Running => judge_live(incarnation, claims, policy, now),
    }
}

fn judge_live(incarnation: &Incarnation, claims: &[Awake], policy: &Policy, now: Awake) -> Verdict {
    if incarnation.run() != now.run() {
        // The start asks as well: this is for answers that do not come.
        return if now.ms() >= policy.stop_again.get() { Verdict::Inquire } else { Verdict::Leave };
    }
    let beaten = incarnation.beat > incarnation.launched;
    let silence_max = if beaten { policy.heartbeat_max } else { policy.first_beat_max };
    if incarnation.age(incarnation.beat, now) > silence_max {
        return Verdict::Stop(StopReason::Silent);
    }
    let declared = incarnation.tool.as_ref().and_then(|tool| tool.timeout).unwrap_or(Millis::ZERO);
    let declared = declared.min(policy.tool_timeout_max);
    if incarnation.age(incarnation.progress, now) > policy.ceiling.max(declared) {
        return Verdict::Stop(StopReason::Ceiling);
    }
    let tolerance = policy.claim_tolerance.max(declared);
    let stuck = |claim: &Awake| incarnation.age(*claim, now) > tolerance && incarnation.progress <= *claim;
    if claims.iter().any(stuck) {
        return Verdict::Stop(StopReason::ClaimStuck);
    }
    let unheard = incarnation.phase == Phase::Starting && now.since(incarnation.launched) >= policy.stop_again;
    if unheard { Verdict::LaunchAgain } else { Verdict::Leave }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::incarnation::{SpecDigest, ToolUse};
    use crate::model::time::Timestamp;

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

    /// NanoClaw's cases, with last progress in the place of the heartbeat; long tools of any name count.
    #[test]
    fn stuck_decisions_follow_the_table() {
        use StopReason::{Ceiling, ClaimStuck};
        let half_hour = 30 * 60;
        for (number, progress, tool, claim, expected) in [
            (1, 5, None, None, Verdict::Leave),
            (2, half_hour + 1, None, None, Verdict::Stop(Ceiling)),
            (4, 65, None, Some(65), Verdict::Stop(ClaimStuck)),
            (5, 45 * 60, Some(("Bash", Some(7_200))), None, Verdict::Leave),
            (6, 75, None, Some(70), Verdict::Stop(ClaimStuck)),
            (7, 2, None, Some(70), Verdict::Leave),
            (8, 70, None, Some(5), Verdict::Leave),
            (9, 305, Some(("Bash", Some(600))), Some(300), Verdict::Leave),
            (11, half_hour, None, None, Verdict::Leave),
            (12, 60, None, Some(60), Verdict::Leave),
            (13, 70, None, Some(70), Verdict::Stop(ClaimStuck)),
            (14, 45 * 60, Some(("WebFetch", Some(7_200))), None, Verdict::Leave),
            (15, 45 * 60, Some(("Bash", None)), None, Verdict::Stop(Ceiling)),
            (16, 7_201, Some(("Bash", Some(36_000))), None, Verdict::Stop(Ceiling)),
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
        assert_eq!(decide(&incarnation, &[], &Policy::STANDARD, at(0)), Verdict::Stop(StopReason::Silent));
        incarnation.beat = at(30);
        assert_eq!(decide(&incarnation, &[], &Policy::STANDARD, at(0)), Verdict::Leave);
        // One that never beat is given longer.
        (incarnation.launched, incarnation.beat) = (at(31), at(31));
        assert_eq!(decide(&incarnation, &[], &Policy::STANDARD, at(0)), Verdict::Leave);
    }

    /// What an earlier run left is asked after and not judged; once adopted, its ages count from there.
    #[test]
    fn another_run_counts_from_the_adoption() {
        let mut incarnation = running(5, None);
        for (ms, verdict) in [(9_999, Verdict::Leave), (10_000, Verdict::Inquire), (9_000_000, Verdict::Inquire)] {
            let now = Awake::new(2, ms);
            assert_eq!(decide(&incarnation, &[at(3_000)], &Policy::STANDARD, now), verdict, "{ms}");
        }
        incarnation.adopted = Some(Awake::new(2, 300_000));
        for (ms, verdict) in [(330_000, Verdict::Leave), (330_001, Verdict::Stop(StopReason::Silent))] {
            let now = Awake::new(2, ms);
            assert_eq!(decide(&incarnation, &[at(3_000)], &Policy::STANDARD, now), verdict, "{ms}");
        }
        // It beats, and what it had claimed before is not done.
        incarnation.beat = Awake::new(2, 360_000);
        incarnation.progress = at(3_001);
        for (ms, verdict) in [(360_000, Verdict::Leave), (360_001, Verdict::Stop(StopReason::ClaimStuck))] {
            let now = Awake::new(2, ms);
            assert_eq!(decide(&incarnation, &[at(3_000)], &Policy::STANDARD, now), verdict, "{ms}");
        }
    }

    #[test]
    fn lost_effects_are_asked_for_again() {
        let policy = &Policy::STANDARD;
        let mut incarnation = running(10, None);
        (incarnation.phase, incarnation.launched, incarnation.beat) = (Phase::Starting, at(10), at(10));
        assert_eq!(decide(&incarnation, &[], policy, at(0)), Verdict::LaunchAgain);
        assert_eq!(decide(&incarnation, &[], policy, Awake::new(2, 10_000)), Verdict::Inquire);
        incarnation.phase = Phase::Stopping { why: StopReason::Ceiling, since: at(10) };
        assert_eq!(decide(&incarnation, &[], policy, at(0)), Verdict::StopAgain);
        incarnation.phase = Phase::Collecting { exit: crate::model::incarnation::Exit::Code(0), since: at(10) };
        assert_eq!(decide(&incarnation, &[], policy, at(0)), Verdict::CollectAgain);
        // Not before their time: what was asked for is under way.
        for phase in [
            Phase::Starting,
            Phase::Stopping { why: StopReason::Ceiling, since: at(9) },
            Phase::Collecting { exit: crate::model::incarnation::Exit::Code(0), since: at(9) },
        ] {
            (incarnation.phase, incarnation.launched, incarnation.beat) = (phase, at(9), at(9));
            assert_eq!(decide(&incarnation, &[], policy, at(0)), Verdict::Leave);
        }
    }
}
