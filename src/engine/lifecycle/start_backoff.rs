//! Failed starts. A missing program or image is the operator's problem, so messages keep waiting.

use crate::delivery::notice;
use crate::lifecycle::capacity;
use crate::model::address::Address;
use crate::model::id::{AgentId, SessionId};
use crate::model::incarnation::{Exit, Incarnation, StopReason};
use crate::model::policy::Policy;
use crate::model::session::ChatSession;
use crate::model::time::{Awake, Millis};
use crate::rows::sessions;
use crate::tx::Tx;
use crate::{Result, readable};
use std::collections::BTreeSet;

/// Maximum number of waiting messages of a session whose senders are told.
const TOLD_MAX: usize = 100;

/// Records that an incarnation ended before it could begin. The next start is delayed. After several failures in a row,
/// the waiting senders and the owner are told.
pub(crate) fn failed(tx: &mut Tx<'_, '_>, session: SessionId, why: &str) -> Result<()> {
    let (now, policy) = (tx.now.awake, tx.policy);
    let (row, ()) = sessions::update(tx, session, |row| {
        row.start_after = Some(now.plus(decide_wait(policy, row.failed_starts)));
        row.failed_starts = row.failed_starts.saturating_add(1);
    })?;
    if row.failed_starts != tx.policy.starts_untold {
        return Ok(());
    }
    let why = notice::shortened(why);
    let owner_told = match tx.db.agents.get(tx, &row.agent)? {
        Some(agent) => {
            let (folder, count) = (&agent.folder, row.failed_starts);
            let text = format!(
                "Agent {folder} could not be started {count} times in a row: {why}. `hearth doctor` looks for the reason; \
                 `hearth agents restart {folder}` tries again at once."
            );
            notice::tell_owner(tx, &text)?
        }
        None => false,
    };
    let mut told: Vec<Address> = Vec::new();
    for (_, id) in tx.db.ready_messages.collect_prefix(tx, &session, TOLD_MAX)? {
        let Some(to) = tx.db.messages.require(tx, &id)?.reply.filter(|to| !told.contains(to)) else { continue };
        let text = if notice::shows_details(tx, &to)? {
            format!("Your message waits: the agent cannot be started ({why}). It is tried again until it works.")
        } else {
            let plain = notice::for_people("is not available", owner_told, &format!("why {id}"));
            format!("{plain} Your message waits until the agent works again.")
        };
        notice::say_to(tx, to.clone(), Some(id), text)?;
        told.push(to);
    }
    Ok(())
}

/// Records that an incarnation began to work.
pub(crate) fn succeeded(tx: &mut Tx<'_, '_>, session: SessionId) -> Result<()> {
    match sessions::load(tx, session)? {
        Some(row) if row.failed_starts > 0 => forget(tx, session),
        _ => Ok(()),
    }
}

/// Ends the start delays of agents' sessions, because a change may have removed the cause.
pub(crate) fn forgive(tx: &mut Tx<'_, '_>, agents: &BTreeSet<AgentId>) -> Result<()> {
    for (_, session) in capacity::waiting(tx)? {
        let row = readable(sessions::load(tx, session))?;
        if row.is_some_and(|row| row.failed_starts > 0 && agents.contains(&row.agent)) {
            forget(tx, session)?;
        }
    }
    Ok(())
}

/// Whether a session may be started now. A delay set by an earlier run of the daemon is over.
pub(crate) fn may_start(session: &ChatSession, now: Awake) -> bool {
    session.start_after.is_none_or(|after| after <= now)
}

/// Whether an incarnation that exited on its own or fell silent never began to work.
pub(crate) fn decide_failed(incarnation: &Incarnation, exit: &Exit, policy: &Policy, now: Awake) -> bool {
    match (incarnation.stopped_for, exit) {
        _ if incarnation.claimed || incarnation.adopted.is_some() => false,
        (None, Exit::NotStarted(_)) => true,
        (None, _) => now.since(incarnation.launched) <= policy.first_beat_max,
        (Some(StopReason::Silent), _) => incarnation.beat <= incarnation.launched,
        (Some(_), _) => false,
    }
}

pub(crate) fn forget(tx: &mut Tx<'_, '_>, session: SessionId) -> Result<()> {
    sessions::update(tx, session, |row| (row.failed_starts, row.start_after) = (0, None)).map(drop)
}

fn decide_wait(policy: &Policy, failed_before: u32) -> Millis {
    policy.backoff(failed_before).min(policy.start_backoff_max)
}

#[cfg(test)]
mod tests {
    use crate::lifecycle::start_backoff::*;
    use crate::model::incarnation::{Phase, SpecDigest};
    use crate::model::time::Timestamp;

    const POLICY: &Policy = &Policy::STANDARD;

    #[test]
    fn waits_double_up_to_ten_minutes() {
        let seconds = |failed| decide_wait(POLICY, failed).get() / 1_000;
        assert_eq!((0..9).map(seconds).collect::<Vec<_>>(), [5, 10, 20, 40, 80, 160, 320, 600, 600]);
        assert_eq!(seconds(u32::MAX), 600);
    }

    #[test]
    fn what_never_began() {
        let launched = Awake::new(2, 0);
        let begun = Incarnation::new(launched, Timestamp::from_millis(0), SpecDigest::new(0));
        let base = Incarnation { phase: Phase::Running, ..begun };
        let claimed = Incarnation { claimed: true, ..base.clone() };
        let adopted = Incarnation { adopted: Some(launched), ..base.clone() };
        let stopped = |why| Incarnation { stopped_for: Some(why), ..base.clone() };
        let beaten = Incarnation { beat: Awake::new(2, 1), ..stopped(StopReason::Silent) };
        let missing = Exit::NotStarted("no such image".into());
        for (incarnation, exit, seconds, failed) in [
            (&base, &missing, 0, true),
            (&base, &missing, 900, true),
            (&base, &Exit::Code(1), 60, true),
            (&base, &Exit::Code(1), 61, false),
            (&claimed, &Exit::Code(1), 1, false),
            (&adopted, &Exit::Code(1), 1, false),
            (&stopped(StopReason::Silent), &Exit::Signal(9), 70, true),
            (&beaten, &Exit::Signal(9), 70, false),
            (&stopped(StopReason::ClaimStuck), &Exit::Signal(9), 10, false),
            (&stopped(StopReason::MadeRoom), &Exit::Signal(15), 10, false),
        ] {
            let now = Awake::new(2, seconds * 1_000);
            assert_eq!(decide_failed(incarnation, exit, POLICY, now), failed, "{incarnation:?} {exit:?}");
        }
    }
}
