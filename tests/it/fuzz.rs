//! The laws of the fuzz targets, on the corpus and on thousands of inputs derived from it, without a fuzzer. Equal
//! seeds give equal inputs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::fuzz_laws::{LAWS, Law};
use crate::world::chance::Chance;

/// Inputs derived for each law. The laws `lines` and `stores` create a store for each.
const MADE: u64 = 400;
const MADE_SLOW: u64 = 20;

/// Tokens that mutations insert: what parsers look for.
const WORDS: [&str; 16] = [
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    "\n",
    "<",
    "</message>",
    "<internal>",
    "\\ud83e",
    "-1",
    "99999999999999999999",
    "\u{0}",
    "🦀",
    "*/",
];

#[test]
fn every_law_holds_for_what_is_kept_and_what_is_made_of_it() {
    for (name, law) in LAWS {
        let kept = corpus(name);
        assert!(!kept.is_empty(), "{name} has no corpus");
        for (path, bytes) in &kept {
            holds(name, *law, bytes, &path.display().to_string());
        }
        let number = if ["lines", "stores"].contains(name) { MADE_SLOW } else { MADE };
        for seed in 0..number {
            let mut chance = Chance(seed);
            holds(name, *law, &made(&kept, &mut chance), &format!("seed {seed}"));
        }
    }
}

/// The fuzzer takes its laws from the directories.
#[test]
fn every_corpus_has_a_law() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
    let mut corpora: Vec<String> =
        std::fs::read_dir(corpora).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    corpora.sort();
    let mut laws: Vec<&str> = LAWS.iter().map(|(name, _)| *name).collect();
    laws.sort_unstable();
    assert_eq!(corpora, laws);
}

fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(name);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

fn holds(name: &str, law: Law, bytes: &[u8], what: &str) {
    let broken = catch_unwind(AssertUnwindSafe(|| law(bytes))).is_err();
    assert!(!broken, "{name} is broken by {what}: {:?}", String::from_utf8_lossy(bytes));
}

/// One of the corpus inputs, changed in a few places.
fn made(kept: &[(PathBuf, Vec<u8>)], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = kept[chance.index(kept.len())].1.clone();
    for _ in 0..=chance.index(4) {
        let (at, to) = (chance.index(bytes.len() + 1), chance.index(bytes.len() + 1));
        let range = at.min(to)..at.max(to).min(at.min(to) + 40);
        match chance.index(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << chance.index(8),
            1 => drop(bytes.drain(range)),
            2 => {
                let piece = bytes[range].to_vec();
                drop(bytes.splice(to..to, piece));
            }
            3 => {
                let other = &kept[chance.index(kept.len())].1;
                let from = chance.index(other.len() + 1);
                let piece = other[from..other.len().min(from + 40)].to_vec();
                drop(bytes.splice(at..at, piece));
            }
            4 => bytes.truncate(at),
            _ => drop(bytes.splice(at..at, WORDS[chance.index(WORDS.len())].bytes())),
        }
    }
    bytes
}
