//! Configuration changes by command, submitted to the daemon or, without one, applied to the store directly.

use std::collections::BTreeMap;

use super::configuration::Configuration;
use super::offline::{self, mismatch};
use super::{Done, Failure, print};
use crate::config::Paths;
use crate::daemon::opening::Opening;
use crate::model::configure::Change;
use crate::model::report::{Action, ChangeReport, FieldChange};
use crate::socket::change::{BadChange, ChangeRequest};
use crate::socket::command::{Answer, ClientCommand};

/// What a configuration change did.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct Configured {
    /// Every entity that was named.
    pub(super) changes: Vec<ChangeReport>,
}

/// Applies a change, or reports its effect for a dry run. `name` is the file's name in messages.
pub(super) fn submit(paths: &Paths, change: &ChangeRequest, name: &str) -> Result<Configured, Failure> {
    submit_by(paths, change, name, Opening::Existing)
}

/// Like [`submit`], for a command that may create the store.
pub(super) fn submit_by(
    paths: &Paths,
    change: &ChangeRequest,
    name: &str,
    opening: Opening,
) -> Result<Configured, Failure> {
    // Checked and simulated first, so that a rejected change creates no store.
    change.configure(name)?;
    if !change.dry_run && offline::is_new(paths) {
        submit_by(paths, &ChangeRequest { dry_run: true, ..change.clone() }, name, opening)?;
    }
    let host = if change.dry_run { offline::rehearsal(paths, opening) } else { offline::host_by(paths, opening) };
    match host?.submit(ClientCommand::Change(change.clone()))? {
        Answer::Configured(changes) => Ok(Configured { changes }),
        other => Err(mismatch(&other)),
    }
}

/// Name in messages for the TOML that a command generates.
const COMMAND: &str = "the command";

/// Maximum number of attempts when the configuration changes between a command's read and its write.
pub(super) const LOOKS: usize = 20;

/// Repeats a command whose change was rejected because the configuration had changed since it was read.
pub(super) fn again(command: impl Fn() -> Done) -> Done {
    for _ in 1..LOOKS {
        match command() {
            Err(Failure::Changed(_)) => {}
            done => return done,
        }
    }
    command()
}

/// Applies one edit that hearth.toml cannot express.
pub(super) fn edit(paths: &Paths, edit: Change, json: bool) -> Done {
    let done = submit_edit(paths, edit)?;
    print(&done, json)
}

/// Like [`edit`], for several edits in one transaction.
pub(super) fn edits(paths: &Paths, edits: Vec<Change>, json: bool) -> Done {
    let change = ChangeRequest { edits, ..ChangeRequest::default() };
    change.configure(COMMAND).map_err(said)?;
    print(&submit(paths, &change, COMMAND)?, json)
}

/// Like [`edit`], without output.
pub(super) fn submit_edit(paths: &Paths, edit: Change) -> Result<Configured, Failure> {
    let change = ChangeRequest { edits: vec![edit], ..ChangeRequest::default() };
    change.configure(COMMAND).map_err(said)?;
    submit(paths, &change, COMMAND)
}

/// Applies a TOML fragment that was computed from the known configuration.
pub(super) fn put(paths: &Paths, known: &Configuration, toml: String, json: bool) -> Done {
    let change = ChangeRequest { toml, expected: known.digest, ..ChangeRequest::default() };
    let configure = change.configure(COMMAND).map_err(said)?;
    let mut done = submit(paths, &change, COMMAND)?;
    explain(&mut done, &known.diff(&configure.changes));
    print(&done, json)
}

/// The problems, without line numbers of the generated TOML.
fn said(bad: BadChange) -> Failure {
    Failure::Failed(match bad {
        BadChange::File(file) => file.problems.into_iter().map(|problem| problem.what).collect::<Vec<_>>().join("\n"),
        BadChange::Edit(what) => what,
    })
}

/// Adds the previous values to a report.
pub(super) fn explain(done: &mut Configured, diff: &BTreeMap<String, Vec<FieldChange>>) {
    for change in &mut done.changes {
        if matches!(change.action, Action::Updated | Action::Created) {
            change.fields = diff.get(&change.entity).cloned().unwrap_or_default();
        }
    }
}

/// Prints what the daemon does because of a change whose report was already shown.
pub(super) fn print_notes(done: &Configured) -> Done {
    let noted = done.changes.iter().filter_map(|change| Some((&change.entity, change.note.as_ref()?)));
    noted.into_iter().try_for_each(|(entity, note)| print::line(&format!("{entity}: {note}")))
}

/// Adds the notes of a report to the planned one.
pub(super) fn add_notes(planned: &mut Configured, done: &Configured) {
    for change in &mut planned.changes {
        let found = done.changes.iter().find(|one| one.entity == change.entity);
        change.note = found.and_then(|one| one.note.clone());
    }
}

/// Prints a report.
pub(super) fn print(done: &Configured, json: bool) -> Done {
    if json {
        return print::json(done);
    }
    for change in &done.changes {
        print::line(&format!("{:9} {}", change.action.as_str(), change.entity))?;
        for field in &change.fields {
            let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "(default)".to_owned());
            print::line(&format!("            {}: {} -> {}", field.field, side(&field.before), side(&field.after)))?;
        }
        if let Some(note) = &change.note {
            print::line(&format!("            {note}"))?;
        }
    }
    Ok(())
}
