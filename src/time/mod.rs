//! Time zones, local times and cron expressions. Pure.

pub mod cron;
pub mod every;
pub mod local;
pub mod natural;
pub mod zone;
