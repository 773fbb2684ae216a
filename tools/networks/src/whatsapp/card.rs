//! Cards: texts with buttons, or with lists if there are more options than buttons. Nothing of a card is cut.

use std::collections::BTreeSet;

use hearth_bridge::program::parts::{Measure, Unit};
use hearth_bridge::{CardOption, ShownCard};
use serde_json::{Map, Value, json};

use super::report::BUTTON;
use super::text;

/// Longest card, in UTF-16 code units.
pub(super) const CARD: usize = 4_000;
/// Limits of WhatsApp: the text of a message with buttons, its buttons and their labels, rows of a list and theirs, ids.
const BODY: usize = 1_024;
const BUTTONS: usize = 3;
const BUTTON_LABEL: usize = 20;
const ROWS: usize = 10;
const ROW_LABEL: usize = 24;
const ID: usize = 200;
/// Characters of the title that a message with buttons shows if the text has one of its own.
const TITLE: usize = 200;
/// What opens a list.
const OPEN: &str = "Choose";

/// The messages of a card, without whom they are for, or why WhatsApp cannot show it.
pub(super) fn messages(card: &ShownCard, before: &str) -> Result<Vec<Map<String, Value>>, &'static str> {
    let is_numbered = is_numbered(&card.options);
    let mut whole = format!("{before}{}\n\n{}", card.title, card.body).trim().to_owned();
    if is_numbered {
        for (number, option) in card.options.iter().enumerate() {
            whole.push_str(&format!("\n{}. {}", number + 1, option.label));
        }
    }
    if card.options.iter().any(|option| option.button.len() + BUTTON.len() > ID) {
        return Err("a button of the card is too long for WhatsApp");
    }
    let mut messages = Vec::new();
    let is_short = Unit::Utf16.count(&whole) <= BODY && !whole.is_empty() && !card.options.is_empty();
    let body = if is_short {
        whole
    } else {
        let measure = Measure { most: super::outbox::PART, unit: Unit::Utf16, parts: 10 };
        let parts = measure.parts(&whole).ok_or("the card is too long for WhatsApp")?;
        messages.extend(parts.iter().map(|part| text(part, false)));
        let title: String = card.title.trim().chars().take(TITLE).collect();
        if title.is_empty() { OPEN.to_owned() } else { title }
    };
    let all: Vec<Value> = card
        .options
        .iter()
        .enumerate()
        .map(|(number, option)| {
            let title = if is_numbered { (number + 1).to_string() } else { option.label.trim().to_owned() };
            json!({ "id": format!("{BUTTON}{}", option.button), "title": title })
        })
        .collect();
    if all.len() <= BUTTONS {
        let buttons: Vec<Value> = all.into_iter().map(|reply| json!({ "type": "reply", "reply": reply })).collect();
        if !buttons.is_empty() {
            messages.push(interactive("button", &body, &json!({ "buttons": buttons })));
        }
    } else {
        let lists = all.chunks(ROWS).map(|rows| json!({ "button": OPEN, "sections": [{ "rows": rows }] }));
        messages.extend(lists.map(|action| interactive("list", &body, &action)));
    }
    Ok(messages)
}

fn interactive(kind: &str, body: &str, action: &Value) -> Map<String, Value> {
    let interactive = json!({ "type": kind, "body": { "text": body }, "action": action });
    Map::from_iter([("type".to_owned(), json!("interactive")), ("interactive".to_owned(), interactive)])
}

/// Whether the options have numbers on their buttons: WhatsApp wants labels that are short and different.
fn is_numbered(options: &[CardOption]) -> bool {
    let most = if options.len() <= BUTTONS { BUTTON_LABEL } else { ROW_LABEL };
    let labels: BTreeSet<&str> = options.iter().map(|option| option.label.trim()).collect();
    let is_fine = |label: &&str| !label.is_empty() && !label.contains('\n') && Unit::Utf16.count(label) <= most;
    labels.len() < options.len() || !labels.iter().all(is_fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(body: &str, labels: &[&str]) -> ShownCard {
        let option =
            |(at, label): (usize, &&str)| CardOption { label: (*label).to_owned(), button: format!("ap1.{at}") };
        let options = labels.iter().enumerate().map(option).collect();
        ShownCard { title: "Title".to_owned(), body: body.to_owned(), options }
    }

    fn of(body: &str, labels: &[&str]) -> Vec<Value> {
        messages(&card(body, labels), "").unwrap().into_iter().map(Value::Object).collect()
    }

    #[test]
    fn few_options_are_buttons_and_many_are_lists() {
        let few = of("x", &["Yes", "No"]);
        assert_eq!(few[0]["interactive"]["body"]["text"], "Title\n\nx");
        let second = &few[0]["interactive"]["action"]["buttons"][1]["reply"];
        assert_eq!((&second["id"], &second["title"]), (&json!("hearth:ap1.1"), &json!("No")));
        let labels: Vec<String> = (0..12).map(|number| format!("option {number}")).collect();
        let many = of("x", &labels.iter().map(String::as_str).collect::<Vec<_>>());
        let rows = |at: usize| many[at]["interactive"]["action"]["sections"][0]["rows"].as_array().unwrap().len();
        assert_eq!((many.len(), rows(0), rows(1)), (2, 10, 2));
        assert_eq!(of("x", &[]).len(), 1);
    }

    #[test]
    fn labels_that_do_not_fit_have_numbers() {
        for labels in [&["Yes", "Yes"][..], &["Yes", ""], &["Yes", "a label of more than twenty"]] {
            let found = of("x", labels);
            let text = found[0]["interactive"]["body"]["text"].as_str().unwrap().to_owned();
            assert!(text.ends_with(&format!("\n1. Yes\n2. {}", labels[1])), "{text}");
            assert_eq!(found[0]["interactive"]["action"]["buttons"][1]["reply"]["title"], "2");
        }
    }

    #[test]
    fn a_long_card_is_a_text_before_its_buttons() {
        let found = of(&"word ".repeat(700), &["Yes"]);
        assert_eq!((&found[0]["type"], &found[1]["interactive"]["body"]["text"]), (&json!("text"), &json!("Title")));
        let long =
            ShownCard { options: vec![CardOption { label: "x".into(), button: "b".repeat(256) }], ..card("x", &[]) };
        assert!(messages(&long, "").is_err());
    }
}
