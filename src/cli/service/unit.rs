//! The unit of systemd's user manager, as text.

use super::file::{INSTALLATION, MARK, UnitFields};
use crate::daemon::STOP_MAX;

/// Maximum shutdown time in seconds: draining, stopping or killing agents, and the last sync.
pub(super) const STOP: u64 = STOP_MAX.as_secs() + 45;

/// The text of the unit.
pub(super) fn unit(facts: &UnitFields<'_>) -> String {
    let environment = facts.environment.map_or_else(String::new, |path| {
        format!("# Variables that hearth.toml refers to (`env:NAME`); chmod 600 it.\nEnvironmentFile=-{}\n", file(path))
    });
    let path = facts.path.map_or_else(String::new, |path| {
        format!(
            "# The programs of the user who installed this, for agents that are not containers.\nEnvironment={}\n",
            assignment("PATH", path)
        )
    });
    let installation = facts.installation.map_or_else(String::new, |id| format!(" {INSTALLATION} {id}"));
    let mount = format!("\"{}\"", quoted(facts.data));
    let (name, program, data) = (facts.name, format!("\"{}\"", quoted(facts.program)), word(facts.data));
    format!(
        "# {MARK}, which writes it anew: what you want different belongs in\n\
         # `systemctl --user edit {name}`.\n\
         [Unit]\n\
         Description=Hearth, a host for personal AI agents\n\
         # Podman's socket, where there is one.\n\
         Wants=podman.socket\n\
         After=podman.socket\n\
         # The disk of the data directory.\n\
         RequiresMountsFor={mount}\n\
         # What keeps it from starting may be mended while it is tried again.\n\
         StartLimitIntervalSec=0\n\
         \n\
         [Service]\n\
         # Hearth says itself when it serves, when it stops, and every now and then that it is alive.\n\
         Type=notify\n\
         NotifyAccess=main\n\
         # Opening a store may upgrade it.\n\
         TimeoutStartSec=30min\n\
         WatchdogSec=5min\n\
         ExecStart={program} run --data {data}{installation}\n\
         {environment}{path}\
         # Longer each time, where systemd can (254); wrong usage is not tried again.\n\
         Restart=on-failure\n\
         RestartSec=5\n\
         RestartSteps=6\n\
         RestartMaxDelaySec=5min\n\
         RestartPreventExitStatus=2\n\
         # Turns and deliveries under way end first; only Hearth hears that it is to stop, and it ends its agents.\n\
         TimeoutStopSec={STOP}\n\
         KillMode=mixed\n\
         # An agent that takes too much memory ends alone.\n\
         OOMPolicy=continue\n\
         # Nothing here makes a mount namespace or a user namespace: containers and Landlock need the real ones.\n\
         UMask=0077\n\
         NoNewPrivileges=yes\n\
         LockPersonality=yes\n\
         RestrictRealtime=yes\n\
         RestrictSUIDSGID=yes\n\
         SyslogIdentifier=hearth\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
    )
}

/// One word of a command line behind the program, in which alone variables stand for values.
fn word(text: &str) -> String {
    format!("\"{}\"", quoted(text).replace('$', "$$"))
}

fn assignment(name: &str, value: &str) -> String {
    format!("\"{name}={}\"", quoted(value))
}

fn quoted(text: &str) -> String {
    specifiers(&text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A path that stands alone is taken as it is, but for patterns.
fn file(path: &str) -> String {
    let mut plain = String::new();
    for c in path.chars() {
        if matches!(c, '\\' | '*' | '?' | '[') {
            plain.push('\\');
        }
        plain.push(c);
    }
    specifiers(&plain)
}

fn specifiers(text: &str) -> String {
    text.replace('%', "%%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::opening::Installation;

    fn facts() -> UnitFields<'static> {
        UnitFields {
            program: "/opt/he arth/$x/hearth",
            data: "/home/a/50% \"of\" it\\",
            path: Some("/usr/local/bin:/usr/bin"),
            environment: Some("/home/a/.config/hearth/hearth.env"),
            installation: Some(Installation(0x0123_4567_89ab_cdef)),
            log: None,
            name: "hearth.service",
        }
    }

    #[test]
    fn the_unit_as_it_is_written() {
        insta::assert_snapshot!(unit(&facts()));
    }

    #[test]
    fn what_is_not_there_is_not_written() {
        let text = unit(&UnitFields { path: None, environment: None, installation: None, ..facts() });
        assert!(!text.contains("Environment") && !text.contains("--installation"), "{text}");
        assert_eq!(text.lines().next().map(|line| line.contains(MARK)), Some(true));
    }

    #[test]
    fn a_path_of_variables_is_no_pattern() {
        assert_eq!(file("/a b/*?[x]%\\"), "/a b/\\*\\?\\[x]%%\\\\");
    }
}
