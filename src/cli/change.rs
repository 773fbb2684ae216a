//! Changes by command: put through the daemon, or through the store itself, as the same input.

use std::collections::BTreeMap;

use super::configuration::{Configuration, FieldChange};
use super::local::{self, Host, host, unfit};
use super::{Done, Failure, out};
use crate::config::Paths;
use crate::model::input::Input;
use crate::model::report::{Refusal, Reply};
use crate::socket::change::{BadChange, ChangeRequest, EditJson};
use crate::socket::client::unexpected;
use crate::socket::protocol::{Request, Response};
use crate::socket::shape::{ConfiguredJson, FieldJson};

/// Carries out a change, or says what it would do; `name` is what messages call the file.
pub(super) fn submit(paths: &Paths, change: &ChangeRequest, name: &str) -> Result<ConfiguredJson, Failure> {
    // Checked here as well, and rehearsed: what is refused makes no store.
    let configure = change.configure(name)?;
    if !change.dry_run && local::is_new(paths) {
        submit(paths, &ChangeRequest { dry_run: true, ..change.clone() }, name)?;
    }
    match host(paths, change.dry_run)? {
        Host::Daemon(mut client) => match client.ask(&Request::Change(change.clone()))? {
            Response::Configured(changes) => Ok(changes),
            Response::Refused { code, message, .. } if code == Refusal::CHANGED => Err(Failure::Changed(message)),
            other => Err(unexpected(other).into()),
        },
        Host::Store(local) => match local.submit(Input::Configure(configure), change.dry_run)? {
            Reply::Configured(changes) => Ok(ConfiguredJson::from(changes.as_slice())),
            Reply::Refused(refusal) if refusal.code == Refusal::CHANGED => Err(Failure::Changed(refusal.message)),
            other => Err(unfit(other)),
        },
    }
}

/// What messages call the file that nobody wrote.
const COMMAND: &str = "the command";

/// How often a command looks again when somebody else changes the configuration between its look and its change.
pub(super) const LOOKS: usize = 20;

/// Repeats a command that thought over a configuration that was another when it was to be changed.
pub(super) fn again(command: impl Fn() -> Done) -> Done {
    for _ in 1..LOOKS {
        match command() {
            Err(Failure::Changed(_)) => {}
            done => return done,
        }
    }
    command()
}

/// Makes one thing different that no file says.
pub(super) fn edit(paths: &Paths, edit: EditJson, json: bool) -> Done {
    let done = submit_edit(paths, edit)?;
    print(&done, json)
}

/// As [`edit`], for things that happen together or not at all.
pub(super) fn edits(paths: &Paths, edits: Vec<EditJson>, json: bool) -> Done {
    let change = ChangeRequest { edits, ..ChangeRequest::default() };
    change.configure(COMMAND).map_err(said)?;
    print(&submit(paths, &change, COMMAND)?, json)
}

/// The same, without a word.
pub(super) fn submit_edit(paths: &Paths, edit: EditJson) -> Result<ConfiguredJson, Failure> {
    let change = ChangeRequest { edits: vec![edit], ..ChangeRequest::default() };
    change.configure(COMMAND).map_err(said)?;
    submit(paths, &change, COMMAND)
}

/// Makes a piece of a file be so, which was thought out over what is known.
pub(super) fn put(paths: &Paths, known: &Configuration, toml: String, json: bool) -> Done {
    let change = ChangeRequest { toml, expected: known.digest, ..ChangeRequest::default() };
    let configure = change.configure(COMMAND).map_err(said)?;
    let mut done = submit(paths, &change, COMMAND)?;
    explain(&mut done, &known.diff(&configure.changes));
    print(&done, json)
}

/// What is wrong, without the lines of a file that nobody wrote.
fn said(bad: BadChange) -> Failure {
    Failure::Failed(match bad {
        BadChange::File(file) => file.problems.into_iter().map(|problem| problem.what).collect::<Vec<_>>().join("\n"),
        BadChange::Edit(what) => what,
    })
}

/// Adds what was before to a report.
pub(super) fn explain(done: &mut ConfiguredJson, diff: &BTreeMap<String, Vec<FieldChange>>) {
    for change in &mut done.changes {
        let fields = diff.get(&change.entity).into_iter().flatten();
        if change.action == "updated" {
            change.fields = fields
                .map(|field| FieldJson {
                    field: field.field.clone(),
                    before: field.before.clone(),
                    after: field.after.clone(),
                })
                .collect();
        }
    }
}

/// Shows a report.
pub(super) fn print(done: &ConfiguredJson, json: bool) -> Done {
    if json {
        return out::json(done);
    }
    for change in &done.changes {
        out::line(&format!("{:9} {}", change.action, change.entity))?;
        for field in &change.fields {
            let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "(default)".to_owned());
            out::line(&format!("            {}: {} -> {}", field.field, side(&field.before), side(&field.after)))?;
        }
    }
    Ok(())
}
