//! The data model: every table of the store, its key, its value, and one sentence about it.
//!
//! `table` rows are records in versioned, checksummed envelopes. `index` rows hold plain keys. An index is a function of
//! one record of the table that it is declared in: every write of the record updates it, and `check` verifies it.
//! A `manual` index cannot be derived from one record, for the reason given with it. A write to a table with a `basis`
//! invalidates the values that a transaction has cached of it. The list generates the typed handles, the dump and the
//! checker.

use super::indexed::{self, Derive, Indexed, Manual, Rederive, Visit, VisitIndexed};
use super::key::{BadKey, KeyPart};
use super::keys::*;
use super::list_keys::{Owned, Timed};
use super::meta::{Meta, Number};
use super::recall::keys::Packed;
use super::table::{Index, Rows, Table};
use super::tables::{About, Kind, rewritten};
use super::text_key::{Digest, ForeignKey, RouteKey, Text};
use super::untyped::Untyped;
use super::write::{Basis, Write};
use super::{bytes::ByteTable, derived, error::Error};
use crate::model::approval::{Approval, ApprovalState, Held, HostReply, Question, QuestionState, Waitlist};
use crate::model::budget::{BudgetState, GraceUsed, Reservation};
use crate::model::console::{ConsoleSession, ConsoleSettings};
use crate::model::delivery::{Author, OutState, Outbound};
use crate::model::entity::{Agent, Chat, Destination, DirectMessage, Grant, Membership, User, Wiring};
use crate::model::group::{PendingResponse, SeenId, StateField, StateFile, StatePart};
use crate::model::halt::{Freeze, StoppedTurn};
use crate::model::host_grant::{HostFlood, HostGrant};
use crate::model::id::*;
use crate::model::incarnation::{Incarnation, IncarnationId, Phase};
use crate::model::message::{Body, Drop, Fetch, Message, Seen, SessionFiles, Waits};
use crate::model::record::{ImportedFile, Lease, SessionRecord};
use crate::model::session::{Revision, Session, SessionName, SessionSettings};
use crate::model::skip::{SkipFile, SkipState, SkipSummary};
use crate::model::spend::{Spend, SpendTotal};
use crate::model::task::{Fire, Task};
use crate::model::thread::{Mute, Sticky};
use crate::model::voice::{Speech, Transcripts};
use crate::model::workspace::{Workspace, WorkspaceEvent, WorkspaceKey};
use crate::model::{
    Awake, card::PromptSubject, channel::BridgeState, channel::ChannelInstance, configure::Settings,
    connection::Connection, journal::JournalEntry, rate_limit::RateLimit, recall::SaidId,
    session_providers::SessionProviders, take_in::PartialImport, tool::ToolGrant,
};

