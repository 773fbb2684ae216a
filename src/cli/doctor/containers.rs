//! Checks of Podman and the agents' image: whether agents can run in containers here, verified with a short-lived one.

use super::{Check, CheckStatus, Configuration, bad, ok, several};
use crate::cli::image::ImageSettings;
use crate::cli::prerequisites;
use crate::config::Paths;
use crate::daemon::image::{self, Engine, Freshness, Info};
use crate::daemon::isolation_check::{self, Tried};
use crate::model::configure::RuntimeKind;
use crate::model::entity::{AgentSettings, Network};

/// The fix for a missing or outdated image.
const REBUILD: &str = "run `hearth image build`";

/// Checks everything that containers need. Returns whether agents can run in them. A failed check skips the later ones.
pub(super) fn containers(paths: &Paths) -> (Vec<Check>, bool) {
    // The checks of the store report more about this error.
    let Ok(wishes) = ImageSettings::read(paths) else { return (Vec::new(), false) };
    let checks = look(&wishes);
    let works = checks.iter().any(|check| check.check == LAST && check.result == CheckStatus::Ok);
    (checks, works && wishes.runtime() != Some(RuntimeKind::Process))
}

/// Warns about agents in containers that may reach loopback services of this machine, which is off by default.
pub(super) fn loopback(known: &Configuration, contained: bool) -> Option<Check> {
    let reaches = |settings: &AgentSettings| settings.network == Network::Open && settings.allow_host_loopback;
    let agents = known.agents.iter().filter(|agent| contained && reaches(&agent.settings));
    let names: Vec<&str> = agents.map(|agent| agent.folder.as_str()).collect();
    let reach = "services that listen on this machine's loopback address only";
    let (one, many) = (format!("reaches {reach}"), format!("reach {reach}"));
    let mend = "if that is not needed, `hearth agents set AGENT --allow-host-loopback false`";
    (!names.is_empty()).then(|| several("loopback", &names, &one, &many, mend))
}

fn look(wishes: &ImageSettings) -> Vec<Check> {
    let (engine, info) = match Engine::find()
        .map_err(image::Error::from)
        .and_then(|engine| image::info(&engine).map(|info| (engine, info)))
    {
        Ok(found) => found,
        Err(error) => return vec![without(wishes, &error)],
    };
    let kind = if info.rootless { "rootless" } else { "rootful" };
    let found = format!("{kind} version {} at {}", info.version, engine.socket().display());
    let mut checks = vec![ok("podman", found)];
    let listed = match image::list(&engine, wishes.install(), &wishes.agents()) {
        Ok(listed) => listed,
        Err(error) => {
            checks.push(bad("image", CheckStatus::Fail, error.to_string(), "read Podman's error"));
            return checks;
        }
    };
    let shown = listed.iter().filter(|one| one.freshness != Freshness::Unused);
    checks.extend(shown.map(|one| of_image(wishes, one)));
    let usable = listed.iter().find(|one| one.agent.is_none() && one.image.is_some());
    if let Some(usable) = usable {
        match isolation_check::run(&engine, &usable.name, info.rootless) {
            Ok(tried) => checks.extend(outcome(&tried, &info)),
            Err(error) => {
                let mend = "read Podman's error; `podman run --rm --entrypoint true IMAGE` does the same by hand";
                checks.push(bad("container", worst(wishes), error.to_string(), mend));
            }
        }
    }
    checks
}

/// Name of the last check, which depends on all others.
const LAST: &str = "container user";

/// Severity if no container can be started.
fn worst(wishes: &ImageSettings) -> CheckStatus {
    if wishes.runtime() == Some(RuntimeKind::Podman) { CheckStatus::Fail } else { CheckStatus::Warn }
}

fn without(wishes: &ImageSettings, error: &image::Error) -> Check {
    match wishes.runtime() {
        Some(RuntimeKind::Process) => ok("podman", "not needed: the process runtime is configured"),
        Some(RuntimeKind::Podman) => {
            bad("podman", CheckStatus::Fail, "Podman is configured but cannot be used", error.to_string())
        }
        None if prerequisites::on_path("podman") => {
            bad("podman", CheckStatus::Fail, prerequisites::SOCKET_OFF, prerequisites::socket_mend(error))
        }
        None => bad("podman", CheckStatus::Warn, "agents cannot run in containers", error.to_string()),
    }
}

fn of_image(wishes: &ImageSettings, one: &image::Listed) -> Check {
    let name = &one.name;
    // If another image is configured, Hearth's own base is not used.
    let needless = one.agent.is_none() && wishes.configured().is_some();
    match one.freshness {
        Freshness::Missing if needless => ok("image", format!("{name} is not built, and another image is configured")),
        Freshness::Missing => bad("image", worst(wishes), format!("{name} is missing"), REBUILD),
        Freshness::Outdated => {
            let found =
                format!("{name} was built with a different recipe or runner than this version's, or on an older base");
            bad("image", CheckStatus::Warn, found, REBUILD)
        }
        Freshness::Current | Freshness::Unused => ok("image", format!("{name} is current")),
        Freshness::Unknown => ok("image", format!("{name} exists; whether it is current is unknown")),
    }
}

