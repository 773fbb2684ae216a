//! Time zones and local times, for the host and for the program on the agent's side. Pure: no clock, no environment.
//!
//! Instants are milliseconds since 1970 UTC; local times are what a clock on the wall shows. A wall skips times when its
//! zone jumps ahead (a gap) and shows times twice when it falls back (a fold): a time in a gap means the time as much later
//! as the gap is long, a time in a fold means the first of the two.

#[cfg(test)]
mod oracle;
mod parse;
mod show;
mod zone;

pub use parse::{BadTime, TimeField, YEARS, instant};
pub use show::{show, show_text};
pub use zone::{BadZone, Change, Resolved, Zone};
