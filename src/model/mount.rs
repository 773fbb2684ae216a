//! What an incarnation sees of the host's files.

use std::path::PathBuf;

use super::entity::Access;

/// One directory or file of the host at a place of the agent's, checked and resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Where it is: absolute, links resolved.
    pub source: PathBuf,
    /// Where a container sees it: absolute. The process runtime shows it at `source`.
    pub target: PathBuf,
    /// What the agent may do with it.
    pub access: Access,
}
