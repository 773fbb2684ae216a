//! Parses the fields of an expression into sets of values.

use std::fmt;

use super::error::{Field, Problem};

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The week has seven days, and Sunday two numbers.
const SUNDAY_AGAIN: u32 = 7;

/// Values of a field, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Set(u64);

/// One entry of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    /// `*`, or `*/n`.
    All(Option<u32>),
    /// `a`, or `a/n`: from there on.
    One(u32, Option<u32>),
    /// `a-b`, or `a-b/n`.
    Range(u32, u32, Option<u32>),
    /// `L` in the days of the month: the last one.
    LastDay,
    /// `5L` in the days of the week: the last Friday of the month.
    LastWeekday(u32),
    /// `5#2` in the days of the week: the second Friday of the month.
    NthWeekday(u32, u32),
}

/// A parsed expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) seconds: Entries,
    pub(super) minutes: Entries,
    pub(super) hours: Entries,
    pub(super) days: Entries,
    pub(super) months: Entries,
    pub(super) weekdays: Entries,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entries {
    field: Field,
    items: Vec<Item>,
}

/// Reads the six fields, seconds first.
pub(super) fn read(words: [&str; 6]) -> Result<Fields, (Field, Problem)> {
    let [seconds, minutes, hours, days, months, weekdays] = words;
    let entries = |field: Field, word: &str| {
        let items = word.split(',').map(|entry| field.entry(entry)).collect::<Result<_, _>>();
        items.map(|items| Entries { field, items }).map_err(|problem| (field, problem))
    };
    Ok(Fields {
        seconds: entries(Field::Seconds, seconds)?,
        minutes: entries(Field::Minutes, minutes)?,
        hours: entries(Field::Hours, hours)?,
        days: entries(Field::DayOfMonth, days)?,
        months: entries(Field::Month, months)?,
        weekdays: entries(Field::DayOfWeek, weekdays)?,
    })
}

impl Fields {
    /// Whether it runs in every hour of the day.
    pub(super) fn is_hourly(&self) -> bool {
        self.hours.set().len() == 24
    }

    /// The expression in canonical form.
    pub(super) fn written(&self, with_seconds: bool) -> String {
        let all = [&self.seconds, &self.minutes, &self.hours, &self.days, &self.months, &self.weekdays];
        let skipped = usize::from(!with_seconds);
        all.into_iter().skip(skipped).map(Entries::to_string).collect::<Vec<_>>().join(" ")
    }
}

impl Entries {
    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    /// Whether it explicitly restricts nothing: `*` or `?`, alone or in a list.
    pub(super) fn is_open(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::All(None | Some(1))))
    }

    /// The plain values; Sunday is 0. In a list whose week begins on another day, a range to the end of the week
    /// includes Sunday.
    pub(super) fn set(&self) -> Set {
        let (least, most) = self.field.bounds();
        let mut set = Set::default();
        for item in &self.items {
            let (from, to, step) = match *item {
                Item::All(step) => (least, most, step.unwrap_or(1)),
                Item::One(value, None) => (value, value, 1),
                Item::One(value, Some(step)) => (value, most, step),
                Item::Range(from, to, step) => (from, to, step.unwrap_or(1)),
                Item::LastDay | Item::LastWeekday(_) | Item::NthWeekday(..) => continue,
            };
            let values = (from..=to).step_by(usize::try_from(step).unwrap_or(1));
            values.for_each(|value| set.add(self.field.folded(value)));
        }
        set
    }
}

impl Field {
    const fn bounds(self) -> (u32, u32) {
        match self {
            Self::Seconds | Self::Minutes => (0, 59),
            Self::Hours => (0, 23),
            Self::DayOfMonth => (1, 31),
            Self::Month => (1, 12),
            Self::DayOfWeek => (0, SUNDAY_AGAIN),
        }
    }

    /// How many values there are.
    const fn count(self) -> u32 {
        match self {
            Self::DayOfWeek => 7,
            _ => self.bounds().1 - self.bounds().0 + 1,
        }
    }

    fn folded(self, value: u32) -> u32 {
        if self == Self::DayOfWeek { value % SUNDAY_AGAIN } else { value }
    }

