//! Results of image builds: tells the sessions that requested packages, and starts agents from the new image.

use crate::delivery::notice;
use crate::lifecycle::{dispatch, rollout};
use crate::model::agent::Install;
use crate::model::entity::Packages;
use crate::model::id::AgentId;
use crate::model::incarnation::{Phase, StopReason};
use crate::model::report::Reply;
use crate::model::session::SessionStatus;
use crate::requests::self_change;
use crate::rows::sessions;
use crate::tx::Tx;
use crate::{Result, lifecycle, readable};
use std::collections::BTreeSet;

/// Tells the sessions whose packages the image contains, or failed to contain. Each request is removed when it is
/// reported, so a repeated result tells no one twice.
pub(crate) fn built(
    tx: &mut Tx<'_, '_>,
    id: AgentId,
    packages: &Packages,
    built: &std::result::Result<(), String>,
) -> Result<Reply> {
    let Some(mut agent) = tx.db.agents.get(tx, &id)?.filter(|agent| agent.archived.is_none()) else {
        return Ok(Reply::Done);
    };
    let (told, mut rest): (Vec<_>, Vec<_>) =
        std::mem::take(&mut agent.installs).into_iter().partition(|install| has(packages, &install.packages));
    // The operator may have removed packages since.
    rest.retain(|install| has(&agent.settings.packages, &install.packages));
    agent.installs = rest;
    tx.db.agents.put(tx, &id, &agent)?;
    if built.is_ok() {
        rollout::agents(tx, &BTreeSet::from([id]))?;
    }
    if told.is_empty() {
        return Ok(Reply::Done);
    }
    if built.is_ok() {
        // A running incarnation does not have the packages, so only the next one is told.
        retire_all(tx, id)?;
    }
    let owner_told = match built {
        Ok(()) => false,
        Err(why) => {
            let why = notice::shortened(why);
            let text = format!(
                "The image of agent {0} could not be built: {why}. It is tried again; `hearth image build {0}` tries at \
                 once and shows all that is said.",
                agent.folder
            );
            notice::tell_owner(tx, &text)?
        }
    };
    for install in &told {
        let active = readable(sessions::load(tx, install.session))?;
        if active.is_some_and(|row| row.status == SessionStatus::Active && row.agent == id) {
            let text = match built {
                Ok(()) => installed(install),
                Err(why) if notice::is_for_owner(tx, install.session)? => failed(install, &format!(": {why}")),
                // The agent repeats this text in its chat.
                Err(_) if owner_told => failed(install, "; the owner has been told why"),
                Err(_) => failed(install, &format!("; the owner sees why with `hearth image build {}`", agent.folder)),
            };
            dispatch::send_text(tx, install.session, &text)?;
        }
    }
    Ok(Reply::Done)
}

fn retire_all(tx: &mut Tx<'_, '_>, agent: AgentId) -> Result<()> {
    for id in lifecycle::live_of(tx, |of| of == agent)? {
        let incarnation = tx.db.incarnations.require(tx, &id)?;
        if incarnation.outdated.is_none() && matches!(incarnation.phase, Phase::Starting | Phase::Running) {
            lifecycle::mark_outdated(tx, id, StopReason::Renewed)?;
        }
    }
    Ok(())
}

fn has(all: &Packages, some: &Packages) -> bool {
    some.apt.iter().all(|name| all.apt.contains(name)) && some.npm.iter().all(|name| all.npm.contains(name))
}

fn installed(install: &Install) -> String {
    let names = self_change::names(&install.packages);
    format!(
        "Packages installed ({names}) and container rebuilt. Verify the new packages are available (e.g. run them or check \
         versions) and report the result to the user."
    )
}

/// `why` continues the sentence that says that the build failed.
fn failed(install: &Install, why: &str) -> String {
    let names = self_change::names(&install.packages);
    format!(
        "Packages added to config ({names}) but rebuild failed{}. Tell the user — an admin will need to retry the \
         install_packages request or inspect the build logs.",
        notice::shortened(why)
    )
}
