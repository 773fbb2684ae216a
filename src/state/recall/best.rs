//! Keeps the best hits of a search.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::find::Hit;

/// The best hits so far.
pub(super) struct Best {
    heap: BinaryHeap<Worst>,
    most: usize,
}

/// Ordered so that the worst hit is on top. Of equal ones, the older one is worse.
struct Worst(Hit);

impl Ord for Worst {
    fn cmp(&self, other: &Self) -> Ordering {
        let (this, other) = (&self.0, &other.0);
        other.score.total_cmp(&this.score).then_with(|| (other.id, other.scope).cmp(&(this.id, this.scope)))
    }
}

impl PartialOrd for Worst {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Worst {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Worst {}

impl Best {
    pub(super) const fn new(most: usize) -> Self {
        Self { heap: BinaryHeap::new(), most }
    }

    pub(super) fn is_full(&self) -> bool {
        self.heap.len() >= self.most
    }

    pub(super) fn is_beaten(&self, score: f64) -> bool {
        self.is_full() && self.heap.peek().is_some_and(|worst| worst.0.score > score)
    }

    pub(super) fn offer(&mut self, hit: Hit) {
        self.heap.push(Worst(hit));
        if self.heap.len() > self.most {
            self.heap.pop();
        }
    }

    pub(super) fn hits(self) -> Vec<Hit> {
        self.heap.into_sorted_vec().into_iter().map(|Worst(hit)| hit).collect()
    }
}
