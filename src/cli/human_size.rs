//! Sizes for people: decimal, in one format. Programs get bytes.

/// `12 bytes`, `340 kB`, `25 MB` or `1.2 GB`.
pub(super) fn decimal(bytes: u64) -> String {
    match bytes {
        bytes if bytes < 1_000 => format!("{bytes} bytes"),
        bytes if bytes < 10_000_000 => format!("{} kB", bytes / 1_000),
        bytes if bytes < 1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        bytes => format!("{}.{} GB", bytes / 1_000_000_000, bytes / 100_000_000 % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_use_units_that_people_can_compare() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1_000, "1 kB"),
            (9_999_999, "9999 kB"),
            (10_000_000, "10 MB"),
            (1_250_000_000, "1.2 GB"),
        ] {
            assert_eq!(decimal(bytes), text);
        }
    }
}
