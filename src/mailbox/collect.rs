//! Reads the agent's half of a mailbox into a [`Collection`].
//!
//! Order: first `ack/`, then `out/`. A runner writes its messages before the ack that ends the turn, so every message
//! written before a visible ack is visible too. Collecting changes nothing, with two exceptions: files to send are
//! copied to a safe place, and leftovers that no record refers to are removed when the incarnation is gone.
//! [`super::discard`] removes collected files after the commit. Collecting twice finds the same things.
//! One collection is bounded in entries, bytes and records, so an agent can slow down only itself.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

use hearth_wire::{ACK_DIR, Ack, AckName, AckStatus, FILES_DIR, OUT_DIR, OutId, limits};

use crate::model::mailbox::{Answer, CollectedRecord, Collection, Hidden, HiddenFile, Record, Said};
use crate::model::secrets::Secrets;

use super::blobs::Blobs;
use super::budget::MOST;
use super::clean::{clean, is_unfinished};
use super::cleaner::Cleaner;
use super::dir::{Dir, DirEntry};
use super::error::Error;
use super::keep::{self, OutgoingFiles};
use super::layout::Mailbox;
use super::parse::{self, Parsed};
use super::share::Room;
use super::text;

/// Maximum number of entries of one directory per collection.
pub(super) const ENTRIES: usize = 10_000;
/// Bytes of answers that one end may name.
const ANSWER_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes of files copied per collection; the last message may exceed this.
const COPIED_BYTES: u64 = 64 * 1024 * 1024;
/// Answers that one end may name.
const ANSWERS: usize = 100;
/// Bytes read per collection from answers that are not due yet.
const WAITING_BYTES: u64 = 64 * 1024 * 1024;

/// Result of one collection.
#[derive(Debug)]
pub struct Collected {
    /// For the engine. An empty collection that closes nothing need not be submitted.
    pub collection: Collection,
    /// Secrets that were removed from it.
    pub hidden: Hidden,
    /// The mailbox has more than one collection takes: discard what this one found, then collect again.
    pub more: bool,
    /// A directory has more entries than one collection reads. A sane agent never causes this.
    pub crowded: bool,
    /// Number of accepted records outside of answers, leftovers included. Each becomes a row of the store.
    pub said: u32,
    /// Number of such records that were discarded because there were too many.
    pub left_out: u32,
    /// Files that the system could not read or copy now. They stay for the next collection.
    pub faults: Vec<Error>,
}

/// Collects the output of a live session.
pub(super) fn collect(mailbox: &Mailbox, blobs: &Blobs, allowed: u32, secrets: &Secrets) -> Result<Collected, Error> {
    Collector::new(mailbox, blobs, allowed, secrets, None).run()
}

/// Collects everything that a dead incarnation left. Closes it when nothing is left for another collection.
pub(super) fn collect_rest(
    mailbox: &Mailbox,
    blobs: &Blobs,
    incarnation: u32,
    allowed: u32,
    secrets: &Secrets,
) -> Result<Collected, Error> {
    // The effect may arrive late: the output of the next incarnation is not part of this.
    let stale = mailbox.incarnation()?.is_some_and(|current| current > incarnation);
    Collector::new(mailbox, blobs, allowed, secrets, Some(Gone { incarnation, stale })).run()
}

/// An incarnation that is gone.
#[derive(Debug, Clone, Copy)]
struct Gone {
    incarnation: u32,
    /// A later incarnation was prepared since and may be writing.
    stale: bool,
}

/// The end of a turn, before its answers are attached.
#[derive(Debug)]
struct End {
    name: AckName,
    ack: Ack,
}

