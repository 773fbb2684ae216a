use super::*;
use crate::model::address::{ChannelName, ForeignId, UserId};
use crate::model::backup_plan::BackupPlan;
use crate::model::bound_secret::{AgentSecret, BoundSecret};
use crate::model::budget::{Budget, BudgetPeriod, BudgetScope, Caps, Fallback, OnLimit};
use crate::model::configure::{ChatSpec, RoleSpec, RuntimeKind, UserSpec, WiringSpec};
use crate::model::console::{CertificateFiles, ConsoleSettings};
use crate::model::entity::{
    Access, AgentSettings, ContextFrom, Engage, EnvValue, ExtraMount, Ignored, Limits, McpServer, Network, Packages,
    Permissions, Preset, ProviderKind, SenderScope, SessionMode, Skills, TechnicalSkips, Trust, UnknownSenders,
    Verbosity,
};
use crate::model::recall::RecallReach;
use crate::model::retention::{Keep, Retention};
use crate::model::spend::{ModelPrice, Money, Price};
use crate::model::time::Millis;
use crate::model::tool::{ToolPreset, ToolRule, ToolSettings, ToolVerdict};
use crate::model::voice::{AudioFormat, SpeakWhen, Speaker, SpeechTool, Transcriber, Voice};

mod bad;

/// Every field that a file can have.
const FULL: &str = r#"
schema = 1
default_agent = "main"
store_max_bytes = 1_000_000_000
session_files_max_bytes = 0
grace = 0
runtime = "podman"
image = "localhost/hearth-agent:1"
max_containers = 3
timezone = "america/new_york"

[retention]
bodies = "forever"
journal = "7d"
attachments = 90
dedup = "30d"

[backup]
every = "1d"
keep = 3
to = "~/backups"
with_secrets = true

[voice.transcribe]
url = "https://api.openai.com/v1/"
model = "whisper-1"
key = "env:OPENAI_API_KEY"
language = "de"
max_bytes = 1_000
timeout = "30s"

[voice.speak]
url = "http://127.0.0.1:8000/v1"
voice = "nova"
format = "opus"
when = "always"
max_chars = 300
timeout = "30s"

[console]
enabled = false
listen = "[::1]:7000"
chat_login = true
names = ["hearth.lan", "192.168.1.20"]
tls_cert = "/etc/c.pem"
tls_key = "/etc/k.pem"

[prices."gpt-4.1"]
input = 2
output = 8.5
cache_read = 0.5

[[budgets]]
scope = "all"
per = "month"
usd = 40.5
tokens = 9_000_000

[[budgets]]
scope = "chat:telegram/-100:5"
per = "day"
tokens = 0

[secrets.github]
value = "cmd:pass show github"
hosts = ["api.github.com"]
requests = ["GET /repos/**", "POST /repos/*/*/issues"]

[secrets.git]
value = "file:/run/secrets/git"
hosts = ["github.com", "git.example.org:8443", "GitHub.com"]
header = "authorization: Basic {}"

[[agents]]
name = "Ann's helper"
folder = "main"
provider = "claude"
command = ["/opt/claude", "--verbose"]
model = "large"
effort = "high"
trust = "main"
unconfined = true
blocked_tools = ["WebSearch"]
max_prompt_messages = 20
max_parallel = 2
timezone = "+05:30"
technical_skips = "retry"
request_env = ["WEATHER_KEY", "API_KEY", "WEATHER_KEY"]
allow_host_loopback = true
network = "none"
mounts = [{ host_path = "~/projects/app", readonly = false }, { host_path = "/srv/docs", container_path = "docs/all" }]
limits = { memory = "2GiB", cpu = 1.5, pids = 512 }
skills = ["web", "calendar", "web"]

[agents.env]
ZED = "plain: text"
API_KEY = "env:MY_KEY"
TOKEN = "file:/run/secrets/token"
OTHER = "cmd:pass show other"
EMPTY = ""

[agents.packages]
apt = ["jq", "jq"]
npm = ["@scope/pkg"]

[agents.mcp_servers.my-files]
command = "mcp-files"
args = ["--all"]
env = { TOKEN = "env:TOKEN", MODE = "calm" }

