//! Both versions as they are found: mapping tables, odd rows, files that are none.

use std::path::Path;

use rusqlite::Connection;

use super::*;
use crate::model::entity::{Engage, Ignored, SenderScope, SessionMode, Trust, UnknownSenders};

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

fn found(dir: &tempfile::TempDir) -> Found {
    read(dir.path(), &wishes()).unwrap()
}

/// Why something was left out.
fn why(found: &Found, kind: Kind, name: &str) -> String {
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
        ("'pattern','(','all','drop','shared',0", Err("its pattern cannot be one here: it is none")),
        (
            "'always',NULL,'all','drop','shared',0",
            Err("its engage mode `always` is not known, with which NanoClaw never answered"),
        ),
        ("NULL,NULL,'all','drop','shared',0", Err("it has no engage mode, with which NanoClaw never answered")),
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
    assert!(why(&found, Kind::Destination, "andy -> lost").contains("not taken over"));
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
    assert!(said(&other).contains("it is not a file"));
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
