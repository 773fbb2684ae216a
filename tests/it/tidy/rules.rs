//! The house rules as data. Every exception is here, with its reason.

/// Which folders of `src/` a folder may import. Imports that are not listed are not allowed.
///
/// The compiler checks the same between crates (`ROOTS`, `FOLDERS`); this table also applies within them. `main ->
/// cli/daemon -> engine -> state -> model`; edges import configuration and model only, the model nothing.
pub(super) const IMPORTS: &[(&str, &[&str])] = &[
    ("main", &["cli", "daemon"]),
    // The mailbox reports the content of a prompt.
    (
        "cli",
        &[
            "channel",
            "clock",
            "config",
            "console",
            "contracts",
            "crash",
            "daemon",
            "engine",
            "mailbox",
            "model",
            "provider",
            "search",
            "socket",
            "state",
            "time",
        ],
    ),
    (
        "daemon",
        &[
            "channel",
            "clock",
            "config",
            "console",
            "contracts",
            "crash",
            "egress",
            "engine",
            "gateway",
            "mailbox",
            "model",
            "provider",
            "runtime",
            "search",
            "socket",
            "state",
            "time",
        ],
    ),
    ("engine", &["model", "search", "state", "time"]),
    ("state", &["crash", "model", "search"]),
    // Pure: words, queries, ranking.
    ("search", &[]),
    ("time", &["model"]),
    ("clock", &["model"]),
    // Both are pure: zones are interpreted where they are read.
    ("config", &["model", "time"]),
    ("socket", &["config", "connections", "crash", "model"]),
    ("channel", &["config", "connections", "crash", "http", "model"]),
    // Its chats are a channel, it listens like one, and its forms name roles as hearth.toml does.
    ("console", &["channel", "clock", "config", "connections", "model"]),
    ("provider", &["http", "model"]),
    ("http", &[]),
    ("agent_socket", &["model"]),
    ("egress", &["agent_socket", "clock", "connections", "gateway", "model"]),
    ("gateway", &["agent_socket", "clock", "connections", "http", "model"]),
    ("mailbox", &["config", "crash", "model"]),
    ("contracts", &["config", "crash", "model"]),
    ("runtime", &["config", "crash", "model"]),
    // Effects outside of a transaction have crash points.
    ("crash", &[]),
    // Every listener has the same limit.
    ("connections", &[]),
    // For tests.
    ("faults", &[]),
    ("model", &[]),
    ("tools", &["config", "model", "state"]),
];

/// The root files of the crates below `src/`. A root within a folder, as in `FOLDERS`, belongs to the folder.
pub(super) const ROOTS: &[&str] = &["src/lib.rs", "src/host.rs", "src/edges.rs", "src/base.rs"];

/// The folders that are crates of their own, so that `crate` means the folder.
pub(super) const FOLDERS: &[&str] = &["engine", "state"];

/// The layers of the engine, lowest first: each imports only lower ones, and itself.
pub(super) const ENGINE: &[&str] = &[
    "rules",
    "tx",
    "rows",
    "recall",
    "workspaces",
    "delivery",
    "lifecycle",
    "state_file",
    "schedule",
    "entities",
    "approvals",
    "skips",
    "requests",
    "routing",
    "decisions",
    "inbound",
    "turns",
    "configure",
    "housekeeping",
];

