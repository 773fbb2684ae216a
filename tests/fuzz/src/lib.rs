//! What the fuzz targets share. The laws are also compiled into the ordinary tests (`tests/it/fuzz.rs`).

pub mod laws;

/// Holds bytes against the law of a target.
pub fn check(target: &str, bytes: &[u8]) {
    let (_, law) = laws::LAWS.iter().find(|(name, _)| *name == target).expect("a target has a law");
    law(bytes);
}
