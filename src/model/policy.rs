//! Constants of sweep, retries and limits. They are not configurable; tests pass their own.

use super::backoff::Backoff;
use super::time::Millis;

/// Thresholds, backoffs and bounds. Transactions read them and never change them.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Age of a claim without any progress at which its incarnation counts as stuck (or the running tool's timeout, if
    /// longer).
    pub claim_tolerance: Millis,
    /// Time without any progress after which an incarnation is stopped (or the running tool's timeout, if longer).
    pub ceiling: Millis,
    /// Longest tool timeout that counts.
    pub tool_timeout_max: Millis,
    /// Time without a heartbeat after which a runner counts as dead.
    pub heartbeat_max: Millis,
    /// Time between two heartbeats of a resting runner. A runner may rest while it has claimed nothing.
    pub idle_beat: Millis,
    /// Time an incarnation has from its launch to its first heartbeat.
    pub first_beat_max: Millis,
    /// Time after which an unconfirmed stop is requested again.
    pub stop_again: Millis,
    /// Tries of a message before it fails.
    pub max_tries: u32,
    /// First backoff after a failed try; doubles with each further one.
    pub backoff_base: Millis,
    /// First wait for a provider that limits requests without giving a time; doubles.
    pub wait_base: Millis,
    /// Longest such wait.
    pub wait_max: Millis,
    /// Time a message may wait for its provider before the sender is told.
    pub wait_untold: Millis,
    /// Time after which a message that waits for its provider fails; wall time.
    pub wait_lifetime: Millis,
    /// Longest wait between failing starts of a session. The first wait is `backoff_base`.
    pub start_backoff_max: Millis,
    /// Failed starts in a row before people are told.
    pub starts_untold: u32,
    /// Longest backoff between delivery attempts.
    pub delivery_backoff_max: Millis,
    /// Time a failing message may block its outgoing queue.
    pub lane_hold_max: Millis,
    /// Time an attempt may take before its outcome counts as unknown.
    pub attempt_max: Millis,
    /// Time between attempts for a channel that does not run.
    pub no_adapter_again: Millis,
    /// Time after which a message for a channel that does not run fails; wall time.
    pub no_adapter_max: Millis,
    /// Triggering messages that may wait for one agent.
    pub backlog_max: u64,
    /// Rows that one transaction may touch. A further input continues larger work.
    pub rows_per_input: usize,
    /// Rows of each kind with a retention time that one sweep examines.
    pub retention_rows: usize,
    /// Incarnations that may run at once.
    pub max_containers: u32,
    /// Time after which an approval expires; wall time.
    pub approval_lifetime: Millis,
    /// First wait before a card that could not be sent is retried; doubles up to an hour.
    pub card_again: Millis,
    /// Messages of one person, in one chat, that may wait for a decision.
    pub held_max: usize,
    /// Bytes of files with one person's messages that wait for a decision; further files are not kept.
    pub held_bytes_per_person: u64,
    /// Limit of such bytes for all people together.
    pub held_bytes: u64,
    /// Time between two requests for the same files to their network.
    pub fetch_again: Millis,
    /// Time after which a message is delivered to its agent without the files that could not be fetched.
    pub fetch_max: Millis,
    /// Ended messages of one session whose files stay readable.
    pub session_files_max: usize,
    /// Approvals that may be open for one chat.
    pub approvals_per_chat: usize,
    /// Approval cards that one person is shown at once. Further approvals wait, and a digest says how many.
    pub cards_per_decider: usize,
    /// Time between two edits of that digest.
    pub digest_again: Millis,
    /// Minimum time left to decide when the card of a waiting approval is shown.
    pub card_min: Millis,
    /// Time an approver has to name a new agent.
    pub naming_max: Millis,
    /// Time between cards about the same chat without a wired agent.
    pub channel_card_again: Millis,
    /// Time an agent follows a thread after it was last engaged there; wall time.
    pub sticky_lifetime: Millis,
    /// Messages between agents that may follow each other without a message from a person.
    pub hops_max: u32,
    /// Longest time an agent's question may wait.
    pub question_max: Millis,
    /// Open questions allowed for one agent. Lower than the total limit, so one agent cannot keep others from asking.
    pub questions_per_agent: usize,
    /// Consecutive technical skips of the same items after which people are asked.
    pub skip_repeats: u32,
    /// Time a skip waits for its agent to be idle, if the turn in which it was reported is unknown.
    pub skip_wait: Millis,
    /// Skips of one agent that people have not been told of yet. Further files stay where they are.
    pub skips_waiting_max: usize,
    /// Time after which a message that an agent group began to answer counts as forgotten; wall time.
    pub response_max: Millis,
    /// Time for which a finished one is remembered; wall time.
    pub response_kept: Millis,
    /// Maximum number of seen ids that are kept for an agent group's skills.
    pub seen_ids_max: usize,
    /// Time for which they are kept; wall time.
    pub seen_ids_kept: Millis,
    /// Messages that an agent group may have begun to answer. Beyond that, the oldest are forgotten.
    pub responses_max: usize,
    /// Time a deleted session of a workspace stays in the trash.
    pub trash_lifetime: Millis,
}

impl Policy {
    /// Hearth's values. Those for claims, idle agents and tries (60 s, 30 min, 5 s doubling, 5 tries) are NanoClaw's.
    pub const STANDARD: Self = Self {
        claim_tolerance: Millis::seconds(60),
        ceiling: Millis::minutes(30),
        tool_timeout_max: Millis::minutes(120),
        heartbeat_max: Millis::seconds(30),
        idle_beat: Millis::minutes(10),
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
        held_bytes_per_person: 10 << 20,
        held_bytes: 100 << 20,
        fetch_again: Millis::seconds(60),
        fetch_max: Millis::minutes(60),
        session_files_max: 500,
        approvals_per_chat: 20,
        cards_per_decider: 10,
        digest_again: Millis::minutes(1),
        card_min: Millis::minutes(60),
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
        Backoff::new(self.backoff_base, Millis::new(u64::MAX)).wait(tries.min(20))
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
