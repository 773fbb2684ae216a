//! Taking secrets out of what an agent wrote to its standard error, because that is kept and shown.

const REPLACEMENT: &[u8] = b"[secret]";
/// Shorter values would tear holes into ordinary text.
const SHORTEST: usize = 6;

/// Values that must not be shown.
#[derive(Clone, Default)]
pub(in crate::runtime) struct Secrets {
    /// Longest first, so that a part never hides the whole.
    needles: Vec<Vec<u8>>,
}

impl Secrets {
    /// Remembers a value, and each of its lines, because logs go line by line.
    pub(in crate::runtime) fn add(&mut self, value: &[u8]) {
        let lines = value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        for needle in std::iter::once(value).chain(lines).filter(|needle| needle.len() >= SHORTEST) {
            self.needles.push(needle.to_vec());
        }
        self.needles.sort_by_key(|needle| std::cmp::Reverse(needle.len()));
        self.needles.dedup();
    }

    /// Length of the longest one.
    pub(in crate::runtime) fn longest(&self) -> usize {
        self.needles.first().map_or(0, Vec::len)
    }

    /// The text without them.
    pub(in crate::runtime) fn redact(&self, mut text: &[u8]) -> Vec<u8> {
        let mut clean = Vec::with_capacity(text.len());
        while let Some((first, rest)) = text.split_first() {
            if let Some(after) = self.needles.iter().find_map(|needle| text.strip_prefix(needle.as_slice())) {
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
        assert_eq!(secrets.longest(), 23);
        assert!(!format!("{secrets:?}").contains("hunter"));
    }
}
