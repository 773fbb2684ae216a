//! A session that a fallback drives.

use super::{SESSION, at};
use crate::model::budget::Fallback;
use crate::model::entity::ProviderKind;
use crate::model::session_providers::{Gap, SessionProviders, StandIn};
use crate::{Result, Tables, Write};

pub(super) fn providers(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    let fallback = Fallback { provider: ProviderKind::Command, command: vec!["answer".to_owned()], model: None };
    let providers = SessionProviders {
        stand_in: Some(StandIn { fallback, since: at(6), why: "429".to_owned() }),
        gaps: vec![Gap { of: None, known: 7, open: vec![4] }],
        reset: 2,
    };
    db.session_providers.put(txn, &SESSION, &providers)
}
