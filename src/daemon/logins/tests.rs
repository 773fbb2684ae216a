//! Tests of codes for signing in: which message proves a person, and what ends a code.

use super::*;
use crate::model::address::{Address, ChannelName, ForeignId};
use crate::model::content::{Content, RawJson};
use crate::model::message::MessageKind;

const NONE: Duration = Duration::ZERO;
const BROWSER: TokenDigest = [1; 32];

fn id(text: &str) -> ForeignId {
    ForeignId::new("the id", text).unwrap()
}

/// A message of a sender in a chat.
fn message(sender: &str, chat: &str, text: &str) -> InboundEvent {
    InboundEvent {
        source: Address { channel: ChannelName::new("telegram").unwrap(), platform_id: id(chat), thread: None },
        platform_message: Some(id("1")),
        kind: MessageKind::Chat,
        content: Content {
            text: text.to_owned(),
            sender: Some(id(sender)),
            sender_name: None,
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
    message(sender, sender, text)
}

fn person(sender: &str) -> UserId {
    UserId::new(ChannelName::new("telegram").unwrap(), id(sender))
}

/// A sign-in that waits for its code.
fn begun() -> (Logins, String) {
    let logins = Logins::default();
    logins.enable(true);
    let code = begin(&logins, BROWSER);
    (logins, code)
}

fn new(browser: TokenDigest, before: Option<TokenDigest>, address: &str) -> NewLogin<'static> {
    NewLogin { browser, before, address: address.parse().unwrap(), name: "Fire\nfox" }
}

fn begin(logins: &Logins, browser: TokenDigest) -> String {
    logins.begin_at(NONE, new(browser, None, "192.168.1.20")).unwrap();
    let Some(LoginState::Waiting { code }) = logins.state_at(NONE, browser) else { panic!() };
    code
}

fn used(logins: &Logins, event: &InboundEvent) -> Option<LoginCodeUse> {
    logins.compare_at(NONE, event, true)
}

fn other(code: &str) -> String {
    code.chars().map(|c| if c == '0' { '1' } else { '0' }).collect()
}

#[test]
fn a_code_names_the_sender_of_a_direct_message_once() {
    for form in ["/login {}", "/LOGIN@hearth_bot  {}", " /login\n{} ", "/login dashed", "/login lower"] {
        let (logins, code) = begun();
        let dashed = format!("{}-{}", &code[..4], &code[4..]);
        let text = form.replace("{}", &code).replace("dashed", &dashed).replace("lower", &code.to_lowercase());
        let accepted = Some(LoginCodeUse::Accepted { browser: "Firefox".to_owned() });
        assert_eq!(used(&logins, &direct("5", &text)), accepted, "{text}");
        assert_eq!(used(&logins, &direct("5", &text)), accepted, "the network repeats messages");
        assert_eq!(used(&logins, &direct("6", &text)), Some(LoginCodeUse::Wrong), "another person who knows it");
        assert_eq!(logins.state_at(NONE, [9; 32]), None, "another browser");
        assert_eq!(logins.take([9; 32]), None);
        assert_eq!(logins.take(BROWSER), Some(person("5")));
        assert_eq!((logins.take(BROWSER), logins.state_at(NONE, BROWSER)), (None, None));
        assert_eq!(used(&logins, &direct("5", &text)), Some(LoginCodeUse::Wrong), "it works once");
    }
}

#[test]
fn a_code_proves_nothing_in_groups_and_where_anyone_may_be_the_sender() {
    let (group, posted) = (message("5", "-7", "/login {}"), message("5", "8", "/login {}"));
    for (mut event, authenticated) in [(group, true), (posted, true), (direct("5", "/login {}"), false)] {
        let (logins, code) = begun();
        event.content.text = event.content.text.replace("{}", &code);
        assert_eq!(logins.compare_at(NONE, &event, authenticated), Some(LoginCodeUse::NotHere));
        assert_eq!(logins.state_at(NONE, BROWSER), Some(LoginState::Void));
        assert_eq!(used(&logins, &direct("5", &format!("/login {code}"))), Some(LoginCodeUse::Wrong));
        assert_eq!(logins.take(BROWSER), None);
    }
}

#[test]
fn a_code_that_others_may_read_ends() {
    for text in ["{}", "my code is {}!", "/start {}", "/log in {}"] {
        let (logins, code) = begun();
        let event = direct("5", &text.replace("{}", &code));
        assert_eq!(used(&logins, &event), Some(LoginCodeUse::Exposed), "{text}");
        assert_eq!(logins.state_at(NONE, BROWSER), Some(LoginState::Void));
    }
    let (logins, code) = begun();
    for text in ["hello", "/logins x", &other(&code)] {
        assert_eq!(used(&logins, &direct("5", text)), None, "{text}");
    }
    assert_eq!(used(&logins, &direct("5", "/login")), Some(LoginCodeUse::Wrong));
    assert!(matches!(logins.state_at(NONE, BROWSER), Some(LoginState::Waiting { .. })));
}

#[test]
fn wrong_codes_are_limited_for_each_sender_and_for_all() {
    let (logins, code) = begun();
    let wrong = format!("/login {}", other(&code));
    let right = format!("/login {code}");
    for _ in 0..WRONG_BY_SENDER_MAX {
        assert_eq!(used(&logins, &direct("6", &wrong)), Some(LoginCodeUse::Wrong));
    }
    assert_eq!(used(&logins, &direct("6", &right)), Some(LoginCodeUse::TooMany), "not even the right one");
    let later = WRONG_FOR + Duration::from_secs(1);
    assert_eq!(logins.compare_at(later, &direct("6", &wrong), true), Some(LoginCodeUse::Wrong), "after a while again");

    let (logins, code) = begun();
    let wrong = format!("/login {}", other(&code));
    for sender in 0..WRONG_MAX {
        used(&logins, &direct(&(100 + sender).to_string(), &wrong));
    }
    assert_eq!(logins.state_at(NONE, BROWSER), Some(LoginState::Void), "guessing by many people ends all codes");
}

#[test]
fn codes_expire_and_none_works_while_it_is_off() {
    let (logins, code) = begun();
    let right = direct("5", &format!("/login {code}"));
    assert_eq!(logins.compare_at(LIFE, &right, true), Some(LoginCodeUse::Wrong));
    let (logins, code) = begun();
    let right = direct("5", &format!("/login {code}"));
    assert!(matches!(
        logins.compare_at(LIFE - Duration::from_secs(1), &right, true),
        Some(LoginCodeUse::Accepted { .. })
    ));
    assert_eq!(logins.state_at(LIFE, BROWSER), None, "a code that was sent has to be used in the same time");

    let (logins, code) = begun();
    logins.enable(false);
    assert_eq!(used(&logins, &direct("5", &format!("/login {code}"))), None, "it is an ordinary message");
    let refused = logins.begin_at(NONE, new(BROWSER, None, "::1"));
    assert!(matches!(refused, Err(NoCode::Off)) && logins.state_at(NONE, BROWSER).is_none());
}

/// How many codes are shown to browsers of which each has its own address, until one is refused.
fn flood(logins: &Logins, now: Duration, address: impl Fn(u8) -> String) -> usize {
    let shown = |number: &u8| logins.begin_at(now, new([*number; 32], None, &address(*number))).is_ok();
    (100..=255).take_while(shown).count()
}

#[test]
fn a_flood_ends_no_code_of_others_and_a_browser_replaces_its_own() {
    let waits = |logins: &Logins| matches!(logins.state_at(NONE, BROWSER), Some(LoginState::Waiting { .. }));
    // From the address of the person: it has fewer codes left, and the person keeps the own.
    let (logins, code) = begun();
    assert_eq!(flood(&logins, NONE, |_| "192.168.1.20".to_owned()), MAX_BY_ADDRESS - 1);
    assert!(waits(&logins));
    // Another address is not concerned.
    assert_eq!(flood(&logins, NONE, |_| "192.168.1.21".to_owned()), MAX_BY_ADDRESS);
    // The browser of the person shows another code, and that is the only one that ends.
    logins.begin_at(NONE, new([2; 32], Some(BROWSER), "192.168.1.20")).unwrap();
    assert_eq!((logins.state_at(NONE, BROWSER), logins.lock(NONE).logins.len()), (None, 2 * MAX_BY_ADDRESS));
    assert_eq!(used(&logins, &direct("5", &format!("/login {code}"))), Some(LoginCodeUse::Wrong));
    // A browser that is refused keeps what it has.
    assert!(logins.begin_at(NONE, new([3; 32], Some([2; 32]), "192.168.1.21")).is_err());
    assert!(matches!(logins.state_at(NONE, [2; 32]), Some(LoginState::Waiting { .. })));
    // When the codes have expired, the address has all of them again.
    assert_eq!(flood(&logins, LIFE, |_| "192.168.1.20".to_owned()), MAX_BY_ADDRESS);

    // One machine has many addresses over IPv6, and some notations for one of IPv4.
    let (logins, _) = begun();
    assert_eq!(flood(&logins, NONE, |number| format!("2001:db8::{number:x}")), MAX_BY_ADDRESS);
    assert_eq!(flood(&logins, NONE, |_| "::ffff:192.168.1.20".to_owned()), MAX_BY_ADDRESS - 1);
    // From many machines: the list is full, and what was in it before stays.
    let (logins, _) = begun();
    assert_eq!(flood(&logins, NONE, |number| format!("10.0.0.{number}")), MAX - 1);
    assert!(waits(&logins) && logins.lock(NONE).logins.len() == MAX);
}
