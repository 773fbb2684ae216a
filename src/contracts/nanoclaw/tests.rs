//! Both versions: mapping tables, unusual rows, and invalid files.

use std::path::Path;

use rusqlite::Connection;

use super::*;
use crate::model::entity::{Engage, EnvValue, Ignored, SenderScope, SessionMode, Trust, UnknownSenders};

fn wishes() -> Wishes<'static> {
    Wishes {
        strangers: UnknownSenders::RequestApproval,
        pattern: &|text| if text == "(" { Err("it is none".to_owned()) } else { Ok(()) },
        recurrence: &|text| if text.contains('!') { Err("it is none".to_owned()) } else { Ok(()) },
        time: &|text| if text == "soon" { Err("it is none".to_owned()) } else { Ok(()) },
    }
}

/// An installation with this database.
fn installation(path: &str, sql: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    database(&dir.path().join(path), sql);
    dir
}

fn database(path: &Path, sql: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

fn found(dir: &tempfile::TempDir) -> Inventory {
    read(dir.path(), &wishes()).unwrap()
}

/// Why something was skipped.
fn why(found: &Inventory, kind: Kind, name: &str) -> String {
    let item = found.items.iter().find(|item| item.kind == kind && item.name == name);
    item.and_then(|item| item.note.clone()).unwrap_or_else(|| panic!("{name}: {:#?}", found.items))
}

const V1: &str = "CREATE TABLE registered_groups(jid TEXT PRIMARY KEY, name TEXT, folder TEXT, trigger_pattern TEXT, \
    added_at TEXT, container_config TEXT, requires_trigger INTEGER, is_main INTEGER);";

#[test]
fn wirings_of_version_1_follow_its_triggers() {
    let pattern = |text: &str| Engage::Pattern(text.to_owned());
    for (trigger, requires, main, expected) in [
        ("'.'", "1", "0", pattern(".")),
        ("'.*'", "NULL", "0", pattern(".")),
        ("'@Andy'", "0", "0", pattern(".")),
        ("NULL", "0", "0", pattern(".")),
        ("'@A.b '", "1", "0", pattern(r"^\s*@[aA]\.[bB]\b")),
        ("'@Ab'", "NULL", "0", pattern(r"^\s*@[aA][bB]\b")),
        ("NULL", "1", "0", Engage::Mention),
        ("'  '", "NULL", "NULL", Engage::Mention),
        ("'@Andy'", "1", "1", pattern(".")),
    ] {
        let row = format!("INSERT INTO registered_groups VALUES('tg:1','N','f',{trigger},'',NULL,{requires},{main})");
        let found = found(&installation("store/messages.db", &format!("{V1}{row}")));
        let wiring = &found.chats[0].wirings[0];
        assert_eq!(wiring.engage, expected, "{row}");
        let rest = (wiring.senders, wiring.ignored, wiring.session, wiring.priority);
        assert_eq!(rest, (SenderScope::All, Ignored::Drop, SessionMode::Shared, 0));
        let trust = found.agents.values().next().unwrap().trust;
        assert_eq!(trust == Trust::Main, main == "1");
    }
}

#[test]
fn tasks_of_version_1_keep_their_schedules() {
    let task = |kind: &str, value: &str, next: &str, status: &str| {
        let sql = format!(
            "{V1} INSERT INTO registered_groups VALUES('tg:1','N','f',NULL,'',NULL,0,0);
             CREATE TABLE scheduled_tasks(id TEXT PRIMARY KEY, group_folder TEXT, chat_jid TEXT, prompt TEXT, \
             schedule_type TEXT, schedule_value TEXT, context_mode TEXT, next_run TEXT, status TEXT);
             INSERT INTO scheduled_tasks VALUES('t','f','tg:1','p','{kind}','{value}','group',{next},'{status}');"
        );
        let found = found(&installation("store/messages.db", &sql));
        found
            .tasks
            .first()
            .map(|task| (task.first.clone(), task.recurrence.clone(), task.paused))
            .ok_or_else(|| why(&found, Kind::Task, "t"))
    };
    let at = Some("2026-02-01T09:00:00.000Z".to_owned());
    let some = |text: &str| Some(text.to_owned());
    for (kind, value, next, status, expected) in [
        ("cron", " 0 9 * * 1-5 ", "'2026-02-01T09:00:00.000Z'", "active", Ok((at.clone(), some("0 9 * * 1-5"), false))),
        ("cron", "0 9 * * 7", "NULL", "active", Ok((None, some("0 9 * * 7"), false))),
        ("cron", "0 9 !", "NULL", "active", Err("its schedule cannot be one: it is none")),
        ("interval", "3600000", "'2026-02-01 09:00:00'", "active", Ok((at.clone(), some("3600000"), false))),
        ("interval", "90m", "NULL", "paused", Ok((None, some("90m"), true))),
        ("once", "2026-02-01T09:00:00", "NULL", "active", Ok((some("2026-02-01T09:00:00"), None, false))),
        ("once", "x", "'2026-02-01 09:00:00'", "active", Ok((at.clone(), None, false))),
        ("once", "soon", "NULL", "active", Err("it is none")),
        ("once", "", "NULL", "active", Err("it has no time")),
        ("once", "x", "'never'", "active", Err("its time `never` is not a time")),
        ("once", "x", "NULL", "completed", Err("it is over")),
        ("hourly", "x", "NULL", "active", Err("its kind of schedule `hourly` is not known")),
    ] {
        assert_eq!(task(kind, value, next, status), expected.map_err(str::to_owned), "{kind} {value} {status}");
    }
}

const V2: &str = "CREATE TABLE agent_groups(id TEXT PRIMARY KEY, name TEXT, folder TEXT, agent_provider TEXT, created_at TEXT);
    CREATE TABLE messaging_groups(id TEXT PRIMARY KEY, channel_type TEXT, platform_id TEXT, name TEXT, is_group INTEGER, \
        unknown_sender_policy TEXT, denied_at TEXT, created_at TEXT);
    CREATE TABLE messaging_group_agents(id TEXT PRIMARY KEY, messaging_group_id TEXT, agent_group_id TEXT, \
        engage_mode TEXT, engage_pattern TEXT, sender_scope TEXT, ignored_message_policy TEXT, session_mode TEXT, priority INTEGER);
    INSERT INTO agent_groups VALUES('ag','Andy','andy',NULL,'');
    INSERT INTO messaging_groups VALUES('mg','slack','slack:C1','Home',1,'strict',NULL,'');";

#[test]
fn wirings_of_version_2_are_as_they_acted() {
    for (columns, expected) in [
        ("'pattern','^!','all','accumulate','per-thread',7", Ok("Pattern(\"^!\") All Accumulate PerThread 7")),
        ("'pattern',NULL,'known','drop','agent-shared',-1", Ok("Pattern(\".\") Known Drop AgentShared -1")),
        ("'mention',NULL,NULL,NULL,NULL,NULL", Ok("Mention Known Drop Shared 0")),
        ("'mention-sticky',NULL,'all','x','x',99999999999", Ok("MentionSticky All Drop Shared 2147483647")),
        ("'pattern','(','all','drop','shared',0", Err("its pattern is invalid here: it is none")),
        (
            "'always',NULL,'all','drop','shared',0",
            Err("its engage mode `always` is unknown, and NanoClaw never answered with it"),
        ),
        ("NULL,NULL,'all','drop','shared',0", Err("it has no engage mode, and NanoClaw never answered without one")),
    ] {
        let found = found(&installation(
            "data/v2.db",
            &format!("{V2}INSERT INTO messaging_group_agents VALUES('w','mg','ag',{columns});"),
        ));
        let wiring = found.chats[0].wirings.first().map(|wiring| {
            let (engage, senders, ignored, session) = (&wiring.engage, wiring.senders, wiring.ignored, wiring.session);
            format!("{engage:?} {senders:?} {ignored:?} {session:?} {}", wiring.priority)
        });
        assert_eq!(
            wiring.ok_or_else(|| why(&found, Kind::Wiring, "w")),
            expected.map(str::to_owned).map_err(str::to_owned)
        );
    }
}

#[test]
fn rows_that_mean_nothing_are_said_to_be_left_out() {
    let sql = format!(
        "{V2}
        INSERT INTO agent_groups VALUES('bad','B','../../etc',NULL,''),('twice','T','andy',NULL,''),('odd','O','odd','codex','');
        INSERT INTO messaging_groups VALUES('cli','cli','local',NULL,0,'public',NULL,''),('none','slack','',NULL,0,'strict',NULL,''),
            ('tg','telegram','telegram:-5','T',1,'nonsense','2026-01-01','');
        CREATE TABLE users(id TEXT, kind TEXT, display_name TEXT);
        INSERT INTO users VALUES('telegram:1','telegram','Ann'),('cli:local','cli',NULL),('nobody','x',NULL);
        CREATE TABLE user_roles(user_id TEXT, role TEXT, agent_group_id TEXT);
        INSERT INTO user_roles VALUES('telegram:1','owner',NULL),('telegram:1','owner',NULL),('telegram:1','admin','odd'),
            ('telegram:1','king',NULL),('telegram:2','owner','ag'),('telegram:2','admin','bad');
        CREATE TABLE agent_group_members(user_id TEXT, agent_group_id TEXT);
        INSERT INTO agent_group_members VALUES('telegram:3','ag'),('telegram:3','gone');
        CREATE TABLE agent_destinations(agent_group_id TEXT, local_name TEXT, target_type TEXT, target_id TEXT);
        INSERT INTO agent_destinations VALUES('ag','home','channel','mg'),('ag','Bad Name','channel','mg'),
            ('ag','odd','agent','odd'),('ag','lost','channel','gone');
        CREATE TABLE container_configs(agent_group_id TEXT, model TEXT, skills TEXT);
        INSERT INTO container_configs VALUES('ag','opus','not json');
        CREATE TABLE pending_approvals(id TEXT); INSERT INTO pending_approvals VALUES('x'),('y');"
    );
    let found = found(&installation("data/v2.db", &sql));
    let folders: Vec<&str> = found.agents.keys().map(crate::model::entity::Folder::as_str).collect();
    assert_eq!(folders, ["andy", "odd"]);
    assert!(why(&found, Kind::Agent, "../../etc").contains("cannot be an agent's folder"));
    assert!(why(&found, Kind::Chat, "cli/local").contains("hearth chat"));
    assert!(why(&found, Kind::Chat, "slack/").contains("no id"));
    assert!(why(&found, Kind::Other, "of chat telegram/telegram:-5").contains("`nonsense`"));
    assert!(why(&found, Kind::User, "cli:local").contains("terminal:"));
    assert!(why(&found, Kind::Right, "telegram:1 king").contains("no such role"));
    assert!(why(&found, Kind::Right, "telegram:2 owner").contains("owns everything"));
    assert!(why(&found, Kind::Destination, "andy -> Bad Name").contains("`bad-name`"));
    assert!(why(&found, Kind::Destination, "andy -> lost").contains("is not imported"));
    let approvals = found.items.iter().find(|item| item.name == "pending_approvals").unwrap();
    assert_eq!((approvals.count, approvals.outcome), (2, Outcome::LeftOut));
    assert_eq!((found.destinations.len(), found.denied.len()), (2, 1));
    let ann = &found.users[0];
    assert_eq!((ann.name.as_deref(), ann.roles.len()), (Some("Ann"), 2), "{ann:?}");
    assert_eq!(found.chats[1].platform_id.as_str(), "-5");
}

#[test]
fn what_is_no_installation_is_an_error_that_names_it() {
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(read(empty.path(), &wishes()), Err(Error::NotThere { .. })));
    let said = |dir: &tempfile::TempDir| read(dir.path(), &wishes()).unwrap_err().to_string();
    let other = installation("store/messages.db", "CREATE TABLE x(y)");
    assert!(said(&other).ends_with("messages.db is not a database of NanoClaw: it has no table `registered_groups`"));
    let older = installation("store/messages.db", "CREATE TABLE registered_groups(jid)");
    assert!(said(&older).ends_with("its table `registered_groups` has no column `folder`"));
    std::fs::write(other.path().join("store/messages.db"), "no database at all, but long enough to look at it")
        .unwrap();
    assert!(said(&other).contains("is damaged: file is not a database"), "{}", said(&other));
    std::fs::remove_file(other.path().join("store/messages.db")).unwrap();
    std::fs::create_dir(other.path().join("store/messages.db")).unwrap();
    assert!(said(&other).contains("it is not a regular file"));
}

