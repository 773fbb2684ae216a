//! Errors of cron expressions.

use std::fmt;

/// A field of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// Seconds, 0 to 59.
    Seconds,
    /// Minutes, 0 to 59.
    Minutes,
    /// Hours, 0 to 23.
    Hours,
    /// Days of the month, 1 to 31.
    DayOfMonth,
    /// Months, 1 to 12.
    Month,
    /// Days of the week, 0 to 7; 0 and 7 are Sunday.
    DayOfWeek,
}

/// An expression that cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct BadCron {
    /// The expression, shortened for a message.
    pub text: String,
    /// The invalid field; none if the whole expression is invalid.
    pub field: Option<Field>,
    /// What is wrong.
    pub problem: Problem,
}

/// The problem of an expression or of one of its fields.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The expression is empty.
    #[error("it is empty; write five fields like `0 9 * * 1-5`")]
    Empty,
    /// More than 1,000 bytes.
    #[error("it has more than 1000 bytes")]
    TooLong,
    /// Not five or six fields.
    #[error(
        "it has {}; write five (minute, hour, day of month, month, day of week), or six with seconds first", fields(*.0)
    )]
    Count(usize),
    /// An unknown `@` name.
    #[error("there is no such short form; write @yearly, @monthly, @weekly, @daily, @hourly, or five fields")]
    NoSuchName,
    /// Something that is not a number, name or range.
    #[error("`{0}` is not understood; write numbers, names, ranges like 1-5, steps like */15, and lists of them")]
    Form(String),
    /// `H`.
    #[error("`H` stands for any value; write a specific one")]
    Hash,
    /// `W`.
    #[error("`W` is not supported; write a day")]
    NearestWeekday,
    /// A sign that this field does not support.
    #[error("`{0}` has no meaning there")]
    Misplaced(String),
    /// A value outside of the field's range.
    #[error("{value} is out of range; it must be from {least} to {most}")]
    Range {
        /// The value as written.
        value: String,
        /// The smallest that is possible.
        least: u32,
        most: u32,
    },
    /// A range that ends before it begins.
    #[error("the range {0} ends before it begins; write two ranges")]
    Backwards(String),
    /// A step of zero, or greater than the field's range.
    #[error("the step {step} is out of range; it must be from 1 to {most}")]
    Step {
        /// The step as written.
        step: String,
        /// The largest that is possible.
        most: u32,
    },
    /// No selected month has such a day.
    #[error("the selected months have no such day")]
    Never,
    /// The `cron` crate refuses it.
    #[error("it cannot be evaluated: {0}")]
    Calendar(String),
}

fn fields(count: usize) -> String {
    if count == 1 { "1 field".to_owned() } else { format!("{count} fields") }
}

impl BadCron {
    pub(super) fn of(text: &str, field: Option<Field>, problem: Problem) -> Self {
        Self { text: text.chars().take(60).collect(), field, problem }
    }
}

impl fmt::Display for BadCron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.escape_debug();
        match self.field {
            Some(field) => write!(f, "the {field} of the cron expression `{text}`: {}", self.problem),
            None => write!(f, "the cron expression `{text}`: {}", self.problem),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seconds => "seconds",
            Self::Minutes => "minutes",
            Self::Hours => "hours",
            Self::DayOfMonth => "day of month",
            Self::Month => "month",
            Self::DayOfWeek => "day of week",
        })
    }
}
