//! Floods: however many people and chats need approvals, a person is shown a few cards, answers are sent first, limits
//! per chat and person hold, and the cost of an input does not grow with the number of open approvals.

use hearth::channel::event;
use hearth::model::card::PromptSubject;
use hearth::model::channel::{ChannelKind, UnknownChats};
use hearth::model::configure::{Change, ChannelSpec};
use hearth::model::content::BlobId;
use hearth::model::delivery::{DeliveryAct, DeliveryResult};
use hearth::model::entity::Folder;
use hearth::model::id::{ApprovalId, OutboundId};
use hearth::model::message::Reason;
use hearth::model::policy::Policy;
use hearth::model::report::Outcome;
use hearth::model::{Input, Millis, UserId};
use hearth::state::touched;

use super::ground::{BARE, GROUP, Ground, address, channel};
use crate::world::outside::{claim, mid_turn, remote, said};
use crate::world::{World, event_in};

const MENTION: &str = "\"isMention\":true";
const SHOWN: usize = Policy::STANDARD.cards_per_decider;

/// Unknown senders mention the bot, each in a chat of their own.
fn flood(ground: &mut Ground, chats: std::ops::Range<usize>) {
    for n in chats {
        mention(ground, n);
    }
    ground.world.settle();
}

fn mention(ground: &mut Ground, n: usize) -> Outcome {
    let event = ground.event(("telegram", &format!("chat-{n}"), None), (&format!("u{n}"), "hi"), MENTION);
    ground.world.inject(&event).outcome
}

fn pass(ground: &mut Ground, length: Millis) {
    ground.world.pass(length);
    ground.world.sweep();
    ground.world.settle();
}

/// Texts of messages that are neither cards nor edits of cards.
fn digests(ground: &Ground) -> Vec<(DeliveryAct, String)> {
    let shown = ground.shown().into_iter();
    shown.filter(|(_, _, text)| text.contains("more question")).map(|(_, act, text)| (act, text)).collect()
}

#[test]
fn a_flood_of_chats_makes_ten_cards_and_one_digest() {
    let mut ground = Ground::in_world(World::new(), BARE);
    flood(&mut ground, 0..1_500);
    assert_eq!((ground.cards().len(), ground.open(), ground.held().len()), (SHOWN, 1_500, 1_500));
    let said = |text: &str| (DeliveryAct::Say, format!("{text}: `hearth approvals list`"));
    assert_eq!(digests(&ground), [said("1 more question waits")]);
    ground.world.assert_sound();
    // It is edited at most once a minute, and only if it changed.
    pass(&mut ground, Millis::seconds(59));
    assert_eq!(digests(&ground).len(), 1);
    pass(&mut ground, Millis::seconds(1));
    assert_eq!(ground.edits(), ["1490 more questions wait: `hearth approvals list`"]);
    pass(&mut ground, Millis::minutes(5));
    assert_eq!((digests(&ground).len(), ground.cards().len()), (2, SHOWN));
    // A decision frees a slot for the oldest waiting approval.
    let (at, card) = ground.cards()[0].clone();
    assert!(ground.presses_on("telegram:owner", (&at, card.button(2))).0);
    assert_eq!(ground.cards().len(), SHOWN + 1);
    assert_eq!(ground.last_card().1.matter, PromptSubject::Approval(ApprovalId::new(11)));
    pass(&mut ground, Millis::minutes(1));
    assert_eq!(ground.edits().last().unwrap(), "1489 more questions wait: `hearth approvals list`");
    ground.world.assert_sound();
}

/// The digest offers no decision and ends when nothing waits.
#[test]
fn the_digest_counts_down() {
    let mut ground = Ground::of(BARE);
    flood(&mut ground, 0..SHOWN + 2);
    pass(&mut ground, Millis::minutes(1));
    assert_eq!(ground.count("waitlists"), 1);
    for id in 1..=2 {
        ground.presses_on_newest_about(ApprovalId::new(id), 2);
    }
    assert_eq!((ground.cards().len(), ground.count("waitlists")), (SHOWN + 2, 1));
    pass(&mut ground, Millis::minutes(1));
    assert_eq!(ground.edits().last().unwrap(), "No more questions wait.");
    assert_eq!(ground.count("waitlists"), 0);
    // A number answers a card, never the digest.
    flood(&mut ground, 100..101);
    assert_eq!((ground.cards().len(), ground.count("waitlists")), (SHOWN + 2, 1));
    ground.world.assert_sound();
}

