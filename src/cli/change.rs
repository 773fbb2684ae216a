//! Changes by command: put through the daemon, or through the store itself, as the same input.

use std::collections::BTreeMap;

use super::configuration::{Configuration, FieldChange};
use super::local::{Host, host};
use super::{Done, Failure, out};
use crate::config::Paths;
use crate::model::input::Input;
use crate::model::report::Reply;
use crate::socket::change::{BadChange, ChangeRequest, EditJson};
use crate::socket::client::unexpected;
use crate::socket::protocol::{Request, Response};
use crate::socket::shape::{ConfiguredJson, FieldJson};

/// Carries out a change, or says what it would do; `name` is what messages call the file.
pub(super) fn submit(paths: &Paths, change: &ChangeRequest, name: &str) -> Result<ConfiguredJson, Failure> {
    // Checked here as well, so that what is wrong is refused before a store is made for it.
    let configure = change.configure(name)?;
    match host(paths)? {
        Host::Daemon(mut client) => match client.ask(&Request::Change(change.clone()))? {
            Response::Configured(changes) => Ok(changes),
            other => Err(unexpected(other).into()),
        },
        Host::Store(local) => match local.submit(Input::Configure(configure), change.dry_run)? {
            Reply::Configured(changes) => Ok(ConfiguredJson::from(changes.as_slice())),
            Reply::Refused(refusal) => Err(Failure::Failed(refusal.message)),
            Reply::Done | Reply::Routed(_) | Reply::Swept(_) | Reply::Answered { .. } => {
                Err(Failure::Failed("an unexpected answer".to_owned()))
            }
        },
    }
}

/// Makes one thing different that no file says.
pub(super) fn edit(paths: &Paths, edit: EditJson, json: bool) -> Done {
    command(paths, &ChangeRequest { edits: vec![edit], ..ChangeRequest::default() }, json)
}

/// Makes a piece of a file be so.
pub(super) fn put(paths: &Paths, toml: String, json: bool) -> Done {
    command(paths, &ChangeRequest { toml, ..ChangeRequest::default() }, json)
}

fn command(paths: &Paths, change: &ChangeRequest, json: bool) -> Done {
    let configure = change.configure("the command").map_err(said)?;
    let diff = super::configuration::read(paths)?.diff(&configure.changes);
    let mut done = submit(paths, change, "the command")?;
    explain(&mut done, &diff);
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

/// The difference between what there is and what a file says.
pub(super) fn diff(
    before: &Configuration,
    change: &ChangeRequest,
    name: &str,
) -> Result<BTreeMap<String, Vec<FieldChange>>, Failure> {
    Ok(before.diff(&change.configure(name)?.changes))
}
