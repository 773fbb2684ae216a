//! `hearth import nanoclaw`: installations of both versions, imported by the real program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::host::Host;
use crate::host::confined::{PROTOCOL, possible};

const V2: &str = "
    CREATE TABLE agent_groups(id TEXT PRIMARY KEY, name TEXT, folder TEXT, agent_provider TEXT, created_at TEXT);
    INSERT INTO agent_groups VALUES('ag-1','Andy','andy','mock',''),('ag-2','Bob','bob','mock',''),('ag-3','X','../x',NULL,'');
    CREATE TABLE messaging_groups(id TEXT PRIMARY KEY, channel_type TEXT, platform_id TEXT, name TEXT, is_group INTEGER,
        unknown_sender_policy TEXT, denied_at TEXT, created_at TEXT);
    INSERT INTO messaging_groups VALUES('mg-1','telegram','telegram:-100','Family',1,'public',NULL,''),
        ('mg-2','slack','slack:C1','Work',1,'strict',NULL,''),('mg-3','cli','local',NULL,0,'public',NULL,'');
    CREATE TABLE messaging_group_agents(id TEXT PRIMARY KEY, messaging_group_id TEXT, agent_group_id TEXT, engage_mode TEXT,
        engage_pattern TEXT, sender_scope TEXT, ignored_message_policy TEXT, session_mode TEXT, priority INTEGER);
    INSERT INTO messaging_group_agents VALUES('w1','mg-1','ag-1','pattern','.','all','drop','shared',0),
        ('w2','mg-2','ag-1','mention',NULL,'all','accumulate','shared',3),('w3','mg-2','ag-2','pattern','(','all','drop','shared',0);
    CREATE TABLE users(id TEXT, kind TEXT, display_name TEXT);
    INSERT INTO users VALUES('telegram:1','telegram','Ann'),('cli:local','cli','me');
    CREATE TABLE user_roles(user_id TEXT, role TEXT, agent_group_id TEXT);
    INSERT INTO user_roles VALUES('telegram:1','owner',NULL),('telegram:2','admin','ag-2');
    CREATE TABLE agent_group_members(user_id TEXT, agent_group_id TEXT);
    INSERT INTO agent_group_members VALUES('telegram:3','ag-1');
    CREATE TABLE agent_destinations(agent_group_id TEXT, local_name TEXT, target_type TEXT, target_id TEXT);
    INSERT INTO agent_destinations VALUES('ag-1','home','channel','mg-1'),('ag-1','bob','agent','ag-2');
    CREATE TABLE sessions(id TEXT, agent_group_id TEXT, messaging_group_id TEXT, thread_id TEXT, status TEXT);
    INSERT INTO sessions VALUES('sess-1','ag-1','mg-1',NULL,'active'),('sess-2','ag-1','mg-2',NULL,'active');
    CREATE TABLE unregistered_senders(channel_type TEXT); INSERT INTO unregistered_senders VALUES('x');";

const INBOUND: &str = "
    CREATE TABLE messages_in(id TEXT PRIMARY KEY, seq INTEGER, kind TEXT, timestamp TEXT, status TEXT, process_after TEXT,
        recurrence TEXT, series_id TEXT, trigger INTEGER, platform_id TEXT, channel_type TEXT, thread_id TEXT, content TEXT);
    INSERT INTO messages_in VALUES
        ('m1:ag-1',2,'chat','2026-01-01T10:00:00Z','completed',NULL,NULL,NULL,1,'telegram:-100','telegram',NULL,'{\"text\":\"old\"}'),
        ('m2:ag-1',4,'chat','2026-01-01T10:01:00Z','pending',NULL,NULL,NULL,1,'telegram:-100','telegram',NULL,
            '{\"text\":\"waits\",\"senderId\":\"1\"}'),
        ('m3:ag-1',6,'chat','2026-01-01 10:02:00','pending',NULL,NULL,NULL,1,'telegram:-100','telegram',NULL,'no json'),
        ('m4:ag-1',8,'chat','x','pending',NULL,NULL,NULL,1,'telegram:-100','telegram',NULL,'{\"text\":\"done\"}'),
        ('t1',10,'task','x','pending','2099-01-01T09:00:00.000Z','0 9 * * 7','t1',1,NULL,NULL,NULL,'{\"prompt\":\"water\",\"script\":null}'),
        ('t2',12,'task','x','paused','2020-01-01 09:00:00',NULL,'t2',1,NULL,NULL,NULL,'{\"prompt\":\"rest\"}'),
        ('t3',14,'task','x','pending','2099-01-01 09:00:00','0 9 * *','t3',1,NULL,NULL,NULL,'{\"prompt\":\"bad\"}'),
        ('s1',16,'system','x','pending',NULL,NULL,NULL,1,NULL,NULL,NULL,'{}');";

