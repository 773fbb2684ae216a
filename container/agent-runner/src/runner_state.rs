//! The state of the runner that outlives turns, and its acks.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hearth_wire::{Ack, AckStatus, Gated, InMessage, OutId, Usage, WIRE_VERSION};

use crate::agent::AgentHalf;
use crate::clock::{Stopwatch, now_iso};
use crate::failure::Failure;
use crate::gate::RunGuard;
use crate::host::HostHalf;
use crate::inbox::Inbox;
use crate::memory::Memory;
use crate::numbers::Numbers;
use crate::outgoing::LastAddresses;
use crate::read_error::ReadError;
use crate::roots::Roots;
use crate::state::StateBoard;
use crate::stop::{Error, Stop};
use crate::tool_calls::CallLedger;
use crate::{commands, log, secrets};

/// How long to wait for space on a full disk, and the pause between tries.
const FULL_DISK_PATIENCE: Duration = Duration::from_secs(60);
const FULL_DISK_PAUSE: Duration = Duration::from_millis(500);
/// Maximum length in bytes of an error reported to the host.
const ERROR_BYTES: usize = 4096;

/// The state of the runner that outlives turns.
#[derive(Debug)]
pub(crate) struct RunnerState {
    pub(crate) host: HostHalf,
    pub(crate) gate: RunGuard,
    pub(crate) agent: Arc<AgentHalf>,
    pub(crate) memory: Memory,
    pub(crate) numbers: Numbers,
    pub(crate) board: StateBoard,
    pub(crate) inbox: Inbox,
    pub(crate) heard: LastAddresses,
    pub(crate) roots: Roots,
    /// What the provider used of models and no ack says yet.
    pub(crate) usage: Vec<Usage>,
    /// The tool calls.
    pub(crate) calls: CallLedger,
}

impl RunnerState {
    /// Writes something of a turn, if this incarnation still may. On a full disk it retries for a while, because
    /// failing would repeat the whole turn.
    pub(crate) fn write(&mut self, attempt: &mut dyn FnMut(&AgentHalf) -> Result<(), Error>) -> Result<(), Stop> {
        let waiting = Stopwatch::start();
        let mut said = false;
        loop {
            self.gate.pass()?;
            match attempt(&self.agent) {
                Err(error) if error.is_full_disk() && waiting.elapsed() < FULL_DISK_PATIENCE => {
                    if !said {
                        log::note(format_args!("{error}; waiting for room"));
                    }
                    said = true;
                    std::thread::sleep(FULL_DISK_PAUSE);
                }
                written => return Ok(written?),
            }
        }
    }

    /// Claims messages, each with its own ack.
    pub(crate) fn claim(&mut self, seqs: &[u64]) -> Result<(), Stop> {
        for seq in seqs {
            let ack = self.ack(*seq, AckStatus::Processing);
            self.write(&mut |agent| agent.ack(&ack))?;
            self.board.claimed(*seq);
        }
        Ok(())
    }

    /// Finishes all messages of a turn with one ack, that of the last message: as completed or as failed.
    pub(crate) fn end(&mut self, seqs: &[u64], out: Vec<OutId>, failure: Option<&Failure>) -> Result<(), Stop> {
        let Some((last, others)) = seqs.split_last() else { return Ok(()) };
        let status = if failure.is_some() { AckStatus::Failed } else { AckStatus::Completed };
        let error = failure.map(|failure| {
            let text = secrets::redacted(&failure.error);
            text.get(..text.floor_char_boundary(ERROR_BYTES)).unwrap_or(&text).to_owned()
        });
        let retry = failure.and_then(|failure| failure.retry);
        let usage = std::mem::take(&mut self.usage);
        let ack = Ack { out, ends: others.to_vec(), error, retry, usage, ..self.ack(*last, status) };
        self.write(&mut |agent| agent.ack(&ack))?;
        self.board.ended(seqs);
        self.inbox.finish(seqs);
        Ok(())
    }

    /// Finishes a single task whose agent is not woken.
    pub(crate) fn end_gated(&mut self, seq: u64, gated: Gated) -> Result<(), Stop> {
        let ack = Ack { gated: Some(gated), ..self.ack(seq, AckStatus::Completed) };
        self.write(&mut |agent| agent.ack(&ack))?;
        self.board.ended(&[seq]);
        self.inbox.finish(&[seq]);
        Ok(())
    }

    /// Claims messages that arrived during a turn, if one of them triggers. Messages from a command on are left for
    /// later turns.
    pub(crate) fn arrived(&mut self, provider: &str) -> Result<Option<Vec<InMessage>>, Stop> {
        let found = self.inbox.look(&self.host, &self.agent)?;
        self.numbers.seen(found.highest);
        for (seq, error) in &found.broken {
            self.refuse(*seq, error)?;
        }
        if !self.inbox.asks() {
            return Ok(None);
        }
        let (now, later) = commands::cut(self.inbox.take(), provider);
        self.inbox.put_back(later);
        // A script would delay the turn, so it runs afterwards.
        let (scripted, now): (Vec<_>, Vec<_>) =
            now.into_iter().partition(|message| commands::script_of(message).is_some());
        self.inbox.put_back(scripted);
        if !now.iter().any(|message| message.trigger) || commands::of_turn(&now, provider).is_some() {
            self.inbox.put_back(now);
            return Ok(None);
        }
        self.claim(&now.iter().map(|message| message.seq).collect::<Vec<_>>())?;
        Ok(Some(now))
    }

    /// Fails a message that can never be read, so that the host reports it.
    pub(crate) fn refuse(&mut self, seq: u64, error: &ReadError) -> Result<(), Stop> {
        log::note(format_args!("message {seq} cannot be read: {error}"));
        self.claim(&[seq])?;
        self.end(&[seq], Vec::new(), Some(&Failure::lasting(error.to_string())))
    }

    /// The session's directory.
    pub(crate) fn root(&self) -> &Path {
        self.host.dir().parent().unwrap_or(Path::new("/"))
    }

    /// An ack without optional fields.
    fn ack(&self, seq: u64, status: AckStatus) -> Ack {
        let (out, ends, incarnation) = (Vec::new(), Vec::new(), self.gate.incarnation());
        Ack {
            v: WIRE_VERSION,
            seq,
            incarnation,
            status,
            at: now_iso(),
            out,
            ends,
            error: None,
            gated: None,
            retry: None,
            usage: Vec::new(),
        }
    }
}
