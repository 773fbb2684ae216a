//! JavaScript's syntax -> the compiler's, in one pass over the code units.
//!
//! Only whether a text matches is ever asked, so groups do not capture and lazy is like greedy.

use std::fmt::Write as _;
use std::sync::LazyLock;

use regex::Regex;

use super::units::{Units, character, spread, unit};

/// Groups open at the same time; the compiler's stack is not endless.
const DEPTH_MAX: usize = 100;
/// The largest number in braces; more of anything never fits.
const COUNT_MAX: u32 = 65_535;
/// Characters of the pattern shown at the place of a problem.
const SHOWN: usize = 16;

/// What a group's name may be.
static NAME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\A[$_\p{ID_Start}][$\u{200C}\u{200D}\p{ID_Continue}]*\z").ok());

/// Why a pattern is refused.
#[derive(Debug)]
pub(super) struct Refused {
    /// Code unit where the problem begins.
    pub(super) at: usize,
    pub(super) what: String,
    pub(super) advice: &'static str,
}

pub(super) type Result<T> = std::result::Result<T, Refused>;

/// A pattern on its way.
pub(super) struct Translation {
    /// The code units of the pattern, a character each.
    pub(super) units: Vec<char>,
    /// The next one.
    pub(super) at: usize,
    /// Whether any group has a name: `\k` is a back-reference then.
    pub(super) named: bool,
    /// Groups with a number, in the whole pattern.
    pub(super) captures: u32,
    pub(super) out: String,
    /// Where the open groups begin.
    open: Vec<usize>,
    names: Vec<String>,
}

/// What is in braces behind something: at least, at most, and where it ends.
struct Interval {
    min: u32,
    max: Option<u32>,
    end: usize,
}

/// Translates a pattern; its error is for people.
pub(super) fn translate(pattern: &str) -> std::result::Result<String, String> {
    let mut translation = Translation::new(pattern);
    match translation.run() {
        Ok(()) => Ok(translation.out),
        Err(refused) => Err(describe(pattern, &refused)),
    }
}

fn describe(pattern: &str, refused: &Refused) -> String {
    let mut units = 0;
    let before = pattern.chars().take_while(|c| {
        units += c.len_utf16();
        units <= refused.at
    });
    let before = before.count();
    let rest: String = pattern.chars().skip(before).take(SHOWN).map(shown).collect();
    let Refused { what, advice, .. } = refused;
    let place =
        if rest.is_empty() { "at its end".to_owned() } else { format!("at character {}, `{rest}`", before + 1) };
    format!("{what} {place}; {advice}")
}

/// A character of the pattern as it is, if it can be seen.
fn shown(c: char) -> String {
    match c {
        '\\' | '"' | '\'' => c.to_string(),
        c => c.escape_debug().to_string(),
    }
}

impl Translation {
    fn new(pattern: &str) -> Self {
        let units: Vec<char> = spread(pattern).chars().collect();
        let (captures, named) = count_groups(&units);
        Self { units, at: 0, named, captures, out: String::new(), open: Vec::new(), names: Vec::new() }
    }

    fn run(&mut self) -> Result<()> {
        while let Some(next) = self.peek(0) {
            if self.term(next)? {
                self.quantifier()?;
            }
        }
        match self.open.last() {
            Some(&at) => Err(Refused { at, what: "a group is not closed".into(), advice: "add `)`, or write \\(" }),
            None => Ok(()),
        }
    }

    /// The code unit so many behind the next one.
    pub(super) fn peek(&self, ahead: usize) -> Option<char> {
        self.units.get(self.at + ahead).copied()
    }

    /// A refusal of what begins at the next code unit.
    pub(super) fn refuse<T>(&self, what: impl Into<String>, advice: &'static str) -> Result<T> {
        Err(Refused { at: self.at, what: what.into(), advice })
    }

    /// Translates one term; true if it can be repeated.
    fn term(&mut self, next: char) -> Result<bool> {
        match next {
            '(' => self.group().map(|()| false),
            ')' => self.close().map(|()| true),
            '[' => self.class().map(|()| true),
            '\\' => self.escape(),
            '|' => Ok(self.put("|", false)),
            '^' => Ok(self.put("\\A", false)),
            '$' => Ok(self.put("\\z", false)),
            '*' | '+' | '?' => self.nothing_to_repeat(),
            '{' if self.interval().is_some() => self.nothing_to_repeat(),
            '.' => {
                self.at += 1;
                Units::dot().write(&mut self.out);
                Ok(true)
            }
            literal => {
                self.at += 1;
                self.literal(literal);
                Ok(true)
            }
        }
    }

    /// Appends the translation of one code unit.
    fn put(&mut self, translated: &str, repeatable: bool) -> bool {
        self.at += 1;
        self.out.push_str(translated);
        repeatable
    }

    pub(super) fn literal(&mut self, literal: char) {
        write!(self.out, "\\x{{{:X}}}", u32::from(literal)).ok();
    }

    fn nothing_to_repeat<T>(&self) -> Result<T> {
        self.refuse("there is nothing to repeat", "write a backslash before the character if it is meant itself")
    }

