//! The session state of an agent group: rows and a file that other programs edit, merged field by field.

mod pending;

use std::collections::{BTreeMap, BTreeSet};

use hearth::contracts::state_file::{self, Parsed};
use hearth::model::address::{Address, ChannelName, ForeignId};
use hearth::model::configure::Change;
use hearth::model::content::BlobId;
use hearth::model::entity::Folder;
use hearth::model::group::{GroupInput, StateContent, StateExport, StateFile, StateRead, StateTrouble};
use hearth::model::id::AgentId;
use hearth::model::message::Reason;
use hearth::model::policy::Policy;
use hearth::model::report::{Action, Decision, Reply};
use hearth::model::{Input, Millis};
use hearth::state::Digest;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::chance::cases;
use crate::world::{ONE, World, event_in};

const AGENT: AgentId = AgentId::new(1);

/// A file in the order and layout of another program.
const AS_PYTHON_MAY: &str = r#"{"mood": {"a": [1, {}]}, "schema_version": 1,
 "sessions": {"default": {"epoch": 1, "session_id": null}, "maintenance": {"epoch": 2}},
 "session_id": null, "pending_response": null, "seen_email_ids": ["a", "b"], "muted_threads": {"t1": true}}"#;

/// A world with an agent and its file. The holder of the lock does one thing after the other.
struct Shared {
    world: World,
    file: Option<String>,
}

impl Shared {
    fn new() -> Self {
        Self { world: World::of(ONE), file: None }
    }

    fn with(file: &Value) -> Self {
        Self { file: Some(file.to_string()), ..Self::new() }
    }

    fn group(&mut self, happened: GroupInput) -> Reply {
        self.world.put(Input::Group(AGENT, happened))
    }

    fn row(&self) -> StateFile {
        self.world.read(|db, txn| db.state_files.require(txn, &AGENT))
    }

    /// The file as the daemon hands it over.
    fn content(&self) -> StateRead {
        let Some(text) = &self.file else { return StateRead { digest: None, content: StateContent::Absent } };
        let digest = digest(text);
        let row = self.world.read(|db, txn| db.state_files.get(txn, &AGENT));
        let known = row
            .is_some_and(|row| row.trouble.is_none() && [&row.digest, &row.writing].contains(&&Some(digest.clone())));
        let content = match state_file::parse(text.as_bytes()) {
            _ if known => StateContent::Same,
            Parsed::Fields(mut fields, ids) => {
                fields.new_ids = ids;
                StateContent::Fields(fields)
            }
            Parsed::Unreadable(why) => StateContent::Unreadable(why, format!("corrupt-{}", &digest.as_str()[..4])),
            Parsed::Refused(trouble) => StateContent::Refused(trouble),
        };
        StateRead { digest: Some(digest), content }
    }

    fn read(&mut self) -> Option<StateExport> {
        let read = self.content();
        match self.group(GroupInput::StateRead(read)) {
            Reply::State(export) => export.map(|export| *export),
            other => panic!("{other:?}"),
        }
    }

    /// A look at the file, up to the step at which the process dies.
    fn look(&mut self, steps: u8) {
        let Some(export) = (steps > 0).then(|| self.read()).flatten() else { return };
        if steps > 1 {
            assert_eq!(export.digest, digest(&export.text));
            self.file = Some(export.text);
        }
        if steps > 2 {
            self.group(GroupInput::StateWritten(export.digest));
        }
    }

    fn json(&self) -> Value {
        serde_json::from_str(self.file.as_ref().unwrap()).unwrap()
    }

    /// Another program changes the file.
    fn foreign(&mut self, change: impl FnOnce(&mut Value)) {
        let mut value = self.file.as_ref().map_or_else(|| json!({"schema_version": 1}), |_| self.json());
        change(&mut value);
        self.file = Some(value.to_string());
    }

    /// The operator mutes a thread by its name in the file, with a note; without a note it is unmuted.
    fn mute(&mut self, thread: &str, note: Option<&str>) {
        let (folder, name) = (Folder::new("main").unwrap(), thread.to_owned());
        let change = match note {
            Some(note) => Change::MuteName(folder, name, Some(note.to_owned())),
            None => Change::UnmuteName(folder, name),
        };
        self.world.configure(vec![change]).unwrap();
    }
}

