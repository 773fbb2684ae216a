//! Large stores: routing into them beside its floor, and the commands that read all of them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use criterion::Criterion;
use hearth::engine::commit::Submission;
use hearth::mailbox::{Blobs, Mailboxes};
use hearth::model::id::SessionId;

use crate::ground::asked::{Asked, at_most};
use crate::ground::compare::compare;
use crate::ground::floor::read_all;
use crate::ground::part::{Part, middle, ms};
use crate::ground::{Ground, moment, now, place, threaded};

/// Name of the part with the commands.
pub(crate) const NAME: &str = "at size";

const SESSIONS: usize = 100_000;
const MESSAGES: usize = 1_000_000;
/// Inputs of one commit.
const IN_FLIGHT: usize = 64;
/// Commits of one scenario.
const COMMITS: usize = 20;
/// Pairs of Hearth and its floor.
const PAIRS: usize = 9;
/// Mailboxes that are read one after the other.
const MAILBOXES: usize = 1_000;

const CONFIGURATION: &str = "schema = 1\n[[agents]]\nfolder = \"a\"\n\
    [[users]]\nid = \"bench:1\"\nroles = [\"owner\"]\n\
    [[chats]]\nchannel = \"bench\"\nplatform_id = \"c\"\nunknown_senders = \"strict\"\n\
    [[chats.wirings]]\nagent = \"a\"\nengage = \"pattern\"\npattern = \".\"\nsession = \"per-thread\"\n";

/// Routing, beside its floor.
pub(crate) fn routing(c: &mut Criterion) {
    let row = |c: &mut Criterion, name: &str, (sessions, messages): (usize, usize)| {
        if Asked::now().wants(name) {
            let ground = filled(sessions, messages, 0);
            // The threads of one commit lie far apart.
            let thread = |n: usize| if sessions == 0 { n } else { n * 7_919 % sessions };
            let one = |n: usize| threaded(thread(n), &format!("new{n}"));
            let group = |group: usize| (0..IN_FLIGHT).map(|n| one(group * IN_FLIGHT + n)).collect();
            let groups: Vec<Vec<Submission>> = (0..at_most(COMMITS)).map(group).collect();
            compare(c, name, &ground, &groups, (groups.len() * IN_FLIGHT, PAIRS));
        }
    };
    let sessions = at_most(SESSIONS);
    row(c, "route, a new session each, 64 in flight", (0, 0));
    row(c, "route, 64 in flight over 100,000 sessions", (sessions, sessions));
    row(c, "route, 64 in flight over a million messages", (sessions, messages()));
}

/// Commands over a large store, and what is read at every sweep.
pub(crate) fn all(asked: &Asked) {
    if !asked.wants(NAME) {
        return;
    }
    let columns = ["at size", "Hearth", "floor", "what the floor is"].map(str::to_owned);
    let mut part = Part::new(NAME, &columns);
    let times = asked.size(5, 3, 1);
    let mut add = |what: String, floor_is: &str, floor: &dyn Fn(), hearth: &dyn Fn()| {
        let pair = |_| (timed(hearth), timed(floor));
        let (hearth, floor): (Vec<_>, Vec<_>) = (0..times).map(pair).unzip();
        part.add(&[what, ms(middle(hearth)), ms(middle(floor)), floor_is.to_owned()]);
    };
    let ground = filled(at_most(SESSIONS), messages(), 60_000);
    let (data, messages) = (ground.dir.path(), messages());
    let rows = || read_all(&ground);
    let sessions = at_most(SESSIONS);
    let version = || hearth(data, &["--version"]);
    let list = || hearth(data, &["sessions", "list", "--data", &data.to_string_lossy()]);
    add(format!("`sessions list`, 50 of {sessions}"), "start of the program", &version, &list);
    let check = || hearth(data, &["check", "--data", &data.to_string_lossy()]);
    add(format!("`check`, {messages} messages"), "raw LMDB reads all rows once", &rows, &check);
    let backup = || {
        let to = tempfile::tempdir_in(place()).unwrap();
        let copy = to.path().join("backup");
        hearth(data, &["backup", &copy.to_string_lossy(), "--data", &data.to_string_lossy()]);
    };
    let copy = || drop(ground.copy());
    add(format!("`backup`, {messages} messages"), "copy of the file, with a sync", &copy, &backup);
    let mailboxes = Opened::new(at_most(MAILBOXES));
    let (read, names) = (|| mailboxes.read(), || mailboxes.names());
    add(format!("reading {} mailboxes", mailboxes.count), "names in `ack` and `out`", &names, &read);
    part.keep(asked);
}

fn messages() -> usize {
    at_most(SESSIONS) * (MESSAGES / SESSIONS)
}

/// A store with so many messages, one session after the other; the clock advances by `step` milliseconds per commit.
fn filled(sessions: usize, messages: usize, step: u64) -> Ground {
    Ground::new(CONFIGURATION, |engine| {
        let numbers: Vec<usize> = (0..messages).collect();
        for (number, group) in (0..).zip(numbers.chunks(500)) {
            let said = |number: &usize| threaded(number % sessions, &format!("m{number}"));
            let group: Vec<Submission> = group.iter().map(said).collect();
            engine.commit(&group, moment(number * step), 7).unwrap();
        }
    })
}

fn timed(what: &dyn Fn()) -> Duration {
    let begin = now();
    what();
    now() - begin
}

fn hearth(data: &Path, arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
    command.args(arguments).env_remove("XDG_RUNTIME_DIR").stdout(Stdio::null()).stderr(Stdio::inherit());
    assert!(command.status().unwrap().success(), "{arguments:?} over {}", data.display());
}

/// Mailboxes of sessions that have nothing new to say.
struct Opened {
    dir: tempfile::TempDir,
    mailboxes: Mailboxes,
    count: usize,
}

impl Opened {
    fn new(count: usize) -> Self {
        let dir = tempfile::tempdir_in(place()).unwrap();
        let blobs = Arc::new(Blobs::open(&dir.path().join("files")).unwrap());
        let mailboxes = Mailboxes::open(&dir.path().join("sessions"), blobs, "bench").unwrap();
        let opened = Self { dir, mailboxes, count };
        opened.sessions().for_each(|session| opened.mailboxes.prepare(session).unwrap());
        opened
    }

    fn sessions(&self) -> impl Iterator<Item = SessionId> + use<> {
        (1..=self.count as u64).map(SessionId::new)
    }

    /// What every sweep reads of every live session.
    fn read(&self) {
        for session in self.sessions() {
            self.mailboxes.observe(session, 1).unwrap();
            self.mailboxes.collect(session, 1_000).unwrap();
        }
    }

    fn names(&self) {
        for session in self.sessions() {
            let agent = self.dir.path().join(format!("sessions/{session}/agent"));
            for names in ["ack", "out"] {
                assert!(std::fs::read_dir(agent.join(names)).unwrap().count() <= 1, "only `out/files`");
            }
        }
    }
}
