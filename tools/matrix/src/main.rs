//! `hearth-matrix`: a bridge to Matrix. Everything is in the library.

use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    match hearth_matrix::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without a daemon there is nothing to tell it to.
            drop(writeln!(std::io::stderr(), "hearth-matrix: {error}"));
            ExitCode::FAILURE
        }
    }
}
