//! The index of what was said is made again beside normal work, while the daemon is killed again and again.

use std::time::Duration;

use hearth::state::{self, Number, Options, Reader, Store, Tables, Text, recall};

use crate::host::agents::searched;
use crate::host::{Host, event, wait_for};

/// Texts that are stored without a turn each.
const TEXTS: usize = 1_500;

fn is_made(host: &Host) -> bool {
    let made = Reader::open(&host.data()).unwrap().read(|db, txn| {
        let version = db.retention_cursors.get(txn, &Text::new("recall_version")?)?;
        let old = recall::version::is_old(db, txn)?;
        Ok::<_, hearth::state::Error>(version != Some(Number(77)) && !old)
    });
    let ended = searched(host, "boiler");
    made.unwrap() && ended.code == Some(0) && !ended.stderr.contains("still being indexed")
}

/// A daemon with a chat whose texts are stored without a turn each.
fn listening() -> Host {
    let mut host = Host::with_echo();
    host.apply(
        "schema = 1\n[[chats]]\nchannel = \"telegram\"\nplatform_id = \"123\"\ngroup = true\nunknown_senders = \"public\"\n\
         [[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \"^go\"\nignored = \"accumulate\"\n",
    );
    host.start();
    host
}

fn say(host: &Host, count: usize) {
    let mut all = String::new();
    for number in 0..count {
        all.push_str(&event(&format!("m{number}"), &format!("the boiler number {number} is warm")).to_string());
        all.push('\n');
    }
    host.done(&["inject", "--json"], all.as_bytes());
}

#[test]
fn a_daemon_makes_segments_beside_its_transactions() {
    let host = listening();
    // Fewer than those of which a transaction would make a segment.
    say(&host, 300);
    let is_made = (0..100).any(|number| {
        host.inject(&format!("late{number}"), "the boiler is cold");
        let segments = |db: &Tables, txn: &state::Read<'_>| db.recall_segments.len(txn);
        Reader::open(&host.data()).unwrap().read(segments).unwrap() > 0
    });
    assert!(is_made, "no segment of the 300 texts was written");
    assert!(searched(&host, "\"number 299\"").stdout.replace("**", "").contains("number 299 is warm"));
    host.check();
}

/// An index of another version is made again at the next start.
fn make_old(host: &Host) {
    let store = Store::open(&host.data(), Options::new(hearth::clock::random().unwrap())).unwrap();
    let old = store.write(|db, txn| {
        db.retention_cursors.put(txn, &Text::new("recall_version")?, &Number(77))?;
        Ok::<_, hearth::state::Error>(())
    });
    old.unwrap();
}

/// The chat that has the address of a removed one is another chat.
#[test]
fn removed_chats_stay_removed_when_the_index_is_made_again() {
    for session in ["shared", "agent-shared"] {
        let mut host = listening();
        let chat = format!(
            "schema = 1\n[[chats]]\nchannel = \"telegram\"\nplatform_id = \"123\"\ngroup = true\n\
             unknown_senders = \"public\"\n[[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\n\
             pattern = \"^go\"\nignored = \"accumulate\"\nsession = \"{session}\"\n"
        );
        host.apply(&chat);
        host.inject("old", "the boiler is warm");
        host.inject("answered", "go and see the boiler");
        let found = |host: &Host| searched(host, "boiler").stdout.replace("**", "");
        wait_for("the answer", || (found(&host).matches("go and see").count() == 2).then_some(()));
        host.done(&["chats", "remove", "telegram/123"], b"");
        assert!(!found(&host).contains("boiler is"), "{session}: {}", found(&host));
        host.apply(&chat);
        host.inject("new", "another boiler");
        for again in [false, true] {
            if again {
                host.stop();
                make_old(&host);
                host.start();
                wait_for("the index", || is_made(&host).then_some(()));
            }
            let found = found(&host);
            assert!(found.contains("another boiler"), "{session}: {found}");
            assert!(!found.contains("is warm") && !found.contains("go and see"), "{session}: {found}");
            host.check();
        }
    }
}

#[test]
fn an_index_that_is_made_again_survives_kills() {
    let mut host = listening();
    say(&host, TEXTS);
    host.stop();
    host.check();
    make_old(&host);
    let mut killed = 0;
    for nth in [2, 3, 5, 8, 13, 21, 34] {
        host.env.push(("HEARTH_TEST_CRASH_AT".to_owned(), format!("store-commit:{nth}")));
        host.launch();
        host.env.clear();
        let daemon = host.daemon().unwrap();
        let died = (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            daemon.try_end().is_some()
        });
        if !died {
            host.kill();
        } else {
            assert_eq!(host.ended().signal, Some(9));
            killed += 1;
        }
        host.check();
    }
    assert!(killed >= 4, "the daemon died {killed} times while it worked");
    host.start();
    wait_for("the index", || is_made(&host).then_some(()));
    host.check();
    for number in [0, 700, TEXTS - 1] {
        let found = searched(&host, &format!("\"number {number}\"")).stdout.replace("**", "");
        assert!(found.contains(&format!("number {number} is warm")), "{found}");
    }
    host.inject("late", "the boiler is cold");
    assert!(searched(&host, "cold").stdout.replace("**", "").contains("the boiler is cold"));
    host.check();
}
