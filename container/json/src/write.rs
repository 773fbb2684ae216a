//! The writer.

use crate::text::TextForm;
use crate::value::{Json, Member};

/// Output formats. None ends with a line break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Each item and member on a line of its own, indented by two spaces for each level.
    Pretty,
    /// On one line, with a space after each comma and colon.
    Line,
    /// Without white space, members sorted by name: a unique text for each value.
    Canonical,
}

/// Writes a value.
#[must_use]
pub fn write<T: TextForm>(value: &Json<T>, form: Form) -> String {
    let mut writer = Writer { out: String::new(), form, max: usize::MAX };
    let _fits = writer.value(value, 0);
    writer.out
}

/// Writes a value, unless that takes more than `max` bytes.
#[must_use]
pub fn write_within<T: TextForm>(value: &Json<T>, form: Form, max: usize) -> Option<String> {
    let mut writer = Writer { out: String::new(), form, max };
    writer.value(value, 0).map(|()| writer.out)
}

struct Writer {
    out: String,
    form: Form,
    /// Bytes that may be written.
    max: usize,
}

impl Writer {
    /// Writes a value at a nesting level. `None` if the text became too long.
    fn value<T: TextForm>(&mut self, value: &Json<T>, level: usize) -> Option<()> {
        match value {
            Json::Null => self.out.push_str("null"),
            Json::Bool(true) => self.out.push_str("true"),
            Json::Bool(false) => self.out.push_str("false"),
            Json::Number(number) => self.out.push_str(number.as_str()),
            Json::Text(text) => text.write(&mut self.out),
            Json::Array(items) => {
                self.out.push('[');
                for (place, item) in items.iter().enumerate() {
                    self.separate(place, level + 1);
                    self.value(item, level + 1)?;
                }
                self.close(']', items.is_empty(), level);
            }
            Json::Object(object) => {
                let mut members: Vec<&Member<T>> = object.iter().collect();
                if self.form == Form::Canonical {
                    members.sort_by(|a, b| a.name.cmp(&b.name));
                }
                self.out.push('{');
                for (place, member) in members.iter().enumerate() {
                    self.separate(place, level + 1);
                    member.name.write(&mut self.out);
                    self.out.push_str(if self.form == Form::Canonical { ":" } else { ": " });
                    self.value(&member.value, level + 1)?;
                }
                self.close('}', members.is_empty(), level);
            }
        }
        (self.out.len() <= self.max).then_some(())
    }

    /// Writes the separator before an item or a member.
    fn separate(&mut self, place: usize, level: usize) {
        if place > 0 {
            self.out.push(',');
        }
        match self.form {
            Form::Pretty => self.break_line(level),
            Form::Line if place > 0 => self.out.push(' '),
            Form::Line | Form::Canonical => {}
        }
    }

    fn close(&mut self, bracket: char, is_empty: bool, level: usize) {
        if self.form == Form::Pretty && !is_empty {
            self.break_line(level);
        }
        self.out.push(bracket);
    }

    fn break_line(&mut self, level: usize) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n("  ", level));
    }
}
