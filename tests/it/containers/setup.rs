//! An installation whose agents run in containers. Its Podman can be cut off from it alone, and a fake Telegram shows
//! what people see.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::host::fake_api::FakeApi;
use crate::host::fake_telegram::{FakeTelegram, TOKEN};
use crate::host::telegram::typed;
use crate::host::{CHAT, Host, skipped, wait_for};

/// For operations that are slow by design, even on a busy machine.
pub(super) const LONG: Duration = Duration::from_secs(180);

/// The Podman for tests: its socket and the agents' image.
pub(super) fn podman() -> Option<(PathBuf, String)> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let found = variable("HEARTH_TEST_PODMAN").zip(variable("HEARTH_TEST_IMAGE"));
    let Some((socket, image)) = found.filter(|(_, image)| image.contains("hearth-agent")) else {
        skipped("there is no Podman with the agents' image; `.ci/podman.sh cargo test` makes one");
        return None;
    };
    Some((socket.into(), image))
}

/// A host, the servers it talks to, and its way to Podman.
pub(super) struct Setup {
    /// Dropped before the servers it talks to.
    pub(super) host: Host,
    pub(super) telegram: FakeTelegram,
    pub(super) api: FakeApi,
    pub(super) proxy: PodmanProxy,
    podman: PathBuf,
}

impl Setup {
    /// With an agent `main`, described by `agent`, for everyone in the chat `telegram/123`. The daemon does not run
    /// yet.
    pub(super) fn new(agent: &str) -> Option<Self> {
        let setup = Self::empty()?;
        let uid = rustix::process::geteuid().as_raw();
        setup.host.apply(&format!(
            "schema = 1\n[[agents]]\nfolder = \"main\"\ntrust = \"trusted\"\n{agent}\n[[users]]\nid = \"terminal:{uid}\"\nroles = [\"owner\"]\n\
             [channels.telegram]\ntoken = \"env:BOT_TOKEN\"\nbase_url = \"{}\"\n{CHAT}",
            setup.telegram.url()
        ));
        Some(setup)
    }

    /// With only the servers it is going to talk to.
    pub(super) fn empty() -> Option<Self> {
        let (podman, _) = podman()?;
        let mut host = Host::new();
        host.runtime = "podman";
        let proxy = PodmanProxy::open(&host.path("podman.sock"), &podman);
        for (name, value) in [
            ("CONTAINER_HOST", format!("unix://{}", host.path("podman.sock").display())),
            ("HEARTH_TEST_BACKOFF_MS", "300".to_owned()),
            ("HEARTH_TEST_WAIT_MS", "1000".to_owned()),
            ("BOT_TOKEN", TOKEN.to_owned()),
        ] {
            host.env.push((name.to_owned(), value));
        }
        Some(Self { host, telegram: FakeTelegram::start(), api: FakeApi::start(), proxy, podman })
    }

    /// With the agent CLI, whose API is the stand-in.
    pub(super) fn with_cli() -> Option<Self> {
        let mut setup = Self::new("")?;
        setup.configure("");
        setup.host.start();
        Some(setup)
    }

    /// Describes the agent: the CLI, and more lines of it. It reaches its model without the gateway, because these tests
    /// stop and kill the daemon while the model answers.
    pub(super) fn configure(&mut self, more: &str) {
        let port = self.api.port();
        self.host.apply(&format!(
            "schema = 1\n[[agents]]\nfolder = \"main\"\ntrust = \"trusted\"\n{more}\nprovider = \"claude\"\nnetwork = \"host\"\n\
             gateway = false\n\
             env = {{ ANTHROPIC_BASE_URL = \"http://host.containers.internal:{port}\", ANTHROPIC_API_KEY = \"sk-ant-test\", \
             CLAUDE_CODE_MAX_RETRIES = \"1\" }}\n"
        ));
    }

    /// Ann types something.
    pub(super) fn types(&self, id: i64, text: &str) {
        self.telegram.happens(typed(id, text));
    }

    pub(super) fn shown(&self) -> Vec<String> {
        self.telegram.shown(123)
    }

    /// Waits until Ann sees a text, and returns everything she sees.
    pub(super) fn wait_shown(&self, text: &str) -> Vec<String> {
        self.wait(text, || Some(self.shown()).filter(|shown| shown.iter().any(|one| one.contains(text))))
    }

