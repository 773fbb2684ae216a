//! EDGES: what Hearth exchanges with the world outside. They know the model, and neither the store nor the engine.

mod agent_socket;
pub mod channel;
pub mod clock;
pub mod config;
pub mod connections;
pub mod console;
pub mod contracts;
pub mod egress;
pub mod gateway;
mod http;
pub mod mailbox;
pub mod provider;
pub mod runtime;
pub mod socket;

#[cfg(all(test, target_os = "linux"))]
mod faults;

use hearth_base::{crash, model, time};
