//! Splits texts into words. Scripts without spaces between words are split into pairs of characters.

use std::borrow::Cow;
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation as _;

use super::fold::fold;

/// A folded word and its place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token<'t> {
    /// Bytes of the text.
    pub at: Range<usize>,
    pub word: Cow<'t, str>,
    /// Whether it is the last character of a run of pairs, and only there to be found by itself.
    pub last: bool,
}

/// Calls `each` for the words of a text in order, until it returns false.
pub fn each<'t>(text: &'t str, each: &mut impl FnMut(Token<'t>) -> bool) {
    if text.is_ascii() {
        split(0, text, |c| c.is_ascii_alphanumeric(), &mut |at, part| word(at, part, each));
        return;
    }
    let mut rest = 0;
    for (at, run) in runs(text) {
        let before = text.get(rest..at).unwrap_or_default();
        if !spaced(rest, before, each) || !pairs(at, run, each) {
            return;
        }
        rest = at.saturating_add(run.len());
    }
    spaced(rest, text.get(rest..).unwrap_or_default(), each);
}

/// The words of a text.
#[must_use]
pub fn all(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    each(text, &mut |token| {
        found.push(token);
        true
    });
    found
}

/// Words of scripts with spaces. Returns whether to go on.
fn spaced<'t>(from: usize, text: &'t str, each: &mut impl FnMut(Token<'t>) -> bool) -> bool {
    text.unicode_word_indices().all(|(at, found)| {
        split(from.saturating_add(at), found, |c| !is_joint(c), &mut |at, part| word(at, part, each))
    })
}

/// Characters that may join the parts of a word. The parts are words of their own, so that a text is split in the same way
/// whatever else it contains.
const fn is_joint(c: char) -> bool {
    (c.is_ascii() && !c.is_ascii_alphanumeric())
        || matches!(
            c,
            '\u{b7}'
                | '\u{387}'
                | '\u{2018}'
                | '\u{2019}'
                | '\u{2024}'
                | '\u{2027}'
                | '\u{203f}'
                | '\u{2040}'
                | '\u{2054}'
                | '\u{fe13}'
                | '\u{fe33}'
                | '\u{fe34}'
                | '\u{fe4d}'
                ..='\u{fe4f}' | '\u{fe52}' | '\u{fe55}' | '\u{ff07}' | '\u{ff0e}' | '\u{ff1a}' | '\u{ff3f}'
        )
}

/// Calls `each` for the parts of a text that consist of certain characters, until it returns false.
fn split<'t>(
    from: usize,
    text: &'t str,
    is_inside: impl Fn(char) -> bool,
    each: &mut impl FnMut(usize, &'t str) -> bool,
) -> bool {
    let mut at = 0_usize;
    text.split(|c| !is_inside(c)).all(|part| {
        let start = at;
        let end = start.saturating_add(part.len());
        at = end.saturating_add(text.get(end..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8));
        part.is_empty() || each(from.saturating_add(start), part)
    })
}

fn word<'t>(at: usize, part: &'t str, each: &mut impl FnMut(Token<'t>) -> bool) -> bool {
    let word = fold(part);
    word.is_empty() || each(Token { at: at..at.saturating_add(part.len()), word, last: false })
}

/// Pairs of neighbouring characters of a run, and its last character alone.
fn pairs<'t>(from: usize, run: &'t str, each: &mut impl FnMut(Token<'t>) -> bool) -> bool {
    let (mut before, mut paired): (Option<(Range<usize>, String)>, bool) = (None, false);
    for (at, c) in run.char_indices() {
        let place = from.saturating_add(at)..from.saturating_add(at).saturating_add(c.len_utf8());
        let here = fold(c.encode_utf8(&mut [0; 4])).into_owned();
        if let Some((first, word)) = before.take() {
            paired = true;
            let token = Token { at: first.start..place.end, word: format!("{word}{here}").into(), last: false };
            if !token.word.is_empty() && !each(token) {
                return false;
            }
        }
        before = Some((place, here));
    }
    match before {
        Some((at, word)) if !word.is_empty() => each(Token { at, word: word.into(), last: paired }),
        _ => true,
    }
}

/// The runs of characters of scripts that have no spaces between words.
fn runs(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let rest = text.get(from..)?;
        let start = from.checked_add(rest.find(is_unspaced)?)?;
        let run = text.get(start..)?;
        let run = run.get(..run.find(|c| !is_unspaced(c)).unwrap_or(run.len()))?;
        from = start.checked_add(run.len())?;
        Some((start, run))
    })
}

/// Whether a character is of a script without spaces between words: Chinese, Japanese, Korean, Thai, Lao, Khmer or Burmese.
#[must_use]
pub const fn is_unspaced(c: char) -> bool {
    matches!(
        c,
        '\u{e01}'..='\u{e3a}'
            | '\u{e40}'..='\u{e4e}'
            | '\u{e81}'..='\u{ece}'
            | '\u{1000}'..='\u{103f}'
            | '\u{1780}'..='\u{17d3}'
            | '\u{1100}'..='\u{11ff}'
            | '\u{2e80}'..='\u{2fd5}'
            | '\u{3005}'..='\u{3007}'
            | '\u{3041}'..='\u{3096}'
            | '\u{309d}'..='\u{309f}'
            | '\u{30a1}'..='\u{30fa}'
            | '\u{30fc}'..='\u{30ff}'
            | '\u{3105}'..='\u{318f}'
            | '\u{31a0}'..='\u{31bf}'
            | '\u{31f0}'..='\u{31ff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{a960}'..='\u{a97c}'
            | '\u{ac00}'..='\u{d7fb}'
            | '\u{f900}'..='\u{faff}'
            | '\u{ff66}'..='\u{ff9f}'
            | '\u{20000}'..='\u{3ffff}'
    )
}