fn digest(text: &str) -> BlobId {
    Digest::of(text.as_bytes()).blob()
}

fn full() -> Value {
    json!({
        "mood": {"a": [1, {}]}, "schema_version": 1,
        "sessions": {"default": {"epoch": 1, "session_id": null}, "maintenance": {"epoch": 2}},
        "session_id": null, "pending_response": null, "seen_email_ids": ["a", "b"], "muted_threads": {"t1": true},
    })
}

#[test]
fn a_file_is_taken_in_and_left_as_it_is() {
    let mut shared = Shared::new();
    shared.file = Some(AS_PYTHON_MAY.to_owned());
    let before = shared.file.clone();
    shared.look(3);
    assert_eq!(shared.file, before, "nothing was to write, however it is laid out");
    assert!(!shared.row().dirty);
    assert_eq!(shared.world.read(|db, txn| db.state_fields.len(txn)), 10);
    shared.world.assert_sound();
    // Hearth writes the file in the layout of the owner's program.
    shared.mute("t2", Some("until \"5\""));
    shared.look(3);
    insta::assert_snapshot!(shared.file.clone().unwrap(), @r#"
    {
      "mood": {
        "a": [
          1,
          {}
        ]
      },
      "schema_version": 1,
      "sessions": {
        "default": {
          "epoch": 1,
          "session_id": null
        },
        "maintenance": {
          "epoch": 2
        }
      },
      "session_id": null,
      "pending_response": null,
      "seen_email_ids": [
        "a",
        "b"
      ],
      "muted_threads": {
        "t1": true,
        "t2": "until \"5\""
      }
    }
    "#);
    shared.world.assert_sound();
}

#[test]
fn nothing_is_made_where_nothing_was() {
    let mut shared = Shared::new();
    shared.look(3);
    assert_eq!((shared.file.is_none(), shared.world.read(|db, txn| db.state_files.len(txn))), (true, 0));
    shared.mute("t", Some("1"));
    shared.look(3);
    assert_eq!(shared.json(), json!({"schema_version": 1, "muted_threads": {"t": "1"}}));
}

#[test]
fn whoever_changed_a_field_last_before_a_look_has_it() {
    let mut shared = Shared::with(&full());
    shared.look(3);
    shared.mute("t1", Some("ours"));
    shared.mute("t2", Some("2"));
    shared.foreign(|file| {
        file["muted_threads"]["t3"] = json!(3);
        file["sessions"]["default"] = json!({"epoch": 9});
        file["mood"] = json!("new");
    });
    shared.look(3);
    let file = shared.json();
    assert_eq!(file["muted_threads"], json!({"t1": "ours", "t2": "2", "t3": 3}));
    assert_eq!((&file["sessions"]["default"], &file["mood"]), (&json!({"epoch": 9}), &json!("new")));
    // Both changed the field: the other program's value wins.
    shared.mute("t1", Some("ours again"));
    shared.foreign(|file| file["muted_threads"]["t1"] = json!("theirs"));
    shared.look(3);
    assert_eq!(shared.json()["muted_threads"]["t1"], json!("theirs"));
    // The other program restores the value from before Hearth's change: a change like any other.
    for value in ["1", "2"] {
        shared.mute("t2", Some(value));
        shared.look(3);
    }
    shared.foreign(|file| file["muted_threads"]["t2"] = json!("1"));
    shared.look(3);
    assert_eq!(shared.json()["muted_threads"]["t2"], json!("1"));
    // Removed by either side.
    shared.mute("t2", None);
    shared.foreign(|file| drop(file["muted_threads"].as_object_mut().unwrap().remove("t3")));
    shared.look(3);
    assert_eq!(shared.json()["muted_threads"], json!({"t1": "theirs"}));
    shared.world.assert_sound();
}

#[test]
fn a_reset_by_somebody_who_could_not_read_the_file_loses_nothing() {
    let mut shared = Shared::with(&full());
    shared.look(3);
    shared.file =
        Some(json!({"sessions": {"default": {"epoch": 3}}, "session_id": "s", "schema_version": 1}).to_string());
    shared.look(3);
    let mut expected = full();
    expected["sessions"]["default"] = json!({"epoch": 3});
    expected["session_id"] = json!("s");
    assert_eq!(shared.json(), expected);
    // Fields that every file has come back automatically, whatever else is there.
    shared.foreign(|file| {
        for name in ["session_id", "seen_email_ids"] {
            file.as_object_mut().unwrap().remove(name);
        }
    });
    shared.look(3);
    assert_eq!(shared.json(), expected);
    // A missing or broken file is created again.
    shared.file = None;
    shared.look(3);
    assert_eq!(shared.json(), expected);
    shared.file = Some("{\"schema_v".to_owned());
    shared.look(3);
    assert_eq!(shared.json(), expected);
    assert_eq!(shared.row().quarantined.len(), 1);
    shared.world.assert_sound();
}

/// A file that was never read and only fails: reported once, and each copy is named once.
#[test]
fn a_file_that_cannot_be_read_is_named_until_it_can() {
    let mut shared = Shared::new();
    shared.file = Some("{".to_owned());
    for _ in 0..2 {
        shared.look(3);
        let row = shared.row();
        assert!(matches!(row.trouble, Some(StateTrouble::Unreadable(_))), "{:?}", row.trouble);
        assert_eq!((row.quarantined.len(), row.dirty), (1, false));
    }
    let content = StateContent::Unreadable("no".to_owned(), String::new());
    shared.group(GroupInput::StateRead(StateRead { digest: Some(digest("x")), content }));
    assert_eq!(shared.row().quarantined.len(), 1, "there is no copy of it");
    for trouble in [StateTrouble::Older, StateTrouble::Older, StateTrouble::Newer("7".to_owned())] {
        shared.group(GroupInput::StateTrouble(trouble.clone()));
        assert_eq!(shared.row().trouble, Some(trouble));
    }
    // A file that was recreated from the rows no longer counts as broken.
    shared.mute("t", Some("1"));
    shared.file = Some("[".to_owned());
    shared.look(1);
    assert_eq!((shared.row().trouble, shared.row().quarantined.len()), (None, 2));
}

#[test]
fn files_of_other_versions_are_left_alone() {
    let mut shared = Shared::with(&full());
    shared.look(3);
    for (version, trouble) in [
        (json!(2), Some(StateTrouble::Newer("2".to_owned()))),
        (Value::Null, Some(StateTrouble::Older)),
        (json!(1), None),
    ] {
        shared.mute("t9", Some(&version.to_string()));
        shared.foreign(|file| file["schema_version"] = version.clone());
        let before = shared.file.clone();
        shared.look(3);
        assert_eq!(shared.row().trouble, trouble);
        assert_eq!(shared.file == before, trouble.is_some(), "{version}");
        assert_eq!(shared.row().dirty, trouble.is_some());
    }
    assert_eq!(shared.json()["muted_threads"]["t9"], json!("1"));
    shared.world.assert_sound();
}

#[test]
fn ids_are_a_window() {
    let mut shared = Shared::new();
    let ids: Vec<String> = (0..6_000).map(|n| format!("id{n}")).collect();
    shared.file = Some(json!({"schema_version": 1, "seen_email_ids": ids}).to_string());
    for _ in 0..3 {
        shared.look(3);
    }
    let there = shared.json()["seen_email_ids"].as_array().unwrap().len();
    assert_eq!(there, 5_000);
    // A lost id comes back in its position; one that is seen again stays where it is.
    shared.foreign(|file| file["seen_email_ids"] = json!(["id5999", "new", "id2000"]));
    shared.look(3);
    let ids = shared.json()["seen_email_ids"].as_array().unwrap().clone();
    assert_eq!((ids.len(), ids.last()), (5_000, Some(&json!("new"))));
    // A clock that has just jumped does not make them old: they are removed once it is trusted.
    shared.world.pass(Millis::days(31));
    shared.world.sweep();
    shared.mute("t", Some("1"));
    for _ in 0..12 {
        shared.look(3);
        shared.mute("t", Some("2"));
    }
    assert_eq!(shared.json()["seen_email_ids"], json!([]));
    shared.world.assert_sound();
}

/// What may happen between two syncs, and the step of a sync at which a process dies.
#[derive(Debug, Clone)]
enum Step {
    Foreign(u8, u8),
    Own(u8, u8),
    Look(u8),
    ForeignId(u8),
    OwnId(u8),
    Forget(u8),
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..3_u8, any::<u8>()).prop_map(|(key, value)| Step::Foreign(key, value)),
        (0..3_u8, any::<u8>()).prop_map(|(key, value)| Step::Own(key, value)),
        (1..4_u8).prop_map(Step::Look),
        (0..9_u8).prop_map(Step::ForeignId),
        (0..9_u8).prop_map(Step::OwnId),
        (0..3_u8).prop_map(Step::Forget),
    ]
}

