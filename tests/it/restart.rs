//! Operator commands for sessions: restart, reset, change of provider.

use hearth::model::configure::Change;
use hearth::model::effect::Effect;
use hearth::model::entity::{Folder, ProviderKind};
use hearth::model::id::{MessageId, SessionId};
use hearth::model::incarnation::{Exit, Phase, StopReason};
use hearth::model::message::MessageState;
use hearth::model::report::Action;

use crate::world::lifecycle::{answer, per_thread, running, threads};
use crate::world::outside::{claim, end};
use crate::world::{ONE, World, event};

const S: SessionId = SessionId::new(1);
const M: MessageId = MessageId::new(1);

fn restart(message: Option<&str>) -> Change {
    Change::RestartAgent(Folder::new("main").unwrap(), message.map(str::to_owned))
}

fn texts(world: &World, session: SessionId) -> Vec<String> {
    let inbox = world.outside.inbox.get(&session).into_iter().flat_map(|inbox| inbox.values());
    inbox.map(|message| message.content.as_str().to_owned()).collect()
}

/// As in NanoClaw: an agent that is not running is not started, and a message is for the next incarnation alone.
#[test]
fn a_restart_of_an_agent() {
    let mut world = World::of(ONE);
    assert_eq!(world.configure(vec![restart(Some("Resuming."))]).unwrap(), [], "no session");
    world.inject(&event("1", "x", ""));
    world.settle();
    world.begin_script();
    let reports = world.configure(vec![restart(Some("Resuming."))]).unwrap();
    assert_eq!(
        reports.iter().map(|one| (one.entity.as_str(), one.action)).collect::<Vec<_>>(),
        [("session se1 of agent main", Action::Restarted)]
    );
    assert!(matches!(world.incarnation(S, 1).phase, Phase::Stopping { why: StopReason::Restarted, .. }));
    assert!(
        !world.effects.iter().any(|effect| matches!(effect, Effect::Export(export) if !export.messages.is_empty()))
    );
    world.check("restart_with_a_message");
    world.settle();
    assert_eq!(world.session(S).live, Some(2));
    let texts = texts(&world, S);
    assert!(texts.len() == 2 && texts[1].contains("Resuming.") && texts[1].contains("\"senderId\":\"system\""));
    assert!(world.all_messages().iter().all(|(_, message)| message.tries == 0));
    // An incarnation that is already being stopped is not stopped again.
    world.configure(vec![restart(None)]).unwrap();
    assert_eq!(world.configure(vec![restart(None)]).unwrap(), []);
    world.settle();
    assert_eq!(world.session(S).live, Some(3), "what was due goes on");
}

/// Without a message an idle session starts when it is next needed. Unfinished work is requeued without a try.
#[test]
fn a_restart_without_a_message() {
    let mut world = running();
    answer(&mut world, 1, 2);
    assert_eq!(world.configure(vec![restart(None)]).unwrap().len(), 1);
    world.settle();
    assert_eq!((world.session(S).live, world.all_messages().len()), (None, 1));
    world.inject(&event("2", "y", ""));
    world.settle();
    let claims = world.outside.write(S, vec![claim(4, 2)]);
    world.put(claims);
    world.configure(vec![restart(None)]).unwrap();
    world.settle();
    assert_eq!((world.message(MessageId::new(2)).tries, world.session(S).live), (0, Some(3)));
}

#[test]
fn a_restart_of_many_and_of_none() {
    let mut world = World::of(&per_thread("max_parallel = 3"));
    threads(&mut world, &["a", "b", "c"]);
    world.settle();
    let gone = world.outside.end(SessionId::new(3), 1, Exit::Code(0));
    world.put(gone);
    world.settle();
    let reports = world.configure(vec![restart(Some("Resuming."))]).unwrap();
    assert_eq!(reports.len(), 2, "in order: {reports:?}");
    world.settle();
    assert_eq!(texts(&world, SessionId::new(1)).len(), 2);
    assert!(texts(&world, SessionId::new(3)).iter().all(|text| !text.contains("Resuming.")));
    for (change, words) in [
        (Change::RestartAgent(Folder::new("nobody").unwrap(), None), "agent nobody not found"),
        (restart(Some("  ")), "the message is empty"),
    ] {
        assert!(world.configure(vec![change]).unwrap_err().message.contains(words));
    }
    world.configure(vec![Change::RemoveAgent(Folder::new("main").unwrap())]).unwrap();
    assert!(world.configure(vec![restart(None)]).is_err(), "one that was removed is none");
}

/// One session is restarted, whatever its phase. Other sessions of its agent are left alone, and nothing is started
/// twice.
#[test]
fn a_restart_of_one_session() {
    let mut world = World::of(&per_thread("max_parallel = 3"));
    threads(&mut world, &["a", "b"]);
    world.settle();
    let restart = |world: &mut World| world.configure(vec![Change::RestartSession(S)]).unwrap()[0].action;
    assert_eq!(restart(&mut world), Action::Restarted);
    assert!(matches!(world.incarnation(S, 1).phase, Phase::Stopping { why: StopReason::Restarted, .. }));
    assert_eq!(restart(&mut world), Action::Unchanged, "it ends already");
    world.settle();
    assert_eq!((world.session(S).live, world.session(SessionId::new(2)).live), (Some(2), Some(1)));
    assert_eq!(world.message(M).tries, 0);
    answer(&mut world, 1, 2);
    let gone = world.outside.end(S, 2, Exit::Code(0));
    world.put(gone);
    world.settle();
    let before = world.text();
    assert_eq!((restart(&mut world), world.text()), (Action::Unchanged, before), "nothing lives, and nothing waits");
    for (id, words) in [(9, "session se9 not found"), (2, "session se2 is archived")] {
        if id == 2 {
            world.configure(vec![Change::RemoveAgent(Folder::new("main").unwrap())]).unwrap();
            for _ in 0..3 {
                world.settle();
                world.sweep();
            }
        }
        let refused = world.configure(vec![Change::RestartSession(SessionId::new(id))]).unwrap_err();
        assert!(refused.message.contains(words), "{refused:?}");
    }
}

