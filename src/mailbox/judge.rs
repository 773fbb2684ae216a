//! Classifies a single file of an agent's half from its name and bytes, without a mailbox. Pure.

use hearth_wire::{ACK_DIR, AckName, HEARTBEAT_FILE, Heartbeat, OUT_DIR, OutId, SESSION_FILE, STATE_FILE};
use hearth_wire::{SessionFile, State};

use super::cleaner::Cleaner;
use super::observe::read_own;
use super::parse;
use crate::model::mailbox::{Failure, Said};
use crate::model::secrets::Secrets;
use crate::model::task::Gated;

/// Kind of a file.
#[derive(Debug)]
pub enum Judged {
    /// A claim or an end: how the turn failed if it did, and why a task did not wake its agent.
    Ack(Failure, Option<Gated>),
    /// An outgoing message, and whether it waits for an ack. Its files are not examined.
    Said(Box<Said>, bool),
    /// The runner's state.
    Own,
}

/// Reads a file as a look into a mailbox does; `name` is relative to the agent's half, like `ack/4.1.completed.json`.
///
/// # Errors
/// Why it is refused, in the words that are stored.
pub fn judge(name: &str, bytes: &[u8]) -> Result<Judged, String> {
    let secrets = Secrets::default();
    let cleaner = &mut Cleaner::new(&secrets);
    match name.split_once('/') {
        Some((ACK_DIR, name)) => {
            let ack = parse::ack(AckName::parse(name).ok_or("its name is not that of an ack")?, bytes, cleaner)?;
            Ok(Judged::Ack(parse::failure(&ack), parse::gated(&ack)))
        }
        Some((OUT_DIR, name)) => {
            let id = OutId::from_file_name(name).ok_or("its name is not that of an answer")?;
            let parsed = parse::out(&id, bytes, cleaner).map_err(|refusal| refusal.reason)?;
            Ok(Judged::Said(Box::new(parsed.said), parsed.is_final))
        }
        None if name == HEARTBEAT_FILE => own(read_own::<Heartbeat>(bytes)),
        None if name == STATE_FILE => own(read_own::<State>(bytes)),
        None if name == SESSION_FILE => own(read_own::<SessionFile>(bytes)),
        _ => Err("no file of an agent has this name".to_owned()),
    }
}

fn own<T>(read: Option<T>) -> Result<Judged, String> {
    read.map(|_| Judged::Own).ok_or_else(|| "it says nothing".to_owned())
}
