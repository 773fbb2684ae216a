//! Starts an agent: the handshake, the session, and the mode, model and effort that are set for it.

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use hearth_presets::{KnownAgent, Preset};
use serde_json::{Value, json};

use super::agent::{Agent, Continuation};
use super::known::HEADER;
use super::launch::Parameters;
use super::offers::{Choice, choose, offers};
use super::peer::Peer;
use super::rpc::Refusal;
use super::session::{OpenedSession, Session};
use super::trouble::{Complaint, is_unknown_session};
use super::usage::UsageMeter;
use crate::child::LineProcess;
use crate::failure::Failure;
use crate::log;
use crate::report::Report;
use crate::roots::Roots;
use crate::tools::Relay;
use crate::turn::TurnError;

/// The protocol's version.
const VERSION: u64 = 1;
/// How long an agent may take to answer a request before its first prompt.
const PATIENCE: Duration = Duration::from_secs(60);

/// A session that was begun or gone on with.
pub(super) struct Opened {
    id: String,
    pub(super) offers: Value,
    is_resumed: bool,
    meter: UsageMeter,
}

/// A running agent with a session.
pub(super) struct Started {
    pub(super) peer: Peer,
    pub(super) agent: Agent,
    pub(super) opened: Opened,
}

/// Starts the agent and its session.
pub(super) fn session(parameters: Parameters, roots: &Roots, report: &mut Report<'_>) -> Result<Session, TurnError> {
    let Started { peer, agent, opened } = start(&parameters, roots, report)?;
    let Opened { id, is_resumed, meter, .. } = opened;
    Ok(Session::new(parameters, peer, OpenedSession { agent, id, is_resumed, meter }))
}

/// Starts the agent, opens a session and sets what the agent's configuration chooses.
pub(super) fn start(parameters: &Parameters, roots: &Roots, report: &mut Report<'_>) -> Result<Started, TurnError> {
    if let Some((path, text)) = &parameters.file {
        write(&roots.home.join(path), text)?;
    }
    let relay = Relay::open(roots)?;
    let process = LineProcess::start(&parameters.launch, &roots.group);
    let mut peer = Peer::new(process.map_err(|failure| with_package(failure, parameters))?, relay);
    let agent = initialize(&mut peer, report)?;
    let opened = open(&mut peer, &agent, parameters, roots, report)?;
    let is_settled = parameters.is_model_named && !offers(Choice::Model, &opened.offers);
    let wanted = [
        (Choice::Mode, parameters.mode(&agent.name)),
        (Choice::Model, parameters.model.as_deref().filter(|_| !is_settled)),
        (Choice::Effort, parameters.effort.as_deref()),
    ];
    for (choice, wanted) in wanted {
        let Some(wanted) = wanted else { continue };
        let Some(mut request) = choose(choice, wanted, &opened.offers).map_err(TurnError::Failed)? else { continue };
        if let Some(params) = request.params.as_object_mut() {
            params.insert("sessionId".to_owned(), opened.id.as_str().into());
        }
        peer.call(request.method, &request.params, PATIENCE, report)?.map_err(failure)?;
    }
    Ok(Started { peer, agent, opened })
}

/// Names the package of a known agent whose own program is missing.
fn with_package(failure: Failure, parameters: &Parameters) -> Failure {
    let known = parameters.preset.map(Preset::about);
    let is_own = |known: &&KnownAgent| parameters.launch.argv.iter().eq(known.command);
    match known.filter(is_own).filter(|_| failure.retry.is_none()) {
        Some(known) => Failure::lasting(format!("{} `{}` installs it", failure.error, known.package.install())),
        None => failure,
    }
}

/// Writes a generated file, unless there is one that was not generated. Its directory belongs to the agent.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let is_ours = match fs::read_to_string(path) {
        Ok(found) if found == text => return Ok(()),
        Ok(found) => found.starts_with(HEADER),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    if !is_ours {
        log::note(format_args!("{} is not one that Hearth generated; it stays as it is", path.display()));
        return Ok(());
    }
    let parent = path.parent().unwrap_or(path);
    let written = fs::create_dir_all(parent).and_then(|()| fs::write(path, text));
    written.map_err(|error| Failure::passing(format!("cannot write {}: {error}", path.display())))
}

