//! Tests of pairings: which message proves an account, and what ends a code.

use super::*;
use crate::model::address::{Address, ForeignId};
use crate::model::content::{Content, RawJson};
use crate::model::message::MessageKind;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn id(text: &str) -> ForeignId {
    ForeignId::new("the id", text).unwrap()
}

fn telegram() -> ChannelName {
    ChannelName::new("telegram").unwrap()
}

/// A message of a sender in a chat.
fn message(sender: Option<&str>, chat: &str, text: &str) -> InboundEvent {
    InboundEvent {
        source: Address { channel: telegram(), platform_id: id(chat), thread: None },
        platform_message: Some(id("1")),
        kind: MessageKind::Chat,
        content: Content {
            text: text.to_owned(),
            sender: sender.map(id),
            sender_name: sender.map(|sender| format!("Ann {sender}")),
            raw: RawJson::trusted("{}".to_owned()),
        },
        said: None,
        mention: true,
        group: chat.starts_with('-'),
        reply_to: None,
        threads: None,
        cursors: Vec::new(),
        chat_name: None,
        attachments: Vec::new(),
    }
}

fn direct(sender: &str, text: &str) -> InboundEvent {
    message(Some(sender), sender, text)
}

fn opened() -> (Arc<Pairings>, PairingGuard) {
    let pairings = Arc::new(Pairings::default());
    let guard = pairings.open(&telegram(), NOW).unwrap();
    (pairings, guard)
}

fn wrong(codes: &Codes) -> String {
    codes.typed.chars().map(|c| if c == '0' { '1' } else { '0' }).collect()
}

#[test]
fn both_codes_name_the_sender_of_a_direct_message_once() {
    for form in ["typed", "dash", "lower", "link"] {
        let (pairings, guard) = opened();
        let Codes { typed, linked } = &guard.codes;
        let text = match form {
            "typed" => format!(" {typed}\n"),
            "dash" => format!("{}-{}", &typed[..4], &typed[4..]),
            "lower" => typed.to_lowercase().replace('0', "o").replace('1', "l"),
            _ => format!("/start {linked}"),
        };
        assert_eq!(pairings.compare(&direct("7", &text), NOW), Some(PairingCodeUse::Accepted), "{form}");
        let ann = Sender { user: UserId::parse("telegram:7").unwrap(), name: Some("Ann 7".into()) };
        assert_eq!(guard.view(NOW).state, PairingState::Answered(ann.clone()));
        assert_eq!(pairings.compare(&direct("7", &text), NOW), Some(PairingCodeUse::Accepted), "a repeat");
        assert_eq!(pairings.compare(&direct("8", &text), NOW), Some(PairingCodeUse::Void));
        assert_eq!(pairings.compare(&message(Some("8"), "-5", &text), NOW), Some(PairingCodeUse::Void));
        assert_eq!(guard.view(NOW).state, PairingState::Answered(ann));
    }
}

#[test]
fn a_code_that_others_may_have_read_is_void_and_goes_to_no_agent() {
    for (sender, chat, about) in [
        (Some("7"), "-5", "a group"),
        (None, "5", "no sender"),
        (Some("7"), "5", "a channel's post: no group, but not the sender's chat"),
    ] {
        let (pairings, guard) = opened();
        let code = guard.codes.typed.clone();
        assert_eq!(pairings.compare(&message(sender, chat, &code), NOW), Some(PairingCodeUse::Exposed), "{about}");
        assert_eq!(guard.view(NOW).state, PairingState::Void(Why::Exposed));
        assert_eq!(pairings.compare(&direct("7", &code), NOW), Some(PairingCodeUse::Void), "{about}");
    }
    for text in ["the code is CODE, thanks", "CODE!", "/start LINK please", "LINK"] {
        let (pairings, guard) = opened();
        let text = text.replace("CODE", &guard.codes.typed).replace("LINK", &guard.codes.linked);
        assert_eq!(pairings.compare(&direct("7", &text), NOW), Some(PairingCodeUse::Exposed), "{text}");
    }
}

