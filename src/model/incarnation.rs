//! Incarnations: runs of an agent's process for one session.

use serde::{Deserialize, Serialize};

use super::id::SessionId;
use super::time::{Awake, Millis, Timestamp};

/// Names an incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IncarnationId {
    /// The session that it was started for.
    pub session: SessionId,
    /// Its number within the session.
    pub number: u32,
}

impl IncarnationId {
    /// The incarnation with this number.
    #[must_use]
    pub const fn new(session: SessionId, number: u32) -> Self {
        Self { session, number }
    }
}

impl std::fmt::Display for IncarnationId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.session, self.number)
    }
}

/// A tool that is running, as the agent reported it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolUse {
    /// Name of the tool.
    pub name: String,
    /// Timeout it declared.
    pub timeout: Option<Millis>,
}

/// Digest of the launch configuration; a change requires a new incarnation. Covers provider, command, model, effort,
/// environment, image, mounts, packages, servers, skills, network, limits, time zone, trust. Shown as 16 hexadecimal
/// digits; used as a label of containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SpecDigest(u64);

impl SpecDigest {
    /// Wraps a digest.
    #[must_use]
    pub const fn new(digest: u64) -> Self {
        Self(digest)
    }
}

impl std::fmt::Display for SpecDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Why an incarnation is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// A message has been in progress for too long without any activity.
    ClaimStuck,
    /// No activity for longer than the ceiling.
    Ceiling,
    /// Its runner stopped sending heartbeats.
    Silent,
    /// Its agent was removed.
    AgentRemoved,
    /// Its agent's launch configuration changed.
    Renewed,
    /// It was idle, and another session needed its slot.
    MadeRoom,
    /// One of its turns failed and is retried by another incarnation.
    TurnFailed,
    /// The operator restarted its agent.
    Restarted,
    /// A person stopped its turn, or froze its agent.
    Asked,
    /// Another provider of its agent takes over.
    ProviderChanged,
}

impl StopReason {
    /// The word programs see.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClaimStuck => "claim-stuck",
            Self::Ceiling => "absolute-ceiling",
            Self::Silent => "silent-runner",
            Self::AgentRemoved => "agent-removed",
            Self::Renewed => "agent-changed",
            Self::MadeRoom => "made-room",
            Self::TurnFailed => "turn-failed",
            Self::Restarted => "restarted",
            Self::Asked => "asked",
            Self::ProviderChanged => "provider-changed",
        }
    }

    /// What it means, in words for people.
    #[must_use]
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::ClaimStuck => "nothing happened after it took the message",
            Self::Ceiling => "nothing happened for too long",
            Self::Silent => "its runner fell silent",
            Self::AgentRemoved => "its agent was removed",
            Self::Renewed => "its agent changed",
            Self::MadeRoom => "another session needed its slot",
            Self::TurnFailed => "its turn failed",
            Self::Restarted => "it was restarted",
            Self::Asked => "a person stopped it",
            Self::ProviderChanged => "another provider took over",
        }
    }
}

/// How an incarnation ended, as the runtime saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// The process ended with this code.
    Code(i32),
    /// The process was killed by this signal.
    Signal(i32),
    /// It could not be started.
    NotStarted(String),
    /// Unknown to the runtime: it ended with an earlier daemon, or its start was lost.
    Unknown,
}

/// Phase of an incarnation. Phases are passed in this order, never backwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Its start was requested.
    Starting,
    /// The runtime reported that it runs.
    Running,
    /// Its stop was requested.
    Stopping {
        /// Why Hearth stops it.
        why: StopReason,
        /// Awake time at which the stop began.
        since: Awake,
    },
    /// The runtime confirmed that it is gone. The rest of its mailbox is being collected.
    Collecting {
        /// How it ended.
        exit: Exit,
        /// Awake time at which the collection began.
        since: Awake,
    },
    /// All of its output is stored, and its claims are reset.
    Closed {
        /// How it ended.
        exit: Exit,
        /// When it was closed.
        at: Timestamp,
    },
}

/// One run of an agent's process for one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incarnation {
    /// How far the run is.
    pub phase: Phase,
    /// When it was allocated.
    pub launched: Awake,
    /// When it was allocated, by the wall clock, for people.
    pub started: Timestamp,
    /// When a later run of the daemon found it still running. Ages count from then.
    pub adopted: Option<Awake>,
    /// When its first heartbeat was seen; until then, the launch. Later heartbeats are not stored.
    pub beat: Awake,
    /// Time of its last activity (provider event, claim, answer); until the first one, the launch.
    pub progress: Awake,
    /// The tool in use.
    pub tool: Option<ToolUse>,
    /// Start of that tool's run.
    pub tool_since: Option<Awake>,
    /// Why it was stopped, if it was.
    pub stopped_for: Option<StopReason>,
    /// Whether it ever claimed a message.
    pub claimed: bool,
    /// Why it receives no more messages and ends with its turn, if it does.
    pub outdated: Option<StopReason>,
    /// Digest of its launch configuration.
    pub digest: SpecDigest,
    /// Last lines of its standard error.
    pub stderr_tail: String,
}

impl Incarnation {
    /// A new incarnation whose start is being requested.
    #[must_use]
    pub const fn new(launched: Awake, started: Timestamp, digest: SpecDigest) -> Self {
        Self {
            phase: Phase::Starting,
            launched,
            started,
            adopted: None,
            beat: launched,
            progress: launched,
            tool: None,
            tool_since: None,
            stopped_for: None,
            claimed: false,
            outdated: None,
            digest,
            stderr_tail: String::new(),
        }
    }

    /// The run of the daemon that is responsible for it: the one that launched it, or adopted it last.
    #[must_use]
    pub const fn run(&self) -> u64 {
        match self.adopted {
            Some(adopted) => adopted.run(),
            None => self.launched.run(),
        }
    }

    /// Whether it ever sent a heartbeat.
    #[must_use]
    pub fn has_beaten(&self) -> bool {
        self.beat > self.launched
    }

    /// It claimed a message, or ended one. Earlier activity does not count for a message that it claimed.
    pub const fn begin(&mut self, now: Awake) {
        self.progress = now;
    }

    /// Records activity on the claimed message. Always later than the claim, even if both are noticed at the same time.
    pub fn get_on(&mut self, now: Awake) {
        self.progress = now.max(self.progress.plus(Millis::new(1)));
    }

    /// Age of one of its events, in awake time while a daemon was responsible for it.
    #[must_use]
    pub fn age(&self, then: Awake, now: Awake) -> Millis {
        let age = now.since(then);
        self.adopted.map_or(age, |adopted| age.min(now.since(adopted)))
    }
}