/// What is in the log only is read, and nothing is made or changed beside the original.
#[test]
fn a_database_in_use_is_read_and_left_alone() {
    let dir = installation("store/messages.db", V1);
    let path = dir.path().join("store/messages.db");
    let writer = Connection::open(&path).unwrap();
    writer.pragma_update(None, "journal_mode", "WAL").unwrap();
    writer.execute("INSERT INTO registered_groups VALUES('tg:1','N','f',NULL,'',NULL,0,0)", []).unwrap();
    let look = || {
        let mut all: Vec<_> =
            std::fs::read_dir(dir.path().join("store")).unwrap().map(|entry| entry.unwrap().path()).collect();
        all.sort();
        all.into_iter().map(|path| (std::fs::read(&path).unwrap(), path)).collect::<Vec<_>>()
    };
    let before = look();
    assert!(before.iter().any(|(_, path)| path.to_string_lossy().ends_with("-wal")));
    assert_eq!(found(&dir).agents.len(), 1);
    assert!(look() == before);
}

/// An installation of version 2 in which the folder of agent `andy` has this `container.json`.
fn with_config(put: impl FnOnce(&Path)) -> tempfile::TempDir {
    let dir = installation("data/v2.db", V2);
    let group = dir.path().join("groups/andy");
    std::fs::create_dir_all(&group).unwrap();
    put(&group.join("container.json"));
    dir
}