struct Collector<'a> {
    mailbox: &'a Mailbox,
    blobs: &'a Blobs,
    /// Removes secrets from the input.
    cleaner: Cleaner<'a>,
    /// Files that have secrets in them.
    hidden_files: Vec<HiddenFile>,
    gone: Option<Gone>,
    /// Remaining records outside of answers.
    allowed: u32,
    /// Files of the records beyond that limit.
    left_out: Vec<String>,
    left_out_count: u32,
    refused: Vec<CollectedRecord>,
    claims: Vec<CollectedRecord>,
    said: Vec<(u64, CollectedRecord)>,
    ends: Vec<CollectedRecord>,
    leftovers: Vec<(u64, CollectedRecord)>,
    /// For everything but ends.
    room: Room,
    /// For ends. Separate, so that neither kind can crowd out the other.
    end_room: Room,
    /// For answers that ends name.
    answer_room: Room,
    waiting_bytes: u64,
    /// Remaining bytes of files to copy: other sessions wait for the disk meanwhile.
    copied_bytes: u64,
    /// Nothing was left for another collection.
    complete: bool,
    crowded: bool,
    removed: bool,
    faults: Vec<Error>,
}

impl<'a> Collector<'a> {
    fn new(mailbox: &'a Mailbox, blobs: &'a Blobs, allowed: u32, secrets: &'a Secrets, gone: Option<Gone>) -> Self {
        Self {
            mailbox,
            blobs,
            cleaner: Cleaner::new(secrets),
            hidden_files: Vec::new(),
            gone,
            allowed,
            left_out: Vec::new(),
            left_out_count: 0,
            refused: Vec::new(),
            claims: Vec::new(),
            said: Vec::new(),
            ends: Vec::new(),
            leftovers: Vec::new(),
            room: Room::WHOLE,
            end_room: Room::WHOLE,
            answer_room: Room { bytes: ANSWER_BYTES, ..Room::WHOLE },
            waiting_bytes: WAITING_BYTES,
            copied_bytes: COPIED_BYTES,
            complete: true,
            crowded: false,
            removed: false,
            faults: Vec::new(),
        }
    }

    fn run(mut self) -> Result<Collected, Error> {
        let ends = self.read_acks()?;
        let all_acks = self.complete && self.faults.is_empty();
        self.read_out(&ends, all_acks)?;
        // Claims and messages come before ends, even if there is too much for one collection.
        let ends = if self.room.is_full() { self.postpone(ends) } else { ends };
        for end in ends {
            self.take_end(&end);
        }
        Ok(self.finish())
    }

    /// Collects claims and returns the ends, in order.
    fn read_acks(&mut self) -> Result<Vec<End>, Error> {
        let Some(dir) = self.open(&self.mailbox.agent, ACK_DIR, ACK_DIR)? else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        for name in self.list(&dir)? {
            match name.to_str().and_then(AckName::parse) {
                Some(name) => names.push(name),
                None => self.odd_name(&dir, ACK_DIR, &name, "its name is not that of an ack"),
            }
        }
        names.sort_unstable_by_key(|n| (n.status != AckStatus::Processing, n.seq, n.incarnation, n.status));
        Ok(names.into_iter().filter_map(|name| self.read_ack(&dir, name)).collect())
    }

    fn read_ack(&mut self, dir: &Dir, name: AckName) -> Option<End> {
        let is_claim = name.status == AckStatus::Processing;
        if if is_claim { &self.room } else { &self.end_room }.is_full() {
            self.complete = false;
            return None;
        }
        let file = format!("{ACK_DIR}/{name}");
        let bytes = self.read(dir, &name.to_string(), &file)?;
        let ack = match parse::ack(name, &bytes, &mut self.cleaner) {
            Ok(ack) => ack,
            Err(reason) => {
                self.refuse(file.clone(), reason, vec![file]);
                return None;
            }
        };
        if !is_claim {
            self.end_room.take(1, bytes.len());
            return Some(End { name, ack });
        }
        self.room.take(1, bytes.len());
        let record = Record::Claim { seq: ack.seq, incarnation: ack.incarnation };
        self.claims.push(CollectedRecord { record, files: vec![file] });
        None
    }

    fn read_out(&mut self, ends: &[End], all_acks: bool) -> Result<(), Error> {
        let named: BTreeSet<&OutId> = ends.iter().flat_map(|end| &end.ack.out).collect();
        let Some(dir) = self.open(&self.mailbox.agent, OUT_DIR, OUT_DIR)? else { return Ok(()) };
        // Only to detect another kind of entry with this name.
        self.open(&dir, FILES_DIR, &format!("{OUT_DIR}/{FILES_DIR}"))?;
        for name in self.list(&dir)? {
            match name.to_str().and_then(OutId::from_file_name) {
                Some(id) if named.contains(&id) => {}
                Some(id) => self.look_at(&dir, &id, all_acks),
                None if name == FILES_DIR => {}
                None => self.odd_name(&dir, OUT_DIR, &name, "its name is not that of an answer"),
            }
        }
        Ok(())
    }

