//! Builds the CLI's command line and environment, for the same behavior at every start.

use std::collections::BTreeMap;
use std::io;

use hearth_presets::CLAUDE_VARIABLES;
use hearth_wire::{Context, McpServer};
use serde_json::{Map, Value, json};

use super::control::SERVER;
use super::hooks::NEVER;
use crate::child::{Launch, environment};
use crate::env::ROOTS_VARIABLE;
use crate::roots::Roots;
use crate::{ids, log};

/// Further variables that make the CLI predictable. Those of the agent's configuration have precedence.
const QUIET: [(&str, &str); 2] =
    [("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "1"), ("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "165000")];
/// The variable without which the CLI refuses to work unattended as root, which an agent without user namespaces may be.
const FOR_ROOT: &str = "IS_SANDBOX";

/// The directory of the CLI's settings and transcripts, and of `.claude.json`, which is otherwise in the home.
const CONFIG_DIR: &str = "CLAUDE_CONFIG_DIR";

/// The conversation of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Conversation {
    /// Started by an earlier process.
    Resumed(String),
    /// Started by this one.
    New(String),
}

impl Conversation {
    /// Resumes `known`, or starts a conversation with an id chosen here, so that the agent's tools know the id from the
    /// start. A text that is not a valid id was not written by this provider. It is not passed to the CLI, which would
    /// search for a conversation with that title, or could not start.
    pub(crate) fn choose(known: Option<String>) -> io::Result<Self> {
        match known {
            Some(id) if is_id(&id) => Ok(Self::Resumed(id)),
            Some(id) if !id.is_empty() => {
                log::note("what was remembered of the conversation is not the id of one; a new one begins");
                ids::random().map(Self::New)
            }
            _ => ids::random().map(Self::New),
        }
    }

    fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Resumed(id) => ("--resume", id),
            Self::New(id) => ("--session-id", id),
        }
    }
}

/// The parameters without the conversation. The process is kept as long as they stay the same.
pub(crate) fn base(context: &Context, roots: &Roots, inherited: &dyn Fn(&str) -> bool) -> Launch {
    let provider = &context.provider;
    let mut argv = provider.command.clone();
    if argv.is_empty() {
        argv.push("claude".to_owned());
    }
    let fixed = "-p --input-format stream-json --output-format stream-json --verbose \
                 --include-partial-messages --permission-mode bypassPermissions --allow-dangerously-skip-permissions --setting-sources=project,user";
    argv.extend(fixed.split_whitespace().map(str::to_owned));
    let blocked = NEVER.into_iter().chain(context.blocked_tools.iter().map(String::as_str));
    argv.push(format!("--disallowedTools={}", blocked.collect::<Vec<_>>().join(",")));
    argv.extend(provider.model.iter().map(|model| format!("--model={model}")));
    argv.extend(provider.effort.iter().map(|effort| format!("--effort={effort}")));
    argv.extend(roots.additional_dirs().iter().map(|dir| format!("--add-dir={}", dir.display())));
    let mut env = environment(context, roots);
    if !context.mcp_servers.is_empty() {
        argv.push(format!("--mcp-config={}", servers(&context.mcp_servers)));
    }
    let is_root = rustix::process::geteuid().is_root();
    let quiet = CLAUDE_VARIABLES.into_iter().filter(|(name, _)| *name != FOR_ROOT || is_root).chain(QUIET);
    let quiet = quiet.filter(|(name, _)| !inherited(name));
    env.extend(quiet.map(|(name, value)| (name, value.to_owned())));
    if let Some(tmp) = &roots.tmp {
        // The CLI does not use TMPDIR for its own files.
        env.push(("CLAUDE_CODE_TMPDIR", tmp.to_string_lossy().into_owned()));
    }
    if !inherited(ROOTS_VARIABLE) && !inherited(CONFIG_DIR) {
        // In a container only this directory of the home lasts.
        env.push((CONFIG_DIR, roots.home.join(".claude").to_string_lossy().into_owned()));
    }
    // Set if such a CLI started the daemon. The agent's CLI would consider itself part of that one.
    Launch { argv, env, without: vec!["CLAUDECODE", "NODE_OPTIONS"] }
}

/// The MCP servers in the CLI's format. The CLI substitutes `${NAME}` from its own environment, so that no secret is
/// among its arguments. Other values must not look like that.
fn servers(servers: &[McpServer]) -> Value {
    let mut all = Map::new();
    for McpServer { name, command, args, env, secret_env } in servers {
        if name == SERVER {
            log::note(format_args!(
                "the server of tools {name} is not started: its name is that of Hearth's own tools"
            ));
            continue;
        }
        let secrets = secret_env.iter().map(|(name, variable)| (name.clone(), format!("${{{variable}}}")));
        let env: BTreeMap<String, String> = env.clone().into_iter().chain(secrets).collect();
        all.insert(name.clone(), json!({"type": "stdio", "command": command, "args": args, "env": env}));
    }
    json!({ "mcpServers": all })
}

/// The parameters with the conversation.
pub(crate) fn with_conversation(base: &Launch, conversation: &Conversation) -> Launch {
    let (flag, id) = conversation.parts();
    let mut launch = base.clone();
    launch.argv.push(format!("{flag}={id}"));
    launch.env.push(("CLAUDE_SESSION_ID", id.to_owned()));
    launch
}

/// Whether a text has the form of a UUID.
fn is_id(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_form_the_cli_accepts() {
        let id = ids::random().unwrap();
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
        assert_eq!(&id[14..15], "4", "{id}");
        assert!("89ab".contains(&id[19..20]), "{id}");
        assert_ne!(id, ids::random().unwrap());
    }

    /// Of the home in a container, only `.claude` lasts. Elsewhere, the whole home does.
    #[test]
    fn the_state_of_the_cli_outlives_a_container() {
        let context = serde_json::from_str(include_str!("../../../../wire/fixtures/context.json")).unwrap();
        let place = |set: &'static str| {
            let launch = base(&context, &Roots::default(), &|name| name == set);
            launch.env.into_iter().find(|(name, _)| *name == CONFIG_DIR).map(|(_, place)| place)
        };
        assert_eq!(place("").as_deref(), Some("/home/node/.claude"));
        assert_eq!((place(ROOTS_VARIABLE), place(CONFIG_DIR)), (None, None));
    }

    #[test]
    fn what_is_no_id_is_not_gone_on_with() {
        let long = "z".repeat(1 << 20);
        for known in ["", "a", "--help", "\0", "../../x", "00000000-0000-4000-8000-00000000000g", &long] {
            assert!(matches!(Conversation::choose(Some(known.to_owned())), Ok(Conversation::New(_))), "{known}");
        }
        let id = ids::random().unwrap();
        assert_eq!(Conversation::choose(Some(id.clone())).unwrap(), Conversation::Resumed(id));
    }
}