proptest! {
    #![proptest_config(cases(96))]

    /// Foreign and own writes in any order, with a death after any step of any look: the last write of each side to its
    /// own fields stands, and no id is lost.
    #[test]
    fn no_interleaving_loses_a_field(steps in prop::collection::vec(a_step(), 1..40)) {
        let mut shared = Shared { world: World::new(), file: None };
        shared.world.apply(ONE);
        shared.file = Some(json!({"schema_version": 1, "muted_threads": {}, "seen_email_ids": []}).to_string());
        let mut expected = BTreeMap::new();
        let mut ids = BTreeSet::new();
        for step in steps {
            match step {
                Step::Foreign(key, value) => {
                    let key = format!("f{key}");
                    let value = value.to_string();
                    shared.foreign(|file| file["muted_threads"][&key] = json!(value));
                    expected.insert(key, value);
                }
                Step::Own(key, value) => {
                    let key = format!("o{key}");
                    let value = value.to_string();
                    shared.mute(&key, Some(&value));
                    expected.insert(key, value);
                }
                Step::Forget(key) => {
                    let key = format!("o{key}");
                    if expected.remove(&key).is_some() {
                        shared.mute(&key, None);
                    }
                }
                Step::Look(steps) => shared.look(steps),
                Step::ForeignId(id) => {
                    let id = format!("f{id}");
                    shared.foreign(|file| {
                        let there = file["seen_email_ids"].as_array_mut().unwrap();
                        if !there.contains(&json!(id)) {
                            there.push(json!(id));
                        }
                    });
                    ids.insert(id);
                }
                Step::OwnId(id) => {
                    let id = format!("o{id}");
                    shared.group(GroupInput::StateSeen(vec![format!("\"{id}\"")]));
                    ids.insert(id);
                }
            }
        }
        shared.look(3);
        let file = shared.json();
        let muted: BTreeMap<String, String> = serde_json::from_value(file["muted_threads"].clone()).unwrap();
        prop_assert_eq!(muted, expected);
        let seen: Vec<String> = serde_json::from_value(file["seen_email_ids"].clone()).unwrap();
        prop_assert_eq!(seen.len(), ids.len());
        prop_assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), ids);
        prop_assert!(!shared.row().dirty);
        shared.world.assert_sound();
    }
}