    fn group(&mut self) -> Result<()> {
        const LINEAR: &str = "it cannot be searched in linear time: say it without";
        let start = self.at;
        match self.units.get(start..).unwrap_or_default() {
            ['(', '?', ':', ..] => self.at += 3,
            ['(', '?', '=', ..] => return self.refuse("look-ahead is not possible,", LINEAR),
            ['(', '?', '!', ..] => return self.refuse("negative look-ahead is not possible,", LINEAR),
            ['(', '?', '<', '=', ..] => return self.refuse("look-behind is not possible,", LINEAR),
            ['(', '?', '<', '!', ..] => return self.refuse("negative look-behind is not possible,", LINEAR),
            ['(', '?', '<', ..] => self.name()?,
            ['(', '?', ..] => {
                let advice = "there are no flags like (?i) in JavaScript: write (?: for a group, [Aa] for either case";
                return self.refuse("the group is of no known kind,", advice);
            }
            _ => self.at += 1,
        }
        self.open.push(start);
        self.out.push_str("(?:");
        if self.open.len() > DEPTH_MAX {
            return self.refuse(format!("more than {DEPTH_MAX} nested groups"), "write it flatter");
        }
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        if self.open.pop().is_none() {
            return self.refuse("`)` closes no group", "remove it, or write \\)");
        }
        self.put(")", true);
        Ok(())
    }

    /// Reads `(?<name>`. A name means nothing else here, but a bad one is refused.
    fn name(&mut self) -> Result<()> {
        let start = self.at;
        self.at += 3;
        let mut name = Vec::new();
        let closed = loop {
            match self.peek(0) {
                None => break false,
                Some('>') => break true,
                Some('\\') => match self.name_escape() {
                    Some(escaped) => name.extend(escaped.encode_utf16(&mut [0; 2]).iter().copied()),
                    None => break false,
                },
                Some(next) => {
                    name.extend(u16::try_from(unit(next)));
                    self.at += 1;
                }
            }
        };
        self.at += 1;
        let name = String::from_utf16(&name).unwrap_or_default();
        let refuse = |what: &str, advice| Err(Refused { at: start, what: what.to_owned(), advice });
        if !closed || !NAME.as_ref().is_some_and(|form| form.is_match(&name)) {
            return refuse(
                "a group has no proper name,",
                "write (?<name> with letters and digits, or (?: without a name",
            );
        }
        if self.names.contains(&name) {
            return refuse("two groups have the same name,", "write (?: for one of them");
        }
        self.names.push(name);
        Ok(())
    }

    /// `\u0061` or `\u{61}` in a name.
    fn name_escape(&mut self) -> Option<char> {
        let braces = self.peek(2) == Some('{');
        let (from, digits) = if braces {
            let rest = self.units.get(self.at + 3..)?;
            (3, rest.iter().position(|&c| c == '}')?)
        } else {
            (2, 4)
        };
        let digits_end = self.at + from + digits;
        let text: String = self.units.get(self.at + from..digits_end)?.iter().collect();
        if self.peek(1) != Some('u') || !text.chars().all(|c| c.is_ascii_hexdigit()) {
            return None;
        }
        self.at = digits_end + usize::from(braces);
        char::from_u32(u32::from_str_radix(&text, 16).ok()?)
    }

    fn quantifier(&mut self) -> Result<()> {
        match self.peek(0) {
            Some(sign @ ('*' | '+' | '?')) => {
                self.at += 1;
                self.out.push(sign);
            }
            Some('{') => {
                let Some(Interval { min, max, end }) = self.interval() else { return Ok(()) };
                if max.is_some_and(|max| max < min) {
                    return self.refuse("the numbers in braces are out of order", "write the smaller one first");
                }
                if max.unwrap_or(min) > COUNT_MAX {
                    let advice = "write a smaller number, or none for any number: {1,}";
                    return self.refuse(format!("a number in braces is above {COUNT_MAX}"), advice);
                }
                let max = max.map(|max| max.to_string()).unwrap_or_default();
                write!(self.out, "{{{min},{max}}}").ok();
                self.at = end;
            }
            _ => return Ok(()),
        }
        if self.peek(0) == Some('?') {
            self.at += 1;
        }
        Ok(())
    }

    /// What the next code unit, a brace, begins; none if it stands for itself.
    fn interval(&self) -> Option<Interval> {
        let (min, end) = self.number(self.at + 1)?;
        match self.units.get(end..)? {
            ['}', ..] => Some(Interval { min, max: Some(min), end: end + 1 }),
            [',', '}', ..] => Some(Interval { min, max: None, end: end + 2 }),
            [',', ..] => {
                let (max, end) = self.number(end + 1)?;
                let closed = self.units.get(end) == Some(&'}');
                closed.then_some(Interval { min, max: Some(max), end: end + 1 })
            }
            _ => None,
        }
    }

    /// A decimal number and where it ends; too large ones are the largest.
    pub(super) fn number(&self, from: usize) -> Option<(u32, usize)> {
        let digits = self.units.get(from..)?.iter().map_while(|c| c.to_digit(10));
        let (count, value) = digits
            .fold((0, 0_u32), |(count, value), digit| (count + 1, value.saturating_mul(10).saturating_add(digit)));
        (count > 0).then_some((value, from + count))
    }

    /// The character of some hexadecimal digits.
    pub(super) fn hex(&self, from: usize, count: usize) -> Option<char> {
        let digits: String = self.units.get(from..from + count)?.iter().collect();
        let all = digits.chars().all(|c| c.is_ascii_hexdigit());
        u32::from_str_radix(&digits, 16).ok().filter(|_| all).map(character)
    }
}

/// How many groups of a pattern have a number, and whether one has a name.
fn count_groups(units: &[char]) -> (u32, bool) {
    let (mut count, mut named, mut in_class, mut at) = (0, false, false, 0);
    while let Some(next) = units.get(at) {
        match next {
            '\\' => at += 1,
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => match units.get(at + 1..).unwrap_or_default() {
                ['?', '<', '=' | '!', ..] => {}
                ['?', '<', ..] => {
                    count += 1;
                    named = true;
                }
                ['?', ..] => {}
                _ => count += 1,
            },
            _ => {}
        }
        at += 1;
    }
    (count, named)
}
