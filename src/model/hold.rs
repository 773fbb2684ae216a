//! What holds an agent where it runs as a process of this machine.

/// What holds an agent in the process runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// It can touch nothing but its own.
    Confined,
    /// It has the rights of the user: the operator said so.
    Unconfined,
    /// Nothing confines it, and it does nothing on its own.
    Harmless,
    /// It is not started: nothing could confine it, and the operator has not said that it may do without.
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
