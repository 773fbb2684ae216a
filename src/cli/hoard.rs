//! Finds the agent that uses the most disk space. Runs only if space is low, and reads a bounded number of files.

use std::collections::BTreeMap;

use super::{Failure, human_size, transcripts};
use crate::config::Paths;
use crate::contracts::transcript::{self, Usage};
use crate::model::entity::Folder;
use crate::state::{NoRoom, Reader};

/// Maximum number of files read for all agents together: a fraction of a second.
const LOOKED_AT: usize = 100_000;
/// Minimum number of files read per directory, however many directories exist.
const LEAST: usize = 1_000;

/// Kinds of directories in which agents keep files.
const PLACES: [&str; 3] = ["folder", "home", "mailbox"];

/// Usage of one agent, by [`PLACES`].
type AgentUsage = [Usage; 3];

/// Describes the agent that uses most of the scarce resource; none if no agent has files.
pub(super) fn named(paths: &Paths, reader: &Reader, why: &NoRoom) -> Result<Option<String>, Failure> {
    let by_files = match why {
        NoRoom::Inodes { .. } => true,
        NoRoom::Disk { .. } => false,
        // The store's own limit does not depend on files.
        NoRoom::Store { .. } => return Ok(None),
    };
    let all = taken(paths, reader)?;
    let weight = |usage: &Usage| if by_files { usage.files } else { usage.bytes };
    let total = |taken: &AgentUsage| taken.iter().map(weight).sum::<u64>();
    let most = all.iter().max_by_key(|(_, taken)| total(taken)).filter(|(_, taken)| total(taken) > 0);
    Ok(most.map(|(agent, taken)| {
        let place = PLACES.iter().zip(taken).max_by_key(|(_, usage)| weight(usage)).map_or("folder", |(name, _)| name);
        let (bytes, files) = taken.iter().fold((0, 0), |(bytes, files): (u64, u64), one| {
            (bytes.saturating_add(one.bytes), files.saturating_add(one.files))
        });
        let least = if taken.iter().any(|usage| usage.cut) { "at least " } else { "" };
        format!(
            "agent {agent} uses the most space, {least}{} in {files} files, mainly in its {place}; `hearth sessions du` shows the usage of all agents",
            human_size::decimal(bytes)
        )
    }))
}

fn taken(paths: &Paths, reader: &Reader) -> Result<BTreeMap<Folder, AgentUsage>, Failure> {
    let agents = reader.read(super::configuration::collect)?.agents;
    let sessions = reader.read(transcripts::all)?;
    let places = agents.len().saturating_mul(2).saturating_add(sessions.len()).max(1);
    let each = (LOOKED_AT / places).max(LEAST);
    let mut all: BTreeMap<Folder, AgentUsage> = BTreeMap::new();
    for agent in agents {
        let below = |place| transcript::usage_below(place, agent.folder.as_str(), each);
        let own = [below(&paths.groups())?, below(&paths.homes())?, Usage::default()];
        all.insert(agent.folder, own);
    }
    for (id, folder, _) in sessions.into_iter().take(LOOKED_AT / LEAST) {
        let mailbox = transcript::usage(&paths.session(id), each)?;
        if let Some([.., sum]) = all.get_mut(&folder) {
            sum.bytes = sum.bytes.saturating_add(mailbox.bytes);
            sum.files = sum.files.saturating_add(mailbox.files);
            sum.cut |= mailbox.cut;
        }
    }
    Ok(all)
}