const OUTBOUND: &str = "
    CREATE TABLE processing_ack(message_id TEXT, status TEXT); INSERT INTO processing_ack VALUES('m4:ag-1','completed');
    CREATE TABLE session_state(key TEXT, value TEXT); INSERT INTO session_state VALUES('continuation:claude','abc-1');
    CREATE TABLE messages_out(id TEXT, seq INTEGER); INSERT INTO messages_out VALUES('o1',3);";

fn database(path: &Path, sql: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

fn file(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// An installation of version 2 beside the data directory.
fn version_2(host: &Host) -> PathBuf {
    let root = host.path("nanoclaw");
    database(&root.join("data/v2.db"), V2);
    let session = root.join("data/v2-sessions/ag-1/sess-1");
    database(&session.join("inbound.db"), INBOUND);
    database(&session.join("outbound.db"), OUTBOUND);
    file(&root.join("groups/andy/CLAUDE.md"), "<!-- Composed at spawn — do not edit. -->");
    file(&root.join("groups/andy/CLAUDE.local.md"), "Remember the plants.");
    file(&root.join("groups/andy/notes/deep/a.txt"), "a");
    file(&root.join("groups/bob/CLAUDE.md"), "You are Bob.");
    file(&root.join("groups/global/CLAUDE.md"), "For all.");
    std::os::unix::fs::symlink("/etc/passwd", root.join("groups/andy/link")).unwrap();
    file(&root.join("data/v2-sessions/ag-1/.claude-shared/projects/-workspace-agent/abc-1.jsonl"), "{}\n");
    root
}

/// Every file below a directory, except those that SQLite or a lock may change.
fn everything(place: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut open = vec![place.to_owned()];
    while let Some(next) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&next) else { continue };
        for entry in entries.map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                all.insert(entry.path(), std::fs::read(entry.path()).unwrap());
            }
        }
    }
    all
}

fn import(host: &Host, root: &Path, more: &[&str]) -> Value {
    let mut arguments = vec!["import", "nanoclaw", root.to_str().unwrap(), "--json"];
    arguments.extend(more);
    serde_json::from_str(&host.done(&arguments, b"")).unwrap()
}

/// How many of a kind were imported, unchanged and skipped.
fn counts(report: &Value, kind: &str) -> (u64, u64, u64) {
    let kinds = report["kinds"].as_array().unwrap();
    let found = kinds.iter().find(|one| one["kind"] == kind).unwrap_or_else(|| panic!("{kind}: {report:#}"));
    let number = |key: &str| found[key].as_u64().unwrap();
    (number("taken"), number("unchanged"), number("left_out"))
}

fn note(report: &Value, kind: &str, name: &str) -> String {
    let items = report["items"].as_array().unwrap();
    let found = items.iter().find(|item| item["kind"] == kind && item["name"] == name && item["note"].is_string());
    found.unwrap_or_else(|| panic!("{kind} {name}: {report:#}"))["note"].as_str().unwrap().to_owned()
}

fn taken(report: &Value) -> Vec<&Value> {
    report["items"].as_array().unwrap().iter().filter(|item| item["outcome"] == "taken").collect()
}

