//! The provider `openai` with the real server of llama.cpp, whose model calls a tool and then says `done`.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::host::confined::possible;
use crate::host::{CHAT, Host, skipped};

struct Server {
    process: Child,
    address: String,
    _directory: tempfile::TempDir,
}

impl Server {
    /// None if the server is not installed here.
    fn start() -> Option<Self> {
        let installed = concat!(env!("CARGO_MANIFEST_DIR"), "/target/llama");
        if !Path::new(installed).join("xllamacpp").is_dir() {
            skipped(format_args!("no llama.cpp at {installed}; .ci/llama.sh installs it"));
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/llama.py");
        let mut process = Command::new("python3")
            .arg(script)
            .arg(directory.path().join("model.gguf"))
            .arg("0")
            .env("PYTHONPATH", installed)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.into_iter().find(|line| line.starts_with("http://")).expect("the server listens");
        Some(Self { process, address, _directory: directory })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

#[test]
fn an_agent_of_a_real_server_uses_tools_and_goes_on_after_a_kill() {
    let Some(server) = Server::start() else { return };
    let mut host = Host::new();
    let unconfined = if possible() { "network = \"none\"" } else { "unconfined = true" };
    host.apply(&format!(
        "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"openai\"\nmodel = \"tiny\"\ntrust = \"main\"\n{unconfined}\n\
         env = {{ OPENAI_BASE_URL = \"{}/v1\", OPENAI_API_KEY = \"none\" }}\n{CHAT}",
        server.address
    ));
    host.start();
    host.inject("m1", "hello");
    assert_eq!(host.wait_said(2), ["from llama.cpp", "done"]);
    host.wait_settled();
    host.kill();
    host.start();
    host.inject("m2", "and again");
    assert_eq!(host.wait_said(4)[2..], ["from llama.cpp", "done"]);
    host.wait_settled();

    // A model of this machine costs nothing.
    let spend: Value = serde_json::from_str(&host.done(&["spend", "--by", "model", "--json"], b"")).unwrap();
    let row = &spend["spend"][0];
    assert!(row["input_tokens"].as_u64().unwrap() > 100 && row["output_tokens"].as_u64().unwrap() >= 4, "{spend}");
    assert_eq!((&row["cost_micros"], &row["unpriced_micros"]), (&json!(0), &json!(0)), "{spend}");

    // More than the server's context: the history goes, and then the message fails with the server's reason.
    host.inject("m3", &"x".repeat(20_000));
    host.wait_settled();
    let failed = host.states().pop().unwrap()["Failed"]["error"].to_string();
    assert!(failed.contains("context"), "{failed}");
    host.inject("m4", "still there?");
    assert_eq!(host.wait_said(7)[5..], ["from llama.cpp", "done"], "after a notice about the one that failed");
    host.stop();
    host.check();
}
