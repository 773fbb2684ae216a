//! `hearth channels`: the networks that are configured and how they are. They are made and changed with `hearth apply`.

use clap::Subcommand;
use serde::Serialize;

use super::{Done, change, configuration, out, status};
use crate::channel::webhook;
use crate::config::Paths;
use crate::model::channel::{ChannelInstance, ChannelKind};
use crate::socket::change::EditJson;
use crate::socket::protocol::DaemonStatus;

#[derive(Debug, Subcommand)]
pub(super) enum ChannelsCommand {
    /// List the configured channels and how they are
    List,
    /// Disconnect and forget a channel, until a file that names it is applied again; its chats and people stay
    Remove {
        /// Its name, as in [channels.NAME]
        channel: String,
    },
}

/// A channel for programs.
#[derive(Debug, Serialize)]
pub(super) struct ChannelJson {
    pub(super) channel: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    /// `up`, `down`, or `off` without a daemon.
    pub(super) state: String,
    /// Why it is down; null if it is not.
    pub(super) why: Option<String>,
    base_url: Option<String>,
    /// Where it listens; null for channels that do not.
    listen: Option<String>,
    origin: &'static str,
    created: String,
}

#[derive(Debug, Serialize)]
struct ChannelsJson {
    channels: Vec<ChannelJson>,
}

/// Carries out a command.
pub(super) fn channels(paths: &Paths, command: &ChannelsCommand, json: bool) -> Done {
    match command {
        ChannelsCommand::List => list(paths, json),
        ChannelsCommand::Remove { channel } => {
            change::edit(paths, EditJson::RemoveChannel { channel: channel.clone() }, json)
        }
    }
}

fn list(paths: &Paths, json: bool) -> Done {
    let known = configuration::read(paths)?;
    let daemon = status::ask(paths)?;
    let channels = known.channels.iter().map(|channel| shape(channel, daemon.as_ref())).collect();
    let answer = ChannelsJson { channels };
    if json {
        return out::json(&answer);
    }
    let row = |one: &ChannelJson| {
        let listen = one.listen.clone().unwrap_or_default();
        let base_url = one.base_url.clone().unwrap_or_default();
        let why = one.why.clone().unwrap_or_default();
        vec![one.channel.clone(), one.kind.to_owned(), one.state.clone(), listen, base_url, why]
    };
    let rows = answer.channels.iter().map(row).collect();
    out::table(&["CHANNEL", "TYPE", "STATE", "LISTENS ON", "SENDS TO", "WHY"], rows)
}

/// A channel as it is, if a daemon says so.
pub(super) fn shape(channel: &ChannelInstance, daemon: Option<&DaemonStatus>) -> ChannelJson {
    let said = daemon.map(|daemon| daemon.channels.iter().find(|one| one.name == channel.name.as_str()));
    let (state, why) = match said {
        None => ("off".to_owned(), None),
        // It was configured a moment ago.
        Some(None) => ("down".to_owned(), Some("it is being connected".to_owned())),
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
        origin: configuration::origin(channel.origin),
        created: channel.created.to_string(),
    }
}

/// What keeps a channel from working, in part or whole, and what mends it.
pub(super) fn trouble(channel: &ChannelInstance, daemon: Option<&DaemonStatus>) -> Option<(String, String)> {
    let name = &channel.name;
    if let Some(why) = shape(channel, daemon).why {
        let mend = mend(channel, &why);
        return Some((format!("{name} is down: {why}"), mend));
    }
    if channel.kind == ChannelKind::Webhook && channel.base_url.is_none() {
        let mend = format!("set `base_url` of [channels.{name}] to where its receiver listens, and run `hearth apply`");
        return Some((format!("{name} has no base_url: nothing can be said through it"), mend));
    }
    None
}

fn mend(channel: &ChannelInstance, why: &str) -> String {
    let name = &channel.name;
    let references = [("token", &channel.token), ("secret", &channel.secret)];
    let missing = references.into_iter().find(|(what, _)| why.starts_with(&format!("its {what} was not found")));
    match missing {
        Some((what, Some(reference))) if reference.starts_with("env:") => {
            format!(
                "set the variable that its {what} names ({reference}) where the daemon is started, and start it again"
            )
        }
        Some((what, _)) => {
            format!("put its {what} where [channels.{name}] says, or change that; it is looked for again by itself")
        }
        None if why.contains("cannot listen") => {
            format!(
                "stop what listens there, or set another `listen` in [channels.{name}]; it is tried again by itself"
            )
        }
        None if why.contains("receiver") => {
            "start or fix the receiver, or correct `base_url`; what waits goes out then".to_owned()
        }
        None => format!("correct [channels.{name}] and run `hearth apply`; it is connected again by itself"),
    }
}
