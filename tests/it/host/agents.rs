//! Agents of a daemon: the real CLI, its tool calls, and the processes of runners.

use std::path::PathBuf;

use serde_json::Value;

use super::fake_api::FakeApi;
use super::{CHAT, Ended, Host, Running, skipped};

/// A program that behaves like agents with the Agent Client Protocol.
pub(crate) const ACP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/container/agent-runner/tests/process/acp_agent.py");

/// The real CLI; none if it is not installed here.
pub(crate) fn cli() -> Option<PathBuf> {
    let installed = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/target/agent-cli/node_modules/@anthropic-ai/claude-code-linux-x64/claude"
    );
    let binary = std::env::var_os("HEARTH_TEST_CLAUDE").map_or_else(|| PathBuf::from(installed), PathBuf::from);
    if let Ok(real) = binary.canonicalize() {
        return Some(real);
    }
    skipped(format_args!("no agent CLI at {}; .ci/agent-cli.sh installs it", binary.display()));
    None
}

/// A host whose agent is the CLI, and whose owner is at the terminal of this machine.
pub(crate) fn with_cli() -> Option<(Host, FakeApi)> {
    let cli = cli()?;
    let api = FakeApi::start();
    let mut host = Host::new();
    let uid = rustix::process::geteuid().as_raw();
    host.apply(&format!(
        "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"claude\"\ncommand = [{:?}]\nunconfined = true\n\
         env = {{ ANTHROPIC_BASE_URL = {:?}, ANTHROPIC_API_KEY = \"sk-ant-test\", CLAUDE_CODE_MAX_RETRIES = \"1\" }}\n\
         [[users]]\nid = \"terminal:{uid}\"\nroles = [\"owner\"]\n{CHAT}",
        cli.display(),
        api.url()
    ));
    host.start();
    Some((host, api))
}

/// The directive with which the fake API calls one of Hearth's tools.
pub(crate) fn call(tool: &str, arguments: &Value) -> String {
    format!("[[tool mcp__nanoclaw__{tool} {arguments}]]")
}

/// The tools' results in the model's last conversation, in order, and whether each was an error.
pub(crate) fn results(api: &FakeApi) -> Vec<(String, bool)> {
    let last = api.requests().pop().unwrap_or_default();
    let blocks = last["messages"].as_array().into_iter().flatten().filter_map(|message| message["content"].as_array());
    let results = blocks.flatten().filter(|block| block["type"] == "tool_result");
    let text = |block: &Value| match &block["content"] {
        Value::String(text) => text.clone(),
        parts => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    results.map(|block| (text(block), block["is_error"] == true)).collect()
}

pub(crate) fn done(text: &str) -> (String, bool) {
    (text.to_owned(), false)
}

/// A search. Its words come last, so it cannot have the data directory after them.
pub(crate) fn searched(host: &Host, query: &str) -> Ended {
    let mut command = host.bare(env!("CARGO_BIN_EXE_hearth"));
    command.arg("--data").arg(host.data()).args(["search", query]);
    Running::start(command, b"").end()
}

pub(crate) fn json_of(host: &Host, arguments: &[&str]) -> Value {
    serde_json::from_str(&host.done(arguments, b"")).unwrap()
}

/// Runner processes of this data directory.
pub(crate) fn runners(host: &Host) -> Vec<u32> {
    let data = host.data().display().to_string();
    let of_this = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let text = String::from_utf8_lossy(&environment).into_owned();
        text.contains("HEARTH_INCARNATION=") && text.contains(&data)
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(of_this).collect()
}
