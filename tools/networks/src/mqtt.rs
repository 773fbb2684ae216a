//! `hearth-mqtt`: a bridge to a broker of MQTT. Everything is in the library.

use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    match hearth_bridge::mqtt::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without a daemon there is nothing to tell it to.
            drop(writeln!(std::io::stderr(), "hearth-mqtt: {error}"));
            ExitCode::FAILURE
        }
    }
}
