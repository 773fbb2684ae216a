use super::*;
use crate::model::address::{ChannelName, ForeignId, UserId};
use crate::model::configure::{ChatSpec, RoleSpec, UserSpec, WiringSpec};
use crate::model::entity::{
    AgentSettings, Engage, EnvValue, Ignored, ProviderKind, SenderScope, SessionMode, Trust, UnknownSenders,
};
use crate::model::retention::{Keep, Retention};

/// Every field that can be said.
const FULL: &str = r#"
schema = 1
default_agent = "main"
store_max_bytes = 1_000_000_000
max_containers = 3

[retention]
bodies = "forever"
journal = "7d"
attachments = 90
dedup = "30d"

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

[agents.env]
ZED = "plain: text"
API_KEY = "env:MY_KEY"
TOKEN = "file:/run/secrets/token"
OTHER = "cmd:pass show other"
EMPTY = ""

[[agents]]
folder = "second"

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
    Settings {
        default_agent: Some(folder("main")),
        store_max_bytes: Some(1_000_000_000),
        max_containers: Some(3),
        retention,
    }
}

fn full() -> Vec<Change> {
    let reference = |name: &str, text: &str| (name.to_owned(), EnvValue::Reference(text.to_owned()));
    let plain = |name: &str, text: &str| (name.to_owned(), EnvValue::Plain(text.to_owned()));
    let main = AgentSettings {
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
        ..agent("Ann's helper")
    };
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
        Change::PutAgent(folder("main"), main),
        Change::PutAgent(folder("second"), agent("second")),
        Change::PutUser(ann),
        Change::PutUser(other),
        Change::PutChat(family),
        Change::PutChat(slack),
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

/// `(what follows line 1, line, message)`; line 1 is `schema = 1`.
const BAD: &[(&str, usize, &str)] = &[
    // the top
    ("timezone = \"UTC\"", 2, "`timezone` is not yet possible in the top of the file; leave it out"),
    ("[channels.telegram]\ntype = \"x\"", 3, "`type` cannot be \"x\"; write \"telegram\" or \"webhook\""),
    ("[channels.work]\ntoken = \"env:T\"", 2, "the channel `work` needs a type"),
    ("[channels.telegram]", 2, "a channel of type telegram needs `token`"),
    ("[channels.telegram]\ntoken = \"123:abc\"", 3, "`token` must say where the secret is"),
    (
        "[channels.telegram]\ntoken = \"env:T\"\nsecret = \"env:S\"",
        4,
        "`secret` means nothing to a channel of type telegram",
    ),
    ("[channels.telegram]\ntoken = \"env:T\"\nbase_url = \"ftp://x\"", 4, "`base_url` must be a web address"),
    ("[channels.webhook]\nsecret = \"env:S\"\nlisten = \"8787\"", 4, "`listen` must be an address and a port"),
    ("[channels.terminal]\ntype = \"webhook\"\nsecret = \"env:S\"", 2, "the channel `terminal` is always there"),
    ("[channels.\"a:b\"]\ntype = \"webhook\"\nsecret = \"env:S\"", 2, "contains `:` or `/`"),
    ("channels = 1", 2, "`channels` must have tables with names"),
    ("retention = 5", 2, "`retention` is an integer; write a table; begin it with [retention]"),
    (
        "\n[retention]\nbodies = 0",
        4,
        "`retention.bodies` cannot be 0; write days like \"90d\", from 1 to 36500, or \"forever\"",
    ),
    ("[retention]\njournal = \"5 days\"", 3, "`retention.journal` cannot be \"5 days\"; write days like"),
    ("[retention]\ndrops = \"-5d\"", 3, "`retention.drops` cannot be \"-5d\""),
    ("[retention]\ndrops = \"+5d\"", 3, "`retention.drops` cannot be \"+5d\""),
    ("[retention]\ndrops = \"d\"", 3, "`retention.drops` cannot be \"d\""),
    ("[retention]\nattachments = true", 3, "`retention.attachments` cannot be boolean"),
    ("[retention]\nattachments = \"99999d\"", 3, "`retention.attachments` cannot be \"99999d\""),
    (
        "[retention]\ndedup = \"29d\"",
        3,
        "`retention.dedup` cannot be \"29d\"; write days like \"90d\", from 30 to 36500",
    ),
    ("[retention]\nbodie = \"5d\"", 3, "unknown key `bodie` in [retention]; did you mean `bodies`?"),
    ("max_container = 3", 2, "unknown key `max_container` in the top of the file; did you mean `max_containers`?"),
    ("[[agent]]\nfolder = \"a\"", 2, "unknown key `agent` in the top of the file; did you mean `agents`?"),
    ("time_zone = 1", 2, "did you mean `timezone`?"),
    ("xyzzy = 1", 2, "possible are schema, default_agent, store_max_bytes"),
    ("schema = 1", 2, "duplicate key; correct the TOML"),
    ("default_agent = 1", 2, "`default_agent` is an integer; write a string, in quotes"),
    ("default_agent = \"../x\"", 2, "`../x` cannot be an agent's folder: use 1 to 64 letters"),
    ("store_max_bytes = 4194303", 2, "`store_max_bytes` cannot be 4194303; write a number at least 4194304"),
    ("store_max_bytes = \"1G\"", 2, "`store_max_bytes` is a string; write a whole number"),
    ("store_max_bytes = 99999999999999999999", 2, "`store_max_bytes` is too large; write a smaller number"),
    ("max_containers = 0", 2, "`max_containers` cannot be 0; write a number from 1 to 1000"),
    ("max_containers = 1.5", 2, "`max_containers` is a float; write a whole number"),
    ("agents = 3", 2, "`agents` must be a list of tables; begin each with [[agents]]"),
    ("agents = [3]", 2, "`agents` must be a list of tables; begin each with [[agents]]"),
    ("[agents]\nfolder = \"a\"", 2, "`agents` must be a list of tables; begin each with [[agents]]"),
    ("x =", 2, "correct the TOML"),
    // agents
    ("[[agents]]\nname = \"x\"", 2, "`folder` is missing in [[agents]]; add it"),
    ("[[agents]]\nfolder = 7", 3, "`folder` is an integer; write a string, in quotes"),
    ("[[agents]]\nfolder = \"global\"", 3, "`global` cannot be an agent's folder"),
    (
        "[[agents]]\nfolder = \"a\"\nprovder = \"echo\"",
        4,
        "unknown key `provder` in [[agents]]; did you mean `provider`?",
    ),
    (
        "[[agents]]\nfolder = \"a\"\ndefault_agent = \"a\"",
        4,
        "it belongs at the top of the file, before the first table",
    ),
    ("[[agents]]\nfolder = \"a\"\ntimezone = \"UTC\"", 4, "`timezone` is not yet possible in [[agents]]"),
    ("[[agents]]\nfolder = \"a\"\nnetwork = false", 4, "`network` is not yet possible"),
    ("[[agents]]\nfolder = \"a\"\nmounts = []", 4, "`mounts` is not yet possible"),
    ("[[agents]]\nfolder = \"a\"\npackages = []", 4, "`packages` is not yet possible"),
    ("[[agents]]\nfolder = \"a\"\n[agents.mcp_servers.x]\ncommand = 1", 4, "`mcp_servers` is not yet possible"),
    ("[[agents]]\nfolder = \"a\"\nskills = []", 4, "`skills` is not yet possible"),
    ("[[agents]]\nfolder = \"a\"\nlimits = { memory = 1 }", 4, "`limits` is not yet possible"),
    (
        "[[agents]]\nfolder = \"a\"\nprovider = \"cloude\"",
        4,
        "`provider` cannot be \"cloude\"; write \"echo\" or \"command\" or \"claude\"",
    ),
    (
        "[[agents]]\nfolder = \"a\"\nprovider = \"command\"\nunconfined = true",
        4,
        "the provider `command` needs one; add `command = [\"program\", \"argument\"]`",
    ),
    ("[[agents]]\nfolder = \"a\"\nunconfined = 1", 4, "`unconfined` is an integer; write true or false"),
    ("[[agents]]\nfolder = \"a\"\ncommand = [\"x\"]", 4, "the provider `echo` runs no command"),
    (
        "[[agents]]\nfolder = \"a\"\nprovider = \"command\"\nunconfined = true\ncommand = []",
        6,
        "`command` is empty; name the program",
    ),
    (
        "[[agents]]\nfolder = \"a\"\nprovider = \"command\"\nunconfined = true\ncommand = [\" \"]",
        6,
        "`command` begins with the program; name it",
    ),
    (
        "[[agents]]\nfolder = \"a\"\nprovider = \"command\"\nunconfined = true\ncommand = \"x y\"",
        6,
        "`command` is a string; write a list of strings, in brackets",
    ),
    (
        "[[agents]]\nfolder = \"a\"\nprovider = \"command\"\nunconfined = true\ncommand = [\"x\",\n 1]",
        7,
        "`command` has an integer in it; write strings only",
    ),
    (
        "[[agents]]\nfolder = \"a\"\nprovider = \"command\"\nunconfined = true\ncommand = [\"x\", \"a\\u0000\"]",
        6,
        "`command` contains a NUL character",
    ),
    ("[[agents]]\nfolder = \"a\"\nname = \" \"", 4, "`name` must be one line of text"),
    ("[[agents]]\nfolder = \"a\"\nmodel = \"a\\nb\"", 4, "`model` must be one line of text"),
    (
        "[[agents]]\nfolder = \"a\"\ntrust = \"full\"",
        4,
        "`trust` cannot be \"full\"; write \"main\" or \"trusted\" or \"untrusted\"",
    ),
    ("[[agents]]\nfolder = \"a\"\nblocked_tools = [\"\"]", 4, "`blocked_tools` has an entry that is no tool's name"),
    ("[[agents]]\nfolder = \"a\"\nmax_parallel = 0", 4, "`max_parallel` cannot be 0; write a number from 1 to 1000"),
    (
        "[[agents]]\nfolder = \"a\"\nmax_prompt_messages = -1",
        4,
        "`max_prompt_messages` cannot be -1; write a number from 0 to 1000",
    ),
    ("[[agents]]\nfolder = \"a\"\nenv = [\"A=b\"]", 4, "`env` is an array; write a table, in braces"),
    ("[[agents]]\nfolder = \"a\"\nenv = { A = 1 }", 4, "`env.A` is an integer; write a string, in quotes"),
    ("[[agents]]\nfolder = \"a\"\nenv = { \"1A\" = \"x\" }", 4, "`1A` is no name of a variable"),
    ("[[agents]]\nfolder = \"a\"\n[agents.env]\nA-B = \"x\"", 5, "`A-B` is no name of a variable"),
    ("[[agents]]\nfolder = \"a\"\nenv = { HOME = \"/\" }", 4, "`HOME` is set by Hearth for every agent; remove it"),
    ("[[agents]]\nfolder = \"a\"\nenv.PATH = \"/\"", 4, "`PATH` is set by Hearth"),
    ("[[agents]]\nfolder = \"a\"\nenv = { HEARTH_X = \"\" }", 4, "`HEARTH_X` is set by Hearth"),
    (
        "[[agents]]\nfolder = \"a\"\nenv = { NANOCLAW_SESSION_NAME = \"\" }",
        4,
        "`NANOCLAW_SESSION_NAME` is set by Hearth",
    ),
    ("[[agents]]\nfolder = \"a\"\nenv = { CLAUDE_SESSION_ID = \"\" }", 4, "`CLAUDE_SESSION_ID` is set by Hearth"),
    ("[[agents]]\nfolder = \"a\"\nenv = { TZ = \"UTC\" }", 4, "`TZ` is set by Hearth"),
    ("[[agents]]\nfolder = \"a\"\nenv = { A = \"env:\" }", 4, "the value of `A` names no variable; write \"env:NAME\""),
    ("[[agents]]\nfolder = \"a\"\nenv = { A = \"env:A B\" }", 4, "the value of `A` names no variable"),
    ("[[agents]]\nfolder = \"a\"\nenv = { A = \"file:token\" }", 4, "the value of `A` names no absolute path"),
    ("[[agents]]\nfolder = \"a\"\nenv = { A = \"cmd: \" }", 4, "the value of `A` names no command"),
    ("[[agents]]\nfolder = \"a\"\nenv = { A = \"x\\u0000\" }", 4, "the value of `A` contains a NUL character"),
    (
        "[[agents]]\nfolder = \"a\"\n\n[[agents]]\nfolder = \"a\"",
        5,
        "the agent `a` is there twice, in lines 2 and 5; keep one of them",
    ),
    // users
    ("[[users]]\nname = \"Ann\"", 2, "`id` is missing in [[users]]; add it"),
    ("[[users]]\nid = \"ann\"", 3, "`ann` is not a user id like telegram:123"),
    ("[[users]]\nid = \":1\"", 3, "`:1` is not a user id"),
    ("[[users]]\nid = \"a:b\"\nrole = []", 4, "unknown key `role` in [[users]]; did you mean `roles`?"),
    ("[[users]]\nid = \"a:b\"\nroles = \"owner\"", 4, "`roles` is a string; write a list of strings"),
    (
        "[[users]]\nid = \"a:b\"\nroles = [\n\"king\"]",
        5,
        "\"king\" is no role; write \"owner\", \"admin\" or \"admin:<folder>\"",
    ),
    ("[[users]]\nid = \"a:b\"\nroles = [\"owner:main\"]", 4, "an owner owns everything, not one agent"),
    ("[[users]]\nid = \"a:b\"\nroles = [\"admin:\"]", 4, "`` cannot be an agent's folder"),
    ("[[users]]\nid = \"a:b\"\nroles = [\"admin\", \"admin\"]", 4, "`roles` has \"admin\" twice; remove one"),
    ("[[users]]\nid = \"a:b\"\nmember_of = [\"a b\"]", 4, "`a b` cannot be an agent's folder"),
    ("[[users]]\nid = \"a:b\"\n[[users]]\nid = \"a:b\"", 4, "the user `a:b` is there twice, in lines 2 and 4"),
    // chats
    ("[[chats]]\nplatform_id = \"1\"", 2, "`channel` is missing in [[chats]]; add it"),
    ("[[chats]]\nchannel = \"a\"", 2, "`platform_id` is missing in [[chats]]; add it"),
    (
        "[[chats]]\nchannel = \"\"\nplatform_id = \"1\"",
        3,
        "the channel name is empty; write it as the channel gives it",
    ),
    ("[[chats]]\nchannel = \"a\"\nplatform_id = \"\"", 4, "the platform id is empty"),
    ("[[chats]]\nchannel = \"a\"\nplatform_id = 5", 4, "`platform_id` is an integer; write a string, in quotes"),
    ("[[chats]]\nchannel = \"a\"\nplatform_id = \"1\"\ngroup = \"yes\"", 5, "`group` is a string; write true or false"),
    (
        "[[chats]]\nchannel = \"a\"\nplatform_id = \"1\"\nunknown_senders = \"ask\"",
        5,
        "`unknown_senders` cannot be \"ask\" in the chat `1` on `a`; write \"strict\" or \"request_approval\" or \"public\"",
    ),
    (
        "[[chats]]\nchannel = \"a\"\nplatform_id = \"1\"\npattern = \".\"",
        5,
        "unknown key `pattern` in [[chats]]; possible are channel",
    ),
    (
        "[[chats]]\nchannel = \"a\"\nplatform_id = \"1\"\n[[chats]]\nplatform_id = \"1\"\nchannel = \"a\"",
        5,
        "the chat `1` on `a` is there twice, in lines 2 and 5",
    ),
];

/// The same for a wiring; line 5 is `[[chats.wirings]]`.
const BAD_WIRINGS: &[(&str, usize, &str)] = &[
    ("", 5, "`agent` is missing in [[chats.wirings]]; add it"),
    ("agent = \"a/b\"", 6, "`a/b` cannot be an agent's folder"),
    (
        "agent = \"a\"\nengage = \"always\"",
        7,
        "`engage` cannot be \"always\" in the wiring to `a` of the chat `1` on `c`; \
         write \"pattern\" or \"mention\" or \"mention-sticky\"",
    ),
    ("engage = \"x\"\nagent = \"a\"", 6, "`engage` cannot be \"x\" in the wiring to `a` of the chat `1` on `c`; write"),
    (
        "agent = \"a\"\nengage = \"mention-sticky\"\npattern = \".\"",
        8,
        "`pattern` means nothing without `engage = \"pattern\"`",
    ),
    ("agent = \"a\"\nengage = 1", 7, "`engage` is an integer; write a string"),
    ("agent = \"a\"\nengage = \"pattern\"", 5, "`pattern` is missing beside `engage = \"pattern\"`; add it"),
    ("agent = \"a\"\nengage = \"pattern\"\npattern = 1", 8, "`pattern` is an integer; write a string"),
    ("agent = \"a\"\npattern = \".\"", 7, "`pattern` means nothing without `engage = \"pattern\"`"),
    (
        "agent = \"a\"\nengage = \"mention\"\npattern = \".\"",
        8,
        "`pattern` means nothing without `engage = \"pattern\"`",
    ),
    (
        "agent = \"a\"\nsenders = \"member\"",
        7,
        "`senders` cannot be \"member\" in the wiring to `a` of the chat `1` on `c`; write \"all\" or \"known\"",
    ),
    (
        "agent = \"a\"\nignored = \"keep\"",
        7,
        "`ignored` cannot be \"keep\" in the wiring to `a` of the chat `1` on `c`; write \"drop\" or \"accumulate\"",
    ),
    (
        "agent = \"a\"\nsession = \"per_thread\"",
        7,
        "`session` cannot be \"per_thread\" in the wiring to `a` of the chat `1` on `c`; write \"shared\" or \"per-thread\" or \"agent-shared\"",
    ),
    (
        "agent = \"a\"\npriority = 2147483648",
        7,
        "`priority` cannot be 2147483648; write a number from -2147483648 to 2147483647",
    ),
    ("agent = \"a\"\nsesion = \"shared\"", 7, "unknown key `sesion` in [[chats.wirings]]; did you mean `session`?"),
    (
        "agent = \"a\"\n[[chats.wirings]]\nagent = \"a\"",
        7,
        "the wiring to `a` in this chat is there twice, in lines 5 and 7",
    ),
];

fn check(text: &str, line: usize, what: &str) {
    let problems = parse("hearth.toml", text).expect_err(text).problems;
    let shown: Vec<String> = problems.iter().map(Problem::to_string).collect();
    assert_eq!(problems.len(), 1, "{text}\n{shown:#?}");
    assert!(problems[0].what.contains(what), "{text}\n{}\n{what}", shown[0]);
    assert!(problems[0].what.contains(';') || problems[0].what.contains(": use"), "says what to do: {}", shown[0]);
    assert_eq!(problems[0].line, line, "{text}\n{}", shown[0]);
}

#[test]
fn bad_files_are_refused_with_line_and_advice() {
    for (text, line, what) in BAD {
        check(&format!("schema = 1\n{text}\n"), *line, what);
    }
    for (text, line, what) in BAD_WIRINGS {
        let text = format!("schema = 1\n[[chats]]\nchannel = \"c\"\nplatform_id = \"1\"\n[[chats.wirings]]\n{text}\n");
        check(&text, *line, what);
    }
}

#[test]
fn the_schema_decides_first() {
    check("", 1, "`schema` is missing; write `schema = 1` at the top of the file");
    check(
        "# x\nschema = 2\nwhat = 1\n",
        2,
        "schema 2 is newer than this Hearth, which reads schema 1; use a newer Hearth",
    );
    check("schema = 0\n", 1, "there is no schema 0; write `schema = 1`");
    check("schema = \"1\"\n", 1, "`schema` is a string; write a whole number");
}

#[test]
fn all_problems_are_told_together_in_the_order_of_lines() {
    let text =
        "schema = 1\nmax_containers = 0\n[[agents]]\nfolder = \"a b\"\ntrust = 1\n\"ä\" = 2\n[[users]]\nid = \"x\"\n";
    let told = parse("my.toml", text).unwrap_err().to_string();
    let lines: Vec<&str> = told.lines().collect();
    let begins = [
        "my.toml:2: `max_containers`",
        "my.toml:4: `a b`",
        "my.toml:5: `trust`",
        "my.toml:6: unknown key `ä`",
        "my.toml:8: `x`",
    ];
    assert_eq!(lines.len(), begins.len(), "{told}");
    for (line, begin) in lines.iter().zip(begins) {
        assert!(line.starts_with(begin), "{line}");
    }
}

#[test]
fn several_syntax_errors_are_told_together() {
    let problems = parse("hearth.toml", "schema = 1\na = = 2\nb = \n").unwrap_err().problems;
    let lines: Vec<usize> = problems.iter().map(|problem| problem.line).collect();
    assert!(lines.contains(&2) && lines.contains(&3), "{problems:?}");
}

/// A secret typed in by mistake must not reach a terminal or a log.
#[test]
fn values_of_the_environment_are_never_part_of_a_message() {
    let text = "schema = 1\n[[agents]]\nfolder = \"a\"\nenv = { A = \"env:hunter2 x\", \"B-\" = \"hunter2\", C = [\"hunter2\"] }";
    let told = parse("hearth.toml", text).unwrap_err().to_string();
    assert_eq!(told.lines().count(), 3, "{told}");
    assert!(!told.contains("hunter2"), "{told}");
}

#[test]
fn nesting_is_bounded() {
    let deep = format!("schema = 1\nagents = {}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(parse("hearth.toml", &deep).is_err());
    let deep = format!("schema = 1\nagents = {}1", "{a=".repeat(100_000));
    assert!(parse("hearth.toml", &deep).is_err());
}

proptest::proptest! {
    #[test]
    fn random_text_never_panics(text in "(schema = 1\n)?(\\PC|[\\[\\]=\"\n{},.a-z]){0,60}") {
        drop(parse("hearth.toml", &text));
    }

    /// Files cut off anywhere are refused or read, and lines stay within the file.
    #[test]
    fn cut_files_never_panic(at in 0..FULL.len()) {
        if let Err(bad) = parse("hearth.toml", &FULL[..FULL.floor_char_boundary(at)]) {
            proptest::prop_assert!(bad.problems.iter().all(|problem| problem.line <= FULL.lines().count()));
        }
    }
}

#[test]
fn whether_an_agent_can_be_confined_is_not_for_the_file_to_say() {
    for provider in ["claude", "command"] {
        let command = if provider == "command" { "command = [\"x\"]" } else { "" };
        let text = format!("schema = 1\n[[agents]]\nfolder = \"a\"\nprovider = \"{provider}\"\n{command}\n");
        let configure = parse("hearth.toml", &text).unwrap();
        assert!(matches!(&configure.changes[..], [Change::PutAgent(_, settings)] if !settings.unconfined));
    }
}
