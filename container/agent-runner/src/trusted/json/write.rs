//! Values as text: two forms that other programs write too, so that files do not change where nothing changed.

use super::{Json, Object};

/// Indented by two, ASCII only, without a line end of its own: the form of files.
pub(crate) fn pretty(value: &Json) -> String {
    let mut out = String::new();
    write(value, Some(0), &mut out);
    out
}

/// All on one line with a space after `,` and `:`, ASCII only, without a line end: the form of standard output.
pub(crate) fn line(value: &Json) -> String {
    let mut out = String::new();
    write(value, None, &mut out);
    out
}

/// `indent` is the level of the value where lines are broken.
fn write(value: &Json, indent: Option<usize>, out: &mut String) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(true) => out.push_str("true"),
        Json::Bool(false) => out.push_str("false"),
        Json::Number(number) => out.push_str(&number.0),
        Json::Text(text) => quoted(&text.0, out),
        Json::Array(items) => sequence(items.iter(), ['[', ']'], indent, out, |item, inner, out| {
            write(item, inner, out);
        }),
        Json::Object(Object(members)) => {
            sequence(members.iter(), ['{', '}'], indent, out, |(name, value), inner, out| {
                quoted(&name.0, out);
                out.push_str(": ");
                write(value, inner, out);
            });
        }
    }
}

fn sequence<T>(
    items: impl ExactSizeIterator<Item = T>,
    [open, close]: [char; 2],
    indent: Option<usize>,
    out: &mut String,
    each: impl Fn(T, Option<usize>, &mut String),
) {
    out.push(open);
    let empty = items.len() == 0;
    let inner = indent.map(|level| level + 1);
    for (at, item) in items.enumerate() {
        match (at, inner) {
            (0, Some(level)) => new_line(level, out),
            (0, None) => {}
            (_, Some(level)) => {
                out.push(',');
                new_line(level, out);
            }
            (_, None) => out.push_str(", "),
        }
        each(item, inner, out);
    }
    if let (false, Some(level)) = (empty, indent) {
        new_line(level, out);
    }
    out.push(close);
}

fn new_line(level: usize, out: &mut String) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", level));
}

fn quoted(escaped: &str, out: &mut String) {
    out.push('"');
    out.push_str(escaped);
    out.push('"');
}

/// One unit of UTF-16 as it stands between quotation marks.
pub(super) fn escape(unit: u16, out: &mut String) {
    match u8::try_from(unit) {
        Ok(b'"') => out.push_str("\\\""),
        Ok(b'\\') => out.push_str("\\\\"),
        Ok(b'\n') => out.push_str("\\n"),
        Ok(b'\r') => out.push_str("\\r"),
        Ok(b'\t') => out.push_str("\\t"),
        Ok(0x08) => out.push_str("\\b"),
        Ok(0x0c) => out.push_str("\\f"),
        Ok(plain @ b' '..=b'~') => out.push(char::from(plain)),
        _ => out.push_str(&format!("\\u{unit:04x}")),
    }
}
