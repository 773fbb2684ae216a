//! The runs of an agent's process for one session.

use serde::{Deserialize, Serialize};

use super::time::{Awake, Millis, Timestamp};

/// A tool that is running, as the agent reported it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolUse {
    /// Its name.
    pub name: String,
    /// Timeout it declared.
    pub timeout: Option<Millis>,
}

/// Digest of everything a change of which needs another incarnation: provider, command, model, effort, environment, image,
/// mounts, packages, servers, skills, network, limits, zone, trust. Shown as 16 hexadecimal digits; a label of containers.
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
    /// A claim is older than allowed and nothing has happened since.
    ClaimStuck,
    /// Nothing has happened for longer than the ceiling.
    Ceiling,
    /// Its runner stopped beating.
    Silent,
    /// Its agent was removed.
    AgentRemoved,
    /// Its agent was changed in a way that only a new one can use.
    Renewed,
    /// It was idle and another session waits for its place.
    MadeRoom,
    /// A turn of it failed and is tried again by another one.
    TurnFailed,
    /// The operator wanted its agent to start again.
    Restarted,
}

impl StopReason {
    /// The word people see.
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
    /// The runtime does not know it (any more): it ended with an earlier daemon, or its start was lost.
    Unknown,
}

/// Where an incarnation is. It goes through these in their order and never back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Its start was asked for.
    Starting,
    /// The runtime said that it runs.
    Running,
    /// Its end was asked for.
    Stopping {
        /// Why.
        why: StopReason,
        /// Since when.
        since: Awake,
    },
    /// The runtime confirmed that it is gone; its mailbox is collected to the end.
    Collecting {
        /// How it ended.
        exit: Exit,
        /// Since when.
        since: Awake,
    },
    /// Everything it wrote is stored, its claims are reset.
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
    /// Where it is.
    pub phase: Phase,
    /// When it was allocated.
    pub launched: Awake,
    /// The same by the wall clock, for people.
    pub started: Timestamp,
    /// When a later run of the daemon found that it still runs: its ages count from there.
    pub adopted: Option<Awake>,
    /// When its heartbeat last changed; the launch until then.
    pub beat: Awake,
    /// When it last did anything: provider event, claim, answer; the launch until then.
    pub progress: Awake,
    /// The tool it is running.
    pub tool: Option<ToolUse>,
    /// Since when it is running that.
    pub tool_since: Option<Awake>,
    /// Why it was stopped, if it was.
    pub stopped_for: Option<StopReason>,
    /// Whether it ever claimed a message.
    pub claimed: bool,
    /// Why it gets nothing more and ends with its turn, if it does.
    pub outdated: Option<StopReason>,
    /// Digest of what it was started with.
    pub digest: SpecDigest,
    /// Last lines of its standard error.
    pub stderr_tail: String,
}

impl Incarnation {
    /// One whose start is asked for now.
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

    /// The run of the daemon that answers for it: the one that launched it, or adopted it last.
    #[must_use]
    pub const fn run(&self) -> u64 {
        match self.adopted {
            Some(adopted) => adopted.run(),
            None => self.launched.run(),
        }
    }

    /// It took a message, or ended one: what it did before says nothing of what it took.
    pub const fn begin(&mut self, now: Awake) {
        self.progress = now;
    }

    /// It got on with what it took. That is later than taking it, even if it is known at the same time.
    pub fn get_on(&mut self, now: Awake) {
        self.progress = now.max(self.progress.plus(Millis::new(1)));
    }

    /// How long ago something of it was, awake and in the care of a daemon.
    #[must_use]
    pub fn age(&self, then: Awake, now: Awake) -> Millis {
        let age = now.since(then);
        self.adopted.map_or(age, |adopted| age.min(now.since(adopted)))
    }
}
