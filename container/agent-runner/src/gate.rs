//! Permission to work: only the incarnation named in `host/context.json` may.
//!
//! This module is the only source of a context. A caller that has one knows that a moment ago this incarnation was the
//! current one. The gate is checked before each prompt, each tool call and each write of an answer or an ack.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use hearth_wire::Context;

use crate::host::HostHalf;
use crate::stop::{Error, Stop};
use crate::{life, log};

/// How often to read an unreadable context before giving up. The host replaces it by rename, so it is never missing.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// Identifies a version of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

/// Checks permission for everything this incarnation does.
#[derive(Debug)]
pub(crate) struct RunGuard {
    host: HostHalf,
    incarnation: u32,
    last: Option<Stamp>,
}

impl RunGuard {
    pub(crate) fn new(host: HostHalf, incarnation: u32) -> Self {
        Self { host, incarnation, last: None }
    }

    pub(crate) fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// Reads the context again.
    pub(crate) fn pass(&mut self) -> Result<Context, Stop> {
        let stamp = self.stamp();
        let context = self.read()?;
        if context.incarnation != self.incarnation {
            return Err(Stop::Superseded { mine: self.incarnation, named: context.incarnation });
        }
        self.last = stamp;
        Ok(context)
    }

    /// Like a full check, but does not read an unchanged file: cheap enough for every pause.
    pub(crate) fn check(&mut self) -> Result<(), Stop> {
        if life::is_over() {
            return Err(Stop::Asked);
        }
        if self.last.is_some() && self.stamp() == self.last { Ok(()) } else { self.pass().map(drop) }
    }

    fn read(&self) -> Result<Context, Error> {
        let mut tried = 1;
        loop {
            match self.host.context() {
                Ok(context) => return Ok(context),
                Err(error) if error.is_final() || tried == TRIES => return Err(Error::Context(error)),
                Err(error) => {
                    log::note(format_args!("cannot read the context: {error}; trying again"));
                    tried += 1;
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    fn stamp(&self) -> Option<Stamp> {
        let meta = std::fs::metadata(self.host.context_path()).ok()?;
        Some(Stamp { inode: meta.ino(), size: meta.size(), modified: (meta.mtime(), meta.mtime_nsec()) })
    }
}
