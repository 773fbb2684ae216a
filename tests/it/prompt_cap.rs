//! How much context reaches a prompt: the newest N messages at a start, every message that triggers a turn, and the
//! outcome of the others.

use hearth::model::Effect;
use hearth::model::effect::Export;
use hearth::model::message::{Completion, MessageState};

use crate::world::outside::{claim, end};
use crate::world::{World, event};

fn capped_at(kept: u32) -> World {
    World::of(&format!(
        "[[agents]]\nfolder = \"main\"\nmax_prompt_messages = {kept}\n[[chats]]\nchannel = \"net\"\nplatform_id = \"C\"\n\
        unknown_senders = \"public\"\n[[chats.wirings]]\nagent = \"main\"\nignored = \"accumulate\""
    ))
}

/// Sends messages, `!` to the bot and `.` as context; only the last one's effects are performed.
fn say(world: &mut World, what: &str) {
    let before = world.all_messages().len();
    for (n, c) in what.chars().enumerate() {
        world.lose_effects();
        let mention = if c == '!' { "\"isMention\":true" } else { "" };
        world.inject(&event(&(before + n).to_string(), "x", mention));
    }
}

fn exported(world: &World) -> String {
    let export = world.effects.iter().rev().find_map(|effect| match effect {
        Effect::Export(export) => Some(export.as_ref()),
        Effect::Launch(launch) => Some(&launch.export),
        _ => None,
    });
    export.map(places).unwrap_or_default()
}

/// Positions of an export, those of context in brackets.
fn places(export: &Export) -> String {
    let place = |message: &hearth::model::effect::ExportedMessage| match message.trigger {
        true => (message.seq / 2).to_string(),
        false => format!("({})", message.seq / 2),
    };
    export.messages.iter().map(place).collect::<Vec<_>>().join(" ")
}

fn states(world: &World) -> String {
    let shown = |(_, message): (_, hearth::model::message::Message)| match message.state {
        MessageState::Completed { how: Completion::ContextCapped, .. } => 'c',
        MessageState::Completed { how: Completion::Answered, .. } => 'a',
        MessageState::Claimed { .. } => 'w',
        MessageState::Pending(_) if message.trigger => '!',
        MessageState::Pending(_) => '.',
        _ => '?',
    };
    world.all_messages().into_iter().map(shown).collect()
}

/// (cap, messages, what the first wake exports if everything is in the same transaction)
#[test]
fn a_wake_takes_the_newest_context_along() {
    for (kept, said, expected, after) in [
        (2, "....!", "(3) (4) 5", "cc..!"),
        (2, "..!", "(1) (2) 3", "..!"),
        (2, ".!", "(1) 2", ".!"),
        (0, "...!", "4", "ccc!"),
        (10, "!", "1", "!"),
        (1000, "....!", "(1) (2) (3) (4) 5", "....!"),
    ] {
        let mut world = capped_at(kept);
        say(&mut world, said);
        assert_eq!((exported(&world).as_str(), states(&world).as_str()), (expected, after), "{kept} {said}");
    }
}

/// Messages that request a turn are not context: the cap never applies to them.
#[test]
fn messages_that_ask_for_a_turn_are_never_capped() {
    for kept in [0, 1, 3] {
        let mut world = capped_at(kept);
        say(&mut world, &"!.".repeat(12));
        world.lose_effects();
        world.restart();
        world.settle();
        assert_eq!(states(&world).chars().filter(|state| *state == '!').count(), 12, "{kept}");
        let session = hearth::model::id::SessionId::new(1);
        let inbox = &world.outside.inbox[&session];
        assert_eq!(inbox.values().filter(|message| message.trigger).count(), 12, "{kept}");
        assert!(inbox.values().filter(|message| !message.trigger).count() <= kept as usize, "{kept}");
    }
}

/// Context is counted anew at each wake. Context from earlier turns is not counted, and capped context stays stored and
/// requests nothing.
#[test]
fn every_wake_counts_anew() {
    let mut world = capped_at(2);
    say(&mut world, "...!");
    assert_eq!(exported(&world), "(2) (3) 4");
    world.settle();
    let session = hearth::model::id::SessionId::new(1);
    let turn = vec![claim(4, 1), claim(6, 1), claim(8, 1)];
    let claimed = world.outside.write(session, turn);
    world.put(claimed);
    assert_eq!(states(&world), "cwww");
    say(&mut world, "...!");
    assert_eq!((exported(&world).as_str(), states(&world).as_str()), ("(6) (7) 8", "cwwwc..!"));
    let done = world.outside.write(session, vec![end(4, 1, vec![]), end(6, 1, vec![]), end(8, 1, vec![])]);
    world.put(done);
    assert_eq!(states(&world), "caaac..!");
    let bodies = world.read(|db, txn| db.bodies.len(txn));
    assert_eq!(bodies, 8, "capped is not forgotten");
}
