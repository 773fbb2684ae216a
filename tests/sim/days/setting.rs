//! Configuration, time zones and durations of a run.

use super::plan::Setting;
use crate::slots::{DAY, HOUR, MINUTE};

/// The time zones of the first five agents.
const ZONES: [&str; 5] =
    ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Kathmandu"];

/// The time zones of the agents in runs about tasks only.
const TEN_ZONES: [&str; 10] = [
    "America/New_York",
    "Europe/Berlin",
    "Europe/London",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Pacific/Auckland",
    "America/Santiago",
    "UTC",
];

pub(super) const TOML: &str = r#"
max_containers = 3
[retention]
bodies = "40d"
journal = "forever"
drops = "40d"
dedup = "40d"
[[agents]]
folder = "always"
fallback = [{ provider = "command", command = ["answer"] }, { provider = "echo", model = "small" }]
timezone = "Europe/Berlin"
max_parallel = 2
network = "ask"
allow = ["listed.example"]
deny = ["denied.example"]
[[agents]]
folder = "listens"
recall = "agent"
timezone = "America/New_York"
max_prompt_messages = 2
[[agents]]
folder = "fan"
timezone = "Australia/Lord_Howe"
max_prompt_messages = 3
[[agents]]
folder = "threads"
fallback = ["echo"]
timezone = "America/Santiago"
[[agents]]
folder = "main"
fallback = [{ provider = "command", command = ["answer"] }]
timezone = "Asia/Kathmandu"
trust = "main"
network = "ask"
allow = ["listed.example"]
deny = ["denied.example"]
[[agents]]
folder = "other"
network = "listed"
allow = ["listed.example"]
[[users]]
id = "net:boss"
roles = ["owner"]
[[users]]
id = "web:chief"
roles = ["admin"]
[[users]]
id = "net:others"
roles = ["admin:other"]
[[users]]
id = "net:ann"
member_of = ["main", "other"]
[[chats]]
channel = "web"
platform_id = "C"
unknown_senders = "public"
[[chats.wirings]]
agent = "always"
engage = "pattern"
pattern = "."
[[chats.wirings]]
agent = "listens"
ignored = "accumulate"
[[chats]]
channel = "net"
platform_id = "D"
group = true
unknown_senders = "public"
[[chats.wirings]]
agent = "fan"
engage = "mention-sticky"
ignored = "accumulate"
[[chats.wirings]]
agent = "threads"
session = "per-thread"
ignored = "accumulate"
[[chats]]
channel = "net"
platform_id = "M"
group = true
[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "."
[[chats.wirings]]
agent = "other"
ignored = "accumulate"
[[chats]]
channel = "web"
platform_id = "K"
group = true
unknown_senders = "strict"
[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "[a-z]"
senders = "known"
session = "agent-shared"
[[chats.wirings]]
agent = "listens"
ignored = "accumulate"
"#;

/// An agent that comes and goes.
pub(super) const DOOMED: &str = r#"
[[agents]]
folder = "doomed"
[[chats]]
channel = "net"
platform_id = "D"
group = true
unknown_senders = "public"
[[chats.wirings]]
agent = "doomed"
engage = "pattern"
pattern = "."
"#;

/// Durations, each the maximum of what a step may draw.
pub(super) struct Pace {
    pub(super) quiet: &'static [i64],
    pub(super) suspend: &'static [i64],
    pub(super) back: &'static [i64],
    pub(super) ahead: &'static [i64],
}

const DAYS: Pace = Pace {
    quiet: &[MINUTE, MINUTE, 20 * MINUTE, 2 * HOUR, 6 * HOUR],
    suspend: &[HOUR, 12 * HOUR, 2 * DAY],
    back: &[50_000, 3 * HOUR, DAY],
    ahead: &[HOUR, 20 * HOUR],
};

const YEARS: Pace = Pace {
    quiet: &[MINUTE, 3 * HOUR, 30 * HOUR, 6 * DAY],
    suspend: &[2 * HOUR, 12 * HOUR, 3 * DAY, 21 * DAY],
    back: &[50_000, 3 * HOUR, 2 * DAY],
    ahead: &[DAY, 40 * DAY, 800 * DAY],
};

impl Setting {
    pub(super) fn pace(self) -> &'static Pace {
        if self == Self::Zones { &YEARS } else { &DAYS }
    }

    /// The time zones of the first agents, in order.
    pub(super) fn zones(self) -> &'static [&'static str] {
        if self == Self::Zones { &TEN_ZONES } else { &ZONES }
    }

    pub(super) fn toml(self) -> String {
        if self != Self::Zones {
            return TOML.to_owned();
        }
        let agents = TEN_ZONES.iter().enumerate().map(|(number, zone)| agent_in(number, zone));
        // The final account asks about every slot.
        format!("[retention]\njournal = \"forever\"\n{}", agents.collect::<String>())
    }

    /// Maximum number of open tasks, and of series.
    pub(super) fn tasks(self) -> (usize, usize) {
        if self == Self::Zones { (2 * TEN_ZONES.len(), usize::MAX) } else { (6, 300) }
    }
}

/// The configuration of an agent of which only the time zone matters.
pub(super) fn agent_in(number: usize, zone: &str) -> String {
    format!("[[agents]]\nfolder = \"z{number}\"\ntimezone = \"{zone}\"\n")
}
