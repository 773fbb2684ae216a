//! The attacker, whether a defense is promised, and what some depend on.

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

pub(super) const BOTH: By = By::Agent { process: Stand::Held, podman: Stand::Held };

/// Attacks that fail only in separate mount and PID namespaces.
pub(super) const VIEW: Stand = Stand::With("bubblewrap");
/// A network on which nothing can restrict a process.
pub(super) const EVERY_NETWORK: Stand = Stand::Open("a process reaches every network, unless it is `none`");
/// What the seccomp profile of containers is made from; without it, Podman's built-in profile applies.
pub(super) const PROFILE: Stand = Stand::With("the file of Podman's seccomp profile, which distributions install");
/// The self-test cannot call the kernel directly in a container.
pub(super) const KEYRING: Stand =
    Stand::Tested("it needs a program that the image may lack, and the file of Podman's seccomp profile");
/// What limits need.
pub(super) const CONTROL_GROUPS: Stand =
    Stand::With("control groups, which Podman without root has only if they are delegated");

/// The self-test cannot check whether a person is shown something.
pub(super) const READER: Stand = Stand::Tested("it needs a person who reads");

/// The self-test cannot check this, because its hostile agent has no secret.
pub(super) const OWN_SECRET: Stand = Stand::Tested("it needs an agent with a secret");

pub(super) const fn split(process: Stand, podman: Stand) -> By {
    By::Agent { process, podman }
}
