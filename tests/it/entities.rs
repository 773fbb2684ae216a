//! Operator changes to agents, chats, wirings and people, and their effects.

use hearth::model::address::{Address, ChannelName, ForeignId, UserId};
use hearth::model::channel::ChannelKind;
use hearth::model::configure::{Change, ChannelSpec, Configure, DestinationSpec};
use hearth::model::entity::{Destination, Folder, Origin};
use hearth::model::id::{AgentId, SessionId};
use hearth::model::incarnation::StopReason;
use hearth::model::message::{MessageState, Reason};
use hearth::model::policy::Policy;
use hearth::model::report::{Action, ChangeReport, Outcome, Reply};
use hearth::model::task_command::{NewTask, TaskCommand};
use hearth::model::{Effect, Input, Millis};

use crate::world::outside::{claim, end, mid_turn, said};
use crate::world::{ONE, World, channel, configuration, event, event_in};

fn lines(reports: &[ChangeReport]) -> Vec<String> {
    reports.iter().map(|report| format!("{}: {}", report.entity, report.action.as_str())).collect()
}

fn folder(text: &str) -> Folder {
    Folder::new(text).unwrap()
}

fn place(platform_id: &str) -> (ChannelName, ForeignId) {
    (ChannelName::new("net").unwrap(), ForeignId::new("chat", platform_id).unwrap())
}

fn destinations(world: &World, agent: u64) -> Vec<String> {
    let rows = world.read(|db, txn| db.destinations.collect_prefix(txn, &AgentId::new(agent), 100));
    rows.into_iter().map(|(key, _)| key.name.as_str().to_owned()).collect()
}

const PEOPLE: &str = r#"
default_agent = "main"
[[users]]
id = "net:ann"
name = "Ann"
roles = ["owner", "admin:main"]
member_of = ["main"]
"#;

#[test]
fn made_then_changed_then_unchanged_then_removed() {
    let mut world = World::new();
    let file = format!("{PEOPLE}{ONE}");
    let made = world.apply(&file);
    assert_eq!(
        lines(&made),
        [
            "agent main: created",
            "user net:ann: created",
            "chat net/C: created",
            "wiring net/C -> main: created",
            "settings: created"
        ]
    );
    let before = world.text();
    let again = world.apply(&file);
    assert!(again.iter().all(|report| report.action == Action::Unchanged), "{again:?}");
    assert_eq!(world.text(), before);

    let file = file.replace("\"Ann\"", "\"Anna\"").replace("pattern = \".\"", "pattern = \"x\"");
    let file = file.replace("folder = \"main\"", "folder = \"main\"\nmodel = \"big\"").replace("public", "strict");
    let changed = world.apply(&file);
    assert_eq!(
        lines(&changed),
        [
            "agent main: updated",
            "user net:ann: updated",
            "chat net/C: updated",
            "wiring net/C -> main: updated",
            "settings: unchanged"
        ]
    );

    let (channel, id) = place("C");
    let removed = world.configure(vec![
        Change::RemoveWiring(channel.clone(), id.clone(), folder("main")),
        Change::RemoveChat(channel.clone(), id.clone()),
        Change::RemoveUser(UserId::parse("net:ann").unwrap()),
        Change::RemoveAgent(folder("main")),
    ]);
    assert_eq!(
        lines(&removed.unwrap()),
        ["wiring net/C -> main: removed", "chat net/C: removed", "user net:ann: removed", "agent main: removed"]
    );
    world.settle();
    assert_eq!(
        world.read(|db, txn| Ok((db.roles.len(txn)?, db.members.len(txn)?, db.destinations.len(txn)?))),
        (0, 0, 0)
    );
    for change in [
        Change::RemoveWiring(channel.clone(), id.clone(), folder("main")),
        Change::RemoveChat(channel, id),
        Change::RemoveUser(UserId::parse("net:ann").unwrap()),
        Change::RemoveAgent(folder("main")),
    ] {
        assert_eq!(world.configure(vec![change]).unwrap_err().code, "invalid");
    }
}

