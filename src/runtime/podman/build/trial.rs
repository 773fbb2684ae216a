//! Runs a short-lived container that checks whether container isolation works on this machine.

use std::path::Path;

use serde_json::{Value, json};

use super::{Engine, Error, Watch};

/// Limits of the trial.
const MEMORY: u64 = 64 * 1024 * 1024;
const PIDS: u64 = 32;
/// Label of the trial's container.
const LABEL: &str = "hearth.trial";
const BY: &str = "doctor";
/// Age after which a trial's container is abandoned, in Podman's notation.
const LEFT_AFTER: &str = "10m";
/// The script of the container. Each line it prints is one finding.
const SCRIPT: &str = "cd /trial/shared || exit 1
test \"$(cat from-host 2>/dev/null)\" = hello && echo sees-host
echo answer > part && mv part from-container && rm from-host && echo changes
( echo x > /trial/fixed/x ) 2>/dev/null || echo fixed-refuses
( echo x > /x ) 2>/dev/null || echo root-refuses
echo uid $(id -u)
for file in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do
    test -r $file && echo memory $(cat $file)
done
for file in /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max; do
    test -r $file && echo pids $(cat $file)
done
exit 0
";

/// Parameters of the trial: an image with a shell, and two host directories. `shared` contains a file `from-host` with
/// the text `hello`, and the container may write there. It may only read `fixed`.
#[derive(Debug, Clone, Copy)]
pub struct Trial<'a> {
    /// Name of the image.
    pub image: &'a str,
    /// Readable and writable for the container.
    pub shared: &'a Path,
    /// Only readable.
    pub fixed: &'a Path,
    /// Whether Podman is rootless. In that case the user inside is `node`.
    pub rootless: bool,
}

/// Which limits the container saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limited {
    /// Of memory.
    pub memory: bool,
    /// Of processes.
    pub pids: bool,
}

/// Findings of the container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// It read the host's file, and wrote, renamed and removed files.
    pub shares: bool,
    /// It could not write to the read-only directory.
    pub fixed: bool,
    /// It could not write to its image.
    pub image_fixed: bool,
    /// The user it ran as.
    pub uid: Option<u32>,
    /// The limits that applied.
    pub limited: Limited,
}

impl Engine {
    /// Runs the trial and removes its container.
    ///
    /// # Errors
    /// [`Error`] if the container could not be run.
    pub fn try_container(&self, trial: &Trial<'_>, watch: &dyn Watch) -> Result<Tried, Error> {
        let mount = |path: &Path, target: &str, options: Value| json!({ "type": "bind", "source": path.to_string_lossy(), "destination": target, "options": options });
        let spec = |bounds: Value| {
            json!({
                "image": trial.image,
                "entrypoint": ["/bin/sh", "-c", SCRIPT],
                "command": [],
                "user": "1000:1000",
                "work_dir": "/",
                "read_only_filesystem": true,
                "no_new_privileges": true,
                "cap_drop": ["ALL"],
                "netns": { "nsmode": "none" },
                "userns": { "nsmode": if trial.rootless { "keep-id" } else { "host" } },
                "labels": { LABEL: BY },
                "mounts": [
                    mount(trial.shared, "/trial/shared", json!(["rw"])),
                    mount(trial.fixed, "/trial/fixed", json!(["ro"])),
                ],
                "resource_limits": bounds,
            })
        };
        if let Err(error) = self.clear_trials(LEFT_AFTER, watch) {
            tracing::debug!(%error, "containers of earlier trials are not removed");
        }
        let bounds = json!({ "memory": { "limit": MEMORY }, "pids": { "limit": PIDS } });
        // Without control groups a container with limits does not start. The rest can still be tried.
        match self.run(spec(bounds), watch) {
            Ok(said) => Ok(found(&said)),
            Err(Error::Refused { .. }) => self.run(spec(Value::Null), watch).map(|said| found(&said)),
            Err(error) => Err(error),
        }
    }

    /// Removes stopped containers of trials older than `older`, left by a doctor that died.
    pub(in crate::runtime::podman) fn clear_trials(&self, older: &str, watch: &dyn Watch) -> Result<(), Error> {
        let left = json!({ "label": [format!("{LABEL}={BY}")], "until": [older] });
        self.ask(watch, async move |api| api.prune(&left).await)
    }

    /// Creates a container, waits for its end, and returns its output.
    fn run(&self, spec: Value, watch: &dyn Watch) -> Result<String, Error> {
        self.ask(watch, async move |api| {
            let id = api.create(&spec).await?;
            let run = async {
                api.start(&id).await?;
                api.wait(&id).await?;
                api.stdout(&id).await
            };
            let output = run.await;
            let removed = api.remove(&id).await;
            output.and_then(|output| removed.map(|()| output))
        })
    }
}

fn found(said: &str) -> Tried {
    let has = |line: &str| said.lines().any(|found| found == line);
    let number =
        |key: &str| said.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse::<u64>().ok());
    Tried {
        shares: has("sees-host") && has("changes"),
        fixed: has("fixed-refuses"),
        image_fixed: has("root-refuses"),
        uid: number("uid").and_then(|uid| u32::try_from(uid).ok()),
        limited: Limited { memory: number("memory") == Some(MEMORY), pids: number("pids") == Some(PIDS) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_that_a_container_printed_is_one_finding() {
        let tried = found("sees-host\nchanges\nmemory 67108864\npids max\nuid 1000\n");
        assert_eq!(tried.limited, Limited { memory: true, pids: false });
        assert!(tried.shares && !tried.fixed && !tried.image_fixed && tried.uid == Some(1000), "{tried:?}");
    }
}
