//! The agent's half of the session directory. Only this module writes files there.
//!
//! Each file is written under a temporary name, synced and renamed, and its directory is synced. Heartbeat and state
//! only describe the present and are written without syncs; for claims only the file itself is synced. For crash tests
//! the process counts its syncs and kills itself after a given number, so that a test can go through all of them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use hearth_wire::{
    ACK_DIR, AGENT_DIR, Ack, AckName, AckStatus, FILES_DIR, HEARTBEAT_FILE, Heartbeat, OUT_DIR, OutId, OutMessage,
    SESSION_FILE, STATE_FILE, SessionFile, State, is_temporary, temporary_name,
};
use serde::Serialize;

use crate::handshake::{HANDSHAKE_FILE, HandshakeResult};
use crate::host::{file_names, read_json};
use crate::log;
use crate::outgoing::Readable;
use crate::stop::Error;

/// Maximum length of a heartbeat in bytes; its numbers may have twenty digits.
const BEAT_BYTES_MAX: usize = 100;

/// `agent/` of a session.
#[derive(Debug)]
pub(crate) struct AgentHalf {
    dir: PathBuf,
    unique: AtomicU64,
    steps: AtomicU64,
    crash_after: Option<u64>,
}

impl AgentHalf {
    pub(crate) fn new(session: &Path, crash_after: Option<u64>) -> Self {
        let dir = session.join(AGENT_DIR);
        Self { dir, unique: AtomicU64::new(0), steps: AtomicU64::new(0), crash_after }
    }

    /// Removes temporary files of a killed incarnation. Only the incarnation that may work calls it.
    pub(crate) fn sweep_temporaries(&self) -> Result<(), Error> {
        let files = self.out_dir().join(FILES_DIR);
        let mut dirs = vec![self.dir.clone(), self.dir.join(ACK_DIR), self.out_dir()];
        for name in names(&files)? {
            dirs.push(files.join(name));
        }
        for dir in dirs {
            for name in names(&dir).unwrap_or_default().into_iter().filter(|name| is_temporary(name)) {
                if let Err(error) = fs::remove_file(dir.join(&name)) {
                    log::note(format_args!("cannot remove the unfinished file {name}: {error}; left there"));
                }
            }
        }
        Ok(())
    }

    /// The acks that finish messages, of any incarnation, that the host has not consumed yet.
    pub(crate) fn end_acks(&self) -> Result<BTreeSet<AckName>, Error> {
        let names = names(&self.dir.join(ACK_DIR))?;
        let ends = |name: &AckName| name.status != AckStatus::Processing;
        Ok(names.iter().filter_map(|name| AckName::parse(name)).filter(ends).collect())
    }

    /// The further messages that an ack finishes. A permanently unreadable ack finishes none: the host rejects it too.
    pub(crate) fn ends(&self, name: &AckName) -> Result<Vec<u64>, Error> {
        match read_json::<Ack>(&self.dir.join(ACK_DIR).join(name.to_string())) {
            Ok(ack) => Ok(ack.ends),
            // The host removes the messages before the ack.
            Err(error) if error.is_gone() => Ok(Vec::new()),
            Err(error) if error.is_final() => {
                log::note(format_args!("an ack ends only the message in its name: {error}"));
                Ok(Vec::new())
            }
            Err(error) => Err(Error::Ack(error)),
        }
    }

    /// The highest number among the outgoing messages that the host has not consumed yet. Both contents and names
    /// count, since a message file may be unreadable, and attachments may exist for a message that was never written.
    pub(crate) fn highest_number(&self) -> Result<u64, Error> {
        let mut highest = 0;
        for name in names(&self.out_dir().join(FILES_DIR))? {
            highest = highest.max(number_in(&name));
        }
        for name in names(&self.out_dir())?.iter().filter(|name| OutId::from_file_name(name).is_some()) {
            highest = highest.max(number_in(name));
            match read_json::<OutMessage>(&self.out_dir().join(name)) {
                Ok(out) => highest = highest.max(out.number),
                Err(error) if error.is_gone() => {}
                Err(error) => {
                    log::note(format_args!("an earlier answer cannot be read: {error}; only its name is used"))
                }
            }
        }
        Ok(highest)
    }