fn tasks(host: &Host) -> Vec<Value> {
    let all: Value = serde_json::from_str(&host.done(&["tasks", "list", "--json"], b"")).unwrap();
    all["tasks"].as_array().unwrap().clone()
}

#[test]
fn version_2_is_taken_over_once() {
    let host = Host::before_the_first_start();
    let root = version_2(&host);
    let before = everything(&root);
    let rehearsed = import(&host, &root, &["--dry-run"]);
    assert!(!host.data().exists(), "a rehearsal makes nothing");
    let report = import(&host, &root, &[]);
    assert_eq!(everything(&root), before, "nothing of it was changed");
    for report in [&rehearsed, &report] {
        for (kind, expected) in [
            ("agents", (2, 0, 1)),
            ("chats", (2, 0, 1)),
            ("wirings", (2, 0, 1)),
            ("users", (3, 0, 1)),
            ("rights", (3, 0, 0)),
            ("destinations", (2, 0, 0)),
            ("sessions", (1, 0, 1)),
            ("tasks", (2, 0, 1)),
            ("messages", (2, 0, 4)),
        ] {
            assert_eq!(counts(report, kind), expected, "{kind}: {report:#}");
        }
    }
    assert!(note(&report, "wirings", "w3").contains("its pattern is invalid"));
    assert!(note(&report, "tasks", "t3").contains("its recurrence is invalid"));
    assert!(note(&report, "messages", "s1").contains("not a message of a person"));
    assert!(note(&report, "files", "groups/andy/link").contains("is a link"));
    assert!(note(&report, "chats", "slack/slack:C1").contains(
        "slack needs a bridge; add [channels.slack] with `type = \"bridge\"` and its command, see docs/slack.md"
    ));
    assert!(note(&report, "chats", "telegram/-100").contains("add [channels.telegram] with `token`"));
    let text = |path: &str| std::fs::read_to_string(host.data().join(path)).unwrap();
    assert_eq!(text("groups/andy/CLAUDE.local.md"), "Remember the plants.");
    assert_eq!(text("groups/andy/notes/deep/a.txt"), "a");
    assert_eq!(text("groups/bob/CLAUDE.local.md"), "You are Bob.");
    assert_eq!(text("groups/global/CLAUDE.md"), "For all.");
    assert_eq!(text("homes/andy/.claude/projects/-workspace-group/abc-1.jsonl"), "{}\n");
    let noted: Value = serde_json::from_str(&text("sessions/se1/agent/session.json")).unwrap();
    assert_eq!(noted["continuations"], json!({ "claude": "abc-1" }));
    let shown: Value = serde_json::from_str(&host.done(&["sessions", "show", "se1", "--json"], b"")).unwrap();
    assert_eq!((&shown["messages"], &shown["due"]), (&json!(2), &json!(2)));
    let listed = tasks(&host);
    assert_eq!((&listed[0]["state"], &listed[0]["prompt"]), (&json!("paused"), &json!("rest")), "{listed:#?}");
    assert_eq!((&listed[1]["recurrence"], &listed[1]["session"]), (&json!("0 9 * * 0"), &json!("se1")));
    assert!(host.done(&["destinations", "list", "andy"], b"").contains("home"));
    host.done(&["check"], b"");

    let kept = (host.done(&["export"], b""), tasks(&host));
    let again = import(&host, &root, &[]);
    assert_eq!(taken(&again), Vec::<&Value>::new());
    assert_eq!((host.done(&["export"], b""), tasks(&host)), kept);
}

