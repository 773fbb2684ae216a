//! Skipped work, from the file of a skill to the notice for people; and threads that programs of a group mute.

use hearth::model::address::{Address, ChannelName, ForeignId, UserId};
use hearth::model::card::{Button, PromptSubject};
use hearth::model::content::BlobId;
use hearth::model::delivery::{Act, DeliveryResult};
use hearth::model::group::GroupInput;
use hearth::model::id::{AgentId, SkipId};
use hearth::model::input::{Input, Press};
use hearth::model::report::Reply;
use hearth::model::skip::{
    FoundSkip, SkipAnswer, SkipFile, SkipKind, SkipLook, SkipReport, SkipState, SkipStep, SkipSummary, SkipTrouble,
};
use hearth::model::{Effect, Millis, Timestamp};
use hearth::state::SessionKey;
use serde_json::{Value, json};

use crate::host::{Host, TERMINAL, event, wait_for};
use crate::world::World;
use crate::world::outside::end;
use crate::world::requests::{S, main_agent, newest, working_in};

const A: AgentId = AgentId::new(1);
const SKILL: &str = "tessl__check-cfps";

fn report(number: u8, kind: SkipKind) -> FoundSkip {
    let report = SkipReport {
        digest: BlobId::of_digest(&[number; 32]),
        step: SkipStep::Number(i64::from(number)),
        reason: format!("reason {number}"),
        items: vec!["cfp-1".to_owned()],
        kind,
        occurred: Timestamp::from_millis(0),
    };
    FoundSkip { skill: SKILL.to_owned(), content: Ok(report) }
}

fn working() -> World {
    working_in(World::new())
}

fn look(world: &mut World) {
    let found = world.outside.skips.entry(A).or_default().clone();
    let look = SkipLook { after: None, found, complete: true };
    world.put(Input::Group(A, GroupInput::Skips(look)));
    world.settle();
}

/// The agent's turn ends, and all effects are performed.
fn end_turn(world: &mut World) {
    let input = world.outside.write(S, vec![end(2, 1, vec![])]);
    world.put(input);
    world.settle();
}

fn put(world: &mut World, files: Vec<FoundSkip>) {
    world.outside.skips.insert(A, files);
    look(world);
}

fn skips(world: &World) -> Vec<SkipSummary> {
    world.read(|db, txn| db.skips.iter(txn)?.map(|row| row.map(|(_, skip)| skip)).collect())
}

fn states(world: &World) -> Vec<&'static str> {
    skips(world).iter().map(|skip| skip.state.as_str()).collect()
}

/// What people were told about skips, and where.
fn told(world: &World) -> Vec<(String, String)> {
    let about = |text: &str| text.contains("skipped step");
    let all = world.all_outbound().into_iter().map(|(_, row)| row).filter(|row| about(&row.text));
    all.map(|row| {
        let to = row.to.unwrap();
        (format!("{}/{}", to.channel, to.platform_id), row.text)
    })
    .collect()
}

#[test]
fn people_hear_of_a_skip_once_when_the_turn_is_over() {
    let mut world = working();
    put(&mut world, vec![report(1, SkipKind::Technical)]);
    look(&mut world);
    assert_eq!((states(&world), told(&world)), (vec!["waiting"], vec![]), "the turn goes on");
    assert_eq!(skips(&world)[0].session, Some(S));
    end_turn(&mut world);
    assert_eq!(states(&world), ["surfaced"]);
    let said = told(&world);
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0].0, "net/C");
    assert!(said[0].1.contains("step 1: reason 1\n- cfp-1\n\nIt looks temporary"), "{said:?}");
    assert_eq!(world.outside.skips[&A], [], "its file went");
    // The daemon died before it could remove the file: no one is told twice, and the file is removed.
    world.outside.skips.insert(A, vec![report(1, SkipKind::Technical)]);
    world.restart();
    world.settle();
    assert_eq!((told(&world).len(), world.outside.skips[&A].len()), (1, 0));
}

