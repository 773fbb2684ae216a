//! A small, consistent store: every record type, most shapes of each.

use crate::model::backup_plan::BackupPlan;
use crate::model::bound_secret::{AgentSecret, BoundSecret};
use crate::model::budget::{Caps, Fallback, OnLimit};
use crate::model::configure::Settings;
use crate::model::content::{Attachment, BlobId, FileBytes};
use crate::model::delivery::{Act, Author, OutState, Outbound};
use crate::model::entity::{
    Access, Agent, AgentSettings, Chat, ContextFrom, Destination, DirectMessage, Engage, EnvValue, ExtraMount, Folder,
    Grant, Ignored, Limits, McpServer, Membership, Network, Origin, Packages, Permissions, ProviderKind, Role,
    SenderScope, SessionMode, Skills, TechnicalSkips, Trust, UnknownSenders, User, Verbosity, Wiring,
};
use crate::model::halt::{Freeze, StoppedTurn};
use crate::model::id::{
    AgentId, ApprovalId, BodyId, ChangeId, ChatId, ConnectionId, Counted, DropId, JournalId, MessageId, OutboundId,
    QuestionId, SessionId, SkipId, TaskId, ToolGrantId,
};
use crate::model::incarnation::{Exit, Incarnation, IncarnationId, Phase, SpecDigest, StopReason, ToolUse};
use crate::model::message::{
    Body, Completion, Drop, Due, Fetch, Hop, Message, MessageKind, MessageState, Reason, Seen, SessionFiles,
};
use crate::model::rate_limit::{LimitCause, RateLimit};
use crate::model::session::{ChatSession, Route, Session, SessionName, SessionSettings};
use crate::model::spend::{ModelPrice, Price};
use crate::model::task::{
    Fire, FireOutcome, Missed, Overlap, Recurrence, SkipReason, Task, TaskHome, TaskOrigin, TaskState,
};
use crate::model::thread::Mute;
use crate::model::workspace::{Discriminator, Fingerprint, Workspace, WorkspaceKey};
use crate::model::{Address, Awake, ChannelName, Content, ForeignId, Millis, RawJson, Timestamp, UserId};
use crate::{
    AgentChatKey, AgentThreadKey, DestinationKey, GrantKey, InboxKey, MemberKey, Number, OccurrenceId, PersonKey,
    Result, SeenKey, SessionKey, Tables, Text, ThreadKey, WiringKey, Write,
};

mod asked;
mod console;
mod costs;
mod network;
mod providers;
mod voice;
mod workspaces;

pub(super) const AGENT: AgentId = AgentId::new(1);
pub(super) const CHAT: ChatId = ChatId::new(1);
pub(super) const SESSION: SessionId = SessionId::new(1);

pub(super) fn workspace_key() -> WorkspaceKey {
    WorkspaceKey { fingerprint: Fingerprint::of_path(b"groups/main"), discriminator: Discriminator(0) }
}

pub(super) fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(1_767_225_600_000 + ms)
}

pub(super) fn foreign(text: &str) -> ForeignId {
    ForeignId::new("id", text).unwrap()
}

pub(super) fn telegram() -> ChannelName {
    ChannelName::new("telegram").unwrap()
}

pub(super) fn address(thread: Option<&str>) -> Address {
    Address { channel: telegram(), platform_id: foreign("-100"), thread: thread.map(foreign) }
}

pub(super) fn ada() -> UserId {
    UserId::new(telegram(), foreign("42"))
}

fn blob() -> BlobId {
    BlobId::parse(&"0f".repeat(32)).unwrap()
}

fn json(text: &str) -> RawJson {
    RawJson::trusted(text.to_owned())
}

