//! `hearth bridge`: for authors of bridges, the programs that connect Hearth with networks.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Done;
use crate::config::Paths;
use built_in::BuiltIn;

mod built_in;
mod enter;
mod kit;

#[derive(Debug, Subcommand)]
pub(super) enum BridgeCommand {
    /// Test a bridge: start it as the daemon would, and check what it does with everything that can happen to it
    Test(TestArgs),
    /// Become the program of a bridge
    #[command(hide = true)]
    Enter {
        /// The program and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<OsString>,
    },
    /// Run a channel of the daemon as if it were a bridge, for `test --built-in`
    #[command(hide = true)]
    BuiltIn {
        /// The channel
        channel: BuiltIn,
    },
}

#[derive(Debug, Args)]
pub(super) struct TestArgs {
    /// Program that stands for the people on the network: `PROGRAM say TEXT` writes to the bot, `PROGRAM heard` prints
    /// everything that the bridge sent. Without it, cases that need the network are not tried
    #[arg(long, value_name = "PROGRAM")]
    network: Option<PathBuf>,
    /// Chat to which the cases send [default: that of the first message]
    #[arg(long)]
    chat: Option<String>,
    /// Settings of the channel, a JSON object
    #[arg(long, value_name = "JSON")]
    settings: Option<String>,
    /// Where the token is: `env:NAME`, `file:PATH` or `cmd:…` [default: a random text]
    #[arg(long, value_name = "REFERENCE")]
    token: Option<String>,
    /// Where the secret is, if the network has a second one
    #[arg(long, value_name = "REFERENCE")]
    secret: Option<String>,
    /// Directory of the bridge, which stores things in `state` there, such as the keys of a linked device [default: a new
    /// one]
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
    /// Start the bridge with all rights of this user
    #[arg(long)]
    unconfined: bool,
    /// Seconds that the bridge has for an answer, and a case as a whole; give it more on a busy machine
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    patience: u64,
    /// Only the cases whose names contain this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Test a channel that is part of Hearth instead of a bridge, with its `base_url` and `listen` as settings
    #[arg(long, value_name = "CHANNEL", conflicts_with = "program")]
    built_in: Option<BuiltIn>,
    /// The bridge and its arguments
    #[arg(last = true, required_unless_present = "built_in", value_name = "PROGRAM")]
    program: Vec<String>,
}

/// The command that a bridge's process begins with, before anything else is done.
pub(super) fn entered(command: &BridgeCommand) -> Option<Done> {
    match command {
        BridgeCommand::Enter { program } => Some(enter::enter(program)),
        BridgeCommand::BuiltIn { channel } => Some(built_in::run(*channel)),
        BridgeCommand::Test(_) => None,
    }
}

/// Runs a command about bridges.
pub(super) fn bridge(paths: &Paths, command: &BridgeCommand, json: bool) -> Done {
    match command {
        BridgeCommand::Test(args) => kit::test(paths, args, json),
        BridgeCommand::Enter { .. } | BridgeCommand::BuiltIn { .. } => Ok(()),
    }
}
