//! Character classes: the content of brackets.

use crate::rules::pattern::translate::{Refused, Result, Translation};
use crate::rules::pattern::units;
use crate::rules::pattern::units::Units;

const DASH: u32 = 0x2D;

/// One member of a class.
enum Member {
    One(u32),
    Many(Units),
}

impl Member {
    fn add_to(self, set: &mut Units) {
        match self {
            Self::One(unit) => set.add(unit, unit),
            Self::Many(units) => set.extend(units),
        }
    }
}

impl Translation {
    /// Translates a class. `[]` matches nothing and `[^]` everything. Inside a class, `[`, `&&` and the like are
    /// literal.
    pub(crate) fn class(&mut self) -> Result<()> {
        let start = self.at;
        let negated = self.peek(1) == Some('^');
        self.at += 1 + usize::from(negated);
        let mut set = Units::default();
        loop {
            match self.peek(0) {
                None => {
                    let what = "a character class is not closed".to_owned();
                    return Err(Refused { at: start, what, advice: "add `]`, or write \\[" });
                }
                Some(']') => break,
                Some(_) => self.range(&mut set)?,
            }
        }
        self.at += 1;
        let set = if negated { set.others() } else { set };
        set.write(&mut self.out);
        Ok(())
    }

    /// Reads one member, or a range. A dash next to something like `\d` is literal.
    fn range(&mut self, set: &mut Units) -> Result<()> {
        let start = self.at;
        let first = self.member()?;
        if self.peek(0) != Some('-') || matches!(self.peek(1), None | Some(']')) {
            first.add_to(set);
            return Ok(());
        }
        self.at += 1;
        match (first, self.member()?) {
            (Member::One(first), Member::One(last)) if first <= last => set.add(first, last),
            (Member::One(first), Member::One(last)) => {
                let advice = if units::is_half(first) || units::is_half(last) {
                    "characters above U+FFFF are two halves in JavaScript: write (a|b) for them, not [a-b]"
                } else {
                    "write the smaller end first, or \\- for a dash"
                };
                return Err(Refused { at: start, what: "a range is out of order".into(), advice });
            }
            (first, last) => {
                first.add_to(set);
                set.add(DASH, DASH);
                last.add_to(set);
            }
        }
        Ok(())
    }

    fn member(&mut self) -> Result<Member> {
        let next = match (self.peek(0), self.peek(1)) {
            (Some('\\'), Some('b')) => {
                self.at += 2;
                return Ok(Member::One(0x08));
            }
            (Some('\\'), Some(letter)) => {
                if let Some(units) = Units::named(letter) {
                    self.at += 2;
                    return Ok(Member::Many(units));
                }
                self.escaped(true)?
            }
            (Some('\\'), None) | (None, _) => return self.lone_backslash(),
            (Some(next), _) => {
                self.at += 1;
                next
            }
        };
        Ok(Member::One(units::unit(next)))
    }
}
