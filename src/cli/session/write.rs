//! Changing sessions: by the daemon if there is one, else on the store itself.

use std::io::{IsTerminal as _, Read as _, Write as _};

use clap::Args;
use serde_json::{Value, json};

use super::error::Trouble;
use super::files;
use super::find::{Found, Look};
use super::place::Place;
use super::{Conditions, Perhaps, Which, read, records};
use crate::cli::local::{Host, host};
use crate::cli::out;
use crate::contracts::process;
use crate::engine::workspaces::refused_as_given;
use crate::model::input::Input;
use crate::model::policy::Policy;
use crate::model::report::Reply;
use crate::model::session::SessionLabel;
use crate::model::session_ref::Reference;
use crate::model::workspace::WorkspaceInput;
use crate::socket::client::unexpected;
use crate::socket::protocol::{Request, Response};
use crate::socket::session::{DoneJson, ForkJson, GuardJson, NewJson, SessionAnswer, SessionRequest};
use crate::socket::workspace::SightJson;

type Told = Result<(), Trouble>;

/// Longest text from standard input, in bytes.
const TEXT_MAX: u64 = 16 << 20;

#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// Its id [default: one that says when it was made]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Its title
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// What it talks to
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The first message
    message: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct AppendArgs {
    #[command(flatten)]
    which: Which,
    /// What is said; `-` reads it from standard input
    #[arg(required_unless_present = "lines", conflicts_with = "lines")]
    text: Option<String>,
    /// Who says it: system, user, assistant or tool
    #[arg(long, value_name = "WHO", default_value = "user")]
    role: String,
    /// It ends the turn
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
    which: Perhaps,
    /// Id of the new session [default: one that says when it was made]
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
    /// Take it for this process
    #[arg(long, value_name = "PID")]
    take: Option<u32>,
    /// Renew it
    #[arg(long, value_name = "EPOCH")]
    beat: Option<u64>,
    /// Release it
    #[arg(long, value_name = "EPOCH")]
    release: Option<u64>,
}

/// A session that is going to change.
struct Target {
    /// The store's id.
    key: String,
    /// The id people use.
    name: String,
    /// Whether it is of another workspace.
    foreign: bool,
    messages: u64,
    /// A lease of it whose holder is dead.
    dead: Option<u64>,
}

impl Target {
    fn guard(&self, conditions: &Conditions) -> GuardJson {
        GuardJson { epoch: conditions.lease, expected: conditions.expect, dead: self.dead }
    }
}