#[test]
fn keys_are_named_without_their_values_and_the_report_ends_with_next_steps() {
    let host = Host::before_the_first_start();
    let root = version_2(&host);
    file(
        &root.join(".env"),
        "TELEGRAM_BOT_TOKEN=hush1\nexport ANTHROPIC_API_KEY='hush2'\nOTHER_SECRET=hush3\nTZ=hush4\n",
    );
    let run = |more: &[&str]| {
        let text = host.done(&[&["import", "nanoclaw", root.to_str().unwrap()], more].concat(), b"");
        assert!(!text.contains("hush") && !text.contains("TZ"), "{text}");
        text
    };
    let rehearsed = run(&["--dry-run"]);
    assert!(
        rehearsed.ends_with("next steps:\n  repeat the command without --dry-run, with NanoClaw stopped\n"),
        "{rehearsed}"
    );
    let text = run(&[]);
    for part in [
        "add `token = \"env:TELEGRAM_BOT_TOKEN\"` below [channels.telegram]",
        "add `env = { ANTHROPIC_API_KEY = \"env:ANTHROPIC_API_KEY\" }`",
        "refer to it as `\"env:OTHER_SECRET\"`",
        "write [channels.slack], [channels.telegram] into hearth.toml",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.ends_with("start Hearth: `hearth service install`, or `hearth run`\n"), "{text}");
    assert!(!host.done(&["export"], b"").contains("hush"));
}

