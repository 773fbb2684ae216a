//! A handshake with an agent, for `hearth doctor`: the agent starts where it always runs, says what it is, and begins a
//! session. Its model is not asked.

use std::process::ExitCode;

use crate::handshake::HandshakeResult;
use crate::log;
use crate::provider;
use crate::report::Report;
use crate::roots::Start;
use crate::runner;
use crate::secrets;
use crate::stop::Stop;
use crate::turn::{Turn, TurnError};

/// Shakes hands and writes the result.
pub(crate) fn main(start: &Start) -> ExitCode {
    match carry_out(start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            log::note(format_args!("the handshake could not be carried out: {stop}"));
            ExitCode::FAILURE
        }
    }
}

fn carry_out(start: &Start) -> Result<(), Stop> {
    let mut state = runner::open(start)?;
    let turn = Turn::compose(&start.roots.session, state.gate.pass()?, Vec::new());
    let mut report = Report::new(&mut state, &turn, Vec::new());
    let result: HandshakeResult = match provider::handshake(&turn.context, &start.roots, &mut report) {
        Ok(handshake) => Ok(handshake),
        Err(TurnError::Failed(why) | TurnError::Passing(why, _)) => Err(secrets::redacted(&why).into_owned()),
        Err(TurnError::Stopped(stop)) => return Err(stop),
    };
    state.agent.write_handshake(&result)?;
    Ok(())
}
