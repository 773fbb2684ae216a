//! How commands list and show rows: one trait with the columns of the table, the lines of `show`, and the key in JSON.

use serde::Serialize;

use super::{Done, print};

/// A column of a table: its heading, and the text of a cell.
pub(super) type Column<T> = (&'static str, fn(&T) -> String);

/// Parses a maximum number of rows.
pub(super) fn limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it must be at least 1".to_owned()),
        Ok(limit) => Ok(limit),
        Err(_) => Err("it must be a number".to_owned()),
    }
}

/// A line of `show`: its name, and its value. A line without a value is left out.
pub(super) type Field = (&'static str, Option<String>);

/// A row that commands list and show. Its serialised form is the JSON output.
pub(super) trait Listed: Serialize + Sized + 'static {
    /// Key of the list in JSON.
    const PLURAL: &'static str;
    /// Columns of the table.
    const COLUMNS: &'static [Column<Self>];

    /// Fields of `show`.
    fn fields(&self) -> Vec<Field> {
        Self::COLUMNS.iter().map(|(name, cell)| (*name, Some(cell(self)))).collect()
    }

    /// Prints the lines of `show`.
    fn print(&self) -> Done {
        print(&self.fields())
    }
}

/// Prints a list: a table, or JSON. `empty` is the sentence for an empty list.
pub(super) fn list<T: Listed>(found: &[T], json: bool, empty: &str) -> Done {
    if json {
        return print::json(&std::collections::BTreeMap::from([(T::PLURAL, found)]));
    }
    if found.is_empty() { print::line(empty) } else { table(found) }
}

/// Prints a table.
pub(super) fn table<T: Listed>(found: &[T]) -> Done {
    let headings: Vec<&str> = T::COLUMNS.iter().map(|(heading, _)| *heading).collect();
    let row = |one: &T| T::COLUMNS.iter().map(|(_, cell)| cell(one)).collect();
    print::table(&headings, found.iter().map(row).collect())
}

/// Prints one row: a line per field, or JSON.
pub(super) fn show<T: Listed>(one: &T, json: bool) -> Done {
    if json { print::json(one) } else { one.print() }
}

/// Prints fields, one line each. Further lines of a value are indented.
pub(super) fn print(fields: &[Field]) -> Done {
    for (name, value) in fields {
        for (at, line) in value.iter().flat_map(|value| value.lines()).enumerate() {
            print::line(&format!("{:20} {line}", if at == 0 { name } else { "" }))?;
        }
    }
    Ok(())
}

/// The text, or an empty cell.
pub(super) fn or_empty(text: Option<&String>) -> String {
    text.cloned().unwrap_or_default()
}
