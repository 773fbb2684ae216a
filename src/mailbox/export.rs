//! Writes context and messages into the host's half of a mailbox.
//!
//! The context goes first: a runner that sees messages has to see the incarnation they are meant for. Messages are
//! immutable, so one that is there is never written again.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;

use hearth_wire::{
    CONTEXT_FILE, Context, FILES_DIR, InMessage, InName, OutId, RULES_VERSION, WIRE_VERSION, is_temporary, limits,
};
use rustix::fs::RawMode;
use serde_json::Value;

use crate::model::address::Address;
use crate::model::content::RawJson;
use crate::model::effect::{
    AlreadySent, ContextView, DestinationTarget, DestinationView, Export, ExportedMessage, ExportedReply, RecapLine,
};
use crate::model::entity::{EnvValue, McpServer, Permissions, ProviderKind, Verbosity};
use crate::model::id::SessionId;
use crate::model::policy::Policy;
use crate::model::tool::ToolPolicy;

use super::blobs::Blobs;
use super::collect::ENTRIES;
use super::dir::{Dir, DirEntry};
use super::error::Error;
use super::files;
use super::layout::Mailbox;
use super::text;

/// Mode of the host's files: their reader may be another user inside a container.
const READABLE: RawMode = 0o644;

/// Writes an export into the host's half. A message that cannot be written does not stop the others. Returns whether a
/// new triggering message was written.
pub(super) fn export(
    mailbox: &Mailbox,
    blobs: &Blobs,
    install: &str,
    timezone: &str,
    export: &Export,
) -> Result<bool, Error> {
    if let Some(view) = &export.context
        && is_news(mailbox, view)?
    {
        let context = wire_context(mailbox.session, install, view, timezone);
        mailbox.host.write(CONTEXT_FILE, &encode(CONTEXT_FILE, &context)?, READABLE)?;
        mailbox.host.sync()?;
    }
    let messages = mailbox.messages()?;
    if export.exact {
        remove_others(mailbox, &messages, export)?;
        if let Err(error) = files::restore(mailbox, blobs, &messages, &export.files) {
            // The next start tries again. Until then, the agent can work without them.
            tracing::warn!(session = %export.session, %error, "cannot restore files of earlier messages");
        }
    }
    let (mut first, mut asks) = (Ok(()), false);
    for message in &export.messages {
        match write_message(mailbox, blobs, &messages, message) {
            Ok(is_new) => asks |= is_new && message.trigger,
            Err(error) if first.is_ok() => first = Err(error),
            Err(_) => {}
        }
    }
    if export.exact {
        messages.sync()?;
    }
    // Otherwise the names need not survive a crash of the machine: no agent survives it, and the next one gets
    // everything again. The files' content must survive, or a broken file would count as present.
    first.and(export.replies.as_ref().map_or(Ok(()), |replies| export_replies(mailbox, replies))).map(|()| asks)
}

/// Makes the replies to requests be exactly these. Each is written once and never changes.
fn export_replies(mailbox: &Mailbox, replies: &[ExportedReply]) -> Result<(), Error> {
    let dir = mailbox.replies()?;
    let there = dir.list(ENTRIES)?.names;
    if replies.is_empty() && there.is_empty() {
        return Ok(());
    }
    let mut wanted = BTreeSet::new();
    for reply in replies {
        let id =
            OutId::new(reply.request.as_str()).map_err(|_| Error::BadName { name: text::reason(&reply.request) })?;
        let name = id.file_name();
        if !dir.has(OsStr::new(&name))? {
            dir.write(&name, &encode(&name, &wire_reply(&name, id, &reply.answer)?)?, READABLE)?;
        }
        wanted.insert(name);
    }
    for name in there {
        if !name.to_str().is_some_and(|name| wanted.contains(name)) {
            mailbox.trash.take(&dir, &name)?;
        }
    }
    dir.sync()
}

fn wire_reply(name: &str, request_id: OutId, answer: &Result<RawJson, String>) -> Result<hearth_wire::Reply, Error> {
    let (result, error) = match answer {
        Ok(json) => {
            let payload = |source| Error::Payload { what: name.to_owned(), source };
            (serde_json::from_str(json.as_str()).map_err(payload)?, None)
        }
        Err(error) => (Value::Null, Some(error.clone())),
    };
    Ok(hearth_wire::Reply { v: WIRE_VERSION, request_id, ok: answer.is_ok(), result, error })
}