    /// Waits for long. A failure shows everything that is known.
    pub(super) fn wait<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(
                begin.elapsed() < LONG,
                "{what}: waited in vain; shown {:?}; messages {:?}; incarnations {:#?}; containers {:?}; asked {}",
                self.shown(),
                self.host.states(),
                self.host.rows("incarnations"),
                self.containers(),
                self.api.requests().len()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Podman's own command, which bypasses the proxy.
    pub(super) fn podman(&self, arguments: &[&str]) -> String {
        let url = format!("unix://{}", self.podman.display());
        let output = Command::new("podman").args(["--url", &url]).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Ids of the containers of this host, running or not.
    pub(super) fn containers(&self) -> Vec<String> {
        let filter = format!("label=hearth.install={}", self.install());
        let listed = self.podman(&["ps", "--all", "--quiet", "--no-trunc", "--filter", &filter]);
        listed.lines().map(str::to_owned).collect()
    }

    /// Name of the installation.
    pub(super) fn install(&self) -> String {
        let rows = self.host.rows("meta");
        format!("{:016x}", rows[0]["value"]["install"].as_u64().unwrap())
    }

    /// The only container.
    pub(super) fn container(&self) -> String {
        self.wait("one container", || {
            let mut found = self.containers();
            (found.len() == 1).then(|| found.remove(0))
        })
    }

    /// Processes with this program name in the containers of this host.
    pub(super) fn processes(&self, program: &str) -> Vec<Pid> {
        let data = self.host.data();
        let place = data.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let here = |pid: &i32| {
            let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let command = read("cmdline");
            let first = command.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
            let first = String::from_utf8_lossy(&first).into_owned();
            first.rsplit('/').next() == Some(program) && String::from_utf8_lossy(&read("mountinfo")).contains(&place)
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let found = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(here);
        found.filter_map(Pid::from_raw).collect()
    }

    /// Kills such a process, which must exist.
    pub(super) fn kill_process(&self, program: &str) {
        let found = self.wait(program, || Some(self.processes(program)).filter(|found| !found.is_empty()));
        for pid in found {
            kill_process(pid, Signal::KILL).ok();
        }
    }

    /// A file of the agent's folder.
    pub(super) fn group(&self, name: &str) -> PathBuf {
        self.host.data().join("groups/main").join(name)
    }

    pub(super) fn session(&self) -> PathBuf {
        self.host.data().join("sessions/se1")
    }

    /// Sends the daemon a signal.
    pub(super) fn signal(&mut self, signal: Signal) {
        kill_process(self.host.daemon().unwrap().pid(), signal).unwrap();
    }

    /// Asks the daemon to stop. It must stop in order, and leave nothing behind.
    pub(super) fn stop(&mut self) {
        let ended = self.host.stop();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert_eq!(self.containers(), Vec::<String>::new(), "{}", ended.stderr);
    }

    /// Asserts that all outcomes are known, nothing is left to do, and the store is consistent.
    pub(super) fn settle(&self) {
        self.host.wait_settled();
        wait_for("everything to be delivered", || {
            let rows = self.host.rows("outbound");
            let done = |row: &Value| {
                let state = &row["value"]["state"];
                // No user is at the terminal.
                row["value"]["to"]["channel"] != "telegram"
                    || state.get("Delivered").is_some()
                    || state.to_string().contains("Abandoned")
            };
            rows.iter().all(done).then_some(())
        });
        self.host.check();
    }
}

/// Containers outlive the daemon, but not the test.
impl Drop for Setup {
    fn drop(&mut self) {
        self.api.open();
        if self.host.daemon().is_some() {
            self.host.kill();
        }
        // Nothing was started before there is a store.
        if !self.host.data().exists() {
            return;
        }
        for container in self.containers() {
            self.podman(&["rm", "--force", "--time", "0", &container]);
        }
    }
}

/// A proxy to Podman's socket that can be closed, even in the middle of a call.
pub(super) struct PodmanProxy {
    path: PathBuf,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    closed: AtomicBool,
    streams: Mutex<Vec<UnixStream>>,
}

impl PodmanProxy {
    fn open(path: &std::path::Path, podman: &std::path::Path) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let shared = Arc::new(Shared::default());
        let (serving, podman) = (Arc::clone(&shared), podman.to_owned());
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if serving.closed.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(far) = UnixStream::connect(&podman) else { continue };
                let copies = [near.try_clone(), far.try_clone()].map(Result::unwrap);
                serving.streams.lock().unwrap().extend(copies);
                let ends = (near.try_clone().unwrap(), far.try_clone().unwrap());
                std::thread::spawn(move || pass(ends.0, ends.1));
                std::thread::spawn(move || pass(far, near));
            }
        });
        Self { path: path.to_owned(), shared }
    }

    /// New connections are refused, and unfinished ones are cut off.
    pub(super) fn close(&self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        std::fs::rename(&self.path, self.path.with_extension("away")).unwrap();
        for stream in self.shared.streams.lock().unwrap().drain(..) {
            // Most of them have ended long ago.
            stream.shutdown(Shutdown::Both).ok();
        }
    }

    pub(super) fn reopen(&self) {
        self.shared.closed.store(false, Ordering::SeqCst);
        std::fs::rename(self.path.with_extension("away"), &self.path).unwrap();
    }
}

fn pass(mut from: UnixStream, mut to: UnixStream) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    from.shutdown(Shutdown::Read).ok();
    to.shutdown(Shutdown::Write).ok();
}