/// An approval that expires while it waits is never shown.
#[test]
fn what_expires_unseen_makes_no_cards() {
    let mut ground = Ground::of(BARE);
    flood(&mut ground, 0..40);
    ground.world.pass(Policy::STANDARD.approval_lifetime);
    for _ in 0..5 {
        ground.world.sweep();
        ground.world.settle();
    }
    assert_eq!((ground.open(), ground.cards().len()), (0, SHOWN));
    ground.world.assert_sound();
}

/// Each approver has cards of their own. An approver who loses the role is not asked any more.
#[test]
fn what_waits_for_somebody_who_may_not_decide_any_more_is_shown_to_somebody_else() {
    let second = "[[users]]\nid = \"telegram:second\"\nroles = [\"owner\"]\n";
    let mut ground = Ground::of(&format!("{BARE}{second}"));
    flood(&mut ground, 0..SHOWN + 5);
    assert!(ground.card_places().iter().all(|place| place == "telegram/owner"));
    let owner = UserId::parse("telegram:owner").unwrap();
    let revoke = Change::Revoke(owner, hearth::model::configure::RoleSpec::Owner);
    ground.world.configure(vec![revoke]).unwrap();
    ground.world.settle();
    let places = ground.card_places();
    assert_eq!(places.iter().filter(|place| *place == "telegram/second").count(), SHOWN);
    pass(&mut ground, Millis::minutes(1));
    assert_eq!((ground.open(), ground.count("waitlists")), (SHOWN + 5, 1));
    ground.world.assert_sound();
}

/// "Ignore" holds for an hour, however many chats asked since.
#[test]
fn one_card_per_chat_and_hour_holds_in_a_flood() {
    let mut ground = Ground::in_world(World::new(), BARE);
    flood(&mut ground, 0..1);
    assert!(ground.presses("telegram:owner", 2).0);
    flood(&mut ground, 1..301);
    assert_eq!(mention(&mut ground, 0), Outcome::Dropped);
    assert_eq!(ground.reasons().last(), Some(&Reason::Rejected));
    ground.world.pass(Millis::minutes(61));
    assert_eq!(mention(&mut ground, 0), Outcome::Held);
}

/// A new member's messages are routed at once, however many approvals are open.
#[test]
fn a_new_member_is_heard_at_once_in_a_flood() {
    let policy = Policy { approvals_per_chat: 1_000, ..Policy::STANDARD };
    let by_command = |ground: &mut Ground| {
        let member = Change::AddMember(Folder::new("andy").unwrap(), UserId::parse("telegram:late").unwrap());
        // The follow-up inputs are lost: routing happens in the same transaction.
        ground.world.configure(vec![member]).unwrap();
        ground.world.lose_effects();
    };
    let by_decision = |ground: &mut Ground| {
        let ids = ground.approvals();
        ground.decides(ids[ids.len() - 2].0, "approve");
    };
    let ways: [&dyn Fn(&mut Ground); 2] = [&by_command, &by_decision];
    for way in ways {
        let other =
            GROUP.replace("[[agents]]\nfolder = \"andy\"\nname = \"Andy\"\n", "").replace("chat-123", "chat-456");
        let other = other.split("[[chats]]").nth(1).unwrap();
        let toml = format!("{GROUP}[[chats]]{other}");
        let mut ground = Ground::in_world(World::with(policy.clone(), |_| {}), &toml);
        for n in 0..250 {
            let event = ground.event(("telegram", "chat-123", None), (&format!("s{n}"), "hi"), "");
            ground.world.inject(&event);
        }
        ground.world.settle();
        for chat in ["chat-123", "chat-456"] {
            ground.says_in(("telegram", chat, None), ("late", "me too"), "");
        }
        way(&mut ground);
        assert_eq!(ground.heard(), ["me too", "me too"]);
        assert_eq!(ground.open(), 250);
        ground.world.sweep();
        ground.world.settle();
        ground.world.assert_sound();
    }
}

