//! The real program, as a daemon.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hearth::config::Paths;
use hearth::socket::client::Client;
use hearth::socket::protocol::{Request, Response};

/// A daemon over a data directory; killed when it is dropped.
pub(crate) struct Daemon {
    pub(crate) child: Child,
    paths: Paths,
}

impl Daemon {
    /// With these arguments besides.
    pub(crate) fn start(data: &Path, more: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_hearth"))
            .args(["run", "--data"])
            .arg(data)
            .args(more)
            .env_remove("XDG_RUNTIME_DIR")
            .env("HEARTH_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, paths: Paths::find(Some(data)).unwrap() }
    }

    /// Waits until it answers.
    pub(crate) fn connect(&self) -> Client {
        let begin = Instant::now();
        loop {
            if let Ok(client) = Client::connect(&self.paths) {
                return client;
            }
            assert!(begin.elapsed() < Duration::from_secs(30), "the daemon does not answer");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Attaches a terminal to an agent, the only one unless it is named.
    pub(crate) fn attached(&self, agent: Option<&str>) -> Client {
        let mut client = self.connect();
        let answer = client.ask(&Request::Attach { agent: agent.map(str::to_owned), tools: false, writing: false });
        assert!(matches!(answer, Ok(Response::Attached { .. })), "{answer:?}");
        client
    }

    /// Asks it to end, and waits until it has, with what it started.
    pub(crate) fn stop(mut self) {
        let mut kill = Command::new("kill").arg(self.child.id().to_string()).spawn().unwrap();
        assert!(kill.wait().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A process and its descendants.
pub(crate) fn family(process: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let children = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    let children: Vec<u32> = children
        .flat_map(|children| children.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>())
        .collect();
    std::iter::once(process).chain(children.into_iter().flat_map(family)).collect()
}

/// Memory in kB that a process shares with no file. None if it has ended.
pub(crate) fn memory(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let field = |name: &str| -> Option<u64> {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    Some(field("RssAnon:")? + field("RssShmem:")?)
}
