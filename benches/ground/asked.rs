//! Options of a benchmark run, from arguments, as criterion reads them, and the environment.

use std::path::PathBuf;

/// Arguments that mean something to more than criterion.
pub(crate) struct Asked {
    real: bool,
    quick: bool,
    name: Option<String>,
}

impl Asked {
    /// What this program was called with. `cargo bench` says `--bench`; without it everything runs once, as a test.
    pub(crate) fn now() -> Self {
        let given = |wanted: &str| std::env::args().any(|argument| argument == wanted);
        let name = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
        Self { real: given("--bench") && !given("--list"), quick: given("--quick"), name }
    }

    /// Whether it is a measurement.
    pub(crate) const fn is_real(&self) -> bool {
        self.real
    }

    /// Whether it is one of everything.
    pub(crate) const fn is_everything(&self) -> bool {
        self.real && self.name.is_none()
    }

    /// Whether something of this name is meant.
    pub(crate) fn wants(&self, name: &str) -> bool {
        !std::env::args().any(|argument| argument == "--list")
            && self.name.as_ref().is_none_or(|wanted| name.contains(wanted.as_str()) || wanted.contains(name))
    }

    /// Sizes of stores that are compared, by their sessions.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        let wanted: &[usize] = if self.real { &[1_000, 10_000, 100_000] } else { &[100] };
        let mut sizes: Vec<usize> = wanted.iter().copied().map(at_most).collect();
        sizes.dedup();
        sizes
    }

    /// How often something is done, or how large it is.
    pub(crate) const fn size(&self, full: usize, quick: usize, tiny: usize) -> usize {
        match (self.real, self.quick) {
            (true, false) => full,
            (true, true) => quick,
            (false, _) => tiny,
        }
    }
}

/// Commits of one scenario; `HEARTH_BENCH_COMMITS` overrides.
pub(crate) fn commits() -> usize {
    number("HEARTH_BENCH_COMMITS").unwrap_or(100)
}

/// So many sessions or tasks, or as many as `HEARTH_BENCH_SESSIONS_MAX` allows.
pub(crate) fn at_most(wanted: usize) -> usize {
    number("HEARTH_BENCH_SESSIONS_MAX").map_or(wanted, |max| wanted.min(max))
}

fn number(variable: &str) -> Option<usize> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// Where cargo builds, and where what was measured is left for the table.
pub(crate) fn target() -> PathBuf {
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(default, PathBuf::from)
}
