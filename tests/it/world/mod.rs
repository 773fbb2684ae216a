//! A world around the real engine: a store in its own directory, a clock that only tests move, and an outside
//! (mailboxes, runtime, channels) that performs effects when a test lets it.

pub(crate) mod chance;
pub(crate) mod lifecycle;
pub(crate) mod outside;
pub(crate) mod power;
pub(crate) mod requests;
pub(crate) mod routing;
pub(crate) mod schedules;
mod shown;

use std::cell::Cell;
use std::collections::VecDeque;
use std::path::Path;

use hearth::channel::event;
use hearth::config::file;
use hearth::engine::Applied;
use hearth::engine::commit::{Engine, Submission};
use hearth::model::channel::ChannelKind;
use hearth::model::configure::{Change, ChannelSpec, Configure};
use hearth::model::delivery::{Attempt, DeliveryResult, Outbound};
use hearth::model::entity::Origin;
use hearth::model::id::{MessageId, OutboundId, SessionId};
use hearth::model::incarnation::{Incarnation, IncarnationId};
use hearth::model::message::{Message, MessageState};
use hearth::model::policy::Policy;
use hearth::model::report::{ChangeReport, Refusal, Reply, RouteReport};
use hearth::model::session::ChatSession;
use hearth::model::{Awake, ChannelName, Effect, Input, Millis, Moment, Timestamp};
use hearth::state::{self, Error, Read, SessionKey, Store, Tables};
use rustix::fs::{StatVfs, StatVfsMountFlags, statvfs};

pub(crate) use outside::Outside;
use shown::{effect_line, reply_line};

/// The start time of every world.
pub(crate) const NOON: &str = "2026-04-20T12:00:00Z";

/// The engine with a store, a clock and an outside.
pub(crate) struct World {
    /// None only while the store is being reopened.
    engine: Option<Engine>,
    dir: tempfile::TempDir,
    options: state::Options,
    policy: Policy,
    builds: bool,
    wall: i64,
    awake: Awake,
    groups: Cell<u64>,
    /// Whether the final check of its store is skipped.
    pub(crate) forsaken: bool,
    /// Effects to be performed outside, in order.
    pub(crate) effects: VecDeque<Effect>,
    /// Who does it.
    pub(crate) outside: Outside,
    /// Inputs and their results, for snapshots.
    log: Vec<String>,
}

