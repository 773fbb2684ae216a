//! Numbers and texts as few bytes: variable-length numbers, and texts that share their beginning with the one before.

/// Appends a number, seven bits per byte, the lowest first.
pub fn put(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let [.., low] = (number & 0x7f).to_be_bytes();
        number >>= 7;
        if number == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

/// Takes a number off the front. Most are small.
#[inline]
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    match bytes.split_first() {
        Some((byte, rest)) if byte & 0x80 == 0 => {
            *bytes = rest;
            Some(u64::from(*byte))
        }
        _ => take_long(bytes),
    }
}

/// What follows some numbers. Most of them are skipped many bytes at a time, because each ends with the only byte of it whose
/// highest bit is 0.
#[must_use]
pub fn skip(bytes: &[u8], numbers: usize) -> &[u8] {
    let (bytes, numbers) = skip_chunks::<64>(bytes, numbers);
    let (mut bytes, mut numbers) = skip_chunks::<8>(bytes, numbers);
    while numbers > 0
        && let Some((byte, rest)) = bytes.split_first()
    {
        bytes = rest;
        numbers = numbers.saturating_sub(usize::from(byte & 0x80 == 0));
    }
    bytes
}

/// Skips chunks as long as none can contain the end of the last number. Returns what is left to skip.
fn skip_chunks<const SIZE: usize>(mut bytes: &[u8], mut numbers: usize) -> (&[u8], usize) {
    while numbers > SIZE
        && let Some((chunk, rest)) = bytes.split_first_chunk::<SIZE>()
    {
        let ends = chunk.iter().fold(0_u8, |sum, byte| sum.wrapping_add(u8::from(byte & 0x80 == 0)));
        bytes = rest;
        numbers = numbers.saturating_sub(usize::from(ends));
    }
    (bytes, numbers)
}

fn take_long(bytes: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0_u64, 0_u32);
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
        shift = shift.checked_add(7)?;
        if shift > 63 {
            return None;
        }
    }
}

/// Takes a number of 32 bits off the front.
#[inline]
pub fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    take(bytes).and_then(|number| u32::try_from(number).ok())
}

/// Takes some bytes off the front.
pub fn take_bytes<'a>(bytes: &mut &'a [u8], length: u64) -> Option<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(head)
}

/// Appends a signed number.
pub fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, ((number << 1) ^ (number >> 63)).cast_unsigned());
}

/// Takes a signed number off the front.
#[inline]
pub fn take_signed(bytes: &mut &[u8]) -> Option<i64> {
    take(bytes).map(|number| (number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
}

/// Appends a text that follows another one in a sorted list.
pub fn put_text(out: &mut Vec<u8>, before: &str, text: &str) {
    let shared = shared(before, text);
    put(out, to_u64(shared));
    put(out, to_u64(text.len().saturating_sub(shared)));
    out.extend_from_slice(text.as_bytes().get(shared..).unwrap_or_default());
}

/// Replaces a text by the one that follows it in a list.
pub fn take_text(bytes: &mut &[u8], text: &mut String) -> Option<()> {
    let shared = usize::try_from(take(bytes)?).ok()?;
    let length = take(bytes)?;
    let rest = std::str::from_utf8(take_bytes(bytes, length)?).ok()?;
    if !text.is_char_boundary(shared) {
        return None;
    }
    text.truncate(shared);
    text.push_str(rest);
    Some(())
}

/// Length of the common beginning, in whole characters.
fn shared(before: &str, text: &str) -> usize {
    let same = before.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
    (0..=same).rev().find(|at| before.is_char_boundary(*at) && text.is_char_boundary(*at)).unwrap_or(0)
}

/// A length as a number.
#[must_use]
pub fn to_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
