//! Chats with wirings, and what a report or the store says about routing.

use std::fmt::Write as _;

use hearth::model::address::{ChannelName, ForeignId};
use hearth::model::id::SessionId;
use hearth::model::message::Reason;
use hearth::model::report::{Decision, RouteReport};
use hearth::model::{Address, Effect};

use super::World;

/// A configuration: agents with their wirings of chat `C` on `net`.
pub(crate) fn chat(policy: &str, wirings: &[(&str, &str)]) -> String {
    let mut toml = String::new();
    for (folder, _) in wirings {
        writeln!(toml, "[[agents]]\nfolder = \"{folder}\"").unwrap();
    }
    writeln!(toml, "[[chats]]\nchannel = \"net\"\nplatform_id = \"C\"\ngroup = true").unwrap();
    writeln!(toml, "unknown_senders = \"{policy}\"").unwrap();
    for (folder, wiring) in wirings {
        writeln!(toml, "[[chats.wirings]]\nagent = \"{folder}\"\n{wiring}").unwrap();
    }
    toml
}

pub(crate) const ALWAYS: &str = "engage = \"pattern\"\npattern = \".\"";

pub(crate) const MENTION: &str = "engage = \"mention\"";

pub(crate) const KEEP: &str = "engage = \"mention\"\nignored = \"accumulate\"";

pub(crate) const MENTIONED: &str = "\"isMention\":true";

pub(crate) fn decisions(report: &RouteReport) -> Vec<(String, Decision, Reason)> {
    let row = |wiring: &hearth::model::report::WiringReport| (wiring.agent.to_string(), wiring.decision, wiring.why);
    report.wirings.iter().map(row).collect()
}

pub(crate) fn drops(world: &World) -> Vec<Reason> {
    world.read(|db, txn| db.dropped_events.iter(txn)?.map(|row| row.map(|(_, drop)| drop.reason)).collect())
}

pub(crate) fn session_of(report: &RouteReport) -> SessionId {
    report.wirings.iter().find_map(|wiring| wiring.session).unwrap()
}

pub(crate) fn launches(world: &World) -> usize {
    world.effects.iter().filter(|effect| matches!(effect, Effect::Launch(_))).count()
}

/// An event whose adapter says whether its chats have threads.
pub(crate) fn with_threads(threads: Option<bool>, json: &str) -> String {
    match threads {
        Some(threads) => json.replacen('{', &format!("{{\"supportsThreads\":{threads},"), 1),
        None => json.to_owned(),
    }
}

pub(crate) fn sticky_rows(world: &World) -> u64 {
    world.read(|db, txn| {
        assert_eq!(db.thread_follows.len(txn)?, db.thread_follows_by_expiry.len(txn)?);
        db.thread_follows.len(txn)
    })
}

pub(crate) fn place(thread: Option<&str>) -> Address {
    Address {
        channel: ChannelName::new("net").unwrap(),
        platform_id: ForeignId::new("chat", "C").unwrap(),
        thread: thread.map(|thread| ForeignId::new("thread", thread).unwrap()),
    }
}