[agents.mcp_servers.clock]
command = "clock"

[[agents]]
folder = "second"
provider = "qwen"
mode = "plan"
permissions = "ask"
on_limit = "hold"
caps = { tokens = 500_000, calls = 50, minutes = 20, unattended_turns = 10, at_once = 2, per_minute = 60 }
verbosity = "verbose"
network = "ask"
allow = ["nas.local:8080", "*.Example.org", "*.example.org"]
deny = ["bad.example.org"]
secrets = { GIT_PASSWORD = "git", GITHUB_TOKEN = "github", GITHUB_API_URL = "github.url" }
recall = "agent"
tools = { preset = "careful", rules = [{ ask = "Bash(git push:*)" }, { deny = "WebFetch" }], approval_wait = 5 }
fallback = ["codex", { provider = "command", command = ["agent", "--json"], model = "small" }]
instructions = """
Be "brief".
"""

[[users]]
id = "telegram:123"
name = "Ann"
roles = ["owner", "admin", "admin:second"]
member_of = ["main", "elsewhere"]

[[users]]
id = "matrix:@a:hs.org"

[[chats]]
channel = "telegram"
platform_id = "-100:5"
name = "Family"
group = true
unknown_senders = "strict"

[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "^!"
senders = "known"
ignored = "accumulate"
session = "per-thread"
priority = -7
context_from = "known"

[[chats.wirings]]
agent = "elsewhere"
engage = "mention-sticky"

[[chats]]
channel = "slack"
platform_id = "C1"
wirings = [{ agent = "main", engage = "mention", session = "agent-shared" }]
"#;

fn folder(name: &str) -> Folder {
    Folder::new(name).unwrap()
}

fn channel(name: &str) -> ChannelName {
    ChannelName::new(name).unwrap()
}

fn id(text: &str) -> ForeignId {
    ForeignId::new("id", text).unwrap()
}

fn wiring(agent: &str) -> WiringSpec {
    WiringSpec {
        agent: folder(agent),
        engage: Engage::Mention,
        senders: SenderScope::All,
        ignored: Ignored::Drop,
        session: SessionMode::Shared,
        priority: 0,
        context_from: None,
    }
}

fn agent(name: &str) -> AgentSettings {
    AgentSettings::named(name.into())
}

fn full_settings() -> Settings {
    let retention = Retention {
        bodies: Some(Keep::Forever),
        journal: Some(Keep::Days(7)),
        attachments: Some(Keep::Days(90)),
        dedup: Some(Keep::Days(30)),
        drops: None,
    };
    let price = Price { input: 2_000_000, output: 8_500_000, cache_read: 500_000, cache_write: 2_000_000 };
    Settings {
        default_agent: Some(folder("main")),
        store_max_bytes: Some(1_000_000_000),
        max_containers: Some(3),
        timezone: Some("america/new_york".to_owned()),
        retention,
        runtime: Some(RuntimeKind::Podman),
        image: Some("localhost/hearth-agent:1".into()),
        session_files_max_bytes: Some(0),
        backup: Some(BackupPlan {
            every: Millis::days(1),
            keep: 3,
            to: Some("~/backups".to_owned()),
            with_secrets: true,
        }),
        prices: vec![ModelPrice { model: "gpt-4.1".to_owned(), price }],
        budgets: vec![
            Budget {
                scope: BudgetScope::All,
                per: BudgetPeriod::Month,
                money: Some(Money::micros(40_500_000)),
                tokens: Some(9_000_000),
            },
            Budget {
                scope: BudgetScope::Chat(channel("telegram"), id("-100:5")),
                per: BudgetPeriod::Day,
                money: None,
                tokens: Some(0),
            },
        ],
        grace: Some(0),
        secrets: vec![
            BoundSecret {
                name: "git".into(),
                value: "file:/run/secrets/git".into(),
                hosts: vec!["git.example.org:8443".parse().unwrap(), "github.com".parse().unwrap()],
                header: "Authorization: Basic {}".parse().unwrap(),
                requests: Vec::new(),
            },
            BoundSecret {
                name: "github".into(),
                value: "cmd:pass show github".into(),
                hosts: vec!["api.github.com".parse().unwrap()],
                header: "Authorization: Bearer {}".parse().unwrap(),
                requests: vec!["GET /repos/**".parse().unwrap(), "POST /repos/*/*/issues".parse().unwrap()],
            },
        ],
        voice: Some(voice()),
    }
}

fn voice() -> Voice {
    Voice {
        transcribe: Some(Transcriber {
            tool: SpeechTool::Server {
                url: "https://api.openai.com/v1".to_owned(),
                model: Some("whisper-1".to_owned()),
                key: Some("env:OPENAI_API_KEY".to_owned()),
            },
            language: Some("de".to_owned()),
            max_bytes: 1_000,
            timeout: Millis::seconds(30),
        }),
        speak: Some(Speaker {
            tool: SpeechTool::Server { url: "http://127.0.0.1:8000/v1".to_owned(), model: None, key: None },
            voice: Some("nova".to_owned()),
            format: AudioFormat::Opus,
            when: SpeakWhen::Always,
            max_chars: 300,
            max_bytes: Speaker::BYTES,
            timeout: Millis::seconds(30),
        }),
    }
}

fn agent_secret(variable: &str, secret: &str) -> AgentSecret {
    AgentSecret { variable: variable.to_owned(), secret: secret.to_owned() }
}

fn server(name: &str, command: &str, args: &[&str], env: Vec<(String, EnvValue)>) -> McpServer {
    let args = args.iter().map(|word| (*word).to_owned()).collect();
    McpServer { name: name.into(), command: command.into(), args, env }
}

fn main_agent() -> AgentSettings {
    let reference = |name: &str, text: &str| (name.to_owned(), EnvValue::Reference(text.to_owned()));
    let plain = |name: &str, text: &str| (name.to_owned(), EnvValue::Plain(text.to_owned()));
    AgentSettings {
        provider: ProviderKind::Claude,
        command: vec!["/opt/claude".into(), "--verbose".into()],
        env: vec![
            reference("API_KEY", "env:MY_KEY"),
            plain("EMPTY", ""),
            reference("OTHER", "cmd:pass show other"),
            reference("TOKEN", "file:/run/secrets/token"),
            plain("ZED", "plain: text"),
        ],
        model: Some("large".into()),
        effort: Some("high".into()),
        trust: Trust::Main,
        unconfined: true,
        blocked_tools: vec!["WebSearch".into()],
        max_prompt_messages: 20,
        max_parallel: 2,
        timezone: Some("+05:30".to_owned()),
        technical_skips: TechnicalSkips::Retry,
        request_env: vec!["API_KEY".to_owned(), "WEATHER_KEY".to_owned()],
        allow_host_loopback: true,
        packages: Packages { apt: vec!["jq".into()], npm: vec!["@scope/pkg".into()] },
        mcp_servers: vec![
            server("clock", "clock", &[], vec![]),
            server("my-files", "mcp-files", &["--all"], vec![plain("MODE", "calm"), reference("TOKEN", "env:TOKEN")]),
        ],
        network: Network::None,
        mounts: vec![
            ExtraMount { host_path: "~/projects/app".into(), container_path: None, access: Access::ReadWrite },
            ExtraMount {
                host_path: "/srv/docs".into(),
                container_path: Some("docs/all".into()),
                access: Access::ReadOnly,
            },
        ],
        limits: Limits { memory: Some(2 << 30), cpu: Some(1_500), pids: Some(512) },
        skills: Skills::Only(vec!["calendar".into(), "web".into()]),
        ..agent("Ann's helper")
    }
}

fn second_agent() -> AgentSettings {
    AgentSettings {
        provider: ProviderKind::Preset(Preset::Qwen),
        mode: Some("plan".to_owned()),
        permissions: Permissions::Ask,
        on_limit: OnLimit::Hold,
        caps: Caps {
            tokens: Some(500_000),
            calls: Some(50),
            minutes: Some(20),
            unattended_turns: Some(10),
            at_once: Some(2),
            per_minute: Some(60),
        },
        verbosity: Verbosity::Verbose,
        network: Network::Ask,
        allow: vec!["nas.local:8080".parse().unwrap(), "*.example.org".parse().unwrap()],
        deny: vec!["bad.example.org".parse().unwrap()],
        secrets: vec![
            agent_secret("GITHUB_API_URL", "github.url"),
            agent_secret("GITHUB_TOKEN", "github"),
            agent_secret("GIT_PASSWORD", "git"),
        ],
        tools: ToolSettings {
            preset: ToolPreset::Careful,
            rules: vec![
                ToolRule { verdict: ToolVerdict::Ask, pattern: "Bash(git push:*)".to_owned() },
                ToolRule { verdict: ToolVerdict::Deny, pattern: "WebFetch".to_owned() },
            ],
            approval_wait: Some(5),
        },
        recall: RecallReach::Agent,
        fallback: vec![
            Fallback { provider: ProviderKind::Preset(Preset::Codex), command: Vec::new(), model: None },
            Fallback {
                provider: ProviderKind::Command,
                command: vec!["agent".into(), "--json".into()],
                model: Some("small".into()),
            },
        ],
        instructions: Some("Be \"brief\".\n".into()),
        ..agent("second")
    }
}

fn full() -> Vec<Change> {
    let ann = UserSpec {
        id: UserId::new(channel("telegram"), id("123")),
        name: Some("Ann".into()),
        roles: vec![RoleSpec::Owner, RoleSpec::Admin, RoleSpec::AdminOf(folder("second"))],
        member_of: vec![folder("main"), folder("elsewhere")],
    };
    let other = UserSpec {
        id: UserId::new(channel("matrix"), id("@a:hs.org")),
        name: None,
        roles: Vec::new(),
        member_of: Vec::new(),
    };
    let listening = WiringSpec {
        engage: Engage::Pattern("^!".into()),
        senders: SenderScope::Known,
        ignored: Ignored::Accumulate,
        session: SessionMode::PerThread,
        priority: -7,
        context_from: Some(ContextFrom::Known),
        ..wiring("main")
    };
    let family = ChatSpec {
        channel: channel("telegram"),
        platform_id: id("-100:5"),
        name: Some("Family".into()),
        group: true,
        unknown_senders: UnknownSenders::Strict,
        wirings: vec![listening, WiringSpec { engage: Engage::MentionSticky, ..wiring("elsewhere") }],
    };
    let slack = ChatSpec {
        channel: channel("slack"),
        platform_id: id("C1"),
        name: None,
        group: false,
        unknown_senders: UnknownSenders::RequestApproval,
        wirings: vec![WiringSpec { session: SessionMode::AgentShared, ..wiring("main") }],
    };
    vec![
        Change::PutAgent(folder("main"), main_agent()),
        Change::PutAgent(folder("second"), second_agent()),
        Change::PutUser(ann),
        Change::PutUser(other),
        Change::PutChat(family),
        Change::PutChat(slack),
        Change::PutConsole(ConsoleSettings {
            enabled: false,
            listen: "[::1]:7000".parse().unwrap(),
            chat_login: true,
            names: vec!["hearth.lan".to_owned(), "192.168.1.20".to_owned()],
            certificate: Some(CertificateFiles { cert: "/etc/c.pem".to_owned(), key: "/etc/k.pem".to_owned() }),
        }),
        Change::PutSettings(full_settings()),
    ]
}

#[test]
fn every_field_is_read_and_every_default_is_known() {
    let read = parse("hearth.toml", FULL).unwrap();
    assert_eq!(read, Configure::new(full(), Origin::File));
}

#[test]
fn what_is_written_is_read_again() {
    let text = write::write(&full());
    assert_eq!(parse("hearth.toml", &text).unwrap().changes, full(), "{text}");
}

#[test]
fn a_file_without_entities_changes_nothing() {
    for text in ["schema = 1", "\u{feff}schema = 1\r\n", "# nothing\nschema = 0x1\nagents = []\n"] {
        assert_eq!(parse("hearth.toml", text).unwrap().changes, Vec::new(), "{text:?}");
    }
}
