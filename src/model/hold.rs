//! Confinement of an agent that runs as a process of this machine.

/// How an agent is confined in the process runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// It can access nothing but its own files and processes.
    Confined,
    /// It has the user's permissions, as the operator configured.
    Unconfined,
    /// It is not confined, and does not need to be: it does nothing on its own.
    Harmless,
    /// It is not started, because nothing can confine it and the operator has not allowed it to run unconfined.
    NeedsUnconfined,
}

impl Hold {
    /// For people and programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Confined => "confined",
            Self::Unconfined => "unconfined",
            Self::Harmless => "not needed",
            Self::NeedsUnconfined => "needs unconfined",
        }
    }
}
