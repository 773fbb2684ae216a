//! The addresses that names have within the network of an agent.

use std::collections::HashMap;
use std::net::Ipv4Addr;

/// The first address: of 127.64.0.0/10, which is all loopback and used by nothing else.
const FIRST: u32 = 0x7f40_0001;
/// Names that are known at once. A further one takes the address of the one that was looked up first.
const NAMES_MAX: u32 = 65_536;

/// Names and their addresses.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Positions, by name.
    known: HashMap<String, u32>,
    names: Vec<String>,
    /// Position of the next new name.
    next: u32,
}

impl Names {
    /// The address of a name, which is a new one for a new name.
    pub(super) fn address(&mut self, name: &str) -> Ipv4Addr {
        let position = self.known.get(name).copied().unwrap_or_else(|| self.add(name));
        Ipv4Addr::from_bits(FIRST.saturating_add(position))
    }

    /// The name that has an address.
    pub(super) fn name(&self, address: Ipv4Addr) -> Option<&str> {
        let position = address.to_bits().checked_sub(FIRST)?;
        self.names.get(usize::try_from(position).ok()?).map(String::as_str)
    }

    fn add(&mut self, name: &str) -> u32 {
        let position = self.next;
        self.next = position.saturating_add(1).checked_rem(NAMES_MAX).unwrap_or_default();
        match self.names.get_mut(usize::try_from(position).unwrap_or(usize::MAX)) {
            Some(there) => {
                let before = std::mem::replace(there, name.to_owned());
                self.known.remove(&before);
            }
            None => self.names.push(name.to_owned()),
        }
        self.known.insert(name.to_owned(), position);
        position
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_address() {
        let mut names = Names::default();
        let first = names.address("a.org");
        let second = names.address("b.org");
        assert_eq!((first, second), (Ipv4Addr::new(127, 64, 0, 1), Ipv4Addr::new(127, 64, 0, 2)));
        assert_eq!(names.address("a.org"), first);
        assert_eq!((names.name(first), names.name(second)), (Some("a.org"), Some("b.org")));
        for other in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 64, 0, 0), Ipv4Addr::new(127, 64, 0, 3)] {
            assert_eq!(names.name(other), None, "{other}");
        }
    }

    #[test]
    fn the_oldest_name_gives_way() {
        let mut names = Names::default();
        let first = names.address("n0.org");
        for number in 1..=NAMES_MAX {
            names.address(&format!("n{number}.org"));
        }
        assert_eq!(names.name(first), Some("n65536.org"));
        assert_eq!(names.known.len(), 65_536);
        assert_eq!(names.name(Ipv4Addr::new(127, 65, 0, 0)), Some("n65535.org"));
        assert_eq!(names.address("n0.org"), Ipv4Addr::new(127, 64, 0, 2), "it is a new name");
    }
}
