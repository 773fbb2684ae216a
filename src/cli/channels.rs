//! `hearth channels`: the configured channels and their state. They are created and changed with `hearth apply`.

use clap::Subcommand;
use serde::Serialize;

use super::listed::{self, Column, Listed, or_empty};
use super::{Done, change, configuration, daemon_status};
use crate::channel::webhook;
use crate::config::Paths;
use crate::model::address::ChannelName;
use crate::model::channel::{ChannelInstance, ChannelKind};
use crate::model::configure::Change;
use crate::socket::protocol::DaemonStatus;

pub(super) mod pair;

#[derive(Debug, Subcommand)]
pub(super) enum ChannelsCommand {
    /// List the configured channels and their state
    List,
    /// Make the person who sends a code to the bot an owner, after a question here
    Pair {
        /// Name of the channel, as in [channels.NAME]
        channel: String,
        /// Do not ask: the first sender of the code becomes an owner
        #[arg(long)]
        yes: bool,
    },
    /// Remove a channel; its chats and people are kept. Applying a file with the channel adds it again
    Remove {
        /// Its name, as in [channels.NAME]
        channel: String,
    },
}

/// A channel in JSON output.
#[derive(Debug, Serialize)]
pub(super) struct ChannelJson {
    pub(super) channel: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    /// `up`, `down`, or `off` without a daemon.
    pub(super) state: String,
    /// Why it is down; null if it is up.
    pub(super) why: Option<String>,
    base_url: Option<String>,
    /// Where it listens; null for channels that do not.
    listen: Option<String>,
    link_previews: bool,
    /// `ask` or `ignore`.
    unknown_chats: &'static str,
    tell_strangers: bool,
    origin: &'static str,
    created: String,
}

/// Runs a channel command.
pub(super) fn channels(paths: &Paths, command: &ChannelsCommand, json: bool) -> Done {
    match command {
        ChannelsCommand::List => list(paths, json),
        ChannelsCommand::Pair { channel, yes } => pair::pair(paths, channel, *yes, json),
        ChannelsCommand::Remove { channel } => {
            change::edit(paths, Change::RemoveChannel(ChannelName::new(channel.as_str())?), json)
        }
    }
}

fn list(paths: &Paths, json: bool) -> Done {
    let known = configuration::read(paths)?;
    let daemon = daemon_status::ask(paths)?;
    let channels: Vec<_> = known.channels.iter().map(|channel| shape(channel, daemon.as_ref())).collect();
    listed::list(&channels, json, "no channels")
}

impl Listed for ChannelJson {
    const PLURAL: &'static str = "channels";
    const COLUMNS: &'static [Column<Self>] = &[
        ("CHANNEL", |one| one.channel.clone()),
        ("TYPE", |one| one.kind.to_owned()),
        ("STATE", |one| one.state.clone()),
        ("LISTENS ON", |one| or_empty(one.listen.as_ref())),
        ("SENDS TO", |one| or_empty(one.base_url.as_ref())),
        ("PROBLEM", |one| or_empty(one.why.as_ref())),
    ];
}

/// A channel with its state, if a daemon reports it.
pub(super) fn shape(channel: &ChannelInstance, daemon: Option<&DaemonStatus>) -> ChannelJson {
    let said = daemon.map(|daemon| daemon.channels.iter().find(|one| one.name == channel.name.as_str()));
    let (state, why) = match said {
        None => ("off".to_owned(), None),
        // The daemon does not know the channel yet: it was just configured.
        Some(None) => ("down".to_owned(), Some("connecting".to_owned())),
        Some(Some(one)) => (one.state.clone(), one.why.clone()),
    };
    let listens = channel.kind == ChannelKind::Webhook;
    ChannelJson {
        channel: channel.name.to_string(),
        kind: channel.kind.as_str(),
        state,
        why,
        base_url: channel.base_url.clone(),
        listen: listens.then(|| channel.listen.unwrap_or(webhook::LISTEN).to_string()),
        link_previews: channel.link_previews,
        unknown_chats: channel.unknown_chats.as_str(),
        tell_strangers: channel.tell_strangers,
        origin: configuration::origin(channel.origin),
        created: channel.created.to_string(),
    }
}

/// A problem that affects a channel, and its fix.
pub(super) fn trouble(channel: &ChannelInstance, daemon: Option<&DaemonStatus>) -> Option<(String, String)> {
    let name = &channel.name;
    if let Some(why) = shape(channel, daemon).why {
        let mend = mend(channel, &why);
        return Some((format!("{name} is down: {why}"), mend));
    }
    if channel.kind == ChannelKind::Webhook && channel.base_url.is_none() {
        let mend = format!("set `base_url` of [channels.{name}] to where its receiver listens, and run `hearth apply`");
        return Some((format!("{name} has no base_url: its outgoing messages wait"), mend));
    }
    None
}

fn mend(channel: &ChannelInstance, why: &str) -> String {
    let name = &channel.name;
    let references = [("token", &channel.token), ("secret", &channel.secret)];
    let missing = references.into_iter().find(|(what, _)| why.starts_with(&format!("its {what} was not found")));
    match missing {
        Some((what, Some(reference))) if reference.starts_with("env:") => {
            format!("set the variable of its {what} ({reference}) in the daemon's environment, and restart the daemon")
        }
        Some((what, _)) => {
            format!(
                "put its {what} where [channels.{name}] says, or change that; Hearth looks for it again automatically"
            )
        }
        None if why.contains("cannot listen") => {
            format!(
                "stop the program that uses this port, or change `listen` in [channels.{name}]; Hearth retries automatically"
            )
        }
        None if why.contains("receiver") => {
            "start or fix the receiver, or correct `base_url`; unsent messages are sent then".to_owned()
        }
        None => format!("correct [channels.{name}] and run `hearth apply`; Hearth reconnects automatically"),
    }
}
