//! Translates JavaScript's pattern syntax into the regex compiler's, in one pass over the code units.
//!
//! Callers only ask whether a text matches, so groups do not capture and lazy quantifiers equal greedy ones.

use crate::rules::pattern::units;
use crate::rules::pattern::units::Units;
use regex::Regex;
use std::fmt::Write as _;
use std::sync::LazyLock;

/// Maximum number of open groups; the compiler's stack is limited.
const DEPTH_MAX: usize = 100;

/// The largest number in braces. No larger repetition ever fits.
const COUNT_MAX: u32 = 65_535;

/// Characters of the pattern shown at the position of a problem.
const SHOWN: usize = 16;

/// The form of a group's name.
static NAME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\A[$_\p{ID_Start}][$\u{200C}\u{200D}\p{ID_Continue}]*\z").ok());

/// Why a pattern is rejected.
#[derive(Debug)]
pub(crate) struct Refused {
    /// Code unit where the problem begins.
    pub(crate) at: usize,
    pub(crate) what: String,
    pub(crate) advice: &'static str,
}

pub(crate) type Result<T> = std::result::Result<T, Refused>;

/// A translation in progress.
pub(crate) struct Translation {
    /// The code units of the pattern, one character each.
    pub(crate) units: Vec<char>,
    /// The position of the next one.
    pub(crate) at: usize,
    /// Whether any group has a name, which makes `\k` a back-reference.
    pub(crate) named: bool,
    /// The number of capturing groups in the whole pattern.
    pub(crate) captures: u32,
    pub(crate) out: String,
    /// Where the open groups begin.
    open: Vec<usize>,
    names: Vec<String>,
}

/// The interval of a quantifier in braces: minimum, maximum, and where it ends.
struct Interval {
    min: u32,
    max: Option<u32>,
    end: usize,
}

/// Translates a pattern. The error text is for people.
pub(crate) fn translate(pattern: &str) -> std::result::Result<String, String> {
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

/// A character of the pattern, escaped unless it is visible.
fn shown(c: char) -> String {
    match c {
        '\\' | '"' | '\'' => c.to_string(),
        c => c.escape_debug().to_string(),
    }
}

impl Translation {
    fn new(pattern: &str) -> Self {
        let units: Vec<char> = units::spread(pattern).chars().collect();
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

    /// The code unit `ahead` positions after the next one.
    pub(crate) fn peek(&self, ahead: usize) -> Option<char> {
        self.units.get(self.at + ahead).copied()
    }

    /// Rejects what begins at the next code unit.
    pub(crate) fn refuse<T>(&self, what: impl Into<String>, advice: &'static str) -> Result<T> {
        Err(Refused { at: self.at, what: what.into(), advice })
    }

    /// Translates one term. Returns whether it can be repeated.
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

    pub(crate) fn literal(&mut self, literal: char) {
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

    /// Reads `(?<name>`. Names have no other effect, but an invalid one is rejected.
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
                    name.extend(u16::try_from(units::unit(next)));
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

    /// The interval that begins at the next code unit, a brace; none if the brace is literal.
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

    /// Reads a decimal number. Returns it, capped at `u32::MAX`, and where it ends.
    pub(crate) fn number(&self, from: usize) -> Option<(u32, usize)> {
        let digits = self.units.get(from..)?.iter().map_while(|c| c.to_digit(10));
        let (count, value) = digits
            .fold((0, 0_u32), |(count, value), digit| (count + 1, value.saturating_mul(10).saturating_add(digit)));
        (count > 0).then_some((value, from + count))
    }

    /// The character given by hexadecimal digits.
    pub(crate) fn hex(&self, from: usize, count: usize) -> Option<char> {
        let digits: String = self.units.get(from..from + count)?.iter().collect();
        let all = digits.chars().all(|c| c.is_ascii_hexdigit());
        u32::from_str_radix(&digits, 16).ok().filter(|_| all).map(units::character)
    }
}

/// The number of capturing groups of a pattern, and whether any has a name.
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
