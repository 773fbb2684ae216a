//! A disk that can hold no more files, although it has free bytes.

use serde_json::Value;

use crate::host::disk::Disk;
use crate::host::{Ended, Host, event, with_chat};

fn inject(host: &Host, id: &str) -> Ended {
    host.run(&["inject", "--json"], event(id, "hello").to_string().as_bytes())
}

/// Inodes count as space: Hearth refuses a message whose files could not be created, and tells people why.
#[test]
fn without_inodes_there_is_no_room() {
    let host = Host::before_the_first_start();
    let Some(_disk) = Disk::with_inodes(host.data(), 1_500) else { return };
    host.apply(&with_chat(""));
    assert_eq!(inject(&host, "before").code, Some(0));
    let filler = host.data().join("groups/main/filler");
    std::fs::create_dir_all(&filler).unwrap();
    for number in 0..500 {
        std::fs::write(filler.join(number.to_string()), "").unwrap();
    }
    let refused = inject(&host, "without");
    assert!(refused.code != Some(0), "{refused:#?}");
    assert!(format!("{}{}", refused.stdout, refused.stderr).contains("inodes left"), "{refused:#?}");
    let status = host.status();
    let store = &status["store"];
    assert!(store["free_inodes"].as_u64().is_some_and(|left| left < 1_000), "{store}");
    assert!(store["refuses"].as_str().is_some_and(|why| why.contains("inodes left")), "{store}");
    let named = "agent main uses the most space, 0 bytes in 5";
    let warnings = &status["warnings"];
    assert!(warnings.to_string().contains(named) && warnings.to_string().contains("in its folder"), "{warnings}");
    let doctor: Value = serde_json::from_str(&host.run(&["doctor", "--json"], b"").stdout).unwrap();
    assert!(doctor.to_string().contains("inodes left") && doctor.to_string().contains(named), "{doctor}");
    std::fs::remove_dir_all(&filler).unwrap();
    let after = inject(&host, "after");
    assert_eq!(after.code, Some(0), "there is room again: {after:#?}");
}