pub(super) fn agent(folder: &str) -> Agent {
    let settings = AgentSettings {
        name: "Gustava".to_owned(),
        provider: ProviderKind::Command,
        command: vec!["agent".to_owned(), "--json".to_owned()],
        env: vec![
            ("MODE".to_owned(), EnvValue::Plain("calm".to_owned())),
            ("TOKEN".to_owned(), EnvValue::Reference("env:TOKEN".to_owned())),
        ],
        model: Some("m".to_owned()),
        effort: None,
        trust: Trust::Trusted,
        unconfined: false,
        blocked_tools: vec!["Bash".to_owned()],
        max_prompt_messages: 10,
        max_parallel: 4,
        packages: Packages { apt: vec!["jq".to_owned()], npm: vec![] },
        mcp_servers: vec![McpServer {
            name: "files".to_owned(),
            command: "mcp-files".to_owned(),
            args: vec!["--all".to_owned()],
            env: vec![("KEY".to_owned(), EnvValue::Reference("env:KEY".to_owned()))],
        }],
        instructions: None,
        network: Network::Host,
        mounts: vec![ExtraMount {
            host_path: "~/notes".to_owned(),
            container_path: Some("notes".to_owned()),
            access: Access::ReadOnly,
        }],
        limits: Limits { memory: Some(1 << 30), cpu: None, pids: Some(512) },
        skills: Skills::Only(vec!["weather".to_owned()]),
        timezone: Some("Europe/Berlin".to_owned()),
        technical_skips: TechnicalSkips::Retry,
        request_env: vec!["TOKEN".to_owned()],
        allow_host_loopback: true,
        folder_access: Some(Access::ReadWrite),
        gateway: false,
        models: vec!["m".to_owned()],
        mode: Some("plan".to_owned()),
        permissions: Permissions::Ask,
        on_limit: OnLimit::Hold,
        caps: Caps { tokens: Some(500_000), calls: Some(50), ..Caps::default() },
        verbosity: Verbosity::Verbose,
        allow: vec!["192.168.1.20:8123".parse().unwrap(), "*.example.org".parse().unwrap()],
        deny: vec!["bad.example.org".parse().unwrap()],
        secrets: vec![AgentSecret { variable: "GITHUB_TOKEN".to_owned(), secret: "github".to_owned() }],
        tools: asked::tools(),
        recall: crate::model::recall::RecallReach::Agent,
        fallback: vec![Fallback {
            provider: ProviderKind::Command,
            command: vec!["other".to_owned()],
            model: Some("small".to_owned()),
        }],
    };
    Agent {
        folder: Folder::new(folder).unwrap(),
        settings,
        origin: Origin::File,
        created: at(0),
        archived: None,
        installs: Vec::new(),
    }
}

pub(super) fn message(number: u64, state: MessageState, trigger: bool) -> (MessageId, Message) {
    let message = Message {
        session: SESSION,
        agent: AGENT,
        seq: number * 2,
        body: BodyId::new(1),
        trigger,
        reply: Some(address(Some("7"))),
        from: None,
        slot: None,
        state,
        tries: 0,
        failed_in: 0,
        told_to_wait: false,
        stored: at(5),
    };
    (MessageId::new(number), message)
}

