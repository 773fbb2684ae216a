//! Sample directories with their sessions, and files of agent groups.

use super::{AGENT, OutboundId, SESSION, SessionId, SkipId, at, blob, json};
use crate::model::Awake;
use crate::model::approval::Decider;
use crate::model::group::{
    FieldName, PendingResponse, PendingState, SeenId, StateField, StateFile, StatePart, StateTrouble,
};
use crate::model::record::{ImportedFile, Lease, RecordBody, SessionRecord, SpeakerRole};
use crate::model::session::{
    Base, Compaction, Lineage, Revision, Session, SessionLabel, SessionSource, WorkspaceSession,
};
use crate::model::skip::{SkipAnswer, SkipFile, SkipKind, SkipReport, SkipState, SkipStep, SkipSummary};
use crate::model::take_in::PartialImport;
use crate::model::workspace::{
    Discriminator, Fingerprint, Witness, Workspace, WorkspaceEvent, WorkspaceFact, WorkspaceKey,
};
use crate::{
    Digest, ForeignKey, ImportKey, PendingResponseKey, RecordKey, Result, RevisionKey, SeenIdKey, SessionKey,
    StateFieldKey, Tables, WorkspaceEventKey, Write,
};

const PARENT: SessionId = SessionId::new(3);
const FORK: SessionId = SessionId::new(4);
const TRASHED: SessionId = SessionId::new(5);

/// Fills the tables.
pub(super) fn fill(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    let key = WorkspaceKey { fingerprint: Fingerprint::of_path(b"/home/ada/p"), discriminator: Discriminator(0) };
    let witness =
        Witness { place: "m1".to_owned(), device: 65_024, inode: 1_234, born: Some(1_767_225_600_000_000_000) };
    let workspace = Workspace {
        path: b"/home/ada/p".to_vec(),
        former_paths: vec![b"/home/ada/old".to_vec()],
        aliases: vec![b"/mnt/p".to_vec()],
        agent: None,
        witness: Some(witness.clone()),
        project: Some(b"/home/ada".to_vec()),
        replaced: None,
        current: Some(FORK),
        created: at(1),
    };
    db.workspaces.put(txn, &key, &workspace)?;
    let events = [
        WorkspaceFact::Made,
        WorkspaceFact::Adopted { from: b"/home/ada/old".to_vec() },
        WorkspaceFact::Replaced,
        WorkspaceFact::Returned,
        WorkspaceFact::Attached,
        WorkspaceFact::Aliased { path: b"/mnt/p".to_vec() },
        WorkspaceFact::Restored,
        WorkspaceFact::MismatchRefused { file: "a.jsonl".to_owned(), root: "/b".to_owned() },
        WorkspaceFact::HandedOver { session: PARENT, fork: FORK, to: key },
        WorkspaceFact::TakenOver { session: FORK, parent: PARENT, from: key },
        WorkspaceFact::Imported { sessions: 1 },
    ];
    for (number, what) in (1_u64..).zip(events) {
        db.workspace_events.put(
            txn,
            &WorkspaceEventKey { workspace: key, number },
            &WorkspaceEvent { at: at(2), what },
        )?;
    }
    for (id, row) in [(PARENT, parent()), (FORK, fork()), (TRASHED, trashed())] {
        let row = Session::Workspace(Box::new(row));
        db.sessions.put(txn, &SessionKey { workspace: key, session: id }, &row)?;
    }
    let revision = Revision {
        base: Some(Base { session: FORK, revision: 0, upto: 3 }),
        records: 5,
        messages: 5,
        compaction: fork().compaction.or_else(|| parent().compaction),
        ended: at(3),
    };
    db.revisions.put(txn, &RevisionKey { session: PARENT, revision: 0 }, &revision)?;
    records(db, txn)?;
    files(db, txn)
}

fn parent() -> WorkspaceSession {
    WorkspaceSession {
        label: SessionLabel::new("session-1767225600000-0").unwrap(),
        title: Some("Review".to_owned()),
        model: Some("m".to_owned()),
        created: at(1),
        updated: at(3),
        committed: at(4),
        order: 2,
        revision: 1,
        base: None,
        records: 3,
        messages: 1,
        lineage: None,
        compaction: Some(Compaction { count: 1, removed: 4, summary: "They met.".to_owned() }),
        source: Some(SessionSource {
            path: b"/home/ada/p/.claw/sessions/x.jsonl".to_vec(),
            id: Some("Ünique".to_owned()),
            from_name: true,
            root: Some(b"/home/ada/p".to_vec()),
            torn_tail: Some(b"{\"ty".to_vec()),
            extra: Some(json("{\"session_meta\":{\"x\":1}}")),
        }),
        lease_epoch: 1,
        deleted: None,
    }
}

fn fork() -> WorkspaceSession {
    let key = WorkspaceKey { fingerprint: Fingerprint::of_path(b"/home/ada/p"), discriminator: Discriminator(0) };
    WorkspaceSession {
        label: SessionLabel::new("fork").unwrap(),
        order: 3,
        revision: 0,
        base: Some(Base { session: PARENT, revision: 1, upto: 2 }),
        records: 3,
        lineage: Some(Lineage {
            parent: parent().label.to_string(),
            session: Some((key, PARENT)),
            branch: Some("b 1".to_owned()),
        }),
        compaction: None,
        source: None,
        lease_epoch: 0,
        ..parent()
    }
}

fn trashed() -> WorkspaceSession {
    WorkspaceSession {
        label: SessionLabel::new("gone").unwrap(),
        revision: 0,
        records: 0,
        messages: 0,
        base: None,
        deleted: Some(at(9)),
        ..fork()
    }
}