#[test]
fn of_a_long_list_of_ids_the_newest_are_kept_and_shown() {
    let mut shared = Shared::with(&json!({"schema_version": 1}));
    shared.look(3);
    let ids: Vec<String> = (0..12_000).map(|number| format!("\"id{number}\"")).collect();
    shared.foreign(|file| file["seen_email_ids"] = ids.iter().map(|id| Value::from(id.trim_matches('"'))).collect());
    // As the daemon hands them over: in parts, the last one with the fields.
    let parts: Vec<_> = ids.chunks(250).collect();
    let (last, before) = parts.split_last().unwrap();
    for part in before {
        shared.group(GroupInput::StateSeen(part.to_vec()));
        assert!(shared.world.read(|db, txn| db.seen_ids.len(txn)) <= 5_000);
    }
    let mut read = shared.content();
    if let StateContent::Fields(fields) = &mut read.content {
        fields.new_ids = last.to_vec();
    }
    let Reply::State(Some(export)) = shared.group(GroupInput::StateRead(read)) else { panic!() };
    shared.file = Some(export.text);
    shared.group(GroupInput::StateWritten(export.digest));
    let shown = shared.json()["seen_email_ids"].as_array().unwrap().clone();
    assert_eq!((shown.len(), &shown[0], &shown[4_999]), (5_000, &json!("id7000"), &json!("id11999")));
    assert_eq!(shared.world.read(|db, txn| db.seen_ids.len(txn)), 5_000);
}

