//! The provider `openai`: with the real server of llama.cpp, whose model calls a tool and then says `done`, and with a slow
//! stand-in.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::host::confined::possible;
use crate::host::fake_llm::FakeLlm;
use crate::host::pty::Pty;
use crate::host::{CHAT, Host, skipped};
use crate::world::directory;

struct Server {
    process: Child,
    address: String,
    _directory: tempfile::TempDir,
}

/// The port at which people usually have it.
const USUAL_PORT: u16 = 8080;

impl Server {
    /// None if the server is not installed here, or the port is taken; 0 is any port.
    fn start(port: u16) -> Option<Self> {
        let installed = concat!(env!("CARGO_MANIFEST_DIR"), "/target/llama");
        if !Path::new(installed).join("xllamacpp").is_dir() {
            skipped(format_args!("no llama.cpp at {installed}; .ci/llama.sh installs it"));
            return None;
        }
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_err() {
            skipped(format_args!("another program listens on port {port}"));
            return None;
        }
        let directory = directory();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/llama.py");
        let mut process = crate::host::python()
            .arg(script)
            .arg(directory.path().join("model.gguf"))
            .arg(port.to_string())
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
    let Some(server) = Server::start(0) else { return };
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
    let said = host.wait_said(8);
    assert!(said[4].starts_with("Context compacted: "), "{said:?}");
    assert_eq!(said[6..], ["from llama.cpp", "done"], "after a notice about the one that failed");
    host.stop();
    host.check();
}

/// A person who has it running is offered it, and types three answers: its only model needs no question.
#[test]
fn setup_finds_a_server_on_this_machine() {
    let Some(_server) = Server::start(USUAL_PORT) else { return };
    let mut host = Host::before_the_first_start();
    host.env.push(("TERM".into(), "xterm".into()));
    let options =
        ["setup", "--provider", "openai", "--runtime", "process", "--unconfined", "--no-service", "--no-telegram"];
    let mut at = Pty::start(host.command(&options));
    at.wait("llama.cpp answers at http://127.0.0.1:8080/v1, with: ");
    at.answer("(Enter for http://127.0.0.1:8080/v1): ", "");
    at.wait("the only model of this server");
    at.answer("List them? [Y/n]: ", "");
    at.answer("Write to your agent", "hello");
    at.wait("main: done");
    let (ended, shown) = at.end();
    assert!(ended.success() && shown.contains("from llama.cpp"), "{shown}");
    host.check();
}

/// What the model writes is shown as it comes.
#[test]
fn a_terminal_shows_what_the_model_writes() {
    let model = FakeLlm::start();
    let mut host = Host::new();
    host.env.push(("TERM".into(), "xterm".into()));
    let uid = rustix::process::geteuid().as_raw();
    host.apply(&format!(
        "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"openai\"\nmodel = \"fake-1\"\nunconfined = true\n\
         env = {{ OPENAI_BASE_URL = \"http://127.0.0.1:{}/v1\", OPENAI_API_KEY = \"none\" }}\n\
         [[users]]\nid = \"terminal:{uid}\"\nroles = [\"owner\"]\n{CHAT}",
        model.port
    ));
    host.start();
    let prompt = "\n@@say It is raining now, and soon it will stop.\n@@drip 6\n";
    let mut at = Pty::start(host.command(&["chat", prompt]));
    at.wait("main is writing, ");
    at.wait(" s: It is raining");
    at.wait("It is raining now, and soon it will stop.\n");
    let (ended, shown) = at.end();
    assert!(ended.success() && shown.matches("stop.\n").count() == 1, "{shown}");
}
