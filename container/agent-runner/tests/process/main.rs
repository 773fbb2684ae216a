//! Runs the real `hearth-runner` on session directories, as the host does.

#[cfg(test)] // marks the whole crate as a test for the lints
mod acp;
#[cfg(test)]
mod bench;
#[cfg(test)]
mod claude;
#[cfg(test)]
mod claude_commands;
#[cfg(test)]
mod claude_midturn;
#[cfg(test)]
mod claude_trouble;
#[cfg(test)]
mod claude_work;
#[cfg(test)]
mod claude_writing;
#[cfg(test)]
mod confined;
#[cfg(test)]
mod crashes;
#[cfg(test)]
#[path = "../../../../tests/it/host/fake_api.rs"]
mod fake_api;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod handed;
#[cfg(test)]
mod openai;
#[cfg(test)]
mod other;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod prompt;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests look for Python as their own environment says")]
#[path = "../../../../tests/it/host/python.rs"]
mod python;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod tools;
#[cfg(test)]
mod trusted;
#[cfg(test)]
mod turns;
