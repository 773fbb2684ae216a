//! Escape sequences.

use crate::rules::pattern::translate::{Result, Translation};
use crate::rules::pattern::units;
use crate::rules::pattern::units::Units;

impl Translation {
    /// Translates an escape outside of classes. Returns whether it can be repeated.
    pub(crate) fn escape(&mut self) -> Result<bool> {
        const LINEAR: &str = "it cannot be searched in linear time: write again what the group says";
        let boundary = match self.peek(1) {
            Some('b') => "(?-u:\\b)",
            Some('B') => "(?-u:\\B)",
            Some('1'..='9') if self.number(self.at + 1).is_some_and(|(number, _)| number <= self.captures) => {
                return self.refuse("a back-reference is not possible,", LINEAR);
            }
            Some('k') if self.named => return self.refuse("a named back-reference is not possible,", LINEAR),
            Some(letter) => {
                match Units::named(letter) {
                    Some(set) => {
                        self.at += 2;
                        set.write(&mut self.out);
                    }
                    None => {
                        let escaped = self.escaped(false)?;
                        self.literal(escaped);
                    }
                }
                return Ok(true);
            }
            None => return self.lone_backslash(),
        };
        self.at += 2;
        self.out.push_str(boundary);
        Ok(false)
    }

    pub(crate) fn lone_backslash<T>(&self) -> Result<T> {
        self.refuse("there is nothing behind the backslash", "write \\\\ for a backslash")
    }

    /// The character of an escape, in a class or outside. An unknown escape stands for its letter.
    pub(crate) fn escaped(&mut self, in_class: bool) -> Result<char> {
        let Some(letter) = self.peek(1) else { return self.lone_backslash() };
        let after = self.at + 2;
        let (escaped, end) = match letter {
            'f' => ('\u{C}', after),
            'n' => ('\n', after),
            'r' => ('\r', after),
            't' => ('\t', after),
            'v' => ('\u{B}', after),
            'c' => match self.peek(2) {
                Some(key) if key.is_ascii_alphabetic() || (in_class && (key.is_ascii_digit() || key == '_')) => {
                    (units::character(u32::from(key) & 0x1F), after + 1)
                }
                _ => ('\\', self.at + 1),
            },
            '0'..='7' => self.octal(),
            'x' => self.hex(after, 2).map_or((letter, after), |escaped| (escaped, after + 2)),
            'u' => self.hex(after, 4).map_or((letter, after), |escaped| (escaped, after + 4)),
            'k' if self.named => {
                return self.refuse("`\\k` means a group where groups have names,", "write k for the letter");
            }
            letter => (letter, after),
        };
        self.at = end;
        Ok(escaped)
    }

    /// Reads up to three octal digits with a value below 256. Returns the character and where it ends.
    fn octal(&self) -> (char, usize) {
        let (mut value, mut end) = (0, self.at + 1);
        while let Some(digit) = self.units.get(end).and_then(|c| c.to_digit(8))
            && end < self.at + 4
            && value < 32
        {
            value = value * 8 + digit;
            end += 1;
        }
        (units::character(value), end)
    }
}
