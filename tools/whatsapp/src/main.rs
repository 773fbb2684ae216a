//! `hearth-whatsapp`: an unofficial bridge to WhatsApp, as a linked device. Everything is in the library.

use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match hearth_whatsapp::run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without a daemon there is nothing to tell it to.
            drop(writeln!(std::io::stderr(), "hearth-whatsapp: {error}"));
            ExitCode::FAILURE
        }
    }
}
