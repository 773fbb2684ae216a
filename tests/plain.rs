//! `hearth` once more, for a build without debug assertions (`tests/it/seams.rs`).

use std::process::ExitCode;

fn main() -> ExitCode {
    hearth::cli::main()
}
