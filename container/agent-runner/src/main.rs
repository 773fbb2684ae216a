//! `hearth-runner`: the program inside an agent's container. Everything is in the library, because the daemon's hidden
//! subcommand runs the same code as a confined child process.

use std::process::ExitCode;

fn main() -> ExitCode {
    agent_runner::main_from_env()
}
