//! The command gate within routing: commands that reach no agent, commands that need a role, and the notice of a
//! denial.

use std::fmt::Write as _;

use hearth::model::Effect;
use hearth::model::message::Reason;
use hearth::model::report::{Decision, Outcome};

use crate::world::routing::{ALWAYS, KEEP, MENTION, MENTIONED, chat, decisions, drops, launches};
use crate::world::{World, event, event_in};

const PEOPLE: &str = r#"
[[agents]]
folder = "another"
[[users]]
id = "net:own"
roles = ["owner"]
[[users]]
id = "net:adm"
roles = ["admin"]
[[users]]
id = "net:mine"
roles = ["admin:main"]
[[users]]
id = "net:other"
roles = ["admin:another"]
member_of = ["main"]
[[users]]
id = "net:mem"
member_of = ["main"]
"#;

fn said(world: &World) -> Vec<(String, String)> {
    let shown = |at: hearth::model::Address| format!("{}/{}", at.channel, at.platform_id);
    world.all_outbound().into_iter().map(|(_, outbound)| (outbound.to.map(shown).unwrap(), outbound.text)).collect()
}

/// None: it passes. The command is the one named in the notice to the sender.
type Refusal = Option<(Decision, &'static str)>;

const PASS: Refusal = None;
const FILTER: Refusal = Some((Decision::Filtered, ""));

const fn deny(command: &'static str) -> Refusal {
    Some((Decision::Denied, command))
}

/// As NanoClaw decides. `null` is a sender without an id.
const COMMANDS: &[(&str, &[&str], Refusal)] = &[
    ("hello", &["own", "mem", "eve", "null"], PASS),
    (" /config ", &["own", "eve"], FILTER),
    ("/remote-control", &["own"], FILTER),
    ("/login", &["own"], FILTER),
    ("/logout", &["own"], FILTER),
    ("/doctor", &["own"], FILTER),
    ("/clear", &["own", "adm", "mine"], PASS),
    ("/clear", &["other", "mem", "eve", "null"], deny("/clear")),
    ("/Compact now", &["mem"], deny("/compact")),
    ("/clear\\tfoo", &["mem"], deny("/clear")),
    ("/context", &["mem"], deny("/context")),
    ("/files", &["mem"], deny("/files")),
    // Not a prefix: NanoClaw's container clears the session anyway, while Hearth compares the complete command.
    ("/clearance sale", &["mem"], PASS),
    ("/review", &["mem"], PASS),
    ("/start", &["mem"], PASS),
    ("/", &["own", "null"], PASS),
];

#[test]
fn commands() {
    for (text, senders, outcome) in COMMANDS {
        for (sender, kind) in senders.iter().flat_map(|sender| [(*sender, "chat"), (*sender, "chat-sdk")]) {
            let case = format!("{text:?} of {sender} as {kind}");
            let mut world = World::of(&format!("{PEOPLE}{}", chat("public", &[("main", ALWAYS)])));
            let id = if sender == "null" { String::new() } else { format!(",\"senderId\":\"{sender}\"") };
            let report = world.inject(&format!(
                r#"{{"channelType":"net","platformId":"C","message":{{"id":"1","kind":"{kind}","content":{{"text":"{text}"{id}}}}}}}"#
            ));
            let (decision, why, told) = match outcome {
                None => (Decision::Engaged, Reason::PatternMatch, vec![]),
                Some((Decision::Denied, command)) => {
                    let text = format!("Permission denied: {command} requires admin access.");
                    (Decision::Denied, Reason::CommandDenied, vec![("net/C".to_owned(), text)])
                }
                Some(_) => (Decision::Filtered, Reason::CommandFiltered, vec![]),
            };
            assert_eq!(decisions(&report), [("main".to_owned(), decision, why)], "{case}");
            assert_eq!(said(&world), told, "{case}");
            let refused = outcome.map(|_| why);
            assert_eq!((report.reason, drops(&world)), (refused, Vec::from_iter(refused)), "{case}");
            let sessions = world.read(|db, txn| db.sessions.len(txn));
            assert_eq!(sessions, u64::from(outcome.is_none()), "{case}: no session of junk commands");
            assert_eq!(launches(&world), usize::from(outcome.is_none()), "{case}");
        }
    }
}

/// Content that is only text is checked by that text, and the denial is really sent.
#[test]
fn a_denial_is_delivered_where_the_answer_goes() {
    let mut world = World::of(&chat("public", &[("main", ALWAYS)]));
    let report = world.inject(
        r#"{"channelType":"net","platformId":"C","message":{"id":"1","content":"/cost"},
        "replyTo":{"channelType":"cli","platformId":"local"}}"#,
    );
    assert_eq!((report.outcome, report.reason), (Outcome::Dropped, Some(Reason::CommandDenied)));
    let denial = "Permission denied: /cost requires admin access.";
    assert_eq!(said(&world), [("cli/local".to_owned(), denial.to_owned())]);
    world.settle();
    assert_eq!(world.outside.shown.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), [denial]);
    // The same event again is answered once.
    let before = world.text();
    let again = world.inject(r#"{"channelType":"net","platformId":"C","message":{"id":"1","content":"/cost"}}"#);
    assert_eq!((again.outcome, again.reason), (Outcome::Duplicate, Some(Reason::CommandDenied)));
    assert_eq!(world.text(), before);
}

