//! Checks of the runtime: where agents run, and which protections are missing there.

use std::os::unix::fs::PermissionsExt as _;

use super::{Check, CheckStatus, bad, ok};
use crate::cli::problems;
use crate::config::Paths;
use crate::daemon::{rehearse, sandbox};
use crate::model::configure::RuntimeKind;
use crate::socket::protocol::{BuildJson, DaemonStatus};
use crate::state::{self, Reader};

/// Checks the runtime of the daemon, or the one that a daemon would choose now, and reports missing protections.
pub(super) fn runtime(paths: &Paths, reader: &Reader, daemon: Option<&DaemonStatus>) -> Vec<Check> {
    let has_networks = sandbox(paths).has_networks();
    let looked = reader.read(|db, txn| {
        let contained = daemon.is_some_and(|daemon| daemon.runtime == RuntimeKind::Podman.as_str());
        let cut_off = problems::cut_off_agents(db, txn, contained || has_networks)?;
        let (closed, holders) = (problems::networks(db, txn)?, problems::key_holders(db, txn)?);
        let (open, unlisted) = (problems::open_agents(db, txn)?, problems::unlisted_agents(db, txn)?);
        let settings = db.settings.get(txn, &())?.unwrap_or_default();
        Ok::<_, state::Error>((settings, closed, cut_off, holders, open, unlisted))
    });
    let (settings, closed, cut_off, holders, open, unlisted) = match looked {
        Ok(found) => found,
        Err(error) => {
            return vec![bad("runtime", CheckStatus::Fail, error.to_string(), "`hearth check` shows details")];
        }
    };
    let failed: Vec<Check> = daemon.iter().flat_map(|daemon| &daemon.builds).filter_map(failed_build).collect();
    let daemon = daemon.map(|daemon| (daemon.runtime.clone(), daemon.runtime_why.clone()));
    let rehearsed = rehearse(&settings).map_err(|error| error.to_string());
    let place_now = daemon.clone().or_else(|| {
        let (kind, why) = rehearsed.as_ref().ok()?;
        Some((kind.as_str().to_owned(), why.clone()))
    });
    let (check, kind) = place(daemon, rehearsed);
    let mut checks = vec![check];
    let needless = place_now.and_then(|(name, why)| problems::no_containers(&settings, &name, &why));
    checks.extend(needless.map(|found| {
        let mend = "fix the cause and restart the daemon; set `runtime = \"podman\"` to allow only containers, or `runtime = \
                    \"process\"` to use none";
        bad("runtime", CheckStatus::Warn, found, mend)
    }));
    checks.extend(failed);
    if kind == Some(RuntimeKind::Process) && !closed.is_empty() {
        let mend = "let them run in containers: run `hearth image build`, and set `runtime = \"podman\"`";
        checks.push(bad("network", CheckStatus::Warn, problems::open_network(&closed), mend));
    }
    checks.extend(cut_off.iter().map(|agent| {
        let mend = format!("`hearth agents set {agent} --network open`");
        bad("network", CheckStatus::Warn, problems::cut_off(agent), mend)
    }));
    checks.extend(unlisted.into_iter().map(|(found, mend)| bad("network", CheckStatus::Warn, found, mend)));
    checks.extend(open.iter().map(|agent| {
        let found = format!("agent {agent} reaches everything, because its `network` is `open`");
        let mend =
            format!("`hearth agents set {agent} --network ask` asks a person about new hosts; see docs/network.md");
        bad("network", CheckStatus::Warn, found, mend)
    }));
    checks.extend(console(reader));
    checks.extend(console_key(reader));
    checks.extend(holders.into_iter().map(|found| {
        bad(
            "gateway",
            CheckStatus::Warn,
            found,
            "remove `gateway` from its settings, unless its program needs the key itself",
        )
    }));
    checks
}

