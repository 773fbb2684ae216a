//! What the fuzz targets share. The laws are also compiled into the ordinary tests (`tests/it/fuzz.rs`).

pub mod laws;