/// A person who answers the message with their code quotes it, and an agent would read that.
#[test]
fn a_message_that_quotes_a_code_goes_to_no_agent() {
    let (pairings, guard) = opened();
    let code = guard.codes.typed.clone();
    let quoting = |code: &str| {
        let raw = format!(r#"{{"text":"did it work?","replyTo":{{"text":"{}-{}"}}}}"#, &code[..4], &code[4..]);
        let mut event = direct("7", "did it work?");
        event.content.raw = RawJson::trusted(raw);
        event
    };
    assert_eq!(pairings.compare(&quoting(&wrong(&guard.codes)), NOW), None);
    assert_eq!(pairings.compare(&direct("7", &code), NOW), Some(PairingCodeUse::Accepted));
    assert_eq!(pairings.compare(&quoting(&code), NOW), Some(PairingCodeUse::Void));
    drop(guard);
    assert_eq!(pairings.compare(&quoting(&code), NOW), Some(PairingCodeUse::Void), "after the pairing");
}

#[test]
fn wrong_codes_end_a_pairing_after_five_of_a_sender_or_fifty_of_all() {
    let (pairings, guard) = opened();
    let text = wrong(&guard.codes);
    for count in 1..=5 {
        assert_eq!(guard.view(NOW).state, PairingState::Open);
        assert_eq!(pairings.compare(&direct("7", &text), NOW), None, "goes on as an ordinary message");
        assert_eq!(guard.view(NOW).wrong, count);
    }
    assert_eq!(guard.view(NOW).state, PairingState::Void(Why::Guessed));
    let right = direct("7", &guard.codes.typed);
    assert_eq!(pairings.compare(&right, NOW), Some(PairingCodeUse::Void));

    let (pairings, guard) = opened();
    let text = wrong(&guard.codes);
    for sender in 0..50 {
        assert_eq!(guard.view(NOW).state, PairingState::Open, "{sender}");
        pairings.compare(&direct(&sender.to_string(), &text), NOW);
    }
    assert_eq!(guard.view(NOW).state, PairingState::Void(Why::Guessed));
}

#[test]
fn ordinary_messages_and_those_of_groups_are_no_tries() {
    let (pairings, guard) = opened();
    let group = wrong(&guard.codes);
    for event in [
        direct("7", "hello"),
        direct("7", "hello there, how are you?"),
        direct("7", "/start"),
        direct("7", "/start abc"),
        direct("7", ""),
        direct("7", "----"),
        direct("7", "ÄÖÜß"),
        message(Some("7"), "-5", &group),
    ] {
        assert_eq!(pairings.compare(&event, NOW), None);
    }
    assert_eq!(guard.view(NOW).wrong, 0);
}

#[test]
fn a_code_ends_after_ten_minutes_with_its_command_and_with_the_next_one() {
    let (pairings, guard) = opened();
    let right = direct("7", &guard.codes.typed);
    let late = NOW.plus(LIFE);
    assert_eq!(guard.view(late).state, PairingState::Void(Why::Expired));
    assert_eq!(guard.view(NOW.minus(Millis::new(1))).state, PairingState::Void(Why::Expired), "the clock was set back");
    assert_eq!(pairings.compare(&right, late), None);

    let (pairings, guard) = opened();
    let right = direct("7", &guard.codes.typed);
    let next = pairings.open(&telegram(), NOW).unwrap();
    assert_eq!(guard.view(NOW).state, PairingState::Void(Why::Replaced));
    assert_eq!(pairings.compare(&right, NOW), None);
    drop(guard);
    assert_eq!(next.view(NOW).state, PairingState::Open, "the end of the first one is not the end of the second");
    let right = direct("7", &next.codes.typed);
    drop(next);
    assert_eq!(pairings.compare(&right, NOW), Some(PairingCodeUse::Void), "still recognized");
}

#[test]
fn codes_are_random_and_have_their_full_length() {
    let codes: Vec<Codes> = (0..50).map(|_| Codes::random().unwrap()).collect();
    for code in &codes {
        assert!(code.typed.len() == TYPED && code.typed.bytes().all(|byte| DIGITS.contains(&byte)));
        assert_eq!(code.linked.len(), LINKED);
    }
    let mut typed: Vec<_> = codes.iter().map(|code| &code.typed).collect();
    typed.sort();
    typed.dedup();
    assert_eq!(typed.len(), 50);
}