fn failure(refusal: Refusal) -> Failure {
    Complaint::of(&refusal).failure(None)
}

fn initialize(peer: &mut Peer, report: &mut Report<'_>) -> Result<Agent, TurnError> {
    let params = json!({
        "protocolVersion": VERSION,
        "clientCapabilities": {
            "fs": {"readTextFile": false, "writeTextFile": false},
            "terminal": false,
            // Agents that know it report failures and warnings as such, not as texts of a message.
            "_meta": {"jetbrains": {"air": {"version": 1, "capabilities": ["sessionFailure", "loadReplayEnd"]}}},
        },
        "clientInfo": {"name": "hearth", "title": "Hearth", "version": env!("CARGO_PKG_VERSION")},
    });
    let told = peer.call("initialize", &params, PATIENCE, report)?.map_err(failure)?;
    let version = told.get("protocolVersion").and_then(Value::as_u64);
    if version != Some(VERSION) {
        let version = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
        let why =
            format!("the agent does not speak version {VERSION} of the Agent Client Protocol (its version: {version})");
        return Err(TurnError::Failed(why));
    }
    let text = |path| told.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let has = |path| told.pointer(path).is_some_and(|value| !value.is_null() && *value != Value::Bool(false));
    let agent = Agent {
        name: text("/agentInfo/name"),
        version: text("/agentInfo/version"),
        resumes: has("/agentCapabilities/sessionCapabilities/resume"),
        loads: has("/agentCapabilities/loadSession"),
        sees_images: has("/agentCapabilities/promptCapabilities/image"),
        takes_instructions: has("/agentCapabilities/sessionCapabilities/systemPrompt"),
    };
    log::note(format_args!("the agent is {:?}, version {:?}", agent.name, agent.version));
    Ok(agent)
}

/// Goes on with the session of earlier processes, or begins one.
fn open(
    peer: &mut Peer,
    agent: &Agent,
    parameters: &Parameters,
    roots: &Roots,
    report: &mut Report<'_>,
) -> Result<Opened, TurnError> {
    let mut params = json!({"cwd": roots.group, "mcpServers": parameters.servers(&peer.relay().command())});
    if let (true, Some(params)) = (agent.takes_instructions, params.as_object_mut()) {
        let content = json!([{"type": "text", "text": parameters.instructions}]);
        params.insert("systemPrompt".to_owned(), json!({"mode": "append", "content": content}));
    }
    if let Some(Continuation { session: id, totals, .. }) = known(agent, parameters, report) {
        let mut params = params.clone();
        if let Some(params) = params.as_object_mut() {
            params.insert("sessionId".to_owned(), id.as_str().into());
        }
        let method = if agent.resumes { "session/resume" } else { "session/load" };
        match peer.call(method, &params, PATIENCE, report)? {
            Ok(offers) => {
                peer.after_replay(report)?;
                let meter = UsageMeter::new(&agent.name, Some(totals));
                return Ok(Opened { id, offers, is_resumed: true, meter });
            }
            Err(refusal) if is_unknown_session(&refusal, &id) => {
                log::note("the agent does not know the session to go on with any more; a new one begins");
                report.remember(None)?;
            }
            Err(refusal) => return Err(failure(refusal).into()),
        }
    }
    let offers = peer.call("session/new", &params, PATIENCE, report)?.map_err(failure)?;
    match offers.get("sessionId").and_then(Value::as_str).filter(|id| !id.is_empty()) {
        Some(id) => {
            let (id, meter) = (id.to_owned(), UsageMeter::begun(&agent.name));
            Ok(Opened { id, offers, is_resumed: false, meter })
        }
        None => Err(TurnError::Failed("the agent began a session without an id".to_owned())),
    }
}

/// The session to go on with, if this agent can.
fn known(agent: &Agent, parameters: &Parameters, report: &Report<'_>) -> Option<Continuation> {
    let known: Continuation = serde_json::from_str(&report.continuation()?).ok()?;
    if known.server != parameters.server {
        log::note(
            "the agent's server has another address, and its conversation keeps the earlier one; a new one begins",
        );
        return None;
    }
    ((agent.resumes || agent.loads) && known.agent == agent.name).then_some(known)
}