/// After a configuration change all open approvals are examined, even if only sweeps follow.
#[test]
fn every_open_approval_is_looked_at_after_a_change() {
    for only_sweeps in [false, true] {
        let mut ground = Ground::in_world(World::new(), BARE);
        flood(&mut ground, 0..180);
        let wire = "[[chats]]\nchannel = \"telegram\"\nplatform_id = \"chat-170\"\nunknown_senders = \"public\"\n\
                    [[chats.wirings]]\nagent = \"andy\"\nengage = \"pattern\"\npattern = \".\"\n";
        ground.world.apply(wire);
        if only_sweeps {
            for _ in 0..5 {
                ground.world.lose_effects();
                ground.world.sweep();
            }
        } else {
            ground.world.settle();
        }
        assert_eq!((ground.heard(), ground.open()), (vec!["hi".to_owned()], 179), "{only_sweeps}");
        assert!(!ground.world.text().contains("approvals_reconsidered"), "{only_sweeps}");
        ground.world.assert_sound();
    }
}

/// A message, a decision or a sweep reads no additional rows when many approvals are open.
#[test]
fn what_an_input_reads_does_not_grow_with_what_is_open() {
    let mut ground = Ground::in_world(World::new(), BARE);
    let cost = |ground: &mut Ground, from: usize| {
        let measure = |ground: &mut Ground, work: &dyn Fn(&mut Ground)| {
            let before = touched::rows();
            work(ground);
            ground.world.lose_effects();
            touched::rows() - before
        };
        let newest = ground.approvals().last().unwrap().0;
        let decide = Input::Decide(PromptSubject::Approval(newest), "reject".to_owned());
        [
            measure(ground, &|ground| assert_eq!(mention(ground, from), Outcome::Held)),
            measure(ground, &|ground| assert_eq!(mention(ground, from), Outcome::Held)),
            measure(ground, &|ground| drop(ground.world.put(decide.clone()))),
            measure(ground, &|ground| {
                let member = Change::AddMember(Folder::new("andy").unwrap(), UserId::parse("telegram:x").unwrap());
                ground.world.configure(vec![member]).unwrap();
            }),
            measure(ground, &|ground| ground.world.sweep()),
        ]
    };
    // Enough to fill a slice of the walk over open approvals.
    flood(&mut ground, 0..120);
    let few = cost(&mut ground, 9_000);
    flood(&mut ground, 120..1_500);
    let many = cost(&mut ground, 9_001);
    for (at, (few, many)) in few.into_iter().zip(many).enumerate() {
        assert!(few > 0 && many <= few + few / 4 + 4, "input {at}: {few} rows with 120 open, {many} with 1,500");
    }
}

/// An agent's message to a person is sent before the cards that wait for the same person, whatever the state of the
/// first card. Messages stay in order.
#[test]
fn answers_go_before_cards() {
    let ok = || DeliveryResult::Delivered { platform_message: None };
    for (case, first, order) in [
        ("a card is being shown", None, ["card", "one", "two", "card"]),
        ("a card waits for another try", Some(DeliveryResult::Retry("502".to_owned())), ["card", "one", "two", "card"]),
        ("nobody was there", Some(DeliveryResult::Absent), ["card", "one", "two", "card"]),
    ] {
        let own = "[[chats]]\nchannel = \"telegram\"\nplatform_id = \"owner\"\n[[chats.wirings]]\nagent = \"andy\"\n\
                   engage = \"pattern\"\npattern = \".\"\n";
        let mut ground = Ground::of(&format!("{BARE}{own}"));
        ground.says_in(("telegram", "owner", None), ("owner", "what is new?"), MENTION);
        let (session, _) = ground.world.outside.launched[0];
        ground.world.outside.channel = Box::new(|_| None);
        flood(&mut ground, 0..5);
        let card = *ground.world.outside.attempts.last().unwrap();
        let say = |ground: &mut Ground, number: u64| {
            let said = mid_turn(said(number, 1, Some(2), hearth::model::mailbox::Recipient::Reply));
            let input = ground.world.outside.write(session, vec![claim(2, 1), said]);
            ground.world.put(input);
            ground.world.settle();
        };
        match first {
            Some(result) => {
                ground.world.heard_of(card, result);
                say(&mut ground, 3);
                say(&mut ground, 5);
            }
            None => {
                say(&mut ground, 3);
                say(&mut ground, 5);
                ground.world.heard_of(card, ok());
            }
        }
        ground.world.settle();
        for _ in 0..2 {
            let last: OutboundId = *ground.world.outside.attempts.last().unwrap();
            ground.world.heard_of(last, ok());
            ground.world.settle();
        }
        let attempts = ground.world.outside.attempts.clone();
        let what = |id: &OutboundId| match ground.world.outbound(*id) {
            row if matches!(row.act, hearth::model::delivery::Act::Ask(_)) => "card",
            row if row.text.contains('3') => "one",
            _ => "two",
        };
        let from = attempts.iter().position(|id| *id == card).unwrap();
        let seen: Vec<&str> = attempts[from..].iter().map(what).collect();
        assert_eq!(seen, order, "{case}");
        ground.world.assert_sound();
    }
}