/// In one part or in many, and with later parts lost.
#[test]
fn the_state_of_a_removed_agent_goes() {
    for (rows, lost) in [(Policy::STANDARD.rows_per_input, false), (16, false), (16, true)] {
        let mut shared =
            Shared { world: World::with(Policy { rows_per_input: rows, ..Policy::STANDARD }, |_| {}), file: None };
        shared.world.apply(ONE);
        shared.file = Some(full().to_string());
        shared.look(3);
        let ids: Vec<String> = (0..rows.min(20)).map(|number| format!("\"id{number}\"")).collect();
        shared.group(GroupInput::StateSeen(ids));
        for number in 0..9 {
            shared.mute(&format!("m{number}"), Some("1"));
            shared
                .foreign(|file| file["pending_response"] = json!({"message_id": format!("p{number}"), "preview": "p"}));
            shared.look(3);
        }
        for number in 0..40 {
            shared.mute(&format!("t{number}"), Some("1"));
        }
        assert_eq!(shared.world.read(|db, txn| db.pending_responses.len(txn)), 9);
        let folder = shared.world.read(|db, txn| db.agents.require(txn, &AGENT)).folder;
        shared.world.lose_effects();
        shared.world.configure(vec![hearth::model::configure::Change::RemoveAgent(folder)]).unwrap();
        for _ in 0..40 {
            if lost {
                shared.world.perform_alone();
            } else {
                shared.world.settle();
            }
            shared.world.sweep();
        }
        assert!(shared.world.effects.is_empty(), "{rows}: {:?}", shared.world.effects);
        let left = shared.world.read(|db, txn| {
            let fields = db.state_files.len(txn)? + db.state_files_dirty.len(txn)? + db.state_fields.len(txn)?;
            let ids = db.seen_ids.len(txn)? + db.seen_ids_by_position.len(txn)? + db.state_mutes.len(txn)?;
            Ok(fields + ids + db.pending_responses.len(txn)? + db.pending_responses_due.len(txn)?)
        });
        assert_eq!(left, 0, "{rows} {lost}");
        shared.look(1);
        assert_eq!(shared.world.read(|db, txn| db.state_files.len(txn)), 0, "nobody looks at it any more");
    }
}

#[test]
fn copies_that_are_gone_are_forgotten() {
    let mut shared = Shared::with(&full());
    shared.look(3);
    for broken in ["{", "["] {
        shared.file = Some(broken.to_owned());
        shared.look(3);
    }
    let copies = shared.row().quarantined;
    assert_eq!(copies.len(), 2);
    shared.group(GroupInput::CopiesGone(vec![copies[0].clone(), "another".to_owned()]));
    assert_eq!(shared.row().quarantined, copies[1..]);
}

#[test]
fn a_clock_that_has_just_jumped_ahead_makes_nothing_old() {
    const DAY: i64 = 24 * 60 * 60_000;
    let mut shared = Shared::with(&full());
    shared.foreign(|file| file["pending_response"] = json!({"message_id": "m"}));
    shared.look(3);
    let left =
        |shared: &Shared| shared.world.read(|db, txn| Ok((db.seen_ids.len(txn)?, db.pending_responses_due.len(txn)?)));
    let waits = |shared: &Shared| {
        let row = shared.world.read(|db, txn| Ok(db.pending_responses.iter(txn)?.next().unwrap()?.1));
        row.state == hearth::model::group::PendingState::Waiting
    };
    shared.world.step_clock(1_000 * DAY);
    shared.foreign(|file| file["mood"] = json!(2));
    shared.look(3);
    shared.world.sweep();
    assert_eq!((left(&shared), waits(&shared)), ((2, 1), true));
    shared.world.pass(Millis::minutes(61));
    shared.foreign(|file| file["mood"] = json!(3));
    shared.look(3);
    shared.world.sweep();
    assert_eq!((left(&shared).0, waits(&shared)), (0, false));
}