/// A temporary directory. It is in memory if programs may run there and many stores fit, because syncing a disk would
/// take most of a test's time.
pub(crate) fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let fits =
        |disk: StatVfs| disk.f_bavail * disk.f_frsize >= 1 << 30 && !disk.f_flag.contains(StatVfsMountFlags::NOEXEC);
    let mut named = tempfile::Builder::new();
    named.prefix("hearth-");
    if statvfs(memory).is_ok_and(fits) { named.tempdir_in(memory).unwrap() } else { named.tempdir().unwrap() }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Policy::STANDARD, |_| {})
    }

    /// A world with a changed policy, or another store.
    pub(crate) fn with(policy: Policy, change: impl FnOnce(&mut state::Options)) -> Self {
        Self::with_builds(false, policy, change)
    }

    fn with_builds(builds: bool, policy: Policy, change: impl FnOnce(&mut state::Options)) -> Self {
        let dir = directory();
        let mut options = state::Options { reserve_bytes: 0, ..state::Options::new(0xabcd) };
        options.map_bytes = Some(256 << 20);
        options.margin_bytes = 0;
        change(&mut options);
        let store = Store::open(dir.path(), options.clone()).unwrap();
        let run = store.begin_run().unwrap();
        Self {
            engine: Some(engine(store, &policy, builds)),
            dir,
            options,
            policy,
            builds,
            wall: Timestamp::parse(NOON).unwrap().millis(),
            awake: Awake::new(run, 0),
            groups: Cell::new(0),
            forsaken: false,
            effects: VecDeque::new(),
            outside: Outside::default(),
            log: Vec::new(),
        }
    }

    /// A world with an image builder.
    pub(crate) fn building() -> Self {
        Self::with_builds(true, Policy::STANDARD, |_| {})
    }

    /// A world with this configuration.
    pub(crate) fn of(toml: &str) -> Self {
        let mut world = Self::new();
        world.apply(toml);
        world
    }

    pub(crate) fn now(&self) -> Moment {
        Moment { wall: Timestamp::from_millis(self.wall), awake: self.awake }
    }

    /// A different number for every group, the same in every run.
    fn entropy(&self) -> u64 {
        self.groups.set(self.groups.get() + 1);
        self.groups.get()
    }

    /// Advances time while the machine is awake.
    pub(crate) fn pass(&mut self, length: Millis) {
        self.wall += i64::try_from(length.get()).unwrap();
        self.awake = self.awake.plus(length);
    }

    /// Moves the wall clock but not awake time: a suspended machine, or a clock that was set.
    pub(crate) fn step_clock(&mut self, ms: i64) {
        self.wall += ms;
    }

    /// Changes the machine's time zone.
    pub(crate) fn move_to(&mut self, zone: &str) {
        let before = self.engine().move_to(hearth::time::zone::Zone::parse(zone).unwrap());
        self.put(Input::Clock(hearth::model::input::ClockChange::Zone(before.name().to_owned())));
    }

    /// The time until the next deadline.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        self.engine().next_due(self.now()).unwrap()
    }

    /// The daemon dies with everything it had in memory and restarts; `outside` determines what its agents do.
    pub(crate) fn restart(&mut self) {
        self.effects.clear();
        self.awake = Awake::new(self.store().begin_run().unwrap(), 0);
        self.put(Input::Start);
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("the store is open")
    }

    pub(crate) fn store(&self) -> &Store {
        self.engine().store()
    }

    pub(crate) fn read<T>(&self, look: impl FnOnce(&Tables, &Read<'_>) -> Result<T, Error>) -> T {
        self.store().read(look).unwrap()
    }

    /// Applies inputs as one group.
    pub(crate) fn group(&mut self, inputs: Vec<Input>) -> Vec<Result<Applied, Error>> {
        let group: Vec<Submission> = inputs.into_iter().map(Submission::new).collect();
        let answers = self.engine().commit(&group, self.now(), self.entropy()).unwrap();
        for applied in answers.iter().flatten() {
            self.effects.extend(applied.effects.iter().cloned());
        }
        answers
    }

    /// Applies one input; its effects wait to be performed.
    pub(crate) fn try_put(&mut self, input: Input) -> Result<Applied, Error> {
        self.log.push(format!("> {}", shown::input_line(&input)));
        let answer = self.group(vec![input]).pop().unwrap();
        match &answer {
            Ok(applied) => {
                self.log.extend(reply_line(&applied.reply).lines().map(|line| format!("  {line}")));
                // A look at the agent's folder follows every turn and is not of interest.
                let shown = applied.effects.iter().filter(|effect| !matches!(effect, Effect::LookForSkips(..)));
                self.log.extend(shown.map(|effect| format!("  => {}", effect_line(effect))));
            }
            Err(error) => self.log.push(format!("  !! {error}")),
        }
        answer
    }

    pub(crate) fn put(&mut self, input: Input) -> Reply {
        self.try_put(input).unwrap().reply
    }

    /// Asks what an input would do.
    pub(crate) fn dry_run(&self, input: Input) -> Applied {
        self.engine()
            .commit(&[Submission::new(input).dry(true)], self.now(), self.entropy())
            .unwrap()
            .pop()
            .unwrap()
            .unwrap()
    }

    /// Makes segments of the index as the thread beside the transactions does. The next transaction writes them.
    pub(crate) fn make_segments(&self) -> usize {
        self.engine().index_due()
    }

    pub(crate) fn sweep(&mut self) {
        self.put(Input::Sweep(self.outside.observations()));
    }

    /// Performs the waiting effects, and all that follow from them.
    pub(crate) fn settle(&mut self) {
        for _ in 0..10_000 {
            let Some(effect) = self.effects.pop_front() else { return };
            for input in self.outside.perform(effect) {
                self.put(input);
            }
        }
        panic!("effects and inputs follow each other for ever: {:?}", self.effects);
    }

    /// A channel reports the outcome of the newest attempt of a message, or of a message that does not exist.
    pub(crate) fn heard_of(&mut self, id: OutboundId, result: DeliveryResult) {
        let newest = self.read(|db, txn| db.outbound.get(txn, &id)).and_then(|row| row.attempt());
        let none = Attempt { number: 1, since: self.now().awake };
        self.put(Input::Delivered(id, newest.unwrap_or(none), result));
    }

    /// Discards the waiting effects.
    pub(crate) fn lose_effects(&mut self) {
        self.effects.clear();
    }

    /// Applies an input whose effects are lost.
    pub(crate) fn put_alone(&mut self, input: Input) -> Reply {
        let reply = self.put(input);
        self.lose_effects();
        reply
    }

    /// Performs the waiting effects, as after a start or sweep; effects that follow from them are lost.
    pub(crate) fn perform_alone(&mut self) {
        for effect in std::mem::take(&mut self.effects) {
            for input in self.outside.perform(effect) {
                self.put_alone(input);
            }
        }
    }

    pub(crate) fn configure(&mut self, changes: Vec<Change>) -> Result<Vec<ChangeReport>, Refusal> {
        match self.put(Input::Configure(Configure::new(changes, Origin::Runtime))) {
            Reply::Configured(reports) => Ok(reports),
            Reply::Refused(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    /// Applies a `hearth.toml` (without its first line) that must be valid.
    pub(crate) fn apply(&mut self, toml: &str) -> Vec<ChangeReport> {
        match self.put(Input::Configure(configuration(toml))) {
            Reply::Configured(reports) => reports,
            other => panic!("{other:?}"),
        }
    }

    /// Applies an event that must be valid.
    pub(crate) fn inject(&mut self, json: &str) -> RouteReport {
        match self.put(inbound(json)) {
            Reply::Routed(report) => report,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn message(&self, id: MessageId) -> Message {
        self.read(|db, txn| db.messages.require(txn, &id))
    }

    pub(crate) fn state_of(&self, id: MessageId) -> MessageState {
        self.message(id).state
    }

    pub(crate) fn outbound(&self, id: OutboundId) -> Outbound {
        self.read(|db, txn| db.outbound.require(txn, &id))
    }

    /// All outgoing messages, sent or not, oldest first.
    pub(crate) fn all_outbound(&self) -> Vec<(OutboundId, Outbound)> {
        self.read(|db, txn| db.outbound.iter(txn)?.collect())
    }

    pub(crate) fn all_messages(&self) -> Vec<(MessageId, Message)> {
        self.read(|db, txn| db.messages.iter(txn)?.collect())
    }

    pub(crate) fn session(&self, id: SessionId) -> ChatSession {
        self.read(|db, txn| {
            let workspace = db.sessions_by_id.require(txn, &id)?;
            let row = db.sessions.require(txn, &SessionKey { workspace, session: id })?;
            Ok(row.chat().expect("a session of an agent"))
        })
    }

    pub(crate) fn incarnation(&self, session: SessionId, number: u32) -> Incarnation {
        self.read(|db, txn| db.incarnations.require(txn, &IncarnationId { session, number }))
    }

    /// The journal of sessions and messages, as text.
    pub(crate) fn journal(&self) -> Vec<String> {
        self.read(|db, txn| {
            db.journal.iter(txn)?.map(|row| row.map(|(_, entry)| format!("{:?}", entry.event))).collect()
        })
    }

    pub(crate) fn text(&self) -> String {
        state::dump::to_text(self.store().reader(), true).unwrap()
    }

    /// All problems that a check of the store finds.
    pub(crate) fn violations(&self) -> Vec<String> {
        let found = state::check::check_in_parts(self.store().reader()).unwrap();
        found.iter().map(ToString::to_string).collect()
    }

    pub(crate) fn assert_sound(&self) {
        let violations = self.violations();
        assert!(violations.is_empty(), "{}\n{}", violations.join("\n"), self.text());
    }

    /// Clears the record, for a snapshot of what follows.
    pub(crate) fn begin_script(&mut self) {
        self.log.clear();
    }

    /// Compares the record, and the whole store, with the snapshot of this name.
    pub(crate) fn check(&self, name: &str) {
        insta::with_settings!({ snapshot_path => "../snapshots" }, {
            insta::assert_snapshot!(name, format!("{}\n\n{}", self.log.join("\n"), without_index(&self.text())));
        });
    }
}

/// A dump without the index of what was said. It repeats words of other rows, and every check compares it with them.
fn without_index(text: &str) -> String {
    let mut shown = true;
    let is_shown = |line: &&str| {
        if line.starts_with("# ") {
            shown = !line.starts_with("# recall_");
        }
        shown
    };
    text.lines().filter(is_shown).collect::<Vec<_>>().join("\n")
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() && !self.forsaken {
            self.assert_sound();
        }
    }
}

fn engine(store: Store, policy: &Policy, builds: bool) -> Engine {
    Engine::new(store, policy.clone(), b"/data/groups".to_vec()).with_builds(builds)
}

/// The change that configures a channel.
pub(crate) fn channel(name: &str, kind: ChannelKind) -> Change {
    let name = ChannelName::new(name).unwrap();
    Change::PutChannel(ChannelSpec::named(name, kind))
}

/// A file whose agents reach everything, unless it says what they reach.
pub(crate) fn open(toml: &str) -> String {
    let mut parts = toml.split("[[agents]]");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let own = part.split("\n[").next().unwrap_or_default();
        let says = own.lines().any(|line| line.starts_with("network ="));
        let network = if says { "" } else { "\nnetwork = \"open\"" };
        text + "[[agents]]" + network + part
    })
}

/// A `hearth.toml` without its first line. Its agents reach everything unless it says otherwise.
pub(crate) fn configuration(toml: &str) -> Configure {
    file::parse("hearth.toml", &format!("schema = 1\n{}", open(toml))).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn inbound(json: &str) -> Input {
    Input::Inbound(Box::new(event::parse(json.as_bytes()).unwrap_or_else(|error| panic!("{error}: {json}"))))
}

/// An event of chat `C` on `net` with a text. `id` is the platform's, `more` holds further fields of the message.
pub(crate) fn event(id: &str, text: &str, more: &str) -> String {
    event_in(("net", "C", None), (id, text, "\"senderId\":\"ann\",\"senderName\":\"Ann\""), more)
}

/// An event of any chat: channel, chat and thread; id, text and further fields of the content; fields of the message.
pub(crate) fn event_in(place: (&str, &str, Option<&str>), said: (&str, &str, &str), more: &str) -> String {
    let thread = place.2.map_or_else(String::new, |thread| format!(r#","threadId":"{thread}""#));
    let content = [format!(r#""text":{:?}"#, said.1), said.2.to_owned()].join(",");
    let (content, comma) = (content.trim_end_matches(','), if more.is_empty() { "" } else { "," });
    format!(
        r#"{{"channelType":"{}","platformId":"{}"{thread},"message":{{"id":"{}","content":{{{content}}}{comma}{more}}}}}"#,
        place.0, place.1, said.0
    )
}

/// One agent `main` that receives every message of the public chat `C` on `net`.
pub(crate) const ONE: &str = r#"
[[agents]]
folder = "main"
[[chats]]
channel = "net"
platform_id = "C"
unknown_senders = "public"
[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "."
"#;
