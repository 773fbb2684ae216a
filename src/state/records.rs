//! The record types, their versions, and their redaction in shared dumps.

use super::envelope::{Record, Unreadable, around, open, seal};
use super::legacy;
use super::meta::{Meta, Number};
use crate::model::RawJson;
use crate::model::approval::{Approval, ApprovalSubject, Held, HostReply, Question, QuestionState, Waitlist};
use crate::model::budget::{BudgetState, GraceUsed, Reservation};
use crate::model::card::CardOption;
use crate::model::channel::{BridgeState, ChannelInstance};
use crate::model::configure::Settings;
use crate::model::connection::Connection;
use crate::model::console::{ConsoleSession, ConsoleSettings};
use crate::model::content::FileBytes;
use crate::model::delivery::{Act, Outbound};
use crate::model::entity::{Agent, Chat, Destination, DirectMessage, EnvValue, Grant, Membership, User, Wiring};
use crate::model::group::{PendingResponse, SeenId, StateField, StateFile};
use crate::model::halt::{Freeze, StoppedTurn};
use crate::model::host_grant::{HostFlood, HostGrant};
use crate::model::incarnation::Incarnation;
use crate::model::journal::{Event, JournalEntry};
use crate::model::message::{Body, Drop, Fetch, Message, Seen, SessionFiles};
use crate::model::rate_limit::RateLimit;
use crate::model::record::{ImportedFile, Lease, RecordBody, SessionRecord};
use crate::model::session::{Revision, Session, SessionSettings};
use crate::model::session_providers::SessionProviders;
use crate::model::skip::{SkipStep, SkipSummary};
use crate::model::spend::{Spend, SpendTotal};
use crate::model::take_in::PartialImport;
use crate::model::task::{Fire, Task};
use crate::model::thread::{Mute, Sticky};
use crate::model::tool::{ToolGrant, ToolValue};
use crate::model::voice::{Speech, TranscriptState, Transcripts};
use crate::model::workspace::{Workspace, WorkspaceEvent};

macro_rules! records {
    ($($name:literal $version:literal $record:ident $(from $old:ident)? $(|$row:ident| $redact:block)?)+) => {
    $(
        impl Record for $record {
            const NAME: &'static str = $name;
            const VERSION: u16 = $version;

            $(fn upgrade(version: u16, body: &[u8]) -> Result<Self, Unreadable> {
                legacy::$old::upgrade(version, body)
            })?

            fn redact(&mut self) {
                $(let $row = self; $redact)?
            }
        }
    )+

        /// Names of records, with their versions.
        pub const RECORDS: &[(&str, u16)] = &[$(($name, $version)),+];

        /// Re-encodes the body of a record of any version in the current version; none if no record has this name.
        #[must_use]
        pub fn rewrite(name: &str, version: u16, body: &[u8]) -> Option<Result<Vec<u8>, Unreadable>> {
            match name {
                $($name => Some(rewritten::<$record>(version, body)),)+
                _ => None,
            }
        }
    };
}

/// Also redacts a copy, to check that this does not fail.
fn rewritten<R: Record>(version: u16, body: &[u8]) -> Result<Vec<u8>, Unreadable> {
    let record: R = open(&around(version, body))?;
    record.clone().redact();
    seal(&record).map_err(|unwritable| Unreadable::Damaged(format!("it could not be written: {unwritable:?}")))
}