tables! {
    /// Identity of the store: format, install id, run counter. One row.
    table meta: () => Meta;
    /// Settings of the whole installation. One row, or none.
    table settings basis Settings: () => Settings;
    /// Last number allocated, by the prefix of its ids.
    table counters: Text => Number;
    /// Progress of retention, by kind of data.
    table retention_cursors as "swept": Text => Number;

    /// Channel instances, by name.
    table channels basis Decisions: ForeignKey => ChannelInstance;
    /// What bridges can do and how far they have read, by channel.
    table bridges: ForeignKey => BridgeState;
    /// Agent groups.
    table agents basis Decisions: AgentId => Agent {
        /// Agents that are not archived, by folder.
        index agents_by_folder: Text => AgentId
            = |id, agent| agent.archived.is_none().then(|| (Text::from(&agent.folder), *id));
    }
    /// Agents whose provider limits requests.
    table rate_limits as "hold_offs": AgentId => RateLimit;
    /// The same of their fallbacks, by agent and place in its list, from 1.
    table fallback_limits: Owned<AgentId, u32> => RateLimit;
    /// Agents that get no work until a person unfreezes them.
    table frozen_agents: AgentId => Freeze;
    /// Chats.
    table chats basis Decisions: ChatId => Chat {
        /// Chats that are not archived, by channel and platform id.
        index chats_by_address basis Decisions: ChatKey => ChatId
            = |id, chat| chat.archived.is_none().then(|| (ChatKey::of(&chat.channel, &chat.platform_id), *id));
    }
    /// Agents wired to a chat.
    table wirings basis Decisions: WiringKey => Wiring {
        /// Chats an agent is wired to.
        index wirings_by_agent: Owned<AgentId, ChatId> => ()
            = |key, _| Some((Owned { owner: key.agent, id: key.chat }, ()));
    }
    /// People, by channel and the adapter's id.
    table users: PersonKey => User;
    /// Roles, by person.
    table roles basis Decisions: GrantKey => Grant {
        /// Holders of a role in the order in which it was granted.
        index roles_by_grant: RoleHolderKey => ()
            = |GrantKey { person, role }, grant| {
 Some((RoleHolderKey { role: *role, at: grant.at, person: person.clone() }, ()))
 };
    }
    /// People who may talk to an agent.
    table members basis Decisions: MemberKey => Membership;
    /// Direct message chats, by person.
    table direct_messages: PersonKey => DirectMessage;
    /// Destinations of agents, by the agent's name for them.
    table destinations: DestinationKey => Destination;

    /// Workspaces.
    table workspaces: WorkspaceKey => Workspace {
        /// The workspace that is an agent group's folder.
        index workspaces_by_agent: AgentId => WorkspaceKey
            = |key, workspace| workspace.agent.map(|agent| (agent, *key));
        /// Workspaces at a path, by the path's digest, the newest one last.
        index workspaces_by_path: WorkspaceDigestKey => ()
            = |key, row| Some((WorkspaceDigestKey { digest: Digest::of(&row.path), workspace: *key }, ()));
        /// Workspaces by the digest of their directory's identity.
        index workspaces_by_witness: WorkspaceDigestKey => ()
            = |key, row| {
                let digest = Digest::of_witness(row.witness.as_ref()?);
                Some((WorkspaceDigestKey { digest, workspace: *key }, ()))
            };
    }
    /// What happened to a workspace, in order.
    table workspace_events: WorkspaceEventKey => WorkspaceEvent;
    /// Sessions, by the workspace they live in.
    table sessions basis Sessions: SessionKey => Session {
        /// The workspace a session lives in.
        index sessions_by_id: SessionId => WorkspaceKey
            = |key, _| Some((key.session, key.workspace));
        /// Sessions of a workspace that are not in the trash, the most recently changed last.
        index sessions_by_update as "recency": RecencyKey => ()
            = |key, session| (!session.is_trashed()).then(|| (RecencyKey::of(key, session), ()));
        /// Those of them that have messages, in the same order.
        index sessions_by_last_message as "spoken": RecencyKey => ()
            = |key, session| {
                let spoken = session.messages() > 0 && !session.is_trashed();
                spoken.then(|| (RecencyKey::of(key, session), ()))
            };
        /// Workspace sessions that are not in the trash, by workspace and the id that people use.
        index session_labels: LabelKey => SessionId
            = |key, session| {
                let session = session.as_workspace().filter(|session| session.deleted.is_none())?;
                // A label is never longer than a key's text.
                let label = Text::new(session.label.as_str()).ok()?;
                Some((LabelKey { workspace: key.workspace, label }, key.session))
            };
        /// Workspace sessions in the trash, by the time of deletion.
        index sessions_by_deletion as "trash": Timed<SessionId> => ()
            = |key, session| Some((Timed { at: session.as_workspace()?.deleted?, id: key.session }, ()));
        /// Sessions that begin with the records of another one: parent, child.
        index sessions_by_base: BaseKey => ()
            = |key, session| {
                let parent = session.as_workspace()?.base?.session;
                Some((BaseKey { parent, child: key.session }, ()))
            };
        /// The active session for a route of an agent.
        index sessions_by_route: AgentRouteKey => SessionId
            = |key, session| {
                let session = session.as_active(SessionName::Default)?;
                Some((AgentRouteKey { agent: session.agent, route: RouteKey::from(&session.route) }, key.session))
            };
        /// The same by agent, the newest one last.
        index sessions_by_agent: Owned<AgentId, SessionId> => ()
            = |key, session| Some((Owned { owner: session.as_active(SessionName::Default)?.agent, id: key.session }, ()));
        /// The active session of an agent for work that belongs to no conversation.
        index maintenance_sessions: AgentId => SessionId
            = |key, session| Some((session.as_active(SessionName::Maintenance)?.agent, key.session));
    }
    /// What people chose for sessions of agents, instead of their agents' settings.
    table session_settings: SessionId => SessionSettings;
    /// Which provider drives a session, and what the agent's other providers missed; only of sessions that had several, or
    /// were reset.
    table session_providers: SessionId => SessionProviders;
    /// Records of workspace sessions, by session, revision and number.
    table records: RecordKey => SessionRecord;
    /// Earlier revisions of workspace sessions.
    table revisions: RevisionKey => Revision {
        /// Those that begin with the records of another session: parent, child, revision.
        index revisions_by_base: RevisionBaseKey => ()
            = |key, row| Some((RevisionBaseKey { parent: row.base?.session, child: *key }, ()));
    }
    /// Leases of workspace sessions.
    table leases: SessionId => Lease;
    /// Files that sessions were imported from, by digests of the path of the session's own file and of the content.
    table imported_files as "imported": ImportKey => ImportedFile;
    /// Partly imported sessions, by the digest of the path of the session's own file.
    table partial_imports as "intakes": Digest => PartialImport;

    /// Bodies of messages, one per event.
    table bodies: BodyId => Body {
        /// Bodies that need a file of the store of files, by its digest.
        index bodies_by_file as "blobs": Owned<Text, BodyId> => ()
            = |id, body| derived::blobs(*id, body);
    }
    /// Bodies whose files are being fetched from their network. Their messages wait for that.
    table fetches: BodyId => Fetch;
    /// Transcripts of bodies' voice messages, also those that are being made.
    table transcripts: BodyId => Transcripts;
    /// Messages of sessions.
    table messages: MessageId => Message {
        /// Messages by body, even if the body has been removed by retention.
        index messages_by_body: Owned<BodyId, MessageId> => ()
            = |id, message| Some((Owned { owner: message.body, id: *id }, ()));
        /// Messages of a session in order.
        index messages_by_session: InboxKey => MessageId
            = |id, message| Some((InboxKey::of(message), *id));
        /// Pending triggering messages that are ready for their agent.
        index ready_messages as "ready": InboxKey => MessageId
            = |id, message| (message.waits() == Some(Waits::Agent)).then_some((InboxKey::of(message), *id));
        /// Pending triggering messages that wait for a wall-clock time.
        index scheduled_messages as "later": Timed<MessageId> => ()
            = |id, message| match message.waits() {
                Some(Waits::Time(at)) => Some((Timed { at, id: *id }, ())),
                _ => None,
            };
        /// Pending triggering messages that wait out a backoff.
        index messages_in_backoff as "retries": Timed<MessageId, Awake> => ()
            = |id, message| match message.waits() {
                Some(Waits::Backoff(until)) => Some((Timed { at: until, id: *id }, ())),
                _ => None,
            };
        /// The same by session.
        index session_backoffs: InboxKey => MessageId
            = |id, message| matches!(message.waits(), Some(Waits::Backoff(_))).then_some((InboxKey::of(message), *id));
        /// Pending triggering messages that a budget has no room for.
        index budget_waits: InboxKey => MessageId
            = |id, message| message.waits_for_budget().then_some((InboxKey::of(message), *id));
        /// Pending messages that do not trigger.
        index context_messages as "context": InboxKey => MessageId
            = |id, message| (message.waits() == Some(Waits::Trigger)).then_some((InboxKey::of(message), *id));
        /// Processing acks: messages an incarnation works on.
        index claimed_messages as "claims" basis Runs: InboxKey => MessageId
            = |id, message| (message.waits() == Some(Waits::Turn)).then_some((InboxKey::of(message), *id));
    }
    /// Files of ended messages that stay readable in their session's mailbox.
    table session_files: InboxKey => SessionFiles;
    /// Number of pending or claimed triggering messages, by agent. No row means zero.
    // It counts rows.
    manual backlog: AgentId => u64;
    /// Platform messages seen so far, by channel, chat and platform id. Used to drop duplicates.
    table seen_events as "seen": SeenKey => Seen {
        /// The same by time, for retention.
        index seen_events_by_time as "seen_by_time": Timed<SeenKey> => ()
            = |key, seen| Some((Timed { at: seen.at, id: key.clone() }, ()));
    }
    /// Dropped inbound events.
    table dropped_events as "dropped": DropId => Drop;
    /// The newest of them that was dropped because of an agent's backlog, by agent and chat.
    // It depends on several rows: only the newest one counts.
    manual dropped_for_backlog: AgentChatKey => DropId;

    /// Incarnations: runs of agents' processes.
    table incarnations basis Runs: IncarnationId => Incarnation {
        /// Incarnations that are not closed; at most one per session.
        index live_incarnations as "live" basis Runs: SessionId => u32
            = |id, incarnation| {
                let live = !matches!(incarnation.phase, Phase::Closed { .. });
                live.then_some((id.session, id.number))
            };
    }

    /// Turns that people stopped, of incarnations that are not closed.
    table stopped_turns: IncarnationId => StoppedTurn;
    /// Outgoing messages of agents and Hearth.
    table outbound: OutboundId => Outbound {
        /// The same by session and the agent's id. A repeated id changes nothing.
        index outbound_by_wire: WireKey => OutboundId
            = |id, outbound| match &outbound.author {
                Author::Agent { session, wire_id, .. } => Some((WireKey { session: *session, id: Text::new(wire_id.clone()).ok()? }, *id)),
                Author::Hearth => None,
            };
        /// The same by session and the agent's number.
        index outbound_by_number: SentKey => OutboundId
            = |id, outbound| match (&outbound.author, &outbound.state) {
                // Messages that are never sent have no number to refer to.
                (_, OutState::Refused { .. } | OutState::Abandoned { .. }) | (Author::Hearth, _) => None,
                (Author::Agent { session, number, .. }, _) => {
                    Some((SentKey { session: *session, number: *number }, *id))
                }
            };
        /// The same by the message that it is about.
        index outbound_by_message: Owned<MessageId, OutboundId> => ()
            = |id, outbound| outbound.in_reply_to.map(|message| (Owned { owner: message, id: *id }, ()));
        /// Those of the console, by chat.
        index console_outbound: Owned<ForeignKey, OutboundId> => ()
            = |id, outbound| derived::console_chat(outbound).map(|chat| (Owned { owner: chat, id: *id }, ()));
        /// Outgoing queues: undelivered messages in order, by channel, chat and thread. Approval cards that were not shown
        /// come last.
        index outgoing_queues as "lanes": QueueKey => ()
            = |id, outbound| derived::lane(*id, outbound).map(|key| (key, ()));
        /// First messages of outgoing queues, by the time of their next action.
        index queue_heads as "lane_heads": Timed<OutboundId, Awake> => ()
            = |id, outbound| derived::head_due(outbound).map(|due| (Timed { at: due, id: *id }, ()));
        /// Scheduled messages that have not entered an outgoing queue yet.
        index scheduled_outbound as "outbound_later": Timed<OutboundId> => ()
            = |id, outbound| match outbound.state {
                OutState::Later(time) => Some((Timed { at: time, id: *id }, ())),
                _ => None,
            };
    }
    /// Spoken forms of agents' messages, by the message.
    table speeches: OutboundId => Speech {
        /// Those whose audio is being made.
        index speeches_waiting: OutboundId => ()
            = |id, speech| matches!(speech, Speech::Waiting { .. }).then_some((*id, ()));
        /// The spoken message, by the message with the audio.
        index speeches_by_message: OutboundId => OutboundId
            = |id, speech| match speech {
                Speech::Sent { message, .. } => Some((*message, *id)),
                Speech::Waiting { .. } | Speech::Failed { .. } => None,
            };
    }

    /// Approvals, open and closed.
    table approvals: ApprovalId => Approval {
        /// Open ones by the time of their next action.
        index approvals_due: Timed<ApprovalId> => ()
            = |id, row| Some((Timed { at: row.due, id: *id }, ())).filter(|_| row.state.is_open());
        /// Open ones in the order in which they were asked.
        index approvals_open: ApprovalId => ()
            = |id, row| row.state.is_open().then_some((*id, ()));
        /// The open one about a person in a chat.
        index approvals_by_sender: SenderKey => ApprovalId
            = |id, row| derived::sender_asked_about(row).map(|key| (key, *id));
        /// The open one about a chat without a wired agent.
        index approvals_by_chat: ChatId => ApprovalId
            = |id, row| Some((derived::unwired_chat(row)?, *id)).filter(|_| row.state.is_open());
        /// All approvals about a chat without a wired agent, open or not, the newest last.
        index approvals_of_chat: Owned<ChatId, ApprovalId> => ()
            = |id, row| Some((Owned { owner: derived::unwired_chat(row)?, id: *id }, ()));
        /// Open ones about a person, in all chats.
        index approvals_by_person: PersonApprovalKey => ()
            = |id, row| {
 let person = derived::sender_asked_about(row)?.sender;
 Some((PersonApprovalKey { person, approval: *id }, ()))
 };
        /// The open one about a budget, by its name.
        index approvals_by_budget: Text => ApprovalId
            = |id, row| Some((derived::asked_budget(row)?, *id));
        /// The open one about a host and an agent.
        index approvals_by_host: HostKey => ApprovalId
            = |id, row| derived::asked_hosts(*id, row);
        /// All approvals about hosts, open or not, by agent, the newest last.
        index host_questions: Owned<AgentId, ApprovalId> => ()
            = |id, row| Some((Owned { owner: derived::wanting_agent(row)?, id: *id }, ()));
        /// Open ones that a session asked for.
        index approvals_by_session: Owned<SessionId, ApprovalId> => ()
            = |id, row| Some((Owned { owner: derived::asking_session(row)?, id: *id }, ()));
        /// Those about tool calls of a session, open or not, the newest last.
        index tool_requests: Owned<SessionId, ApprovalId> => ()
            = |id, row| Some((Owned { owner: derived::tool_session(row)?, id: *id }, ()));
        /// Open ones by approver: those being asked now first, then the waiting ones.
        index approvals_by_decider: ApproverKey => ()
            = |id, row| derived::approver(*id, row);
        /// The one for which an approver still has to name the new agent.
        index approvals_naming: PersonKey => ApprovalId
            = |id, row| match &row.state {
                ApprovalState::Naming { by, .. } => Some((PersonKey::of(by), *id)),
                _ => None,
            };
    }
    /// Tool calls that people allowed in advance.
    table tool_grants: ToolGrantId => ToolGrant {
        /// By agent.
        index tool_grants_by_agent: Owned<AgentId, ToolGrantId> => ()
            = |id, row| Some((Owned { owner: row.agent, id: *id }, ()));
    }
    /// Numbers of waiting approvals and the digests about them, by approver.
    table waitlists: PersonKey => Waitlist;
    /// Messages held for a decision, in order.
    table held_messages as "held": HeldKey => Held;
    /// The same by message, with the bytes of its files.
    // It has the bytes of another table's row.
    manual held_messages_by_body as "held_by_body": Owned<BodyId, ApprovalId> => u64;
    /// Bytes of files with held messages, by sender. No row means zero.
    // It is a sum over rows.
    manual held_bytes_by_person: HolderKey => u64;
    /// The same of all people together. One row, or none.
    // It is a sum over rows.
    manual held_bytes: () => u64;
    /// Questions of agents to people.
    table questions: QuestionId => Question {
        /// Open ones by the time at which they expire.
        index questions_due: Timed<QuestionId> => ()
            = |id, question| (question.state == QuestionState::Open).then_some((Timed { at: question.expires, id: *id }, ()));
    }
    /// Open ones by agent.
    // The agent is in the row of the session.
    manual questions_by_agent: Owned<AgentId, QuestionId> => ();
    /// Open approvals and questions that can be answered at an address by a number or a name, by channel and chat.
    // It depends on the message and on what the message asks about.
    manual open_prompts as "asked": PromptKey => PromptSubject;
    /// Replies to requests of live incarnations.
    table replies: ReplyKey => HostReply;
    /// Scheduled tasks.
    table tasks: TaskId => Task {
        /// Future occurrences; one per active series.
        index tasks_due: Timed<TaskId> => ()
            = |id, task| task.due().map(|due| (Timed { at: due, id: *id }, ()));
        /// Tasks that are active or paused, by agent.
        index tasks_by_agent: Owned<AgentId, TaskId> => ()
            = |id, task| task.state.is_open().then_some((Owned { owner: task.agent, id: *id }, ()));
    }
    /// Outcomes of occurrences, by series and time.
    table task_runs as "fires": OccurrenceId => Fire;
    /// Skips that agents' skills reported.
    table skips: SkipId => SkipSummary {
        /// Those that people have not been told of yet, by agent.
        index skips_unsurfaced: Owned<AgentId, SkipId> => ()
            = |id, skip| (skip.state == SkipState::Waiting).then_some((Owned { owner: skip.agent, id: *id }, ()));
        /// Used to ignore repeats of a skip: by agent, then skill and digest of the file.
        index skips_by_file: SkillKey => ()
            = |id, skip| {
                // The name of a skill is checked when its file is read. It fits.
                let skill = Text::new(format!("{}/{}", skip.skill, skip.report.digest.as_str())).ok()?;
                Some((SkillKey { agent: skip.agent, skill, skip: *id }, ()))
            };
        /// Skips of a skill in the order of import.
        index skips_by_skill: SkillKey => ()
            = |id, skip| {
                let skill = Text::new(skip.skill.clone()).ok()?;
                Some((SkillKey { agent: skip.agent, skill, skip: *id }, ()))
            };
        /// Skips whose files have to be removed, by agent.
        index skips_left: Owned<AgentId, SkipId> => ()
            = |id, skip| (skip.file == SkipFile::Left).then_some((Owned { owner: skip.agent, id: *id }, ()));
        /// Skips that people are being told of, by message.
        index skips_sent: OutboundId => SkipId
            = |id, skip| match skip.state {
                SkipState::Sending(outbound, _) => Some((outbound, *id)),
                _ => None,
            };
    }
    /// Threads that an agent follows, by agent, channel, chat and thread.
    table thread_follows as "sticky": AgentThreadKey => Sticky {
        /// The same by the time at which following ends.
        index thread_follows_by_expiry as "sticky_by_time": Timed<AgentThreadKey> => ()
            = |key, sticky| Some((Timed { at: sticky.until, id: key.clone() }, ()));
    }
    /// Muted threads, by agent, channel, chat and thread.
    table mutes: AgentThreadKey => Mute;
    /// Agent groups' session-state files.
    table state_files: AgentId => StateFile {
        /// Those that have to be written.
        index state_files_dirty: AgentId => ()
            = |agent, file| file.dirty.then_some((*agent, ()));
    }
    /// Their fields.
    table state_fields: StateFieldKey => StateField {
        /// Threads that their session states mute, by the name that they have there.
        index state_mutes: StateMuteKey => ()
            = |key, field| {
                (key.part == StatePart::Muted && field.mutes()).then(|| (StateMuteKey { agent: key.agent, name: key.name.clone() }, ()))
            };
    }
    /// Ids that skills of an agent have seen.
    table seen_ids: SeenIdKey => SeenId {
        /// The same in order.
        index seen_ids_by_position: SeenPositionKey => ForeignKey
            = |key, seen| Some((SeenPositionKey { agent: key.agent, position: seen.position }, key.id.clone()));
    }
    /// Messages that an agent group has begun to answer.
    table pending_responses: PendingResponseKey => PendingResponse {
        /// The same by the time at which they count as stale.
        index pending_responses_due: Timed<PendingResponseKey> => ()
            = |key, row| Some((Timed { at: row.due, id: key.clone() }, ()));
    }

    /// The ledger of costs: an entry for each turn of an agent, and for each call that the gateway counted.
    table spend basis Spend: SpendKey => Spend;
    /// Totals of costs per day. They stay when retention removes entries of the ledger.
    table spend_totals basis Totals: SpendTotalKey => SpendTotal;
    /// What messages under way are expected to use, while there are budgets.
    table reservations basis Reservations: InboxKey => Reservation;
    /// Budgets in their present period, by name.
    table budget_states basis BudgetStates: Text => BudgetState;
    /// Messages of people that passed although a budget was spent.
    table grace_used: PersonKey => GraceUsed;
    /// Decisions of people about hosts that agents want to reach.
    table host_grants: HostKey => HostGrant {
        /// Those that end, by the time of the next end.
        index host_grants_due: Timed<HostKey> => ()
            = |key, grant| Some((Timed { at: grant.decision.until()?, id: key.clone() }, ()));
    }
    /// When people were last told that an agent wants more hosts than they are asked about.
    table host_floods: AgentId => HostFlood;
    /// Connections of agents, those of the same turn and host together.
    table connections: ConnectionId => Connection {
        /// The same by message.
        index connections_by_message: Owned<MessageId, ConnectionId> => ()
            = |id, row| row.message.map(|message| (Owned { owner: message, id: *id }, ()));
        /// The same by session.
        index connections_by_session: Owned<SessionId, ConnectionId> => ()
            = |id, row| Some((Owned { owner: row.session, id: *id }, ()));
    }
    /// What was said last and is in no segment yet, for searches: its time and its words.
    // They have words of many rows of several tables, like the next three.
    manual recall_new: RecallKey => Packed;
    /// Segments: many texts of the same chat and agent, with their words sorted.
    manual recall_segments: RecallSegmentKey => Packed;
    /// The texts of segments, with their times and lengths.
    manual recall_texts: Owned<RecallSegmentKey, SaidId> => Packed;
    /// The terms of segments, with the texts that contain them.
    manual recall_terms: RecallTermKey => Packed;
    /// Whether and where the console listens. One row, or none.
    table console: () => ConsoleSettings;
    /// Browsers in which people are signed in to the console.
    table console_sessions: ConsoleSessionId => ConsoleSession {
        /// The same by the digest of the newest token.
        index console_tokens: Digest => ConsoleSessionId
            = |id, row| Some((Digest::known(row.token), *id));
        /// The same by the digest of the token before it.
        index console_replaced_tokens: Digest => ConsoleSessionId
            = |id, row| Some((Digest::known(row.replaced.as_ref()?.token), *id));
    }
    /// Journal entries, for `why`.
    table journal: JournalId => JournalEntry {
        /// The same by message, without tool calls.
        index journal_by_message: Owned<MessageId, JournalId> => ()
            = |id, entry| derived::of_message(*id, entry.message.filter(|_| !entry.event.is_tool_call()));
        /// Tool calls by message.
        index tool_calls_by_message: Owned<MessageId, JournalId> => ()
            = |id, entry| derived::of_message(*id, entry.message.filter(|_| entry.event.is_tool_call()));
        /// The same by session.
        index journal_by_session: Owned<SessionId, JournalId> => ()
            = |id, entry| entry.session.map(|session| (Owned { owner: session, id: *id }, ()));
    }
}