    /// Handles a file that no ack names: collect it now, wait for its ack, or treat it as a leftover.
    fn look_at(&mut self, dir: &Dir, id: &OutId, all_acks: bool) {
        if self.room.is_full() || self.copied_bytes == 0 || (!all_acks && self.gone.is_some()) {
            self.complete = false;
            return;
        }
        let may_be_named = self.gone.is_none_or(|gone| gone.stale);
        if may_be_named && self.waiting_bytes == 0 {
            self.crowded = true;
            return;
        }
        let file = format!("{OUT_DIR}/{}", id.file_name());
        let Some(bytes) = self.read(dir, &id.file_name(), &file) else { return };
        match parse::out(id, &bytes, &mut self.cleaner) {
            Ok(parsed) if !parsed.is_final => {
                self.say(id, parsed, bytes.len());
            }
            Ok(parsed) => self.unnamed(id, parsed.said, bytes.len()),
            Err(refusal) if refusal.is_final && may_be_named => self.wait(bytes.len()),
            Err(refusal) => {
                let files = self.files_of(id);
                self.refuse(file, refusal.reason, files);
            }
        }
    }

    /// A final answer without an ack.
    fn unnamed(&mut self, id: &OutId, said: Said, bytes: usize) {
        match self.gone {
            Some(gone) if said.incarnation <= gone.incarnation => {
                if !self.may_say(id, bytes) {
                    return;
                }
                self.room.take(1, bytes);
                let files = self.files_of(id);
                self.leftovers.push((said.number, CollectedRecord { record: Record::Leftover(said), files }));
            }
            Some(gone) if !gone.stale => {
                let reason =
                    format!("it names incarnation {}, the last one was {}", said.incarnation, gone.incarnation);
                let files = self.files_of(id);
                self.refuse(format!("{OUT_DIR}/{}", id.file_name()), reason, files);
            }
            _ => self.wait(bytes),
        }
    }

