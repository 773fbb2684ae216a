//! Points at which tests let a process of Hearth die, as a power cut would: before every commit, and before everything
//! that is done outside of a transaction. Without the variables that ask for it (`config::seams`) they do nothing, and a
//! build without debug assertions does not contain them.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::config::seams;

/// What was asked for. One per process, like its death.
static ASKED: LazyLock<Asked> = LazyLock::new(Asked::look);

/// Where to die, and where to note the way there.
struct Asked {
    /// A point, or [`ANY`], and how often this process has still to come to it.
    at: Option<(String, AtomicU32)>,
    notes: Option<File>,
}

/// Stands for every point.
const ANY: &str = "any";

impl Asked {
    fn look() -> Self {
        let notes = seams::points().and_then(|path| OpenOptions::new().create(true).append(true).open(path).ok());
        let at = seams::crash_at().map(|(point, nth)| (point, AtomicU32::new(nth)));
        if let Some((point, nth)) = &at {
            tracing::warn!(%point, ?nth, "a test wants this process to die by itself");
        }
        Self { at, notes }
    }
}

/// Dies here if that was asked for. To stand right before what it is named after: then to die at the next one is to die
/// after it.
pub(crate) fn point(name: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    let Asked { at, notes } = &*ASKED;
    if at.is_none() && notes.is_none() {
        return;
    }
    if let Some(mut notes) = notes.as_ref() {
        // In one piece, so that points of several threads do not mix. A test misses what could not be noted.
        drop(notes.write_all(format!("{name}\n").as_bytes()));
    }
    if let Some((point, left)) = at
        && (point == name || point == ANY)
        && left.fetch_sub(1, Ordering::SeqCst) == 1
    {
        die();
    }
}

/// Whether the process is to die at a point, for work that has to be cut in two there.
pub(crate) fn is_at(name: &str) -> bool {
    cfg!(debug_assertions) && ASKED.at.as_ref().is_some_and(|(point, _)| point == name)
}

fn die() {
    let own = rustix::process::getpid();
    if rustix::process::kill_process(own, rustix::process::Signal::KILL).is_err() {
        std::process::abort();
    }
}

/// Runs something on a thread whose every call about files the kernel refuses with this error: what a disk, a limit or the
/// rights on it do to a function, whatever it calls.
#[cfg(all(test, target_os = "linux"))]
#[expect(clippy::unwrap_used, reason = "only tests call it")]
pub(crate) fn refused<T: Send>(errno: i32, work: impl FnOnce() -> T + Send) -> T {
    const CALLS: [&str; 25] = [
        "openat",
        "openat2",
        "mkdirat",
        "unlinkat",
        "renameat",
        "renameat2",
        "linkat",
        "symlinkat",
        "readlinkat",
        "fstat",
        "newfstatat",
        "statx",
        "getdents64",
        "utimensat",
        "fchmod",
        "fchmodat",
        "fchown",
        "fchownat",
        "fsync",
        "fdatasync",
        "flock",
        "dup3",
        "fallocate",
        "ftruncate",
        "copy_file_range",
    ];
    // Newer machines have no such calls.
    let older: &[&str] = if cfg!(target_arch = "x86_64") { &["open", "readlink"] } else { &[] };
    let rules: Vec<String> = CALLS.iter().chain(older).map(|call| format!(r#"{{"syscall": "{call}"}}"#)).collect();
    let asked = format!(
        r#"{{"it": {{"mismatch_action": "allow", "match_action": {{"errno": {errno}}}, "filter": [{}]}}}}"#,
        rules.join(",")
    );
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let made = seccompiler::compile_from_json(asked.as_bytes(), arch).unwrap();
    let (first, _) = (made.get("it").unwrap(), point("before the filter"));
    std::thread::scope(|scope| {
        let refused = scope.spawn(|| {
            seccompiler::apply_filter(first).unwrap();
            work()
        });
        refused.join().unwrap()
    })
}

/// The errors that every function has to tell of, and the words of the system for them.
#[cfg(all(test, target_os = "linux"))]
pub(crate) fn errors() -> [(i32, &'static str); 5] {
    use rustix::io::Errno;
    [
        (Errno::NOSPC, "No space left on device"),
        (Errno::MFILE, "Too many open files"),
        (Errno::ROFS, "Read-only file system"),
        (Errno::ACCESS, "Permission denied"),
        (Errno::NOENT, "No such file or directory"),
    ]
    .map(|(errno, words)| (errno.raw_os_error(), words))
}
