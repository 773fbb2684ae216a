//! The store as JSON lines, to move it to another machine: the store's own file depends on byte order and page size.
//!
//! One line says what the file is, then there is one line per row, and the last line has the counts and the digest of
//! all lines before it. Every line ends with its own checksum, so that damage has a line number. The content of a row
//! is defined by the list of tables.
//!
//! | line | fields |
//! |---|---|
//! | first | `hearth_export`: version of this form, `format`: of the store, `hearth`: version of the program |
//! | record | `table`, `key`: as people write it, `key_bytes`: in hex, `version`: of the record, `value` |
//! | row of an index | `table`, `key`, `key_bytes`, `value`: as people write it, `value_bytes`: in hex |
//! | last | `end`: true, `rows`, `tables`: rows of each table, `sha256` |

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::envelope::checksum_of;

pub mod error;
mod export;
mod import;

pub use error::{Error, Result};
pub use export::{Exported, export};
pub use import::{Import, Imported, import};

/// Version of the form that this program writes.
const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct First {
    hearth_export: u32,
    format: u32,
    hearth: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Last {
    end: bool,
    rows: u64,
    tables: BTreeMap<String, u64>,
    sha256: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    table: String,
    key: Vec<String>,
    key_bytes: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<u16>,
    value: Box<RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value_bytes: Option<String>,
}

const SUM: &str = ",\"sum\":\"";

/// Puts a checksum at the end of an object.
pub(super) fn seal(object: &str) -> String {
    let open = object.strip_suffix('}').unwrap_or(object);
    format!("{open}{SUM}{:08x}\"}}", checksum_of(open.as_bytes()))
}

/// Removes the checksum from a line; none if it is wrong.
fn unseal(line: &str) -> Option<String> {
    let (open, sum) = line.strip_suffix("\"}")?.rsplit_once(SUM)?;
    (format!("{:08x}", checksum_of(open.as_bytes())) == sum).then(|| format!("{open}}}"))
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |text, byte| text + &format!("{byte:02x}"))
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some((digit(*high)? << 4) | digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_knows_when_it_was_changed() {
        let line = seal(r#"{"a":"x,\"sum\":"}"#);
        assert_eq!(unseal(&line).as_deref(), Some(r#"{"a":"x,\"sum\":"}"#));
        assert_eq!(unseal(&line.replace('x', "y")), None);
        assert_eq!(unseal(r#"{"a":1}"#), None);
        assert_eq!(unseal(""), None);
    }

    #[test]
    fn bytes_are_read_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
        for bad in ["0", "0g", "é"] {
            assert_eq!(from_hex(bad), None, "{bad}");
        }
    }
}
