//! Attacks by senders, through a webhook, Telegram and the socket of a real daemon.

mod cards;
mod entrances;
mod ground;
mod identity;
mod strangers;
mod texts;

use hearth::model::attack::ATTACKS;

use self::ground::Ground;
use crate::host::beside::failing;

/// An attack's name, and the function that tries it; it panics if the attack succeeds.
type Case = (&'static str, fn(&mut Ground));

const CASES: &[Case] = &[
    ("name", identity::name),
    ("namespace", identity::namespace),
    ("agent-namespace", identity::agent_namespace),
    ("other-channel", identity::other_channel),
    ("commands", identity::commands),
    ("foreign-press", cards::foreign_press),
    ("invented-press", cards::invented_press),
    ("replayed-press", cards::replayed_press),
    ("old-press", cards::old_press),
    ("disguised-name", cards::disguised_name),
    ("element", texts::element),
    ("control", texts::control),
    ("attachment-name", texts::attachment_name),
    ("huge-text", texts::huge_text),
    ("mention-flood", texts::mention_flood),
    ("nested", texts::nested),
    ("unknown-chats", strangers::unknown_chats),
    ("stranger-files", strangers::stranger_files),
    ("again", entrances::again),
    ("same-id", entrances::same_id),
    ("unsigned", entrances::unsigned),
    ("old-stamp", entrances::old_stamp),
    ("changed-body", entrances::changed_body),
    ("slow", entrances::slow),
    ("no-token", entrances::no_token),
    ("endless-line", entrances::endless_line),
    ("silence", entrances::silence),
];

#[test]
fn every_attack_of_the_list_has_its_case() {
    let listed: Vec<&str> = ATTACKS.iter().filter(|attack| !attack.is_by_agent()).map(|attack| attack.name).collect();
    let cases: Vec<&str> = CASES.iter().map(|(name, _)| *name).collect();
    assert_eq!(cases, listed);
}

/// Number of cases at the same time: they wait more than they work.
const THREADS: usize = 4;

/// Each attack has a daemon of its own; all that succeed are reported.
#[test]
fn none_of_them_succeeds() {
    let failed = failing(THREADS, CASES, |(_, case)| {
        let mut ground = Ground::new();
        case(&mut ground);
        ground.host.check();
    });
    let failed: Vec<&str> = failed.into_iter().map(|(name, _)| *name).collect();
    assert!(failed.is_empty(), "{failed:?}");
}