/// The console, and the agents that may be able to connect to it. They have no session there.
fn console(reader: &Reader) -> Option<Check> {
    let looked =
        reader.read(|db, txn| Ok::<_, state::Error>((db.console.get(txn, &())?, problems::beside_console(db, txn)?)));
    let (settings, agents) = looked.ok()?;
    let settings = settings.filter(|settings| settings.enabled)?;
    let reached = match agents.as_slice() {
        [] => "no agent can connect to it".to_owned(),
        agents => format!(
            "agents that share this machine's network or are unconfined can connect to it, without a session: {}",
            agents.join(", ")
        ),
    };
    Some(ok("console", format!("it listens at {}; {reached}", settings.listen)))
}

/// The key of the operator's own certificate, if other users of this machine can read it: they can then pass for the console.
fn console_key(reader: &Reader) -> Option<Check> {
    let settings = reader.read(|db, txn| db.console.get(txn, &())).ok().flatten();
    let key = settings.filter(|settings| settings.enabled)?.certificate?.key;
    // A key that cannot be used is reported by `hearth status`.
    let mode = std::fs::metadata(&key).ok()?.permissions().mode() & 0o777;
    (mode & 0o007 != 0).then(|| {
        let found =
            format!("all users of this machine can read or change {key}, the key of its certificate (mode {mode:04o})");
        bad(
            "console",
            CheckStatus::Warn,
            found,
            format!("run `chmod 600 {key}`; if others may have read it, replace the certificate"),
        )
    })
}

/// An image that the daemon could not build.
fn failed_build(build: &BuildJson) -> Option<Check> {
    let found = problems::failed_build(build)?;
    let agent = &build.agent;
    let mend = format!(
        "fix the cause, or remove the packages; Hearth retries automatically, and `hearth image build {agent}` retries now \
         and shows the whole output"
    );
    Some(bad("build", CheckStatus::Warn, found, mend))
}

/// The running daemon's runtime counts. It is a problem if a new daemon could not choose it again.
fn place(daemon: Option<(String, String)>, now: Result<(RuntimeKind, String), String>) -> (Check, Option<RuntimeKind>) {
    let podman = RuntimeKind::Podman;
    let lost = |why: &str| {
        let found = format!("the daemon runs agents in containers, which are not available now, because {why}");
        (bad("runtime", CheckStatus::Fail, found, "no agent starts until this is fixed"), Some(podman))
    };
    match (daemon, now) {
        (Some((name, _)), Ok((RuntimeKind::Process, why))) if name == podman.as_str() => lost(&why),
        (Some((name, _)), Err(why)) if name == podman.as_str() => lost(&why),
        (Some((name, why)), _) => {
            let kind = if name == podman.as_str() { podman } else { RuntimeKind::Process };
            (ok("runtime", format!("{name}, because {why}")), Some(kind))
        }
        (None, Ok((kind, why))) => (ok("runtime", format!("{}, because {why}", kind.as_str())), Some(kind)),
        (None, Err(error)) => (bad("runtime", CheckStatus::Fail, error, "follow the message"), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_daemon_does_counts_and_what_it_cannot_do_any_more_is_a_fault() {
        use RuntimeKind::{Podman, Process};
        let daemon = |name: &str| Some((name.to_owned(), "asked".to_owned()));
        let now = |kind| Ok((kind, "found".to_owned()));
        let away = || Err("no socket".to_owned());
        for (daemon, now, verdict, kind, part) in [
            (None, now(Podman), CheckStatus::Ok, Some(Podman), "podman, because found"),
            (None, away(), CheckStatus::Fail, None, "no socket"),
            (daemon("podman"), now(Podman), CheckStatus::Ok, Some(Podman), "podman, because asked"),
            (daemon("podman"), now(Process), CheckStatus::Fail, Some(Podman), "are not available now, because found"),
            (daemon("podman"), away(), CheckStatus::Fail, Some(Podman), "are not available now, because no socket"),
            (daemon("process"), now(Podman), CheckStatus::Ok, Some(Process), "process, because asked"),
        ] {
            let (check, found) = place(daemon, now);
            assert_eq!((check.result, found), (verdict, kind), "{check:?}");
            assert!(check.found.contains(part), "{check:?}");
        }
    }
}