/// A card that was decided before anyone saw it is never sent; one that may have been seen is edited.
#[test]
fn the_end_of_a_card_comes_after_the_card() {
    let mut ground = Ground::of(BARE);
    ground.world.outside.channel = Box::new(|_| None);
    flood(&mut ground, 0..2);
    let card = *ground.world.outside.attempts.last().unwrap();
    for id in [1, 2] {
        ground.decides(ApprovalId::new(id), "ignore");
    }
    let acts: Vec<String> =
        ground.world.all_outbound().iter().map(|(_, row)| row.text.lines().last().unwrap_or("").to_owned()).collect();
    assert_eq!(acts.len(), 3, "two cards, and the end of the first one: {acts:?}");
    ground.world.heard_of(card, DeliveryResult::Delivered { platform_message: None });
    ground.world.settle();
    assert_eq!(ground.world.outside.attempts.len(), 2);
    ground.world.assert_sound();
}

/// The channel of these tests, with other settings.
fn set(ground: &mut Ground, change: impl FnOnce(&mut ChannelSpec)) {
    let Change::PutChannel(mut spec) = channel("telegram", ChannelKind::Telegram) else { panic!("no channel") };
    change(&mut spec);
    ground.world.configure(vec![Change::PutChannel(spec)]).unwrap();
    ground.world.lose_effects();
}

/// Where a channel ignores unknown chats, a mention there leaves only a record. The owner is never ignored.
#[test]
fn unknown_chats_can_be_ignored() {
    let mut ground = Ground::of(BARE);
    flood(&mut ground, 0..1);
    set(&mut ground, |spec| spec.unknown_chats = UnknownChats::Ignore);
    assert_eq!((mention(&mut ground, 0), mention(&mut ground, 1)), (Outcome::Dropped, Outcome::Dropped));
    assert_eq!(ground.reasons(), [Reason::NoAgentWired, Reason::NoAgentWired]);
    assert_eq!((ground.cards().len(), ground.open(), ground.held().len(), ground.count("chats")), (1, 1, 1, 2));
    let again = ground.world.inject(&event_in(("telegram", "chat-1", None), ("m3", "hi", ""), MENTION));
    assert_eq!((again.outcome, again.reason), (Outcome::Duplicate, Some(Reason::NoAgentWired)));
    let owner = ground.says_in(("telegram", "own", None), ("owner", "hello"), MENTION);
    assert_eq!(owner.outcome, Outcome::Routed);
}

/// An unknown sender is told once per approval that their message waits, in the chat where they wrote, but not where an
/// agent is muted.
#[test]
fn strangers_are_told_once_that_they_wait() {
    let told = |ground: &Ground| {
        ground.shown().iter().filter(|(at, _, text)| at == "telegram/chat-123" && text.contains("waits")).count()
    };
    let mut ground = Ground::of(GROUP);
    ground.says("quiet", "nobody is told unless the channel says so");
    assert_eq!(told(&ground), 0);
    set(&mut ground, |spec| spec.tell_strangers = true);
    for text in ["one", "two", "three"] {
        ground.says("stranger", text);
    }
    assert_eq!(told(&ground), 1);
    ground.presses("telegram:owner", 1);
    ground.says("stranger", "four");
    assert_eq!(told(&ground), 2);
    let at = address("telegram", "chat-123");
    ground.world.configure(vec![Change::Mute(Folder::new("andy").unwrap(), at)]).unwrap();
    ground.says("another", "five");
    assert_eq!(told(&ground), 2);
    // In a chat without a wired agent they are also told once, although the newest message replaces the others.
    for text in ["one", "two"] {
        ground.says_in(("telegram", "new", None), ("caller", text), MENTION);
    }
    assert_eq!(ground.shown().iter().filter(|(at, _, text)| at == "telegram/new" && text.contains("waits")).count(), 1);
}

