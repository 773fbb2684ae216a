//! `.claude/settings.json`: how the agent CLI behaves, unless somebody decided otherwise.

use super::super::dir::Dir;
use super::super::error::Error;

/// Subagents may work in teams, `CLAUDE.md` of further directories is read, and the CLI keeps memories.
///
/// NanoClaw's file, byte for byte.
const SETTINGS: &str = r#"{
  "env": {
    "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS": "1",
    "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "0"
  }
}
"#;

/// Writes the file if there is nothing under its name: whatever is there is the agent's or the operator's.
pub(super) fn offer(claude: &Dir) -> Result<(), Error> {
    claude.write_new("settings.json", SETTINGS.as_bytes()).map(drop)
}
