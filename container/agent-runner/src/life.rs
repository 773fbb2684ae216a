//! Ends the runner with the host: the life pipe, SIGTERM, and killing the process group.

use std::convert::Infallible;
use std::fs::File;
use std::io::Read as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::env::{LIFE_VARIABLE, LOCK_VARIABLE};
use crate::log;
use crate::roots::Start;
use crate::stop::Error;

/// Whether this process was asked to end.
static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on SIGTERM is a request to end, like a byte on the life pipe. The runner notices it in its next pause and
/// ends its provider gracefully.
pub(crate) fn heed() -> Result<(), Error> {
    let asked = Arc::clone(ASKED.get_or_init(Arc::default));
    let heeded = signal_hook::flag::register(signal_hook::consts::SIGTERM, asked);
    heeded.map(drop).map_err(|source| Error::Thread { name: "signal", source })
}

/// Whether this process was asked to end.
pub(crate) fn is_over() -> bool {
    ASKED.get().is_some_and(|asked| asked.load(Ordering::Relaxed))
}

/// Takes over the inherited descriptors. Both stay open without close-on-exec, so that every child has them too: the
/// lock is free only when all of them are gone.
pub(crate) fn hold(start: &Start) -> Result<(), Error> {
    if let Some(fd) = start.lock_fd {
        let there = std::fs::symlink_metadata(descriptor_path(fd));
        there.map_err(|source| Error::Descriptor { variable: LOCK_VARIABLE, fd, source })?;
    }
    if let Some(fd) = start.life_fd {
        // Opens the same pipe again by its path, because a bare number cannot safely be turned into a descriptor.
        let opened = File::open(descriptor_path(fd));
        let pipe = opened.map_err(|source| Error::Descriptor { variable: LIFE_VARIABLE, fd, source })?;
        lead_own_group();
        let thread = std::thread::Builder::new().name("life".to_owned()).spawn(move || wait_for_end(pipe));
        thread.map_err(|source| Error::Thread { name: "life", source })?;
    }
    Ok(())
}

/// Kills this process.
pub(crate) fn die() {
    if rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).is_err() {
        std::process::abort();
    }
}

/// Makes this process the leader of its own group: the whole group is killed at the end, so it must contain only this
/// process and its children.
fn lead_own_group() {
    let own = rustix::process::getpid();
    if rustix::process::getpgrp() != own
        && let Err(error) = rustix::process::setpgid(None, None)
    {
        log::note(format_args!("cannot lead an own process group: {error}; the inherited one ends with the host"));
    }
}

fn wait_for_end(mut pipe: File) -> Infallible {
    let mut byte = [0_u8; 1];
    loop {
        match pipe.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => ASKED.get_or_init(Arc::default).store(true, Ordering::Relaxed),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                log::note(format_args!("the life pipe cannot be read: {error}; going as if the host were gone"));
                break;
            }
        }
    }
    loop {
        if rustix::process::kill_current_process_group(rustix::process::Signal::KILL).is_err() {
            std::process::abort();
        }
    }
}

fn descriptor_path(fd: u32) -> String {
    if cfg!(target_os = "linux") { format!("/proc/self/fd/{fd}") } else { format!("/dev/fd/{fd}") }
}
