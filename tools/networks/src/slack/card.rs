//! Cards: texts with buttons. All of it is plain text, and nothing is cut.

use hearth_bridge::ShownCard;
use serde_json::{Value, json};

use super::mrkdwn::escape;

/// Longest card, in UTF-16 code units.
pub(super) const CARD: usize = 8_000;
/// Characters of a section and of a button, buttons of a row, rows of a message: limits of Slack.
const SECTION: usize = 3_000;
const BUTTON: usize = 75;
const ROW: usize = 25;
const BLOCKS: usize = 50;
const VALUE: usize = 2_000;

/// The blocks of a card, or why Slack cannot show it.
pub(super) fn blocks(card: &ShownCard) -> Result<Value, &'static str> {
    let is_long = |label: &str| label.trim().is_empty() || label.chars().count() > BUTTON;
    let is_numbered = card.options.iter().any(|option| is_long(&option.label));
    let mut text = text(card);
    if is_numbered {
        for (number, option) in card.options.iter().enumerate() {
            text.push_str(&format!("\n{}. {}", number + 1, option.label));
        }
    }
    let plain = |text: &str| json!({ "type": "plain_text", "text": text, "emoji": false });
    let mut blocks: Vec<Value> =
        sections(&text).iter().map(|section| json!({ "type": "section", "text": plain(section) })).collect();
    let buttons: Vec<Value> = card.options.iter().enumerate().map(|(number, option)| {
        let label = if is_numbered { (number + 1).to_string() } else { option.label.clone() };
        json!({ "type": "button", "action_id": format!("hearth-{number}"), "text": plain(&label), "value": option.button })
    }).collect();
    if card.options.iter().any(|option| option.button.chars().count() > VALUE) {
        return Err("a button of the card is too long for Slack");
    }
    blocks.extend(buttons.chunks(ROW).map(|row| json!({ "type": "actions", "elements": row })));
    if blocks.len() > BLOCKS { Err("the card is too long for Slack") } else { Ok(Value::Array(blocks)) }
}

/// The text of a card where blocks are not shown, such as in notifications.
pub(super) fn fallback(card: &ShownCard) -> String {
    escape(&text(card))
}

fn text(card: &ShownCard) -> String {
    [card.title.as_str(), card.body.as_str()]
        .iter()
        .filter(|text| !text.trim().is_empty())
        .copied()
        .collect::<Vec<_>>()
        .join("\n\n")
}

/// A text in pieces that fit into sections, none of them empty.
fn sections(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut sections: Vec<String> = chars.chunks(SECTION).map(|section| section.iter().collect()).collect();
    sections.retain(|section| !section.trim().is_empty());
    sections
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_bridge::CardOption;
    use proptest::prelude::*;

    fn card(body: &str, labels: &[&str]) -> ShownCard {
        let option =
            |(at, label): (usize, &&str)| CardOption { label: (*label).to_owned(), button: format!("ap1.{at}") };
        let options = labels.iter().enumerate().map(option).collect();
        ShownCard { title: "Title".to_owned(), body: body.to_owned(), options }
    }

    #[test]
    fn buttons_have_labels_or_numbers() {
        let short = blocks(&card("<b> *x*", &["Yes", "No"])).unwrap();
        assert_eq!(short[0]["text"]["text"], "Title\n\n<b> *x*");
        assert_eq!(
            (&short[1]["elements"][1]["text"]["text"], &short[1]["elements"][1]["value"]),
            (&json!("No"), &json!("ap1.1"))
        );
        let long = blocks(&card("x", &["Yes", &"n".repeat(76)])).unwrap();
        assert!(long[0]["text"]["text"].as_str().unwrap().ends_with(&format!("\n1. Yes\n2. {}", "n".repeat(76))));
        assert_eq!(long[1]["elements"][1]["text"]["text"], "2");
        let many = blocks(&card("x", &["a"; 30])).unwrap();
        assert_eq!(
            (many[1]["elements"].as_array().unwrap().len(), many[2]["elements"].as_array().unwrap().len()),
            (25, 5)
        );
        assert_eq!(fallback(&card("<!channel>", &[])), "Title\n\n&lt;!channel&gt;");
    }

    proptest! {
        #[test]
        fn sections_fit_and_have_everything(text in "[a 🦀\n]{0,40}", count in 1..400_usize) {
            let text = text.repeat(count);
            let sections = sections(&text);
            prop_assert!(sections.iter().all(|section| !section.trim().is_empty() && section.chars().count() <= SECTION));
            let signs = |text: &str| text.chars().filter(|char| !char.is_whitespace()).count();
            prop_assert_eq!(sections.iter().map(|section| signs(section)).sum::<usize>(), signs(&text));
        }
    }
}