fn fifo(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

/// A file that the agent could write is treated as untrusted text from a regular file of limited size. It cannot
/// determine where values are read from.
#[test]
fn a_container_configuration_is_read_and_said_to_be() {
    let json = r#"{"mcpServers":{"x":{"command":"x","env":{"A":"cmd:touch /tmp/x","A_KEY":"cmd:touch /tmp/y"}}}}"#;
    let dir = with_config(|path| std::fs::write(path, json).unwrap());
    let found = found(&dir);
    let settings = found.agents.values().next().unwrap();
    let env = settings.mcp_servers[0].env.clone();
    let own = "env:HEARTH_IMPORT_ANDY_X_A_KEY".to_owned();
    let plain = EnvValue::Plain("cmd:touch /tmp/x".to_owned());
    assert_eq!(env, [("A".to_owned(), plain), ("A_KEY".to_owned(), EnvValue::Reference(own))]);
    let items = plan::plan(&found, &plan::Known::default()).items;
    let agent = items.iter().find(|item| item.kind == Kind::Agent).unwrap();
    assert!(agent.note.as_ref().unwrap().contains("groups/andy/container.json"), "{agent:?}");
    let data = tempfile::tempdir().unwrap();
    let paths = crate::config::Paths::find(Some(data.path())).unwrap();
    for tree in &found.trees {
        assert_eq!(survey(dir.path(), &paths, tree).unwrap(), Copied::default(), "it is not called left out");
    }
}

#[test]
fn links_and_pipes_are_not_read() {
    let elsewhere = tempfile::tempdir().unwrap();
    let secret = elsewhere.path().join("secret.json");
    std::fs::write(&secret, r#"{"model":"leaked"}"#).unwrap();
    let link = with_config(|path| std::os::unix::fs::symlink(&secret, path).unwrap());
    let pipe = with_config(fifo);
    let long = with_config(|path| std::fs::write(path, vec![b' '; 2 << 20]).unwrap());
    for (dir, reason) in [(link, "links are not followed"), (pipe, "not a regular file"), (long, "at most")] {
        let found = found(&dir);
        assert_eq!(found.agents.values().next().unwrap().model, None);
        assert!(why(&found, Kind::Other, "of agent andy").contains(reason), "{:#?}", found.items);
    }
    let linked = installation("data/v2.db", V2);
    let groups = elsewhere.path().join("andy");
    std::fs::create_dir(&groups).unwrap();
    std::fs::copy(&secret, groups.join("container.json")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), linked.path().join("groups")).unwrap();
    assert_eq!(found(&linked).agents.values().next().unwrap().model, None);
}

#[test]
fn a_database_is_a_regular_file_of_its_own_directory() {
    let real = installation("data/v2.db", V2);
    let refused = |put: &dyn Fn(&Path)| {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path());
        read(dir.path(), &wishes()).unwrap_err().to_string()
    };
    let data = |dir: &Path| {
        std::fs::create_dir(dir.join("data")).unwrap();
        dir.join("data/v2.db")
    };
    let link = |dir: &Path| std::os::unix::fs::symlink(real.path().join("data/v2.db"), data(dir)).unwrap();
    assert!(refused(&link).contains("links are not followed"));
    assert!(refused(&|dir| fifo(&data(dir))).contains("not a regular file"));
    let parent = |dir: &Path| std::os::unix::fs::symlink(real.path().join("data"), dir.join("data")).unwrap();
    assert!(refused(&parent).contains("put the directory itself in its place"));
    for beside in ["-wal", "-journal"] {
        let with = |dir: &Path| {
            let place = data(dir);
            database(&place, V2);
            fifo(&place.with_file_name(format!("v2.db{beside}")));
        };
        assert!(refused(&with).contains("not a regular file"), "{beside}");
    }
}

