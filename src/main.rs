//! `hearth`: arguments in, a message and an exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    hearth::cli::main()
}
