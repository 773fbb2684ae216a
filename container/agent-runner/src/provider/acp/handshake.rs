//! The handshake of `hearth doctor`.

use std::time::Duration;

use hearth_wire::Context;

use super::launch::Parameters;
use super::offers::{Choice, offered};
use super::start::{Started, start};
use crate::clock::Stopwatch;
use crate::handshake::{Handshake, Offered};
use crate::report::Report;
use crate::roots::Roots;
use crate::turn::TurnError;

/// How long an agent may take after the session's start to ask for Hearth's tools.
const TOOLS: Duration = Duration::from_secs(10);

/// Starts the agent with a session, and ends it.
pub(crate) fn handshake(context: &Context, roots: &Roots, report: &mut Report<'_>) -> Result<Handshake, TurnError> {
    let parameters = Parameters::of(context, roots).map_err(TurnError::Failed)?;
    let Started { mut peer, agent, opened } = start(&parameters, roots, report)?;
    let watch = Stopwatch::start();
    while !peer.relay().has_listed() && watch.elapsed() < TOOLS && peer.listen(report)? {}
    let has_tools = peer.relay().has_listed();
    peer.close(None);
    let chosen = |choice, wanted: Option<&str>| {
        let Offered { values, current } = offered(choice, &opened.offers);
        Offered { values, current: wanted.map(str::to_owned).or(current) }
    };
    let (mode, model) = (parameters.mode(&agent.name), parameters.model.as_deref());
    let (modes, models) = (chosen(Choice::Mode, mode), chosen(Choice::Model, model));
    Ok(Handshake { agent: agent.name, version: agent.version, modes, models, has_tools })
}
