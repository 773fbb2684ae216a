//! Assigns numbers to outgoing messages: odd, higher than all used numbers and sequence numbers, and never repeated.

use crate::memory::Memory;
use crate::stop::Error;

/// Numbers are reserved in blocks, to avoid an extra write for each answer.
const BLOCK: u64 = 64;

/// The number generator.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// The next number; odd.
    next: u64,
    /// The first unreserved number.
    reserved: u64,
}

impl Numbers {
    /// Starts above the numbers of the context, of pending answers and of an earlier process of this incarnation.
    pub(crate) fn new(next_number: u64, highest_used: u64, reserved: Option<u64>) -> Self {
        let next = odd_from(next_number.max(highest_used + 1).max(reserved.unwrap_or(0)));
        Self { next, reserved: next }
    }

    /// Skips numbers up to one that the host uses for a message.
    pub(crate) fn seen(&mut self, seq: u64) {
        self.next = self.next.max(odd_from(seq.saturating_add(1)));
    }

    /// Skips numbers below the context's next number.
    pub(crate) fn at_least(&mut self, next_number: u64) {
        self.next = self.next.max(odd_from(next_number));
    }

    /// Returns a unique number.
    pub(crate) fn take(&mut self, memory: &mut Memory) -> Result<u64, Error> {
        let number = self.next;
        self.next = number.saturating_add(2);
        if number >= self.reserved {
            self.reserved = number.saturating_add(BLOCK);
            memory.reserve_numbers(self.reserved)?;
        }
        Ok(number)
    }
}

fn odd_from(number: u64) -> u64 {
    number | 1
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::agent::AgentHalf;

    #[test]
    fn numbers_are_odd_and_rise_above_everything() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("agent")).unwrap();
        let agent = Arc::new(AgentHalf::new(dir.path(), None));
        let mut memory = Memory::load(Arc::clone(&agent), 3, 0);
        let mut numbers = Numbers::new(5, 8, memory.reserved_numbers());
        assert_eq!(numbers.take(&mut memory).unwrap(), 9);
        numbers.seen(20);
        assert_eq!(numbers.take(&mut memory).unwrap(), 21);
        numbers.at_least(31);
        assert_eq!(numbers.take(&mut memory).unwrap(), 31);

        let same = Memory::load(Arc::clone(&agent), 3, 0);
        let restarted = Numbers::new(5, 0, same.reserved_numbers());
        assert!(restarted.next > 31, "a restart of the same incarnation reuses nothing");
        let other = Memory::load(agent, 4, 0);
        assert_eq!(other.reserved_numbers(), None, "the next incarnation is told by the host");
    }
}
