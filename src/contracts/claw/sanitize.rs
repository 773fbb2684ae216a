//! Removes secrets from a text and cuts it to the maximum length of session files. Idempotent.

/// Markers that precede a secret, in the order in which they are searched.
const MARKERS: [&str; 9] = [
    "ANTHROPIC_API_KEY=",
    "ANTHROPIC_AUTH_TOKEN=",
    "OPENAI_API_KEY=",
    "DASHSCOPE_API_KEY=",
    "XAI_API_KEY=",
    "Authorization: Bearer ",
    "authorization: Bearer ",
    "Bearer sk-",
    "sk-ant-",
];
/// Replaces a secret.
const REDACTED: &str = "[redacted]";
/// Longest text, in characters.
const CHARS_MAX: usize = 16_384;
/// Appended to a text that was cut.
const CUT: &str = "… [truncated for session JSONL]";
const CUT_CHARS: usize = 31;

/// A text without secrets, of at most [`CHARS_MAX`] characters.
pub(super) fn sanitize(text: &str) -> String {
    if let Some(body) = text.strip_suffix(CUT) {
        // It was cut before, maybe in the middle of its last redaction mark.
        return cut(&redact(body));
    }
    let text = redact(text);
    if text.chars().nth(CHARS_MAX).is_some() { cut(&text) } else { text }
}

fn cut(text: &str) -> String {
    let end = text.char_indices().nth(CHARS_MAX - CUT_CHARS).map_or(text.len(), |(at, _)| at);
    format!("{}{CUT}", text.get(..end).unwrap_or_default())
}

/// A text without secrets.
pub(super) fn redact(text: &str) -> String {
    MARKERS
        .iter()
        .fold(text.to_owned(), |text, marker| if text.contains(marker) { without(&text, marker) } else { text })
}

fn without(text: &str, marker: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut parts = text.split(marker);
    out.push_str(parts.next().unwrap_or_default());
    // A marker inside a secret is part of the secret: the text after it continues the secret.
    let mut open = false;
    for part in parts {
        if !open {
            out.push_str(marker);
            out.push_str(REDACTED);
        }
        // A redaction mark, and anything directly after it, is replaced by itself.
        let part = if open { part } else { part.strip_prefix(REDACTED).unwrap_or(part) };
        match part.find(ends_secret) {
            Some(end) => {
                out.push_str(part.get(end..).unwrap_or_default());
                open = false;
            }
            None => open = true,
        }
    }
    out
}

fn ends_secret(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\'' | '"' | ',' | '}' | ']')
}

/// Redacts bytes of which only parts may be text.
pub(super) fn redact_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.extend_from_slice(redact(chunk.valid()).as_bytes());
        out.extend_from_slice(chunk.invalid());
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn secrets_go_and_what_is_around_them_stays() {
        for (text, kept) in [
            ("nothing", "nothing"),
            ("OPENAI_API_KEY=sk-1 x", "OPENAI_API_KEY=[redacted] x"),
            ("{\"k\":\"ANTHROPIC_API_KEY=a\",1}", "{\"k\":\"ANTHROPIC_API_KEY=[redacted]\",1}"),
            ("Authorization: Bearer sk-ant-abc", "Authorization: Bearer [redacted]"),
            ("AUTHORIZATION: Bearer x", "AUTHORIZATION: Bearer x"),
            ("Bearer sk-abc]", "Bearer sk-[redacted]]"),
            ("sk-ant-asd'", "sk-ant-[redacted]'"),
            ("sk-ant-sk-ant-x y", "sk-ant-[redacted] y"),
            ("XAI_API_KEY=[redacted]", "XAI_API_KEY=[redacted]"),
            ("XAI_API_KEY=[redacted]]]", "XAI_API_KEY=[redacted]]]"),
            ("XAI_API_KEY=[redacted]more x", "XAI_API_KEY=[redacted] x"),
            ("XAI_API_KEY= x", "XAI_API_KEY=[redacted] x"),
            ("XAI_API_KEY = x", "XAI_API_KEY = x"),
        ] {
            assert_eq!(sanitize(text), kept);
            assert_eq!(sanitize(kept), kept);
        }
    }

    #[test]
    fn long_texts_are_cut_to_exactly_the_bound() {
        assert_eq!(CUT.chars().count(), CUT_CHARS);
        let longest = "é".repeat(CHARS_MAX);
        assert_eq!(sanitize(&longest), longest);
        let kept = sanitize(&format!("{longest}x"));
        assert_eq!((kept.chars().count(), kept.ends_with(CUT)), (CHARS_MAX, true));
        assert_eq!(sanitize(&kept), kept);
        // A secret right where the text is cut, at every place.
        for before in CHARS_MAX - CUT_CHARS - 40..CHARS_MAX {
            let text = format!("{}OPENAI_API_KEY=secret and {}", "x".repeat(before), "y".repeat(100));
            let once = sanitize(&text);
            assert_eq!(sanitize(&once), once, "{before}");
            assert!(!once.contains("=secret"), "{before}");
        }
    }

    fn pieces() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            proptest::sample::select(MARKERS.to_vec()).prop_map(str::to_owned),
            Just(REDACTED.to_owned()),
            Just(CUT.to_owned()),
            "[ a'\\]}…k-]{0,4}",
            (0..16_400_usize).prop_map(|count| "z".repeat(count)),
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn doing_it_again_changes_nothing(text in pieces()) {
            let once = sanitize(&text);
            prop_assert_eq!(sanitize(&once), once.clone());
            prop_assert!(once.chars().count() <= CHARS_MAX);
        }

        #[test]
        fn bytes_that_are_text_are_treated_as_text(text in ".{0,60}") {
            prop_assert_eq!(redact_bytes(text.as_bytes()), redact(&text).into_bytes());
        }
    }
}
