//! Older versions of what people chose for sessions.

use serde::{Deserialize, Serialize};

use crate::envelope::Unreadable;
use crate::model::session::SessionSettings;

#[derive(Serialize, Deserialize)]
pub(crate) struct SessionSettingsV1 {
    pub(crate) model: Option<String>,
    pub(crate) effort: Option<String>,
}

impl From<SessionSettingsV1> for SessionSettings {
    fn from(old: SessionSettingsV1) -> Self {
        let SessionSettingsV1 { model, effort } = old;
        Self { model, effort, verbosity: None }
    }
}

pub(crate) fn upgrade(version: u16, body: &[u8]) -> Result<SessionSettings, Unreadable> {
    super::first::<SessionSettingsV1, SessionSettings>(version, body)
}
