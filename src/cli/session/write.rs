//! Session changes, through the daemon or, without one, on the store directly.

use std::io::{IsTerminal as _, Read as _};

use clap::Args;
use serde_json::json;

use super::files;
use super::find::{ResolvedSession, SessionLookup, with_fields};
use super::place::CommandDir;
use super::{Conditions, OptionalSessionArg, SessionArg, read, records};
use crate::cli::offline::{self, mismatch};
use crate::cli::print;
use crate::cli::workspace::error::WorkspaceError;
use crate::contracts::process;
use crate::engine::workspaces::refused_as_given;
use crate::model::id::SessionId;
use crate::model::policy::Policy;
use crate::model::record::SpeakerRole;
use crate::model::session::SessionLabel;
use crate::model::session_command::{
    CompactSession, ForkSession, Guard, Holder, Home, NewSession, SessionCommand, SessionDone, SessionOutcome,
};
use crate::model::session_ref::Reference;
use crate::model::workspace::key_text;
use crate::model::workspace_command::WorkspaceInput;
use crate::socket::command::{Answer, ClientCommand, RequestRefused};

type SessionResult = Result<(), WorkspaceError>;

/// Longest text from standard input, in bytes.
const TEXT_MAX: u64 = 16 << 20;

#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// Its id [default: one with the creation time]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Its title
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Its model
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The first message
    message: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct AppendArgs {
    #[command(flatten)]
    which: SessionArg,
    /// The text; `-` reads it from standard input
    #[arg(required_unless_present = "lines", conflicts_with = "lines")]
    text: Option<String>,
    /// Its role: system, user, assistant or tool
    #[arg(long, value_name = "WHO", default_value = "user")]
    role: String,
    /// The message ends the turn
    #[arg(long)]
    ends_turn: bool,
    /// Read records from standard input, one JSON object per line; all of them are added, or none
    #[arg(long)]
    lines: bool,
    #[command(flatten)]
    conditions: Conditions,
}

