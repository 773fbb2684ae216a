//! `hearth channels`: the configured channels and their state. They are created and changed with `hearth apply`.

use clap::Subcommand;
use serde::Serialize;

use super::listed::{self, Column, Listed, or_empty};
use super::{Done, change, configuration, daemon_status, human_time};
use crate::channel::webhook;
use crate::config::Paths;
use crate::model::address::ChannelName;
use crate::model::channel::{ChannelInstance, ChannelKind};
use crate::model::configure::Change;
use crate::socket::protocol::DaemonStatus;

pub(super) mod pair;
mod reconnect;

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
    /// Read the secrets of a channel again and reconnect it, at once
    Reconnect {
        /// Its name, as in [channels.NAME]
        channel: String,
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
    /// `up`, `down`, `connecting`, or `off` without a daemon.
    pub(super) state: String,
    /// Why it is down, or the last failure of a channel that is connecting; null if it is up.
    pub(super) why: Option<String>,
    /// When its service last answered a call, or made one; null if it has not since the daemon started.
    last_contact: Option<String>,
    /// When it is tried again; null if it does not wait.
    next_try: Option<String>,
    base_url: Option<String>,
    /// The program of a bridge and its arguments; null for channels without one.
    program: Option<Vec<String>>,
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
        ChannelsCommand::Reconnect { channel } => reconnect::reconnect(paths, channel, json),
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
        ("STATE", Self::words),
        ("LAST CONTACT", |one| one.last_contact.as_deref().map(human_time::age).unwrap_or_default()),
        ("LISTENS ON", |one| or_empty(one.listen.as_ref())),
        ("SENDS TO", |one| {
            one.base_url.clone().or_else(|| one.program.as_ref().map(|words| words.join(" "))).unwrap_or_default()
        }),
        ("PROBLEM", |one| or_empty(one.why.as_ref())),
    ];
}

impl ChannelJson {
    /// The state in words: `connected`, or `down, next try in 40 s`.
    pub(super) fn words(&self) -> String {
        let state = match self.state.as_str() {
            "up" if self.kind == ChannelKind::Webhook.as_str() => "listening",
            "up" => "connected",
            other => other,
        };
        match self.next_try.as_deref().and_then(human_time::ahead) {
            Some(ahead) => format!("{state}, next try {ahead}"),
            None => state.to_owned(),
        }
    }

    pub(super) fn is_down(&self) -> bool {
        self.state == "down"
    }

    pub(super) fn is_up(&self) -> bool {
        self.state == "up"
    }
}

/// A channel with its state, if a daemon reports it.
pub(super) fn shape(channel: &ChannelInstance, daemon: Option<&DaemonStatus>) -> ChannelJson {
    let said = daemon.map(|daemon| daemon.channels.iter().find(|one| one.name == channel.name.as_str()));
    let state = match said {
        None => "off",
        // The daemon does not know the channel yet: it was just configured.
        Some(None) => "connecting",
        Some(Some(one)) => &one.state,
    };
    let known = said.flatten();
    let listens = channel.kind == ChannelKind::Webhook;
    ChannelJson {
        channel: channel.name.to_string(),
        kind: channel.kind.as_str(),
        state: state.to_owned(),
        why: known.and_then(|one| one.why.clone()),
        last_contact: known.and_then(|one| one.last_contact.clone()),
        next_try: known.and_then(|one| one.next_try.clone()),
        base_url: channel.base_url.clone(),
        program: channel.program.as_ref().map(|program| program.command.clone()),
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
    let shape = shape(channel, daemon);
    if shape.is_down() {
        // Without the time of the next try: `status --watch` reports every change of a problem.
        let why = shape.why.unwrap_or_default();
        return Some((format!("{name} is down: {why}"), mend(channel, &why)));
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
                "store its {what} where [channels.{name}] says, or change that setting; Hearth retries automatically"
            )
        }
        None if why.contains("cannot listen") => {
            format!(
                "stop the program that uses this port, or change `listen` in [channels.{name}]; Hearth retries automatically"
            )
        }
        None if channel.kind == ChannelKind::Bridge => format!(
            "correct [channels.{name}] or the bridge's program, and run `hearth channels reconnect {name}`; `hearth \
             bridge test` tests a bridge"
        ),
        None if why.contains("receiver") => {
            "start or fix the receiver, or correct `base_url`; unsent messages are sent then".to_owned()
        }
        None if why.contains("does not accept the token") => match &channel.token {
            Some(reference) if reference.starts_with("env:") => format!(
                "set the right token in its variable ({reference}) in the daemon's environment, and restart the daemon"
            ),
            _ => format!(
                "store the right token where [channels.{name}] says, and run `hearth channels reconnect {name}`, which \
                 tries it at once"
            ),
        },
        None => format!("correct [channels.{name}] and run `hearth apply`; Hearth reconnects automatically"),
    }
}