/// The report says what an agent may write and what its networks need, also in words for people.
#[test]
fn the_report_says_what_agents_can_write_and_what_whatsapp_needs() {
    let host = Host::before_the_first_start();
    let root = version_2(&host);
    database(
        &root.join("data/v2.db"),
        "INSERT INTO messaging_groups VALUES('mg-4','whatsapp','whatsapp:120@g.us','Club',1,'public',NULL,''),
             ('mg-5','signal','signal:+49','Ann',0,'public',NULL,''),('mg-6','irc','irc:c','Old',1,'public',NULL,'');",
    );
    let report = import(&host, &root, &["--dry-run"]);
    for folder in ["andy", "bob"] {
        let expected = format!(
            "it can write to its own folder and reach the whole network, as it could there; `hearth agents set {folder} \
             --network ask` has a person asked about new hosts"
        );
        assert_eq!(note(&report, "agents", folder), expected);
    }
    for (channel, chat, page) in [
        ("whatsapp", "whatsapp/whatsapp:120@g.us", "whatsapp"),
        ("signal", "signal/signal:+49", "signal"),
        ("irc", "irc/irc:c", "bridges"),
    ] {
        let needs = format!(
            "no channel `{channel}` is configured: {channel} needs a bridge; add [channels.{channel}] with `type = \"bridge\"` \
             and its command, see docs/{page}.md"
        );
        assert_eq!(note(&report, "chats", chat), needs);
        let page = format!("{}/docs/{page}.md", env!("CARGO_MANIFEST_DIR"));
        assert!(Path::new(&page).is_file(), "{page}");
    }
    let text = host.done(&["import", "nanoclaw", root.to_str().unwrap()], b"");
    for part in
        ["it can write to its own folder and reach the whole network", "whatsapp needs a bridge", "[channels.whatsapp]"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    // It is true, and so is the way to narrow it.
    let network = || {
        let shown: Value = serde_json::from_str(&host.done(&["agents", "show", "andy", "--json"], b"")).unwrap();
        shown["network"].as_str().unwrap().to_owned()
    };
    assert_eq!(network(), "open");
    host.done(&["agents", "set", "andy", "--network", "ask"], b"");
    assert_eq!(network(), "ask");
}

/// An imported agent has no more trust than it had: not the directory that trusted agents share.
#[test]
fn an_imported_agent_writes_its_own_folder_and_not_what_trusted_agents_share() {
    if !possible() {
        return;
    }
    let mut host = Host::new();
    let root = version_2(&host);
    import(&host, &root, &[]);
    let trusted = host.data().join("trusted");
    std::fs::create_dir_all(&trusted).unwrap();
    let others = host.data().join("groups/bob/from-andy.txt");
    let program = format!(
        "{PROTOCOL}\ndef answer(text):\n    places = ['own.txt', 'notes/deep/b.txt', {:?}, {:?}]\n    \
         return ' '.join(tried(open, place, 'w') for place in places)\nmain()\n",
        trusted.join("x").display().to_string(),
        others.display().to_string(),
    );
    let group = host.data().join("groups/andy");
    std::fs::write(group.join("agent.py"), program).unwrap();
    let set = ["agents", "set", "andy", "--provider", "command", "--command", "python3", "--command", "agent.py"];
    host.done(&set, b"");
    host.start();
    let said = host.done(&["chat", "--agent", "andy", "go"], b"");
    assert_eq!(said.trim(), "DONE DONE forbidden forbidden");
    assert!(group.join("own.txt").is_file() && group.join("notes/deep/b.txt").is_file());
    assert!(!trusted.join("x").exists() && !others.exists());
    host.stop();
    host.check();
}

/// Changes that people made after the first import stay.
#[test]
fn what_is_here_is_never_changed() {
    let host = Host::new();
    let root = version_2(&host);
    host.apply("schema = 1\n[[agents]]\nfolder = \"andy\"\nname = \"Mine\"\n[[chats]]\nchannel = \"slack\"\nplatform_id = \"slack:C1\"\nunknown_senders = \"public\"\n");
    std::fs::create_dir_all(host.data().join("groups/andy")).unwrap();
    std::fs::write(host.data().join("groups/andy/CLAUDE.local.md"), "mine").unwrap();
    let report = import(&host, &root, &[]);
    assert!(note(&report, "agents", "andy").contains("with a different folder_access, name;"));
    assert!(note(&report, "chats", "slack/slack:C1").contains("a different rule for unknown senders"));
    assert!(note(&report, "files", "groups/andy/CLAUDE.local.md").contains("a different one already exists here"));
    assert_eq!(std::fs::read_to_string(host.data().join("groups/andy/CLAUDE.local.md")).unwrap(), "mine");
    let export = host.done(&["export"], b"");
    assert!(export.contains("name = \"Mine\"") && export.contains("unknown_senders = \"public\""), "{export}");
}

#[test]
fn a_running_daemon_takes_it_over_and_goes_on_with_it() {
    let mut host = Host::new();
    let root = version_2(&host);
    host.start();
    let report = import(&host, &root, &[]);
    assert_eq!((counts(&report, "agents").0, counts(&report, "messages").0, counts(&report, "tasks").0), (2, 2, 2));
    assert_eq!(taken(&import(&host, &root, &[])), Vec::<&Value>::new());
}

const V1: &str = "
    CREATE TABLE registered_groups(jid TEXT PRIMARY KEY, name TEXT, folder TEXT, trigger_pattern TEXT, added_at TEXT,
        container_config TEXT, requires_trigger INTEGER, is_main INTEGER);
    INSERT INTO registered_groups VALUES('tg:77','Me','main','@Andy','',NULL,1,1),
        ('120@g.us','Family','family','@Andy','','{\"additionalMounts\":[{\"hostPath\":\"/srv/x\"}]}',1,0),
        ('bare','Bare','bare',NULL,'',NULL,1,0),('tg:9','Bad','a b',NULL,'',NULL,1,0);
    CREATE TABLE chats(jid TEXT, name TEXT); INSERT INTO chats VALUES('tg:77','Me'),('tg:5','Stranger');
    CREATE TABLE messages(id TEXT, chat_jid TEXT, sender TEXT, sender_name TEXT, content TEXT, timestamp TEXT, is_from_me INTEGER);
    INSERT INTO messages VALUES('1','tg:77','77','Ann','old','2026-01-01T00:00:00.000Z',0),
        ('2','tg:77','77','Ann','new','2026-01-03T00:00:00.000Z',0),('3','tg:77','8','bot','answer','2026-01-03T00:00:01.000Z',1),
        ('4','120@g.us','15@s.whatsapp.net','Bo','@andy hi','2026-01-03T00:00:00.000Z',0),
        ('5','120@g.us','15@s.whatsapp.net','Bo','not for it','2026-01-03T00:00:01.000Z',0);
    CREATE TABLE router_state(key TEXT, value TEXT);
    INSERT INTO router_state VALUES('last_agent_timestamp','{\"tg:77\":\"2026-01-02T00:00:00.000Z\"}'),
        ('last_timestamp','2026-01-02T00:00:00.000Z');
    CREATE TABLE sessions(group_folder TEXT, session_id TEXT); INSERT INTO sessions VALUES('main','conv-1');
    CREATE TABLE scheduled_tasks(id TEXT PRIMARY KEY, group_folder TEXT, chat_jid TEXT, prompt TEXT, schedule_type TEXT,
        schedule_value TEXT, context_mode TEXT, next_run TEXT, status TEXT);
    INSERT INTO scheduled_tasks VALUES('a','main','tg:77','every hour','interval','3600000','group','2099-01-01T00:00:00.000Z','active'),
        ('b','family','120@g.us','alone','cron','0 9 * * 7','isolated',NULL,'paused'),
        ('c','main','tg:77','over','once','2020-01-01T00:00:00','group',NULL,'completed'),
        ('d','a b','tg:9','lost','cron','0 9 * * *','group',NULL,'active');";

#[test]
fn version_1_is_taken_over_without_opening_its_chats() {
    let host = Host::new();
    let root = host.path("nanoclaw");
    database(&root.join("store/messages.db"), V1);
    file(&root.join("groups/main/CLAUDE.md"), "You are Andy.");
    file(&root.join("data/sessions/main/.claude/projects/-workspace-group/conv-1.jsonl"), "{}\n");
    let rehearsed = import(&host, &root, &["--dry-run"]);
    assert_eq!(rehearsed["version"], "v1");
    let report = import(&host, &root, &[]);
    for (kind, expected) in [
        ("agents", (3, 0, 1)),
        ("chats", (2, 0, 2)),
        ("users", (2, 0, 0)),
        ("sessions", (1, 0, 0)),
        ("tasks", (2, 0, 2)),
        // A message that the agent would have refused is refused.
        ("messages", (2, 0, 1)),
    ] {
        assert_eq!(counts(&report, kind), expected, "{kind}: {report:#}");
    }
    let export = host.done(&["export"], b"");
    assert!(export.contains("unknown_senders = \"request_approval\"") && !export.contains("\"public\""), "{export}");
    assert!(export.contains("trust = \"main\"") && export.contains("/srv/x"), "{export}");
    let listed = tasks(&host);
    let of = |prompt: &str| listed.iter().find(|task| task["prompt"] == prompt).unwrap();
    assert_eq!((&of("every hour")["recurrence"], &of("every hour")["session"]), (&json!("1h"), &json!("se1")));
    let alone = of("alone");
    assert_eq!((&alone["state"], &alone["session"], alone["chat"].is_null()), (&json!("paused"), &json!(null), false));
    assert_eq!(taken(&import(&host, &root, &[])), Vec::<&Value>::new());
}

/// Whenever the import is killed, the next one ends with the same result as an undisturbed one.
#[test]
fn an_interrupted_run_is_gone_on_with() {
    let whole = Host::new();
    import(&whole, &version_2(&whole), &[]);
    let state = |host: &Host| {
        let tasks = tasks(host).iter().map(|task| (task["prompt"].clone(), task["state"].clone())).collect::<Vec<_>>();
        let shown: Value = serde_json::from_str(&host.done(&["sessions", "show", "se1", "--json"], b"")).unwrap();
        (host.done(&["export"], b""), tasks, shown["messages"].clone())
    };
    let expected = state(&whole);
    for pause in [10, 60, 120, 250, 500] {
        let host = Host::new();
        let root = version_2(&host);
        let mut run = host.command(&["import", "nanoclaw", root.to_str().unwrap()]).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(pause));
        run.kill().unwrap();
        run.wait().unwrap();
        import(&host, &root, &[]);
        assert_eq!(state(&host), expected, "{pause}");
        host.done(&["check"], b"");
    }
}

