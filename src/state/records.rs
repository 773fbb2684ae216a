//! Which types are records: their versions, and what is blacked out in a dump that is passed on.

use super::envelope::Record;
use super::meta::{Meta, Number};
use crate::model::RawJson;
use crate::model::configure::Settings;
use crate::model::delivery::Outbound;
use crate::model::entity::{Agent, Chat, Destination, DirectMessage, EnvValue, Grant, Membership, User, Wiring};
use crate::model::incarnation::Incarnation;
use crate::model::journal::JournalEntry;
use crate::model::later::{Approval, Fire, Mute, Question, SkipSummary, StateField, Task};
use crate::model::message::{Body, Drop, Message, Seen};
use crate::model::session::{Session, Workspace};

macro_rules! records {
    ($($name:literal $version:literal $record:ident $(|$row:ident| $redact:block)?)+) => {$(
        impl Record for $record {
            const NAME: &'static str = $name;
            const VERSION: u16 = $version;

            fn redact(&mut self) {
                $(let $row = self; $redact)?
            }
        }
    )+};
}

records! {
    "meta" 1 Meta
    "settings" 1 Settings
    "number" 1 Number
    "agent" 1 Agent |row| {
        black_out(&mut row.settings.name);
        for (_, value) in &mut row.settings.env {
            if let EnvValue::Plain(text) = value {
                black_out(text);
            }
        }
    }
    "chat" 1 Chat |row| { black_out_option(&mut row.name); }
    "wiring" 1 Wiring
    "user" 1 User |row| { black_out_option(&mut row.name); }
    "grant" 1 Grant
    "membership" 1 Membership
    "direct_message" 1 DirectMessage
    "destination" 1 Destination
    "workspace" 1 Workspace |row| {
        if let Some(witness) = &mut row.witness {
            black_out(&mut witness.token);
        }
    }
    "session" 1 Session
    "body" 1 Body |row| {
        black_out(&mut row.content.text);
        black_out_option(&mut row.content.sender_name);
        black_out_json(&mut row.content.raw);
    }
    "message" 1 Message
    "seen" 1 Seen
    "drop" 1 Drop |row| { black_out_option(&mut row.sender_name); }
    "incarnation" 1 Incarnation |row| { black_out(&mut row.stderr_tail); }
    "outbound" 1 Outbound |row| {
        black_out(&mut row.text);
        black_out_json(&mut row.content);
        row.files.iter_mut().for_each(black_out);
    }
    "approval" 1 Approval |row| { row.nonce = 0; }
    "question" 1 Question |row| {
        black_out(&mut row.title);
        for (label, value) in &mut row.options {
            black_out(label);
            black_out(value);
        }
    }
    "task" 1 Task |row| { black_out(&mut row.prompt); }
    "fire" 1 Fire
    "skip_summary" 1 SkipSummary |row| { black_out_json(&mut row.summary); }
    "mute" 1 Mute |row| { black_out_json(&mut row.note); }
    "state_field" 1 StateField |row| { black_out_json(&mut row.value); }
    "journal_entry" 1 JournalEntry
}

/// Sizes stay visible: they help to understand and tell nothing.
fn black_out(text: &mut String) {
    if !text.is_empty() {
        *text = format!("<{} bytes>", text.len());
    }
}

fn black_out_option(text: &mut Option<String>) {
    if let Some(text) = text {
        black_out(text);
    }
}

fn black_out_json(json: &mut RawJson) {
    *json = RawJson::trusted(format!("\"<{} bytes>\"", json.as_str().len()));
}
