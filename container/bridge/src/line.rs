//! Splits a stream into frames. Bounded, whatever arrives.

/// Size limit of a frame in bytes, with its line end.
pub const FRAME_BYTES_MAX: usize = 1 << 20;

/// Nesting limit of a frame.
pub const DEPTH_MAX: usize = 100;

/// A frame exceeds [`FRAME_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame is longer than {FRAME_BYTES_MAX} bytes; send files by name")]
pub struct TooLong;

/// Collects bytes until they are frames.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Bytes without a line end.
    seen: usize,
}

impl Lines {
    /// Adds what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete frame, without its line end; `None` if there is none yet. Empty lines are skipped.
    ///
    /// # Errors
    /// [`TooLong`], also before the frame is complete.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        loop {
            let end = self.bytes.iter().skip(self.seen).position(|byte| *byte == b'\n').map(|at| at + self.seen);
            let Some(end) = end else {
                self.seen = self.bytes.len();
                return if self.seen >= FRAME_BYTES_MAX { Err(TooLong) } else { Ok(None) };
            };
            if end >= FRAME_BYTES_MAX {
                return Err(TooLong);
            }
            let rest = self.bytes.split_off(end + 1);
            let mut frame = std::mem::replace(&mut self.bytes, rest);
            self.seen = 0;
            frame.pop();
            if !frame.trim_ascii().is_empty() {
                return Ok(Some(frame));
            }
        }
    }
}

/// Maximum nesting of arrays and objects.
pub(crate) fn depth(text: &str) -> usize {
    let (mut now, mut deepest) = (0_usize, 0_usize);
    let (mut quoted, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                now += 1;
                deepest = deepest.max(now);
            }
            b'}' | b']' if !quoted => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut() {
        let text = b"{\"a\":1}\n\n  \n{\"b\":2}\n{\"c\"";
        for size in 1..text.len() {
            let mut lines = Lines::default();
            let mut found = Vec::new();
            for piece in text.chunks(size) {
                lines.push(piece);
                while let Some(frame) = lines.next_frame().unwrap() {
                    found.push(String::from_utf8(frame).unwrap());
                }
            }
            assert_eq!(found, ["{\"a\":1}", "{\"b\":2}"], "{size}");
        }
    }

    #[test]
    fn a_frame_without_end_is_refused_at_the_limit() {
        let mut lines = Lines::default();
        lines.push(&vec![b'x'; FRAME_BYTES_MAX - 1]);
        assert_eq!(lines.next_frame(), Ok(None));
        lines.push(b"x");
        assert_eq!(lines.next_frame(), Err(TooLong));
        let mut lines = Lines::default();
        lines.push(&[vec![b'x'; FRAME_BYTES_MAX - 1], b"\n".to_vec()].concat());
        assert_eq!(lines.next_frame().map(|frame| frame.map(|frame| frame.len())), Ok(Some(FRAME_BYTES_MAX - 1)));
    }

    #[test]
    fn brackets_in_strings_are_no_nesting() {
        assert_eq!(depth(r#"{"a":["[[[",{"b":"\"{{"}]}"#), 3);
        assert_eq!(depth(&"[".repeat(5_000)), 5_000);
    }
}
