//! What drives the agent: one trait, one file per provider.

mod claude;
mod command;
mod echo;

use hearth_wire::Context;

use crate::report::{Report, Turn, TurnError};
use crate::roots::Roots;

/// Something that answers.
pub(crate) trait Provider {
    /// Works on one turn and says everything through `report`. While it waits, it calls [`Report::check`].
    fn turn(&mut self, turn: &Turn, report: &mut Report<'_>) -> Result<(), TurnError>;
}

/// The provider in use. It lives through turns until the context asks for another one.
pub(crate) struct Drivers {
    roots: Roots,
    current: Option<(hearth_wire::Provider, Box<dyn Provider>)>,
}

impl Drivers {
    pub(crate) fn new(roots: Roots) -> Self {
        Self { roots, current: None }
    }

    /// Lets the provider that the context names work on a turn.
    pub(crate) fn turn(&mut self, turn: &Turn, report: &mut Report<'_>) -> Result<(), TurnError> {
        let wanted = &turn.context.provider;
        let mut driver = match self.current.take() {
            Some((known, driver)) if known == *wanted => driver,
            _ => open(&turn.context, &self.roots).map_err(TurnError::Failed)?,
        };
        let outcome = driver.turn(turn, report);
        self.current = Some((wanted.clone(), driver));
        outcome
    }
}

fn open(context: &Context, roots: &Roots) -> Result<Box<dyn Provider>, String> {
    match context.provider.name.as_str() {
        "echo" => Ok(Box::new(echo::Echo)),
        "claude" => Ok(Box::new(claude::Claude::new(roots.clone()))),
        "command" => Ok(Box::new(command::Program::new(roots.clone()))),
        other => Err(format!("there is no provider {other:?}; set the agent's provider to echo, command or claude")),
    }
}

/// What every provider's process finds in its environment beside the inherited variables.
fn environment(context: &Context, roots: &Roots) -> Vec<(&'static str, String)> {
    let mut env = vec![
        ("HOME", roots.home.to_string_lossy().into_owned()),
        ("NANOCLAW_SESSION_NAME", context.session_name.clone()),
    ];
    if let Some(tmp) = &roots.tmp {
        env.push(("TMPDIR", tmp.to_string_lossy().into_owned()));
    }
    if let Ok(zone) = hearth_zone::Zone::parse(&context.timezone) {
        env.push(("TZ", zone.variable()));
    }
    env
}
