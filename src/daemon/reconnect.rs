//! Reconnects channels on request: by `hearth channels reconnect`, and when a configuration is applied after the
//! content of a secret changed.

use std::time::Duration;

use super::Daemon;
use super::channels::SecretCheck;
use super::handlers::STOPPING;
use crate::channel::{terminal, webhook};
use crate::config::nearest;
use crate::model::address::ChannelName;
use crate::model::channel::{ChannelInstance, ChannelKind};
use crate::model::configure::Change;
use crate::model::input::Input;
use crate::model::report::{Action, ChangeReport};
use crate::socket::command::Answer;
use crate::socket::protocol::Response;

/// How long applying a configuration waits for the secrets of its channels. Only commands take long; they continue in
/// the background.
const COMPARED: Duration = Duration::from_secs(3);

/// The channels that an input configures.
pub(super) fn configured(input: &Input) -> Vec<ChannelName> {
    let Input::Configure(configure) = input else { return Vec::new() };
    let channel = |change: &Change| match change {
        Change::PutChannel(spec) => Some(spec.name.clone()),
        _ => None,
    };
    configure.changes.iter().filter_map(channel).collect()
}

impl Daemon {
    /// Resolves a channel's secrets again and reconnects it, at once.
    pub(super) async fn reconnect(&self, channel: &str) -> Response {
        let invalid = |message: String| Response::refused("invalid", message);
        if channel == terminal::NAME {
            let message = "the terminal is always connected: `hearth chat` opens a conversation here";
            return invalid(message.to_owned());
        }
        let known = match self.channels.configured_channels() {
            Ok(known) => known,
            Err(error) => return Response::refused("failed", error.to_string()),
        };
        let Some(row) = known.iter().find(|row| row.name.as_str() == channel) else {
            return invalid(missing(channel, &known));
        };
        match row.kind {
            ChannelKind::Webhook => return invalid(of_webhook(row)),
            ChannelKind::Telegram | ChannelKind::Terminal | ChannelKind::Bridge => {}
        }
        if self.is_draining() {
            return Response::refused("stopping", STOPPING.to_owned());
        }
        let begun = match self.channels.reconnect_now(&row.name) {
            Some(begun) => begun.await.is_ok(),
            None => false,
        };
        if !begun {
            return Response::refused("failed", format!("channel {channel} was removed meanwhile"));
        }
        Response::Done { answer: Answer::Reconnecting }
    }

    /// Compares the secrets of channels whose settings did not change with those of their connections, and adds the
    /// results to the reports. Channels whose settings changed are reconnected anyway.
    pub(super) async fn compare_secrets(&self, channels: &[ChannelName], reports: &mut [ChangeReport]) {
        if self.is_draining() {
            return;
        }
        let mut checks = Vec::new();
        for report in reports.iter_mut().filter(|report| report.action == Action::Unchanged) {
            let channel = channels.iter().find(|name| report.entity == format!("channel {name}"));
            let check = channel.and_then(|name| self.channels.compare_secrets(name));
            checks.extend(check.map(|check| (report, check)));
        }
        let end = tokio::time::sleep(COMPARED);
        tokio::pin!(end);
        for (report, check) in checks {
            report.note = tokio::select! {
                biased;
                // A later request replaced a check that has no answer.
                found = check => found.ok().and_then(note),
                () = &mut end => Some("its secrets are still being read, see `hearth channels list`".to_owned()),
            };
        }
    }
}

fn note(found: SecretCheck) -> Option<String> {
    match found {
        SecretCheck::Unchanged => None,
        SecretCheck::Changed(what) => Some(format!("its {what} changed, so Hearth reconnects with the new one")),
        SecretCheck::Retried => Some("it was not connected, so Hearth tries again now".to_owned()),
        SecretCheck::Unresolved(why) => Some(format!("{why}; the connection keeps what it has")),
    }
}

fn missing(channel: &str, known: &[ChannelInstance]) -> String {
    match nearest(channel, known.iter().map(|row| row.name.as_str())) {
        Some(near) => {
            format!("channel {channel} not found; did you mean `{near}`? `hearth channels list` shows all")
        }
        None => format!("channel {channel} not found; `hearth channels list` shows all"),
    }
}

fn of_webhook(row: &ChannelInstance) -> String {
    let (name, listen) = (&row.name, row.listen.unwrap_or(webhook::LISTEN));
    format!(
        "channel {name} is a webhook and has no connection to renew: it listens at {listen}, and calls its \
         receiver for each message; `hearth apply` with its section reads its secret again, and listens at once if it \
         waits"
    )
}
