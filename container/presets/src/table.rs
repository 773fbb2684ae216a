//! The known agents, as they were recorded at these versions.

use super::{Config, ConfigPlace, Counting, KnownAgent, ModelVariables, Package, Permitting, Trial};

pub(super) static OPENCODE: KnownAgent = KnownAgent {
    name: "opencode",
    title: "OpenCode",
    handshake: "OpenCode",
    command: &["opencode", "acp"],
    package: Package::Npm { name: "opencode-ai", version: "1.18.33", node: None },
    env: &[
        ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
    ],
    model: ModelVariables {
        base_url: "OPENAI_BASE_URL",
        key: "OPENAI_API_KEY",
        server_env: &[],
        name: None,
        own: "hearth/$MODEL",
        keeps_server: false,
        config: Some(Config {
            place: ConfigPlace::Variable("OPENCODE_CONFIG_CONTENT"),
            others: &["OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT"],
            // Without the timeout it waits a minute for a tool, which is too short for a question to a person.
            always: r#"{"autoupdate": false, "share": "disabled", "experimental": {"mcp_timeout": 3600000}}"#,
            model: r#"{"model": "$MODEL", "small_model": "$MODEL"}"#,
            server: r#"{"model": "hearth/$MODEL", "small_model": "hearth/$MODEL", "enabled_providers": ["hearth"],
                "provider": {"hearth": {"npm": "@ai-sdk/openai-compatible",
                    "options": {"baseURL": "$BASE_URL", "apiKey": "{env:OPENAI_API_KEY}"},
                    "models": {"$MODEL": {"limit": {"context": 128000, "output": 8192}}}}}}"#,
        }),
        chooses: true,
    },
    permissions: Permitting { allow: None, ask: None, ask_env: &[("OPENCODE_PERMISSION", r#"{"*": "ask"}"#)] },
    sessions: ".local/share/opencode",
    counting: Counting::LastCall,
    instructions: Some("AGENTS.md"),
    trial: Trial::Hearth,
};

pub(super) static GEMINI: KnownAgent = KnownAgent {
    name: "gemini",
    title: "Gemini CLI",
    handshake: "gemini-cli",
    command: &["gemini", "--acp"],
    package: Package::Npm { name: "@google/gemini-cli", version: "0.61.0", node: Some(20) },
    // Otherwise it runs as two processes, of which the second outlives the first, and starts no servers of tools.
    env: &[("GEMINI_CLI_NO_RELAUNCH", "true"), ("GEMINI_CLI_TRUST_WORKSPACE", "true")],
    model: ModelVariables {
        base_url: "GOOGLE_GEMINI_BASE_URL",
        key: "GEMINI_API_KEY",
        server_env: &[],
        name: Some("GEMINI_MODEL"),
        own: "$MODEL",
        keeps_server: false,
        config: None,
        chooses: false,
    },
    permissions: Permitting { allow: Some("yolo"), ask: Some("default"), ask_env: &[] },
    sessions: ".gemini",
    counting: Counting::Turn,
    instructions: Some("GEMINI.md"),
    trial: Trial::Hearth,
};

pub(super) static CODEX: KnownAgent = KnownAgent {
    name: "codex",
    title: "Codex",
    handshake: "@agentclientprotocol/codex-acp",
    command: &["codex-acp"],
    package: Package::Npm { name: "@agentclientprotocol/codex-acp", version: "2.6.0", node: Some(20) },
    env: &[("NO_BROWSER", "1")],
    model: ModelVariables {
        base_url: "OPENAI_BASE_URL",
        key: "OPENAI_API_KEY",
        server_env: &[],
        name: None,
        own: "$MODEL",
        keeps_server: false,
        config: Some(Config {
            place: ConfigPlace::Variable("CODEX_CONFIG"),
            others: &["CODEX_CONFIG"],
            always: "{}",
            model: r#"{"model": "$MODEL"}"#,
            server: r#"{"model_provider": "hearth", "model_providers": {"hearth": {"name": "hearth",
                "base_url": "$BASE_URL", "env_key": "OPENAI_API_KEY", "wire_api": "responses"}}}"#,
        }),
        chooses: false,
    },
    permissions: Permitting { allow: Some("agent-full-access"), ask: Some("workspace-write"), ask_env: &[] },
    sessions: ".codex",
    counting: Counting::Turn,
    instructions: Some("AGENTS.md"),
    trial: Trial::Hearth,
};