fn records(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    let message = RecordBody::Message {
        role: SpeakerRole::Assistant,
        blocks: json("[{\"text\":\"pong\",\"type\":\"text\"}]"),
        usage: Some(json("{\"input_tokens\":1}")),
        ends_turn: Some(true),
    };
    let bodies = [RecordBody::Prompt("ping".to_owned()), message, RecordBody::Foreign(json("{\"type\":\"x\"}"))];
    for (number, body) in (1_u64..).zip(bodies) {
        db.records.put(
            txn,
            &RecordKey { of: RevisionKey { session: PARENT, revision: 1 }, number },
            &SessionRecord { at: at(3), body, extra: Some(json("{\"x\":1}")) },
        )?;
    }
    let own = SessionRecord { at: at(4), body: RecordBody::Prompt("and".to_owned()), extra: None };
    let of = RevisionKey { session: FORK, revision: 0 };
    db.records.put(txn, &RecordKey { of, number: 3 }, &own)?;
    let lease = Lease { epoch: 1, pid: 4_711, started: 99, boot: "b1".to_owned(), since: at(3), beat: at(4) };
    db.leases.put(txn, &PARENT, &lease)?;
    for (path, outcome) in [("x.jsonl", Ok(PARENT)), ("y.jsonl", Err("another workspace".to_owned()))] {
        let row = ImportedFile { path: path.into(), at: at(4), outcome, older: Some(17) };
        db.imported_files.put(
            txn,
            &ImportKey { path: Digest::of(path.as_bytes()), content: Digest::of(b"content") },
            &row,
        )?;
    }
    let intake = PartialImport {
        path: b"/home/ada/p/.claw/sessions/z.jsonl".to_vec(),
        digest: [7; 32],
        workspace: WorkspaceKey { fingerprint: Fingerprint::of_path(b"/home/ada/p"), discriminator: Discriminator(0) },
        session: SessionId::new(9),
        revision: 0,
        records: 1,
        messages: 0,
        at: at(3),
    };
    let record = SessionRecord { at: at(3), body: RecordBody::Prompt("ping".to_owned()), extra: None };
    let of = RevisionKey { session: intake.session, revision: 0 };
    db.records.put(txn, &RecordKey { of, number: 1 }, &record)?;
    db.partial_imports.put(txn, &Digest::of(&intake.path), &intake)?;
    Ok(())
}

fn files(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    let file = StateFile {
        digest: Some(blob()),
        writing: Some(blob()),
        looked: at(5),
        dirty: true,
        trouble: Some(StateTrouble::Newer("2".to_owned())),
        quarantined: vec!["session-state.json.corrupt-1".to_owned()],
        last_position: 4,
    };
    db.state_files.put(txn, &AGENT, &file)?;
    let fields = [
        (StatePart::Top, "mood", "1"),
        (StatePart::Sessions, "default", "{\"epoch\":1}"),
        (StatePart::Muted, "t1", "true"),
    ];
    for (position, (part, name, value)) in (1_u64..).zip(fields) {
        let name = FieldName::of(name);
        let key = StateFieldKey { agent: AGENT, part, name: ForeignKey::of(&name) };
        let (value, known) = (Some(json(value)), vec![None, Some(json("2"))]);
        db.state_fields.put(txn, &key, &StateField { name, value, known, position, changed: at(5) })?;
    }
    let seen = SeenId { id: "\"mail-1\"".to_owned(), position: 1, first: at(4) };
    let key = ForeignKey::of(&seen.id);
    db.seen_ids.put(txn, &SeenIdKey { agent: AGENT, id: key }, &seen)?;
    let message = "77".to_owned();
    let key = ForeignKey::of(&message);
    let pending = PendingResponse {
        message,
        value: json("{}"),
        position: 2,
        since: at(4),
        due: at(90),
        state: PendingState::Waiting,
    };
    db.pending_responses.put(txn, &PendingResponseKey { agent: AGENT, message: key }, &pending)?;
    let states = [
        SkipState::Waiting,
        SkipState::Surfaced(OutboundId::new(1), at(8)),
        SkipState::Taken(at(8)),
        SkipState::Retried(at(8)),
        SkipState::Acknowledged { by: Decider::Operator, answer: SkipAnswer::Leave, at: at(8) },
        SkipState::Sending(OutboundId::new(2), at(8)),
        SkipState::Unsent("nobody".to_owned(), at(8)),
    ];
    for (number, state) in (1_u64..).zip(states) {
        skip(db, txn, SkipId::new(number), state)?;
    }
    Ok(())
}

fn skip(db: &Tables, txn: &mut Write<'_>, id: SkipId, state: SkipState) -> Result<()> {
    let technical = id.number().is_multiple_of(2);
    let skip = SkipSummary {
        agent: AGENT,
        skill: "tessl__check-cfps".to_owned(),
        session: Some(SESSION),
        report: SkipReport {
            digest: blob(),
            step: if technical { SkipStep::Number(3) } else { SkipStep::Name("tier 3".to_owned()) },
            reason: "nightly budget".to_owned(),
            items: vec!["cfp-1".to_owned()],
            kind: if technical { SkipKind::Technical } else { SkipKind::Policy },
            occurred: at(5),
        },
        taken: at(6),
        noticed: Awake::new(1, 6),
        file: match state {
            SkipState::Taken(_) => SkipFile::Gone,
            SkipState::Retried(_) => SkipFile::Left,
            _ if technical => SkipFile::There,
            _ => SkipFile::Replaced,
        },
        repeats: 1,
        nonce: None,
        state,
    };
    db.skips.put(txn, &id, &skip)
}