    /// Reads one entry of a list.
    fn entry(self, text: &str) -> Result<Item, Problem> {
        let upper = text.to_ascii_uppercase();
        let form = || Problem::Form(text.chars().take(20).collect::<String>().escape_debug().to_string());
        match (self, upper.as_str()) {
            (_, "*") | (Self::DayOfMonth | Self::DayOfWeek, "?") => return Ok(Item::All(None)),
            (_, "?") => return Err(Problem::Misplaced("?".to_owned())),
            (_, "H") => return Err(Problem::Hash),
            (_, other) if other.starts_with("H/") || other.starts_with("H(") => return Err(Problem::Hash),
            (Self::DayOfMonth, "L") => return Ok(Item::LastDay),
            (Self::DayOfMonth, other) if other.ends_with('W') => return Err(Problem::NearestWeekday),
            (Self::DayOfWeek, "L") => return Err(Problem::Misplaced("L (say which day, like 5L)".to_owned())),
            (_, "L") => return Err(Problem::Misplaced("L".to_owned())),
            _ => {}
        }
        if self == Self::DayOfWeek {
            if let Some(day) = upper.strip_suffix('L') {
                return Ok(Item::LastWeekday(self.value(day, &form)? % SUNDAY_AGAIN));
            }
            if let Some((day, nth)) = upper.split_once('#') {
                let range = || Problem::Range { value: nth.to_owned(), least: 1, most: 5 };
                let nth: u32 = number(nth).ok_or_else(form)?;
                let day = self.value(day, &form)? % SUNDAY_AGAIN;
                return if (1..=5).contains(&nth) { Ok(Item::NthWeekday(day, nth)) } else { Err(range()) };
            }
        }
        let (range, step) = match upper.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step, &form)?)),
            None => (upper.as_str(), None),
        };
        if range == "*" {
            return Ok(Item::All(step));
        }
        match range.split_once('-') {
            None => Ok(Item::One(self.value(range, &form)?, step)),
            Some((from, to)) => {
                let (from, to) = (self.value(from, &form)?, self.value(to, &form)?);
                // A week may end with its Sunday.
                let to = if self == Self::DayOfWeek && to == 0 && from > 0 { SUNDAY_AGAIN } else { to };
                if from <= to { Ok(Item::Range(from, to, step)) } else { Err(Problem::Backwards(range.to_owned())) }
            }
        }
    }

    fn value(self, text: &str, form: &dyn Fn() -> Problem) -> Result<u32, Problem> {
        let names: &[&str] = match self {
            Self::Month => &MONTHS,
            Self::DayOfWeek => &WEEKDAYS,
            _ => &[],
        };
        let (least, most) = self.bounds();
        let named = names.iter().zip(least..).find(|(name, _)| name.eq_ignore_ascii_case(text));
        if let Some((_, value)) = named {
            return Ok(value);
        }
        let range = || Problem::Range { value: text.chars().take(20).collect(), least, most };
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match number(text) {
            Some(value) if (least..=most).contains(&value) => Ok(value),
            None if !digits => Err(form()),
            Some(_) | None => Err(range()),
        }
    }

    fn step(self, text: &str, form: &dyn Fn() -> Problem) -> Result<u32, Problem> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(form());
        }
        let most = self.count();
        let step = number(text).filter(|step| (1..=most).contains(step));
        step.ok_or_else(|| Problem::Step { step: text.chars().take(20).collect(), most })
    }
}

impl Set {
    fn add(&mut self, value: u32) {
        self.0 |= 1_u64.checked_shl(value).unwrap_or(0);
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) const fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub(super) fn values(self) -> impl Iterator<Item = u32> {
        (0..64).filter(move |value| self.0 >> value & 1 == 1)
    }
}

impl FromIterator<u32> for Set {
    fn from_iter<I: IntoIterator<Item = u32>>(values: I) -> Self {
        let mut set = Self::default();
        values.into_iter().for_each(|value| set.add(value));
        set
    }
}

impl fmt::Display for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.items.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let folded = |value| self.field.folded(value);
            match *item {
                Item::All(_) => write!(f, "{comma}*")?,
                Item::One(value, None) => write!(f, "{comma}{}", folded(value))?,
                // Starting from the Sunday at the end of the week there are no further days; from the one at the
                // beginning, a whole week.
                Item::One(value, Some(_)) => write!(f, "{comma}{value}")?,
                Item::Range(from, to, _) => write!(f, "{comma}{from}-{to}")?,
                Item::LastDay => write!(f, "{comma}L")?,
                Item::LastWeekday(day) => write!(f, "{comma}{day}L")?,
                Item::NthWeekday(day, nth) => write!(f, "{comma}{day}#{nth}")?,
            }
            if let Item::All(Some(step)) | Item::One(_, Some(step)) | Item::Range(_, _, Some(step)) = item {
                write!(f, "/{step}")?;
            }
        }
        Ok(())
    }
}

/// A number without a sign.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
