//! Which answers are spoken, and what follows if they are not.

use hearth::model::Millis;
use hearth::model::channel::ChannelKind;
use hearth::model::content::{Attachment, BlobId};
use hearth::model::delivery::{DeliveryResult, OutState};
use hearth::model::id::{OutboundId, SessionId};
use hearth::model::mailbox::{KeptFile, Recipient, Said};
use hearth::model::voice::Speech;

use crate::world::outside::{claim, end, mid_turn, said};
use crate::world::{ONE, World, channel, event};

const S: SessionId = SessionId::new(1);
/// Owners are told here what fails.
const OWNER: &str = "[[users]]\nid = \"terminal:7\"\nroles = [\"owner\"]\n[[chats]]\nchannel = \"terminal\"\n\
                     platform_id = \"main\"\n[[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \".\"\n";

/// An agent that works on a message, in a chat where people get files and every answer is spoken.
fn working() -> World {
    let mut world = World::new();
    world.configure(vec![channel("net", ChannelKind::Telegram)]).unwrap();
    world.apply(&format!("[voice.speak]\ncommand = [\"/bin/speak\"]\nwhen = \"always\"\n{ONE}{OWNER}"));
    world.inject(&event("1", "hello", ""));
    world.settle();
    let claims = world.outside.write(S, vec![claim(2, 1)]);
    world.put(claims);
    world
}

fn says(world: &mut World, said: Said) {
    let written = world.outside.write(S, vec![mid_turn(said)]);
    world.put(written);
    world.settle();
    world.assert_sound();
}

/// An answer to the message.
fn answer(number: u64) -> Said {
    said(number, 1, Some(2), Recipient::Reply)
}

fn with_file(number: u64, name: &str) -> Said {
    let attachment =
        Attachment { name: name.to_owned(), size: 1, mime: None, blob: Ok(BlobId::of_digest(&[9; 32])).into() };
    let kept = format!("se1/kept/1.out-1-{number}/{name}");
    Said { files: vec![KeptFile { kept, attachment }], ..answer(number) }
}

/// Why answers are not spoken, in order: none of those that are.
fn speeches(world: &World) -> Vec<Option<String>> {
    let why = |speech| match speech {
        Speech::Failed { why, .. } => Some(why),
        Speech::Waiting { .. } | Speech::Sent { .. } => None,
    };
    world.read(|db, txn| db.speeches.iter(txn)?.map(|row| row.map(|(_, speech)| why(speech))).collect())
}

#[test]
fn an_answer_with_audio_of_its_own_is_not_spoken() {
    let mut world = working();
    says(&mut world, with_file(3, "plan.pdf"));
    says(&mut world, with_file(5, "Song.MP3"));
    assert_eq!(speeches(&world), [None, Some("the answer has audio of its own".to_owned())]);
    let texts: Vec<String> = world.all_outbound().into_iter().map(|(_, one)| one.text).collect();
    assert_eq!(texts, ["words 3", "", "words 5"]);
}

#[test]
fn only_four_answers_to_a_message_are_spoken() {
    let mut world = working();
    for number in [3, 5, 7, 9, 11] {
        says(&mut world, answer(number));
    }
    let spoken = speeches(&world);
    assert!(spoken[..4].iter().all(Option::is_none), "{spoken:?}");
    assert_eq!(spoken[4].as_deref(), Some("only 4 answers to a message are spoken"));
}

/// One that is not spoken for lack of room counts to the limit of its message.
#[test]
fn only_sixteen_answers_are_spoken_at_once() {
    let mut world = working();
    world.outside.speaks = false;
    for number in (3..).step_by(2).take(17) {
        // Not in reply to a message, so that only the limit of all chats counts.
        says(&mut world, Said { in_reply_to: None, ..answer(number) });
    }
    let spoken = speeches(&world);
    assert!(spoken[..16].iter().all(Option::is_none), "{spoken:?}");
    assert_eq!(spoken[16].as_deref(), Some("16 other answers are being spoken"));
}

/// The text was sent: neither the agent nor the owner is told.
#[test]
fn a_spoken_form_that_fails_is_told_to_no_one() {
    let mut world = working();
    world.outside.channel = Box::new(|delivery| {
        let spoken = delivery.text.is_empty();
        Some(if spoken || delivery.text == "words 5" {
            DeliveryResult::Rejected("too large".to_owned())
        } else {
            DeliveryResult::Delivered { platform_message: None }
        })
    });
    let told = |world: &World| (world.all_messages().len(), world.all_outbound().len());
    says(&mut world, answer(3));
    let spoken = world.outbound(OutboundId::new(2));
    assert!(matches!(spoken.state, OutState::Failed { .. }), "{spoken:?}");
    assert_eq!(told(&world), (1, 2));
    says(&mut world, answer(5));
    assert_eq!(told(&world), (2, 4), "an answer that fails is told");
}

#[test]
fn a_speech_is_asked_for_again_after_a_restart_and_given_up_after_an_hour() {
    let mut world = working();
    world.outside.speaks = false;
    says(&mut world, answer(3));
    let waiting = |world: &World| world.read(|db, txn| db.speeches_waiting.len(txn));
    world.pass(Millis::minutes(1));
    world.sweep();
    let asked =
        |world: &World| world.effects.iter().filter(|effect| matches!(effect, hearth::model::Effect::Speak(_))).count();
    assert_eq!((asked(&world), waiting(&world)), (0, 1), "it was asked for already");
    world.settle();
    world.restart();
    assert_eq!(asked(&world), 1);
    world.settle();
    world.pass(Millis::minutes(58));
    world.sweep();
    world.settle();
    assert_eq!(waiting(&world), 1);
    world.pass(Millis::minutes(1));
    world.sweep();
    let silenced = world.effects.iter().any(|effect| matches!(effect, hearth::model::Effect::Silence(_)));
    assert!(silenced, "its program is ended");
    world.settle();
    assert_eq!(speeches(&world), [Some("it was not spoken in time".to_owned())]);
}

#[test]
fn a_speech_goes_with_its_answer() {
    let mut world = working();
    says(&mut world, answer(3));
    let done = world.outside.write(S, vec![end(2, 1, vec![])]);
    world.put(done);
    world.settle();
    assert_eq!(speeches(&world).len(), 1);
    world.pass(Millis::days(400));
    for _ in 0..40 {
        world.sweep();
        world.settle();
    }
    world.assert_sound();
    assert_eq!((speeches(&world).len(), world.all_outbound().len()), (0, 0));
}