    fn wait(&mut self, bytes: usize) {
        self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes as u64);
    }

    /// Whether one more record is allowed. If not, its files are removed anyway.
    fn may_say(&mut self, id: &OutId, bytes: usize) -> bool {
        if self.allowed == 0 {
            self.room.take(0, bytes);
            let files = self.files_of(id);
            self.left_out.extend(files);
            self.left_out_count = self.left_out_count.saturating_add(1);
            return false;
        }
        self.allowed -= 1;
        true
    }

    /// Collects a message sent during the turn.
    fn say(&mut self, id: &OutId, parsed: Parsed, bytes: usize) {
        if !self.may_say(id, bytes) {
            return;
        }
        match self.keep(id, parsed) {
            Ok(said) => {
                self.room.take(1, bytes);
                let files = self.files_of(id);
                self.said.push((said.number, CollectedRecord { record: Record::Said(said), files }));
            }
            Err(error) => self.faults.push(error),
        }
    }

    fn take_end(&mut self, end: &End) {
        if self.answer_room.is_full() || self.copied_bytes == 0 {
            self.complete = false;
            return;
        }
        let mut files = Vec::new();
        let answers = match self.answers(end, &mut files) {
            Ok(answers) => answers,
            Err(error) => return self.faults.push(error),
        };
        let also: BTreeSet<u64> = end.ack.ends.iter().copied().filter(|seq| *seq != end.name.seq).collect();
        self.answer_room.take(answers.len() + also.len(), 0);
        files.push(format!("{ACK_DIR}/{}", end.name));
        let failure = (end.name.status == AckStatus::Failed).then(|| parse::failure(&end.ack));
        let used = parse::used(&end.ack).map(|record| CollectedRecord { record, files: Vec::new() });
        self.ends.extend(used);
        let gated = parse::gated(&end.ack);
        let also = also.into_iter().collect();
        let record =
            Record::End { seq: end.name.seq, also, incarnation: end.name.incarnation, failure, gated, answers };
        self.ends.push(CollectedRecord { record, files });
    }

    /// The answers that an end names. The ack is removed after them: if it is read again, the answers are missing,
    /// which is known to be harmless.
    fn answers(&mut self, end: &End, files: &mut Vec<String>) -> Result<Vec<Answer>, Error> {
        let mut seen = BTreeSet::new();
        let mut answers = Vec::new();
        let mut left = ANSWER_BYTES;
        let DirEntry::Found(dir) = self.mailbox.agent.dir(OUT_DIR)? else {
            return Ok(end.ack.out.iter().take(ANSWERS).map(|id| Answer::Missing(id.to_string())).collect());
        };
        for id in end.ack.out.iter().filter(|id| seen.insert(*id)) {
            if answers.len() == ANSWERS {
                let reason = format!("an ack may name {ANSWERS} answers, this one names {}", end.ack.out.len());
                answers.push(Answer::Refused { id: id.to_string(), reason });
                break;
            }
            let answer = self.answer(&dir, id, &mut left)?;
            if !matches!(answer, Answer::Missing(_)) {
                files.extend(self.files_of(id));
            }
            answers.push(answer);
        }
        Ok(answers)
    }

    fn answer(&mut self, dir: &Dir, id: &OutId, left: &mut u64) -> Result<Answer, Error> {
        let refused = |reason| Ok(Answer::Refused { id: id.to_string(), reason });
        let bytes = match dir.read(id.file_name().as_ref(), limits::JSON_BYTES)? {
            DirEntry::Found(bytes) => bytes,
            DirEntry::Absent => return Ok(Answer::Missing(id.to_string())),
            DirEntry::Refused(reason) => return refused(reason),
        };
        let size = bytes.len() as u64;
        if size > *left {
            return refused(format!("the answers of one ack have more than {ANSWER_BYTES} bytes"));
        }
        *left -= size;
        self.answer_room.take(0, bytes.len());
        match parse::out(id, &bytes, &mut self.cleaner) {
            Ok(parsed) if parsed.is_final => self.keep(id, parsed).map(|said| Answer::Read(Box::new(said))),
            Ok(parsed) => {
                // A mid-turn message counts from when it was written; the ack adds nothing to it.
                self.say(id, parsed, bytes.len());
                Ok(Answer::Missing(id.to_string()))
            }
            Err(refusal) => refused(refusal.reason),
        }
    }

    /// Copies the files of an answer out of the agent's reach.
    fn keep(&mut self, id: &OutId, parsed: Parsed) -> Result<Said, Error> {
        let (incarnation, secrets) = (parsed.said.incarnation, self.cleaner.secrets);
        let OutgoingFiles { files, refused, hidden } =
            keep::keep(self.mailbox, self.blobs, secrets, id, incarnation, &parsed.files)?;
        self.hidden_files.extend(hidden);
        if let Some((name, reason)) = refused.first() {
            let others = match refused.len() - 1 {
                0 => String::new(),
                others => format!("; {others} more were skipped"),
            };
            let file = self.cleaner.text(format!("{OUT_DIR}/{FILES_DIR}/{id}/{name}"));
            let record = Record::Unreadable { file, reason: format!("{reason}{others}") };
            self.refused.push(CollectedRecord { record, files: Vec::new() });
        }
        let copied = files.iter().map(|file| file.attachment.size).sum();
        self.copied_bytes = self.copied_bytes.saturating_sub(copied);
        Ok(Said { files, ..parsed.said })
    }

    /// Reads a file of the agent. Unreadable files are reported.
    fn read(&mut self, dir: &Dir, name: &str, file: &str) -> Option<Vec<u8>> {
        match dir.read(OsStr::new(name), limits::JSON_BYTES) {
            Ok(DirEntry::Found(bytes)) => return Some(bytes),
            Ok(DirEntry::Absent) => {}
            Ok(DirEntry::Refused(reason)) => self.refuse(file.to_owned(), reason, vec![file.to_owned()]),
            Err(error) => self.faults.push(error),
        }
        None
    }

    fn odd_name(&mut self, dir: &Dir, parent: &str, name: &OsStr, reason: &str) {
        if !is_unfinished(name) {
            let file = format!("{parent}/{}", text::escape(name));
            let plain = name.to_string_lossy();
            let clean = self.cleaner.text(plain.clone().into_owned()); // escapes would hide a value
            let shown =
                if clean == plain { file.clone() } else { format!("{parent}/{}", text::escape(clean.as_ref())) };
            self.refuse(shown, reason.to_owned(), vec![file]);
        } else if self.gone.is_some_and(|gone| !gone.stale) {
            match self.mailbox.trash.take(dir, name) {
                Ok(()) => self.removed = true,
                Err(error) => self.faults.push(error),
            }
        }
    }

    fn refuse(&mut self, file: String, reason: String, files: Vec<String>) {
        if self.room.is_full() {
            self.complete = false;
            return;
        }
        self.room.take(1, 0);
        // The agent controls both.
        let (file, reason) = (self.cleaner.text(file), self.cleaner.text(reason));
        self.refused.push(CollectedRecord { record: Record::Unreadable { file, reason }, files });
    }

    fn postpone(&mut self, ends: Vec<End>) -> Vec<End> {
        self.complete = self.complete && ends.is_empty();
        Vec::new()
    }

    /// The files of an answer, in the order in which they may be removed.
    fn files_of(&self, id: &OutId) -> Vec<String> {
        let directory = format!("{OUT_DIR}/{FILES_DIR}/{id}");
        // When in doubt it is listed: removing what is not there is harmless.
        let has_files = match self.mailbox.agent.dir(format!("{OUT_DIR}/{FILES_DIR}")) {
            Ok(DirEntry::Found(files)) => files.has(OsStr::new(id.as_str())).unwrap_or(true),
            _ => false,
        };
        let json = format!("{OUT_DIR}/{}", id.file_name());
        if has_files { vec![directory, json] } else { vec![json] }
    }

    fn open(&mut self, parent: &Dir, name: &str, path: &str) -> Result<Option<Dir>, Error> {
        match parent.dir(name)? {
            DirEntry::Found(dir) => return Ok(Some(dir)),
            DirEntry::Absent => {}
            DirEntry::Refused(reason) => self.refuse(path.to_owned(), reason, vec![path.to_owned()]),
        }
        Ok(None)
    }

    fn list(&mut self, dir: &Dir) -> Result<Vec<OsString>, Error> {
        let listing = dir.list(ENTRIES)?;
        if listing.cut {
            self.crowded = true;
            self.complete = false;
        }
        Ok(listing.names)
    }

    fn finish(mut self) -> Collected {
        self.said.sort_by_key(|(number, _)| *number);
        self.leftovers.sort_by_key(|(number, _)| *number);
        let said = self.said.len() + self.leftovers.len();
        let mut found = self.refused;
        if self.left_out_count > 0 {
            let reason = format!("more than {MOST} messages were written at once; the others were discarded");
            let record = Record::Unreadable { file: OUT_DIR.to_owned(), reason };
            found.push(CollectedRecord { record, files: self.left_out });
        }
        found.append(&mut self.claims);
        found.extend(self.said.into_iter().map(|(_, found)| found));
        found.append(&mut self.ends);
        found.extend(self.leftovers.into_iter().map(|(_, found)| found));
        let closes = self.gone.filter(|_| self.complete && self.faults.is_empty());
        if closes.is_some_and(|gone| !gone.stale)
            && let Err(error) = clean(self.mailbox, &found)
        {
            self.faults.push(error);
        }
        Collected {
            more: !self.complete && (self.removed || !found.is_empty()),
            crowded: self.crowded,
            said: u32::try_from(said).unwrap_or(u32::MAX),
            left_out: self.left_out_count,
            faults: self.faults,
            hidden: Hidden { names: self.cleaner.found, files: self.hidden_files },
            collection: Collection {
                session: self.mailbox.session,
                found,
                closes: closes.map(|gone| gone.incarnation),
            },
        }
    }
}