pub(super) fn outbound(number: u64, state: OutState, thread: Option<&str>) -> (OutboundId, Outbound) {
    let author =
        Author::Agent { session: SESSION, incarnation: 1, wire_id: format!("w{number}"), number: number * 2 + 1 };
    let outbound = Outbound {
        author,
        to: Some(address(thread)),
        act: Act::Say,
        in_reply_to: Some(MessageId::new(1)),
        text: "An answer".to_owned(),
        content: json(r#"{"text":"An answer"}"#),
        files: vec!["plan.pdf".to_owned()],
        state,
        attempts: 1,
        first_attempt: Some(Awake::new(1, 10)),
        uncertain: 0,
        stored: at(6),
    };
    (OutboundId::new(number), outbound)
}

/// Fills a store with the world.
pub(super) fn fill(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    entities(db, txn)?;
    people(db, txn)?;
    session(db, txn)?;
    messages(db, txn)?;
    outgoing(db, txn)?;
    later(db, txn)?;
    costs::fill(db, txn)?;
    network::fill(db, txn)?;
    console::fill(db, txn)?;
    workspaces::fill(db, txn)?;
    super::recall::fill(db, txn)
}

fn entities(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    let backup =
        BackupPlan { every: Millis::minutes(60), keep: 3, to: Some("~/backups".to_owned()), with_secrets: true };
    let price = Price { input: 3_000_000, output: 15_000_000, cache_read: 300_000, cache_write: 3_750_000 };
    let prices = vec![ModelPrice { model: "qwen3:8b".to_owned(), price }];
    let settings = Settings {
        default_agent: Some(Folder::new("main").unwrap()),
        backup: Some(backup),
        prices,
        budgets: costs::budgets(),
        grace: Some(2),
        secrets: vec![BoundSecret {
            name: "github".to_owned(),
            value: "cmd:pass show github".to_owned(),
            hosts: vec!["api.github.com".parse().unwrap()],
            header: "Authorization: Bearer {}".parse().unwrap(),
            requests: vec!["GET /repos/**".parse().unwrap()],
        }],
        voice: Some(voice::settings()),
        ..Settings::default()
    };
    db.settings.put(txn, &(), &settings)?;
    db.agents.put(txn, &AGENT, &agent("main"))?;
    db.agents.put(txn, &AgentId::new(2), &Agent { archived: Some(at(9)), ..agent("gone") })?;
    let chat = Chat {
        channel: telegram(),
        platform_id: foreign("-100"),
        name: Some("Family".to_owned()),
        group: true,
        unknown_senders: UnknownSenders::RequestApproval,
        denied: None,
        origin: Origin::Runtime,
        created: at(1),
        archived: None,
    };
    db.chats.put(txn, &CHAT, &chat)?;
    let wiring = Wiring {
        engage: Engage::Pattern("^hey".to_owned()),
        senders: SenderScope::Known,
        ignored: Ignored::Accumulate,
        session: SessionMode::PerThread,
        priority: -3,
        context_from: Some(ContextFrom::Anyone),
        origin: Origin::File,
        created: at(2),
    };
    db.wirings.put(txn, &WiringKey { chat: CHAT, agent: AGENT }, &wiring)?;
    db.destinations.put(txn, &DestinationKey { agent: AGENT, name: Text::new("family")? }, &Destination::Chat(CHAT))
}

fn people(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    let person = PersonKey::of(&ada());
    let user = User { id: ada(), name: Some("Ada".to_owned()), origin: Origin::Runtime, created: at(1) };
    db.users.put(txn, &person, &user)?;
    for role in [Role::Owner, Role::AdminOf(AGENT)] {
        let grant = Grant { user: ada(), at: at(2), by: None, origin: Origin::Runtime };
        db.roles.put(txn, &GrantKey { person: person.clone(), role }, &grant)?;
    }
    let membership = Membership { user: ada(), at: at(3), by: Some(ada()), origin: Origin::File };
    let hold_off = RateLimit {
        until: Awake::new(1, 9_000),
        since: at(5),
        again: at(6),
        waits: 1,
        why: "429".to_owned(),
        cause: LimitCause::Limited,
    };
    db.rate_limits.put(txn, &AGENT, &hold_off)?;
    db.fallback_limits.put(txn, &crate::Owned { owner: AGENT, id: 1 }, &hold_off)?;
    db.frozen_agents.put(txn, &AGENT, &Freeze { by: Some(ada()), at: at(7) })?;
    db.members.put(txn, &MemberKey { agent: AGENT, person: person.clone() }, &membership)?;
    db.direct_messages.put(txn, &person, &DirectMessage { address: address(None), resolved: at(4) })
}

fn session(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    let workspace = Workspace {
        path: b"groups/main".to_vec(),
        former_paths: Vec::new(),
        aliases: Vec::new(),
        agent: Some(AGENT),
        witness: None,
        project: None,
        replaced: None,
        current: None,
        created: at(0),
    };
    db.workspaces.put(txn, &workspace_key(), &workspace)?;
    let route = Route::PerThread(CHAT, Some(foreign("7")));
    let session = ChatSession {
        last_number: 23,
        last_incarnation: 2,
        live: Some(2),
        context_version: 3,
        active: at(5),
        ..ChatSession::new(AGENT, SessionName::Default, route, Some(address(Some("7"))), at(4))
    };
    let row = Session::Chat(session.clone());
    db.sessions.put(txn, &SessionKey { workspace: workspace_key(), session: SESSION }, &row)?;
    let chosen = SessionSettings { model: Some("opus".to_owned()), effort: None, verbosity: Some(Verbosity::Verbose) };
    db.session_settings.put(txn, &SESSION, &chosen)?;
    providers::providers(db, txn)?;
    upkeep(db, txn, session.clone())?;
    let incarnation = |phase, stopped_for| Incarnation {
        phase,
        beat: Awake::new(1, 900),
        progress: Awake::new(1, 800),
        tool: Some(ToolUse { name: "Bash".to_owned(), timeout: Some(Millis::minutes(2)) }),
        stopped_for,
        claimed: true,
        stderr_tail: "warning: unused".to_owned(),
        ..Incarnation::new(Awake::new(1, 100), at(5), SpecDigest::new(0))
    };
    let closed = Phase::Closed { exit: Exit::Signal(9), at: at(6) };
    db.incarnations.put(txn, &IncarnationId::new(SESSION, 1), &incarnation(closed, Some(StopReason::ClaimStuck)))?;
    db.incarnations.put(txn, &IncarnationId::new(SESSION, 2), &incarnation(Phase::Running, None))?;
    let stopped = StoppedTurn { by: None, at: at(8), messages: vec![MessageId::new(1)], tell: vec![address(None)] };
    db.stopped_turns.put(txn, &IncarnationId::new(SESSION, 2), &stopped)?;
    Ok(())
}

/// The session for work that belongs to no conversation.
fn upkeep(db: &Tables, txn: &mut Write<'_>, session: ChatSession) -> Result<()> {
    let workspace = workspace_key();
    let number = SessionId::new(2);
    let row = Session::Chat(ChatSession {
        route: Route::AgentShared,
        name: SessionName::Maintenance,
        reply: None,
        last_number: 0,
        last_incarnation: 0,
        live: None,
        ..session
    });
    db.sessions.put(txn, &SessionKey { workspace, session: number }, &row)?;
    Ok(())
}

/// A message that waits for files from its network.
fn fetch(db: &Tables, txn: &mut Write<'_>, mut body: Body) -> Result<()> {
    body.platform_message = None;
    body.attachments.iter_mut().for_each(|file| file.blob = FileBytes::Remote("AgACAgIAAxk".to_owned()));
    db.bodies.put(txn, &BodyId::new(2), &body)?;
    db.fetches.put(txn, &BodyId::new(2), &Fetch { again: Awake::new(1, 60_000), until: Awake::new(1, 3_600_000) })?;
    let (id, mut message) = message(10, MessageState::Pending(Due::At(at(95))), true);
    message.body = BodyId::new(2);
    db.messages.put(txn, &id, &message)?;
    voice::transcripts(db, txn)?;
    voice::speeches(db, txn)
}

fn messages(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    let content = Content {
        text: "hey, what is for dinner?".to_owned(),
        sender: Some(foreign("42")),
        sender_name: Some("Ada".to_owned()),
        raw: json(r#"{"text":"hey, what is for dinner?"}"#),
    };
    let body = Body {
        content,
        kind: MessageKind::Chat,
        said: at(4),
        source: Some(address(Some("7"))),
        platform_message: Some(foreign("9001")),
        sender: Some(ada()),
        attachments: vec![Attachment {
            name: "menu.pdf".to_owned(),
            size: 3,
            mime: Some("application/pdf".to_owned()),
            blob: FileBytes::Stored(blob()),
        }],
    };
    db.bodies.put(txn, &BodyId::new(1), &body)?;
    let files = SessionFiles { files: body.attachments.clone() };
    db.session_files.put(txn, &InboxKey { session: SESSION, seq: 2 }, &files)?;
    fetch(db, txn, body)?;
    let states = [
        (MessageState::Completed { how: Completion::Answered, at: at(6) }, true),
        (MessageState::Pending(Due::Now), true),
        (MessageState::Pending(Due::At(at(90))), true),
        (MessageState::Pending(Due::Retry(Awake::new(1, 5_000))), true),
        (MessageState::Pending(Due::Now), false),
        (MessageState::Claimed { incarnation: 2, since: Awake::new(1, 700) }, true),
        (MessageState::Completed { how: Completion::ContextCapped, at: at(6) }, false),
        (MessageState::Failed { error: "five tries".to_owned(), at: at(7) }, true),
        (MessageState::Dropped { reason: Reason::AgentRemoved, at: at(8) }, true),
    ];
    for (number, (state, trigger)) in (1..).zip(states) {
        let (id, mut message) = message(number, state, trigger);
        // The agent wrote it to itself.
        message.from = (number == 8).then_some(Hop { session: SESSION, count: 1 });
        db.messages.put(txn, &id, &message)?;
    }
    db.backlog.put(txn, &AGENT, &5)?;
    let key = SeenKey::of(&address(None), &foreign("9001"));
    let seen = Seen {
        platform_message: foreign("9001"),
        at: at(4),
        messages: vec![MessageId::new(1)],
        refused: None,
        held: None,
    };
    db.seen_events.put(txn, &key, &seen)?;
    refusals(db, txn)
}

fn refusals(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    let dropped = Drop {
        at: at(3),
        channel: telegram(),
        platform_id: foreign("-100"),
        thread: Some(foreign("42")),
        chat: Some(CHAT),
        agent: None,
        platform_message: None,
        sender: Some(ada()),
        sender_name: Some("Ada".to_owned()),
        reason: Reason::UnknownSenderStrict,
    };
    db.dropped_events.put(txn, &DropId::new(1), &dropped)?;
    let full = Drop { chat: Some(CHAT), agent: Some(AGENT), reason: Reason::Backlog, ..dropped };
    db.dropped_events.put(txn, &DropId::new(2), &full)?;
    db.dropped_for_backlog.put(txn, &AgentChatKey { agent: AGENT, chat: CHAT }, &DropId::new(2))
}

fn outgoing(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    let states = [
        (OutState::Delivered { at: at(7), platform_message: Some(foreign("9002")) }, None),
        (OutState::Attempting { since: Awake::new(1, 800) }, None),
        (OutState::Waiting { until: None, after: None }, None),
        (OutState::Waiting { until: Some(Awake::new(1, 900)), after: Some("503".to_owned()) }, Some("7")),
        (OutState::Later(at(70)), None),
        (OutState::Failed { error: "gone".to_owned(), at: at(8) }, None),
        (OutState::Refused { error: "not yours".to_owned(), at: at(8) }, None),
        (OutState::Abandoned { at: at(8) }, None),
    ];
    for (number, (state, thread)) in (1..).zip(states) {
        let (id, outbound) = outbound(number, state, thread);
        db.outbound.put(txn, &id, &outbound)?;
    }
    let console = Address {
        channel: ChannelName::new("console").unwrap(),
        platform_id: foreign("main/telegram:42"),
        thread: None,
    };
    let notice = outbound(9, OutState::Abandoned { at: at(9) }, None).1;
    let notice = Outbound { author: Author::Hearth, to: Some(console), ..notice };
    db.outbound.put(txn, &OutboundId::new(9), &notice)?;
    let carried = OutState::Carried { at: at(8), message: Some(MessageId::new(8)) };
    let (id, row) = outbound(10, carried, None);
    db.outbound.put(txn, &id, &Outbound { to: None, in_reply_to: None, ..row })
}

fn later(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    asked::fill(db, txn)?;
    let task = Task {
        agent: AGENT,
        home: TaskHome::Session(SESSION),
        prompt: "Water the plants".to_owned(),
        script: Some("echo '{\"wakeAgent\":true}'".to_owned()),
        reply: Some(address(None)),
        recurrence: Recurrence::Cron("0 9 * * 1".to_owned()),
        anchor: at(6),
        missed: Missed::RunAll(3),
        overlap: Overlap::Queue,
        state: TaskState::Active,
        next: Some(at(82)),
        running: None,
        queued: None,
        failures: 1,
        origin: TaskOrigin::Agent(SESSION),
        created: at(5),
        changed: at(5),
    };
    let paused = Task { recurrence: Recurrence::Every(Millis::minutes(90)), state: TaskState::Paused, ..task.clone() };
    for (number, row) in [(1, &task), (2, &paused)] {
        db.tasks.put(txn, &TaskId::new(number), row)?;
    }
    let fire = |outcome| Fire { at: at(7), zone: "Europe/Berlin".to_owned(), outcome };
    let skipped = FireOutcome::Skipped { reason: SkipReason::Missed, until: at(4), count: Some(2) };
    db.task_runs.put(txn, &OccurrenceId { task: TaskId::new(1), at: at(3) }, &fire(skipped))?;
    db.task_runs.put(
        txn,
        &OccurrenceId { task: TaskId::new(1), at: at(6) },
        &fire(FireOutcome::Failed(MessageId::new(1), "no model".to_owned())),
    )?;
    let thread = ThreadKey::of(&address(Some("8")));
    let mute = Mute { address: address(Some("8")), note: json("null"), since: at(6) };
    db.mutes.put(txn, &AgentThreadKey { agent: AGENT, thread }, &mute)?;
    asked::journal(db, txn)
}

pub(super) fn counters(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    db.retention_cursors.put(txn, &Text::new("bodies")?, &Number(0))?;
    let mut set = |counter, number| db.counters.put(txn, &Text::from(counter), &Number(number));
    set(AgentId::COUNTER, 2)?;
    set(MessageId::COUNTER, 11)?;
    set(OutboundId::COUNTER, 10)?;
    set(ApprovalId::COUNTER, 8)?;
    set(ToolGrantId::COUNTER, 3)?;
    set(TaskId::COUNTER, 2)?;
    set(SessionId::COUNTER, 5)?;
    set(SkipId::COUNTER, 7)?;
    set(ChangeId::COUNTER, 3)?;
    set(BodyId::COUNTER, 2)?;
    set(ConnectionId::COUNTER, 2)?;
    set(DropId::COUNTER, 2)?;
    set(JournalId::COUNTER, 2)?;
    set(ChatId::COUNTER, 1)?;
    set(QuestionId::COUNTER, 1)
}
