//! Simulates an installation under everything that can go wrong, over the real engine and a real store in memory.
//!
//! Clock, mailboxes, containers and networks are simulated, and all randomness follows from the seed. Each step draws
//! from a stream of its own, so steps can be left out without changing the others: that is how a failing run is shrunk.
//! After every step the invariants are checked; in the end the faults stop, and everything that was ever accepted is
//! accounted for.
//!
//! Switches of the plan turn it into a run about one subject: lost effects, approvals, schedules, repeated inputs.
//!
//! A restart finds the state of the last sync. Hearth syncs every commit before anyone learns of it, so a power cut can
//! only lose the commit in progress. See `World::cut_power`.

mod account;
mod agents;
pub(crate) mod attempt;
mod budgets;
mod faults;
mod hosts;
mod invariants;
mod outputs;
mod people;
pub(crate) mod plan;
mod platform;
mod recall;
mod restored;
mod rights;
mod room;
mod setting;
mod stray;
mod tasks;
mod tools;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use hearth::model::channel::ChannelKind;
use hearth::model::id::SessionId;
use hearth::model::policy::Policy;
use hearth::model::report::Reply;
use hearth::model::task_command::TaskCommand;
use hearth::model::{Effect, Input, Millis};

use self::agents::Mind;
use self::invariants::Memory;
use self::outputs::AgentOutputs;
use self::people::Event;
use self::plan::{Effects, Kind, Plan, Setting};
use self::platform::Platform;
use self::restored::Saved;
use self::room::Room;
use self::setting::DOOMED;
use self::stray::is_idempotent;
use crate::slots::{Book, DAY, TaskHost, changes};
use crate::world::chance::Chance;
use crate::world::{World, channel};

/// Steps after which segments of the index are made beside the transactions.
const SEGMENTS_EVERY: u64 = 5;
/// Number of inputs shown for a failed run.
const TRAIL: usize = 40;

/// How many effects and reports are lost.
struct Faults {
    /// Percentage of lost effects, of inputs other than start and sweep.
    effects: u64,
    /// Percentage of lost effects of start and sweep.
    sure_effects: u64,
    /// Percentage of lost reports from outside.
    news: u64,
    /// Maximum number of effects that are carried out in a step.
    hands: u64,
    /// Some reports come after later ones.
    late: bool,
}

impl Faults {
    fn of(plan: &Plan) -> Self {
        let mut chance = Chance(plan.seed);
        match plan.effects {
            Effects::None => Self::NONE,
            Effects::Dropped => Self::DROPPED,
            Effects::Some => Self {
                effects: *chance.pick(&[0, 10, 40, 80, 100]),
                sure_effects: *chance.pick(&[0, 0, 20, 50]),
                news: *chance.pick(&[0, 10, 30]),
                hands: *chance.pick(&[2, 5, 1_000, 1_000]),
                late: chance.one_in(2),
            },
        }
    }

    const NONE: Self = Self { effects: 0, sure_effects: 0, news: 0, hands: 10_000, late: false };

    const DROPPED: Self = Self { effects: 100, ..Self::NONE };
}

pub(crate) struct Sim {
    pub(crate) plan: Plan,
    pub(crate) step: u64,
    world: World,
    chance: Chance,
    faults: Faults,
    book: Book,
    /// Effects that were not performed yet.
    due: VecDeque<Effect>,
    /// Results of effects that wait in the daemon's queue.
    late: VecDeque<Input>,
    platform: Rc<RefCell<Platform>>,
    events: Vec<Event>,
    minds: BTreeMap<(SessionId, u32), Mind>,
    numbers: BTreeMap<SessionId, u64>,
    /// Output of incarnations that are not closed.
    outputs: BTreeMap<(SessionId, u32), AgentOutputs>,
    /// Number of files at the last look into each mailbox.
    looked: BTreeMap<SessionId, usize>,
    doomed: bool,
    /// The newest backup.
    saved: Option<Saved>,
    room: Room,
    /// The step from which on there is space again.
    tight_until: u64,
    memory: Memory,
    trail: VecDeque<(u64, Input)>,
    seasons: Vec<i64>,
    ends: i64,
    /// How often each kind of thing happened.
    pub(crate) happened: BTreeMap<&'static str, u64>,
    /// Number of committed inputs.
    pub(crate) inputs: u64,
}

impl TaskHost for Sim {
    fn world(&self) -> &World {
        &self.world
    }

