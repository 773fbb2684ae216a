//! Folds words: case, diacritics, width and ligatures do not matter for a search.

use std::borrow::Cow;

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

/// A word without case, diacritics and compatibility forms. It may be empty.
#[must_use]
pub fn fold(word: &str) -> Cow<'_, str> {
    if word.is_ascii() {
        let is_folded = !word.bytes().any(|byte| byte.is_ascii_uppercase());
        return if is_folded { Cow::Borrowed(word) } else { Cow::Owned(word.to_ascii_lowercase()) };
    }
    let plain = DecomposingNormalizerBorrowed::new_nfkd()
        .normalize_iter(word.chars())
        .flat_map(char::to_lowercase)
        .filter(|c| !is_mark(*c))
        .flat_map(|c| letters(c).into_iter().flatten());
    // Composed again, because syllables of Hangul and marks that stay have to be single characters.
    ComposingNormalizerBorrowed::new_nfc().normalize_iter(plain).filter(|c| !c.is_control()).collect::<String>().into()
}

/// Marks that readers leave out: of Latin, Greek and Cyrillic letters, and the points of Hebrew and Arabic. Marks of other
/// scripts are vowels.
const fn is_mark(c: char) -> bool {
    matches!(
        c,
        '\u{300}'..='\u{36f}'
            | '\u{483}'..='\u{487}'
            | '\u{591}'..='\u{5bd}'
            | '\u{5bf}'
            | '\u{5c1}'..='\u{5c2}'
            | '\u{5c4}'..='\u{5c5}'
            | '\u{610}'..='\u{61a}'
            | '\u{640}'
            | '\u{64b}'..='\u{65f}'
            | '\u{670}'
            | '\u{1ab0}'..='\u{1aff}'
            | '\u{1dc0}'..='\u{1dff}'
            | '\u{200b}'..='\u{200f}'
            | '\u{20d0}'..='\u{20ff}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{fe20}'..='\u{fe2f}'
    )
}

/// Letters that no decomposition makes plain.
const fn letters(c: char) -> [Option<char>; 2] {
    match c {
        'ß' => [Some('s'), Some('s')],
        'æ' => [Some('a'), Some('e')],
        'œ' => [Some('o'), Some('e')],
        'þ' => [Some('t'), Some('h')],
        'ø' => [Some('o'), None],
        'ł' => [Some('l'), None],
        'đ' | 'ð' => [Some('d'), None],
        'ħ' => [Some('h'), None],
        'ı' => [Some('i'), None],
        'ς' => [Some('σ'), None],
        'ى' => [Some('ي'), None],
        'ة' => [Some('ه'), None],
        c => [Some(c), None],
    }
}