fn outcome(tried: &Tried, info: &Info) -> Vec<Check> {
    let mounts = if tried.shares && tried.fixed {
        ok("mounts", "containers and the host see each other's changes, and read-only files cannot be changed")
    } else if tried.shares {
        bad("mounts", CheckStatus::Fail, "a container can change read-only files", "update Podman and its OCI runtime")
    } else {
        let mend = "the data directory must be on a file system that containers can share; share the directory with the Podman machine, if you use one";
        bad("mounts", CheckStatus::Fail, "a container and the host do not see each other's files", mend)
    };
    let user = match (tried.uid, tried.image_fixed) {
        (Some(1_000), true) => ok(LAST, "uid 1000, with a read-only image"),
        (Some(1_000), false) => {
            bad(LAST, CheckStatus::Fail, "a container can change its image", "update Podman and its OCI runtime")
        }
        (uid, _) => {
            let who = uid.map_or_else(|| "an unknown user".to_owned(), |uid| format!("uid {uid}"));
            bad(LAST, CheckStatus::Fail, format!("a container runs as {who}, not as uid 1000"), REBUILD)
        }
    };
    let bounds = match (tried.limited.memory, tried.limited.pids) {
        (true, true) => {
            ok("limits", format!("memory and processes of containers are bounded (cgroup {})", info.cgroups))
        }
        (memory, pids) => {
            let missing = match (memory, pids) {
                (false, true) => "memory",
                (true, false) => "the number of processes",
                _ => "neither memory nor processes",
            };
            let found = if memory || pids {
                format!("{missing} cannot be bounded")
            } else {
                format!("{missing} can be bounded")
            };
            let mend = if info.rootless {
                "have systemd delegate memory and pids to users (Delegate= of user@.service, cgroup v2), or run Podman as root"
            } else {
                "mount the control groups of memory and pids, preferably as cgroup v2"
            };
            bad("limits", CheckStatus::Warn, format!("{found} (cgroup {})", info.cgroups), mend)
        }
    };
    vec![mounts, user, bounds, filter(info)]
}

/// Checks that containers get a seccomp profile. The self-test tries whether it works.
fn filter(info: &Info) -> Check {
    match &info.unfiltered {
        None => ok("system calls", "containers get Podman's seccomp profile without the ways to a user namespace"),
        Some(why) => {
            let mend = "install the profile in /usr/share/containers/seccomp.json, or set `seccomp_profile` in \
             containers.conf, and restart Podman's service and Hearth";
            bad("system calls", CheckStatus::Warn, format!("agents can make user namespaces: {why}"), mend)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::isolation_check::Limited;

    #[test]
    fn what_a_container_found_is_told() {
        let info = Info {
            version: "4.3.1".into(),
            rootless: true,
            cgroups: "v1".into(),
            socket: "/run/podman/podman.sock".into(),
            unlimited: Vec::new(),
            arch: "amd64".into(),
            unfiltered: None,
        };
        let good = Tried {
            shares: true,
            fixed: true,
            image_fixed: true,
            uid: Some(1_000),
            limited: Limited { memory: true, pids: true },
        };
        let verdicts = |tried: &Tried| outcome(tried, &info).iter().map(|check| check.result).collect::<Vec<_>>();
        assert_eq!(verdicts(&good), [CheckStatus::Ok; 4]);
        for (tried, expected) in [
            (
                Tried { shares: false, ..good.clone() },
                [CheckStatus::Fail, CheckStatus::Ok, CheckStatus::Ok, CheckStatus::Ok],
            ),
            (
                Tried { fixed: false, ..good.clone() },
                [CheckStatus::Fail, CheckStatus::Ok, CheckStatus::Ok, CheckStatus::Ok],
            ),
            (
                Tried { image_fixed: false, ..good.clone() },
                [CheckStatus::Ok, CheckStatus::Fail, CheckStatus::Ok, CheckStatus::Ok],
            ),
            (
                Tried { uid: Some(0), ..good.clone() },
                [CheckStatus::Ok, CheckStatus::Fail, CheckStatus::Ok, CheckStatus::Ok],
            ),
            (
                Tried { uid: None, ..good.clone() },
                [CheckStatus::Ok, CheckStatus::Fail, CheckStatus::Ok, CheckStatus::Ok],
            ),
            (
                Tried { limited: Limited { memory: false, pids: true }, ..good.clone() },
                [CheckStatus::Ok, CheckStatus::Ok, CheckStatus::Warn, CheckStatus::Ok],
            ),
        ] {
            assert_eq!(verdicts(&tried), expected, "{tried:?}");
        }
        let open = Info { unfiltered: Some("Podman names no file".to_owned()), ..info.clone() };
        let told = outcome(&good, &open).pop().unwrap();
        assert_eq!((told.check, told.result), ("system calls", CheckStatus::Warn));
        assert!(told.found.contains("names no file") && told.mend.unwrap().contains("seccomp_profile"));
    }
}
