//! Networks with rules: from the configuration to the question, the decision, the policy and the record. The gate is
//! played by direct inputs.

use hearth::model::approval::{Approval, ApprovalState, ApprovalSubject};
use hearth::model::card::PromptSubject;
use hearth::model::configure::Change;
use hearth::model::connection::Connection;
use hearth::model::entity::Folder;
use hearth::model::host_grant::HostDecision;
use hearth::model::id::{ApprovalId, SessionId};
use hearth::model::message::MessageState;
use hearth::model::network::{
    ConnectionSeen, Endpoint, HostWanted, Judgement, NetRefusal, NetVerdict, NetworkPolicy, RuleOrigin, judge,
};
use hearth::model::report::{Action, Reply};
use hearth::model::{Effect, Input, Millis};

use crate::world::requests::{HOUSE, S, newest, working_in};
use crate::world::{World, event_in};

fn world(network: &str) -> World {
    let setup = HOUSE.replace("unconfined = true", &format!("network = {network}"));
    let mut world = World::new();
    world.apply(&setup);
    let mut world = working_in_again(world);
    world.settle();
    world
}

/// As [`working_in`], which configures the agent without rules first.
fn working_in_again(world: World) -> World {
    let rules = world.read(|db, txn| Ok(db.agents.iter(txn)?.next().unwrap()?.1.settings));
    let mut world = working_in(world);
    let folder = Folder::new("main").unwrap();
    world.configure(vec![Change::PutAgent(folder, rules)]).unwrap();
    world.settle();
    // The run of the former settings is replaced when it is idle; it goes on with its message.
    assert_eq!(world.session(S).live, Some(1));
    world
}

fn to(host: &str) -> Endpoint {
    host.parse().unwrap()
}