/// Variables that make the Claude CLI predictable, for every provider that starts it. Those of the agent's configuration
/// have precedence.
pub const CLAUDE_VARIABLES: [(&str, &str); 8] = [
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("DISABLE_TELEMETRY", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("DISABLE_ERROR_REPORTING", "1"),
    // Even a rejected login is retried, by default for minutes.
    ("CLAUDE_CODE_MAX_RETRIES", "4"),
    // A request without an answer times out before the host considers the agent stuck.
    ("API_TIMEOUT_MS", "300000"),
    // Schemas of MCP tools are sent at once instead of on search.
    ("ENABLE_TOOL_SEARCH", "false"),
    // As root it has no mode without questions otherwise.
    ("IS_SANDBOX", "1"),
];

pub(super) static CLAUDE_ACP: KnownAgent = KnownAgent {
    name: "claude-acp",
    title: "Claude Agent",
    handshake: "@agentclientprotocol/claude-agent-acp",
    command: &["claude-agent-acp"],
    package: Package::Npm { name: "@agentclientprotocol/claude-agent-acp", version: "0.101.0", node: Some(22) },
    env: &CLAUDE_VARIABLES,
    model: ModelVariables {
        base_url: "ANTHROPIC_BASE_URL",
        key: "ANTHROPIC_API_KEY",
        server_env: &[],
        name: None,
        own: "$MODEL",
        keeps_server: false,
        config: None,
        chooses: false,
    },
    permissions: Permitting { allow: Some("bypassPermissions"), ask: Some("default"), ask_env: &[] },
    sessions: ".claude",
    counting: Counting::Turn,
    instructions: None,
    trial: Trial::Hearth,
};

pub(super) static QWEN: KnownAgent = KnownAgent {
    name: "qwen",
    title: "Qwen Code",
    handshake: "qwen-code",
    command: &["qwen", "--acp"],
    package: Package::Npm { name: "@qwen-code/qwen-code", version: "0.24.4", node: Some(22) },
    env: &[],
    model: ModelVariables {
        base_url: "OPENAI_BASE_URL",
        key: "OPENAI_API_KEY",
        server_env: &[],
        name: Some("OPENAI_MODEL"),
        own: "$MODEL",
        keeps_server: false,
        config: None,
        chooses: false,
    },
    permissions: Permitting { allow: Some("yolo"), ask: Some("default"), ask_env: &[] },
    sessions: ".qwen",
    counting: Counting::EachCall,
    instructions: Some("AGENTS.md"),
    trial: Trial::Hearth,
};

pub(super) static HERMES: KnownAgent = KnownAgent {
    name: "hermes",
    title: "Hermes",
    handshake: "hermes-agent",
    command: &["hermes", "acp"],
    // Without the second extra it silently starts no servers of tools.
    package: Package::Pypi { name: "hermes-agent[acp,mcp]", version: "0.19.0" },
    env: &[],
    model: ModelVariables {
        base_url: "OPENAI_BASE_URL",
        key: "OPENAI_API_KEY",
        server_env: &[],
        name: None,
        own: "$MODEL",
        keeps_server: true,
        config: Some(Config {
            place: ConfigPlace::File(".hermes/config.yaml"),
            others: &[],
            always: "{}",
            model: "{}",
            server: r#"{"model": {"provider": "custom", "default": "$MODEL", "base_url": "$BASE_URL",
                "api_key": "${OPENAI_API_KEY}"}}"#,
        }),
        chooses: false,
    },
    permissions: Permitting { allow: None, ask: Some("default"), ask_env: &[] },
    sessions: ".hermes",
    counting: Counting::Session,
    instructions: Some("AGENTS.md"),
    trial: Trial::Hearth,
};

pub(super) static COPILOT: KnownAgent = KnownAgent {
    name: "copilot",
    title: "Copilot",
    handshake: "Copilot",
    command: &["copilot", "--acp"],
    package: Package::Npm { name: "@github/copilot", version: "1.0.102", node: Some(20) },
    env: &[],
    model: ModelVariables {
        base_url: "COPILOT_PROVIDER_BASE_URL",
        key: "COPILOT_PROVIDER_API_KEY",
        server_env: &[("COPILOT_OFFLINE", "true")],
        name: Some("COPILOT_MODEL"),
        own: "$MODEL",
        keeps_server: false,
        config: None,
        chooses: false,
    },
    permissions: Permitting { allow: None, ask: None, ask_env: &[] },
    sessions: ".copilot",
    counting: Counting::Process,
    instructions: Some("AGENTS.md"),
    trial: Trial::Hearth,
};
