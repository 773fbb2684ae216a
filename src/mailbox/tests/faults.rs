//! Every function that touches files reports system errors with the system's message.

use std::ffi::OsStr;
use std::path::Path;

use crate::faults::{errors, refused};
use crate::mailbox::dir::{Dir, DirEntry, fresh};
use crate::mailbox::error::Error;

/// A function by name, with its result as text.
type Case = (&'static str, fn(&Dir, &Path) -> Result<String, Error>);

fn shown<T>(look: DirEntry<T>) -> String {
    match look {
        DirEntry::Found(_) => "found".to_owned(),
        DirEntry::Absent => "absent".to_owned(),
        DirEntry::Refused(why) => why,
    }
}

const CASES: [Case; 18] = [
    ("open_trusted", |_, path| Dir::open_trusted(path).map(|_| "found".to_owned())),
    ("dir", |dir, _| dir.dir("below").map(shown)),
    ("file", |dir, _| dir.file(OsStr::new("file"), 9).map(shown)),
    ("read", |dir, _| dir.read(OsStr::new("file"), 9).map(shown)),
    ("list", |dir, _| dir.list(9).map(|_| "found".to_owned())),
    ("has", |dir, _| dir.has(OsStr::new("file")).map(|has| has.to_string())),
    ("modified", |dir, _| dir.modified(OsStr::new("file")).map(|at| format!("{at:?}"))),
    ("ensure_dir", |dir, _| dir.ensure_dir("below", 0o700).map(|_| "found".to_owned())),
    ("ensure_dir, new", |dir, _| dir.ensure_dir("new", 0o700).map(|_| "found".to_owned())),
    ("offer_dir", |dir, _| dir.offer_dir("new", 0o700).map(|()| "found".to_owned())),
    ("create", |dir, _| dir.create(OsStr::new("new"), 0o600).map(|_| "found".to_owned())),
    ("write", |dir, _| dir.write("new", b"x", 0o600).map(|()| "found".to_owned())),
    ("rename", |dir, _| dir.rename(OsStr::new("file"), dir, OsStr::new("new")).map(|()| "found".to_owned())),
    ("remove", |dir, _| dir.remove(OsStr::new("file")).map(|_| "gone".to_owned())),
    ("sync", |dir, _| dir.sync().map(|()| "found".to_owned())),
    ("take_back", |dir, _| {
        let taken = dir.take_back(OsStr::new("below"));
        taken.map(|_| "found".to_owned()).map_err(|errno| Error::io("take back", dir.path(), errno))
    }),
    ("create, unfinished", |dir, _| {
        let name = hearth_wire::temporary_name("new", fresh());
        dir.create(OsStr::new(&name), 0o600).map(|_| "found".to_owned())
    }),
    ("touch", |dir, path| {
        let file = std::fs::File::open(path.join("file")).map_err(|error| Error::io("open", path, error))?;
        dir.touch(&file, OsStr::new("file")).map(|()| "found".to_owned())
    }),
];

/// A failure that an agent can cause, not a fault of the machine: the agent may remove a file, or its permissions.
fn is_a_value(function: &str, words: &str, value: &str) -> bool {
    match words {
        "No such file or directory" => {
            let looks = ["dir", "file", "read", "has", "modified", "remove"].contains(&function);
            looks && ["absent", "false", "None", "gone"].contains(&value)
        }
        "Permission denied" => ["dir", "file", "read"].contains(&function) && value == "it may not be opened",
        _ => false,
    }
}

#[test]
fn every_refusal_of_the_system_keeps_its_cause() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("below")).unwrap();
    std::fs::write(place.path().join("file"), "x").unwrap();
    let dir = Dir::open_trusted(place.path()).unwrap();
    for (errno, words) in errors() {
        for (function, work) in CASES {
            match refused(errno, || work(&dir, place.path())) {
                Ok(value) => assert!(is_a_value(function, words, &value), "{function}, {words}: {value}"),
                Err(error) => {
                    let text = error.to_string();
                    let place = place.path().display().to_string();
                    assert!(text.starts_with("cannot ") && text.ends_with(&format!(": {words}")), "{function}: {text}");
                    assert!(text.contains(&place) && !text.contains(".tmp-"), "{function}: {text}");
                }
            }
        }
    }
}
