//! Refused files: each problem's text and line.

use super::*;

/// `(text after line 1, line, message)`; line 1 is `schema = 1`.
const BAD: &[(&str, usize, &str)] = &[
    // the top
    ("timezone = \"IST-2\"", 2, "`timezone`: `IST-2` is not a time zone; write a name like Europe/Berlin"),
    ("[channels.telegram]\ntype = \"x\"", 3, "`type` cannot be \"x\"; write \"telegram\" or \"webhook\""),
    ("[channels.work]\ntype = \"bridge\"", 2, "a channel of type bridge needs `bridge` or `command`"),
    ("[channels.work]\ntype = \"bridge\"\nbridge = \"telex\"", 4, "`bridge` cannot be \"telex\""),
    ("[channels.work]\ntype = \"bridge\"\ncommand = [\"x\"]\nbridge = \"mail\"", 5, "`bridge` and `command` both name"),
    (
        "[channels.telegram]\ntoken = \"env:T\"\nbridge = \"mail\"",
        4,
        "`bridge` has no meaning for a channel of type telegram",
    ),
    ("[channels.work]\ntoken = \"env:T\"", 2, "the channel `work` needs a type"),
    ("[channels.telegram]", 2, "a channel of type telegram needs `token`"),
    ("[channels.telegram]\ntoken = \"123:abc\"", 3, "`token` must say where the secret is"),
    (
        "[channels.telegram]\ntoken = \"env:T\"\nsecret = \"env:S\"",
        4,
        "`secret` has no meaning for a channel of type telegram",
    ),
    ("[channels.telegram]\ntoken = \"env:T\"\nbase_url = \"ftp://x\"", 4, "`base_url` must be a web address"),
    ("[channels.webhook]\nsecret = \"env:S\"\nlisten = \"8787\"", 4, "`listen` must be an address and a port"),
    ("[channels.terminal]\ntype = \"webhook\"\nsecret = \"env:S\"", 2, "the channel `terminal` always exists"),
    ("[channels.\"a:b\"]\ntype = \"webhook\"\nsecret = \"env:S\"", 2, "contains `:` or `/`"),
    (
        "[channels.webhook]\nsecret = \"env:S\"\nlink_previews = 1",
        4,
        "`link_previews` is an integer; write true or false",
    ),
    (
        "[channels.webhook]\nsecret = \"env:S\"\nunknown_chats = \"deny\"",
        4,
        "`unknown_chats` cannot be \"deny\"; write \"ask\" or \"ignore\"",
    ),
    ("[channels.webhook]\nsecret = \"env:S\"\ntell_strangers = \"yes\"", 4, "`tell_strangers` is a string; write true"),
    ("channels = 1", 2, "`channels` must have tables with names"),
    ("secrets = 5", 2, "`secrets` must have tables with names; begin each with [secrets.NAME]"),
    ("[secrets.a]\nhosts = [\"a.example\"]", 2, "`value` is missing in [secrets.NAME]; add it"),
    ("[secrets.a]\nvalue = \"env:A\"", 2, "`hosts` is missing in [secrets.NAME]; add the hosts that get the secret"),
    (
        "[secrets.a]\nvalue = \"hush\"\nhosts = [\"a.example\"]",
        3,
        "`value` is no reference to a secret; write \"env:NAME\"",
    ),
    ("[secrets.a]\nvalue = \"env:A\"\nhosts = []", 4, "`hosts` names no host that can get the secret; write one"),
    ("[secrets.a]\nvalue = \"env:A\"\nhosts = [\"*.a.example\"]", 4, "exact hosts only; write each host"),
    (
        "[secrets.a]\nvalue = \"env:A\"\nhosts = [\"a.example\"]\nheader = \"X\"",
        5,
        "`header`: `X` is no header; write one",
    ),
    (
        "[secrets.a]\nvalue = \"env:A\"\nhosts = [\"a.example\"]\nrequests = [\"GET a\"]",
        5,
        "`requests`: `GET a` has no path that begins with `/`",
    ),
    (
        "[secrets.\"a b\"]\nvalue = \"env:A\"\nhosts = [\"a.example\"]",
        2,
        "`a b` cannot be the name of a secret; use 1 to 64",
    ),
    (
        "[[agents]]\nfolder = \"a\"\nnetwork = \"ask\"\nsecrets = { A = \"b.uri\" }",
        5,
        "`secrets.A` is not the name of a secret; write that of a [secrets.NAME], or NAME.url for its base URL",
    ),
    (
        "[[agents]]\nfolder = \"a\"\nnetwork = \"ask\"\nsecrets = { A = \"env:B\" }",
        5,
        "`secrets.A` is a reference; write it as `value` in [secrets.NAME], and the name here",
    ),
    (
        "[[agents]]\nfolder = \"a\"\nnetwork = \"ask\"\nenv = { A = \"b\" }\nsecrets = { A = \"b\" }",
        6,
        "`A` is in `secrets` and in `env`; keep one of them",
    ),
    (
        "[[agents]]\nfolder = \"a\"\nnetwork = \"open\"\nsecrets = { A = \"b\" }",
        5,
        "this agent's network does not lead there; write `network = \"ask\"`",
    ),
    (
        "[[agents]]\nfolder = \"a\"\nnetwork = \"ask\"\nsecrets = [\"b\"]",
        5,
        "`secrets` is an array; write a table, in braces",
    ),
    ("voice = 5", 2, "`voice` is an integer; write a table; begin it with [voice]"),
    ("[voice]\nspeak = {}", 3, "`voice.speak` has neither `command` nor `url`; add one of them"),
    (
        "[voice.speak]\nurl = \"http://a\"\nwhen = \"never\"",
        4,
        "`when` cannot be \"never\"; write \"asked\" or \"always\"",
    ),
    ("[voice.speak]\ncommand = [\"/a\"]\nvoice = \"b\"", 4, "`voice` is for servers; pass it to the program"),
    ("[voice.speak]\nurl = \"http://a\"\nmax_chars = 4097", 4, "`max_chars` cannot be 4097"),
    ("[voice.speak]\nurl = \"http://a\"\nlanguage = \"de\"", 4, "`language`"),
    ("[voice.transcribe]\nmodel = \"x\"", 2, "`voice.transcribe` has neither `command` nor `url`; add one of them"),
    (
        "[voice.transcribe]\ncommand = [\"/a\"]\nurl = \"http://a\"",
        4,
        "`voice.transcribe` has `command` and `url`; keep one",
    ),
    ("[voice.transcribe]\ncommand = []", 3, "`command` does not begin with the path of a program"),
    ("[voice.transcribe]\ncommand = [\"whisper\"]", 3, "`command` does not begin with the path of a program"),
    ("[voice.transcribe]\ncommand = [\"/a\"]\nkey = \"env:A\"", 4, "`key` is for servers; pass it to the program"),
    ("[voice.transcribe]\nurl = \"https://user@host/v1\"", 3, "`url` is not the base of a server's URLs"),
    ("[voice.transcribe]\nurl = \"ftp://host/v1\"", 3, "`url` is not the base of a server's URLs"),
    ("[voice.transcribe]\nurl = \"http://a\"\nkey = \"sk-secret\"", 4, "`key` is no reference to a secret; write"),
    ("[voice.transcribe]\nurl = \"http://a\"\ntimeout = \"11m\"", 4, "`timeout` cannot be \"11m\"; write at most 10m"),
    ("[voice.transcribe]\nurl = \"http://a\"\nmax_bytes = 26214401", 4, "`max_bytes` cannot be 26214401"),
    ("backup = 5", 2, "`backup` is an integer; write a table; begin it with [backup]"),
    ("[backup]\nkeep = 3", 2, "`every` is missing in [backup]; add it"),
    ("[backup]\nevery = \"daily\"", 3, "`backup.every`: `daily` is not an interval"),
    ("[backup]\nevery = \"9m\"", 3, "`backup.every` cannot be \"9m\"; write at least 10m"),
    ("[backup]\nevery = \"1d\"\nkeep = 0", 4, "`keep` cannot be 0; write a number from 1 to 1000"),
    ("[backup]\nevery = \"1d\"\nto = \"backups\"", 4, "`backup.to` cannot be \"backups\"; write an absolute path"),
    ("console = true", 2, "`console` is a boolean; write a table; begin it with [console]"),
    ("[console]\nlisten = \"8080\"", 3, "`console.listen` cannot be \"8080\"; write an address and a port"),
    ("[console]\nlisten = \"127.0.0.1:0\"", 3, "`console.listen` cannot be \"127.0.0.1:0\"; write a port"),
    (
        "[console]\nlisten = \"0.0.0.0:18790\"",
        3,
        "`console.listen` is \"0.0.0.0:18790\", which no browser can ask for; write how browsers find this machine",
    ),
    ("[console]\nnames = [\"a b\"]", 3, "`console.names`: "),
    ("[console]\ntls_cert = \"/a\"", 3, "`console.tls_cert` has no key; write `tls_key` as well"),
    ("[console]\ntls_key = \"/a\"", 3, "`console.tls_key` has no certificate; write `tls_cert` as well"),
    ("[console]\ntls_cert = \"a\"\ntls_key = \"/b\"", 3, "`console.tls_cert` is \"a\"; write the whole path"),
    ("[channels.console]\ntype = \"webhook\"", 2, "the channel `console` always exists: `[console]` configures it"),
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
    ("[[agents]]\nfolder = \"a\"\ntimezone = 2", 4, "`timezone` is an integer; write a string, in quotes"),
    ("[[agents]]\nfolder = \"a\"\ntimezone = \"\"", 4, "`timezone`: `` is not a time zone"),
    ("runtime = \"docker\"", 2, "`runtime` cannot be \"docker\"; write \"podman\" or \"process\""),
    ("image = \"a b\"", 2, "`a b` is not the name of an image; write one like"),
    ("image = \"\"", 2, "is not the name of an image"),
    (
        "image = \"docker://x\"",
        2,
        "`docker://x` is not the name of an image: it must not have a prefix like `docker://`",
    ),
    ("image = \"UPPER/x\"", 2, "`UPPER/x` is not the name of an image: only its tag may have upper-case letters"),
    ("[[agents]]\nfolder = \"a\"\nnetwork = false", 4, "`network` is a boolean; write a string"),
    ("[[agents]]\nfolder = \"a\"\nnetwork = \"lan\"", 4, "`network` cannot be \"lan\"; write \"none\" or \"listed\""),
    (
        "[[agents]]\nfolder = \"a\"\nallow = [\"https://a.org\"]",
        4,
        "`allow`: `https://a.org` has no valid port; write a number from 1 to 65535 after the colon",
    ),
    (
        "[[agents]]\nfolder = \"a\"\nallow = [\"*.com\"]",
        4,
        "`allow`: `*.com` covers hosts of many owners; name one of them, like *.example.org",
    ),
    (
        "[[agents]]\nfolder = \"a\"\ndeny = [\"a b\"]",
        4,
        "`deny`: `a b` is no host name; write one like api.example.org, or an address like 192.168.1.20",
    ),
    (
        "[[agents]]\nfolder = \"a\"\nmounts = 1",
        4,
        "`mounts` must be a list of tables; begin each with [[agents.mounts]]",
    ),
    ("[[agents]]\nfolder = \"a\"\nmounts = [{ readonly = true }]", 4, "`host_path` is missing in [[agents.mounts]]"),
    ("[[agents]]\nfolder = \"a\"\nmounts = [{ host_path = \"x/y\" }]", 4, "`x/y` is not an absolute path"),
    ("[[agents]]\nfolder = \"a\"\nmounts = [{ host_path = \"~ann/y\" }]", 4, "`~ann/y` is not an absolute path"),
    ("[[agents]]\nfolder = \"a\"\nmounts = [{ host_path = \"/\" }]", 4, "`` cannot be mounted below /workspace/extra"),
    (
        "[[agents]]\nfolder = \"a\"\n[[agents.mounts]]\nhost_path = \"/x\"\ncontainer_path = \"../y\"",
        6,
        "`../y` cannot be mounted below /workspace/extra; give a `container_path`",
    ),
    (
        "[[agents]]\nfolder = \"a\"\n[[agents.mounts]]\nhost_path = \"/x\"\nreadonly = \"no\"",
        6,
        "`readonly` is a string; write true or false",
    ),
    (
        "[[agents]]\nfolder = \"a\"\n[[agents.mounts]]\nhost_path = \"/x\"\nread_only = true",
        6,
        "unknown key `read_only` in [[agents.mounts]]; did you mean `readonly`?",
    ),
    (
        "[[agents]]\nfolder = \"a\"\nmounts = [\n{ host_path = \"/a/x\" },\n{ host_path = \"/b\", container_path = \"x/y\" }]",
        6,
        "two mounts overlap at `x/y` and `x`",
    ),
    ("[[agents]]\nfolder = \"a\"\npackages = []", 4, "`packages` is an array; write a table, in braces"),
    ("[[agents]]\nfolder = \"a\"\npackages = { apt = [\"jq=1\"] }", 4, "`jq=1` is not the name of a package of apt"),
    ("[[agents]]\nfolder = \"a\"\npackages = { npm = [\"@A/b\"] }", 4, "`@A/b` is not the name of a package of npm"),
    ("[[agents]]\nfolder = \"a\"\npackages = { pip = [] }", 4, "unknown key `pip` in `packages`"),
    ("[[agents]]\nfolder = \"a\"\n[agents.mcp_servers.x]\ncommand = 1", 5, "`command` is an integer; write a string"),
    ("[[agents]]\nfolder = \"a\"\n[agents.mcp_servers.x]\nargs = []", 4, "`command` is missing in an MCP server"),
    ("[[agents]]\nfolder = \"a\"\n[agents.mcp_servers.x]\ncommand = \"\"", 5, "`command` names a program"),
    ("[[agents]]\nfolder = \"a\"\n[agents.mcp_servers.\"x y\"]\ncommand = \"c\"", 4, "`x y` cannot be the name"),
    ("[[agents]]\nfolder = \"a\"\n[agents.mcp_servers.nanoclaw]\ncommand = \"c\"", 4, "`nanoclaw` cannot be the name"),
    ("[[agents]]\nfolder = \"a\"\n[agents.mcp_servers.x]\ncommand = \"c\"\nurl = \"u\"", 6, "unknown key `url`"),
    (
        "[[agents]]\nfolder = \"a\"\n[agents.mcp_servers.x]\ncommand = \"c\"\nenv = { A = \"file:x\" }",
        6,
        "the value of `A`",
    ),
    ("[[agents]]\nfolder = \"a\"\nmcp_servers = 1", 4, "`mcp_servers` is a table of tables"),
    ("[[agents]]\nfolder = \"a\"\nmcp_servers = { x = 1 }", 4, "`mcp_servers` is a table of tables"),
    ("[[agents]]\nfolder = \"a\"\ninstructions = \"\\u0000\"", 4, "`instructions` is a text of at most"),
    ("[[agents]]\nfolder = \"a\"\nskills = \"some\"", 4, "`skills` cannot be \"some\"; write \"all\", or a list"),
    ("[[agents]]\nfolder = \"a\"\nskills = [\"../x\"]", 4, "`../x` is not the name of a skill"),
    ("[[agents]]\nfolder = \"a\"\nskills = 3", 4, "`skills` is an integer; write a list of strings"),
    ("[[agents]]\nfolder = \"a\"\nlimits = { memory = 1 }", 4, "`limits.memory` must be bytes, or a text like"),
    ("[[agents]]\nfolder = \"a\"\nlimits = { memory = \"2G\" }", 4, "`limits.memory` must be bytes, or a text like"),
    ("[[agents]]\nfolder = \"a\"\nlimits = { memory = \"+2GiB\" }", 4, "`limits.memory` must be bytes"),
    ("[[agents]]\nfolder = \"a\"\nlimits = { memory = \"99999999999TiB\" }", 4, "`limits.memory` must be bytes"),
    ("[[agents]]\nfolder = \"a\"\nlimits = { memory = 1.5 }", 4, "`memory` is a float; write a whole number"),
    ("[[agents]]\nfolder = \"a\"\nlimits = { cpu = 0 }", 4, "`limits.cpu` counts processors, from 0.01 to 1024"),
    ("[[agents]]\nfolder = \"a\"\nlimits = { cpu = nan }", 4, "`limits.cpu` counts processors"),
    ("[[agents]]\nfolder = \"a\"\nlimits = { cpu = \"2\" }", 4, "`cpu` is a string; write a number like 1.5"),
    ("[[agents]]\nfolder = \"a\"\nlimits = { pids = 1 }", 4, "`pids` cannot be 1; write a number from 16 to 4194304"),
    ("[[agents]]\nfolder = \"a\"\nlimits = 5", 4, "`limits` is an integer; write a table, in braces"),
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
    (
        "[[agents]]\nfolder = \"a\"\nprovider = \"opencode\"",
        4,
        "the provider `opencode` chooses a model of its maker's unless one is named; add `model = \"…\"`",
    ),
    (
        "[[agents]]\nfolder = \"a\"\nprovider = \"codex\"\nenv = { OPENAI_BASE_URL = \"http://h/v1\" }",
        4,
        "the provider `codex` needs the name of a model at OPENAI_BASE_URL; add `model = \"…\"`",
    ),
    (
        "[[agents]]\nfolder = \"a\"\nprovider = \"claude\"\npermissions = \"ask\"",
        5,
        "the provider `claude` has no `permissions`: only agents with the Agent Client Protocol do; remove it",
    ),
    (
        "[[agents]]\nfolder = \"a\"\nprovider = \"gemini\"\npermissions = \"always\"",
        5,
        "`permissions` cannot be \"always\"; write \"allow\" or \"ask\" or \"deny\"",
    ),
    ("[[agents]]\nfolder = \"a\"\nunconfined = 1", 4, "`unconfined` is an integer; write true or false"),
    ("[[agents]]\nfolder = \"a\"\ncommand = [\"x\"]", 4, "the provider `echo` runs no command"),
    (
        "[[agents]]\nfolder = \"a\"\nprovider = \"command\"\nunconfined = true\ncommand = []",
        6,
        "`command` is empty; add a program",
    ),
    (
        "[[agents]]\nfolder = \"a\"\nprovider = \"command\"\nunconfined = true\ncommand = [\" \"]",
        6,
        "`command` must begin with a program; add it",
    ),
    (
        "[[agents]]\nfolder = \"a\"\nprovider = \"command\"\nunconfined = true\ncommand = \"x y\"",
        6,
        "`command` is a string; write a list of strings, in brackets",
    ),
    (
        "[[agents]]\nfolder = \"a\"\nprovider = \"command\"\nunconfined = true\ncommand = [\"x\",\n 1]",
        7,
        "`command` contains an integer; write strings only",
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
    (
        "[[agents]]\nfolder = \"a\"\nblocked_tools = [\"Bash,Read\"]",
        4,
        "`blocked_tools` has several tools in one entry",
    ),
    ("[[agents]]\nfolder = \"a\"\nblocked_tools = [\"\"]", 4, "`blocked_tools` has an entry that is not a tool's name"),
    ("[[agents]]\nfolder = \"a\"\nmax_parallel = 0", 4, "`max_parallel` cannot be 0; write a number from 1 to 1000"),
    (
        "[[agents]]\nfolder = \"a\"\nmax_prompt_messages = -1",
        4,
        "`max_prompt_messages` cannot be -1; write a number from 0 to 1000",
    ),
    ("[[agents]]\nfolder = \"a\"\nrequest_env = \"A\"", 4, "`request_env` is a string; write a list of strings"),
    (
        "[[agents]]\nfolder = \"a\"\nrequest_env = [\"A\", \"A=b\"]",
        4,
        "`request_env`: `A=b` is not the name of a variable",
    ),
    ("[[agents]]\nfolder = \"a\"\nallow_host_loopback = 1", 4, "`allow_host_loopback` is an integer; write true"),
    ("[[agents]]\nfolder = \"a\"\nenv = [\"A=b\"]", 4, "`env` is an array; write a table, in braces"),
    ("[[agents]]\nfolder = \"a\"\nenv = { A = 1 }", 4, "`env.A` is an integer; write a string, in quotes"),
    ("[[agents]]\nfolder = \"a\"\nenv = { \"1A\" = \"x\" }", 4, "`1A` is not the name of a variable"),
    ("[[agents]]\nfolder = \"a\"\n[agents.env]\nA-B = \"x\"", 5, "`A-B` is not the name of a variable"),
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
        "the agent `a` is defined twice, in lines 2 and 5; keep one of them",
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
        "\"king\" is not a role; write \"owner\", \"admin\" or \"admin:<folder>\"",
    ),
    ("[[users]]\nid = \"a:b\"\nroles = [\"owner:main\"]", 4, "the role of owner is for everything, not for one agent"),
    ("[[users]]\nid = \"a:b\"\nroles = [\"admin:\"]", 4, "`` cannot be an agent's folder"),
    ("[[users]]\nid = \"a:b\"\nroles = [\"admin\", \"admin\"]", 4, "`roles` has \"admin\" twice; remove one"),
    ("[[users]]\nid = \"a:b\"\nmember_of = [\"a b\"]", 4, "`a b` cannot be an agent's folder"),
    ("[[users]]\nid = \"a:b\"\n[[users]]\nid = \"a:b\"", 4, "the user `a:b` is defined twice, in lines 2 and 4"),
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
        "the chat `1` on `a` is defined twice, in lines 2 and 5",
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
    ("agent = \"a\"\nengage = \"pattern\"", 5, "`engage = \"pattern\"` requires `pattern`; add it"),
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
        "the wiring to `a` in this chat is defined twice, in lines 5 and 7",
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

/// Every problem has a position inside the file, says what is wrong, and what to do.
fn says_what_is_wrong_where(text: &str) {
    let Err(bad) = parse("hearth.toml", text) else { return };
    assert!(!bad.problems.is_empty(), "{text:?}");
    let lines: Vec<&str> = text.split('\n').collect();
    for Problem { line, column, what, .. } in &bad.problems {
        let inside = lines.get(line.wrapping_sub(1)).is_some_and(|it| (1..=it.chars().count() + 1).contains(column));
        assert!(inside, "{text:?}: {line}:{column}: {what}");
        let told = what.split_once("; ").is_some_and(|(wrong, advice)| !wrong.is_empty() && !advice.is_empty());
        assert!(told, "{text:?}: {what}");
    }
}

proptest::proptest! {
    #[test]
    fn random_text_is_refused_in_words(text in "(schema = 1\n)?(\\PC|[\\[\\]=\"\n{},.a-z]){0,60}") {
        says_what_is_wrong_where(&text);
    }

    #[test]
    fn cut_files_are_read_or_refused_in_words(at in 0..FULL.len()) {
        says_what_is_wrong_where(&FULL[..FULL.floor_char_boundary(at)]);
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
