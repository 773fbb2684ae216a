//! HOST: the daemon, which joins the engine and the edges. It knows no command.

pub mod daemon;

use hearth_base::{crash, model, time};
use hearth_edges::{channel, clock, config, console, contracts, egress, gateway, mailbox, provider, runtime, socket};
use {hearth_engine as engine, hearth_state as state};
