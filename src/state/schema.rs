//! The whole data model: every table of the store, its key, its value, one sentence each.
//!
//! `table` rows are records in versioned, checksummed envelopes; `index` rows are derived from records, hold plain keys
//! and are proved against their records by `check`. The list makes the typed handles, the dump and the checker.

use super::bytes::ByteTable;
use super::key::{BadKey, KeyPart};
use super::meta::{Meta, Number};
use super::table::{Index, Rows, Table};
use super::tables::{About, Kind};
use super::text_key::{Digest, ForeignKey, RouteKey, Text};
use super::untyped::Untyped;
use crate::model::approval::{Approval, Held, HostReply, Question};
use crate::model::card::Matter;
use crate::model::channel::ChannelInstance;
use crate::model::configure::Settings;
use crate::model::delivery::Outbound;
use crate::model::entity::{Agent, Chat, Destination, DirectMessage, Grant, Membership, Role, User, Wiring};
use crate::model::group::{PendingResponse, SeenId, StateField, StateFile, StatePart};
use crate::model::hold_off::HoldOff;
use crate::model::id::{
    AgentId, ApprovalId, BodyId, ChatId, DropId, JournalId, MessageId, OutboundId, QuestionId, SessionId, SkipId,
    TaskId,
};
use crate::model::incarnation::Incarnation;
use crate::model::journal::JournalEntry;
use crate::model::message::{Body, Drop, Message, Seen};
use crate::model::record::{ImportedFile, Lease, SessionRecord};
use crate::model::session::{Revision, Session};
use crate::model::skip::SkipSummary;
use crate::model::take_in::Intake;
use crate::model::task::{Fire, Task};
use crate::model::thread::{Mute, Sticky};
use crate::model::workspace::{Discriminator, Fingerprint, Workspace, WorkspaceEvent};
use crate::model::{Awake, Timestamp};

