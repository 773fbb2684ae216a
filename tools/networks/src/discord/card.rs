//! Cards: plain text with buttons.

use hearth_bridge::program::post::End;
use hearth_bridge::{Sent, ShownCard};
use serde_json::{Value, json};

/// Buttons in a row, and rows of a message.
const ROW: usize = 5;
const BUTTONS_MAX: usize = 25;
/// Lengths that Discord takes.
const LABEL_MAX: usize = 80;
const BUTTON_MAX: usize = 100;

/// A text that is shown character by character: everything that could be markup is escaped.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_ascii_punctuation() && !"/:,;'\"?!&=%$".contains(char) {
            plain.push('\\');
        }
        plain.push(char);
    }
    plain
}

/// The text of a card. Labels that do not fit on buttons are in it, with their numbers.
pub(crate) fn text(card: &ShownCard) -> String {
    let mut text = format!("**{}**\n\n{}", plain(card.title.trim()), plain(&card.body));
    for (number, option) in card.options.iter().enumerate().filter(|(_, option)| !fits(&option.label)) {
        text.push_str(&format!("\n{}\\. {}", number + 1, plain(&option.label)));
    }
    text
}

fn fits(label: &str) -> bool {
    !label.trim().is_empty() && label.encode_utf16().count() <= LABEL_MAX
}

/// The buttons in rows.
pub(crate) fn buttons(card: &ShownCard) -> Result<Vec<Value>, End> {
    let is_usable = |button: &str| !button.is_empty() && button.encode_utf16().count() <= BUTTON_MAX;
    if card.options.len() > BUTTONS_MAX || !card.options.iter().all(|option| is_usable(&option.button)) {
        return Err(End::not(Sent::Rejected, format!("Discord shows at most {BUTTONS_MAX} buttons")));
    }
    let button = |(number, option): (usize, &hearth_bridge::CardOption)| {
        let label = if fits(&option.label) { option.label.clone() } else { format!("{}.", number + 1) };
        json!({ "type": 2, "style": 2, "label": label, "custom_id": option.button })
    };
    let buttons: Vec<Value> = card.options.iter().enumerate().map(button).collect();
    Ok(buttons.chunks(ROW).map(|row| json!({ "type": 1, "components": row })).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_bridge::CardOption;

    fn option(label: &str) -> CardOption {
        CardOption { label: label.to_owned(), button: "ap1.0.0".to_owned() }
    }

    #[test]
    fn nothing_in_a_card_is_markup() {
        assert_eq!(
            plain("**a** <@1> `b`\n# c\n- d [e](https://f) \\ ||g||"),
            "\\*\\*a\\*\\* \\<\\@1\\> \\`b\\`\n\\# c\n\\- d \\[e\\]\\(https://f\\) \\\\ \\|\\|g\\|\\|"
        );
    }

    #[test]
    fn buttons_are_in_rows_and_long_labels_in_the_text() {
        let long = "x".repeat(81);
        let card = ShownCard {
            title: "t".to_owned(),
            body: "b".to_owned(),
            options: (0..6).map(|_| option("yes")).chain([option(&long)]).collect(),
        };
        let rows = buttons(&card).unwrap();
        assert_eq!((rows.len(), rows[0]["components"].as_array().unwrap().len()), (2, 5));
        assert_eq!(rows[1]["components"][1]["label"], "7.");
        assert!(text(&card).ends_with(&format!("\n7\\. {long}")) && !text(&card).contains("yes"));
        let many = ShownCard { options: (0..26).map(|_| option("a")).collect(), ..card };
        assert!(buttons(&many).is_err());
    }
}
