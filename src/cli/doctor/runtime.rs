//! Where agents run, and what does not hold there.

use super::{Check, Verdict, bad, ok};
use crate::cli::{status, trouble};
use crate::config::Paths;
use crate::daemon::rehearse;
use crate::model::configure::RuntimeKind;
use crate::socket::protocol::BuildJson;
use crate::state::{self, Reader};

/// Where the daemon runs agents, or one that started now would; and what does not hold there.
pub(super) fn runtime(paths: &Paths, reader: &Reader) -> Vec<Check> {
    let (settings, closed) =
        match reader.read(|db, txn| Ok::<_, state::Error>((db.settings.get(txn, &())?, trouble::networks(db, txn)?))) {
            Ok((settings, closed)) => (settings.unwrap_or_default(), closed),
            Err(error) => return vec![bad("runtime", Verdict::Fail, error.to_string(), "`hearth check` says more")],
        };
    let daemon = status::ask(paths).ok().flatten();
    let failed: Vec<Check> = daemon.iter().flat_map(|daemon| &daemon.builds).filter_map(failed_build).collect();
    let daemon = daemon.map(|daemon| (daemon.runtime, daemon.runtime_why));
    let rehearsed = rehearse(&settings).map_err(|error| error.to_string());
    let place_now = daemon.clone().or_else(|| {
        let (kind, why) = rehearsed.as_ref().ok()?;
        Some((kind.as_str().to_owned(), why.clone()))
    });
    let (check, kind) = place(daemon, rehearsed);
    let mut checks = vec![check];
    let needless = place_now.and_then(|(name, why)| trouble::no_containers(&settings, (&name, &why)));
    checks.extend(needless.map(|found| {
        let mend = "fix that and start the daemon again; `runtime = \"podman\"` takes nothing else instead, and `runtime = \
                    \"process\"` wants no containers";
        bad("runtime", Verdict::Warn, found, mend)
    }));
    checks.extend(failed);
    if kind == Some(RuntimeKind::Process) && !closed.is_empty() {
        let mend =
            "let them run in containers: `hearth image build`, and `runtime = \"podman\"` takes nothing else instead";
        checks.push(bad("network", Verdict::Warn, trouble::open_network(&closed), mend));
    }
    checks
}

/// An image that the daemon could not build.
fn failed_build(build: &BuildJson) -> Option<Check> {
    let found = trouble::failed_build(build)?;
    let agent = &build.agent;
    let mend = format!(
        "fix what it says, or take the packages out again; it is tried again by itself, and `hearth image build {agent}` \
         tries at once and shows everything that is said"
    );
    Some(bad("build", Verdict::Warn, found, mend))
}

/// What the daemon does, if one runs, counts; that it could not do it again is a fault.
fn place(daemon: Option<(String, String)>, now: Result<(RuntimeKind, String), String>) -> (Check, Option<RuntimeKind>) {
    let podman = RuntimeKind::Podman;
    let lost = |why: &str| {
        let found = format!("the daemon runs agents in containers, which are not available now, because {why}");
        (bad("runtime", Verdict::Fail, found, "no agent starts until that is mended"), Some(podman))
    };
    match (daemon, now) {
        (Some((name, _)), Ok((RuntimeKind::Process, why))) if name == podman.as_str() => lost(&why),
        (Some((name, _)), Err(why)) if name == podman.as_str() => lost(&why),
        (Some((name, why)), _) => {
            let kind = if name == podman.as_str() { podman } else { RuntimeKind::Process };
            (ok("runtime", format!("{name}, because {why}")), Some(kind))
        }
        (None, Ok((kind, why))) => (ok("runtime", format!("{}, because {why}", kind.as_str())), Some(kind)),
        (None, Err(error)) => (bad("runtime", Verdict::Fail, error, "do what the message says"), None),
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
            (None, now(Podman), Verdict::Ok, Some(Podman), "podman, because found"),
            (None, away(), Verdict::Fail, None, "no socket"),
            (daemon("podman"), now(Podman), Verdict::Ok, Some(Podman), "podman, because asked"),
            (daemon("podman"), now(Process), Verdict::Fail, Some(Podman), "are not available now, because found"),
            (daemon("podman"), away(), Verdict::Fail, Some(Podman), "are not available now, because no socket"),
            (daemon("process"), now(Podman), Verdict::Ok, Some(Process), "process, because asked"),
        ] {
            let (check, found) = place(daemon, now);
            assert_eq!((check.result, found), (verdict, kind), "{check:?}");
            assert!(check.found.contains(part), "{check:?}");
        }
    }
}
