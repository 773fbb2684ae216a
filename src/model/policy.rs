//! The constants of sweep, retries and limits: nothing in the configuration changes them. Tests pass their own.

use super::time::Millis;

/// Thresholds, backoffs and bounds, read by transactions and never changed by them.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Age of a claim without any progress after which its incarnation is stuck (or the running tool's timeout, if longer).
    pub claim_tolerance: Millis,
    /// Time without any progress after which an incarnation is ended (or the running tool's timeout, if longer).
    pub ceiling: Millis,
    /// Longest tool timeout that counts.
    pub tool_timeout_max: Millis,
    /// Time without a heartbeat after which a runner is dead.
    pub heartbeat_max: Millis,
    /// Time an incarnation has from its launch to its first heartbeat.
    pub first_beat_max: Millis,
    /// Time after which a stop that is not confirmed is asked for again.
    pub stop_again: Millis,
    /// Tries of a message before it fails.
    pub max_tries: u32,
    /// First backoff after a try; doubles with every further one.
    pub backoff_base: Millis,
    /// First wait for a provider that limits requests and does not say how long; doubles.
    pub wait_base: Millis,
    /// Longest such wait.
    pub wait_max: Millis,
    /// Time a message may wait for its provider before somebody is told.
    pub wait_untold: Millis,
    /// Time after which a message that waited for its provider is given up; wall time.
    pub wait_lifetime: Millis,
    /// Longest wait between starts of a session that fail; the first one is that of tries.
    pub start_backoff_max: Millis,
    /// Starts in a row that fail before somebody is told.
    pub starts_untold: u32,
    /// Longest backoff between delivery attempts.
    pub delivery_backoff_max: Millis,
    /// Time a failing message may hold its lane.
    pub lane_hold_max: Millis,
    /// Time an attempt may take before its outcome counts as unknown.
    pub attempt_max: Millis,
    /// Time between attempts for a channel that does not run.
    pub no_adapter_again: Millis,
    /// Time after which a message for a channel that does not run fails; wall time.
    pub no_adapter_max: Millis,
    /// Triggering messages that may wait for one agent.
    pub backlog_max: u64,
    /// Rows that one transaction may touch; larger work is continued by a further input.
    pub rows_per_input: usize,
    /// Rows that one sweep looks at of each kind of thing that is kept for some time only.
    pub retention_rows: usize,
    /// Incarnations that may run at once.
    pub max_containers: u32,
    /// Time somebody has to decide; wall time.
    pub approval_lifetime: Millis,
    /// First wait before a card that could not be sent is sent again; doubles up to an hour.
    pub card_again: Millis,
    /// Messages of one person, in one chat, that may wait for a decision.
    pub held_max: usize,
    /// Approvals that may be open for one chat.
    pub approvals_per_chat: usize,
    /// Time somebody has to name a new agent.
    pub naming_max: Millis,
    /// Time between cards about the same chat nobody listens in.
    pub channel_card_again: Millis,
    /// Time an agent goes on listening in a thread after it was last engaged there; wall time.
    pub sticky_lifetime: Millis,
    /// Messages between agents that may follow each other without a person.
    pub hops_max: u32,
    /// Longest time an agent's question may wait.
    pub question_max: Millis,
    /// Questions of one agent that may be open at once: fewer than all that may be, so that it keeps nobody from asking.
    pub questions_per_agent: usize,
    /// Technical skips of the same items in a row of which the last one makes people be asked.
    pub skip_repeats: u32,
    /// Time a skip of which nobody can say in whose turn it was reported waits for its agent to be at rest.
    pub skip_wait: Millis,
    /// Skips of one agent of which people were not told yet that are taken in; further files stay where they are.
    pub skips_waiting_max: usize,
    /// Time after which a message that an agent group began to answer counts as forgotten; wall time.
    pub response_max: Millis,
    /// Time for which it is known that such a message is over; wall time.
    pub response_kept: Millis,
    /// Ids that an agent group's skills have seen that are kept: at most so many.
    pub seen_ids_max: usize,
    /// Time for which they are kept; wall time.
    pub seen_ids_kept: Millis,
    /// Messages that an agent group may have begun to answer; of more, the oldest are forgotten.
    pub responses_max: usize,
    /// Time a deleted session of a workspace stays in the trash.
    pub trash_lifetime: Millis,
}

impl Policy {
    /// The values Hearth runs with. Those of claims, idle agents and tries (60 s, 30 min, 5 s doubling, 5 tries) are NanoClaw's.
    pub const STANDARD: Self = Self {
        claim_tolerance: Millis::seconds(60),
        ceiling: Millis::minutes(30),
        tool_timeout_max: Millis::minutes(120),
        heartbeat_max: Millis::seconds(30),
        first_beat_max: Millis::seconds(60),
        stop_again: Millis::seconds(10),
        max_tries: 5,
        backoff_base: Millis::seconds(5),
        wait_base: Millis::seconds(30),
        wait_max: Millis::minutes(15),
        wait_untold: Millis::seconds(60),
        wait_lifetime: Millis::minutes(24 * 60),
        start_backoff_max: Millis::minutes(10),
        starts_untold: 3,
        delivery_backoff_max: Millis::minutes(10),
        lane_hold_max: Millis::minutes(60),
        attempt_max: Millis::seconds(60),
        no_adapter_again: Millis::seconds(60),
        no_adapter_max: Millis::minutes(7 * 24 * 60),
        backlog_max: 1_000,
        rows_per_input: 1_000,
        retention_rows: 40,
        max_containers: 16,
        approval_lifetime: Millis::minutes(7 * 24 * 60),
        card_again: Millis::seconds(30),
        held_max: 50,
        approvals_per_chat: 20,
        naming_max: Millis::minutes(15),
        channel_card_again: Millis::minutes(60),
        sticky_lifetime: Millis::minutes(24 * 60),
        hops_max: 10,
        question_max: Millis::minutes(24 * 60),
        questions_per_agent: 50,
        skip_repeats: 3,
        skip_wait: Millis::minutes(15),
        skips_waiting_max: 100,
        // The cadence of the heartbeat that looks for them.
        response_max: Millis::minutes(15),
        response_kept: Millis::minutes(24 * 60),
        seen_ids_max: 5_000,
        seen_ids_kept: Millis::minutes(30 * 24 * 60),
        responses_max: 100,
        trash_lifetime: Millis::minutes(30 * 24 * 60),
    };

    /// Wait before try `tries + 1`: base · 2^tries.
    #[must_use]
    pub fn backoff(&self, tries: u32) -> Millis {
        Millis::new(self.backoff_base.get().saturating_mul(1_u64 << tries.min(20)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_from_five_seconds() {
        let seconds: Vec<u64> = (0..5).map(|tries| Policy::STANDARD.backoff(tries).get() / 1_000).collect();
        assert_eq!(seconds, [5, 10, 20, 40, 80]);
    }
}