/// A thread muted by a program of the group does not wake the agent, under any name that programs give to a thread or a
/// chat, and wakes it again once it is unmuted.
#[test]
fn a_thread_that_the_group_mutes_wakes_nobody() {
    for (name, thread, chat) in [
        ("t1", true, false),
        ("C:t1", true, false),
        ("net/C/t1", true, false),
        ("C", true, true),
        ("net:C", true, true),
        ("t2", false, false),
    ] {
        let mut shared = Shared::with(&full());
        shared.look(3);
        let mut n = 0;
        let mut heard = |shared: &mut Shared, thread: Option<&str>| {
            n += 1;
            let said = (&*format!("m{n}"), "x", "\"senderId\":\"ann\"");
            let report = shared.world.inject(&event_in(("net", "C", thread), said, ""));
            assert_eq!(report.wirings[0].why == Reason::Muted, report.wirings[0].decision == Decision::Ignored);
            report.wirings[0].decision == Decision::Engaged
        };
        shared.foreign(|file| file["muted_threads"] = json!({name: {"muted_at": "2026-04-20T12:00:00Z"}}));
        shared.look(3);
        let found = (heard(&mut shared, Some("t1")), heard(&mut shared, None));
        assert_eq!(found, (!thread, !chat), "{name}");
        shared.foreign(|file| file["muted_threads"] = json!({}));
        shared.look(3);
        assert_eq!((heard(&mut shared, Some("t1")), heard(&mut shared, None)), (true, true), "{name}");
    }
}

/// The operator undoes a program's mute: by the address, if the program's name follows from it, and by the program's
/// own name.
#[test]
fn an_operator_lets_a_thread_be_heard_that_the_group_muted() {
    let folder = || Folder::new("main").unwrap();
    let place = |thread: Option<&str>| Address {
        channel: ChannelName::new("net").unwrap(),
        platform_id: ForeignId::new("a chat", "C").unwrap(),
        thread: thread.map(|thread| ForeignId::new("a thread", thread).unwrap()),
    };
    for (name, change) in [
        ("t1", Change::Unmute(folder(), place(Some("t1")))),
        ("net:C/t1", Change::UnmuteName(folder(), "net:C/t1".to_owned())),
        ("net/C/t1", Change::Unmute(folder(), place(Some("t1")))),
        ("C", Change::Unmute(folder(), place(None))),
        ("\u{e9}\"", Change::UnmuteName(folder(), "\u{e9}\"".to_owned())),
    ] {
        let mut shared = Shared::with(&full());
        shared.foreign(|file| file["muted_threads"] = json!({name: {"why": "noise"}, "stays": 1, "not": false}));
        shared.look(3);
        assert_eq!(shared.world.read(|db, txn| db.state_mutes.len(txn)), 2, "{name}");
        let reports = shared.world.configure(vec![change.clone()]).unwrap();
        assert_eq!(reports[0].action, Action::Removed, "{name}");
        // Before the file is written.
        assert_eq!(shared.world.read(|db, txn| db.state_mutes.len(txn)), 1, "{name}");
        shared.look(3);
        assert_eq!(shared.json()["muted_threads"], json!({"stays": 1, "not": false}), "{name}");
        let before = shared.world.text();
        let refusal = shared.world.configure(vec![change]).unwrap_err();
        assert!(refusal.message.contains("is not muted for main"), "{}", refusal.message);
        assert_eq!(shared.world.text(), before);
        shared.world.assert_sound();
    }
    // A name that is not valid text is addressed by its displayed form.
    let mut shared = Shared::with(&full());
    shared.file = Some(full().to_string().replace("\"t1\"", "\"\\ud800\""));
    shared.look(3);
    shared.world.configure(vec![Change::UnmuteName(folder(), "\\ud800".to_owned())]).unwrap();
    shared.look(3);
    assert_eq!(shared.json()["muted_threads"], json!({}));
    // Unmuting a chat does not unmute its threads, nor the other way round.
    let mut shared = Shared::with(&full());
    shared.foreign(|file| file["muted_threads"] = json!({"C/t1": true, "C": true}));
    shared.look(3);
    shared.world.configure(vec![Change::Unmute(folder(), place(None))]).unwrap();
    shared.look(3);
    assert_eq!(shared.json()["muted_threads"], json!({"C/t1": true}));
    // The command reports every mute that it ended: a name without a chat also applies to threads of other chats.
    shared.foreign(|file| file["muted_threads"]["t1"] = json!(true));
    shared.look(3);
    shared.world.configure(vec![Change::Mute(folder(), place(Some("t1")))]).unwrap();
    let reports = shared.world.configure(vec![Change::Unmute(folder(), place(Some("t1")))]).unwrap();
    let told: Vec<&str> = reports.iter().map(|report| report.entity.as_str()).collect();
    assert_eq!(told, ["mute net/C (thread t1) of main", "mute t1 of main", "mute C/t1 of main"]);
}