/// A refused change also undoes the changes before it.
#[test]
fn all_or_nothing() {
    let mut world = World::of(ONE);
    let before = world.text();
    for (bad, said) in [
        ("[[chats]]\nchannel = \"net\"\nplatform_id = \"D\"\n[[chats.wirings]]\nagent = \"ghost\"", "ghost"),
        ("default_agent = \"ghost\"\n", "ghost"),
        ("[[users]]\nid = \"net:bob\"\nroles = [\"admin:ghost\"]", "ghost"),
        ("[[users]]\nid = \"net:bob\"\nmember_of = [\"ghost\"]", "ghost"),
        (
            "[[chats]]\nchannel = \"net\"\nplatform_id = \"D\"\n[[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \"(\"",
            "invalid",
        ),
    ] {
        let toml = if bad.starts_with("default") {
            format!("{bad}[[agents]]\nfolder = \"new\"")
        } else {
            format!("[[agents]]\nfolder = \"new\"\n{bad}")
        };
        let refusal = world.configure(configuration(&toml).changes).unwrap_err();
        assert!(refusal.message.contains(said), "{}", refusal.message);
        assert!(world.effects.is_empty());
        assert_eq!(world.text(), before, "{bad}");
    }
}

#[test]
fn a_dry_run_leaves_the_store_as_it_is() {
    let world = World::of(ONE);
    let before = world.text();
    let applied = world.dry_run(Input::Configure(configuration("[[agents]]\nfolder = \"new\"")));
    let Reply::Configured(reports) = applied.reply else { panic!() };
    assert_eq!(lines(&reports), ["agent new: created"]);
    assert_eq!(world.text(), before);
}