fn wants(world: &mut World, host: &str) -> Result<(), NetRefusal> {
    let wanted = HostWanted { session: S, incarnation: 1, endpoint: to(host), local: false };
    let reply = world.put(Input::HostWanted(wanted));
    world.settle();
    world.assert_sound();
    match reply {
        Reply::Host(answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn decide(world: &mut World, number: u64, value: &str) -> Reply {
    let reply = world.put(Input::Decide(PromptSubject::Approval(ApprovalId::new(number)), value.into()));
    assert!(matches!(reply, Reply::Answered { decided: true, .. }), "{reply:?}");
    reply
}

/// The policies that the decision sent to running agents, before they are performed.
fn policies(world: &World) -> Vec<NetworkPolicy> {
    let policy = |effect: &Effect| match effect {
        Effect::NetworkPolicy(of) => Some(of.policy.clone()),
        _ => None,
    };
    world.effects.iter().filter_map(policy).collect()
}

/// The policy that a restarted daemon gives the run.
fn policy(world: &World) -> NetworkPolicy {
    let now = world.now().wall;
    world.read(|db, txn| hearth::engine::network_policy(db, txn, S, now)).expect("the network has rules")
}

fn is_allowed(policy: &NetworkPolicy, host: &str) -> bool {
    matches!(judge(policy, &to(host)), Judgement::Tunnel { .. })
}

fn open(world: &World) -> usize {
    world.read(|db, txn| db.approvals_open.len(txn)).try_into().unwrap()
}

fn cards(world: &World) -> Vec<String> {
    world.all_outbound().into_iter().map(|(_, outbound)| outbound.text).collect()
}

fn told(world: &World) -> Vec<String> {
    let text = |body| world.read(|db, txn| db.bodies.require(txn, &body)).content.text;
    let messages = world.all_messages().into_iter().filter(|(_, message)| message.session == S);
    messages.map(|(_, message)| text(message.body)).collect()
}

#[test]
fn a_host_that_no_rule_names_is_asked_about_once() {
    let mut world = world("\"ask\"\nallow = [\"a.org\", \"*.b.org\"]\ndeny = [\"c.org\"]");
    assert_eq!(wants(&mut world, "a.org:443"), Ok(()), "it is allowed, and the gate is told");
    assert_eq!(open(&world), 0);
    assert!(matches!(wants(&mut world, "c.org:443"), Err(NetRefusal::Denied(_))));
    for _ in 0..3 {
        assert_eq!(wants(&mut world, "api.example.org:443"), Ok(()));
    }
    assert_eq!(wants(&mut world, "api.example.org:80"), Ok(()));
    assert_eq!(open(&world), 2, "one question for each host and port");
    let cards = cards(&world);
    let card = cards.iter().find(|text| text.contains("api.example.org:443")).expect("a card is sent");
    for line in ["\"Main\" (main) wants to reach", "host: ", "port: 443", "Once allows exactly this host and port"] {
        let line = line.replace("\"Main\"", "“main”");
        assert!(card.contains(&line), "{line} is missing in {card}");
    }
    assert!(!card.contains("local network"), "{card}");
}

#[test]
fn what_is_local_or_foreign_is_said_on_the_card() {
    let mut world = world("\"ask\"");
    assert_eq!(wants(&mut world, "hub.local:8123"), Ok(()));
    assert_eq!(wants(&mut world, "bücher.example:443"), Ok(()));
    let cards = cards(&world);
    let of = |host: &str| cards.iter().find(|text| text.contains(host)).unwrap_or_else(|| panic!("{host}: {cards:?}"));
    assert!(of("hub.local:8123").contains("It is in your local network."));
    assert!(of("xn--bcher-kva.example").contains("as it is written: “bücher.example”"), "{cards:?}");
}

#[test]
fn a_decision_becomes_a_row_a_policy_and_a_message() {
    for (value, decision, allowed, text) in [
        ("approve", Some("once"), true, "api.example.org:443 is allowed for an hour in this conversation."),
        ("always", Some("always"), true, "api.example.org:443 is allowed from now on."),
        (
            "never",
            Some("never"),
            false,
            "A person refused api.example.org:443 for good. Do not look for another way to it.",
        ),
        ("reject", None, false, "A person did not allow api.example.org:443 now."),
    ] {
        let mut world = world("\"ask\"");
        assert_eq!(wants(&mut world, "api.example.org:443"), Ok(()));
        decide(&mut world, 1, value);
        let sent = policies(&world);
        assert_eq!(sent.len(), usize::from(decision.is_some()), "{value}");
        assert!(sent.iter().all(|policy| is_allowed(policy, "api.example.org:443") == allowed), "{value}: {sent:?}");
        world.settle();
        world.assert_sound();
        let row = world.read(|db, txn| db.host_grants.iter(txn)?.next().transpose());
        assert_eq!(row.map(|(_, grant)| grant.decision.as_str()), decision);
        assert_eq!(told(&world).last().map(String::as_str), Some(text));
        assert_eq!(is_allowed(&policy(&world), "api.example.org:443"), allowed);
        assert!(!is_allowed(&policy(&world), "api.example.org:80"), "only this port was decided about");
        // The card is not repeated, and after a while a host that was not allowed is asked about again.
        let again = wants(&mut world, "api.example.org:443");
        let expected = match value {
            "never" => matches!(again, Err(NetRefusal::RefusedByPerson(_))),
            "reject" => again == Err(NetRefusal::NotNow),
            _ => again == Ok(()),
        };
        assert!(expected && open(&world) == 0, "{value}: {again:?}");
        if value == "reject" {
            world.pass(Millis::minutes(61));
            assert_eq!(wants(&mut world, "api.example.org:443"), Ok(()));
            assert_eq!(open(&world), 1);
        }
    }
}

#[test]
fn once_ends_after_an_hour() {
    let mut world = world("\"ask\"");
    assert_eq!(wants(&mut world, "a.org:443"), Ok(()));
    decide(&mut world, 1, "approve");
    world.settle();
    world.pass(Millis::minutes(59));
    world.sweep();
    world.settle();
    assert!(is_allowed(&policy(&world), "a.org:443"));
    assert!(world.next_due().is_some_and(|due| due <= Millis::minutes(1)), "{:?}", world.next_due());
    world.pass(Millis::minutes(1));
    world.sweep();
    let sent = policies(&world);
    assert!(sent.iter().all(|policy| !is_allowed(policy, "a.org:443")) && !sent.is_empty(), "{sent:?}");
    world.settle();
    world.assert_sound();
    assert_eq!(world.read(|db, txn| db.host_grants.len(txn)), 0);
}

#[test]
fn questions_and_decisions_survive_the_daemon() {
    let mut world = world("\"ask\"");
    assert_eq!(wants(&mut world, "a.org:443"), Ok(()));
    world.lose_effects();
    world.restart();
    world.settle();
    assert_eq!(open(&world), 1);
    decide(&mut world, 1, "always");
    // It dies before the gate hears of it.
    world.lose_effects();
    world.restart();
    world.settle();
    world.assert_sound();
    assert!(is_allowed(&policy(&world), "a.org:443"));
}

/// The open question about many hosts, the newest one.
fn gathered(world: &World) -> (ApprovalId, Vec<String>) {
    let open = world.read(|db, txn| db.approvals.iter(txn)?.collect::<Result<Vec<_>, _>>());
    let hosts = |(id, approval): (ApprovalId, Approval)| match approval.about {
        ApprovalSubject::Hosts(of) if approval.state.is_open() => {
            Some((id, of.hosts.iter().map(|host| host.to.to_string()).collect()))
        }
        _ => None,
    };
    open.into_iter().filter_map(hosts).next_back().expect("many hosts are asked about")
}

fn after_the_gathering(world: &mut World) {
    world.pass(Millis::seconds(5));
    world.sweep();
    world.settle();
    world.assert_sound();
}

#[test]
fn a_flood_of_hosts_becomes_one_card() {
    let mut world = world("\"ask\"");
    for number in 0..9 {
        assert_eq!(wants(&mut world, &format!("h{number}.org:443")), Ok(()));
    }
    assert_eq!(wants(&mut world, "h5.org:443"), Ok(()), "it is asked about already");
    assert_eq!(open(&world), 3, "two single questions and the gathering one");
    assert_eq!(cards(&world).len(), 2);
    assert!(world.next_due().is_some_and(|due| due <= Millis::seconds(5)));
    after_the_gathering(&mut world);
    let (id, hosts) = gathered(&world);
    let expected: Vec<String> = (2..9).map(|number| format!("h{number}.org:443")).collect();
    assert_eq!(hosts, expected);
    let card = cards(&world).pop().unwrap();
    assert_eq!(cards(&world).len(), 3, "{:?}", cards(&world));
    for (at, host) in (1..).zip(&expected) {
        assert!(card.contains(&format!("\n{at}. \"{host}\" in session {S}\n")), "{host} is missing in {card}");
    }
    // What comes later is no part of this card, and shown when it is decided.
    for number in 20..24 {
        assert_eq!(wants(&mut world, &format!("h{number}.org:443")), Ok(()));
    }
    after_the_gathering(&mut world);
    assert_eq!((open(&world), cards(&world).len()), (4, 3));
    decide(&mut world, id.number(), "always:7");
    world.settle();
    world.assert_sound();
    for host in &expected {
        assert!(is_allowed(&policy(&world), host), "{host}");
    }
    assert!(!is_allowed(&policy(&world), "h20.org:443") && !is_allowed(&policy(&world), "h0.org:443"));
    let last = told(&world).pop().unwrap();
    assert_eq!(last, format!("{} are allowed from now on.", expected.join(", ")));
    let card = cards(&world).into_iter().rfind(|text| text.contains("h23.org:443")).expect("the next card is shown");
    assert!(card.contains("wants to reach 4 hosts"), "{card}");
}

#[test]
fn a_decision_counts_for_the_hosts_that_were_shown() {
    let mut world = world("\"ask\"");
    for number in 0..4 {
        assert_eq!(wants(&mut world, &format!("h{number}.org:443")), Ok(()));
    }
    let (id, _) = gathered(&world);
    let stale = |world: &mut World, value: &str| {
        let reply = world.put(Input::Decide(PromptSubject::Approval(id), value.into()));
        assert!(matches!(reply, Reply::Refused { .. }), "{value}: {reply:?}");
    };
    // Someone looks at two hosts, and a third one comes.
    assert_eq!(wants(&mut world, "h4.org:443"), Ok(()));
    for value in ["approve:2", "always:2", "never:2", "approve", "always"] {
        stale(&mut world, value);
    }
    // One of them is decided alone meanwhile, and that stays.
    let folder = Folder::new("main").unwrap();
    world.configure(vec![Change::DenyHost(folder, to("h3.org:443"))]).unwrap();
    world.settle();
    decide(&mut world, id.number(), "approve:3");
    world.settle();
    world.assert_sound();
    let policy = policy(&world);
    assert!(is_allowed(&policy, "h2.org:443") && is_allowed(&policy, "h4.org:443"));
    assert!(!is_allowed(&policy, "h3.org:443"), "it was refused for good");
    world.pass(Millis::minutes(60));
    world.sweep();
    world.settle();
    assert_eq!(world.read(|db, txn| db.host_grants.len(txn)), 1, "once is over, never stays");
}

#[test]
fn hosts_of_a_flood_can_be_refused_or_not_answered() {
    for (value, refused) in [("never:2", true), ("reject", false)] {
        let mut world = world("\"ask\"");
        for number in 0..4 {
            assert_eq!(wants(&mut world, &format!("h{number}.org:443")), Ok(()));
        }
        after_the_gathering(&mut world);
        let (id, _) = gathered(&world);
        decide(&mut world, id.number(), value);
        world.settle();
        world.assert_sound();
        let again = wants(&mut world, "h3.org:443");
        match refused {
            true => assert!(matches!(again, Err(NetRefusal::RefusedByPerson(_))), "{again:?}"),
            false => assert_eq!(again, Err(NetRefusal::NotNow)),
        }
        assert_eq!(wants(&mut world, "h9.org:443"), Ok(()));
        after_the_gathering(&mut world);
        world.lose_effects();
        world.restart();
        world.settle();
        let (id, hosts) = gathered(&world);
        assert_eq!(hosts, ["h9.org:443"]);
        world.pass(Millis::minutes(24 * 60 + 1));
        world.sweep();
        world.settle();
        world.assert_sound();
        let state = world.read(|db, txn| db.approvals.require(txn, &id)).state;
        assert!(matches!(state, ApprovalState::Expired { .. }), "{state:?}");
        assert!(told(&world).iter().any(|text| text.contains("No one answered in time whether h9.org:443")));
    }
}

#[test]
fn a_flood_has_an_end() {
    let mut world = world("\"ask\"");
    let mut number = 0;
    let mut next = |world: &mut World| {
        number += 1;
        wants(world, &format!("h{number}.org:443"))
    };
    // Two alone, fifteen on a card, fifteen behind it.
    for _ in 0..17 {
        assert_eq!(next(&mut world), Ok(()));
    }
    assert_eq!(next(&mut world), Err(NetRefusal::TooManyQuestions), "the card is full");
    after_the_gathering(&mut world);
    for _ in 0..15 {
        assert_eq!(next(&mut world), Ok(()));
    }
    for _ in 0..10 {
        assert_eq!(next(&mut world), Err(NetRefusal::TooManyQuestions));
    }
    assert_eq!(open(&world), 4);
    let flood = cards(&world).iter().filter(|text| text.contains("wants to reach more hosts than")).count();
    assert_eq!(flood, 1, "{:?}", cards(&world));
    // At most 20 questions in a day, however quickly they are decided.
    for approval in 1..=4 {
        let value = if approval > 2 { "never:15" } else { "never" };
        decide(&mut world, approval, value);
        world.settle();
    }
    for approval in 5..=20 {
        assert_eq!(next(&mut world), Ok(()));
        decide(&mut world, approval, "never");
        world.settle();
    }
    assert_eq!(next(&mut world), Err(NetRefusal::TooManyQuestions));
    world.pass(Millis::minutes(24 * 60 + 1));
    assert_eq!(next(&mut world), Ok(()));
}

#[test]
fn an_unanswered_question_expires_and_one_that_is_settled_is_withdrawn() {
    let mut world = world("\"ask\"");
    assert_eq!(wants(&mut world, "a.org:443"), Ok(()));
    assert_eq!(wants(&mut world, "b.org:443"), Ok(()));
    let mut settings = world.read(|db, txn| Ok(db.agents.iter(txn)?.next().unwrap()?.1.settings));
    settings.allow = vec!["b.org".parse().unwrap()];
    world.configure(vec![Change::PutAgent(Folder::new("main").unwrap(), settings)]).unwrap();
    assert!(policies(&world).iter().any(|policy| is_allowed(policy, "b.org:443")));
    world.settle();
    let state = |world: &World, id| world.read(|db, txn| db.approvals.require(txn, &ApprovalId::new(id))).state;
    assert!(matches!(state(&world, 2), ApprovalState::Superseded { .. }), "{:?}", state(&world, 2));
    world.pass(Millis::minutes(24 * 60 + 1));
    world.sweep();
    world.settle();
    world.assert_sound();
    assert!(matches!(state(&world, 1), ApprovalState::Expired { .. }), "{:?}", state(&world, 1));
    assert!(told(&world).iter().any(|text| text.contains("No one answered in time whether a.org:443")));
}

#[test]
fn the_operator_decides_by_command() {
    let mut world = world("\"ask\"");
    let folder = || Folder::new("main").unwrap();
    world.configure(vec![Change::AllowHost(folder(), to("a.org:443"))]).unwrap();
    let first = world.read(|db, txn| Ok(db.host_grants.iter(txn)?.next().unwrap()?.1));
    world.pass(Millis::minutes(1));
    let again = world.configure(vec![Change::AllowHost(folder(), to("a.org:443"))]).unwrap();
    assert_eq!(again[0].action, Action::Unchanged);
    let row = world.read(|db, txn| Ok(db.host_grants.iter(txn)?.next().unwrap()?.1));
    assert_eq!(row, first, "it is still known who decided, and when");
    assert!(policies(&world).iter().any(|policy| is_allowed(policy, "a.org:443")));
    world.settle();
    world.configure(vec![Change::DenyHost(folder(), to("a.org:443"))]).unwrap();
    assert!(matches!(judge(&policy(&world), &to("a.org:443")), Judgement::Refuse(NetRefusal::RefusedByPerson(_))));
    world.configure(vec![Change::RevokeHost(folder(), to("a.org:443"))]).unwrap();
    assert_eq!(judge(&policy(&world), &to("a.org:443")), Judgement::Ask);
    let refused = world.configure(vec![Change::RevokeHost(folder(), to("a.org:443"))]).unwrap_err();
    assert!(refused.message.contains("nothing was decided about a.org:443"), "{refused:?}");
    world.settle();
    world.assert_sound();
}

/// People are not asked, so what they allowed earlier does not count either.
#[test]
fn a_listed_network_has_only_what_is_listed() {
    let mut world = world("\"ask\"");
    let folder = Folder::new("main").unwrap();
    world.configure(vec![Change::AllowHost(folder.clone(), to("a.org:443"))]).unwrap();
    world.apply(&HOUSE.replace("unconfined = true", "network = \"listed\"\nallow = [\"b.org\"]"));
    let sent = policies(&world);
    assert!(sent.iter().any(|policy| !is_allowed(policy, "a.org:443") && is_allowed(policy, "b.org:443")), "{sent:?}");
    world.settle();
    assert_eq!(wants(&mut world, "c.org:443"), Err(NetRefusal::Unlisted));
    world.apply(&HOUSE.replace("unconfined = true", "network = \"none\""));
    let sent = policies(&world);
    assert!(sent.iter().all(|policy| !is_allowed(policy, "b.org:443")) && !sent.is_empty(), "{sent:?}");
}

/// A network without rules needs another run. The present one keeps its rules until then.
#[test]
fn a_run_whose_network_is_opened_is_sent_nothing() {
    let mut world = world("\"listed\"\nallow = [\"b.org\"]");
    world.apply(&HOUSE.replace("unconfined = true", "network = \"host\""));
    assert_eq!(policies(&world), []);
}

#[test]
fn once_is_for_each_conversation_that_asked() {
    let mut world = world("\"ask\"");
    let sender = r#""senderId":"ann","senderName":"Ann""#;
    world.inject(&event_in(("net", "C", Some("u")), ("2", "hello", sender), ""));
    world.settle();
    let other = SessionId::new(2);
    assert_eq!(world.session(other).live, Some(1));
    let allowed = |world: &World| {
        let now = world.now().wall;
        [S, other].map(|session| {
            let policy = world.read(|db, txn| hearth::engine::network_policy(db, txn, session, now)).unwrap();
            is_allowed(&policy, "a.org:443")
        })
    };
    assert_eq!(wants(&mut world, "a.org:443"), Ok(()));
    decide(&mut world, 1, "approve");
    world.settle();
    assert_eq!(allowed(&world), [true, false]);
    world.pass(Millis::minutes(30));
    let wanted = HostWanted { session: other, incarnation: 1, endpoint: to("a.org:443"), local: false };
    assert!(matches!(world.put(Input::HostWanted(wanted)), Reply::Host(Ok(()))));
    world.settle();
    decide(&mut world, 2, "approve");
    world.settle();
    assert_eq!(allowed(&world), [true, true]);
    world.pass(Millis::minutes(30));
    world.sweep();
    world.settle();
    world.assert_sound();
    assert_eq!(allowed(&world), [false, true], "each lasts an hour");
}

/// Agents take what has a sender for a message to answer.
#[test]
fn only_what_starts_a_turn_has_a_sender() {
    let mut world = world("\"ask\"");
    let raw = |world: &World| {
        let (message, body) = newest(world);
        let content: serde_json::Value = serde_json::from_str(body.content.raw.as_str()).unwrap();
        assert_eq!(content["sender"], "system");
        (message.trigger, content["senderId"].clone(), body.content.sender.map(|sender| sender.to_string()))
    };
    assert_eq!(wants(&mut world, "a.org:443"), Ok(()));
    decide(&mut world, 1, "always");
    world.settle();
    assert_eq!(raw(&world), (true, "system".into(), Some("system".to_owned())));
    assert_eq!(wants(&mut world, "b.org:443"), Ok(()));
    world.pass(Millis::minutes(24 * 60 + 1));
    world.sweep();
    world.settle();
    assert!(told(&world).iter().any(|text| text.contains("No one answered in time whether b.org:443")));
    assert_eq!(raw(&world), (false, serde_json::Value::Null, None));
}

fn connection(world: &World, host: &str, verdict: &NetVerdict) -> ConnectionSeen {
    let now = world.now().wall;
    ConnectionSeen {
        session: S,
        incarnation: 1,
        endpoint: to(host),
        verdict: verdict.clone(),
        began: now,
        ended: now.plus(Millis::seconds(1)),
        up: 100,
        down: 1_000,
        request: None,
    }
}

fn connections(world: &World) -> Vec<Connection> {
    world.read(|db, txn| db.connections.iter(txn)?.map(|row| row.map(|(_, row)| row)).collect())
}

#[test]
fn connections_of_a_turn_to_a_host_share_a_record() {
    let mut world = world("\"ask\"\nallow = [\"a.org\"]");
    let allowed = NetVerdict::Allowed(RuleOrigin::Allow("a.org".parse().unwrap()));
    let refused = NetVerdict::Refused(NetRefusal::Unlisted);
    let seen = vec![
        connection(&world, "a.org:443", &allowed),
        connection(&world, "b.org:443", &refused),
        connection(&world, "a.org:443", &allowed),
    ];
    world.put(Input::Connections(seen));
    let later = vec![
        connection(&world, "a.org:443", &allowed),
        // A run that never was leaves no record.
        ConnectionSeen { incarnation: 9, ..connection(&world, "a.org:443", &allowed) },
    ];
    world.put(Input::Connections(later));
    world.settle();
    world.assert_sound();
    let rows = connections(&world);
    let short = |row: &Connection| (row.to.as_ref().map(ToString::to_string), row.count, row.up, row.down);
    let found: Vec<_> = rows.iter().map(short).collect();
    assert_eq!(found, [(Some("a.org:443".into()), 3, 300, 3_000), (Some("b.org:443".into()), 1, 100, 1_000)]);
    let claimed = world.all_messages().into_iter().find(|(_, m)| matches!(m.state, MessageState::Claimed { .. }));
    assert_eq!(rows[0].message, claimed.map(|(id, _)| id), "they belong to the message that the agent works on");
}

#[test]
fn records_of_a_turn_are_bounded_and_end_with_the_journal() {
    let mut world = world("\"ask\"");
    let refused = NetVerdict::Refused(NetRefusal::Unlisted);
    let seen = (0..600).map(|number| connection(&world, &format!("h{number}.org:443"), &refused)).collect();
    world.put(Input::Connections(seen));
    world.settle();
    world.assert_sound();
    let rows = connections(&world);
    assert_eq!(rows.len(), 501);
    assert_eq!(rows.last().map(|row| (row.to.clone(), row.count)), Some((None, 100)));
    world.pass(Millis::days(31));
    for _ in 0..20 {
        world.sweep();
        world.settle();
    }
    world.assert_sound();
    assert_eq!(connections(&world).len(), 0);
}

#[test]
fn a_removed_agent_leaves_no_decision() {
    let mut world = world("\"ask\"");
    assert_eq!(wants(&mut world, "a.org:443"), Ok(()));
    decide(&mut world, 1, "always");
    world.settle();
    let row = world.read(|db, txn| Ok(db.host_grants.iter(txn)?.next().unwrap()?.1));
    assert_eq!(row.decision, HostDecision::Always);
    world.configure(vec![Change::RemoveAgent(Folder::new("main").unwrap())]).unwrap();
    world.settle();
    world.assert_sound();
    assert_eq!(world.read(|db, txn| db.host_grants.len(txn)), 0);
}
