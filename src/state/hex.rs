//! Bytes as hexadecimal text.

/// With `0x` in front.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}
