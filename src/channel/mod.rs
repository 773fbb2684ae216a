//! EDGE: where messages come from and go to. One file per network; what comes in is checked in [`event`].

pub mod event;
mod json;
