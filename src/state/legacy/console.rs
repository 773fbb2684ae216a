//! Older versions of the console's settings.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::envelope::Unreadable;
use crate::model::console::ConsoleSettings;

#[derive(Serialize, Deserialize)]
pub(crate) struct ConsoleSettingsV1 {
    pub(crate) enabled: bool,
    pub(crate) listen: SocketAddr,
}

impl From<ConsoleSettingsV1> for ConsoleSettings {
    fn from(old: ConsoleSettingsV1) -> Self {
        let ConsoleSettingsV1 { enabled, listen } = old;
        Self { enabled, listen, ..Self::default() }
    }
}

pub(crate) fn upgrade(version: u16, body: &[u8]) -> Result<ConsoleSettings, Unreadable> {
    super::first::<ConsoleSettingsV1, ConsoleSettings>(version, body)
}
