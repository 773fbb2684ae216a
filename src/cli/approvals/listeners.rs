//! Which agent will listen in the chat of an approval.

use super::super::{Failure, configuration, entity};
use crate::config::Paths;
use crate::model::approval::{Approval, ApprovalSubject};
use crate::model::id::{AgentId, ApprovalId};
use crate::state::{self, Read, Tables};

/// The agent that a person names.
pub(super) fn agent(paths: &Paths, folder: &str) -> Result<AgentId, Failure> {
    let known = configuration::read(paths)?;
    let found = known.agents.iter().find(|agent| agent.folder.as_str() == folder);
    found.map(|agent| agent.id).ok_or_else(|| entity::no_agent(folder))
}

/// The agents that an approval about a chat offers; none for other approvals.
pub(super) fn offered(db: &Tables, txn: &Read<'_>, approval: &Approval) -> Result<Option<Vec<String>>, state::Error> {
    if !matches!(approval.about, ApprovalSubject::Channel { .. }) {
        return Ok(None);
    }
    let mut folders = Vec::new();
    for option in &approval.options {
        let Some(agent) = option.value.strip_prefix("connect:").and_then(|id| id.parse::<AgentId>().ok()) else {
            continue;
        };
        folders.extend(db.agents.get(txn, &agent)?.map(|agent| agent.folder.to_string()));
    }
    Ok(Some(folders))
}

/// Why an approval about a chat needs more than `approve`.
pub(super) fn unnamed(id: ApprovalId, agents: &[String]) -> Failure {
    let command = format!("hearth approvals approve {id}");
    let known: Vec<String> = agents.iter().map(|folder| format!("`{command} --agent {folder}`")).collect();
    let known = if known.is_empty() { "there is none yet".to_owned() } else { known.join(" or ") };
    Failure::Failed(format!("{id} does not say which agent listens in this chat: {known}; or `{command} --new NAME`"))
}
