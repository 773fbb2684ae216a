//! Fields of forms and of queries: `application/x-www-form-urlencoded`.

/// The fields of a form, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads the text of a form. Bytes that are no UTF-8 are replaced.
    pub(super) fn read(text: &[u8]) -> Self {
        let pairs = text.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let mut parts = pair.splitn(2, |byte| *byte == b'=');
                    (decode(parts.next().unwrap_or_default()), decode(parts.next().unwrap_or_default()))
                })
                .collect(),
        )
    }

    /// Adds a field.
    pub(super) fn add(&mut self, name: String, value: String) {
        self.0.push((name, value));
    }

    /// The first field of a name; empty if there is none.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
    }
}

/// Decodes one part of a form or of a path.
pub(super) fn decode(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let mut ahead = rest.clone();
                match (ahead.next().and_then(digit), ahead.next().and_then(digit)) {
                    (Some(high), Some(low)) => {
                        bytes.push(high << 4 | low);
                        rest = ahead;
                    }
                    _ => bytes.push(b'%'),
                }
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// One part of a path, encoded.
#[must_use]
pub fn segment(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_decoded_and_the_first_of_a_name_counts() {
        let form = Form::read(b"a=1&b=x+y%20z%21&a=2&c&=d&e=%zz%4&%C3%A9=%ff");
        assert_eq!((form.get("a"), form.get("b"), form.get("c"), form.get("")), ("1", "x y z!", "", "d"));
        assert_eq!((form.get("e"), form.get("\u{e9}"), form.get("none")), ("%zz%4", "\u{fffd}", ""));
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(bytes: Vec<u8>) {
            let form = Form::read(&bytes);
            prop_assert!(form.0.len() <= bytes.len() + 1);
        }

        #[test]
        fn a_segment_is_read_as_it_was(text in ".*") {
            prop_assert_eq!(decode(segment(&text).as_bytes()), text);
        }
    }
}
