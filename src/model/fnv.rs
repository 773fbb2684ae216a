//! FNV-1a, a hash that is stable across builds and machines.

/// 64-bit FNV-1a. Not for input from an attacker who may want collisions.
#[must_use]
pub fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are those of its authors' test suite.
    #[test]
    fn it_is_fnv_1a() {
        for (text, number) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
            ("chongo was here!\n", 0x4681_0940_eff5_f915),
        ] {
            assert_eq!(fnv_1a(text.as_bytes()), number, "{text:?}");
        }
    }
}