#[derive(Debug, Args)]
pub(super) struct ForkArgs {
    #[command(flatten)]
    which: OptionalSessionArg,
    /// Id of the new session [default: one with the creation time]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Name of the branch
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Only up to this record
    #[arg(long, value_name = "NUMBER")]
    at: Option<u64>,
    /// Look in other directories too
    #[arg(long)]
    any_workspace: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct LeaseAct {
    /// Acquire it for this process
    #[arg(long, value_name = "PID")]
    take: Option<u32>,
    /// Renew it
    #[arg(long, value_name = "EPOCH")]
    beat: Option<u64>,
    /// Release it
    #[arg(long, value_name = "EPOCH")]
    release: Option<u64>,
}

/// A session to be changed.
struct LockedSession {
    /// The store's id.
    key: SessionId,
    /// The id people use.
    name: String,
    /// Whether it belongs to another workspace.
    foreign: bool,
    messages: u64,
    /// Epoch of its lease, if the holder is dead.
    dead: Option<u64>,
}

impl LockedSession {
    fn guard(&self, conditions: &Conditions) -> Guard {
        Guard { epoch: conditions.lease, expected: conditions.expect, dead: self.dead }
    }
}

/// Finds the session to be changed.
fn target(
    place: &CommandDir,
    reference: Option<&str>,
    find: impl FnOnce(&SessionLookup<'_>) -> Result<ResolvedSession, WorkspaceError>,
) -> Result<LockedSession, WorkspaceError> {
    let Some(reader) = place.reader()? else { return Err(place.no_store(reference)) };
    reader.read(|db, txn| {
        let look = SessionLookup::new(place, db, txn)?;
        let found = find(&look)?;
        let lease = db.leases.get(txn, &found.id)?;
        let dead = lease.filter(|lease| process::is_dead(lease.pid, lease.started, &lease.boot));
        Ok(LockedSession {
            key: found.id,
            name: found.name(),
            foreign: look.workspace() != Some(found.workspace),
            messages: found.messages(),
            dead: dead.map(|lease| lease.epoch),
        })
    })
}

fn here(place: &CommandDir, text: &str) -> Result<LockedSession, WorkspaceError> {
    target(place, Some(text), |look| look.resolve(Some(text), None))
}

/// Finds a session to be deleted. It must be named by its own id.
fn doomed(place: &CommandDir, text: &str, trashed: bool) -> Result<LockedSession, WorkspaceError> {
    if Reference::read(text) == Reference::Latest {
        let message = format!("`{text}` can refer to a different session at any moment, so nothing is removed by it");
        let hint = "`hearth workspace sessions latest` says which one it is now";
        return Err(place.about(WorkspaceError::new("alias_refused", message, hint), None, 0).usage());
    }
    target(place, Some(text), |look| match look.resolve(Some(text), None) {
        Err(missing) if trashed => look.trashed(text).map_err(|_| missing),
        heard => heard,
    })
}

/// Submits a command.
fn submit(place: &CommandDir, command: SessionCommand) -> Result<SessionDone, WorkspaceError> {
    if let Some(refusal) = refused_as_given(&command, &Policy::STANDARD) {
        return Err(RequestRefused::from(refusal).into());
    }
    let command = ClientCommand::Workspace(Box::new(WorkspaceInput::Session(command)));
    match offline::submit(&place.paths, command) {
        Ok(Answer::Session(done)) => Ok(*done),
        Ok(other) => Err(mismatch(&other).into()),
        Err(error) => Err(with_fields(place, error.into())),
    }
}

/// Reports the result.
fn told(place: &CommandDir, done: &SessionDone, action: &str, text: String, json: bool) -> SessionResult {
    if !json {
        return Ok(print::line(&text)?);
    }
    let (mut removed, mut left_out, mut expired, mut epoch, mut more) = (0, 0, 0, None, false);
    match done.what {
        SessionOutcome::Changed | SessionOutcome::Unchanged => {}
        SessionOutcome::Shortened { removed: count } => removed = count,
        SessionOutcome::Copied { left_out: skipped, expired: gone } => (left_out, expired) = (skipped, gone),
        SessionOutcome::Leased { epoch: given } => epoch = Some(given),
        SessionOutcome::Purged { more: rest } => more = rest,
    }
    Ok(print::json(&json!({
        "workspace": read::workspace_json(place, key_text(done.workspace)),
        "key": done.id.to_string(),
        "session_id": done.row.label,
        "revision": done.row.revision,
        "records": done.row.records,
        "message_count": done.row.messages,
        "changed": is_changed(done),
        "removed": removed,
        "left_out": left_out,
        "expired": expired,
        "epoch": epoch,
        "more": more,
        "kind": format!("session_{action}"),
        "action": action,
        "status": "ok",
    }))?)
}

fn is_changed(done: &SessionDone) -> bool {
    done.what != SessionOutcome::Unchanged
}

const fn epoch_of(done: &SessionDone) -> Option<u64> {
    match done.what {
        SessionOutcome::Leased { epoch } => Some(epoch),
        _ => None,
    }
}

const fn removed_from(done: &SessionDone) -> u64 {
    match done.what {
        SessionOutcome::Shortened { removed } => removed,
        _ => 0,
    }
}

fn checked_id(id: Option<String>) -> Result<Option<SessionLabel>, WorkspaceError> {
    id.map(|text| {
        SessionLabel::new(text.clone()).map_err(|bad| {
            WorkspaceError::new("invalid_id", bad.to_string(), "choose another, or omit it").with("requested", text)
        })
    })
    .transpose()
}

/// Creates a session.
pub(super) fn new(place: &CommandDir, args: NewArgs, json: bool) -> SessionResult {
    let records = args.message.iter().map(|text| records::message(SpeakerRole::User, text, None)).collect();
    let wanted = NewSession {
        home: Home::Seen(Box::new(place.sight.clone())),
        label: checked_id(args.id)?,
        title: args.title,
        model: args.model,
        times: None,
        source: None,
        records,
    };
    let done = submit(place, SessionCommand::Create(Box::new(wanted)))?;
    told(place, &done, "new", done.row.label.to_string(), json)
}

/// Appends to a session.
pub(super) fn append(place: &CommandDir, args: AppendArgs, json: bool) -> SessionResult {
    let all = match args.text {
        None => records::lines(std::io::stdin().lock())?,
        Some(text) => {
            let text = if text == "-" { typed()? } else { text };
            let role = records::role_of(&args.role);
            let role = role.map_err(|why| WorkspaceError::of_kind("invalid_role", why).usage())?;
            vec![records::message(role, &text, args.ends_turn.then_some(true))]
        }
    };
    let target = here(place, &args.which.session)?;
    let guard = target.guard(&args.conditions);
    let done = submit(place, SessionCommand::Append(target.key, all, guard))?;
    let text = format!("{} has {} records, {} of them messages", done.row.label, done.row.records, done.row.messages);
    told(place, &done, "append", text, json)
}

fn typed() -> Result<String, WorkspaceError> {
    let mut text = String::new();
    let read = std::io::stdin().take(TEXT_MAX).read_to_string(&mut text);
    read.map_err(|error| WorkspaceError::of_kind("failed", format!("standard input cannot be read: {error}")))?;
    Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
}

pub(super) fn fork(place: &CommandDir, args: ForkArgs, json: bool) -> SessionResult {
    let label = checked_id(args.id)?;
    let parent = perhaps(place, &args.which, args.any_workspace)?;
    let done = branch(place, &parent, label, args.branch, args.at)?;
    let text = format!("{}, a fork of {} with {} messages", done.row.label, parent.name, done.row.messages);
    told(place, &done, "fork", text, json)
}

fn perhaps(place: &CommandDir, which: &OptionalSessionArg, any: bool) -> Result<LockedSession, WorkspaceError> {
    let (reference, exclude) = (which.session.as_deref(), which.exclude.as_deref());
    target(place, reference, |look| match any {
        true => look.resolve_anywhere(reference, exclude),
        false => look.resolve(reference, exclude),
    })
}

fn branch(
    place: &CommandDir,
    parent: &LockedSession,
    label: Option<SessionLabel>,
    branch: Option<String>,
    upto: Option<u64>,
) -> Result<SessionDone, WorkspaceError> {
    let home = Home::Seen(Box::new(place.sight.clone()));
    submit(place, SessionCommand::Fork(Box::new(ForkSession { parent: parent.key, home, label, branch, upto })))
}

/// Resumes a session. A session of another directory is continued here as a fork, which is reported.
pub(super) fn resume(
    place: &CommandDir,
    which: OptionalSessionArg,
    any: bool,
    pid: Option<u32>,
    json: bool,
) -> SessionResult {
    let mut target = match (perhaps(place, &which, any), which.session.as_deref()) {
        (Err(missing), Some(text)) => {
            let label = files::take_in(place, &files::find(place, text, missing)?)?;
            here(place, &label)?
        }
        (target, _) => target?,
    };
    let mut origin = None;
    if target.foreign {
        let done = branch(place, &target, None, None, None)?;
        origin = Some(std::mem::replace(
            &mut target,
            LockedSession {
                key: done.id,
                name: done.row.label.to_string(),
                foreign: false,
                messages: done.row.messages,
                dead: None,
            },
        ));
    }
    let epoch = match pid {
        None => None,
        Some(pid) => epoch_of(&take(place, &target, pid)?),
    };
    if json {
        return Ok(print::json(&json!({
            "kind": "restored",
            "action": "restore",
            "status": "ok",
            "session_id": target.name,
            "key": target.key.to_string(),
            "message_count": target.messages,
            "lease_epoch": epoch,
            "forked_from": origin.as_ref().map(|origin| origin.name.clone()),
        }))?);
    }
    if let Some(origin) = origin {
        print::note(&format!("{} belongs to another directory: continuing it here as a fork", origin.name));
    }
    let held = epoch.map(|epoch| format!(", held under lease {epoch}")).unwrap_or_default();
    Ok(print::line(&format!("Restored session {} ({} messages){held}.", target.name, target.messages))?)
}

/// Sets or removes the title of a session.
pub(super) fn rename(place: &CommandDir, text: &str, title: Option<String>, json: bool) -> SessionResult {
    let target = here(place, text)?;
    let done = submit(place, SessionCommand::Rename(target.key, title.clone()))?;
    let said = title.map_or_else(|| "has no title".to_owned(), |title| format!("is called {title}"));
    told(place, &done, "rename", format!("{} {said}", done.row.label), json)
}

/// Makes a session the current one.
pub(super) fn switch(place: &CommandDir, text: &str, json: bool) -> SessionResult {
    let target = here(place, text)?;
    let done = submit(place, SessionCommand::Switch(target.key))?;
    told(place, &done, "switch", format!("{} is now the session that is resumed here", done.row.label), json)
}

/// Moves a session to the trash.
pub(super) fn delete(place: &CommandDir, text: &str, force: bool, json: bool) -> SessionResult {
    let target = doomed(place, text, false)?;
    let question = format!("Delete session '{}'? It stays in the trash for 30 days.", target.name);
    if !force && !confirmed(&target.name, &question, "delete", "--force", json)? {
        return Ok(());
    }
    let guard = target.guard(&Conditions::default());
    let done = submit(place, SessionCommand::Delete(target.key, guard))?;
    let text = format!(
        "{} is in the trash: `hearth workspace sessions restore {}` restores it",
        done.row.label, done.row.label
    );
    told(place, &done, "delete", text, json)
}

/// Restores a session from the trash.
pub(super) fn restore(place: &CommandDir, text: &str, json: bool) -> SessionResult {
    let target = target(place, Some(text), |look| look.trashed(text))?;
    let done = submit(place, SessionCommand::Restore(target.key))?;
    told(place, &done, "undelete", format!("{} is back", done.row.label), json)
}

/// Removes a session permanently.
pub(super) fn purge(place: &CommandDir, text: &str, force: bool, json: bool) -> SessionResult {
    let target = doomed(place, text, true)?;
    let question = format!("Remove session '{}' permanently? This cannot be undone.", target.name);
    if !force && !confirmed(&target.name, &question, "purge", "--force", json)? {
        return Ok(());
    }
    let guard = target.guard(&Conditions::default());
    let done = submit(place, SessionCommand::Purge(target.key, guard))?;
    told(place, &done, "purge", format!("{} was permanently deleted", done.row.label), json)
}

pub(super) fn clear(
    place: &CommandDir,
    text: &str,
    confirm: bool,
    conditions: Conditions,
    json: bool,
) -> SessionResult {
    let target = here(place, text)?;
    let question = format!("Clear session '{}'? Its messages are kept as an earlier revision.", target.name);
    if !confirm && !confirmed(&target.name, &question, "clear", "--confirm", json)? {
        return Ok(());
    }
    let guard = target.guard(&conditions);
    let done = submit(place, SessionCommand::Clear(target.key, guard))?;
    let text = match is_changed(&done) {
        true => format!("{} is empty now; {}", done.row.label, kept(&done)),
        false => format!("{} was empty", done.row.label),
    };
    told(place, &done, "clear", text, json)
}

fn kept(done: &SessionDone) -> String {
    let before = done.row.revision.saturating_sub(1);
    format!(
        "{} messages are kept: `hearth workspace sessions show {} --revision {before}`",
        removed_from(done),
        done.row.label
    )
}

pub(super) fn compact(
    place: &CommandDir,
    text: &str,
    keep: u64,
    summary: Option<String>,
    conditions: Conditions,
    json: bool,
) -> SessionResult {
    let target = here(place, text)?;
    let guard = target.guard(&conditions);
    let done = submit(place, SessionCommand::Compact(target.key, CompactSession { keep, summary }, guard))?;
    let text = match is_changed(&done) {
        true => format!("{} has {} messages now; {}", done.row.label, done.row.messages, kept(&done)),
        false => format!("{} has {} messages: nothing to compact", done.row.label, done.row.messages),
    };
    told(place, &done, "compact", text, json)
}

/// Acquires, renews or releases the lease of a session.
pub(super) fn lease(place: &CommandDir, text: &str, act: &LeaseAct, json: bool) -> SessionResult {
    let target = here(place, text)?;
    let (done, said) = match (act.take, act.beat, act.release) {
        (Some(pid), ..) => {
            let done = take(place, &target, pid)?;
            let epoch = epoch_of(&done).unwrap_or_default();
            (done, format!("process {pid} holds {} under lease {epoch}", target.name))
        }
        (_, Some(epoch), _) => {
            let done = submit(place, SessionCommand::Beat(target.key, epoch))?;
            (done, format!("lease {epoch} of {} renewed", target.name))
        }
        (.., epoch) => {
            let epoch = epoch.unwrap_or_default();
            let done = submit(place, SessionCommand::Release(target.key, epoch))?;
            (done, format!("lease {epoch} of {} released", target.name))
        }
    };
    told(place, &done, "lease", said, json)
}

fn take(place: &CommandDir, target: &LockedSession, pid: u32) -> Result<SessionDone, WorkspaceError> {
    let (Some(started), Some(boot)) = (process::started(pid), process::boot()) else {
        let message = format!("process {pid} not found on this machine");
        return Err(
            WorkspaceError::new("no_such_process", message, "give the id of a running process").with("pid", pid)
        );
    };
    let guard = target.guard(&Conditions::default());
    submit(place, SessionCommand::Take(target.key, Holder { pid, started, boot }, guard))
}

/// Asks the user at a terminal. Without one, `flag` is needed.
fn confirmed(name: &str, question: &str, verb: &str, flag: &str, json: bool) -> Result<bool, WorkspaceError> {
    if json || !std::io::stdin().is_terminal() {
        let hint = format!("`hearth workspace sessions {verb} {name} {flag}` does it");
        return Err(WorkspaceError::new("confirmation_required", "confirmation required", hint)
            .with("session_id", name)
            .usage());
    }
    let wanted = print::agreed(&format!("{question} [y/N]: "));
    if !wanted {
        print::note(&format!("{verb}: cancelled."));
    }
    Ok(wanted)
}