/// A skip belongs to the one turn in which its file appeared. If several turns are possible, it is reported only after
/// all of them have ended or taken too long.
#[test]
fn a_skip_belongs_to_the_turn_that_can_have_left_it() {
    for both_work in [false, true] {
        let mut world = working();
        let sender = r#""senderId":"ann""#;
        world.inject(&crate::world::event_in(("net", "C", Some("u")), ("2", "hello", sender), ""));
        world.settle();
        let other = hearth::model::id::SessionId::new(2);
        assert_eq!(world.session(other).live, Some(1));
        if both_work {
            let claims = world.outside.write(other, vec![crate::world::outside::claim(2, 1)]);
            world.put(claims);
        }
        put(&mut world, vec![report(1, SkipKind::Technical)]);
        assert_eq!(skips(&world)[0].session, (!both_work).then_some(S));
        if both_work {
            let wait = hearth::model::policy::Policy::STANDARD.skip_wait;
            world.pass(Millis::new(wait.get() - 1));
            look(&mut world);
            assert_eq!(states(&world), ["waiting"]);
            world.pass(Millis::new(1));
            look(&mut world);
            assert_eq!(states(&world), ["surfaced"], "nobody waits for ever");
        }
    }
}

/// Missing rows delay the skips of one agent, and those of no other.
#[test]
fn a_damaged_row_keeps_no_other_agents_skips_waiting() {
    let mut world = working();
    let other = crate::world::ONE.replace("\"main\"", "\"other\"").replace("\"C\"", "\"D\"");
    world.apply(&other);
    for (chat, thread) in [("C", Some("u")), ("D", None)] {
        world.inject(&crate::world::event_in(("net", chat, thread), (chat, "hello", r#""senderId":"ann""#), ""));
    }
    world.settle();
    let [second, lost] = [2, 3].map(hearth::model::id::SessionId::new);
    for session in [second, lost] {
        let claims = world.outside.write(session, vec![crate::world::outside::claim(2, 1)]);
        world.put(claims);
    }
    let agent = world.session(lost).agent;
    assert_ne!(agent, A);
    for agent in [A, agent] {
        let found = vec![report(1, SkipKind::Technical)];
        world.put(Input::Group(agent, GroupInput::Skips(SkipLook { after: None, found, complete: true })));
    }
    assert_eq!(skips(&world).iter().map(|skip| skip.session).collect::<Vec<_>>(), [None, Some(lost)]);
    for session in [S, second] {
        let input = world.outside.write(session, vec![end(2, 1, vec![])]);
        world.put_alone(input);
    }
    world.forsaken = true;
    let (message, _) = world.all_messages().into_iter().find(|(_, message)| message.session == lost).unwrap();
    world
        .store()
        .write(|db, txn| {
            let workspace = db.sessions_by_id.require(txn, &lost)?;
            db.sessions.rows().delete(txn, &SessionKey { workspace, session: lost })?;
            db.messages.rows().delete(txn, &message)
        })
        .unwrap();
    world.try_put(Input::Sweep(vec![])).unwrap();
    let looked_for =
        |agent| world.effects.iter().any(|effect| matches!(effect, Effect::LookForSkips(id, ..) if *id == agent));
    assert_eq!((looked_for(A), looked_for(agent)), (true, false), "{:?}", world.effects);
}

#[test]
fn a_skip_that_somebody_inside_told_of_is_left_to_them() {
    let mut world = working();
    put(&mut world, vec![report(1, SkipKind::Policy)]);
    put(&mut world, vec![]);
    assert_eq!(states(&world), ["taken"]);
    end_turn(&mut world);
    assert_eq!(told(&world), []);
    // The file is back, as if it had been moved away and back.
    put(&mut world, vec![report(1, SkipKind::Policy)]);
    assert_eq!((states(&world).as_slice(), told(&world).len()), (&["surfaced"][..], 1));
}

#[test]
fn two_runs_before_people_hear_of_the_first_are_both_told() {
    let mut world = working();
    put(&mut world, vec![report(1, SkipKind::Technical)]);
    put(&mut world, vec![report(2, SkipKind::Technical)]);
    assert_eq!(skips(&world)[0].file, SkipFile::Replaced);
    end_turn(&mut world);
    assert_eq!(states(&world), ["surfaced", "surfaced"]);
    assert_eq!(told(&world).len(), 2);
    assert_eq!(world.outside.skips[&A], []);
    // A skill inside the group removes the second file: the skip is only in the store, and is still reported.
    let mut world = working();
    put(&mut world, vec![report(1, SkipKind::Technical)]);
    put(&mut world, vec![report(2, SkipKind::Technical)]);
    put(&mut world, vec![]);
    end_turn(&mut world);
    assert_eq!(states(&world), ["surfaced", "taken"]);
}

#[test]
fn what_nobody_understands_is_left_alone() {
    let mut world = working();
    let unknown = FoundSkip { skill: SKILL.to_owned(), content: Err(SkipTrouble::Version(2)) };
    put(&mut world, vec![unknown.clone()]);
    end_turn(&mut world);
    look(&mut world);
    assert_eq!((states(&world), told(&world)), (vec![], vec![]));
    assert_eq!(world.outside.skips[&A], [unknown]);
}

fn press(world: &mut World, by: &str, option: u32) -> (bool, String) {
    let nonce = skips(world)[0].nonce.unwrap();
    let button = Button { matter: PromptSubject::Skip(SkipId::new(1)), nonce, option };
    let at = Address {
        channel: ChannelName::new("net").unwrap(),
        platform_id: ForeignId::new("chat", "C").unwrap(),
        thread: None,
    };
    match world.put(Input::Pressed(Press { by: UserId::parse(by).unwrap(), at, button })) {
        Reply::Answered { decided, text } => (decided, text),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_skipped_on_purpose_is_asked_and_stays_open() {
    let mut world = working();
    world.apply("[[users]]\nid = \"net:olga\"\nroles = [\"admin:main\"]\n");
    put(&mut world, vec![report(1, SkipKind::Policy)]);
    end_turn(&mut world);
    let cards = world.all_outbound().into_iter().filter(|(_, row)| matches!(row.act, Act::Ask(_))).count();
    assert_eq!((cards, states(&world)), (1, vec!["surfaced"]));
    world.pass(Millis::minutes(60 * 24 * 30));
    world.sweep();
    world.settle();
    assert_eq!(states(&world), ["surfaced"], "it waits for as long as it takes");
    assert_eq!(press(&mut world, "net:ann", 0), (false, "You may not decide this.".to_owned()));
    assert_eq!(press(&mut world, "net:olga", 9).1, "This card has no such option.");
    assert!(press(&mut world, "net:olga", 0).0);
    let answered = |state: &SkipState| matches!(state, SkipState::Acknowledged { answer: SkipAnswer::DoNow, .. });
    assert!(answered(&skips(&world)[0].state));
    let (message, body) = newest(&world);
    assert!(message.trigger && body.content.text.contains("wants it done now"), "{body:?}");
    assert!(!press(&mut world, "net:olga", 1).0, "the first answer counts");
    world.settle();
    let decided = world.put(Input::Decide(PromptSubject::Skip(SkipId::new(1)), "leave".to_owned()));
    assert!(matches!(decided, Reply::Refused(refusal) if refusal.message.contains("already acknowledged")));
}

#[test]
fn the_operator_answers_before_anybody_was_told() {
    let mut world = working();
    put(&mut world, vec![report(1, SkipKind::Policy)]);
    for (value, code) in [("maybe", "invalid"), ("leave", ""), ("leave", "closed")] {
        let reply = world.put(Input::Decide(PromptSubject::Skip(SkipId::new(1)), value.to_owned()));
        match reply {
            Reply::Refused(refusal) => assert_eq!(refusal.code, code),
            Reply::Answered { text, .. } => assert_eq!((text, code), (format!("{SKILL}: ✅ Left as it is"), "")),
            other => panic!("{other:?}"),
        }
    }
    world.settle();
    assert_eq!((states(&world), told(&world)), (vec!["acknowledged"], vec![]));
    assert_eq!(world.outside.skips[&A], []);
    let none = world.put(Input::Decide(PromptSubject::Skip(SkipId::new(9)), "leave".to_owned()));
    assert!(matches!(none, Reply::Refused(refusal) if refusal.code == "unknown"));
}

/// A long list is cut, and says so.
#[test]
fn more_items_than_fit_are_counted() {
    for (count, last) in
        [(20, "\n- cfp-20\n\n"), (21, "\n- cfp-20\n- and 1 more\n"), (25, "\n- cfp-20\n- and 5 more\n")]
    {
        let mut world = working();
        let mut skipped = report(1, SkipKind::Technical);
        skipped.content.as_mut().unwrap().items = (1..=count).map(|number| format!("cfp-{number}")).collect();
        put(&mut world, vec![skipped]);
        end_turn(&mut world);
        assert!(told(&world)[0].1.contains(last), "{:?}", told(&world));
    }
}

/// A skip that can no longer be done offers no retry; leaving it is possible.
#[test]
fn nothing_is_done_now_by_an_agent_that_was_removed() {
    let mut world = working();
    put(&mut world, vec![report(1, SkipKind::Policy)]);
    world.configure(vec![hearth::model::configure::Change::RemoveAgent(main_agent(&world).folder)]).unwrap();
    let mut answer = |value: &str| world.put(Input::Decide(PromptSubject::Skip(SkipId::new(1)), value.to_owned()));
    let now = answer("now");
    assert!(matches!(&now, Reply::Refused(refusal) if refusal.message.contains("no conversation")), "{now:?}");
    let leave = answer("leave");
    assert!(matches!(leave, Reply::Answered { decided: true, .. }), "{leave:?}");
}

#[test]
fn technical_skips_are_quiet_if_the_operator_wants_so_until_they_repeat() {
    let mut world = working();
    let settings = main_agent(&world).settings;
    let quiet = hearth::model::entity::TechnicalSkips::Retry;
    let change = hearth::model::configure::Change::PutAgent(
        main_agent(&world).folder,
        hearth::model::entity::AgentSettings { technical_skips: quiet, ..settings },
    );
    world.configure(vec![change]).unwrap();
    world.settle();
    end_turn(&mut world);
    for number in 1..=4 {
        put(&mut world, vec![report(number, SkipKind::Technical)]);
        assert_eq!(world.outside.skips[&A], [], "{number}");
    }
    assert_eq!(states(&world), ["retried", "retried", "surfaced", "retried"]);
    assert_eq!(told(&world).len(), 1);
    assert!(told(&world)[0].1.contains("It failed 3 times in a row."));
}

#[test]
fn a_skip_is_told_to_the_owner_where_its_chat_cannot_be_reached() {
    let mut world = working();
    world.outside.channel = Box::new(|delivery| {
        Some(match delivery.to.channel.as_str() {
            "net" => DeliveryResult::Rejected("blocked".to_owned()),
            _ => DeliveryResult::Delivered { platform_message: None },
        })
    });
    put(&mut world, vec![report(1, SkipKind::Policy)]);
    end_turn(&mut world);
    let places: Vec<String> = told(&world).into_iter().map(|(place, _)| place).collect();
    assert_eq!(places, ["net/C", "terminal/@7"]);
    assert_eq!((states(&world), world.outside.skips[&A].len()), (vec!["surfaced"], 0));
}

#[test]
fn with_every_effect_lost_sweeps_still_tell() {
    let mut world = working();
    put(&mut world, vec![report(1, SkipKind::Policy)]);
    let input = world.outside.write(S, vec![end(2, 1, vec![])]);
    world.put_alone(input);
    let sweep_alone = |world: &mut World| {
        world.pass(Millis::minutes(2));
        let observations = world.outside.observations();
        world.put(Input::Sweep(observations));
        world.perform_alone();
    };
    for _ in 0..5 {
        sweep_alone(&mut world);
    }
    assert_eq!((states(&world), told(&world).len()), (vec!["surfaced"], 1));
    assert_eq!((world.outside.skips[&A].len(), skips(&world)[0].file), (0, SkipFile::Gone), "its file went too");
    // The same holds for a skip that appears again after it was reported.
    world.outside.skips.insert(A, vec![report(1, SkipKind::Policy)]);
    let look = SkipLook { after: None, found: world.outside.skips[&A].clone(), complete: true };
    world.put_alone(Input::Group(A, GroupInput::Skips(look)));
    assert_eq!(skips(&world)[0].file, SkipFile::Left);
    sweep_alone(&mut world);
    assert_eq!((world.outside.skips[&A].len(), skips(&world)[0].file, told(&world).len()), (0, SkipFile::Gone, 1));
}

#[test]
fn a_file_that_cannot_be_removed_is_tried_again_by_sweeps_only() {
    let mut world = working();
    put(&mut world, vec![report(1, SkipKind::Technical)]);
    end_turn(&mut world);
    world.outside.stuck = true;
    put(&mut world, vec![report(1, SkipKind::Technical)]);
    look(&mut world);
    assert_eq!((skips(&world)[0].file, told(&world).len()), (SkipFile::Left, 1));
    world.outside.stuck = false;
    world.sweep();
    world.settle();
    assert_eq!((skips(&world)[0].file, world.outside.skips[&A].len()), (SkipFile::Gone, 0));
}

#[test]
fn what_became_of_skips_is_kept_for_a_while_and_open_questions_for_ever() {
    let mut world = working();
    put(&mut world, vec![report(1, SkipKind::Technical)]);
    end_turn(&mut world);
    put(&mut world, vec![report(2, SkipKind::Policy)]);
    assert_eq!(states(&world), ["surfaced", "surfaced"]);
    let days = |world: &mut World, days: u64| {
        world.pass(Millis::minutes(60 * 24 * days));
        for _ in 0..2 {
            world.sweep();
            world.settle();
        }
    };
    days(&mut world, 29);
    assert_eq!(states(&world).len(), 2);
    days(&mut world, 2);
    let left = skips(&world);
    assert_eq!((left.len(), left[0].report.kind), (1, SkipKind::Policy));
    world.put(Input::Decide(PromptSubject::Skip(SkipId::new(2)), "leave".to_owned()));
    world.settle();
    days(&mut world, 31);
    assert_eq!(states(&world), Vec::<&str>::new());
    // It has been removed from the store: the same file again is a new skip.
    put(&mut world, vec![report(1, SkipKind::Technical)]);
    assert_eq!(states(&world), ["surfaced"]);
}

#[test]
fn skips_go_with_their_agent_once_everything_is_told() {
    let mut world = working();
    put(&mut world, vec![report(1, SkipKind::Policy)]);
    end_turn(&mut world);
    world.outside.channel = Box::new(|_| None);
    put(&mut world, vec![report(2, SkipKind::Technical)]);
    assert_eq!(states(&world), ["surfaced", "sending"]);
    let folder = main_agent(&world).folder;
    world.configure(vec![hearth::model::configure::Change::RemoveAgent(folder)]).unwrap();
    world.settle();
    assert_eq!(states(&world), ["sending"]);
    world.outside.channel = Box::new(|_| Some(DeliveryResult::Delivered { platform_message: None }));
    for _ in 0..4 {
        world.pass(Millis::minutes(10));
        world.sweep();
        world.settle();
    }
    assert_eq!((states(&world), world.outside.skips[&A].len()), (vec![], 0));
}

fn summary(fields: &Value) -> String {
    let mut all = json!({
        "schema_version": 1, "skill": SKILL, "step": "tier 3", "reason": "no answer", "items": ["cfp-1"],
        "technical_failure": true, "occurred_at": "2026-05-01T08:00:00Z",
    });
    all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    all.to_string()
}

fn terminal() -> Host {
    let host = Host::new();
    host.apply(TERMINAL);
    host
}

fn ask(host: &Host, id: &str) {
    let mut event = event(id, id);
    event["channelType"] = "terminal".into();
    event["platformId"] = "main".into();
    host.done(&["inject", "--json"], event.to_string().as_bytes());
}

/// Reads messages at the terminal and confirms them, until `over`.
fn show(data: &std::path::Path, over: &std::sync::atomic::AtomicBool) {
    let mut raw = None;
    while !over.load(std::sync::atomic::Ordering::SeqCst) {
        let Some(terminal) = &mut raw else {
            raw = crate::host::raw::Raw::try_attach(data);
            std::thread::sleep(std::time::Duration::from_millis(20));
            continue;
        };
        match terminal.try_hear() {
            Ok(Some(heard)) if heard["is"] == "said" => {
                if terminal.say(&json!({"do": "shown", "id": heard["id"]})).is_err() {
                    raw = None;
                }
            }
            Ok(Some(Value::Null)) | Err(_) => raw = None,
            Ok(_) => {}
        }
    }
}

fn with_terminal(host: &mut Host, work: impl FnOnce(&mut Host)) {
    let over = std::sync::atomic::AtomicBool::new(false);
    let data = host.data();
    std::thread::scope(|scope| {
        scope.spawn(|| show(&data, &over));
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(host)));
        over.store(true, std::sync::atomic::Ordering::SeqCst);
        if let Err(panic) = done {
            std::panic::resume_unwind(panic);
        }
    });
}

fn skipped(host: &Host) -> Vec<String> {
    host.said().into_iter().filter(|text| text.contains("skipped step")).collect()
}

#[test]
fn a_death_between_message_and_removal_tells_nobody_twice() {
    let mut host = terminal();
    host.env.push(("HEARTH_TEST_CRASH_AT".to_owned(), "skip-told".to_owned()));
    host.start();
    host.env.clear();
    with_terminal(&mut host, |host| {
        ask(host, "m1");
        host.wait_settled();
        let file = host.data().join("groups/main/.skip-summary-tessl__check-cfps.json");
        std::fs::write(&file, summary(&json!({}))).unwrap();
        wait_for("the daemon to die", || host.daemon()?.try_end());
        assert_eq!(host.ended().signal, Some(9));
        host.check();
        assert!(file.exists(), "it died before it could remove it");
        assert_eq!(skipped(host).len(), 1);
        host.start();
        wait_for("the file to go", || (!file.exists()).then_some(()));
        assert_eq!(skipped(host).len(), 1, "nobody is told twice");
        let shown: Value = serde_json::from_str(&host.done(&["skips", "list", "--all", "--json"], b"")).unwrap();
        assert_eq!((&shown["skips"][0]["state"], &shown["skips"][0]["skill"]), (&json!("surfaced"), &json!(SKILL)));
        host.check();
    });
}

#[test]
fn skips_are_listed_answered_and_linted() {
    let mut host = terminal();
    let group = host.data().join("groups/main");
    std::fs::create_dir_all(&group).unwrap();
    let list = |host: &Host| -> Value { serde_json::from_str(&host.done(&["skips", "list", "--json"], b"")).unwrap() };
    let lint = |host: &Host| -> (Option<i32>, Vec<String>) {
        let ended = host.run(&["skips", "lint", "--json"], b"");
        assert_eq!(ended.stdout.lines().count(), 1, "{ended:?}");
        let found: Value = serde_json::from_str(&ended.stdout).unwrap();
        let rules = found["findings"].as_array().unwrap().iter();
        (ended.code, rules.map(|one| one["rule"].as_str().unwrap().to_owned()).collect())
    };
    assert_eq!(list(&host), json!({ "skips": [] }));
    assert_eq!(lint(&host), (Some(0), vec![]));
    let skills = host.data().join("skills");
    std::fs::create_dir_all(skills.join(SKILL)).unwrap();
    let file = |skill: &str| group.join(format!(".skip-summary-{skill}.json"));
    std::fs::write(file(SKILL), summary(&json!({"technical_failure": false}))).unwrap();
    assert_eq!(lint(&host), (Some(0), vec![]));
    std::fs::write(file("tessl__v2"), summary(&json!({"schema_version": 2}))).unwrap();
    std::fs::write(file("tessl__bad"), summary(&json!({"skill": "tessl__bad", "items": null}))).unwrap();
    let late = summary(&json!({"skill": "tessl__late", "occurred_at": "2999-01-01T00:00:00Z"}));
    std::fs::write(file("tessl__late"), late).unwrap();
    std::fs::write(group.join(".skip-summary-nobody.json"), "{}").unwrap();
    let orphan = group.join("..skip-summary-tessl__a.json.x.tmp");
    std::fs::write(&orphan, "{").unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3_600);
    for path in [&orphan, &file(SKILL)] {
        std::fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    }
    let (code, mut rules) = lint(&host);
    rules.sort_unstable();
    let expected = [
        "future",
        "malformed",
        "name",
        "stale",
        "temporary",
        "unknown-skill",
        "unknown-skill",
        "unknown-skill",
        "version",
    ];
    assert_eq!((code, rules), (Some(1), expected.map(str::to_owned).to_vec()));
    assert_eq!(host.run(&["skips", "lint", "nobody"], b"").code, Some(1));
    host.start();
    wait_for("the skips to be taken in", || (list(&host)["skips"].as_array()?.len() == 2).then_some(()));
    assert!(file("tessl__v2").exists() && file("tessl__bad").exists());
    host.done(&["skips", "ack", "sk1"], b"");
    wait_for("the file to go", || (!file(SKILL).exists()).then_some(()));
    let again = host.run(&["skips", "ack", "sk1"], b"");
    assert!(again.code == Some(1) && again.stderr.contains("already acknowledged"), "{again:?}");
    let now = host.run(&["skips", "ack", "sk2", "--now"], b"");
    assert!(now.code == Some(1) && now.stderr.contains("no conversation"), "{now:?}");
    assert_eq!(host.run(&["skips", "show", "sk9"], b"").code, Some(1));
    let shown = host.done(&["skips", "show", "sk1"], b"");
    let field = |name: &str| shown.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    assert_eq!((field("answer "), field("answered by")), (Some("leave"), Some("operator")), "{shown}");
    assert_eq!(host.done(&["why", "sk1"], b""), shown, "a search shows this id");
    let missing = host.run(&["why", "sk9"], b"");
    assert!(missing.code == Some(1) && missing.stderr.contains("`hearth skips list --all`"), "{missing:?}");
    host.check();
}

#[test]
fn a_thread_that_a_program_in_the_group_muted_wakes_nobody() {
    let mut host = Host::with_echo();
    let group = host.data().join("groups/main");
    std::fs::create_dir_all(&group).unwrap();
    let state = |muted: Value| json!({"schema_version": 1, "sessions": {}, "muted_threads": muted}).to_string();
    std::fs::write(group.join("session-state.json"), state(json!({"telegram:123": {"why": "noise"}, "x": false})))
        .unwrap();
    host.start();
    let mutes = |host: &Host| -> Value { serde_json::from_str(&host.done(&["mutes", "list", "--json"], b"")).unwrap() };
    let listed = wait_for("the mute to be taken in", || {
        Some(mutes(&host)["mutes"].take()).filter(|mutes| mutes.as_array().is_some_and(|mutes| !mutes.is_empty()))
    });
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    let first = &listed[0];
    assert_eq!((&first["origin"], &first["name"]), (&json!("agent"), &json!("telegram:123")));
    assert_eq!((&first["chat"], &first["note"]), (&json!(null), &json!({"why": "noise"})));
    let routed = host.inject("m1", "hello");
    assert_eq!((&routed["outcome"], &routed["reason"]), (&json!("dropped"), &json!("thread_muted")), "{routed}");
    assert!(host.done(&["dropped"], b"").contains("muted"));
    std::fs::write(group.join("session-state.json"), state(json!({}))).unwrap();
    // It is found when the group is examined again, at the latest at the next start.
    host.stop();
    host.start();
    wait_for("the mute to go", || (mutes(&host)["mutes"] == json!([])).then_some(()));
    host.inject("m2", "hello again");
    assert_eq!(host.wait_said(1), ["echo: hello again"]);
    host.check();
}
