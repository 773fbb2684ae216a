//! What a tool does to the world outside the agent's folder, for presets.

use crate::call::Call;
use crate::shell;

/// What a call does, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// It stays in the agent's folder and in the conversation, or the host asks about it anyway.
    Inside,
    /// It reads outside the agent's folder, or searches.
    Reads,
    /// A shell command that does not show that it reaches anything outside.
    Shell,
    /// It writes or deletes outside the agent's folder.
    Writes,
    /// It sends a message or a request to others than the conversation.
    Sends,
    Unknown,
}

/// Prefixes of the names of Hearth's own tools, in the forms in which providers name them.
const OWN: [&str; 4] = ["mcp__nanoclaw__", "nanoclaw__", "nanoclaw_", "nanoclaw-"];
/// Hearth's own tools that say something, to the conversation or to others.
const SAYING: [&str; 2] = ["send_message", "send_file"];
/// Tools that read files.
const READERS: [&str; 12] = [
    "Read",
    "Grep",
    "Glob",
    "LS",
    "NotebookRead",
    "read",
    "read_file",
    "grep",
    "glob",
    "list",
    "list_directory",
    "search",
];
/// Tools that change files.
const WRITERS: [&str; 10] =
    ["Write", "Edit", "MultiEdit", "NotebookEdit", "write", "edit", "write_file", "patch", "apply_patch", "multiedit"];
/// Tools that only organise the agent's work.
const INWARD: [&str; 25] = [
    "TodoWrite",
    "TodoRead",
    "Task",
    "Agent",
    "BashOutput",
    "TaskOutput",
    "KillShell",
    "KillBash",
    "TaskStop",
    "TaskCreate",
    "TaskUpdate",
    "TaskGet",
    "TaskList",
    "Skill",
    "ToolSearch",
    "StructuredOutput",
    "SlashCommand",
    "ListMcpResourcesTool",
    "LSP",
    "todowrite",
    "todoread",
    "task",
    "skill",
    "think",
    "update_plan",
];

/// What a call does, as far as its name and its input show.
pub(crate) fn of(call: &Call<'_>) -> Effect {
    if let Some(own) = OWN.iter().find_map(|prefix| call.tool.strip_prefix(prefix)) {
        return of_own(own, call);
    }
    if call.tool.starts_with("mcp__") {
        return Effect::Unknown;
    }
    if let Some(command) = call.command() {
        return shell::effect(&command, call.place);
    }
    match call.tool {
        tool if INWARD.contains(&tool) => Effect::Inside,
        tool if READERS.contains(&tool) => of_files(call, Effect::Reads),
        tool if WRITERS.contains(&tool) => of_changes(call),
        "WebFetch" | "webfetch" | "web_fetch" => Effect::Sends,
        "WebSearch" | "websearch" | "web_search" => Effect::Reads,
        _ => of_kind(call),
    }
}

/// Of a tool with an unknown name, by what its program says about it.
fn of_kind(call: &Call<'_>) -> Effect {
    match call.kind {
        "read" | "search" => of_files(call, Effect::Reads),
        "edit" | "delete" | "move" => of_changes(call),
        "fetch" => Effect::Sends,
        "think" => Effect::Inside,
        _ => Effect::Unknown,
    }
}

fn of_own(tool: &str, call: &Call<'_>) -> Effect {
    let is_own = |name: &String| call.place.conversation.contains(name);
    match call.field("to").filter(|to| !to.is_empty()) {
        Some(to) if SAYING.contains(&tool) && !is_own(&to) => Effect::Sends,
        _ => Effect::Inside,
    }
}

/// Without a path, a tool works in the agent's folder.
fn of_files(call: &Call<'_>, outside: Effect) -> Effect {
    let holds = |path: &String| call.place.holds("/", path);
    if call.paths().iter().all(holds) { Effect::Inside } else { outside }
}

/// A change whose path is not known may be anywhere.
fn of_changes(call: &Call<'_>) -> Effect {
    if call.paths().is_empty() { Effect::Writes } else { of_files(call, Effect::Writes) }
}
