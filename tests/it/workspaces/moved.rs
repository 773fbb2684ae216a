//! Directories that were moved, replaced, copied or are at two paths.

use super::*;

/// With and without a daemon.
#[test]
fn a_moved_directory_is_adopted_once() {
    for with_daemon in [false, true] {
        let (mut host, root) = host();
        let old = made(root.join("old"));
        let key = begin(&host, &old, None, "s");
        let new = root.join("new");
        std::fs::rename(&old, &new).unwrap();
        assert_eq!(begin(&host, &new, None, "t"), "workspace_moved");
        if with_daemon {
            host.start();
        }
        let found = status(&host, &new);
        assert_eq!(
            (&found["state"], &found["workspace"], &found["sessions"]),
            (&"moved".into(), &Value::Null, &0.into())
        );
        assert_eq!(found["related"][0]["root"].as_str(), old.to_str());
        assert!(found["notes"][0].as_str().unwrap().starts_with("moved? "), "{found}");
        let adopted = json(&host, &new, &["adopt"]);
        assert_eq!((&adopted["workspace"], &adopted["changed"]), (&key.as_str().into(), &true.into()), "{adopted}");
        let found = status(&host, &new);
        assert_eq!(
            (&found["state"], &found["workspace"], &found["sessions"]),
            (&"known".into(), &key.as_str().into(), &1.into())
        );
        assert_eq!(found["former_paths"][0]["path"].as_str(), old.to_str());
        assert_eq!(found["events"].as_array().unwrap().last().unwrap()["event"], "adopted");
        let again = json(&host, &new, &["adopt"]);
        assert_eq!((&again["workspace"], &again["changed"]), (&key.as_str().into(), &false.into()));
        assert_eq!(status(&host, &new)["events"], found["events"], "the second time nothing happens");
        // A workspace created at the old path is unrelated to it.
        made(old.clone());
        assert_eq!(status(&host, &old)["state"], "unknown");
        host.check();
    }
}

#[test]
fn a_replaced_directory_does_not_get_the_old_sessions() {
    let (host, root) = host();
    let dir = made(root.join("p"));
    let key = begin(&host, &dir, None, "s");
    std::fs::remove_dir(&dir).unwrap();
    assert_eq!(status(&host, &root.join(".").join("p").parent().unwrap().join(""))["state"], "unknown");
    let missing = json(&host, &root, &["status", "p/"]);
    assert_eq!((&missing["state"], &missing["exists"]), (&"unknown".into(), &false.into()), "a path as it is given");
    let missing = json(&host, &root, &["status", dir.to_str().unwrap()]);
    assert_eq!((&missing["state"], &missing["exists"]), (&"known".into(), &false.into()), "{missing}");
    // Makes sure that another directory does not get the inode number and creation time of the old one.
    made(root.join("between"));
    made(dir.join(".git"));
    let found = status(&host, &dir);
    assert_eq!((&found["state"], &found["sessions"]), (&"replaced".into(), &0.into()), "{found}");
    assert_eq!(found["related"][0]["relation"], "earlier");
    assert_eq!(found["related"][0]["sessions"], 1);
    let own = begin(&host, &dir, None, "s");
    assert_ne!(own, key);
    let found = status(&host, &dir);
    assert_eq!((found["workspace"].as_str(), &found["sessions"]), (Some(own.as_str()), &1.into()));
    assert_eq!(found["related"][0]["workspace"], key.as_str(), "{found}");
    let refused = json(&host, &dir, &["adopt", "--from", &key]);
    assert_eq!(refused["kind"], "has_own_sessions", "{refused}");
    host.check();
}

#[test]
fn a_copy_is_a_workspace_of_its_own() {
    let (host, root) = host();
    let (original, copy) = (made(root.join("original")), made(root.join("copy")));
    let key = begin(&host, &original, None, "s");
    let found = status(&host, &copy);
    assert_eq!((&found["state"], &found["sessions"]), (&"unknown".into(), &0.into()));
    let refused = json(&host, &copy, &["adopt", "--from", "../original"]);
    assert_eq!(refused["kind"], "workspace_still_there", "{refused}");
    assert_ne!(begin(&host, &copy, None, "s"), key);
    // When the original is gone, another copy can adopt its sessions.
    std::fs::remove_dir(&original).unwrap();
    let second = made(root.join("second"));
    let adopted = json(&host, &second, &["adopt", "--from", "../original/"]);
    assert_eq!((&adopted["workspace"], &adopted["changed"]), (&key.as_str().into(), &true.into()), "{adopted}");
    host.check();
}

#[test]
fn one_directory_at_two_paths_is_told_and_kept_apart() {
    let (host, root) = host();
    let (real, first, second) = (made(root.join("real")), made(root.join("first")), made(root.join("second")));
    let key = begin(&host, &real, None, "s");
    let (Some(_one), Some(_two)) = (Bound::new(&real, &first), Bound::new(&real, &second)) else { return };
    let found = status(&host, &first);
    assert_eq!((&found["state"], &found["sessions"]), (&"alias".into(), &0.into()), "{found}");
    assert_eq!(found["related"][0]["workspace"], key.as_str());
    assert_ne!(begin(&host, &first, Some(&real), "s"), key);
    assert_eq!(status(&host, &first)["related"][0]["relation"], "same_directory");
    let adopted = json(&host, &second, &["adopt"]);
    assert_eq!((&adopted["workspace"], &adopted["changed"]), (&key.as_str().into(), &true.into()), "{adopted}");
    assert_eq!(status(&host, &second)["workspace"], key.as_str());
    let found = status(&host, &real);
    assert_eq!((&found["workspace"], found["aliases"][0]["path"].as_str()), (&key.as_str().into(), second.to_str()));
    host.check();
}