records! {
    "meta" 2 Meta from meta
    "settings" 7 Settings from settings
    "number" 1 Number
    "agent" 8 Agent from agent |row| {
        black_out(&mut row.settings.name);
        black_out_env(&mut row.settings.env);
        row.settings.mcp_servers.iter_mut().for_each(|server| black_out_env(&mut server.env));
        black_out_option(&mut row.settings.instructions);
    }
    "chat" 1 Chat |row| { black_out_option(&mut row.name); }
    "wiring" 2 Wiring from wiring
    "user" 1 User |row| { black_out_option(&mut row.name); }
    "grant" 1 Grant
    "membership" 1 Membership
    "direct_message" 1 DirectMessage
    "destination" 1 Destination
    "workspace" 1 Workspace
    "workspace_event" 1 WorkspaceEvent
    "session" 1 Session |row| {
        if let Session::Workspace(session) = row {
            black_out_option(&mut session.title);
            if let Some(compaction) = &mut session.compaction {
                black_out(&mut compaction.summary);
            }
            if let Some(source) = &mut session.source {
                source.torn_tail = None;
                black_out_option_json(&mut source.extra);
            }
        }
    }
    "revision" 1 Revision |row| {
        if let Some(compaction) = &mut row.compaction {
            black_out(&mut compaction.summary);
        }
    }
    "session_record" 1 SessionRecord |row| {
        match &mut row.body {
            RecordBody::Message { blocks, .. } => black_out_json(blocks),
            RecordBody::Prompt(text) => black_out(text),
            RecordBody::Foreign(json) => black_out_json(json),
        }
        black_out_option_json(&mut row.extra);
    }
    "lease" 1 Lease
    "imported_file" 1 ImportedFile
    "intake" 1 PartialImport
    "body" 1 Body |row| {
        black_out(&mut row.content.text);
        black_out_option(&mut row.content.sender_name);
        black_out_json(&mut row.content.raw);
        for file in &mut row.attachments {
            black_out(&mut file.name);
            if let FileBytes::Remote(reference) = &mut file.blob {
                black_out(reference);
            }
        }
    }
    "fetch" 1 Fetch
    "transcripts" 1 Transcripts |row| {
        for file in &mut row.files {
            black_out(&mut file.file);
            if let TranscriptState::Done { text, .. } = &mut file.state {
                black_out(text);
            }
        }
    }
    "speech" 1 Speech
    "message" 1 Message
    "session_files" 1 SessionFiles |row| { row.files.iter_mut().for_each(|file| black_out(&mut file.name)); }
    "hold_off" 2 RateLimit from hold_off
    "freeze" 1 Freeze
    "stopped_turn" 1 StoppedTurn
    "session_settings" 2 SessionSettings from session_settings
    "session_providers" 1 SessionProviders
    "spend" 1 Spend
    "spend_total" 1 SpendTotal
    "reservation" 1 Reservation
    "budget_state" 1 BudgetState
    "grace" 1 GraceUsed
    "host_grant" 1 HostGrant
    "host_flood" 1 HostFlood
    "connection" 1 Connection
    "console" 2 ConsoleSettings from console
    "console_session" 2 ConsoleSession from console_session |row| {
        row.token = [0; 32];
        row.seed = [0; 32];
        if let Some(replaced) = &mut row.replaced {
            replaced.token = [0; 32];
        }
    }
    "seen" 1 Seen
    "drop" 2 Drop from drop |row| { black_out_option(&mut row.sender_name); }
    "incarnation" 1 Incarnation |row| { black_out(&mut row.stderr_tail); }
    "outbound" 1 Outbound |row| {
        black_out(&mut row.text);
        black_out_json(&mut row.content);
        if let Act::Ask(card) = &mut row.act {
            card.nonce = 0;
            black_out(&mut card.title);
            black_out(&mut card.body);
            black_out_options(&mut card.options);
        }
        row.files.iter_mut().for_each(black_out);
    }
    "approval" 1 Approval |row| { redact_approval(row); }
    "held" 1 Held
    "waitlist" 1 Waitlist
    "question" 1 Question |row| {
        row.nonce = 0;
        black_out(&mut row.title);
        black_out(&mut row.body);
        black_out_options(&mut row.options);
        if let QuestionState::Answered { value, .. } = &mut row.state {
            black_out(value);
        }
    }
    "host_reply" 1 HostReply |row| {
        if let Ok(json) = &mut row.answer {
            black_out_json(json);
        }
    }
    "channel" 3 ChannelInstance from channel
    "bridge" 2 BridgeState from bridge
    "sticky" 1 Sticky
    "task" 1 Task |row| {
        black_out(&mut row.prompt);
        if let Some(script) = &mut row.script {
            black_out(script);
        }
    }
    "fire" 1 Fire
    "skip_summary" 1 SkipSummary |row| {
        row.nonce = row.nonce.map(|_| 0);
        black_out(&mut row.report.reason);
        row.report.items.iter_mut().for_each(black_out);
        if let SkipStep::Name(name) = &mut row.report.step {
            black_out(name);
        }
    }
    "mute" 1 Mute |row| { black_out_json(&mut row.note); }
    "state_file" 1 StateFile
    "state_field" 1 StateField |row| {
        row.value.iter_mut().for_each(black_out_json);
        row.known.iter_mut().flatten().for_each(black_out_json);
    }
    "seen_id" 1 SeenId |row| { black_out(&mut row.id); }
    "pending_response" 1 PendingResponse |row| { black_out_json(&mut row.value); }
    "journal_entry" 1 JournalEntry |row| {
        if let Event::ToolCalled(call) = &mut row.event {
            black_out(&mut call.excerpt);
        }
    }
    "tool_grant" 1 ToolGrant |row| { black_out(&mut row.pattern); }
}

fn redact_approval(row: &mut Approval) {
    row.nonce = 0;
    black_out_options(&mut row.options);
    match &mut row.about {
        ApprovalSubject::Sender { name, .. } | ApprovalSubject::Channel { name, .. } => black_out_option(name),
        ApprovalSubject::Budget(_) | ApprovalSubject::Host(_) | ApprovalSubject::Hosts(_) => {}
        ApprovalSubject::Tool(request) => {
            request.pattern = None;
            black_out_option(&mut request.reason);
            for field in &mut request.fields {
                let (ToolValue::Text(text) | ToolValue::Json(text)) = &mut field.value;
                black_out(text);
            }
        }
        ApprovalSubject::Packages { reason, .. } => black_out_option(reason),
        ApprovalSubject::McpServer { server, .. } => black_out_env(&mut server.env),
        ApprovalSubject::CreateAgent { name, instructions, .. } => {
            black_out(name);
            black_out_option(instructions);
        }
    }
}

/// A plain value may be a secret that should have been a reference.
fn black_out_env(env: &mut [(String, EnvValue)]) {
    for (_, value) in env {
        if let EnvValue::Plain(text) = value {
            black_out(text);
        }
    }
}

fn black_out_options(options: &mut [CardOption]) {
    for option in options {
        black_out(&mut option.label);
        black_out(&mut option.chosen);
        black_out(&mut option.value);
    }
}

/// Replaces a text. Its size stays visible, which helps with debugging and reveals nothing.
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

fn black_out_option_json(json: &mut Option<RawJson>) {
    if let Some(json) = json {
        black_out_json(json);
    }
}

fn black_out_json(json: &mut RawJson) {
    *json = RawJson::trusted(format!("\"<{} bytes>\"", json.as_str().len()));
}
