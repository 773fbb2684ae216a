//! Podman and the agents' image: whether agents can run in containers here, proved by one that lives for a moment.

use super::{Check, Verdict, bad, ok};
use crate::cli::image::Wishes;
use crate::config::Paths;
use crate::daemon::image::{self, Engine, Freshness, Info};
use crate::daemon::trial::{self, Tried};
use crate::model::configure::RuntimeKind;

/// What to do about an image that is not as it should be.
const REBUILD: &str = "run `hearth image build`";

/// Looks at everything that containers need, and says whether agents can run in them; later checks are left out where an
/// earlier one failed.
pub(super) fn containers(paths: &Paths) -> (Vec<Check>, bool) {
    // The checks of the store tell more.
    let Ok(wishes) = Wishes::read(paths) else { return (Vec::new(), false) };
    let checks = look(&wishes);
    let works = checks.iter().any(|check| check.check == LAST && check.result == Verdict::Ok);
    (checks, works && wishes.runtime() != Some(RuntimeKind::Process))
}

fn look(wishes: &Wishes) -> Vec<Check> {
    let (engine, info) = match Engine::find().and_then(|engine| image::info(&engine).map(|info| (engine, info))) {
        Ok(found) => found,
        Err(error) => return vec![without(wishes, &error)],
    };
    let kind = if info.rootless { "rootless" } else { "rootful" };
    let found = format!("{kind} version {} at {}", info.version, engine.socket().display());
    let mut checks = vec![ok("podman", found)];
    let listed = match image::list(&engine, wishes.install(), &wishes.agents()) {
        Ok(listed) => listed,
        Err(error) => {
            checks.push(bad("image", Verdict::Fail, error.to_string(), "look at what Podman says"));
            return checks;
        }
    };
    let shown = listed.iter().filter(|one| one.freshness != Freshness::Unused);
    checks.extend(shown.map(|one| of_image(wishes, one)));
    let usable = listed.iter().find(|one| one.agent.is_none() && one.image.is_some());
    if let Some(usable) = usable {
        match trial::run(&engine, &usable.name, info.rootless) {
            Ok(tried) => checks.extend(outcome(&tried, &info)),
            Err(error) => {
                let mend = "look at what Podman says; `podman run --rm --entrypoint true IMAGE` tries the same by hand";
                checks.push(bad("container", worst(wishes), error.to_string(), mend));
            }
        }
    }
    checks
}

/// The check that needs all others.
const LAST: &str = "container user";

/// How bad it is if no container can be started.
fn worst(wishes: &Wishes) -> Verdict {
    if wishes.runtime() == Some(RuntimeKind::Podman) { Verdict::Fail } else { Verdict::Warn }
}

fn without(wishes: &Wishes, error: &image::Error) -> Check {
    match wishes.runtime() {
        Some(RuntimeKind::Process) => ok("podman", "not needed: the process runtime is configured"),
        Some(RuntimeKind::Podman) => {
            bad("podman", Verdict::Fail, "Podman is configured and cannot be used", error.to_string())
        }
        None => bad("podman", Verdict::Warn, "agents cannot run in containers", error.to_string()),
    }
}

fn of_image(wishes: &Wishes, one: &image::Listed) -> Check {
    let name = &one.name;
    // Where another image is configured, nothing runs in Hearth's own.
    let needless = one.agent.is_none() && wishes.configured().is_some();
    match one.freshness {
        Freshness::Missing if needless => ok("image", format!("{name} is not there, and another one is configured")),
        Freshness::Missing => bad("image", worst(wishes), format!("there is no {name}"), REBUILD),
        Freshness::Outdated => {
            let found =
                format!("{name} was built from another recipe or runner than this version has, or on an older base");
            bad("image", Verdict::Warn, found, REBUILD)
        }
        Freshness::Current | Freshness::Unused => ok("image", format!("{name} is current")),
        Freshness::Unknown => ok("image", format!("{name} is there; nothing here says what it should be built from")),
    }
}

fn outcome(tried: &Tried, info: &Info) -> Vec<Check> {
    let mounts = if tried.shares && tried.fixed {
        ok("mounts", "a container and the host see each other's changes, and what is read-only stays as it is")
    } else if tried.shares {
        bad(
            "mounts",
            Verdict::Fail,
            "a container can change what it may only read",
            "update Podman and its OCI runtime",
        )
    } else {
        let mend = "the data directory has to be on a file system that containers can share; a Podman machine has to be \
                    given the directory";
        bad("mounts", Verdict::Fail, "a container and the host do not see each other's files", mend)
    };
    let user = match (tried.uid, tried.image_fixed) {
        (Some(1_000), true) => ok(LAST, "uid 1000, with an image that stays as it is"),
        (Some(1_000), false) => {
            bad(LAST, Verdict::Fail, "a container can change its image", "update Podman and its OCI runtime")
        }
        (uid, _) => {
            let who = uid.map_or_else(|| "nobody knows whom".to_owned(), |uid| format!("uid {uid}"));
            bad(LAST, Verdict::Fail, format!("a container runs as {who}, not as uid 1000"), REBUILD)
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
                "mount the control groups of memory and pids, best as cgroup v2"
            };
            bad("limits", Verdict::Warn, format!("{found} (cgroup {})", info.cgroups), mend)
        }
    };
    vec![mounts, user, bounds, filter(info)]
}

/// The self-test tries whether it holds.
fn filter(info: &Info) -> Check {
    match &info.unfiltered {
        None => ok("system calls", "containers get Podman's seccomp profile without the ways to a user namespace"),
        Some(why) => {
            let mend = "install the profile as distributions do, in /usr/share/containers/seccomp.json, or name it as \
                        `seccomp_profile` in containers.conf, and start Podman's service and Hearth again";
            bad("system calls", Verdict::Warn, format!("agents can make user namespaces: {why}"), mend)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::trial::Limited;

    #[test]
    fn what_a_container_found_is_told() {
        let info = Info {
            version: "4.3.1".into(),
            rootless: true,
            cgroups: "v1".into(),
            controllers: Vec::new(),
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
        assert_eq!(verdicts(&good), [Verdict::Ok; 4]);
        for (tried, expected) in [
            (Tried { shares: false, ..good.clone() }, [Verdict::Fail, Verdict::Ok, Verdict::Ok, Verdict::Ok]),
            (Tried { fixed: false, ..good.clone() }, [Verdict::Fail, Verdict::Ok, Verdict::Ok, Verdict::Ok]),
            (Tried { image_fixed: false, ..good.clone() }, [Verdict::Ok, Verdict::Fail, Verdict::Ok, Verdict::Ok]),
            (Tried { uid: Some(0), ..good.clone() }, [Verdict::Ok, Verdict::Fail, Verdict::Ok, Verdict::Ok]),
            (Tried { uid: None, ..good.clone() }, [Verdict::Ok, Verdict::Fail, Verdict::Ok, Verdict::Ok]),
            (
                Tried { limited: Limited { memory: false, pids: true }, ..good.clone() },
                [Verdict::Ok, Verdict::Ok, Verdict::Warn, Verdict::Ok],
            ),
        ] {
            assert_eq!(verdicts(&tried), expected, "{tried:?}");
        }
        let open = Info { unfiltered: Some("Podman names no file".to_owned()), ..info.clone() };
        let told = outcome(&good, &open).pop().unwrap();
        assert_eq!((told.check, told.result), ("system calls", Verdict::Warn));
        assert!(told.found.contains("names no file") && told.mend.unwrap().contains("seccomp_profile"));
    }
}