    /// Writes an ack. An existing one has the same content and is kept.
    pub(crate) fn ack(&self, ack: &Ack) -> Result<(), Error> {
        let name = AckName { seq: ack.seq, incarnation: ack.incarnation, status: ack.status }.to_string();
        let dir = self.dir.join(ACK_DIR);
        // The directory entry of a claim needs no sync: if a crash of the machine loses a claim, the message counts as
        // not started.
        let lasting = if ack.status == AckStatus::Processing { Lasting::Content } else { Lasting::Place };
        if dir.join(&name).exists() { Ok(()) } else { self.write_json(&dir, &name, ack, lasting) }
    }

    pub(crate) fn out(&self, message: &OutMessage) -> Result<(), Error> {
        self.write_json(&self.out_dir(), &message.id.file_name(), message, Lasting::Place)
    }

    /// Writes one attachment of an outgoing message. The caller has checked `name`.
    pub(crate) fn out_file(&self, id: &OutId, name: &str, content: &mut Readable<'_>) -> Result<(), Error> {
        let files = self.out_dir().join(FILES_DIR);
        let dir = files.join(id.as_str());
        let failed = |source| Error::Write { path: dir.join(name), source };
        if !dir.is_dir() {
            fs::create_dir(&dir).and_then(|()| sync_dir(&files)).map_err(failed)?;
            self.step();
        }
        let temporary = dir.join(self.temporary(name));
        let mut copy = || -> io::Result<()> {
            let mut file = File::create_new(&temporary)?;
            content.copy_to(&mut file)?;
            file.sync_all()?;
            self.step();
            fs::rename(&temporary, dir.join(name))?;
            sync_dir(&dir)
        };
        let copied = copy();
        if copied.is_err() && fs::remove_file(&temporary).is_err() {
            // It was renamed, or never created.
        }
        copied.map_err(failed)?;
        self.step();
        Ok(())
    }

    /// Deletes attachments whose message will not be written.
    pub(crate) fn drop_out_files(&self, id: &OutId) {
        let dir = self.out_dir().join(FILES_DIR).join(id.as_str());
        if let Err(error) = fs::remove_dir_all(&dir)
            && error.kind() != io::ErrorKind::NotFound
        {
            log::note(format_args!("cannot remove the unsent files in {}: {error}; left there", dir.display()));
        }
    }

    pub(crate) fn write_state(&self, state: &State) -> Result<(), Error> {
        self.write_json(&self.dir, STATE_FILE, state, Lasting::Not)
    }

    pub(crate) fn write_handshake(&self, result: &HandshakeResult) -> Result<(), Error> {
        self.write_json(&self.dir, HANDSHAKE_FILE, result, Lasting::Not)
    }

    pub(crate) fn write_session(&self, session: &SessionFile) -> Result<(), Error> {
        self.write_json(&self.dir, SESSION_FILE, session, Lasting::Place)
    }

    /// Writes the heartbeat. On a full disk it overwrites the existing file, which needs no space: a runner that waits
    /// for space is not dead.
    pub(crate) fn write_heartbeat(&self, heartbeat: &Heartbeat) -> Result<(), Error> {
        match self.write_json(&self.dir, HEARTBEAT_FILE, heartbeat, Lasting::Not) {
            Err(error) if error.is_full_disk() => self.beat_in_place(heartbeat).map_err(|_| error),
            written => written,
        }
    }

