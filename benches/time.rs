//! Cron: reading expressions, and finding their next runs.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use hearth::model::Timestamp;
use hearth::time::cron::Cron;
use hearth::time::zone::Zone;

/// Expressions of one iteration.
const EXPRESSIONS: usize = 10_000;

/// Numbers that look random and are always the same (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn field(&mut self, least: u64, most: u64) -> String {
        let value = |numbers: &mut Self| least + numbers.below(most - least + 1);
        match self.below(5) {
            0 | 1 => "*".to_owned(),
            2 => value(self).to_string(),
            3 => format!("*/{}", 1 + self.below(most - least)),
            _ => {
                let (a, b) = (value(self), value(self));
                format!("{}-{}", a.min(b), a.max(b))
            }
        }
    }

    fn expression(&mut self) -> String {
        [(0, 59), (0, 23), (1, 28), (1, 12), (0, 6)].map(|(least, most)| self.field(least, most)).join(" ")
    }
}

/// Each expression with a zone of its own and an instant after which it is asked.
fn cases() -> Vec<(String, Zone, Timestamp)> {
    let zones = ["America/New_York", "Europe/Berlin", "Asia/Tokyo", "Australia/Lord_Howe", "UTC", "+05:30"];
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let case = |_| {
        let zone = zones[usize::try_from(numbers.below(6)).unwrap()];
        let at = i64::try_from(numbers.below(2_500_000_000_000)).unwrap();
        (numbers.expression(), Zone::parse(zone).unwrap(), Timestamp::from_millis(at))
    };
    (0..EXPRESSIONS).map(case).collect()
}

pub(crate) fn all(criterion: &mut Criterion) {
    let cases = cases();
    let read: Vec<(Cron, &Zone, Timestamp)> =
        cases.iter().map(|(text, zone, after)| (Cron::parse(text).unwrap(), zone, *after)).collect();
    let mut group = criterion.benchmark_group("cron, 10,000 random expressions");
    group.throughput(Throughput::Elements(EXPRESSIONS as u64)).sample_size(10);
    group.bench_function("read", |bencher| {
        bencher.iter(|| cases.iter().filter(|(text, ..)| black_box(Cron::parse(text)).is_ok()).count());
    });
    group.bench_function("next run", |bencher| {
        bencher.iter(|| read.iter().filter_map(|(cron, zone, after)| black_box(cron.next(*after, zone))).count());
    });
    group.finish();
}
