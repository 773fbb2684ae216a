//! The library says why it cannot connect in its log only. Its errors go into the daemon's log, and the last one is known.

use std::sync::{Mutex, PoisonError};

use hearth_bridge::program::log;
use log::{Level, LevelFilter, Log, Metadata, Record};

/// Longest error in characters.
const LENGTH: usize = 300;

static LIBRARY: Library = Library(Mutex::new(String::new()));

struct Library(Mutex<String>);

impl Log for Library {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Error
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let text: String = record.args().to_string().chars().take(LENGTH).collect();
            log(&format!("the library of WhatsApp: {text}"));
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text;
        }
    }

    fn flush(&self) {}
}

/// Begins to listen.
pub(crate) fn begin() {
    // A second call changes nothing.
    drop(log::set_logger(&LIBRARY));
    log::set_max_level(LevelFilter::Error);
}

/// The last error.
pub(crate) fn last() -> String {
    LIBRARY.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
