//! The real `hearth-runner` against session directories on disk, as a host would see it.

mod bench;
mod turns;