/// A person has exactly the roles and memberships of the last configuration.
#[test]
fn roles_are_exact() {
    let mut world = World::of("[[agents]]\nfolder = \"a\"\n[[agents]]\nfolder = \"b\"");
    for (rights, roles, member_of) in [
        ("", 0, 0),
        (r#"roles = ["owner", "admin:a"]"#, 2, 0),
        (r#"roles = ["admin", "admin:a", "admin:b"]"#, 3, 0),
        (r#"roles = ["admin"]"#, 1, 0),
        (r#"member_of = ["a", "b"]"#, 0, 2),
        (r#"member_of = ["b"]"#, 0, 1),
        ("", 0, 0),
    ] {
        let described = format!("[[users]]\nid = \"net:ann\"\n{rights}");
        let first = if world.read(|db, txn| db.users.is_empty(txn)) { Action::Created } else { Action::Updated };
        for action in [first, Action::Unchanged] {
            assert_eq!(world.apply(&described)[0].action, action, "{rights}");
        }
        let counted = world.read(|db, txn| Ok((db.roles.len(txn)?, db.members.len(txn)?)));
        assert_eq!(counted, (roles, member_of), "{rights}");
        world.assert_sound();
    }
    let users = world.read(|db, txn| db.users.len(txn));
    assert_eq!(users, 1);
}

/// A new wiring adds the chat to the agent's destinations under a unique name, and removing the wiring removes it.
#[test]
fn destinations_are_named_after_chats() {
    let mut world = World::of("[[agents]]\nfolder = \"a\"");
    for (id, name, expected) in [
        ("1", Some("Gen"), vec!["gen"]),
        ("2", Some("Gen"), vec!["gen", "gen-2"]),
        ("3", Some("日本"), vec!["gen", "gen-2", "unnamed"]),
        ("4", None, vec!["gen", "gen-2", "net-mg4", "unnamed"]),
    ] {
        let name = name.map_or_else(String::new, |name| format!("name = {name:?}\n"));
        let toml =
            format!("[[chats]]\nchannel = \"net\"\nplatform_id = \"{id}\"\n{name}[[chats.wirings]]\nagent = \"a\"");
        world.apply(&toml);
        assert_eq!(destinations(&world, 1), expected);
        world.apply(&toml);
        assert_eq!(destinations(&world, 1), expected, "once only");
    }
    let (channel, id) = place("1");
    world.configure(vec![Change::RemoveWiring(channel, id, folder("a"))]).unwrap();
    assert_eq!(destinations(&world, 1), ["gen-2", "net-mg4", "unnamed"]);
}

/// Live agents are told of changes that concern them, once per configuration.
#[test]
fn live_agents_see_changes() {
    let mut world = World::of(ONE);
    world.inject(&event("1", "x", ""));
    world.settle();
    let chats: String = (0..30)
        .map(|n| format!("[[chats]]\nchannel = \"net\"\nplatform_id = \"{n}\"\n[[chats.wirings]]\nagent = \"main\"\n"))
        .collect();
    world.apply(&format!("[[agents]]\nfolder = \"main\"\nmodel = \"big\"\n{chats}"));
    let exports: Vec<_> = world.effects.iter().filter(|effect| matches!(effect, Effect::Export(_))).collect();
    let [Effect::Export(export)] = exports.as_slice() else { panic!("{}", exports.len()) };
    let context = export.context.as_ref().unwrap();
    assert_eq!((context.destinations.len(), context.version), (31, 2));
    assert_eq!(context.settings.model.as_deref(), Some("big"));
    world.lose_effects();
    world.apply(&ONE.replace("platform_id = \"C\"", "platform_id = \"C\"\nname = \"Home\""));
    let Some(Effect::Export(export)) = world.effects.front() else { panic!() };
    let context = export.context.as_ref().unwrap();
    assert!(context.destinations.iter().any(|view| view.display.as_deref() == Some("Home")));
    // An existing chat that becomes one of their destinations.
    let chat = "[[chats]]\nchannel = \"net\"\nplatform_id = \"late\"\n";
    world.apply(chat);
    world.lose_effects();
    for told in [true, false] {
        world.apply(&format!("{chat}[[chats.wirings]]\nagent = \"main\"\n"));
        assert_eq!(world.effects.iter().any(|effect| matches!(effect, Effect::Export(_))), told);
        world.lose_effects();
    }
}

/// A removed chat is not among the destinations that an agent is told, although its name stays stored.
#[test]
fn what_was_removed_is_no_destination() {
    let others = "[[agents]]\nfolder = \"b\"\n[[chats]]\nchannel = \"net\"\nplatform_id = \"D\"\n";
    let (channel, chat) = place("D");
    for gone in [Change::RemoveAgent(folder("b")), Change::RemoveChat(channel.clone(), chat.clone())] {
        let mut world = World::of(&format!("{ONE}{others}"));
        for (name, to) in
            [("b", DestinationSpec::Agent(folder("b"))), ("d", DestinationSpec::Chat(channel.clone(), chat.clone()))]
        {
            world.configure(vec![Change::AddDestination(folder("main"), name.into(), to)]).unwrap();
        }
        let removed = if matches!(gone, Change::RemoveAgent(_)) { "b" } else { "d" };
        world.configure(vec![gone]).unwrap();
        world.inject(&event("1", "x", ""));
        world.settle();
        let told = &world.outside.destinations[&SessionId::new(1)];
        assert_eq!((told.len(), told.iter().any(|name| name == removed)), (2, false), "{told:?}");
    }
}

/// Messages of a chat go to the session that was created for it in advance, with or without a thread.
#[test]
fn a_session_that_is_opened_gets_its_chats_messages() {
    for (kind, sessions, thread, kept) in [
        (ChannelKind::Terminal, "per-thread", "t", None),
        (ChannelKind::Terminal, "shared", "t", None),
        (ChannelKind::Webhook, "per-thread", "t", Some("t")),
        (ChannelKind::Webhook, "shared", "t", None),
    ] {
        let mut world = World::new();
        world.configure(vec![channel("net", kind)]).unwrap();
        world.apply(&ONE.replace("pattern = \".\"", &format!("pattern = \".\"\nsession = \"{sessions}\"")));
        let (channel, platform_id) = place("C");
        let address = Address { channel, platform_id, thread: Some(ForeignId::new("thread", thread).unwrap()) };
        world.configure(vec![Change::OpenSession(folder("main"), address)]).unwrap();
        world.assert_sound();
        let reply = world.session(SessionId::new(1)).reply.unwrap().thread;
        assert_eq!(reply.as_ref().map(ForeignId::as_str), kept, "{kind:?} {sessions}");
        world.inject(&event_in(("net", "C", Some(thread)), ("1", "x", ""), ""));
        assert_eq!(world.all_messages()[0].1.session, SessionId::new(1), "{kind:?} {sessions}");
    }
}

/// After its removal, nothing is routed to the agent, wakes it or is exported. Waiting messages are dropped with the
/// reason, in pieces, whatever their state: ready, context, claimed, or in a backoff.
#[test]
fn removing_an_agent_with_waiting_messages() {
    let policy = Policy { rows_per_input: 64, max_containers: 2, ..Policy::STANDARD };
    let mut world = World::with(policy, |_| {});
    let keep = ONE.replace("pattern = \".\"", "pattern = \"!\"\nignored = \"accumulate\"\nsession = \"per-thread\"");
    world.apply(&keep);
    // A claimed message, one in a backoff, and forty threads with one ready message and two context messages each.
    world.inject(&event_in(("net", "C", Some("claimed")), ("a", "!", ""), ""));
    world.inject(&event_in(("net", "C", Some("lost")), ("b", "!", ""), ""));
    world.settle();
    let gone = world.outside.end(SessionId::new(2), 1, hearth::model::incarnation::Exit::Code(1));
    world.put(gone);
    world.settle();
    let claims = world.outside.write(SessionId::new(1), vec![claim(2, 1)]);
    world.put(claims);
    for thread in 0..40 {
        for (n, text) in ["!", "x", "y"].iter().enumerate() {
            let (thread, id) = (format!("t{thread}"), format!("{thread}-{n}"));
            world.inject(&event_in(("net", "C", Some(&thread)), (&id, text, ""), ""));
        }
    }
    world.settle();
    world.configure(vec![Change::RemoveAgent(folder("main"))]).unwrap();
    world.lose_effects(); // sweeps alone find the remaining work again
    assert_eq!(world.inject(&event("late", "!", "")).outcome, Outcome::Dropped);
    for _ in 0..200 {
        world.pass(Millis::seconds(1));
        world.sweep();
        assert!(!world.effects.iter().any(|effect| matches!(effect, Effect::Launch(_) | Effect::Export(_))));
        world.settle();
        world.assert_sound();
    }
    let states: Vec<_> = world.all_messages().into_iter().map(|(_, message)| message.state).collect();
    assert_eq!(states.len(), 122);
    let dropped = |state: &MessageState| matches!(state, MessageState::Dropped { reason: Reason::AgentRemoved, .. });
    assert!(states.iter().all(dropped), "{states:?}");
    assert!(world.outside.running.is_empty());
    assert_eq!(world.incarnation(SessionId::new(1), 1).stopped_for, Some(StopReason::AgentRemoved));
    // A further sweep finds nothing.
    world.sweep();
    assert!(world.effects.is_empty(), "{:?}", world.effects);
}

/// Messages in the mailbox of a removed agent that were never begun are removed.
#[test]
fn what_a_removed_agent_did_not_read_is_taken_away() {
    let mut world = World::of(ONE);
    for id in ["1", "2"] {
        world.inject(&event(id, "x", ""));
        world.settle();
    }
    let session = SessionId::new(1);
    assert_eq!(world.outside.inbox[&session].len(), 2);
    world.configure(vec![Change::RemoveAgent(folder("main"))]).unwrap();
    for _ in 0..5 {
        world.settle();
        world.pass(Millis::seconds(10));
        world.sweep();
    }
    assert!(world.outside.inbox[&session].is_empty(), "{:?}", world.outside.inbox);
}

/// Context alone is found too, although it is in no backlog.
#[test]
fn a_lost_continuation_is_resumed_for_context_alone() {
    let mut world = World::of(&ONE.replace("pattern = \".\"", "pattern = \"!\"\nignored = \"accumulate\""));
    let report = world.inject(&event("1", "x", ""));
    world.configure(vec![Change::RemoveAgent(folder("main"))]).unwrap();
    world.lose_effects();
    world.sweep();
    world.settle();
    let state = world.state_of(report.wirings[0].message.unwrap());
    assert!(matches!(state, MessageState::Dropped { reason: Reason::AgentRemoved, .. }), "{state:?}");
}

#[test]
fn a_folder_is_used_again_by_another_agent() {
    let mut world = World::of(ONE);
    let first = world.inject(&event("1", "x", ""));
    world.settle();
    world.configure(vec![Change::RemoveAgent(folder("main"))]).unwrap();
    world.apply(ONE);
    let ids = world.read(|db, txn| {
        db.agents
            .iter(txn)?
            .map(|row| row.map(|(id, agent)| (id, agent.archived.is_some())))
            .collect::<Result<Vec<_>, _>>()
    });
    assert_eq!(ids, [(AgentId::new(1), true), (AgentId::new(2), false)]);
    assert_eq!(world.read(|db, txn| db.workspaces.len(txn)), 2, "each keeps its records");
    let second = world.inject(&event("2", "x", ""));
    assert_ne!(first.wirings[0].session, second.wirings[0].session);
    world.settle();
    // Duplicate detection continues: the same event is no message for the new agent.
    assert_eq!(world.inject(&event("1", "x", "")).outcome, Outcome::Duplicate);
}

/// Output of a removed agent is still delivered; nothing is left for the agent to read.
#[test]
fn a_removed_agent_is_told_nothing() {
    let mut world = World::of(ONE);
    world.outside.channel = Box::new(|_| Some(hearth::model::delivery::DeliveryResult::Rejected("blocked".into())));
    world.inject(&event("1", "x", ""));
    world.settle();
    let session = SessionId::new(1);
    let words = said(3, 1, Some(2), hearth::model::mailbox::Recipient::Reply);
    let spoken = world.outside.write(session, vec![claim(2, 1), mid_turn(words), end(2, 1, vec![])]);
    world.put(spoken);
    world.configure(vec![Change::RemoveAgent(folder("main"))]).unwrap();
    let deliver = world.effects.iter().position(|effect| matches!(effect, Effect::Deliver(_))).unwrap();
    let deliver = world.effects.remove(deliver).unwrap();
    world.settle();
    for input in world.outside.perform(deliver) {
        world.put(input);
    }
    world.sweep();
    world.settle();
    assert_eq!(world.all_messages().len(), 1);
}

/// A removed chat is no agent's destination any more.
#[test]
fn a_removed_chat() {
    let mut world = World::of(ONE);
    let (channel, id) = place("C");
    world.configure(vec![Change::RemoveChat(channel, id)]).unwrap();
    assert!(destinations(&world, 1).is_empty());
    assert_eq!(world.inject(&event("1", "x", "")).reason, Some(Reason::UnknownChat));
    world.apply(ONE);
    assert_eq!(world.inject(&event("2", "x", "")).outcome, Outcome::Routed);
    let chats = world.read(|db, txn| db.chats.len(txn));
    assert_eq!(chats, 2, "a chat of the same address is another row");
    let named = world.read(|db, txn| Ok(db.destinations.first(txn, ..)?.unwrap().1));
    assert_eq!(named, Destination::Chat(hearth::model::id::ChatId::new(2)));
}

/// A removed member's messages in chats without a named person are no longer received; the other settings stay.
#[test]
fn a_removed_agent_is_nobodys_default() {
    let toml = format!("default_agent = \"main\"\ntimezone = \"Asia/Tokyo\"\n[[agents]]\nfolder = \"other\"\n{ONE}");
    let mut world = World::of(&toml);
    for (name, default) in [("other", Some("main")), ("main", None)] {
        world.configure(vec![Change::RemoveAgent(folder(name))]).unwrap();
        let settings = world.read(|db, txn| db.settings.require(txn, &()));
        let found = settings.default_agent.as_ref().map(Folder::as_str);
        assert_eq!((found, settings.timezone.is_some()), (default, true), "{name}");
    }
}

/// An agent's launch configuration includes the installation's: another image or time zone ends idle incarnations, and
/// tasks follow the new time zone.
#[test]
fn other_settings_of_the_house_reach_its_agents() {
    for (settings, ends, next) in [
        ("image = \"other\"", true, "2026-04-21T09:00:00.000Z"),
        ("timezone = \"Asia/Tokyo\"", true, "2026-04-21T00:00:00.000Z"),
        ("max_containers = 3", false, "2026-04-21T09:00:00.000Z"),
    ] {
        let mut world = World::of(ONE);
        let new =
            NewTask { recurrence: Some("0 9 * * *".to_owned()), ..crate::world::schedules::new(&world, 60, None) };
        let new = NewTask { first: None, ..new };
        let Reply::Task(task, _) = world.put(Input::Task(TaskCommand::Add(Box::new(new)))) else { panic!() };
        world.inject(&event("1", "x", ""));
        world.settle();
        let session = SessionId::new(1);
        let turn = world.outside.write(session, vec![claim(2, 1), end(2, 1, vec![])]);
        world.put(turn);
        world.settle();
        assert_eq!(world.session(session).live, Some(1));
        world.apply(settings);
        world.settle();
        let ended = world.incarnation(session, 1).stopped_for;
        assert_eq!(ended, ends.then_some(StopReason::Renewed), "{settings}");
        let at = world.read(|db, txn| db.tasks.require(txn, &task)).next.unwrap();
        assert_eq!(at.to_string(), next, "{settings}");
    }
}

#[test]
fn settings_are_changed_by_another_value_only() {
    let mut world = World::of("timezone = \"Asia/Tokyo\"");
    for (zone, action) in [("Asia/Tokyo", Action::Unchanged), ("Europe/Berlin", Action::Updated)] {
        assert_eq!(world.apply(&format!("timezone = \"{zone}\""))[0].action, action, "{zone}");
    }
}

/// A channel is reconnected when its configuration changes, and only then.
#[test]
fn channels_are_connected_when_they_change() {
    let mut world = World::new();
    let plain = || channel("hook", ChannelKind::Webhook);
    let Change::PutChannel(spec) = plain() else { panic!() };
    let elsewhere =
        || Change::PutChannel(ChannelSpec { base_url: Some("https://b.example".to_owned()), ..spec.clone() });
    let remove = || Change::RemoveChannel(ChannelName::new("hook").unwrap());
    for (change, action) in [
        (plain(), Action::Created),
        (plain(), Action::Unchanged),
        (elsewhere(), Action::Updated),
        (elsewhere(), Action::Unchanged),
        (remove(), Action::Removed),
    ] {
        assert_eq!(world.configure(vec![change]).unwrap()[0].action, action);
        let connected = world.effects.iter().filter(|effect| matches!(effect, Effect::Reconnect(_))).count();
        assert_eq!(connected, usize::from(action != Action::Unchanged), "{action:?}");
        world.lose_effects();
    }
    assert!(world.configure(vec![remove()]).unwrap_err().message.contains("channel hook not found"));
}

/// Agents have this name among those who speak.
#[test]
fn a_channel_cannot_be_called_agent() {
    let mut world = World::new();
    let before = world.text();
    let reserved = world.configure(vec![channel("agent", ChannelKind::Webhook)]).unwrap_err();
    assert!(reserved.message.contains("a channel cannot be called `agent`"), "{}", reserved.message);
    assert_eq!(world.text(), before);
}

/// `--prune` removes entities that a file created and no longer names.
#[test]
fn channels_that_a_file_does_not_name_are_pruned() {
    let mut world = World::new();
    world.configure(vec![channel("mine", ChannelKind::Webhook)]).unwrap();
    let mut file = |names: &[&str]| {
        let mut changes: Vec<Change> = names.iter().map(|name| channel(name, ChannelKind::Webhook)).collect();
        changes.push(Change::Prune);
        match world.put(Input::Configure(Configure::new(changes, Origin::File))) {
            Reply::Configured(reports) => lines(&reports),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(file(&["a", "b"]), ["channel a: created", "channel b: created"]);
    assert_eq!(file(&["a"]), ["channel a: unchanged", "channel b: removed"]);
    assert_eq!(file(&[]), ["channel a: removed"]);
}

/// A second configuration replaces the settings that it names, and keeps the others.
#[test]
fn what_is_put_again_is_changed_in_its_row() {
    let mut world = World::of(&format!("{PEOPLE}{ONE}"));
    let rows = |world: &World| {
        let chat = world.read(|db, txn| Ok(db.chats.first(txn, ..)?.unwrap().1));
        let user = world.read(|db, txn| Ok(db.users.first(txn, ..)?.unwrap().1));
        (chat.group, chat.name, user.name)
    };
    let named = |name: &str| Some(name.to_owned());
    assert_eq!(rows(&world), (false, None, named("Ann")));
    let second = ONE.replace("\"public\"", "\"public\"\ngroup = true\nname = \"Friends\"");
    world.apply(&format!("{}{second}", PEOPLE.replace("\"Ann\"", "\"Anna\"")));
    assert_eq!(rows(&world), (true, named("Friends"), named("Anna")));
    world.apply(&format!("{}{ONE}", PEOPLE.replace("name = \"Ann\"\n", "")));
    assert_eq!(rows(&world), (false, named("Friends"), named("Anna")));
    for chat in ["C", "D"] {
        let (channel, id) = place(chat);
        let refused = world.configure(vec![Change::RemoveWiring(channel, id, folder("other"))]).unwrap_err();
        assert!(refused.message.contains(&format!("wiring net/{chat} -> other not found")), "{refused:?}");
    }
}