/// A change to a session whose starts fail ends the backoff, so that its effect shows at once.
#[test]
fn a_session_that_could_not_start_is_tried_at_once() {
    for (change, action) in [
        (Change::RestartSession(S), Action::Updated),
        (Change::ResetSession(S), Action::Updated),
        (Change::SetSessionProvider(S, Some(ProviderKind::Claude)), Action::Updated),
        (Change::SetSessionProvider(S, None), Action::Unchanged),
    ] {
        let mut world = World::of(ONE);
        world.outside.startable = false;
        world.inject(&event("1", "x", ""));
        world.settle();
        assert_eq!((world.session(S).failed_starts, world.session(S).live), (1, None));
        world.outside.startable = true;
        assert_eq!(world.configure(vec![change.clone()]).unwrap()[0].action, action, "{change:?}");
        world.settle();
        let expected = if action == Action::Updated { (0, Some(2)) } else { (1, None) };
        assert_eq!((world.session(S).failed_starts, world.session(S).live), expected, "{change:?}");
    }
}

/// A session is reset: its epoch increases, a live incarnation is replaced when idle, and the messages stay.
#[test]
fn a_session_begins_anew() {
    let mut world = running();
    let claims = world.outside.write(S, vec![claim(2, 1)]);
    world.put(claims);
    world.configure(vec![Change::ResetSession(S)]).unwrap();
    assert_eq!((world.session(S).epoch, world.incarnation(S, 1).phase), (1, Phase::Running));
    assert_eq!(world.incarnation(S, 1).outdated, Some(StopReason::Renewed));
    let done = world.outside.write(S, vec![end(2, 1, vec![])]);
    world.put(done);
    world.settle();
    assert_eq!((world.session(S).live, world.incarnation(S, 1).stopped_for), (None, Some(StopReason::Renewed)));
    assert!(matches!(world.state_of(M), MessageState::Completed { .. }));
    world.inject(&event("2", "y", ""));
    let context = world.effects.iter().find_map(|effect| match effect {
        Effect::Launch(launch) => launch.export.context.clone(),
        _ => None,
    });
    assert_eq!(context.unwrap().epoch, 1);
    assert!(world.journal().contains(&"Reset(1)".to_owned()));
    assert_eq!(world.session(S).messages, 2);
    let missing = world.configure(vec![Change::ResetSession(SessionId::new(9))]).unwrap_err();
    assert!(missing.message.contains("session se9 not found"), "{missing:?}");
}

/// A session has another provider from its next incarnation on, and the agent's other sessions keep theirs.
#[test]
fn a_session_is_driven_by_something_else() {
    let mut world = World::of(&per_thread("max_parallel = 3"));
    threads(&mut world, &["a", "b"]);
    world.settle();
    answer(&mut world, 1, 2);
    let set = |provider| Change::SetSessionProvider(S, provider);
    let changed = world.configure(vec![set(Some(ProviderKind::Claude))]).unwrap();
    assert_eq!(changed[0].action, Action::Updated);
    world.settle();
    assert_eq!((world.session(S).live, world.session(SessionId::new(2)).live), (None, Some(1)));
    threads(&mut world, &["a"]);
    let provider = world.effects.iter().find_map(|effect| match effect {
        Effect::Launch(launch) => launch.export.context.as_ref().map(|context| context.provider),
        _ => None,
    });
    assert_eq!(provider, Some(ProviderKind::Claude));
    world.settle();
    let again = world.configure(vec![set(Some(ProviderKind::Claude))]).unwrap();
    assert_eq!((again[0].action, world.session(S).live), (Action::Unchanged, Some(2)));
    world.configure(vec![set(None)]).unwrap();
    assert_eq!(world.session(S).provider, None);
}

/// A change that is only in the context file reaches live incarnations; a change of the launch configuration replaces
/// them.
#[test]
fn what_a_change_does_to_those_that_live() {
    for (line, replaced) in [
        ("name = \"Other\"", false),
        ("max_prompt_messages = 3", false),
        ("max_parallel = 2", false),
        ("model = \"other\"", true),
        ("effort = \"low\"", true),
        ("provider = \"claude\"", true),
        ("env = { A = \"b\" }", true),
        ("blocked_tools = [\"Bash\"]", true),
        ("trust = \"main\"", true),
        ("unconfined = true", true),
    ] {
        let mut world = running();
        answer(&mut world, 1, 2);
        world.apply(&ONE.replace("\"main\"\n[[chats]]", &format!("\"main\"\n{line}\n[[chats]]")));
        assert_eq!(world.incarnation(S, 1).outdated.is_some(), replaced, "{line}");
        world.settle();
        assert_eq!(world.session(S).live.is_none(), replaced, "{line}");
    }
}
