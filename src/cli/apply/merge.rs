//! `--merge`: a file that changes only the keys that it names.

use std::collections::BTreeSet;

use super::super::Failure;
use super::super::configuration::Configuration;
use crate::config::file;
use crate::config::file::write::{self, Fields};

/// The text of a file whose entities keep the keys that it omits.
pub(super) fn merged(known: &Configuration, toml: &str, name: &str) -> Result<String, Failure> {
    let (here, named) = (known.entities(), file::named_keys(toml));
    let mut tables = write::tables(&file::parse(name, toml)?.changes);
    for table in &mut tables {
        if let (Some(before), Some(keys)) = (here.get(&table.entity), named.get(&table.entity)) {
            table.fields = overlaid(before.clone(), &table.fields, keys);
        }
    }
    Ok(write::text(&tables))
}

/// The fields of an entity, with those changed that a file names.
fn overlaid(mut fields: Fields, wanted: &Fields, keys: &BTreeSet<String>) -> Fields {
    for key in keys {
        match wanted.get(key) {
            Some(value) => fields.set(key, value.clone()),
            // The file sets the key to its default.
            None => drop(fields.clear(key)),
        }
    }
    // Other engage modes have no pattern.
    if keys.contains("engage") && wanted.get("pattern").is_none() {
        fields.clear("pattern");
    }
    fields
}
