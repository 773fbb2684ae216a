//! Nothing that Hearth does outside of a transaction is omitted: every point in the sources is reached by the
//! conversation or a command, or a separate test crashes a process there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Conversation, origin, passed_by_commands};
use crate::host::deaths::POINTS;
use crate::host::deaths::STATE_FILE_POINTS;

/// Points that are not reached here, and where they are.
const ELSEWHERE: [(&str, &str); 16] = [
    ("container-make", "there has to be a Podman: `containers::deaths`"),
    ("container-start", "there has to be a Podman: `containers::deaths`"),
    ("container-stop", "there has to be a Podman: `containers::deaths`"),
    ("container-remove", "there has to be a Podman: `containers::deaths`"),
    ("filter-write", "there has to be a Podman: `containers::deaths`"),
    ("filter-rename", "there has to be a Podman: `containers::deaths`"),
    ("secrets-pipe", "there has to be a Podman: `containers::deaths`"),
    ("secrets-write", "there has to be a Podman: `containers::deaths`"),
    ("image-build", "there has to be a Podman: `containers::deaths`"),
    ("remains-aside", "a store has to be missing: `missing_store`"),
    ("reserve-share", "the disk has to be full: `trouble`"),
    ("reserve-release", "the disk has to be full: `trouble`"),
    ("speak", "answers have to be spoken: `voice::speech`"),
    ("spoken", "answers have to be spoken: `voice::speech`"),
    ("transcribe", "voice messages have to be transcribed: `voice`"),
    ("transcribed", "voice messages have to be transcribed: `voice`"),
];

#[test]
fn every_point_in_the_sources_is_passed() {
    // The later points are reached only if an agent's files are scanned during the conversation.
    let deaths_of_their_own = POINTS.iter().map(|(name, _)| *name).chain(STATE_FILE_POINTS);
    let mut passed: BTreeSet<String> = deaths_of_their_own.map(str::to_owned).collect();
    passed.extend(Conversation::new(&origin(), None).run().points);
    passed.extend(passed_by_commands());
    let written = written();
    let elsewhere: BTreeSet<String> = ELSEWHERE.iter().map(|(name, _)| (*name).to_owned()).collect();
    let missed: Vec<&String> = written.difference(&passed).filter(|name| !elsewhere.contains(*name)).collect();
    assert!(missed.is_empty(), "no test comes to {missed:?}");
    let gone: Vec<&String> = elsewhere.difference(&written).collect();
    assert!(gone.is_empty(), "there are no points {gone:?} any more");
}

/// The names of all points in the sources.
fn written() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut ahead: Vec<PathBuf> = ["src", "container", "tools"].map(|part| root.join(part)).to_vec();
    let mut names = BTreeSet::new();
    while let Some(path) = ahead.pop() {
        if path.is_dir() {
            ahead.extend(std::fs::read_dir(path).unwrap().flatten().map(|entry| entry.path()));
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            for (at, _) in text.match_indices("crash::point(") {
                let line = text[at..].lines().next().unwrap();
                names.extend(line.split('"').skip(1).step_by(2).map(str::to_owned));
                assert!(line.contains('"'), "{}: a point without a name", path.display());
            }
        }
    }
    names
}