    /// A concurrent reader may see half a heartbeat, and reads again.
    fn beat_in_place(&self, heartbeat: &Heartbeat) -> io::Result<()> {
        let mut file = File::options().write(true).open(self.dir.join(HEARTBEAT_FILE))?;
        let before = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX).min(BEAT_BYTES_MAX);
        let beat = serde_json::to_string(heartbeat)?;
        file.write_all(format!("{beat:before$}").as_bytes())
    }

    /// The last state; `None` if absent or unreadable, since it can be rebuilt.
    pub(crate) fn last_state(&self) -> Option<State> {
        read_json(&self.dir.join(STATE_FILE)).ok()
    }

    pub(crate) fn last_heartbeat(&self) -> Option<Heartbeat> {
        read_json(&self.dir.join(HEARTBEAT_FILE)).ok()
    }

    pub(crate) fn last_session(&self) -> Option<SessionFile> {
        match read_json(&self.dir.join(SESSION_FILE)) {
            Ok(session) => Some(session),
            Err(error) if error.is_gone() => None,
            Err(error) => {
                log::note(format_args!("continuations are lost, conversations begin anew: {error}"));
                None
            }
        }
    }

    fn out_dir(&self) -> PathBuf {
        self.dir.join(OUT_DIR)
    }

    fn temporary(&self, name: &str) -> String {
        let count = self.unique.fetch_add(1, Ordering::Relaxed);
        temporary_name(name, (u64::from(std::process::id()) << 32) | (count & 0xffff_ffff))
    }

    fn write_json<T: Serialize>(&self, dir: &Path, name: &str, value: &T, lasting: Lasting) -> Result<(), Error> {
        let path = dir.join(name);
        let bytes = match serde_json::to_vec(value) {
            Ok(bytes) => bytes,
            Err(error) => return Err(Error::Encode { path, reason: error.to_string() }),
        };
        self.write_bytes(dir, name, &bytes, lasting).map_err(|source| Error::Write { path, source })
    }

    /// Writes a file. Data that only describes the present is not synced: it is worthless after a crash of the machine,
    /// and syncing would delay answers.
    fn write_bytes(&self, dir: &Path, name: &str, bytes: &[u8], lasting: Lasting) -> io::Result<()> {
        let temporary = dir.join(self.temporary(name));
        let written = File::create_new(&temporary).and_then(|mut file| {
            file.write_all(bytes)?;
            if lasting == Lasting::Not { Ok(()) } else { file.sync_all() }
        });
        if let Err(error) = written {
            // The temporary name is unique; an unfinished file only takes space, which may be what is missing.
            return fs::remove_file(&temporary).and(Err(error));
        }
        if lasting != Lasting::Not {
            self.step();
        }
        fs::rename(&temporary, dir.join(name))?;
        if lasting == Lasting::Place {
            sync_dir(dir)?;
        }
        if lasting != Lasting::Not {
            self.step();
        }
        Ok(())
    }

    /// Counts a durable step, and kills the process after the number of steps that a crash test requested.
    fn step(&self) {
        let done = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        if self.crash_after == Some(done) {
            crate::life::die();
        }
    }
}

/// How much of a file survives a crash of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lasting {
    /// Nothing is guaranteed.
    Not,
    /// If the file exists, it is complete.
    Content,
    /// The file exists and is complete.
    Place,
}

/// The number in an id of the form `<incarnation>-<number>-<seq>`; 0 for other ids.
fn number_in(id: &str) -> u64 {
    id.split('-').nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn names(dir: &Path) -> Result<Vec<String>, Error> {
    file_names(dir).map_err(|source| Error::Directory { path: dir.to_owned(), source })
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_beat_that_finds_no_room_goes_into_the_file_that_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let agent = AgentHalf::new(dir.path(), None);
        fs::create_dir(&agent.dir).unwrap();
        let beat = |beat| Heartbeat { v: 1, incarnation: 1, beat, rest_ms: Some(beat) };
        assert!(agent.beat_in_place(&beat(1)).is_err(), "there is none");
        agent.write_heartbeat(&beat(1_000)).unwrap();
        let file = || fs::metadata(agent.dir.join(HEARTBEAT_FILE)).unwrap().ino();
        let before = file();
        for number in [9, 99_999] {
            agent.beat_in_place(&beat(number)).unwrap();
            assert_eq!((agent.last_heartbeat(), file()), (Some(beat(number)), before));
        }
        fs::write(agent.dir.join(HEARTBEAT_FILE), vec![b' '; 1_000_000]).unwrap();
        agent.beat_in_place(&beat(1)).unwrap();
        assert_eq!(agent.last_heartbeat(), Some(beat(1)));
    }
}