/// Whether the context file is older than the view, or meant for another incarnation.
fn is_news(mailbox: &Mailbox, view: &ContextView) -> Result<bool, Error> {
    let DirEntry::Found(bytes) = mailbox.host.read(OsStr::new(CONTEXT_FILE), limits::JSON_BYTES)? else {
        return Ok(true);
    };
    let there: Option<Value> = serde_json::from_slice(&bytes).ok();
    let number = |key| there.as_ref().and_then(|there| there.get(key)).and_then(Value::as_u64);
    Ok(match (number("version"), number("incarnation")) {
        (Some(version), Some(incarnation)) => view.version > version || u64::from(view.incarnation) != incarnation,
        _ => true,
    })
}

fn remove_others(mailbox: &Mailbox, messages: &Dir, export: &Export) -> Result<(), Error> {
    let wanted: BTreeSet<u64> = export.messages.iter().map(|message| message.seq).collect();
    if let DirEntry::Found(files) = &messages.dir(FILES_DIR)? {
        // Also attachments whose message is already gone, as after a crash in between.
        let kept = export.files.iter().map(|kept| &kept.seq);
        let names: BTreeSet<String> = wanted.iter().chain(kept).map(|seq| InName { seq: *seq }.files_dir()).collect();
        for name in files.list(ENTRIES)?.names {
            if !name.to_str().is_some_and(|name| names.contains(name)) {
                mailbox.trash.take(files, &name)?;
            }
        }
    }
    loop {
        let listing = messages.list(ENTRIES)?;
        let mut removed = false;
        for name in &listing.names {
            match name.to_str().and_then(InName::parse) {
                Some(name) if wanted.contains(&name.seq) => continue,
                Some(message) => mailbox.trash.take(messages, OsStr::new(&message.to_string()))?,
                None if name.to_str().is_some_and(is_temporary) => mailbox.trash.take(messages, name)?,
                None => continue,
            }
            removed = true;
        }
        if !listing.cut || !removed {
            return Ok(());
        }
    }
}

/// Writes a message unless it already exists. Returns whether it was written.
fn write_message(mailbox: &Mailbox, blobs: &Blobs, messages: &Dir, message: &ExportedMessage) -> Result<bool, Error> {
    let name = InName { seq: message.seq }.to_string();
    if messages.has(OsStr::new(&name))? {
        return Ok(false);
    }
    let content = payload(&name, message)?;
    let fates = files::write(mailbox, blobs, messages, message)?;
    messages.write(&name, &encode(&name, &wire_message(message, content, &fates))?, READABLE).map(|()| true)
}

fn payload(name: &str, message: &ExportedMessage) -> Result<Value, Error> {
    serde_json::from_str(message.content.as_str()).map_err(|source| Error::Payload { what: name.to_owned(), source })
}

fn wire_message(message: &ExportedMessage, mut content: Value, fates: &[files::Fate]) -> InMessage {
    files::describe(&mut content, message, fates);
    InMessage {
        v: WIRE_VERSION,
        seq: message.seq,
        id: message.id.to_string(),
        kind: message.kind.as_str().to_owned(),
        trigger: message.trigger,
        timestamp: message.said.to_string(),
        unknown_sender: message.unknown_sender,
        reply: message.reply.as_ref().map(wire_address),
        content,
    }
}

/// The files of the contract as text, without writing any: a JSON array of messages, and the context. Files that came
/// with messages are described as if they could be written.
pub(super) fn texts(
    session: SessionId,
    install: &str,
    timezone: &str,
    view: &ContextView,
    messages: &[ExportedMessage],
) -> Result<(String, String), Error> {
    let wire = messages.iter().map(|message| {
        let fates: Vec<files::Fate> =
            message.attachments.iter().map(|file| file.blob.get().map(drop).map_err(str::to_owned)).collect();
        Ok(wire_message(message, payload(&message.id.to_string(), message)?, &fates))
    });
    let wire = wire.collect::<Result<Vec<_>, Error>>()?;
    let failed = |source| Error::Payload { what: "the prompt".to_owned(), source };
    let messages = serde_json::to_string(&wire).map_err(failed)?;
    let context = wire_context(session, install, view, timezone);
    Ok((messages, serde_json::to_string(&context).map_err(failed)?))
}

