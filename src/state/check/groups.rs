//! What agent groups' files say: session state, skips.

use super::Check;
use crate::model::group::StatePart;
use crate::model::skip::{SkipFile, SkipState};
use crate::state::{ForeignKey, Result, Text};

/// Fields are under their names, ids and pending responses are found by position and time.
pub(super) fn state_files(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.state_files, |check, agent, _| check.refers((&db.state_files, &agent), (&db.agents, &agent)))?;
    check.agree(
        &db.state_files,
        &db.state_files_dirty,
        |agent, file| file.dirty.then_some((*agent, ())),
        |agent, ()| *agent,
    )?;
    check.each(&db.state_fields, |check, key, field| {
        check.refers((&db.state_fields, &key), (&db.state_files, &key.0))?;
        if key.2 != ForeignKey::of(&field.name) {
            check.report(&db.state_fields, &key, "the key is another field's");
        }
        Ok(())
    })?;
    check.agree(
        &db.state_fields,
        &db.state_mutes,
        |(agent, part, name), field| (*part == StatePart::Muted && field.mutes()).then(|| ((*agent, name.clone()), ())),
        |(agent, name), ()| (*agent, StatePart::Muted, name.clone()),
    )?;
    check.agree(
        &db.seen_ids,
        &db.seen_ids_by_position,
        |(agent, id), seen| Some(((*agent, seen.position), id.clone())),
        |(agent, _), id| (*agent, id.clone()),
    )?;
    check.agree(
        &db.pending_responses,
        &db.pending_responses_due,
        |(agent, id), row| Some(((row.due, *agent, id.clone()), ())),
        |(_, agent, id), ()| (*agent, id.clone()),
    )
}

/// Skips are found while nobody was told, while their file has to go, and by their file.
pub(super) fn skips(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.agree(
        &db.skips,
        &db.skips_unsurfaced,
        |id, skip| matches!(skip.state, SkipState::Waiting).then_some(((skip.agent, *id), ())),
        |(_, id), ()| *id,
    )?;
    check.agree(
        &db.skips,
        &db.skips_left,
        |id, skip| (skip.file == SkipFile::Left).then_some(((skip.agent, *id), ())),
        |(_, id), ()| *id,
    )?;
    check.agree(
        &db.skips,
        &db.skips_by_file,
        |id, skip| {
            // A skill's name is checked where its file is read; it fits.
            let file = Text::new(format!("{}/{}", skip.skill, skip.report.digest.as_str())).ok()?;
            Some(((skip.agent, file, *id), ()))
        },
        |(_, _, id), ()| *id,
    )?;
    check.agree(
        &db.skips,
        &db.skips_by_skill,
        |id, skip| Some(((skip.agent, Text::new(skip.skill.clone()).ok()?, *id), ())),
        |(_, _, id), ()| *id,
    )?;
    check.agree(
        &db.skips,
        &db.skips_sent,
        |id, skip| match skip.state {
            SkipState::Sending(outbound, _) => Some((outbound, *id)),
            _ => None,
        },
        |_, id| *id,
    )
}
