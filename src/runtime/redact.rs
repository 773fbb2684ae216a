//! Removes secrets from an agent's standard error, because that is kept and shown.

const REPLACEMENT: &[u8] = b"[secret]";
/// Shorter values would remove ordinary text.
const SHORTEST: usize = 6;
/// Podman logs a long output in pieces of 8 kB, and some versions end each piece with a line break of their own.
const PODMAN_PIECE: usize = 4096;

/// Secret values to remove.
#[derive(Clone, Default)]
pub(in crate::runtime) struct Secrets {
    /// Longest first, so that a value is removed before its parts.
    needles: Vec<Vec<u8>>,
}

impl Secrets {
    /// Adds a value, and each of its lines, because logs are line by line.
    pub(in crate::runtime) fn add(&mut self, value: &[u8]) {
        let lines = value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        for needle in std::iter::once(value).chain(lines).filter(|needle| needle.len() >= SHORTEST) {
            self.needles.push(needle.to_vec());
        }
        self.needles.sort_by_key(|needle| std::cmp::Reverse(needle.len()));
        self.needles.dedup();
    }

    /// Upper bound of the length of a value in a text, with the line breaks that Podman adds.
    pub(in crate::runtime) fn longest(&self) -> usize {
        self.needles.first().map_or(0, |needle| needle.len() + needle.len() / PODMAN_PIECE + 1)
    }

    /// The text without the values.
    pub(in crate::runtime) fn redact(&self, mut text: &[u8]) -> Vec<u8> {
        let mut clean = Vec::with_capacity(text.len());
        while let Some((first, rest)) = text.split_first() {
            if let Some(after) = self.needles.iter().find_map(|needle| without(text, needle)) {
                clean.extend_from_slice(REPLACEMENT);
                text = after;
            } else {
                clean.push(*first);
                text = rest;
            }
        }
        clean
    }
}

/// The rest of a text after a value that it begins with. Line breaks inside the value do not hide it.
fn without<'a>(text: &'a [u8], value: &[u8]) -> Option<&'a [u8]> {
    if text.first() != value.first() {
        return None;
    }
    let mut rest = text;
    for expected in value {
        let (mut byte, mut after) = rest.split_first()?;
        while byte != expected && *byte == b'\n' {
            (byte, after) = after.split_first()?;
        }
        if byte != expected {
            return None;
        }
        rest = after;
    }
    Some(rest)
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} secrets", self.needles.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_values_and_their_lines_disappear() {
        let mut secrets = Secrets::default();
        secrets.add(b"hunter2hunter2");
        secrets.add(b"first line\nsecond line\n");
        secrets.add(b"abc");
        let clean = |text: &[u8]| String::from_utf8(secrets.redact(text)).unwrap();
        assert_eq!(clean(b"key=hunter2hunter2!"), "key=[secret]!");
        assert_eq!(clean(b"first line\nsecond line\nrest"), "[secret]rest");
        assert_eq!(clean(b"only second line here"), "only [secret] here");
        assert_eq!(clean(b"abc hunter2"), "abc hunter2");
        assert_eq!(clean(b"key=hunter2\nhunter2!"), "key=[secret]!", "a line break of Podman's");
        assert_eq!(clean(b"\nhunter2\nhunter3"), "\nhunter2\nhunter3");
        assert_eq!(secrets.longest(), 24);
        assert!(!format!("{secrets:?}").contains("hunter"));
    }
}
