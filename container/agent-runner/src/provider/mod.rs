//! What drives the agent: one trait, one file per provider.

mod claude;
mod command;
mod echo;

pub use claude::{addressed, ended};
pub use command::understood;

use hearth_wire::Context;

use crate::report::{Report, Turn, TurnError};
use crate::roots::Roots;

/// Something that answers.
pub(crate) trait Provider {
    /// Works on one turn and says everything through `report`. While it waits, it calls [`Report::check`].
    fn turn(&mut self, turn: &Turn, report: &mut Report<'_>) -> Result<(), TurnError>;

    /// Whether something came from it, or is going on in it, though no turn runs. Does not wait.
    fn has_news(&mut self) -> bool {
        false
    }

    /// Hears it between turns, for a moment.
    fn between(&mut self, _report: &mut Report<'_>) -> Result<(), TurnError> {
        Ok(())
    }

    /// Ends it in order.
    fn close(self: Box<Self>) {}
}

/// One kind of provider.
struct Entry {
    name: &'static str,
    /// Whether commands like `/compact` mean something to it.
    takes_commands: bool,
    open: fn(&Roots) -> Box<dyn Provider>,
}

/// All there are: another one is a file and a line here.
const REGISTRY: [Entry; 3] = [
    Entry { name: "claude", takes_commands: true, open: claude::open },
    Entry { name: "command", takes_commands: false, open: command::open },
    Entry { name: "echo", takes_commands: false, open: echo::open },
];

/// Whether commands like `/compact` mean something to this provider.
pub(crate) fn takes_commands(name: &str) -> bool {
    REGISTRY.iter().any(|entry| entry.name == name && entry.takes_commands)
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
        if self.current.as_ref().is_some_and(|(known, _)| known != wanted) {
            self.close();
        }
        let (_, driver) = match &mut self.current {
            Some(current) => current,
            none => none.insert((wanted.clone(), open(&wanted.name, &self.roots).map_err(TurnError::Failed)?)),
        };
        driver.turn(turn, report)
    }

    /// Whether the provider has something to say between turns.
    pub(crate) fn has_news(&mut self) -> bool {
        self.current.as_mut().is_some_and(|(_, driver)| driver.has_news())
    }

    /// Hears it.
    pub(crate) fn between(&mut self, report: &mut Report<'_>) -> Result<(), TurnError> {
        self.current.as_mut().map_or(Ok(()), |(_, driver)| driver.between(report))
    }

    /// Ends the provider in use; the next turn starts it again.
    pub(crate) fn close(&mut self) {
        if let Some((_, driver)) = self.current.take() {
            driver.close();
        }
    }
}

fn open(name: &str, roots: &Roots) -> Result<Box<dyn Provider>, String> {
    match REGISTRY.iter().find(|entry| entry.name == name) {
        Some(entry) => Ok((entry.open)(roots)),
        None => {
            let names = REGISTRY.map(|entry| entry.name).join(", ");
            Err(format!("Unknown provider: {name}. Registered: {names}; set the agent's provider to one of them"))
        }
    }
}

/// What every provider's process finds in its environment beside the inherited variables.
pub(crate) fn environment(context: &Context, roots: &Roots) -> Vec<(&'static str, String)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_found_by_name() {
        let roots = Roots::default();
        for name in ["claude", "command", "echo"] {
            assert!(open(name, &roots).is_ok(), "{name}");
        }
        let refused = open("bogus", &roots).err().unwrap();
        assert!(refused.starts_with("Unknown provider: bogus. Registered: claude, command, echo"), "{refused}");
    }
}