/// What a ban forbids.
pub(super) enum Thing {
    /// A path that begins with this crate.
    Crate(&'static str),
    /// These segments next to each other anywhere in a path.
    Segments(&'static str),
    /// This text anywhere in the code, white space ignored.
    Text(&'static str),
}

/// Something that is allowed in certain places, each with a reason, and banned elsewhere.
pub(super) struct Ban {
    pub(super) thing: Thing,
    /// Prefix of the paths where the ban applies.
    pub(super) within: &'static str,
    /// Prefix of an exempt path, and the reason.
    pub(super) places: &'static [(&'static str, &'static str)],
    pub(super) why: &'static str,
}

pub(super) const BANS: &[Ban] = &[
    Ban {
        thing: Thing::Crate("heed"),
        within: "",
        places: &[
            ("src/state/", "the one folder that knows LMDB"),
            ("tools/matrix/src/keys/table.rs", "keys of encryption, in a database of the bridge"),
        ],
        why: "the store can be replaced or reasoned about only if one folder names it",
    },
    Ban {
        thing: Thing::Crate("matrix_sdk_crypto"),
        within: "",
        places: &[("tools/matrix/src/crypto/", "encrypts and decrypts"), ("tools/matrix/src/keys/", "stores its keys")],
        why: "the rest of the bridge reads clear text",
    },
    Ban {
        thing: Thing::Crate("qrcode"),
        within: "",
        places: &[("tools/whatsapp/src/link.rs", "the code that links a device")],
        why: "such a code is a key to an account, and is shown in one terminal only",
    },
    Ban {
        thing: Thing::Crate("whatsapp_rust"),
        within: "",
        places: &[("tools/whatsapp/", "a bridge of its own workspace")],
        why: "its licence is in doubt, so that nothing else is linked with it",
    },
    Ban {
        thing: Thing::Crate("ruma"),
        within: "",
        places: &[
            ("tools/matrix/src/crypto/", "ids and answers for the crypto machine"),
            ("tools/matrix/src/keys/", "the same"),
        ],
        why: "the rest of the bridge reads what its server says as JSON",
    },
    Ban {
        thing: Thing::Crate("bincode"),
        within: "",
        places: &[("src/state/envelope.rs", "the one codec of records")],
        why: "records are encoded with version and checksum or not at all",
    },
    Ban {
        thing: Thing::Crate("serde_json"),
        within: "",
        places: &[
            ("src/channel/", "events arrive as JSON"),
            ("src/console/chat.rs", "messages of people in the form in which bridges send theirs"),
            ("src/config/file/trigger_rules.rs", "rules of version 1 are JSON in a string"),
            ("src/mailbox/", "the wire contract is JSON"),
            ("src/contracts/", "so are the other file contracts"),
            ("src/runtime/", "so is the API of a container engine"),
            ("src/gateway/", "and those of models"),
            ("src/provider/", "and that of models"),
            ("src/daemon/handlers.rs", "what is typed at a terminal gets its payload"),
            ("src/daemon/noted.rs", "results of checks and backups are files that `status` reads"),
            ("src/socket", "so are requests and answers"),
            ("src/cli/", "and what programs read"),
            ("src/state/dump", "the dump prints JSON lines"),
            ("src/state/untyped.rs", "rows as the dump and the store's JSON lines say them"),
            ("src/state/lines/", "the store as JSON lines, for machines of another kind"),
            ("src/state/backup/", "a backup says in JSON what it is"),
            ("tools/dump/", "the dump prints JSON lines"),
            ("tools/mail/", "the frames of a bridge, and its file of threads"),
            ("tools/matrix/", "the frames of a bridge, and what its network says"),
            ("tools/whatsapp/", "the frames of a bridge, and its spool"),
            ("tools/networks/", "the same of several"),
            ("container/wire/", "the wire contract"),
            ("container/bridge/", "what bridges say"),
            ("container/tool-rules/", "inputs of tools"),
            ("container/agent-runner/", "the other side of it"),
        ],
        why: "JSON exists only where files and messages are exchanged",
    },
    Ban {
        thing: Thing::Crate("hearth_wire"),
        within: "src/",
        places: &[
            ("src/mailbox/", "the host's side of the contract"),
            ("src/channel/attachments.rs", "names given there are names of files in the mailbox"),
            ("src/contracts/watch.rs", "the watcher of directories, which is no wire type"),
        ],
        why: "wire types never travel further in than the mailbox",
    },
    Ban {
        thing: Thing::Crate("hearth_bridge"),
        within: "",
        places: &[
            ("src/channel/bridge/", "the daemon's edge"),
            ("src/cli/bridge/", "the kit that tests bridges"),
            ("tools/mail/", "a bridge"),
            ("tools/matrix/", "a bridge"),
            ("tools/whatsapp/", "a bridge"),
            ("tools/networks/", "several"),
        ],
        why: "frames of bridges never travel further in than the edge",
    },
    Ban {
        thing: Thing::Crate("hearth_json"),
        within: "",
        places: &[
            ("src/contracts/state_file/", "the file that sessions of an agent share"),
            ("src/contracts/claw/", "session files of claw"),
            ("container/agent-runner/src/trusted/json.rs", "the same file on the agent's side"),
        ],
        why: "only files of other programs have to come back out as they went in",
    },
    Ban {
        thing: Thing::Crate("agent_runner"),
        within: "",
        places: &[
            ("src/cli/", "the hidden subcommand `agent` is the runner"),
            ("src/runtime/process", "starts it"),
            ("container/agent-runner/src/main.rs", "is it"),
            ("container/agent-runner/tests/", "tests it"),
        ],
        why: "the host's logic does not depend on what drives an agent",
    },
    Ban {
        thing: Thing::Crate("jiff"),
        within: "",
        places: &[("container/zone/src/zone.rs", "the rules of zones")],
        why: "both sides of the mailbox mean the same by a zone",
    },
    Ban {
        thing: Thing::Crate("chrono_tz"),
        within: "",
        places: &[
            ("container/zone/src/oracle.rs", "tests of zones compare with it"),
            ("tests/it/slots/", "tests of schedules compare with it"),
        ],
        why: "its rules of zones are older than those that hold",
    },
    Ban {
        thing: Thing::Crate("hearth_zone"),
        within: "src/",
        places: &[("src/time/", "zones and local times of the host")],
        why: "the host has one vocabulary of time",
    },
    Ban {
        thing: Thing::Crate("hearth_presets"),
        within: "src/",
        places: &[("src/model/agent.rs", "the providers of the host")],
        why: "the host knows an agent's program by its provider",
    },
    Ban {
        thing: Thing::Crate("hearth_tool_rules"),
        within: "src/",
        places: &[("src/model/tool_settings.rs", "rules about tool calls")],
        why: "the host has one vocabulary of tool calls",
    },
    Ban {
        thing: Thing::Text("cron::Schedule"),
        within: "",
        places: &[("src/time/cron/calendar.rs", "goes through the calendar")],
        why: "its dialect of cron is not ours",
    },
    Ban {
        thing: Thing::Crate("regex"),
        within: "",
        places: &[("src/engine/rules/pattern/", "patterns are translated and compiled in one place")],
        why: "strangers' text meets only patterns that were checked",
    },
    Ban {
        thing: Thing::Crate("reqwest"),
        within: "",
        places: &[
            ("src/http.rs", "the client"),
            ("src/channel/", "networks are reached over HTTP"),
            ("src/provider/", "so are the APIs of models"),
            ("src/gateway/", "agents reach models through it"),
            ("src/runtime/podman/client.rs", "what Podman's crate cannot say, or reads far too much of"),
            ("src/runtime/podman/api.rs", "the requests"),
        ],
        why: "only channels and trials of credentials talk to the network",
    },
    Ban {
        thing: Thing::Crate("rustls"),
        within: "",
        places: &[
            ("src/http.rs", "chooses the cryptography of TLS"),
            ("src/gateway/opened/", "ends TLS where the gate looks inside, with the same"),
            ("src/console/certificate.rs", "TLS of the console, with the same"),
            ("src/console/secured.rs", "and its connections"),
            (
                "src/runtime/podman/client.rs",
                "names the same, which a client wants to know also where nothing is encrypted",
            ),
            ("tools/mail/src/connection.rs", "connections to mail servers, with the same"),
            ("tools/networks/src/websocket.rs", "those of other bridges"),
        ],
        why: "every connection is secured in the same way",
    },
    Ban {
        thing: Thing::Crate("hyper"),
        within: "",
        places: &[("src/gateway/opened/", "the way to hosts with bound secrets")],
        why: "everything else has clients that do more",
    },
    Ban {
        thing: Thing::Crate("hyper_util"),
        within: "",
        places: &[("src/gateway/opened/upstream.rs", "fits its streams")],
        why: "everything else has clients that do more",
    },
    Ban {
        thing: Thing::Crate("tokio_rustls"),
        within: "",
        places: &[
            ("src/gateway/opened/", "ends TLS where the gate looks inside"),
            ("src/console/secured.rs", "connections of browsers"),
        ],
        why: "every connection is secured in the same way",
    },
    Ban {
        thing: Thing::Crate("rustls_native_certs"),
        within: "",
        places: &[
            ("src/gateway/opened/roots.rs", "what this system trusts"),
            ("tools/mail/src/connection.rs", "the same for mail servers"),
            ("tools/networks/src/websocket.rs", "the same for other networks"),
        ],
        why: "every connection is secured in the same way",
    },
    Ban {
        thing: Thing::Crate("rcgen"),
        within: "",
        places: &[
            ("src/gateway/opened/authority.rs", "certificates for hosts with bound secrets"),
            ("src/gateway/opened/tests.rs", "the certificate of such a host"),
            ("src/console/certificate.rs", "the certificate of the console, which signs nothing else"),
        ],
        why: "few places make certificates",
    },
    Ban {
        thing: Thing::Crate("mail_parser"),
        within: "",
        places: &[("tools/mail/", "reads mails")],
        why: "bytes that strangers wrote are read by a program that has no store",
    },
    Ban {
        thing: Thing::Crate("podman_api"),
        within: "",
        places: &[("src/runtime/podman/api.rs", "turns its answers and errors into ours")],
        why: "its errors must not be cloned, and some of its calls do not do what they say",
    },
    Ban {
        thing: Thing::Crate("futures_util"),
        within: "",
        places: &[
            ("src/runtime/podman/api.rs", "reads the streams of podman-api"),
            ("src/runtime/podman/client.rs", "streams the contexts of builds"),
            ("src/gateway/answer.rs", "streams answers of models"),
            ("src/gateway/opened/", "and those of hosts with bound secrets"),
            ("src/console/stream.rs", "tells pages of changes, and moves files in pieces"),
        ],
        why: "tokio is enough everywhere else",
    },
    Ban {
        thing: Thing::Crate("toml"),
        within: "",
        places: &[("src/config/", "hearth.toml")],
        why: "one file in this form, read in one place",
    },
    Ban {
        thing: Thing::Crate("rustyline"),
        within: "",
        places: &[("src/cli/chat/", "line editing of `hearth chat`")],
        why: "only the command line talks to terminals",
    },
    Ban {
        thing: Thing::Crate("prometheus_client"),
        within: "",
        places: &[("src/daemon/metrics/", "counts, and says what it counted")],
        why: "what happens is counted where it is committed",
    },
    Ban {
        thing: Thing::Crate("ratatui"),
        within: "",
        places: &[("src/cli/watch", "the live view of `hearth status --watch`")],
        why: "only the command line talks to terminals",
    },
    Ban {
        thing: Thing::Crate("fast_qr"),
        within: "",
        places: &[("src/cli/channels/pair.rs", "the code that a phone scans to pair an owner")],
        why: "only the command line talks to terminals",
    },
    Ban {
        thing: Thing::Crate("icu_normalizer"),
        within: "",
        places: &[("src/search/fold.rs", "words without diacritics")],
        why: "a word is folded in one place",
    },
    Ban {
        thing: Thing::Crate("unicode_segmentation"),
        within: "",
        places: &[("src/search/tokens.rs", "words of texts")],
        why: "a text is split in one place",
    },
    Ban {
        thing: Thing::Crate("idna"),
        within: "",
        places: &[("src/model/host.rs", "names of hosts in other scripts")],
        why: "a name of a host is read in one place",
    },
    Ban {
        thing: Thing::Crate("indicatif"),
        within: "",
        places: &[("src/cli/progress.rs", "progress of long work")],
        why: "only the command line talks to terminals",
    },
    Ban {
        thing: Thing::Crate("comfy_table"),
        within: "",
        places: &[("src/cli/", "tables for people")],
        why: "only the command line talks to terminals",
    },
    Ban {
        thing: Thing::Crate("command_fds"),
        within: "",
        places: &[("src/runtime/process", "hands exactly two descriptors to a child")],
        why: "no other child inherits descriptors",
    },
    Ban {
        thing: Thing::Crate("axum"),
        within: "",
        places: &[
            ("src/channel/webhook/", "the web service of bridges"),
            (
                "src/daemon/metrics/listen.rs",
                "numbers for those who ask, where that was wanted, through the same entrance",
            ),
            ("src/gateway/", "the way of agents to their models, for each by an entrance of its own"),
            ("src/console/", "the console in the browser, for people who signed in, through the same entrance"),
        ],
        why: "Hearth listens in one place, to those who sign",
    },
    Ban {
        thing: Thing::Crate("maud"),
        within: "",
        places: &[("src/console/", "the pages of the console")],
        why: "only the console talks to browsers",
    },
    Ban {
        thing: Thing::Segments("TcpListener"),
        within: "",
        places: &[
            ("src/channel/webhook/entrance.rs", "the one socket that a network can reach"),
            ("src/daemon/selftest/models.rs", "a server of models, for the hostile agent"),
            ("src/daemon/selftest/network.rs", "a server that the hostile agent may reach"),
            ("src/daemon/selftest/remains.rs", "a service of this machine that the hostile agent must not reach"),
            ("src/gateway/listener.rs", "a loopback port for agents that share the machine's network"),
            ("src/gateway/tests.rs", "a server of models"),
            ("src/gateway/opened/tests.rs", "a host with a bound secret"),
            ("src/gateway/opened/repeating.rs", "the same, for the hostile agent"),
            ("src/egress/", "tests of the way out"),
            ("container/agent-runner/src/gateway.rs", "a loopback port in an agent's own network"),
            ("container/agent-runner/src/way/", "ports of names in an agent's own network"),
            ("tools/networks/src/whatsapp/", "WhatsApp's requests, in a process without the store"),
        ],
        why: "Hearth listens in one place, to those who sign",
    },
    Ban {
        thing: Thing::Segments("UdpSocket"),
        within: "",
        places: &[
            ("src/egress/address.rs", "asks the system whether an address is its own"),
            ("container/agent-runner/src/way/", "names are looked up in an agent's own network"),
        ],
        why: "Hearth listens in one place, to those who sign",
    },
    Ban {
        thing: Thing::Crate("tar"),
        within: "",
        places: &[("src/contracts/archive/", "backups of everything")],
        why: "entries of an archive are checked in one place",
    },
    Ban {
        thing: Thing::Crate("httparse"),
        within: "",
        places: &[("tools/networks/src/whatsapp/http", "requests of WhatsApp")],
        why: "everything else has a server that does more",
    },
    Ban {
        thing: Thing::Crate("hmac"),
        within: "",
        places: &[
            ("src/channel/webhook/signature.rs", "signs and checks what webhooks say"),
            ("src/gateway/placeholder.rs", "what agents get instead of keys"),
            ("tools/networks/src/whatsapp/signature.rs", "checks what WhatsApp says"),
        ],
        why: "one place compares signatures, in constant time",
    },
    Ban {
        thing: Thing::Crate("base64"),
        within: "",
        places: &[
            ("src/channel/", "files inside of JSON"),
            ("src/console/chat.rs", "files of messages, in the form in which bridges send theirs"),
            ("src/gateway/opened/", "credentials in headers, and certificates as text"),
            ("src/socket/workspace", "paths that are not text"),
            ("src/socket/take_in.rs", "paths that are not text, and digests"),
            ("src/contracts/claw/", "paths that are not text"),
            ("src/cli/workspace", "so are they for programs"),
            ("container/agent-runner/src/provider/claude/images.rs", "images for the model"),
            ("container/agent-runner/src/images.rs", "images inside of JSON"),
            ("tools/mail/", "files in mails, and credentials"),
            ("tools/networks/src/signal/files.rs", "files inside of JSON"),
        ],
        why: "bytes are bytes everywhere else",
    },
    Ban {
        thing: Thing::Crate("rusqlite"),
        within: "",
        places: &[
            ("container/agent-runner/src/trusted/", "reads the database of another host"),
            ("src/contracts/", "takes it over"),
            ("tests/it/nanoclaw", "makes what is taken over"),
            ("tests/fuzz/src/laws/nanoclaw.rs", "so does its law"),
        ],
        why: "Hearth's own state is in its store; other databases are only read",
    },
    Ban {
        thing: Thing::Crate("landlock"),
        within: "",
        places: &[("container/agent-runner/src/confine/mod.rs", "a process confines itself")],
        why: "what an agent may touch is enforced in one place",
    },
    Ban {
        thing: Thing::Crate("ureq"),
        within: "",
        places: &[
            ("container/agent-runner/src/provider/openai/http.rs", "calls the server of a model"),
            ("tools/matrix/src/api.rs", "calls the server of Matrix"),
            ("tools/networks/src/web.rs", "calls those of other networks"),
        ],
        why: "each program without tokio speaks HTTP in one place",
    },
    Ban {
        thing: Thing::Crate("tungstenite"),
        within: "",
        places: &[("tools/networks/src/websocket.rs", "connections of bridges")],
        why: "how long a connection may be silent, and how much it may say, is decided in one place",
    },
    Ban {
        thing: Thing::Crate("seccompiler"),
        within: "",
        places: &[
            ("container/agent-runner/src/confine/filter.rs", "a process confines itself"),
            ("src/faults.rs", "tests let the system refuse what a function asks of it"),
        ],
        why: "what an agent may touch is enforced in one place",
    },
    Ban {
        thing: Thing::Crate("chrono"),
        within: "",
        places: &[
            ("src/model/time.rs", "how an instant is written"),
            ("src/time/", "calendar dates"),
            ("src/channel/webhook/pause.rs", "the date in a header of HTTP"),
            ("container/zone/", "zones and local times"),
            ("container/agent-runner/src/clock.rs", "the runner's clock"),
            ("container/agent-runner/src/trusted/time.rs", "times in the files of trusted agents"),
        ],
        why: "everybody else has instants and local times of our own",
    },
    Ban {
        thing: Thing::Crate("sha2"),
        within: "",
        places: &[
            ("src/state/", "keys that stand for long ids, backups and exports"),
            ("src/mailbox/blobs.rs", "a file is named by its digest"),
            ("src/contracts/archive/", "whether a backup is whole"),
            ("src/contracts/skips.rs", "whether a summary is the one that was read"),
            ("src/runtime/podman/build/recipe.rs", "whether an image is the one that is wanted"),
            ("container/tool-rules/src/digest.rs", "a tool call is named by its digest"),
            ("src/channel/webhook/signature.rs", "signatures"),
            ("src/gateway/placeholder.rs", "what agents get instead of keys"),
            ("src/console/token.rs", "tokens of browsers, which are not stored"),
            ("src/engine/tx/entropy.rs", "numbers that nobody can guess"),
            ("tools/matrix/src/keys/table.rs", "short keys of a database"),
            ("tools/mail/src/message.rs", "a mail without an id is recognised by it"),
            ("tools/whatsapp/src/outbox.rs", "ids of messages"),
            ("tools/networks/src/whatsapp/signature.rs", "signatures"),
        ],
        why: "what a digest stands for is decided in few places",
    },
    Ban {
        thing: Thing::Crate("getrandom"),
        within: "",
        places: &[("src/clock.rs", "the one source of entropy")],
        why: "randomness is an input",
    },
    Ban {
        thing: Thing::Crate("crc32fast"),
        within: "",
        places: &[("src/state/envelope.rs", "the checksum of records")],
        why: "records and exported lines are checked in the same way",
    },
    Ban {
        thing: Thing::Crate("compact_str"),
        within: "",
        places: &[("src/model/short.rs", "gives it our name")],
        why: "how short texts are stored can be changed in one place",
    },
    Ban {
        thing: Thing::Crate("notify"),
        within: "",
        places: &[("container/wire/src/watch.rs", "watches directories for both sides")],
        why: "a lost event is made up for in one way",
    },
    Ban {
        thing: Thing::Crate("signal_hook"),
        within: "",
        places: &[
            ("src/cli/watch.rs", "the terminal is put in order before the end"),
            ("container/agent-runner/src/life.rs", "a runner that is asked to end ends its turn first"),
        ],
        why: "the daemon's signals come with its other events",
    },
    Ban {
        thing: Thing::Crate("tracing_subscriber"),
        within: "",
        places: &[("src/cli/log.rs", "writes the log")],
        why: "what is logged, and how, is decided in one place",
    },
    Ban {
        thing: Thing::Crate("clap_complete"),
        within: "",
        places: &[("src/cli/shell.rs", "writes completions"), ("src/cli/mod.rs", "names the shells")],
        why: "only the command line describes itself",
    },
    Ban {
        thing: Thing::Crate("clap_mangen"),
        within: "",
        places: &[("src/cli/shell.rs", "writes manual pages")],
        why: "only the command line describes itself",
    },
    Ban {
        thing: Thing::Text("#[serde("),
        within: "src/model/",
        places: &[
            ("src/model/content.rs", "a variant keeps the name that exported stores have; its number decodes"),
            ("src/model/configure.rs", "changes travel over the socket"),
            ("src/model/report.rs", "answers travel over the socket"),
            ("src/model/routed.rs", "so do routing results"),
            ("src/model/session_command.rs", "commands travel over the socket"),
            ("src/model/take_in.rs", "commands travel over the socket"),
            ("src/model/task_command.rs", "commands travel over the socket"),
            ("src/model/workspace_command.rs", "commands travel over the socket"),
            ("src/model/workspace_sight.rs", "so do the directories they name"),
        ],
        why: "records are encoded without field names, where these attributes do not decode",
    },
    Ban {
        thing: Thing::Segments("SystemTime"),
        within: "",
        places: &[("src/clock.rs", "the host's clock"), ("container/agent-runner/src/clock.rs", "the runner's clock")],
        why: "time is an input",
    },
    Ban {
        thing: Thing::Segments("Instant"),
        within: "",
        places: &[("src/clock.rs", "the host's clock"), ("container/agent-runner/src/clock.rs", "the runner's clock")],
        why: "time is an input",
    },
    Ban {
        thing: Thing::Segments("Utc::now"),
        within: "",
        places: &[("src/clock.rs", "the host's clock"), ("container/agent-runner/src/clock.rs", "the runner's clock")],
        why: "time is an input",
    },
    Ban {
        thing: Thing::Segments("process::Command"),
        within: "",
        places: &[
            ("src/runtime/process", "starts agents"),
            ("src/daemon/child.rs", "has the store checked and copied, which no process that has it open may do"),
            ("src/cli/service.rs", "talks to what manages services, and hands over to what shows logs"),
            ("src/cli/bridge/enter.rs", "becomes the program of a bridge, confined"),
            ("src/cli/bridge/kit/network.rs", "the people in tests of bridges"),
            ("src/contracts/git.rs", "asks git, bounded and timed out"),
            ("tools/networks/src/signal/link.rs", "starts signal-cli"),
            ("container/agent-runner/src/child.rs", "starts the provider"),
            ("container/agent-runner/src/script.rs", "runs a task's script"),
            ("container/agent-runner/src/handed.rs", "becomes the same program once more, with its secrets"),
        ],
        why: "a process is started where somebody waits for its end",
    },
    Ban { thing: Thing::Segments("env::var"), within: "", places: ENVIRONMENT, why: "the environment is an input" },
    Ban { thing: Thing::Segments("env::var_os"), within: "", places: ENVIRONMENT, why: "the environment is an input" },
    Ban { thing: Thing::Segments("env::vars_os"), within: "", places: ENVIRONMENT, why: "the environment is an input" },
    Ban { thing: Thing::Segments("env::vars"), within: "", places: ENVIRONMENT, why: "the environment is an input" },
];

const ENVIRONMENT: &[(&str, &str)] = &[
    ("src/config/env.rs", "the host's environment"),
    ("container/agent-runner/src/env.rs", "the runner's environment"),
];

/// Maximum number of files in a circle of imports.
pub(super) const CIRCLE_MAX: usize = 7;

/// Maximum number of lines of a file without its tests.
pub(super) const LINES_MAX: usize = 500;

/// Maximum number of lines of a file of tests.
pub(super) const TEST_LINES_MAX: usize = 800;

/// Files that may be longer, with the reason.
pub(super) const LONG_FILES: &[(&str, &str)] =
    &[("src/state/schema.rs", "the list of all tables, which is the data model, in one place")];

/// Words without meaning in a name.
pub(super) const EMPTY_NAMES: [&str; 6] = ["manager", "helper", "helpers", "util", "utils", "service"];

/// Names that may have such a word, with the reason.
pub(super) const NAMES: &[(&str, &str)] = &[
    ("src/cli/service.rs", "it installs Hearth as a service of the system"),
    ("src/cli/mod.rs", "declares that module"),
];