/// Sends a message with files of 8 bytes each, and perhaps with one of 3 bytes that stays at the network.
fn send_files(ground: &mut Ground, who: &str, files: usize, at_network: bool) {
    let json = ground.event(("telegram", "chat-123", None), (who, "look"), "");
    let all = vec![r#"{"name":"a.png","data":"MTIzNDU2Nzg="}"#; files].join(",");
    let json = json.replace(r#""text":"look""#, &format!(r#""text":"look","attachments":[{all}]"#));
    let mut digest = [u8::try_from(ground.count("bodies")).unwrap(); 32];
    let keep = |_: Vec<u8>| {
        digest[0] += 1;
        Ok::<_, ()>(Ok(BlobId::of_digest(&digest)))
    };
    let mut event = event::read(json.as_bytes()).unwrap().keep(keep).unwrap();
    assert!(event.attachments.iter().all(|file| file.size == 8));
    event.attachments.splice(..0, at_network.then(|| remote("late.png")));
    ground.world.put(Input::Inbound(Box::new(event)));
    ground.world.settle();
    ground.world.assert_sound();
}

/// Files of unknown senders are kept up to a limit per person and in total. Beyond it the message waits without the
/// file, and says so.
#[test]
fn files_that_wait_are_bounded() {
    let policy = Policy { held_bytes_per_person: 10, held_bytes: 15, ..Policy::STANDARD };
    let mut ground = Ground::in_world(World::with(policy, |_| {}), GROUP);
    let send = |ground: &mut Ground, who: &str| send_files(ground, who, 1, false);
    let kept = |ground: &Ground| -> Vec<bool> {
        ground
            .world
            .read(|db, txn| db.bodies.iter(txn)?.map(|row| Ok(row?.1.attachments[0].blob.stored().is_some())).collect())
    };
    send(&mut ground, "ann");
    send(&mut ground, "ann");
    assert_eq!(kept(&ground), [true, false], "ann has 10 bytes");
    send(&mut ground, "bob");
    assert_eq!(kept(&ground), [true, false, false], "all have 15 bytes");
    let why = ground.world.read(|db, txn| Ok(db.bodies.last(txn, ..)?.unwrap().1.attachments[0].blob.clone()));
    assert!(why.get().unwrap_err().contains("waited for approval"));
    // A decision frees space.
    ground.decides(ApprovalId::new(1), "approve");
    send(&mut ground, "bob");
    assert_eq!(kept(&ground), [true, false, false, true]);
    ground.decides(ApprovalId::new(2), "reject");
    assert_eq!((ground.count("held_bytes"), ground.count("held_bytes_by_person")), (0, 0));
    // Messages from known people are not limited.
    send(&mut ground, "ann");
    send(&mut ground, "ann");
    assert_eq!(kept(&ground), [true, false, true, true]);
}

/// Of several files in a message, those that fit are kept, up to the last byte of a limit. A file that stays at its
/// network takes no space and is not left out.
#[test]
fn files_that_fit_are_kept_to_the_last_byte() {
    let policy = Policy { held_bytes_per_person: 16, held_bytes: 24, ..Policy::STANDARD };
    let mut ground = Ground::in_world(World::with(policy, |_| {}), GROUP);
    for (who, expected) in [("ann", vec![true, true, false]), ("bob", vec![true, false]), ("carl", vec![false])] {
        send_files(&mut ground, who, expected.len(), true);
        let mut files = ground.world.read(|db, txn| Ok(db.bodies.last(txn, ..)?.unwrap().1.attachments));
        assert!(files.remove(0).blob.is_remote(), "{who}");
        let kept: Vec<bool> = files.iter().map(|file| file.blob.stored().is_some()).collect();
        assert_eq!(kept, expected, "{who}");
    }
}
