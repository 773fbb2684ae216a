use super::*;
use crate::model::address::ChannelName;
use crate::model::card::{CardOption, PromptSubject};
use crate::model::content::RawJson;
use crate::model::delivery::Attempt;
use crate::model::id::{ApprovalId, OutboundId, OutgoingId};
use crate::model::time::Awake;

fn delivery(act: DeliveryAct, text: &str) -> Delivery {
    let id = |text: &str| ForeignId::new("id", text).unwrap();
    Delivery {
        id: OutboundId::new(1),
        key: OutgoingId { id: OutboundId::new(1), epoch: None },
        attempt: Attempt { number: 1, since: Awake::new(1, 0) },
        to: Address { channel: ChannelName::new("telegram").unwrap(), platform_id: id("-5"), thread: Some(id("42")) },
        act,
        repeated: false,
        speaker: None,
        in_reply_to: None,
        text: text.into(),
        content: RawJson::trusted("{}".into()),
        files: vec![],
    }
}

fn text(text: &str) -> Step {
    Step::Text { text: text.into(), buttons: vec![] }
}

fn file(name: &str, caption: &str) -> Step {
    Step::File { name: name.into(), caption: caption.into() }
}

fn steps(delivery: &Delivery) -> Vec<Step> {
    plan(delivery, &[]).unwrap().steps.into()
}

fn message(id: i64) -> ForeignId {
    ForeignId::new("id", id.to_string()).unwrap()
}

#[test]
fn a_text_goes_to_its_chat_and_topic_as_it_is() {
    let plan = plan(&delivery(DeliveryAct::Say, "*hi* <b>_"), &[]).unwrap();
    assert_eq!((plan.chat, plan.topic, plan.steps), (json!(-5), Some(42), vec![text("*hi* <b>_")].into()));
}

#[test]
fn no_part_is_longer_than_what_telegram_takes_even_when_it_is_marked() {
    for long in ["word ".repeat(3_000), "🦀".repeat(5_000), "x".repeat(12_001)] {
        let mut plan = plan(&delivery(DeliveryAct::Say, &long), &[]).unwrap();
        plan.mark();
        plan.mark();
        let parts: Vec<String> = plan
            .steps
            .into_iter()
            .map(|step| if let Step::Text { text, .. } = step { text } else { panic!("{step:?}") })
            .collect();
        assert!(parts.len() > 1 && parts.iter().all(|part| part.encode_utf16().count() <= 4_096));
        assert_eq!(parts.iter().filter(|part| part.starts_with(AGAIN)).count(), 1, "the first one is marked, once");
        let whole: String = parts.concat().replace(AGAIN, "");
        assert_eq!(whole.replace(' ', ""), long.replace(' ', ""), "nothing is lost");
    }
}

#[test]
fn files_carry_a_short_text_and_follow_a_long_one() {
    let with = |text: &str, files: &[&str]| {
        let mut delivery = delivery(DeliveryAct::Say, text);
        delivery.files = files.iter().map(|name| (*name).to_owned()).collect();
        delivery
    };
    assert_eq!(steps(&with("see", &["a/1.png", "a/2.txt"])), [file("a/1.png", "see"), file("a/2.txt", "")]);
    assert_eq!(steps(&with("", &["a/1.png"])), [file("a/1.png", "")]);
    let long = "y".repeat(CAPTION_MAX + 1);
    assert_eq!(steps(&with(&long, &["a/1.png"])), [text(&long), file("a/1.png", "")]);
    assert!(plan(&with(" \n", &[]), &[]).is_err());
}

#[test]
fn a_card_has_its_buttons_under_the_last_part_which_stands_for_it() {
    let option = |label: &str| CardOption { label: label.into(), chosen: String::new(), value: String::new() };
    let card = |body: &str, labels: &[&str]| Card {
        matter: PromptSubject::Approval(ApprovalId::new(12)),
        nonce: 0xbeef,
        title: "New sender".into(),
        body: body.into(),
        options: labels.iter().map(|label| option(label)).collect(),
    };
    let ask = |card: Card| plan(&delivery(DeliveryAct::Ask(card), ""), &[]).unwrap();
    let short = ask(card("Ann wants to talk. Allow?", &["Allow", "Deny"]));
    let button = |label: &str, at: u32| json!({"text": label, "callback_data": format!("ap12.000000000000beef.{at}")});
    let expected = Step::Text {
        text: "New sender\n\nAnn wants to talk. Allow?".into(),
        buttons: vec![vec![button("Allow", 0), button("Deny", 1)]],
    };
    assert_eq!((short.steps, short.last_counts), (vec![expected].into(), true));

    let wordy = "An option that needs many more words than any button has room for, and then some";
    let long = ask(card(&"z".repeat(5_000), &["Allow", wordy, " "]));
    assert_eq!(long.steps.len(), 3, "the title is a paragraph, the body has two parts");
    let buttons = |step: &Step| if let Step::Text { buttons, .. } = step { buttons.clone() } else { vec![] };
    let last = buttons(&long.steps[2]);
    assert!(buttons(&long.steps[0]).is_empty() && last.len() == 3, "one below the other");
    let label = last[1][0]["text"].as_str().unwrap();
    assert!(label.ends_with('…') && label.chars().count() == LABEL_MAX + 1);
    assert_eq!(last[2][0]["text"], "…");
}