tables! {
    /// Identity of the store: format, install id, run counter. One row.
    table meta: () => Meta;
    /// Settings of the whole installation. One row, or none.
    table settings: () => Settings;
    /// Last number given out, by the prefix of the ids it is for.
    table counters: Text => Number;
    /// How far retention has come, by what it looks at.
    table swept: Text => Number;

    /// Channel instances, by name.
    table channels: ForeignKey => ChannelInstance;
    /// Agent groups.
    table agents: AgentId => Agent;
    /// Agents whose provider wants less work.
    table hold_offs: AgentId => HoldOff;
    /// Agents that are not archived, by folder.
    index agents_by_folder: Text => AgentId;
    /// Chats.
    table chats: ChatId => Chat;
    /// Chats that are not archived, by channel and platform id.
    index chats_by_address: (ForeignKey, ForeignKey) => ChatId;
    /// Who listens in a chat.
    table wirings: (ChatId, AgentId) => Wiring;
    /// Where an agent listens.
    index wirings_by_agent: (AgentId, ChatId) => ();
    /// People, by channel and the adapter's id.
    table users: (ForeignKey, ForeignKey) => User;
    /// Roles, by person.
    table roles: (ForeignKey, ForeignKey, Role) => Grant;
    /// Holders of a role in the order in which it was granted.
    index roles_by_grant: (Role, Timestamp, ForeignKey, ForeignKey) => ();
    /// People who may talk to an agent.
    table members: (AgentId, ForeignKey, ForeignKey) => Membership;
    /// Where a person is reached directly, by person.
    table direct_messages: (ForeignKey, ForeignKey) => DirectMessage;
    /// Where an agent may write, by the name it uses.
    table destinations: (AgentId, Text) => Destination;

    /// Directories with sessions.
    table workspaces: (Fingerprint, Discriminator) => Workspace;
    /// The workspace that is an agent group's folder.
    index workspaces_by_agent: AgentId => (Fingerprint, Discriminator);
    /// Workspaces at a path, by the path's digest, the newest one last.
    index workspaces_by_path: (Digest, Fingerprint, Discriminator) => ();
    /// Workspaces that look like a directory, by the witness's digest.
    index workspaces_by_witness: (Digest, Fingerprint, Discriminator) => ();
    /// What happened to a workspace, in order.
    table workspace_events: (Fingerprint, Discriminator, u64) => WorkspaceEvent;
    /// Sessions, by the workspace they live in.
    table sessions: (Fingerprint, Discriminator, SessionId) => Session;
    /// The workspace a session lives in.
    index sessions_by_id: SessionId => (Fingerprint, Discriminator);
    /// Sessions of a workspace that are not in the trash, the one that changed last at the end.
    index recency: (Fingerprint, Discriminator, (Timestamp, u64), SessionId) => ();
    /// Those of them in which something was said, in the same order.
    index spoken: (Fingerprint, Discriminator, (Timestamp, u64), SessionId) => ();
    /// Workspace sessions that are not in the trash, by workspace and the id that people use.
    index session_labels: (Fingerprint, Discriminator, Text) => SessionId;
    /// Workspace sessions in the trash, by the time since when.
    index trash: (Timestamp, SessionId) => ();
    /// Records of workspace sessions, by session, revision and number.
    table records: (SessionId, u32, u64) => SessionRecord;
    /// Sessions that begin with the records of another one: parent, child.
    index sessions_by_base: (SessionId, SessionId) => ();
    /// Earlier revisions of workspace sessions.
    table revisions: (SessionId, u32) => Revision;
    /// Those that begin with the records of another session: parent, child, revision.
    index revisions_by_base: (SessionId, SessionId, u32) => ();
    /// Who works on a workspace session.
    table leases: SessionId => Lease;
    /// Files that sessions were taken in from, by digests of the path of the session's own file and of the content.
    table imported: (Digest, Digest) => ImportedFile;
    /// Sessions of which only some pieces were taken in, by the digest of the path of the session's own file.
    table intakes: Digest => Intake;
    /// The active session for a route of an agent.
    index sessions_by_route: (AgentId, RouteKey) => SessionId;
    /// The same by agent, the newest one last.
    index sessions_by_agent: (AgentId, SessionId) => ();
    /// The active session of an agent for work that belongs to no conversation.
    index maintenance_sessions: AgentId => SessionId;

    /// What messages say, once per event.
    table bodies: BodyId => Body;
    /// Bodies that need a file of the store of files, by its digest.
    index blobs: (Text, BodyId) => ();
    /// Messages of sessions.
    table messages: MessageId => Message;
    /// Messages by what they say, also when that is not kept any more.
    index messages_by_body: (BodyId, MessageId) => ();
    /// Messages of a session in order.
    index messages_by_session: (SessionId, u64) => MessageId;
    /// Pending triggering messages that may go to their agent now.
    index ready: (SessionId, u64) => MessageId;
    /// Pending triggering messages that wait for a time of the wall clock.
    index later: (Timestamp, MessageId) => ();
    /// Pending triggering messages that wait out a backoff.
    index retries: (Awake, MessageId) => ();
    /// Pending messages that do not trigger.
    index context: (SessionId, u64) => MessageId;
    /// Processing acks: messages an incarnation works on.
    index claims: (SessionId, u64) => MessageId;
    /// How many triggering messages are pending or claimed, by agent; no row is zero.
    index backlog: AgentId => u64;
    /// Platform messages that were taken in, by channel, chat and platform id: the same one twice changes nothing.
    table seen: (ForeignKey, ForeignKey, ForeignKey) => Seen;
    /// The same by time, for retention.
    index seen_by_time: (Timestamp, ForeignKey, ForeignKey, ForeignKey) => ();
    /// Refused inbound events.
    table dropped: DropId => Drop;

    /// Runs of agents' processes.
    table incarnations: (SessionId, u32) => Incarnation;
    /// Incarnations that are not closed; at most one per session.
    index live: SessionId => u32;

    /// What agents and Hearth say.
    table outbound: OutboundId => Outbound;
    /// The same by session and the agent's id: the same file twice changes nothing.
    index outbound_by_wire: (SessionId, Text) => OutboundId;
    /// The same by session and the agent's number.
    index outbound_by_number: (SessionId, u64) => OutboundId;
    /// The same by the message that it is about.
    index outbound_by_message: (MessageId, OutboundId) => ();
    /// Undelivered messages in order, by channel, chat and thread.
    index lanes: (ForeignKey, ForeignKey, Option<ForeignKey>, OutboundId) => ();
    /// First messages of lanes by the time at which something has to be done about them.
    index lane_heads: (Awake, OutboundId) => ();
    /// Messages that wait for their time before they enter a lane.
    index outbound_later: (Timestamp, OutboundId) => ();

    /// What somebody has to decide, or decided.
    table approvals: ApprovalId => Approval;
    /// Open ones by the time at which something has to be done about them.
    index approvals_due: (Timestamp, ApprovalId) => ();
    /// The open one about a person in a chat.
    index approvals_by_sender: (ChatId, ForeignKey, ForeignKey) => ApprovalId;
    /// The open one about a chat in which nobody listens.
    index approvals_by_chat: ChatId => ApprovalId;
    /// Messages that wait for a decision, in order.
    table held: (ApprovalId, BodyId) => Held;
    /// Questions of agents to people.
    table questions: QuestionId => Question;
    /// Open ones by the time at which they lapse.
    index questions_due: (Timestamp, QuestionId) => ();
    /// What people can answer at an address by a number or a name: open approvals and questions, by channel and chat.
    index asked: (ForeignKey, ForeignKey, OutboundId) => Matter;
    /// Answers to requests of live incarnations.
    table replies: (SessionId, Text) => HostReply;
    /// Scheduled tasks.
    table tasks: TaskId => Task;
    /// Future occurrences; one per active series.
    index tasks_due: (Timestamp, TaskId) => ();
    /// Tasks that are active or paused, by agent.
    index tasks_by_agent: (AgentId, TaskId) => ();
    /// What became of slots, by series and slot.
    table fires: (TaskId, Timestamp) => Fire;
    /// Skips that agents' skills reported.
    table skips: SkipId => SkipSummary;
    /// Those that nobody was told of yet, by agent.
    index skips_unsurfaced: (AgentId, SkipId) => ();
    /// The same skip again changes nothing: by agent, then skill and digest of the file.
    index skips_by_file: (AgentId, Text, SkipId) => ();
    /// Skips of a skill in the order in which they were taken in.
    index skips_by_skill: (AgentId, Text, SkipId) => ();
    /// Skips whose files have to go, by agent.
    index skips_left: (AgentId, SkipId) => ();
    /// Skips of which people are being told, by the message.
    index skips_sent: OutboundId => SkipId;
    /// Threads in which an agent goes on listening, by agent, channel, chat and thread.
    table sticky: (AgentId, ForeignKey, ForeignKey, Option<ForeignKey>) => Sticky;
    /// The same by the time until which it does.
    index sticky_by_time: (Timestamp, (AgentId, ForeignKey, ForeignKey, Option<ForeignKey>)) => ();
    /// Muted threads, by agent, channel, chat and thread.
    table mutes: (AgentId, ForeignKey, ForeignKey, Option<ForeignKey>) => Mute;
    /// Agent groups' session-state files.
    table state_files: AgentId => StateFile;
    /// Those that have to be written.
    index state_files_dirty: AgentId => ();
    /// Their fields.
    table state_fields: (AgentId, StatePart, ForeignKey) => StateField;
    /// Threads that their session states mute, by the name that they have there.
    index state_mutes: (AgentId, ForeignKey) => ();
    /// Ids that skills of an agent have seen.
    table seen_ids: (AgentId, ForeignKey) => SeenId;
    /// The same in order.
    index seen_ids_by_position: (AgentId, u64) => ForeignKey;
    /// Messages that somebody in an agent group has begun to answer.
    table pending_responses: (AgentId, ForeignKey) => PendingResponse;
    /// The same by the time at which they count as stale.
    index pending_responses_due: (Timestamp, AgentId, ForeignKey) => ();

    /// What happened, for `why`.
    table journal: JournalId => JournalEntry;
    /// The same by message.
    index journal_by_message: (MessageId, JournalId) => ();
    /// The same by session.
    index journal_by_session: (SessionId, JournalId) => ();
}
