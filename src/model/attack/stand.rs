//! The attacker, and whether a defense is promised.

/// The attacker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// A hijacked agent, acting from inside its runtime.
    Agent {
        /// In a confined process.
        process: Stand,
        /// In a container.
        podman: Stand,
    },
    /// A sender on a channel.
    Sender,
}

/// Whether a defense is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stand {
    /// It holds.
    Held,
    /// It holds, as the tests show. The self-test cannot try it, for this reason.
    Tested(&'static str),
    /// Not applicable, for this reason.
    Moot(&'static str),
    /// It holds only with this.
    With(&'static str),
    /// It does not hold; what applies instead.
    Open(&'static str),
}
