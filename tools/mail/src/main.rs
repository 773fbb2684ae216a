//! `hearth-mail`: a bridge to a mailbox. Everything is in the library.

use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    match hearth_mail::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without a daemon there is nothing to tell it to.
            drop(writeln!(std::io::stderr(), "hearth-mail: {error}"));
            ExitCode::FAILURE
        }
    }
}