    fn tell(&mut self, command: TaskCommand) -> Option<Reply> {
        self.put(Input::Task(command)).filter(|reply| !room::is_full(reply))
    }
}

impl Sim {
    pub(crate) fn new(plan: Plan) -> Self {
        let policy =
            Policy { held_max: 4, approvals_per_chat: 3, cards_per_decider: rights::CARDS, ..Policy::STANDARD };
        let mut world = World::with(policy, |options| Room::Enough.set(options));
        for (name, kind) in [("net", ChannelKind::Telegram), ("web", ChannelKind::Webhook)] {
            world.configure(vec![channel(name, kind)]).unwrap();
        }
        world.apply(&plan.setting.toml());
        if plan.setting == Setting::Full && plan.seed % 3 == 1 {
            budgets::set(&mut world);
        }
        // An agent that is removed at the end at the latest.
        let doomed = plan.setting == Setting::Full && plan.seed.is_multiple_of(2);
        if doomed {
            world.apply(DOOMED);
        }
        world.lose_effects();
        let platform = platform::connect(&mut world.outside, &plan);
        let start = world.now().wall.millis();
        let days = i64::try_from(plan.days).unwrap();
        let zones = plan.setting.zones();
        let mut seasons: Vec<i64> =
            zones.iter().flat_map(|zone| changes((start, start + (days + 40) * DAY), zone.parse().unwrap())).collect();
        seasons.sort_unstable();
        Self {
            step: 0,
            chance: Chance(plan.seed),
            faults: Faults::of(&plan),
            book: Book::new(zones),
            due: VecDeque::new(),
            late: VecDeque::new(),
            platform,
            events: Vec::new(),
            minds: BTreeMap::new(),
            numbers: BTreeMap::new(),
            outputs: BTreeMap::new(),
            looked: BTreeMap::new(),
            doomed,
            saved: None,
            room: Room::Enough,
            tight_until: 0,
            memory: Memory::of(&world),
            trail: VecDeque::new(),
            seasons,
            ends: start + days * DAY,
            happened: BTreeMap::new(),
            inputs: 0,
            plan,
            world,
        }
    }

    /// Runs all steps and the final account.
    pub(crate) fn run(&mut self) {
        while self.world.now().wall.millis() < self.ends && self.plan.steps.is_none_or(|most| self.step < most) {
            self.step += 1;
            self.chance = Chance::of_step(self.plan.seed, self.step);
            if !self.plan.is_idle(self.step) {
                self.do_step();
            }
        }
        self.chance = Chance::of_step(self.plan.seed, 0);
        self.drain();
        self.account();
    }

    fn do_step(&mut self) {
        if self.step.is_multiple_of(SEGMENTS_EVERY) && self.world.make_segments() > 0 {
            self.count("segments made");
        }
        let ms = *self.chance.pick(&[0, 500, 3_000, 12_000]);
        self.world.pass(Millis::new(ms));
        let kinds = self.plan.weights();
        let mut dice = self.chance.next(kinds.iter().map(|(.., weight)| weight).sum());
        let chosen = kinds.iter().find(|(.., weight)| match dice.checked_sub(*weight) {
            Some(rest) => {
                dice = rest;
                false
            }
            None => true,
        });
        let Some((kind, word, _)) = chosen.filter(|(kind, ..)| self.plan.is_allowed(*kind)) else { return };
        self.count(word);
        if self.is_tight() && self.step >= self.tight_until {
            self.widen();
            self.prove(); // a sender whose message was routed may lose the membership a moment later
        }
        self.happen(*kind);
        if self.plan.setting == Setting::Zones {
            self.everyone_works();
        }
        self.reach_out();
        let hands = 1 + self.chance.next(self.faults.hands);
        self.perform(hands);
        self.prove();
        if self.plan.is_allowed(Kind::Restore) {
            self.back_up_or_restore();
        }
    }