/// Finds what is to be changed.
fn target(
    place: &Place,
    reference: Option<&str>,
    find: impl FnOnce(&Look<'_>) -> Result<Found, Trouble>,
) -> Result<Target, Trouble> {
    let Some(reader) = place.reader()? else { return Err(place.no_store(reference)) };
    reader.read(|db, txn| {
        let look = Look::new(place, db, txn)?;
        let found = find(&look)?;
        let lease = db.leases.get(txn, &found.id)?;
        let dead = lease.filter(|lease| process::is_dead(lease.pid, lease.started, &lease.boot));
        Ok(Target {
            key: found.id.to_string(),
            name: found.name(),
            foreign: look.workspace() != Some(found.workspace),
            messages: found.messages(),
            dead: dead.map(|lease| lease.epoch),
        })
    })
}

fn here(place: &Place, text: &str) -> Result<Target, Trouble> {
    target(place, Some(text), |look| look.resolve(Some(text), None))
}

/// One that goes is named by its own id.
fn doomed(place: &Place, text: &str, trashed: bool) -> Result<Target, Trouble> {
    if Reference::read(text) == Reference::Latest {
        let message = format!("`{text}` means another session from one moment to the next: nothing is removed by it");
        let hint = "`hearth session latest` says which one it is now";
        return Err(place.about(Trouble::new("alias_refused", message, hint), None, 0).usage());
    }
    target(place, Some(text), |look| match look.resolve(Some(text), None) {
        Err(missing) if trashed => look.trashed(text).map_err(|_| missing),
        heard => heard,
    })
}

/// Has it done.
fn submit(place: &Place, wanted: SessionRequest) -> Result<DoneJson, Trouble> {
    let command = wanted.clone().command().map_err(|why| Trouble::new("invalid_request", why, ""))?;
    if let Some(refusal) = refused_as_given(&command, &Policy::STANDARD) {
        return Err(Trouble::from(crate::socket::session::SessionRefusalJson::from(&refusal)));
    }
    let answer = match host(&place.paths, false)? {
        Host::Daemon(mut client) => match client.ask(&Request::Session { wanted }).map_err(failed)? {
            Response::Session { answer } => answer,
            Response::Refused { code, message, .. } => return Err(Trouble::new(&code, message, "")),
            other => return Err(failed(unexpected(other))),
        },
        Host::Store(local) => {
            let input = Input::Workspace(Box::new(WorkspaceInput::Session(command)));
            match local.submit(input, false)? {
                Reply::Session(answer) => SessionAnswer::from(*answer),
                Reply::Refused(refusal) => return Err(Trouble::new(refusal.code, refusal.message, "")),
                other => return Err(Trouble::new("failed", other.unexpected(), "")),
            }
        }
    };
    match answer {
        SessionAnswer::Done(done) => Ok(done),
        SessionAnswer::Refused(refusal) => Err(refusal.into()),
    }
}

fn failed(error: crate::socket::client::Error) -> Trouble {
    crate::cli::Failure::from(error).into()
}

/// Tells what was done.
fn told(place: &Place, done: &DoneJson, (action, text): (&str, String), json: bool) -> Told {
    if !json {
        return Ok(out::line(&text)?);
    }
    let mut answer = serde_json::to_value(done).map_err(crate::cli::Failure::from)?;
    if let Value::Object(fields) = &mut answer {
        fields.insert("session_id".to_owned(), json!(done.session));
        fields.insert("message_count".to_owned(), json!(done.messages));
        fields.remove("session");
        fields.remove("messages");
        fields.insert("kind".to_owned(), json!(format!("session_{action}")));
        fields.insert("action".to_owned(), json!(action));
        fields.insert("status".to_owned(), json!("ok"));
        fields.insert("workspace".to_owned(), read::workspace_json(place, done.workspace.clone()));
    }
    Ok(out::json(&answer)?)
}

fn checked_id(id: Option<String>) -> Result<Option<String>, Trouble> {
    if let Some(text) = &id {
        SessionLabel::new(text.clone()).map_err(|bad| {
            Trouble::new("invalid_id", bad.to_string(), "choose another, or leave it out")
                .with("requested", text.clone())
        })?;
    }
    Ok(id)
}

/// Begins a session.
pub(super) fn new(place: &Place, args: NewArgs, json: bool) -> Told {
    let records = args.message.iter().map(|text| records::message("user", text, None)).collect();
    let wanted = NewJson {
        sight: Some(SightJson::from(&place.sight)),
        workspace: None,
        label: checked_id(args.id)?,
        title: args.title,
        model: args.model,
        records,
    };
    let done = submit(place, SessionRequest::Create(wanted))?;
    told(place, &done, ("new", done.session.clone()), json)
}

/// Adds to a session.
pub(super) fn append(place: &Place, args: AppendArgs, json: bool) -> Told {
    let all = match args.text {
        None => records::lines(std::io::stdin().lock())?,
        Some(text) => {
            let text = if text == "-" { typed()? } else { text };
            let role = crate::socket::session::role_of(&args.role);
            let role = role.map_err(|why| Trouble::new("invalid_role", why, "").usage())?;
            let role = role.as_str();
            vec![records::message(role, &text, args.ends_turn.then_some(true))]
        }
    };
    let target = here(place, &args.which.session)?;
    let guard = target.guard(&args.conditions);
    let done = submit(place, SessionRequest::Append { session: target.key, records: all, guard })?;
    let text = format!("{} has {} records, {} of them messages", done.session, done.records, done.messages);
    told(place, &done, ("append", text), json)
}

fn typed() -> Result<String, Trouble> {
    let mut text = String::new();
    let read = std::io::stdin().take(TEXT_MAX).read_to_string(&mut text);
    read.map_err(|error| Trouble::new("failed", format!("standard input cannot be read: {error}"), ""))?;
    Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
}

/// Makes a session that begins like another one.
pub(super) fn fork(place: &Place, args: ForkArgs, json: bool) -> Told {
    let label = checked_id(args.id)?;
    let parent = perhaps(place, &args.which, args.any_workspace)?;
    let done = branch(place, &parent, (label, args.branch, args.at))?;
    let text = format!("{}, a fork of {} with {} messages", done.session, parent.name, done.messages);
    told(place, &done, ("fork", text), json)
}

fn perhaps(place: &Place, which: &Perhaps, any: bool) -> Result<Target, Trouble> {
    let (reference, exclude) = (which.session.as_deref(), which.exclude.as_deref());
    target(place, reference, |look| match any {
        true => look.resolve_anywhere(reference, exclude),
        false => look.resolve(reference, exclude),
    })
}

fn branch(
    place: &Place,
    parent: &Target,
    (label, branch, upto): (Option<String>, Option<String>, Option<u64>),
) -> Result<DoneJson, Trouble> {
    let sight = Some(SightJson::from(&place.sight));
    let wanted = ForkJson { parent: parent.key.clone(), sight, workspace: None, label, branch, upto };
    submit(place, SessionRequest::Fork(wanted))
}

/// Goes on with a session; one of another directory is continued here as a fork, which is said.
pub(super) fn resume(place: &Place, (which, any): (Perhaps, bool), pid: Option<u32>, json: bool) -> Told {
    let mut target = match (perhaps(place, &which, any), which.session.as_deref()) {
        (Err(missing), Some(text)) => {
            let label = files::take_in(place, &files::find(place, text, missing)?)?;
            here(place, &label)?
        }
        (target, _) => target?,
    };
    let mut origin = None;
    if target.foreign {
        let done = branch(place, &target, (None, None, None))?;
        origin = Some(std::mem::replace(
            &mut target,
            Target { key: done.key, name: done.session, foreign: false, messages: done.messages, dead: None },
        ));
    }
    let epoch = match pid {
        None => None,
        Some(pid) => take(place, &target, pid)?.epoch,
    };
    if json {
        return Ok(out::json(&json!({
            "kind": "restored",
            "action": "restore",
            "status": "ok",
            "session_id": target.name,
            "key": target.key,
            "message_count": target.messages,
            "lease_epoch": epoch,
            "forked_from": origin.as_ref().map(|origin| origin.name.clone()),
        }))?);
    }
    if let Some(origin) = origin {
        out::note(&format!("{} is of another directory: it is continued here as a fork", origin.name));
    }
    let held = epoch.map(|epoch| format!(", held under lease {epoch}")).unwrap_or_default();
    Ok(out::line(&format!("Restored session {} ({} messages){held}.", target.name, target.messages))?)
}

/// Gives a session a title, or takes it away.
pub(super) fn rename(place: &Place, text: &str, title: Option<String>, json: bool) -> Told {
    let target = here(place, text)?;
    let done = submit(place, SessionRequest::Rename { session: target.key, title: title.clone() })?;
    let said = title.map_or_else(|| "has no title".to_owned(), |title| format!("is called {title}"));
    told(place, &done, ("rename", format!("{} {said}", done.session)), json)
}

/// Makes a session the current one.
pub(super) fn switch(place: &Place, text: &str, json: bool) -> Told {
    let target = here(place, text)?;
    let done = submit(place, SessionRequest::Switch { session: target.key })?;
    told(place, &done, ("switch", format!("{} is what is resumed here", done.session)), json)
}

/// Puts a session into the trash.
pub(super) fn delete(place: &Place, text: &str, force: bool, json: bool) -> Told {
    let target = doomed(place, text, false)?;
    let question = format!("Delete session '{}'? It stays in the trash for 30 days.", target.name);
    if !confirmed((&target.name, force), (&question, "delete", "--force"), json)? {
        return Ok(());
    }
    let guard = target.guard(&Conditions::default());
    let done = submit(place, SessionRequest::Delete { session: target.key, guard })?;
    let text = format!("{} is in the trash: `hearth session restore {}` takes it out", done.session, done.session);
    told(place, &done, ("delete", text), json)
}

/// Takes a session out of the trash.
pub(super) fn restore(place: &Place, text: &str, json: bool) -> Told {
    let target = target(place, Some(text), |look| look.trashed(text))?;
    let done = submit(place, SessionRequest::Restore { session: target.key })?;
    told(place, &done, ("undelete", format!("{} is back", done.session)), json)
}

/// Removes a session for good.
pub(super) fn purge(place: &Place, text: &str, force: bool, json: bool) -> Told {
    let target = doomed(place, text, true)?;
    let question = format!("Remove session '{}' for good? This cannot be undone.", target.name);
    if !confirmed((&target.name, force), (&question, "purge", "--force"), json)? {
        return Ok(());
    }
    let guard = target.guard(&Conditions::default());
    let done = submit(place, SessionRequest::Purge { session: target.key, guard })?;
    told(place, &done, ("purge", format!("{} is gone for good", done.session)), json)
}

/// Begins anew in the same session.
pub(super) fn clear(place: &Place, text: &str, (confirm, conditions): (bool, Conditions), json: bool) -> Told {
    let target = here(place, text)?;
    let question = format!("Begin anew in session '{}'? What was said is kept as an earlier revision.", target.name);
    if !confirmed((&target.name, confirm), (&question, "clear", "--confirm"), json)? {
        return Ok(());
    }
    let guard = target.guard(&conditions);
    let done = submit(place, SessionRequest::Clear { session: target.key, guard })?;
    let text = match done.changed {
        true => format!("{} begins anew; {}", done.session, kept(&done)),
        false => format!("{} was empty", done.session),
    };
    told(place, &done, ("clear", text), json)
}

fn kept(done: &DoneJson) -> String {
    let before = done.revision.saturating_sub(1);
    format!("{} messages are kept: `hearth session show {} --revision {before}`", done.removed, done.session)
}

/// Makes a session shorter.
pub(super) fn compact(
    place: &Place,
    text: &str,
    (keep, summary, conditions): (u64, Option<String>, Conditions),
    json: bool,
) -> Told {
    let target = here(place, text)?;
    let guard = target.guard(&conditions);
    let done = submit(place, SessionRequest::Compact { session: target.key, keep, summary, guard })?;
    let text = match done.changed {
        true => format!("{} has {} messages now; {}", done.session, done.messages, kept(&done)),
        false => format!("{} has {} messages: nothing was left out", done.session, done.messages),
    };
    told(place, &done, ("compact", text), json)
}

/// Says who works on a session.
pub(super) fn lease(place: &Place, text: &str, act: &LeaseAct, json: bool) -> Told {
    let target = here(place, text)?;
    let (done, said) = match (act.take, act.beat, act.release) {
        (Some(pid), ..) => {
            let done = take(place, &target, pid)?;
            let epoch = done.epoch.unwrap_or_default();
            (done, format!("process {pid} holds {} under lease {epoch}", target.name))
        }
        (_, Some(epoch), _) => {
            let done = submit(place, SessionRequest::Beat { session: target.key, epoch })?;
            (done, format!("lease {epoch} of {} goes on", target.name))
        }
        (.., epoch) => {
            let epoch = epoch.unwrap_or_default();
            let done = submit(place, SessionRequest::Release { session: target.key, epoch })?;
            (done, format!("lease {epoch} of {} is over", target.name))
        }
    };
    told(place, &done, ("lease", said), json)
}

fn take(place: &Place, target: &Target, pid: u32) -> Result<DoneJson, Trouble> {
    let (Some(started), Some(boot)) = (process::started(pid), process::boot()) else {
        let message = format!("there is no process {pid} on this machine");
        return Err(Trouble::new("no_such_process", message, "name a process that runs").with("pid", pid));
    };
    let guard = target.guard(&Conditions::default());
    submit(place, SessionRequest::Take { session: target.key.clone(), pid, started, boot, guard })
}

/// Whether a person wants it: said by a flag, or asked at a terminal.
fn confirmed(
    (name, given): (&str, bool),
    (question, verb, flag): (&str, &str, &str),
    json: bool,
) -> Result<bool, Trouble> {
    if given {
        return Ok(true);
    }
    if json || !std::io::stdin().is_terminal() {
        let hint = format!("`hearth session {verb} {name} {flag}` does it");
        return Err(Trouble::new("confirmation_required", "confirmation required", hint)
            .with("session_id", name)
            .usage());
    }
    let mut screen = std::io::stderr();
    let mut answer = String::new();
    let asked = write!(screen, "{question} [y/N]: ").and_then(|()| screen.flush());
    let heard = asked.and_then(|()| std::io::stdin().read_line(&mut answer));
    let wanted = heard.is_ok() && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str());
    if !wanted {
        out::note(&format!("{verb}: cancelled."));
    }
    Ok(wanted)
}
