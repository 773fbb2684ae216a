//! EDGE: the daemon's Unix socket. Both sides send one JSON object per line. The first line is a greeting with the
//! token. Agents cannot read the token file, so they cannot authenticate.

pub mod change;
mod check;
pub mod client;
pub mod command;
pub mod protocol;
pub mod server;