#[test]
fn an_edit_changes_every_part_of_a_message() {
    let edit = |text: &str, parts: &[i64]| plan(&delivery(DeliveryAct::Edit(message(10)), text), parts);
    let change = |message: i64, text: &str| Step::Edit { message, text: text.into() };
    let (a, b) = ("a".repeat(TEXT_MAX), "b".repeat(10));
    let two = format!("{a}{b}");
    assert_eq!(edit("new", &[]).unwrap().steps, [change(10, "new")]);
    assert_eq!(
        edit("new", &[10, 11, 12]).unwrap().steps,
        [change(10, "new"), Step::Remove { message: 11 }, Step::Remove { message: 12 }]
    );
    assert_eq!(edit(&two, &[10, 11]).unwrap().steps, [change(10, &a), change(11, &b)]);
    assert_eq!(edit(&two, &[]).unwrap().steps, [change(10, &a), text(&b)]);
    assert!(edit(" ", &[]).is_err());
}

#[test]
fn reactions_are_those_of_telegram() {
    for (given, emoji) in [
        ("👍", Some("👍")),
        ("thumbs_up", Some("👍")),
        (":+1:", Some("👍")),
        ("❤️", Some("❤")),
        ("❤", Some("❤")),
        ("", None),
    ] {
        let react = delivery(DeliveryAct::React(message(10)), given);
        assert_eq!(steps(&react), [Step::React { message: 10, emoji: emoji.map(str::to_owned) }], "{given}");
    }
    let unknown = plan(&delivery(DeliveryAct::React(message(10)), "dragon"), &[]);
    assert_eq!(unknown.unwrap_err(), "`dragon` is not a Telegram reaction");
}

#[test]
fn other_payloads_show_what_they_have() {
    let shown = |payload: Value| {
        let mut delivery = delivery(DeliveryAct::Say, "");
        delivery.content = RawJson::trusted(payload.to_string());
        plan(&delivery, &[]).map(|plan| plan.steps)
    };
    let card = json!({"type": "card", "fallbackText": "f", "card": {"title": "T", "description": "D",
        "children": ["one", {"text": "two"}, {"image": 1}],
        "actions": [{"label": "Open", "url": "https://x.example/"}, {"label": "No link"}, {"label": "J", "url": "javascript:1"}]}});
    let link = vec![vec![json!({"text": "Open", "url": "https://x.example/"})]];
    assert_eq!(shown(card).unwrap(), [Step::Text { text: "T\n\nD\n\none\n\ntwo".into(), buttons: link }]);
    assert_eq!(shown(json!({"card": {}, "fallbackText": "f"})).unwrap(), [text("f")]);
    assert_eq!(shown(json!({"markdown": "m", "text": "t"})).unwrap(), [text("m")]);
    assert_eq!(shown(json!({"text": "t"})).unwrap(), [text("t")]);
    for nothing in [json!({}), json!({"card": {}}), json!([]), json!("x"), json!({"card": 1, "text": 2})] {
        assert_eq!(shown(nothing).unwrap_err(), "the message has nothing to show");
    }
}

/// Telegram would refuse the whole message because of a link that cannot be a button.
#[test]
fn links_of_cards_are_buttons_where_telegram_takes_them() {
    let shown = |links: &[&str]| {
        let actions: Vec<Value> = links.iter().map(|url| json!({"label": "Open", "url": url})).collect();
        let mut delivery = delivery(DeliveryAct::Say, "the card as text");
        delivery.content = RawJson::trusted(json!({"card": {"title": "T", "actions": actions}}).to_string());
        let Step::Text { text, buttons } = plan(&delivery, &[]).unwrap().steps.remove(0).unwrap() else { panic!() };
        (text, buttons.len())
    };
    assert_eq!(shown(&["https://x.example/a?b=c#d", "http://x.example:8080"]), ("T".to_owned(), 2));
    assert_eq!(
        shown(&["https://x.example", "http://localhost:80/"]),
        ("T\n\nOpen: http://localhost:80/".to_owned(), 1)
    );
    for none in
        ["http://localhost", "https://", "https://a b.example", "https://u@x.example", "javascript:1", "tg://x.y"]
    {
        assert_eq!(shown(&[none]), ("the card as text".to_owned(), 0), "{none}");
    }
    let many = vec!["https://x.example/"; BUTTONS_MAX + 1];
    let (text, buttons) = shown(&many);
    assert_eq!((buttons, text.matches("https").count()), (BUTTONS_MAX, 1));
}

#[test]
fn ids_that_are_none_of_telegram_are_refused() {
    let id = |text: &str| ForeignId::new("id", text).unwrap();
    let to = |chat: &str, thread: Option<&str>| {
        let channel = ChannelName::new("telegram").unwrap();
        place(&Address { channel, platform_id: id(chat), thread: thread.map(id) })
    };
    assert_eq!(to("@news", None), Ok((json!("@news"), None)));
    assert_eq!(to("123", None), Ok((json!(123), None)));
    for (chat, thread) in [("chat:-5", None), ("", None), ("@", None), ("1x", None), ("1", Some("general"))] {
        assert!(to(chat, thread).is_err(), "{chat} {thread:?}");
    }
    assert!(plan(&delivery(DeliveryAct::Edit(id("x")), "t"), &[]).is_err());
}
