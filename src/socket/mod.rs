//! EDGE: the daemon's Unix socket: one JSON object per line, both ways. The first line is a greeting with the token;
//! agents cannot read the token's file, so no agent gets past it.

pub mod change;
pub mod client;
pub mod protocol;
pub mod server;
pub mod session;
pub mod shape;
pub mod take_in;
pub mod task;
pub mod workspace;
