//! A container that lives for a moment and tries whether the promises of containers hold on this machine.

use std::path::Path;

use serde_json::{Value, json};

use super::http::{Body, Call, Engine, quoted};
use super::{Error, Watch};

/// What the trial is bounded to.
const MEMORY: u64 = 64 * 1024 * 1024;
const PIDS: u64 = 32;
/// Label of the container.
const LABEL: &str = "hearth.trial";
const BY: &str = "doctor";
/// After which time nobody looks at it any more, as Podman reads it.
const LEFT_AFTER: &str = "10m";
/// What the container does: each line it prints is one finding.
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

/// What to try it with: an image with a shell, and two directories of the host. In `shared` there is a file `from-host`
/// that says `hello`; the container may change what is there, and nothing in `fixed`.
#[derive(Debug, Clone, Copy)]
pub struct Trial<'a> {
    /// Name of the image.
    pub image: &'a str,
    /// Readable and writable for the container.
    pub shared: &'a Path,
    /// Only readable.
    pub fixed: &'a Path,
    /// Whether Podman runs without rights over the machine: the user is node inside, then.
    pub rootless: bool,
}

/// Which bounds the container saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limited {
    /// Of memory.
    pub memory: bool,
    /// Of processes.
    pub pids: bool,
}

/// What the container found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// It read what the host wrote, and wrote, renamed and removed files.
    pub shares: bool,
    /// It could not write where it may only read.
    pub fixed: bool,
    /// It could not write into its image.
    pub image_fixed: bool,
    /// As whom it ran.
    pub uid: Option<u32>,
    /// Which bounds held.
    pub limited: Limited,
}

impl Engine {
    /// Runs the trial; its container is gone afterwards.
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
        // Without control groups nothing with bounds starts, and the rest can still be tried.
        match self.run(&spec(bounds), watch) {
            Ok(said) => Ok(found(&said)),
            Err(Error::Refused { .. }) => self.run(&spec(Value::Null), watch).map(|said| found(&said)),
            Err(error) => Err(error),
        }
    }

    /// Removes containers of trials that were begun so long ago and do not run: whoever tried died meanwhile.
    pub(in crate::runtime::podman) fn clear_trials(&self, older: &str, watch: &dyn Watch) -> Result<(), Error> {
        let left = json!({ "label": [format!("{LABEL}={BY}")], "until": [older] }).to_string();
        let path = format!("/containers/prune?filters={}", quoted(&left));
        self.ask(&Call { method: "POST", path, body: Body::Nothing }, watch).map(drop)
    }

    /// Makes a container, waits for its end, and answers with what it printed.
    fn run(&self, spec: &Value, watch: &dyn Watch) -> Result<String, Error> {
        let post = |path: String, body: Body<'_>| self.ask(&Call { method: "POST", path, body }, watch);
        let made = post("/containers/create".to_owned(), Body::Json(spec))?;
        let id = made.get("Id").and_then(Value::as_str).ok_or_else(|| self.unclear("a container has no id"))?;
        let id = quoted(id);
        let ran = post(format!("/containers/{id}/start"), Body::Nothing)
            .and_then(|_| post(format!("/containers/{id}/wait?interval=20ms"), Body::Nothing))
            .and_then(|_| {
                let path = format!("/containers/{id}/logs?stdout=true");
                self.text(&Call { method: "GET", path, body: Body::Nothing }, watch)
            });
        let path = format!("/containers/{id}?force=true&timeout=0");
        let removed = self.text(&Call { method: "DELETE", path, body: Body::Nothing }, watch);
        let said = ran?;
        removed?;
        Ok(unframed(&said))
    }
}

/// Logs come in frames: eight bytes, of which the last four say how long the text is that follows.
fn unframed(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    let mut rest = bytes;
    while let Some((head, after)) = rest.split_at_checked(8) {
        let length = head.iter().skip(4).fold(0_usize, |length, byte| (length << 8) | usize::from(*byte));
        let Some((piece, next)) = after.split_at_checked(length) else { break };
        text.extend_from_slice(piece);
        rest = next;
    }
    String::from_utf8_lossy(&text).into_owned()
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
    fn what_a_container_printed_is_taken_out_of_its_frames() {
        let frame = |text: &str| [&[1, 0, 0, 0, 0, 0, 0, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        let said = unframed(&[frame("sees-host\nchanges\n"), frame("memory 67108864\npids max\nuid 1000\n")].concat());
        let tried = found(&said);
        assert_eq!(tried.limited, Limited { memory: true, pids: false });
        assert!(tried.shares && !tried.fixed && !tried.image_fixed && tried.uid == Some(1000), "{tried:?}");
        assert_eq!(unframed(&[1, 0, 0, 0, 0, 0, 0, 9, b'x']), "");
    }
}
