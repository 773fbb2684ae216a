//! Older versions of what is known of bridges.

use serde::{Deserialize, Serialize};

use super::frozen_enum;
use crate::envelope::Unreadable;
use crate::model::address::ChannelName;
use crate::model::channel::{BridgeState, Capabilities, Choice, Cursor, OnUncertain};
use crate::model::time::Millis;

#[derive(Serialize, Deserialize)]
pub(crate) struct BridgeStateV1 {
    pub(crate) channel: ChannelName,
    pub(crate) program: Option<String>,
    pub(crate) capabilities: Option<CapabilitiesV1>,
    pub(crate) cursors: Vec<CursorV1>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct CapabilitiesV1 {
    pub(crate) threads: bool,
    pub(crate) on_uncertain: OnUncertainV1,
    pub(crate) choice: ChoiceV1,
    pub(crate) card_max: u64,
    pub(crate) edits: bool,
    pub(crate) opens_direct: bool,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum OnUncertainV1 {
    Again,
    Marked,
    Within(Millis),
}

frozen_enum! {
    ChoiceV1 => Choice { Buttons, Numbers }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct CursorV1 {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl From<OnUncertainV1> for OnUncertain {
    fn from(old: OnUncertainV1) -> Self {
        match old {
            OnUncertainV1::Again => Self::SendAgain,
            OnUncertainV1::Marked => Self::SendAgainMarked,
            OnUncertainV1::Within(length) => Self::SendAgainWithin(length),
        }
    }
}

/// The bridge says whether it sends files when it connects.
impl From<CapabilitiesV1> for Capabilities {
    fn from(old: CapabilitiesV1) -> Self {
        let CapabilitiesV1 { threads, on_uncertain, choice, card_max, edits, opens_direct } = old;
        let (on_uncertain, choice) = (on_uncertain.into(), choice.into());
        Self { threads, on_uncertain, choice, card_max, edits, opens_direct, files: false }
    }
}

impl From<BridgeStateV1> for BridgeState {
    fn from(old: BridgeStateV1) -> Self {
        let BridgeStateV1 { channel, program, capabilities, cursors } = old;
        let cursors = cursors.into_iter().map(|CursorV1 { name, value }| Cursor { name, value }).collect();
        Self { channel, program, capabilities: capabilities.map(Capabilities::from), cursors }
    }
}

pub(crate) fn upgrade(version: u16, body: &[u8]) -> Result<BridgeState, Unreadable> {
    super::first::<BridgeStateV1, BridgeState>(version, body)
}
