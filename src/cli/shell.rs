//! `hearth completions SHELL` and `hearth man DIR`, generated from the definition of the commands.

use std::path::Path;

use clap::Command;
use clap_complete::Shell;

use super::{Done, Failure, print};

/// Writes completions to standard output.
pub(super) fn completions(shell: Shell, mut command: Command) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "hearth", &mut script);
    print::line(String::from_utf8_lossy(&script).trim_end())
}

/// Writes a page for the program and one for each of its commands.
pub(super) fn man(dir: &Path, command: Command) -> Done {
    let failed = |error: std::io::Error| Failure::Failed(format!("{}: {error}", dir.display()));
    std::fs::create_dir_all(dir).map_err(failed)?;
    clap_mangen::generate_to(command.disable_help_subcommand(true), dir).map_err(failed)?;
    print::note(&format!("manual pages are in {}", dir.display()));
    Ok(())
}
