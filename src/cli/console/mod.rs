//! `hearth console`: links to the console in the browser, and the browsers in which people are signed in. And what the
//! console's pages show, read by the same functions as commands.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::listed::{self, Column, Listed};
use super::offline::{mismatch, submit};
use super::{Done, Failure, human_time, print};
use crate::clock;
use crate::config::Paths;
use crate::model::address::UserId;
use crate::model::console::{ConsoleSession, Login};
use crate::model::id::ConsoleSessionId;
use crate::socket::client::{Client, unexpected};
use crate::socket::command::{Answer, ClientCommand};
use crate::socket::protocol::{ConsoleLink, Request, Response};
use crate::state::{self, Read, Reader, Tables};

mod chat;
mod health;
mod lookup;
mod topics;
mod views;

pub(super) use views::StoreViews;

#[derive(Debug, Args)]
pub(super) struct ConsoleArgs {
    #[command(subcommand)]
    command: Option<ConsoleCommand>,
    /// Sign in this person, like telegram:123, instead of the user who runs the command
    #[arg(long, value_name = "USER")]
    user: Option<UserId>,
}

#[derive(Debug, Subcommand)]
enum ConsoleCommand {
    /// List the browsers in which people are signed in
    Sessions,
    /// Sign a browser out
    SignOut {
        /// Its id, like cs3
        session: ConsoleSessionId,
    },
}

/// One browser of `hearth console sessions --json`.
#[derive(Debug, Serialize)]
pub(super) struct SessionJson {
    session: String,
    user: String,
    /// What the browser calls itself.
    browser: String,
    /// How the person signed in: link or chat.
    login: &'static str,
    signed_in: String,
    /// When it was last used, give or take an hour.
    used: String,
    expires: String,
}

/// Prints a link to the console, or lists and ends sessions.
pub(super) fn console(paths: &Paths, args: &ConsoleArgs, json: bool) -> Done {
    match &args.command {
        None => link(paths, args.user.as_ref(), json),
        Some(ConsoleCommand::Sessions) => {
            let found = Reader::open(paths.data())?.read(sessions)?;
            listed::list(&found, json, "no one is signed in to the console")
        }
        Some(ConsoleCommand::SignOut { session }) => match submit(paths, ClientCommand::SignOut(*session))? {
            Answer::SignedOut(session) if json => {
                print::json(&serde_json::json!({ "signed_out": session.to_string() }))
            }
            Answer::SignedOut(session) => print::line(&format!("{session} is signed out")),
            other => Err(mismatch(&other)),
        },
    }
}

fn link(paths: &Paths, user: Option<&UserId>, json: bool) -> Done {
    let request = Request::Console { user: user.map(ToString::to_string) };
    let link = match Client::connect(paths)?.ask(&request)? {
        Response::Console(link) => link,
        Response::Refused { refusal, .. } => return Err(Failure::Failed(refusal.message)),
        other => return Err(unexpected(other).into()),
    };
    if json {
        return print::json(&link);
    }
    let ConsoleLink { link, user, fingerprint, .. } = link;
    print::line(&link)?;
    print::note(&format!("the link signs in {user}, once, within a minute"));
    if let Some(fingerprint) = fingerprint {
        print::note(&format!(
            "browsers warn of the certificate, which Hearth made: go on only if they show this SHA-256 fingerprint: {fingerprint}"
        ));
    }
    Ok(())
}

/// All browsers that are signed in, the one used last first.
pub(super) fn sessions(db: &Tables, txn: &Read<'_>) -> Result<Vec<SessionJson>, state::Error> {
    let mut rows = db.console_sessions.collect_range(txn, .., usize::MAX)?;
    rows.retain(|(_, row)| clock::wall() < row.expires());
    rows.sort_by_key(|(id, row)| (std::cmp::Reverse(row.rotated), *id));
    Ok(rows.iter().map(|(id, row)| shape(*id, row)).collect())
}

fn shape(id: ConsoleSessionId, row: &ConsoleSession) -> SessionJson {
    SessionJson {
        session: id.to_string(),
        user: row.user.to_string(),
        browser: row.browser.clone(),
        login: match row.login {
            Login::Link => "link",
            Login::Chat => "chat",
        },
        signed_in: row.signed_in.to_string(),
        used: row.rotated.to_string(),
        expires: row.expires().to_string(),
    }
}

impl Listed for SessionJson {
    const PLURAL: &'static str = "sessions";
    const COLUMNS: &'static [Column<Self>] = &[
        ("ID", |one| one.session.clone()),
        ("PERSON", |one| one.user.clone()),
        ("BY", |one| one.login.to_owned()),
        ("SIGNED IN", |one| human_time::age(&one.signed_in)),
        ("USED", |one| human_time::age(&one.used)),
        ("EXPIRES", |one| human_time::age(&one.expires)),
        ("BROWSER", |one| one.browser.clone()),
    ];
}
