//! Time zones and local times, for the host and for the runner. Pure: no clock, no environment.
//!
//! Instants are milliseconds since 1970 UTC; local times are what a clock shows. When a zone's clocks go forward, local
//! times are skipped (a gap); when they go back, local times occur twice (a fold). A time in a gap is shifted later by
//! the length of the gap. A time in a fold means the first of the two instants.

#[cfg(test)]
mod oracle;
mod parse;
mod show;
mod zone;

pub use parse::{BadTime, TimeField, YEARS, instant};
pub use show::{clock, show, show_text};
pub use zone::{BadZone, Change, Resolved, Zone};
