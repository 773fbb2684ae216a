//! A stand-in for a network: a program that serves until its standard input ends, and its operations.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{Host, wait_for};
use crate::world::directory;

/// A stand-in that runs, and an installation. The program writes into its directory the files `port`, where its network is,
/// `control`, where its operations are, and `ready`.
pub(crate) struct StandIn {
    pub(crate) host: Host,
    server: Child,
    /// What runs it.
    words: Vec<String>,
    pub(crate) directory: tempfile::TempDir,
}

impl StandIn {
    /// Starts a script in Python with further words; the variable tells its other calls where the directory is.
    pub(crate) fn start(script: &str, variable: &str, words: &[&str]) -> Self {
        Self::begin(&["python3", script], Some(variable), words)
    }

    pub(crate) fn start_program(program: &Path) -> Self {
        Self::begin(&[program.to_str().unwrap()], None, &[])
    }

    fn begin(program: &[&str], variable: Option<&str>, words: &[&str]) -> Self {
        let mut host = Host::new();
        let directory = directory();
        // Bridges are confined, and their programs are copied to it.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(directory.path(), mode).unwrap();
        let here = directory.path().display().to_string();
        host.env.extend(variable.map(|variable| (variable.to_owned(), here.clone())));
        let words: Vec<String> = [program, &["serve", &here], words].concat().into_iter().map(str::to_owned).collect();
        let server = serve(&host, &words);
        let stand_in = Self { host, server, words, directory };
        stand_in.wait();
        stand_in
    }

    /// Kills the program and starts it again.
    pub(crate) fn restart(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
        std::fs::remove_file(self.path("ready")).unwrap();
        self.server = serve(&self.host, &self.words);
        self.wait();
    }

    fn wait(&self) {
        wait_for(&self.words.join(" "), || self.path("ready").exists().then_some(()));
    }

    /// A file that the program wrote.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The address of the network.
    pub(crate) fn server(&self) -> String {
        format!("http://127.0.0.1:{}", self.read("port"))
    }

    /// A reference to a secret that the script wrote.
    pub(crate) fn secret(&self, name: &str) -> String {
        format!("file:{}", self.path(name).display())
    }

    /// Does an operation and returns its result.
    pub(crate) fn operate(&self, asked: &Value) -> Value {
        let body = asked.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.read("control").parse().unwrap())).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        let head = "POST /control HTTP/1.0\r\nContent-Length";
        write!(stream, "{head}: {}\r\n\r\n{body}", body.len()).unwrap();
        // Some keep the connection for another request.
        let mut answer = BufReader::new(stream);
        let mut line = String::new();
        let (mut length, mut status) = (0, None);
        while answer.read_line(&mut line).unwrap() > 2 {
            let of_body = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
            length = of_body.map_or(length, |(_, length)| length.trim().parse().unwrap());
            status.get_or_insert_with(|| line.clone());
            line.clear();
        }
        let mut found = vec![0; length];
        answer.read_exact(&mut found).unwrap();
        let status = status.unwrap_or_default();
        assert!(status.contains(" 200 "), "{asked}: {status}{}", String::from_utf8_lossy(&found));
        serde_json::from_slice(&found).unwrap()
    }

    /// A named operation with what it needs.
    pub(crate) fn asks(&self, what: &str, with: Value) -> Value {
        let mut asked = with;
        asked["do"] = what.into();
        self.operate(&asked)
    }

    /// A copy of a bridge's program, so that a test kills no other's.
    pub(crate) fn program(&self, built: &Path) -> PathBuf {
        let program = self.path(built.file_name().unwrap().to_str().unwrap());
        std::fs::copy(built, &program).unwrap();
        program
    }
}

fn serve(host: &Host, words: &[String]) -> Child {
    host.bare(&words[0]).args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

impl Drop for StandIn {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        self.server.wait().unwrap();
    }
}
