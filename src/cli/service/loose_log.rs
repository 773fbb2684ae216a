//! The log of a daemon that no service runs: it goes to the daemon's standard error.

use std::path::{Path, PathBuf};

use super::{LogsArgs, tail_arguments};
use crate::cli::Failure;
use crate::config::Paths;

/// Where a daemon logs that no service runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LooseLog {
    pid: i32,
    target: Target,
}

/// Standard error of a process.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    File(PathBuf),
    Terminal(PathBuf),
    /// A pipe or a socket: of a supervisor, a container or the journal.
    Stream,
    /// `/dev/null`, or a deleted file.
    Nowhere,
    /// The system does not tell.
    Unknown,
}

/// The log of the running daemon; none if no daemon runs.
pub(super) fn find(paths: &Paths) -> Option<LooseLog> {
    let pid = crate::state::holder(paths.data())?;
    let target = match std::fs::read_link(format!("/proc/{pid}/fd/2")) {
        Ok(link) => classify(&link, std::fs::metadata(&link).is_ok_and(|found| found.is_file())),
        Err(_) => Target::Unknown,
    };
    Some(LooseLog { pid, target })
}

fn classify(link: &Path, is_file: bool) -> Target {
    if is_file {
        return Target::File(link.to_owned());
    }
    match link.to_str() {
        Some(name) if name.starts_with("/dev/pts/") || name.starts_with("/dev/tty") => {
            Target::Terminal(link.to_owned())
        }
        Some(name) if name.starts_with("pipe:") || name.starts_with("socket:") => Target::Stream,
        _ => Target::Nowhere,
    }
}

/// The arguments of `tail` for the log, or where it went instead of a file.
pub(super) fn arguments(log: LooseLog, wanted: &LogsArgs, json: bool) -> Result<Vec<String>, Failure> {
    let LooseLog { pid, target } = log;
    let place = match target {
        Target::File(_) if wanted.since.is_some() || json => {
            return Err(Failure::Failed(
                "the daemon logs to a plain file: `--since` and `--json` need the journal of a service; use -n"
                    .to_owned(),
            ));
        }
        Target::File(file) => {
            let mut arguments = tail_arguments(wanted);
            arguments.extend(["--".to_owned(), file.display().to_string()]);
            return Ok(arguments);
        }
        Target::Terminal(terminal) => format!("in the terminal {}, where it was started", terminal.display()),
        Target::Stream => format!(
            "with the program that started it: a supervisor, a container, or the journal, which shows it with \
             `journalctl _PID={pid}`"
        ),
        Target::Nowhere => "nowhere: its standard error is discarded".to_owned(),
        Target::Unknown => "on the standard error of that process".to_owned(),
    };
    Err(Failure::Failed(format!(
        "process {pid} runs Hearth outside of a service, and Hearth keeps no log of its own: it is {place}; \
         `hearth service install` keeps one, and so does `hearth run 2>>hearth.log`"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_error_of_the_daemon_says_where_its_log_is() {
        for (link, is_file, expected) in [
            ("/var/log/hearth.log", true, Target::File("/var/log/hearth.log".into())),
            ("/dev/pts/3", false, Target::Terminal("/dev/pts/3".into())),
            ("/dev/tty1", false, Target::Terminal("/dev/tty1".into())),
            ("pipe:[5]", false, Target::Stream),
            ("socket:[5]", false, Target::Stream),
            ("/dev/null", false, Target::Nowhere),
            ("/tmp/log (deleted)", false, Target::Nowhere),
        ] {
            assert_eq!(classify(Path::new(link), is_file), expected, "{link}");
        }
    }
}
