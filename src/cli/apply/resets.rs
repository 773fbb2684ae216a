//! Keys that a file omits for the entities that it names. Applying the file resets them to their defaults.

use super::super::change::Configured;
use super::super::consent::Consent;
use super::super::{Done, Failure, print};
use super::reset_words::consequence;
use crate::config::file;
use crate::model::report::FieldChange;

/// An omitted key that goes back to its default.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reset {
    entity: String,
    field: FieldChange,
}

/// Keys that go back to their defaults because a file omits them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Resets(Vec<Reset>);

impl Resets {
    /// Moves the resets from a report into a separate part.
    pub(super) fn split(mut planned: Configured, toml: &str) -> (Configured, Self) {
        let named = file::named_keys(toml);
        let mut resets = Vec::new();
        for change in &mut planned.changes {
            let Some(keys) = named.get(&change.entity) else { continue };
            let fields = std::mem::take(&mut change.fields);
            let (kept, reset): (Vec<_>, Vec<_>) = fields.into_iter().partition(|field| keys.contains(&field.field));
            change.fields = kept;
            resets.extend(reset.into_iter().map(|field| Reset { entity: change.entity.clone(), field }));
        }
        (planned, Self(resets))
    }

    /// Prints them in words.
    pub(super) fn print(&self) -> Done {
        if self.0.is_empty() {
            return Ok(());
        }
        print::line("reset, because the file omits the key:")?;
        for Reset { entity, field } in &self.0 {
            let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "(default)".to_owned());
            let (before, after) = (side(&field.before), side(&field.after));
            print::line(&format!("  {entity}: {}: `{}` {before} -> {after}", consequence(entity, field), field.field))?;
        }
        Ok(())
    }

    /// Asks the person at the terminal. Scripts are not asked.
    pub(super) fn agree(&self, yes: bool, json: bool) -> Done {
        match Consent::of(yes, json) {
            Consent::Asked if !self.0.is_empty() && !print::agreed("Reset these? [y/N]: ") => Err(Failure::Failed(
                "cancelled: nothing was changed; write the keys into the file to keep them".to_owned(),
            )),
            Consent::Asked | Consent::Given | Consent::Missing => Ok(()),
        }
    }
}
