//! Providers, which drive the agent: one trait, one module per provider.

mod acp;
mod claude;
mod command;
mod dispatch;
mod earlier;
mod echo;
mod openai;
mod trouble;
mod unfinished;

pub(crate) use acp::handshake;
pub use claude::{addressed, ended};
pub use command::understood;

use crate::report::Report;
use crate::roots::Roots;
use crate::turn::{Turn, TurnError};

/// Generates an agent's answers.
pub(crate) trait Provider {
    /// Handles one turn and sends everything through `report`. While it waits, it calls [`Report::check`].
    fn turn(&mut self, turn: &Turn, report: &mut Report<'_>) -> Result<(), TurnError>;

    /// Whether there is output or activity outside of a turn. Does not block.
    fn has_news(&mut self) -> bool {
        false
    }

    /// Handles output between turns, for a moment.
    fn between(&mut self, _report: &mut Report<'_>) -> Result<(), TurnError> {
        Ok(())
    }

    /// Gracefully ends what a failed turn left behind. Called after the host knows that the turn failed.
    fn clean_up(&mut self) {}

    /// Ends the provider gracefully.
    fn close(self: Box<Self>) {}
}

/// A registered provider.
struct Entry {
    name: &'static str,
    open: fn(&Roots) -> Box<dyn Provider>,
}

/// All providers. To add one, write a module and add a line here.
const REGISTRY: [Entry; 5] = [
    Entry { name: "acp", open: acp::open },
    Entry { name: "claude", open: claude::open },
    Entry { name: "command", open: command::open },
    Entry { name: "echo", open: echo::open },
    Entry { name: "openai", open: openai::open },
];

/// The current provider. It is kept until the context asks for another one.
pub(crate) struct Drivers {
    roots: Roots,
    current: Option<(hearth_wire::Provider, Box<dyn Provider>)>,
}

impl Drivers {
    pub(crate) fn new(roots: Roots) -> Self {
        Self { roots, current: None }
    }

    /// Runs a turn with the provider that the context names.
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

    /// Whether the provider has output between turns.
    pub(crate) fn has_news(&mut self) -> bool {
        self.current.as_mut().is_some_and(|(_, driver)| driver.has_news())
    }

    /// Handles output between turns.
    pub(crate) fn between(&mut self, report: &mut Report<'_>) -> Result<(), TurnError> {
        self.current.as_mut().map_or(Ok(()), |(_, driver)| driver.between(report))
    }

    /// Gracefully ends what a failed turn left behind.
    pub(crate) fn clean_up(&mut self) {
        if let Some((_, driver)) = &mut self.current {
            driver.clean_up();
        }
    }

    /// Ends the current provider; the next turn starts it again.
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

/// The tool that was running when a provider's process ended, as the end of a sentence.
fn during(tool: Option<&str>) -> String {
    tool.map(|tool| format!(" while the tool {tool} ran")).unwrap_or_default()
}

/// Whether patterns of `blocked_tools` name a tool: exactly, or by its beginning and a `*`.
fn is_blocked(tool: &str, patterns: &[String]) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => tool.starts_with(prefix),
        None => tool == pattern,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_found_by_name() {
        let roots = Roots::default();
        for name in ["acp", "claude", "command", "echo", "openai"] {
            assert!(open(name, &roots).is_ok(), "{name}");
        }
        let refused = open("bogus", &roots).err().unwrap();
        assert!(
            refused.starts_with("Unknown provider: bogus. Registered: acp, claude, command, echo, openai"),
            "{refused}"
        );
    }
}
