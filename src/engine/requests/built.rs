//! What became of the image of an agent with packages: whoever asked for these is told, and starts again from it.

use std::collections::BTreeSet;

use super::own;
use crate::engine::{Cx, Result, lifecycle, notice, readable, renew, sessions};
use crate::model::effect::Effect;
use crate::model::entity::Packages;
use crate::model::id::AgentId;
use crate::model::incarnation::{Phase, StopReason};
use crate::model::request::Install;
use crate::model::session::SessionStatus;
use crate::state::Write;

/// Tells the sessions whose packages the image has, or was to have. One that is told twice was not told before.
pub(in crate::engine) fn built(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, packages, built): (AgentId, &Packages, &std::result::Result<(), String>),
) -> Result<Vec<Effect>> {
    let mut effects = Vec::new();
    let Some(mut agent) = cx.db.agents.get(txn, &id)?.filter(|agent| agent.archived.is_none()) else {
        return Ok(effects);
    };
    let (told, mut rest): (Vec<_>, Vec<_>) =
        std::mem::take(&mut agent.installs).into_iter().partition(|install| has(packages, &install.packages));
    // Somebody may have taken packages back meanwhile.
    rest.retain(|install| has(&agent.settings.packages, &install.packages));
    agent.installs = rest;
    cx.db.agents.put(txn, &id, &agent)?;
    if built.is_ok() {
        renew::agents(cx, txn, &BTreeSet::from([id]), &mut effects)?;
    }
    if told.is_empty() {
        return Ok(effects);
    }
    if built.is_ok() {
        // What runs does not have them: only the next ones hear of it.
        retire_all(cx, txn, id, &mut effects)?;
    }
    for install in &told {
        let active = readable(sessions::load(cx, txn, install.session))?;
        if active.is_some_and(|row| row.status == SessionStatus::Active && row.agent == id) {
            notice::wake_agent(cx, txn, install.session, &text(install, built), &mut effects)?;
        }
    }
    if let Err(why) = built {
        let why = notice::shortened(why);
        let text = format!(
            "The image of agent {0} could not be built: {why}. It is tried again; `hearth image build {0}` tries at once \
             and shows all that is said.",
            agent.folder
        );
        notice::tell_owner(cx, txn, &text, &mut effects)?;
    }
    Ok(effects)
}

fn retire_all(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId, effects: &mut Vec<Effect>) -> Result<()> {
    for live in lifecycle::living(cx, txn, |of| of == agent)? {
        let incarnation = cx.db.incarnations.require(txn, &live)?;
        if incarnation.outdated.is_none() && matches!(incarnation.phase, Phase::Starting | Phase::Running) {
            lifecycle::retire(cx, txn, live, StopReason::Renewed, effects)?;
        }
    }
    Ok(())
}

fn has(all: &Packages, some: &Packages) -> bool {
    some.apt.iter().all(|name| all.apt.contains(name)) && some.npm.iter().all(|name| all.npm.contains(name))
}

fn text(install: &Install, built: &std::result::Result<(), String>) -> String {
    let names = own::names(&install.packages);
    match built {
        Ok(()) => format!(
            "Packages installed ({names}) and container rebuilt. Verify the new packages are available (e.g. run them or \
             check versions) and report the result to the user."
        ),
        Err(why) => format!(
            "Packages added to config ({names}) but rebuild failed: {}. Tell the user — an admin will need to retry the \
             install_packages request or inspect the build logs.",
            notice::shortened(why)
        ),
    }
}