/// SQLite deletes the file that such a journal names, wherever it is.
#[test]
fn a_journal_that_names_another_file_is_refused() {
    let dir = installation("data/v2.db", V2);
    let victim = dir.path().join("victim");
    std::fs::write(&victim, "").unwrap();
    let name = victim.to_str().unwrap().as_bytes();
    let magic = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    let number = |number: usize| u32::try_from(number).unwrap().to_be_bytes();
    // A header with changes to undo, one page, then the name of the other journal with its length and checksum.
    let page_size = 4_096_u32;
    let mut journal = magic.to_vec();
    for number in [0, 1, 1, 512, page_size] {
        journal.extend(number.to_be_bytes());
    }
    journal.resize(512, 0);
    journal.extend(number(1_073_741_824 / 4_096 + 1));
    journal.extend(name);
    journal.extend(number(name.len()));
    journal.extend(number(name.iter().map(|byte| usize::from(*byte)).sum()));
    journal.extend(magic);
    std::fs::write(dir.path().join("data/v2.db-journal"), journal).unwrap();
    assert!(read(dir.path(), &wishes()).unwrap_err().to_string().contains("refers to another file"));
    assert!(victim.exists());
}

/// An agent can write into its own session's directory. Files that it puts there affect no other session.
#[test]
fn a_pipe_in_a_session_costs_that_session_only() {
    let sql = format!(
        "{V2} CREATE TABLE sessions(id TEXT, agent_group_id TEXT, messaging_group_id TEXT, thread_id TEXT, status TEXT);
        INSERT INTO sessions VALUES('s1','ag','mg',NULL,'active');"
    );
    let dir = installation("data/v2.db", &sql);
    let session = dir.path().join("data/v2-sessions/ag/s1");
    std::fs::create_dir_all(&session).unwrap();
    fifo(&session.join("outbound.db"));
    let found = found(&dir);
    assert_eq!(found.agents.len(), 1);
    assert!(why(&found, Kind::Session, "s1").contains("not a regular file"));
}

/// Virtual tables run code of SQLite's extensions over bytes of a stranger.
#[test]
fn virtual_tables_are_not_there() {
    let sql = format!(
        "{V2} CREATE VIRTUAL TABLE users USING fts5(id, kind, display_name); INSERT INTO users VALUES('telegram:1','','A');"
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data/v2.db");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    if Connection::open(&path).unwrap().execute_batch(&sql).is_err() {
        return; // this SQLite has no virtual tables
    }
    assert!(found(&dir).users.is_empty());
}