/// Senders who may not talk to the agent are not told about commands. A command that does not engage is neither
/// answered nor kept.
#[test]
fn the_gate_comes_last_and_answers_only_who_was_heard() {
    let known = &format!("{ALWAYS}\nsenders = \"known\"");
    for (policy, wiring, sender, text, more, decision, why, answers) in [
        ("strict", ALWAYS, "eve", "/clear", "", Decision::Refused, Reason::UnknownSenderStrict, 0),
        ("strict", ALWAYS, "eve", "/help", "", Decision::Refused, Reason::UnknownSenderStrict, 0),
        ("strict", ALWAYS, "mem", "/help", "", Decision::Done, Reason::OwnCommand, 1),
        ("public", known.as_str(), "eve", "/clear", "", Decision::Refused, Reason::SenderScopeNotMember, 0),
        ("strict", ALWAYS, "mem", "/clear", "", Decision::Denied, Reason::CommandDenied, 1),
        ("strict", MENTION, "mem", "/clear", "", Decision::Ignored, Reason::NotMentioned, 0),
        ("strict", KEEP, "mem", "/clear", "", Decision::Denied, Reason::CommandDenied, 0),
        ("strict", KEEP, "eve", "/clear", "", Decision::Refused, Reason::UnknownSenderStrict, 0),
        ("public", KEEP, "eve", "/clear", "", Decision::Denied, Reason::CommandDenied, 0),
        ("strict", KEEP, "mine", "/clear", "", Decision::Accumulated, Reason::NotMentioned, 0),
        ("strict", KEEP, "mine", "/help", "", Decision::Filtered, Reason::CommandFiltered, 0),
        ("strict", KEEP, "mem", "/clear", MENTIONED, Decision::Denied, Reason::CommandDenied, 1),
        ("strict", KEEP, "mine", "/clear", MENTIONED, Decision::Engaged, Reason::Mentioned, 0),
    ] {
        let case = format!("{policy} {wiring:?} {sender} {text} {more}");
        let mut world = World::of(&format!("{PEOPLE}{}", chat(policy, &[("main", wiring)])));
        let sender = format!("\"senderId\":\"{sender}\"");
        let report = world.inject(&event_in(("net", "C", None), ("1", text, &sender), more));
        assert_eq!(decisions(&report), [("main".to_owned(), decision, why)], "{case}");
        assert_eq!(said(&world).len(), answers, "{case}");
        let stored = matches!(decision, Decision::Engaged | Decision::Accumulated);
        assert_eq!(world.all_messages().len(), usize::from(stored), "{case}");
        let reason = if decision == Decision::Ignored { Reason::NoAgentEngaged } else { why };
        assert_eq!(drops(&world), if stored { vec![] } else { vec![reason] }, "{case}");
    }
}

/// Ten agents that deny a command are ten refusals and one reply. An agent that allows it receives it.
#[test]
fn a_fan_out_denies_once() {
    let mut toml = chat("public", &[("a", ALWAYS), ("b", ALWAYS), ("c", KEEP), ("d", MENTION)]);
    write!(toml, "[[users]]\nid = \"net:bob\"\nroles = [\"admin:b\"]\n").unwrap();
    let mut world = World::of(&toml);
    let report = world.inject(&event("1", "/clear", ""));
    assert_eq!(report.reason, Some(Reason::CommandDenied));
    assert_eq!((said(&world).len(), drops(&world)), (1, vec![Reason::CommandDenied; 3]));
    let report = world.inject(&event_in(("net", "C", None), ("2", "/clear", "\"senderId\":\"bob\""), ""));
    assert_eq!((report.outcome, report.reason), (Outcome::Routed, None));
    let decided: Vec<Decision> = report.wirings.iter().map(|wiring| wiring.decision).collect();
    assert_eq!(decided, [Decision::Denied, Decision::Engaged, Decision::Denied, Decision::Ignored]);
    assert_eq!((world.all_messages().len(), launches(&world)), (1, 1));
    assert!(world.effects.iter().any(|effect| matches!(effect, Effect::Deliver(_))));
}

/// A context message whose sender lost a role does not become a trigger as a command.
#[test]
fn a_duplicate_is_gated_again() {
    let keep = |roles: &str| {
        let user = format!("[[users]]\nid = \"net:bob\"\nroles = [{roles}]\n");
        format!("{user}{}", chat("public", &[("main", KEEP)]))
    };
    let mut world = World::of(&keep("\"owner\""));
    let bob = |more| event_in(("net", "C", None), ("1", "/clear", "\"senderId\":\"bob\""), more);
    assert_eq!(world.inject(&bob("")).wirings[0].decision, Decision::Accumulated);
    world.apply(&keep(""));
    let before = world.text();
    assert_eq!(world.inject(&bob(MENTIONED)).wirings[0].why, Reason::AlreadyStored);
    assert_eq!(world.text(), before);
    world.apply(&keep("\"admin:main\""));
    assert_eq!(world.inject(&bob(MENTIONED)).wirings[0].why, Reason::RaisedToTrigger);
}
