//! Zones, local times and cron: from what people say to instants. Pure.
