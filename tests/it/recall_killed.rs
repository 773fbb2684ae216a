//! The index of what was said is made again beside normal work, while the daemon is killed again and again.

use std::time::Duration;

use hearth::state::{Number, Options, Reader, Store, Text, recall};

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

#[test]
fn an_index_that_is_made_again_survives_kills() {
    let mut host = Host::with_echo();
    host.apply(
        "schema = 1\n[[chats]]\nchannel = \"telegram\"\nplatform_id = \"123\"\ngroup = true\nunknown_senders = \"public\"\n\
         [[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \"^go\"\nignored = \"accumulate\"\n",
    );
    host.start();
    let mut all = String::new();
    for number in 0..TEXTS {
        all.push_str(&event(&format!("m{number}"), &format!("the boiler number {number} is warm")).to_string());
        all.push('\n');
    }
    host.done(&["inject", "--json"], all.as_bytes());
    host.stop();
    host.check();
    let store = Store::open(&host.data(), Options::new(hearth::clock::random().unwrap())).unwrap();
    let old = store.write(|db, txn| {
        db.retention_cursors.put(txn, &Text::new("recall_version")?, &Number(77))?;
        Ok::<_, hearth::state::Error>(())
    });
    old.unwrap();
    drop(store);
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
