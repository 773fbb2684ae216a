//! One attack of the list.

use super::stand::{BOTH, By, Stand, VIEW, split};
use super::{HOSTS, MODELS, NETWORK};
use crate::model::configure::RuntimeKind;

/// One attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attack {
    /// Name for programs and tests; never changes its meaning.
    pub name: &'static str,
    /// Heading under which it is listed.
    pub about: &'static str,
    /// What the attacker tries; reads on after "it".
    pub tries: &'static str,
    /// What must hold.
    pub holds: &'static str,
    /// The attacker, and whether the defense is promised.
    pub by: By,
}

impl Attack {
    /// The promise for a runtime. Attacks by senders do not depend on the runtime.
    #[must_use]
    pub const fn stand(&self, runtime: RuntimeKind) -> Stand {
        match (self.by, runtime) {
            (By::Agent { process, .. }, RuntimeKind::Process) => process,
            (By::Agent { podman, .. }, RuntimeKind::Podman) => podman,
            (By::Sender, _) => Stand::Held,
        }
    }

    /// Whether an agent tries it.
    #[must_use]
    pub const fn is_by_agent(&self) -> bool {
        matches!(self.by, By::Agent { .. })
    }
}

pub(super) const fn attack(
    about: &'static str,
    name: &'static str,
    (tries, holds): (&'static str, &'static str),
    by: By,
) -> Attack {
    Attack { name, about, tries, holds, by }
}

pub(super) const fn of_models(name: &'static str, tries: &'static str, holds: &'static str) -> Attack {
    attack(MODELS, name, (tries, holds), BOTH)
}

/// An attack on a network whose connections the daemon judges.
pub(super) const fn of_network(name: &'static str, tries: &'static str, holds: &'static str) -> Attack {
    attack(NETWORK, name, (tries, holds), split(VIEW, Stand::Held))
}

/// An attack on a secret that is bound to a host.
pub(super) const fn of_hosts(name: &'static str, tries: &'static str, holds: &'static str) -> Attack {
    attack(HOSTS, name, (tries, holds), split(VIEW, Stand::Held))
}
