//! Zones, local times and cron: from what people say to instants. Pure.

pub mod cron;
pub mod every;
pub mod local;
pub mod zone;
