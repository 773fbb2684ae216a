//! Reference for wirings that follow threads.

use std::collections::{BTreeMap, BTreeSet};

use hearth::model::Millis;
use hearth::model::configure::Change;
use hearth::model::entity::Folder;
use hearth::model::report::Decision;
use proptest::prelude::*;

use crate::world::chance::cases;
use crate::world::routing::{place, sticky_rows};
use crate::world::{World, event_in};

const KEEPING: &str = r#"
[[agents]]
folder = "main"
[[chats]]
channel = "net"
platform_id = "C"
group = true
unknown_senders = "public"
[[chats.wirings]]
agent = "main"
ignored = "accumulate"
[[agents]]
folder = "fan"
[[chats.wirings]]
agent = "fan"
engage = "mention-sticky"
ignored = "accumulate"
"#;

fn a_thread() -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![Just(None), Just(Some("a")), Just(Some("b"))]
}

/// Events in threads of a group: messages that address the bot or do not, passing time, and operator commands.
#[derive(Debug, Clone)]
enum Step {
    Said { thread: Option<&'static str>, mention: bool },
    Passed(u64),
    Muted(Option<&'static str>),
    Unmuted(Option<&'static str>),
    Ended(Option<&'static str>),
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (a_thread(), any::<bool>()).prop_map(|(thread, mention)| Step::Said { thread, mention }),
        2 => (1..30_u64).prop_map(Step::Passed),
        1 => a_thread().prop_map(Step::Muted),
        2 => a_thread().prop_map(Step::Unmuted),
        1 => a_thread().prop_map(Step::Ended),
    ]
}

/// What a sticky wiring should do, in its simplest form.
#[derive(Default)]
struct Model {
    hour: u64,
    until: BTreeMap<Option<&'static str>, u64>,
    muted: BTreeSet<Option<&'static str>>,
}

impl Model {
    /// Does a step. For a message, returns whether it engages.
    fn step(&mut self, step: &Step) -> Option<bool> {
        match *step {
            Step::Said { thread, mention } => {
                let muted = self.muted.contains(&thread) || self.muted.contains(&None);
                let engages = !muted && (mention || self.until.get(&thread).is_some_and(|until| self.hour < *until));
                if engages {
                    self.until.insert(thread, self.hour + 24);
                }
                return Some(engages);
            }
            Step::Passed(hours) => self.hour += hours,
            Step::Muted(thread) => {
                self.muted.insert(thread);
                self.end(thread);
            }
            Step::Unmuted(thread) => {
                self.muted.remove(&thread);
            }
            Step::Ended(thread) => self.end(thread),
        }
        None
    }

    fn end(&mut self, thread: Option<&'static str>) {
        self.until.retain(|known, _| thread.is_some() && *known != thread);
    }
}

fn real_step(world: &mut World, step: &Step, id: usize) -> Option<bool> {
    let change = match *step {
        Step::Said { thread, mention } => {
            let mention = if mention { "\"isMention\":true" } else { "" };
            let report = world.inject(&event_in(("net", "C", thread), (&id.to_string(), "x", ""), mention));
            world.lose_effects();
            let fan = report.wirings.iter().find(|wiring| wiring.agent.as_str() == "fan").unwrap();
            return Some(fan.decision == Decision::Engaged);
        }
        Step::Passed(hours) => {
            world.pass(Millis::minutes(hours * 60));
            if hours % 2 == 0 {
                world.sweep();
            }
            return None;
        }
        Step::Muted(thread) => Change::Mute(Folder::new("fan").unwrap(), place(thread)),
        Step::Unmuted(thread) => Change::Unmute(Folder::new("fan").unwrap(), place(thread)),
        Step::Ended(thread) => Change::EndSticky(Folder::new("fan").unwrap(), place(thread)),
    };
    // Undoing something that does not exist is refused and changes nothing.
    drop(world.configure(vec![change]));
    None
}

proptest! {
    #![proptest_config(cases(24))]

    /// A sticky wiring engages when it is addressed or was addressed lately, in threads that are not muted, and at no
    /// other time.
    #[test]
    fn stickiness_is_its_model(steps in proptest::collection::vec(a_step(), 1..40)) {
        let (mut world, mut model) = (World::of(KEEPING), Model::default());
        for (id, step) in steps.iter().enumerate() {
            prop_assert_eq!(real_step(&mut world, step, id), model.step(step), "step {} of {:?}", id, steps);
        }
    }

    /// Context, however often it arrives, starts no following and wakes no agent.
    #[test]
    fn accumulating_never_sticks(said in proptest::collection::vec((a_thread(), 0..9_u8), 1..30)) {
        let mut world = World::of(KEEPING);
        for (thread, id) in said {
            world.inject(&event_in(("net", "C", thread), (&id.to_string(), "x", ""), ""));
        }
        prop_assert_eq!(sticky_rows(&world), 0);
        prop_assert!(world.all_messages().iter().all(|(_, message)| !message.trigger));
        prop_assert!(world.effects.is_empty());
    }
}
