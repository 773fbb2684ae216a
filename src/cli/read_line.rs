//! Reads lines of bounded length.

use std::io::{BufRead, Read};

/// The next line without its terminator. None at the end of the input. An error text for a line that is too long, whose
/// rest is skipped.
pub(super) fn read(input: &mut impl BufRead, max: usize) -> std::io::Result<Option<Result<Vec<u8>, String>>> {
    let mut line = Vec::new();
    let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    if input.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(Some(Ok(line)));
    }
    if line.len() <= max {
        return Ok(Some(Ok(line)));
    }
    skip_line(input)?;
    Ok(Some(Err(format!("the line has more than {max} bytes"))))
}

fn skip_line(input: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(buffer.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_refused_and_the_next_one_read() {
        let mut input = std::io::BufReader::with_capacity(4, &b"ab\n0123456789\ncd"[..]);
        assert_eq!(read(&mut input, 5).unwrap(), Some(Ok(b"ab".to_vec())));
        assert!(read(&mut input, 5).unwrap().unwrap().is_err());
        assert_eq!(read(&mut input, 5).unwrap(), Some(Ok(b"cd".to_vec())));
        assert_eq!(read(&mut input, 5).unwrap(), None);
    }
}
