//! `.claude/settings.json`: default settings of the agent CLI.

use super::super::dir::Dir;
use super::super::error::Error;

/// Enables teams of subagents, reading `CLAUDE.md` of additional directories, and the CLI's memory.
///
/// Byte for byte the same as NanoClaw's file.
const SETTINGS: &str = r#"{
  "env": {
    "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS": "1",
    "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "0"
  }
}
"#;

/// Writes the file if the name is free. An existing file belongs to the agent or the operator.
pub(super) fn offer(claude: &Dir) -> Result<(), Error> {
    claude.write_new("settings.json", SETTINGS.as_bytes()).map(drop)
}