#[test]
fn what_is_none_is_told() {
    let host = Host::before_the_first_start();
    let told = host.run(&["import", "nanoclaw", host.path("nothing").to_str().unwrap()], b"");
    assert_eq!(told.code, Some(1));
    assert!(told.stderr.contains("is not an installation of NanoClaw"), "{told:?}");
    assert_eq!(host.run(&["import", "nanoclaw"], b"").code, Some(2));
    let root = version_2(&host);
    std::fs::write(root.join("data/v2.db"), vec![7; 5_000]).unwrap();
    let told = host.run(&["import", "nanoclaw", root.to_str().unwrap()], b"");
    assert!(told.code == Some(1) && told.stderr.contains("v2.db is damaged"), "{told:?}");
    assert!(!host.data().exists());
}

/// Texts of unknown senders in a NanoClaw configuration are neither executed nor used as paths, and everything that
/// agents will run and reach is listed before anything is imported.
#[test]
fn foreign_texts_are_taken_as_texts_and_listed() {
    let host = Host::new();
    let root = version_2(&host);
    let (ran, json) = (host.path("ran"), root.join("groups/andy/container.json"));
    let config = json!({
        "mcpServers": { "x": { "command": "true", "args": ["a\u{202e}b"], "env": {
            "A": format!("cmd:touch {}", ran.display()), "API_KEY": format!("cmd:touch {}", ran.display()),
        } } },
        "additionalMounts": [{ "hostPath": "/srv/x", "readonly": false }],
        "packages": { "apt": ["jq"] },
    });
    file(&json, &config.to_string());
    let own = "env:HEARTH_IMPORT_ANDY_X_API_KEY";
    let grants = json!([
        { "agent": "andy", "kind": "mcp_server", "name": "x", "command": ["true", "a\u{202e}b"],
          "env": [{ "name": "A", "reference": null }, { "name": "API_KEY", "reference": own }],
          "shown": format!("andy runs the MCP server \"x\": \"true\" \"a\\u{{202e}}b\", with A, API_KEY = {own}") },
        { "agent": "andy", "kind": "mount", "name": "/srv/x", "access": "read-write",
          "shown": "andy reads and changes \"/srv/x\"" },
        { "agent": "andy", "kind": "apt", "name": "jq", "shown": "andy has the apt package \"jq\" in its image" },
    ]);
    assert_eq!(import(&host, &root, &["--dry-run"])["grants"], grants);
    let text = host.done(&["import", "nanoclaw", root.to_str().unwrap(), "--dry-run"], b"");
    assert!(text.contains("\"a\\u{202e}b\"") && !text.contains('\u{202e}'), "{text}");
    let report = import(&host, &root, &[]);
    assert_eq!(report["grants"], grants);
    assert!(note(&report, "agents", "andy").contains("groups/andy/container.json"));
    let left = report["items"].as_array().unwrap().iter().find(|item| item["name"] == "groups/andy/container.json");
    assert_eq!(left, None, "it is not called left out");
    let exported = host.done(&["export"], b"");
    assert!(exported.contains(&format!("A = {{ value = \"cmd:touch {}\" }}", ran.display())), "{exported}");
    assert!(exported.contains(&format!("API_KEY = \"{own}\"")), "{exported}");
    let toml = host.path("again.toml");
    std::fs::write(&toml, &exported).unwrap();
    let again: Value = serde_json::from_str(&host.done(&["apply", toml.to_str().unwrap(), "--json"], b"")).unwrap();
    let actions = again["changes"].as_array().unwrap();
    assert!(actions.iter().all(|change| change["action"] == "unchanged"), "{again:#}");
    assert_eq!(host.done(&["export"], b""), exported);
    assert!(!ran.exists());
    assert_eq!(import(&host, &root, &[])["grants"], json!([]), "nothing more is imported");
}
