//! `hearth-matrix`: a bridge to Matrix. Everything is in the library.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: hearth-matrix verify DIRECTORY, which is the state of the bridge, or hearth-matrix recovery FILE, for a new \
     key; Hearth starts the bridge itself, without arguments";

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let done = match words.as_slice() {
        [] => hearth_matrix::run(),
        [verb, directory] if verb == "verify" => hearth_matrix::verify(Path::new(directory)),
        [verb, file] if verb == "recovery" => hearth_matrix::recovery(Path::new(file)),
        _ => Err(io::Error::other(USAGE)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without a daemon there is nothing to tell it to.
            drop(writeln!(io::stderr(), "hearth-matrix: {error}"));
            ExitCode::FAILURE
        }
    }
}
