//! Attacks by leftovers of an ended agent: processes, descriptors in transit, shared memory. Each is tried in a
//! separate run, and checked from outside or by the next run.

use std::time::Duration;

use super::{Error, Found, note};
use crate::model::entity::Network;
use crate::runtime::Spec;
use crate::runtime::process::isolation_check::{self, Attempt, Outcome, Who};
use crate::runtime::single_run::Place;

/// Leaves the session and the process group, forks twice, closes all descriptors, and continues for some seconds.
const ESCAPE: &str = r#"
setsid sh -c '
  exec 0<&- 1>&- 2>&- 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
  (i=0; while [ $i -lt 400 ]; do i=$((i + 1)); echo $i > "$1"; sleep 0.02; done) &
' sh "$1" &
while [ ! -s "$1" ]; do sleep 0.02; done
"#;

/// Puts every inherited descriptor in flight through a socket that only a process outside the group knows.
const IN_FLIGHT: &str = r#"
import array, os, socket, time
ends = []
for fd in [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2]:
    try:
        os.fstat(fd)
    except OSError:
        continue
    ends.append(socket.socketpair())
    ends[-1][0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    os.close(fd)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3):
            os.close(fd)
        time.sleep(20)
    os._exit(0)
print("under way")
"#;

/// Creates a System V shared memory segment for all users, or reports why it cannot.
const SHARE: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
made = libc.shmget(int(sys.argv[1]), 4096, 0o1666)
print("made" if made >= 0 else os.strerror(ctypes.get_errno()))
"#;

/// Searches for the segment and removes it.
const FIND: &str = r#"
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
found = libc.shmget(int(sys.argv[1]), 4096, 0)
if found >= 0:
    libc.shmctl(found, 0, None)
print("found" if found >= 0 else "nothing")
"#;

/// Address at which slirp4netns exposes the machine's loopback to a container that may reach it.
const SLIRP_HOST: &str = "10.0.2.2";
/// Time in which a surviving process must show activity.
const LOOK: Duration = Duration::from_millis(500);

/// Numbered runs of the hostile agent.
pub(super) struct Runs<'a> {
    pub(super) place: &'a Place,
    pub(super) spec: Spec,
}

impl Runs<'_> {
    fn run(&mut self, attempt: Attempt) -> Result<Outcome, String> {
        self.spec.incarnation += 1;
        let outcomes = isolation_check::attempt(self.place, self.spec.clone(), &[attempt], Who::Itself)?;
        outcomes.into_iter().next().ok_or_else(|| "there is no outcome".to_owned())
    }

    /// Checks whether a process that the agent started survives the agent's end.
    pub(super) fn escape(&mut self, found: &mut Found) -> Result<(), Error> {
        let beat = self.spec.session_dir.join("agent/beat");
        let seen = self.place.seen(&self.spec, "agent/beat");
        let words = ["sh", "-c", ESCAPE, "sh", &seen.to_string_lossy()].map(str::to_owned).to_vec();
        let tried = self.run(Attempt::Run(words)).map_err(Error::Trial)?;
        if !tried.done {
            return Ok(());
        }
        let before = std::fs::read(&beat)?;
        std::thread::sleep(LOOK);
        let ended = std::fs::read(&beat)? == before;
        let result = if ended { Ok("its processes ended with it".to_owned()) } else { Err("it goes on".to_owned()) };
        note(found, "outlive", result);
        Ok(())
    }

    /// Checks whether the session can start again while a descriptor of the previous run is in transit.
    pub(super) fn in_flight(&mut self, found: &mut Found) -> Result<(), Error> {
        let tried = self.run(python(IN_FLIGHT, &[])).map_err(Error::Trial)?;
        if tried.detail != "under way" {
            return Ok(());
        }
        let next = self.run(Attempt::Rights).map(|_| "the next run started".to_owned());
        note(found, "lock-in-flight", next);
        Ok(())
    }

    /// Checks whether shared memory of one run is visible to the next one.
    pub(super) fn shared_memory(&mut self, found: &mut Found) -> Result<(), Error> {
        let key = (0x4854_0000 | (std::process::id() & 0xffff)).to_string();
        let made = self.run(python(SHARE, &[&key])).map_err(Error::Trial)?;
        let looked = self.run(python(FIND, &[&key])).map_err(Error::Trial)?;
        if made.done && looked.done {
            let detail = format!("one run: {}, the next: {}", made.detail, looked.detail);
            note(found, "shared-memory", if looked.detail == "nothing" { Ok(detail) } else { Err(detail) });
        }
        Ok(())
    }

    /// Checks whether `network = "none"` leaves anything reachable, including this machine.
    pub(super) fn network(&mut self, found: &mut Found) -> Result<(), Error> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let here = listener.local_addr()?.to_string();
        self.spec.settings.network = Network::None;
        for address in [here.as_str(), "10.88.0.1:9", "192.0.2.1:9"] {
            let outcome = self.run(Attempt::Connect(address.to_owned())).map_err(Error::Trial)?;
            let away = outcome.forbidden || outcome.detail.contains("unreachable");
            let refused = address == here && outcome.detail.contains("refused");
            let detail = format!("Connect({address}): {}", outcome.detail);
            note(found, "network-none", if away || refused { Ok(detail) } else { Err(detail) });
        }
        self.spec.settings.network = Network::Open;
        Ok(())
    }

    /// Tries to reach the loopback address of this machine from a container with `network = "open"`. A listener there
    /// must be reachable only if the agent's settings allow it. Without a container network, this finds nothing.
    pub(super) fn loopback(&mut self, found: &mut Found) -> Result<(), Error> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let here = format!("{SLIRP_HOST}:{}", listener.local_addr()?.port());
        self.spec.settings.network = Network::Open;
        let connect = |runs: &mut Self, allowed| {
            runs.spec.settings.allow_host_loopback = allowed;
            runs.run(Attempt::Connect(here.clone()))
        };
        match connect(self, true) {
            Ok(outcome) if outcome.done => {
                let outcome = connect(self, false).map_err(Error::Trial)?;
                let detail = format!("Connect({here}): {}", outcome.detail);
                note(found, "network-loopback", if outcome.done { Err(detail) } else { Ok(detail) });
            }
            // The attempt proves nothing if it fails even with the permission.
            Ok(outcome) => tracing::debug!(outcome.detail, "a container does not reach this machine"),
            Err(reason) => tracing::debug!(reason, "a container with a network does not start"),
        }
        self.spec.settings.allow_host_loopback = false;
        self.spec.settings.network = Network::None;
        Ok(())
    }
}

/// A Python script, with arguments.
pub(super) fn python(script: &str, arguments: &[&str]) -> Attempt {
    let words = ["python3", "-c", script].into_iter().chain(arguments.iter().copied());
    Attempt::Run(words.map(str::to_owned).collect())
}
