//! `hearth-runner`: the program inside an agent's container. Everything is in the library, because the daemon's hidden
//! subcommand runs the same code as a confined child process.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Arguments that are not Unicode are not valid for this program.
    let arguments: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    agent_runner::main_from_arguments(&arguments)
}