fn wire_context(session: SessionId, install: &str, view: &ContextView, timezone: &str) -> Context {
    let tools = tools(view);
    Context {
        // A runner that knows no rules would allow everything, so it has to refuse the file.
        v: if tools.is_open() { WIRE_VERSION } else { RULES_VERSION },
        version: view.version,
        install: install.to_owned(),
        session: session.to_string(),
        agent: view.folder.clone(),
        agent_name: view.settings.name.clone(),
        incarnation: view.incarnation,
        epoch: view.epoch,
        session_name: view.session_name.as_str().to_owned(),
        provider: provider(view),
        reply: view.reply.as_ref().map(wire_address),
        destinations: view.destinations.iter().map(destination).collect(),
        timezone: timezone.to_owned(),
        limits: hearth_wire::Limits {
            max_prompt_messages: view.settings.max_prompt_messages,
            max_json_bytes: limits::JSON_BYTES,
            max_file_bytes: limits::FILE_BYTES,
        },
        mcp_servers: view.settings.mcp_servers.iter().map(server).collect(),
        blocked_tools: view.settings.blocked_tools.clone(),
        tools,
        next_number: view.next_number,
        already_sent: view.already_sent.iter().map(already_sent).collect(),
        recap: view.recap.iter().map(recap_line).collect(),
        idle_beat_ms: Some(Policy::STANDARD.idle_beat.get()),
    }
}

/// What decides about the agent's tool calls.
fn tools(view: &ContextView) -> ToolPolicy {
    let settings = &view.settings.tools;
    ToolPolicy { preset: settings.preset, rules: settings.rules.clone(), granted: view.granted.clone() }
}

fn provider(view: &ContextView) -> hearth_wire::Provider {
    let settings = &view.settings;
    let preset = view.provider.preset().map(|preset| preset.about().name.to_owned());
    let name = if preset.is_some() { ProviderKind::Acp } else { view.provider };
    hearth_wire::Provider {
        name: name.as_str().to_owned(),
        command: settings.command.clone(),
        model: settings.model.clone(),
        effort: settings.effort.clone(),
        preset,
        mode: settings.mode.clone(),
        memory: view.memory.clone(),
        permissions: match settings.permissions {
            Permissions::Allow => hearth_wire::Permissions::Allow,
            Permissions::Ask => hearth_wire::Permissions::Ask,
            Permissions::Deny => hearth_wire::Permissions::Deny,
        },
        verbosity: match settings.verbosity {
            Verbosity::Normal => hearth_wire::Verbosity::Normal,
            Verbosity::Verbose => hearth_wire::Verbosity::Verbose,
        },
    }
}

/// Secrets are never in a file: their values are in the environment of the runner, under names of their own.
fn server(server: &McpServer) -> hearth_wire::McpServer {
    let (mut env, mut secret_env) = (BTreeMap::new(), BTreeMap::new());
    for (name, value) in &server.env {
        match value {
            EnvValue::Plain(text) => env.insert(name.clone(), text.clone()),
            EnvValue::Reference(_) => secret_env.insert(name.clone(), server.variable(name)),
        };
    }
    let McpServer { name, command, args, .. } = server.clone();
    hearth_wire::McpServer { name, command, args, env, secret_env }
}

fn destination(view: &DestinationView) -> hearth_wire::Destination {
    let target = match &view.target {
        DestinationTarget::Chat(address) => hearth_wire::DestinationTarget::Channel {
            channel: address.channel.as_str().to_owned(),
            platform_id: address.platform_id.as_str().to_owned(),
        },
        DestinationTarget::Agent(folder) => hearth_wire::DestinationTarget::Agent { folder: folder.clone() },
    };
    hearth_wire::Destination { name: view.name.clone(), display: view.display.clone(), target }
}

fn already_sent(view: &AlreadySent) -> hearth_wire::AlreadySent {
    hearth_wire::AlreadySent { in_reply_to: view.in_reply_to, number: view.number, text: view.text.clone() }
}

fn recap_line(view: &RecapLine) -> hearth_wire::RecapLine {
    hearth_wire::RecapLine { number: view.number, from: view.from.clone(), text: view.text.clone() }
}

fn wire_address(address: &Address) -> hearth_wire::Address {
    hearth_wire::Address {
        channel: address.channel.as_str().to_owned(),
        platform_id: address.platform_id.as_str().to_owned(),
        thread_id: address.thread.as_ref().map(|thread| thread.as_str().to_owned()),
    }
}

/// JSON of at most the size that the contract promises.
fn encode(what: &str, value: &impl serde::Serialize) -> Result<Vec<u8>, Error> {
    let bytes = serde_json::to_vec(value).map_err(|source| Error::Payload { what: what.to_owned(), source })?;
    let size = bytes.len() as u64;
    if size > limits::JSON_BYTES { Err(Error::TooLarge { what: what.to_owned(), bytes: size }) } else { Ok(bytes) }
}