/// Hearth can still read a file that an operator filled to the limit.
#[test]
fn there_are_no_more_mutes_than_are_read() {
    let mut shared = Shared::with(&full());
    shared.look(3);
    let mute = |number: usize| vec![Change::MuteName(Folder::new("main").unwrap(), format!("m{number}"), None)];
    let refused = (0..2_000).find_map(|number| shared.world.configure(mute(number)).err()).unwrap();
    assert!(refused.message.contains("as many fields as are read"), "{}", refused.message);
    shared.look(3);
    assert!(shared.json()["muted_threads"].as_object().unwrap().len() > 900);
    shared.foreign(|file| file["mood"] = json!("new"));
    shared.look(3);
    assert_eq!((shared.row().trouble, shared.json()["mood"].clone()), (None, json!("new")));
    shared.mute("m0", None);
    shared.world.configure(mute(5_000)).unwrap();
    shared.world.assert_sound();
}

/// The note of a mute stays unless it is changed, and fields of other programs are left alone.
#[test]
fn an_operator_mutes_by_the_name_that_programs_have() {
    let mute = |note: Option<&str>| {
        vec![Change::MuteName(Folder::new("main").unwrap(), "18c2".to_owned(), note.map(str::to_owned))]
    };
    let mut shared = Shared::with(&full());
    shared.look(3);
    for (note, action, value) in [
        (None, Action::Created, json!(true)),
        (Some("a \"long\" thread"), Action::Updated, json!("a \"long\" thread")),
        (None, Action::Unchanged, json!("a \"long\" thread")),
        (Some("a \"long\" thread"), Action::Unchanged, json!("a \"long\" thread")),
    ] {
        assert_eq!(shared.world.configure(mute(note)).unwrap()[0].action, action);
        shared.look(3);
        assert_eq!(shared.json()["muted_threads"]["18c2"], value);
        shared.world.assert_sound();
    }
    shared.foreign(|file| file["muted_threads"] = json!(["18c2"]));
    shared.look(3);
    let before = shared.world.text();
    let refusal = shared.world.configure(mute(None)).unwrap_err();
    assert!(refusal.message.contains("is no object, and is left as it is"), "{}", refusal.message);
    assert_eq!(shared.world.text(), before);
}

/// A file with only the fields of a new registration was created anew, and its missing fields were lost. In any other
/// file, missing fields were removed on purpose.
#[test]
fn who_begins_a_file_anew_removes_nothing() {
    let session = || json!({"epoch": 3, "session_id": null});
    let bare = |sessions: Value| json!({"schema_version": 1, "session_id": null, "sessions": sessions});
    let mut with_mutes = bare(json!({"default": session()}));
    with_mutes["muted_threads"] = json!({});
    for (number, file, stays) in [
        (1, bare(json!({"default": session()})), true),
        (2, bare(json!({})), true),
        (3, bare(json!({"default": session(), "maintenance": session()})), false),
        (4, with_mutes, false),
    ] {
        let mut shared = Shared::with(&full());
        shared.look(3);
        shared.file = Some(file.to_string());
        shared.look(3);
        assert_eq!(shared.json().get("mood").is_some(), stays, "{number}");
    }
    // If the file held nothing else, a missing session was removed on purpose.
    let mut shared = Shared::with(&bare(json!({"default": session(), "maintenance": session()})));
    shared.look(3);
    shared.file = Some(bare(json!({"default": session()})).to_string());
    shared.look(3);
    assert_eq!(shared.json()["sessions"].get("maintenance"), None);
}
