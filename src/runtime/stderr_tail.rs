//! The tail of an agent's standard error, with secrets removed. It is kept to explain why the agent ended.

use std::collections::VecDeque;

use super::redact::Secrets;

/// Size of the tail.
const KEPT_BYTES: usize = 64 * 1024;

/// The end of a stream, plus enough before it to recognize a secret that the cut would split.
pub(in crate::runtime) struct StderrTail<'a> {
    bytes: VecDeque<u8>,
    cut: bool,
    secrets: &'a Secrets,
}

impl<'a> StderrTail<'a> {
    pub(in crate::runtime) fn new(secrets: &'a Secrets) -> Self {
        Self { bytes: VecDeque::new(), cut: false, secrets }
    }

    pub(in crate::runtime) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let excess = self.bytes.len().saturating_sub(KEPT_BYTES + self.secrets.longest());
        self.cut |= excess > 0;
        self.bytes.drain(..excess);
    }

    pub(in crate::runtime) fn into_text(mut self) -> String {
        let mut clean = self.secrets.redact(self.bytes.make_contiguous());
        if self.cut {
            clean.drain(..self.secrets.longest().min(clean.len()));
        }
        let excess = clean.len().saturating_sub(KEPT_BYTES);
        clean.drain(..excess);
        let mut text = String::from_utf8_lossy(&clean).into_owned();
        let excess = (text.len().saturating_sub(KEPT_BYTES)..=text.len()).find(|at| text.is_char_boundary(*at));
        text.drain(..excess.unwrap_or_default());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_a_cut_secret_is_not_shown() {
        let mut secrets = Secrets::default();
        secrets.add(b"correct horse battery staple");
        for before in 0..40 {
            let mut last = StderrTail::new(&secrets);
            last.push(&b"x".repeat(100));
            last.push(b"correct horse battery staple");
            last.push(&b"y".repeat(KEPT_BYTES - before));
            last.push(b"end");
            let text = last.into_text();
            assert!(text.ends_with("yend") && text.len() <= KEPT_BYTES, "{before}");
            assert!(!text.contains("stap") && !text.contains("corr"), "{before}: {}", &text[..60]);
        }
    }
}
