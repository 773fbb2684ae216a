//! Progress of long work, for people at a terminal. Like colours, not shown with `NO_COLOR` or on a dumb terminal.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::print;
use crate::daemon::image;
use crate::state::backup::{Progress, Step};

/// Interval of spinner steps.
const MOVE: Duration = Duration::from_millis(100);

/// Progress display with one stage at a time.
pub(super) struct StageBar {
    bar: Mutex<Option<ProgressBar>>,
    visible: bool,
}

impl StageBar {
    /// Shows on standard error.
    pub(super) fn new() -> Self {
        Self { bar: Mutex::new(None), visible: print::coloured(&std::io::stderr()) }
    }

    /// Clears the display, to make room for other output.
    pub(super) fn clear(&self) {
        self.replace(None);
    }

    fn replace(&self, next: Option<ProgressBar>) {
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = std::mem::replace(&mut *bar, next) {
            old.finish_and_clear();
        }
    }
}

impl Drop for StageBar {
    fn drop(&mut self) {
        self.replace(None);
    }
}

impl Progress for StageBar {
    fn begin(&self, step: Step, total: Option<u64>) {
        if !self.visible {
            return;
        }
        let (what, amount) = match step {
            Step::Copying => ("copying", ""),
            Step::Reading => ("reading", "{bytes} of {total_bytes}"),
            Step::Checking => ("checking", ""),
            Step::Rows => ("rows", "{pos} of {len}"),
        };
        let template = match total {
            Some(_) => format!("{what:9} {{bar:30}} {amount}"),
            None if amount.is_empty() => format!("{what:9} {{spinner}} {{elapsed}}"),
            None => format!("{what:9} {{spinner}} {{pos}} {{elapsed}}"),
        };
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(MOVE);
        self.replace(Some(bar));
    }

    fn advance(&self, by: u64) {
        if let Some(bar) = self.bar.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            bar.inc(by);
        }
    }
}

/// An agent at work, on standard error.
pub(super) struct Spinner(ProgressBar);

impl Spinner {
    /// Shows an empty line that moves.
    pub(super) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(MOVE);
        Self(bar)
    }

    /// Shows what is done now.
    pub(super) fn say(&self, text: &str) {
        self.0.set_message(print::plain(text).into_owned());
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Progress of an image build: on a terminal the step and the last line, elsewhere one line per step.
pub(super) struct Building {
    bar: Option<ProgressBar>,
}

/// Prefix of a step in Podman's output.
const STEP: &str = "STEP ";
/// Maximum characters shown of an output line.
const SHOWN: usize = 160;

impl Building {
    /// Shows on standard error.
    pub(super) fn new() -> Self {
        if !print::coloured(&std::io::stderr()) {
            return Self { bar: None };
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {prefix}\n  {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(MOVE);
        Self { bar: Some(bar) }
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl image::Progress for Building {
    fn begin(&self, image: &str) {
        match &self.bar {
            Some(bar) => bar.set_prefix(format!("building {image}")),
            None => print::note(&format!("building {image}")),
        }
    }

    fn said(&self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let short: String = print::plain(&words.join(" ")).chars().take(SHOWN).collect();
        let step = line.starts_with(STEP);
        match &self.bar {
            Some(bar) if step => bar.set_prefix(short),
            Some(bar) => bar.set_message(short),
            None if step => print::note(&short),
            None => {}
        }
    }
}