    fn happen(&mut self, kind: Kind) {
        match kind {
            Kind::Say => self.say(),
            Kind::Again => self.say_again(),
            Kind::Crowd => self.crowd(),
            Kind::Work => self.work(),
            Kind::Look => self.look(),
            Kind::Ghost => self.ghost(),
            Kind::Die => self.die(),
            Kind::Sweep => self.sweep(),
            Kind::Quiet => self.quiet(),
            Kind::Suspend => self.suspend(),
            Kind::Back => self.set_back(),
            Kind::Ahead => self.jump_ahead(),
            Kind::Season => self.season(),
            Kind::Crash => self.crash(),
            Kind::Cut => self.cut(),
            Kind::Tight => self.tighten(),
            Kind::Press => self.press(),
            Kind::Word => self.word(),
            Kind::Command => self.command(),
            Kind::Thread => self.thread(),
            Kind::Task => self.task(),
            Kind::Skip => self.skip(),
            Kind::Twice => self.twice(),
            Kind::Channel => self.change_mood(),
            Kind::Restore => {} // follows a step
            Kind::Due => self.until_due(),
            Kind::Skew => self.skew(),
            Kind::Errand => self.errand(),
            Kind::Stray => self.stray(),
        }
    }

    /// Applies one input; none if there was no space for it.
    fn put(&mut self, input: Input) -> Option<Reply> {
        let repeated = (self.plan.twice && is_idempotent(&input)).then(|| input.clone());
        let reply = self.put_all(vec![input]).pop().flatten();
        if let Some(input) = repeated {
            self.changes_nothing(input);
        }
        reply
    }

    /// Applies inputs as one group. Their effects are lost or wait, at random.
    fn put_all(&mut self, inputs: Vec<Input>) -> Vec<Option<Reply>> {
        for input in &inputs {
            self.trail.push_back((self.step, input.clone()));
        }
        self.trail.drain(..self.trail.len().saturating_sub(TRAIL));
        self.inputs += u64::try_from(inputs.len()).unwrap();
        let open = self.is_open();
        let answers = self.world.group(inputs.clone());
        self.world.lose_effects();
        let mut replies = Vec::new();
        for (input, answer) in inputs.iter().zip(answers) {
            let applied = match answer {
                Err(error) if error.is_full() => {
                    self.found_no_room(input);
                    replies.push(None);
                    continue;
                }
                answer => answer.unwrap(),
            };
            assert!(applied.problems.is_empty(), "{:?}", applied.problems);
            self.answered_for_want_of_room(input, &applied.reply, open);
            let sure = matches!(input, Input::Start | Input::Sweep(_));
            let lost = if sure { self.faults.sure_effects } else { self.faults.effects };
            for effect in applied.effects {
                if self.chance.next(100) >= lost {
                    self.due.push_back(effect);
                }
            }
            if matches!(input, Input::Start) {
                self.book.renew(&self.world);
            }
            if sure && open {
                self.book.look(self.world.now().wall.millis());
            }
            replies.push(Some(applied.reply));
        }
        replies
    }

    /// Performs effects in order; their results may be lost or arrive late.
    fn perform(&mut self, most: u64) {
        for _ in 0..most {
            let Some(effect) = self.due.pop_front() else { return };
            self.an_attempt_is_committed(&effect);
            for news in self.world.outside.perform(effect) {
                if self.chance.next(100) < self.faults.news {
                    continue;
                }
                if self.faults.late && self.chance.one_in(10) {
                    self.late.push_back(news);
                    continue;
                }
                self.put(news);
            }
        }
    }

    /// The newest inputs, for debugging a failure.
    pub(crate) fn trail(&self) -> String {
        let line = |(step, input): &(u64, Input)| {
            let text: String = format!("{input:?}").chars().take(400).collect();
            format!("{step}: {text}")
        };
        self.trail.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Skips the check of the store: the run has failed already.
    pub(crate) fn give_up(mut self) {
        self.world.forsaken = true;
    }

    pub(crate) fn days_passed(&self) -> i64 {
        (self.world.now().wall.millis() - self.ends) / DAY + i64::try_from(self.plan.days).unwrap()
    }

    /// Sessions with a running incarnation.
    fn running(&self) -> Vec<(SessionId, u32)> {
        self.world.outside.running.iter().map(|(session, number)| (*session, *number)).collect()
    }

    /// The daemon forgets its pending effects and its queued inputs.
    fn forget(&mut self) {
        self.due.clear();
        self.late.clear();
    }

    /// Counts an event.
    fn count(&mut self, what: &'static str) {
        *self.happened.entry(what).or_default() += 1;
    }

    fn somebody(&mut self) -> Option<(SessionId, u32)> {
        let running = self.running();
        (!running.is_empty()).then(|| *self.chance.pick(&running))
    }
}

/// Numbers without the given ones.
fn without(all: &BTreeSet<u64>, those: &BTreeSet<u64>) -> Vec<u64> {
    all.difference(those).copied().collect()
}
