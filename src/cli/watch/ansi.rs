//! Reads the colours of a screen, for tests.

use std::collections::{BTreeMap, BTreeSet};

/// A text and its colour as the terminal is told; an empty one is the terminal's own.
type Run = (String, String);

/// The parts of what a program writes to a terminal, each of one colour and in one row.
pub(in crate::cli) fn runs(written: &str) -> Vec<Run> {
    let (mut runs, mut colour, mut row) = (Vec::new(), String::new(), "");
    let mut parts = written.split('\u{1b}');
    runs.push((colour.clone(), parts.next().unwrap_or_default().to_owned()));
    for part in parts {
        let code = part.strip_prefix('[').unwrap();
        let end = code.find(|c: char| c.is_ascii_alphabetic()).unwrap();
        let (numbers, text) = (&code[..end], &code[end + 1..]);
        let moves = !code[end..].starts_with('m');
        if !moves {
            colour = after(&colour, numbers);
        }
        // Blanks are not written, but skipped.
        let is_below = moves && std::mem::replace(&mut row, numbers.split(';').next().unwrap()) != row;
        match runs.last_mut() {
            Some((last, so_far)) if *last == colour && !is_below => {
                so_far.push_str(if moves { " " } else { "" });
                so_far.push_str(text);
            }
            _ => runs.push((colour.clone(), text.to_owned())),
        }
    }
    runs.retain(|(_, text)| !text.trim().is_empty());
    runs
}

fn after(colour: &str, numbers: &str) -> String {
    match numbers.split(';').collect::<Vec<_>>().as_slice() {
        [] | ["" | "0" | "39", ..] => String::new(),
        [one] if one.starts_with(['3', '9']) && one.len() == 2 => (*one).to_owned(),
        ["38", ..] => numbers.to_owned(),
        [..] => colour.to_owned(),
    }
}

/// Checks that there are at most 8 colours, that each is on words, and that no words have two of them.
pub(in crate::cli) fn assert_colours_have_words(written: &str) {
    let mut colours: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (colour, text) in runs(written) {
        if !colour.is_empty() {
            assert!(text.chars().any(char::is_alphabetic), "a colour without a word: {colour} {text:?}");
            colours.entry(colour).or_default().insert(text.trim().to_owned());
        }
    }
    // The terminal's own one is the eighth.
    assert!((2..=7).contains(&colours.len()), "{colours:#?}");
    let all: Vec<&String> = colours.values().flatten().collect();
    let distinct: BTreeSet<&String> = all.iter().copied().collect();
    assert_eq!(all.len(), distinct.len(), "words with two colours: {colours:#?}");
}

#[test]
fn colours_are_read() {
    let read =
        runs("a\u{1b}[1;1Hb\u{1b}[1;3Hand \u{1b}[1m\u{1b}[33mto decide\u{1b}[0m\u{1b}[0m c\u{1b}[38;5;1mx\u{1b}[39m");
    let read: Vec<(&str, &str)> = read.iter().map(|(colour, text)| (colour.as_str(), text.as_str())).collect();
    assert_eq!(read, [("", "a"), ("", "b and "), ("33", "to decide"), ("", " c"), ("38;5;1", "x")]);
}
