//! Checks a tile of skills before it is published: every forbidden pattern of the rule `no-silent-defer` needs a test.
//!
//! The forbidden patterns are the unindented items of the list under `## Forbidden patterns` in
//! `rules/no-silent-defer.md`. The name of an item is the bold text at its beginning, else the quoted text at its
//! beginning, else its first six words; in lower-case letters and digits, with a single `-` for everything else. A test
//! is a line `forbidden-pattern: <name>` in any file below a directory called `tests` or `test`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::dir::{Content, Dir, Kind};
use super::error::Error;

/// Path of the rule, relative to the tile.
pub const RULE: &str = "rules/no-silent-defer.md";
const HEADING: &str = "## Forbidden patterns";
const MARK: &str = "forbidden-pattern:";
/// Longest file that is read, in bytes.
const FILE_MAX: u64 = 1 << 20;
/// Limits of names in a directory, of files in all, and of nesting.
const NAMES_MAX: usize = 10_000;
const FILES_MAX: usize = 20_000;
const DEPTH_MAX: usize = 16;
/// Number of words that name an item without a name.
const WORDS: usize = 6;

/// A problem of a tile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flaw {
    /// The rule is missing or unreadable, with the reason.
    NoRule(String),
    /// The rule forbids nothing.
    NoExamples,
    /// Two items have this name, so a test cannot refer to one of them.
    SameName(String),
    /// The item with this name has no test.
    NoTest(String),
    /// A test refers to an unknown item: name and file.
    Stray(String, PathBuf),
    /// There are too many files.
    TooMany,
}

/// Finds items without a test, and other problems.
///
/// # Errors
/// [`Error`] if the tile cannot be read.
pub fn lint(tile: &Path) -> Result<Vec<Flaw>, Error> {
    let top = Dir::open(tile)?;
    let rules = top.dir("rules".as_ref())?;
    let text = match rules.map(|rules| rules.read("no-silent-defer.md".as_ref(), FILE_MAX)).transpose()? {
        Some(Content::Whole(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        Some(Content::Refused(why)) => return Ok(vec![Flaw::NoRule(why)]),
        Some(Content::Absent) | None => return Ok(vec![Flaw::NoRule("there is no such file".to_owned())]),
    };
    let mut walk = Walk { marks: BTreeMap::new(), left: FILES_MAX, cut: false };
    walk.dir(&top, Path::new(""), false, DEPTH_MAX)?;
    let mut flaws = decide(&examples(&text), &walk.marks);
    if walk.cut {
        flaws.push(Flaw::TooMany);
    }
    Ok(flaws)
}

fn decide(examples: &[String], marks: &BTreeMap<String, PathBuf>) -> Vec<Flaw> {
    if examples.is_empty() {
        return vec![Flaw::NoExamples];
    }
    let mut flaws = Vec::new();
    let mut names = BTreeSet::new();
    for example in examples {
        if !names.insert(example) {
            flaws.push(Flaw::SameName(example.clone()));
        } else if !marks.contains_key(example) {
            flaws.push(Flaw::NoTest(example.clone()));
        }
    }
    let stray = marks.iter().filter(|(name, _)| !names.contains(name));
    flaws.extend(stray.map(|(name, file)| Flaw::Stray(name.clone(), file.clone())));
    flaws
}

/// Names of a rule's items, in order.
fn examples(rule: &str) -> Vec<String> {
    let section = rule.lines().skip_while(|line| line.trim_end() != HEADING).skip(1);
    let section = section.take_while(|line| !line.starts_with("## ") && !line.starts_with("# "));
    section.filter_map(item).map(name).collect()
}

/// The text of an unindented list item.
fn item(line: &str) -> Option<&str> {
    let bullet = ["- ", "* ", "+ "].iter().find_map(|mark| line.strip_prefix(mark));
    bullet.or_else(|| {
        let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
        (rest.len() < line.len()).then(|| rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") "))).flatten()
    })
}

/// The name of an item.
fn name(text: &str) -> String {
    let text = text.trim();
    let between = |open: &str, close: &str| {
        let inner = text.strip_prefix(open)?.split_once(close)?.0;
        (!inner.trim().is_empty()).then(|| inner.to_owned())
    };
    let named = between("**", "**").or_else(|| between("\"", "\"")).or_else(|| between("“", "”"));
    let named = named.or_else(|| between("`", "`"));
    let words = || text.split_whitespace().take(WORDS).collect::<Vec<_>>().join(" ");
    let mut slug = String::new();
    for c in named.unwrap_or_else(words).to_lowercase().chars() {
        if c.is_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.trim_end_matches('-').to_owned()
}

struct Walk {
    /// Names that tests refer to, and the tests' files.
    marks: BTreeMap<String, PathBuf>,
    left: usize,
    cut: bool,
}

impl Walk {
    fn dir(&mut self, dir: &Dir, at: &Path, tests: bool, depth: usize) -> Result<(), Error> {
        if depth == 0 {
            self.cut = true;
            return Ok(());
        }
        let names = dir.list(NAMES_MAX)?;
        self.cut |= names.len() >= NAMES_MAX;
        for entry in names {
            let at = at.join(&entry);
            match dir.kind(&entry)? {
                Kind::Directory if entry != ".git" => {
                    let tests = tests || entry == "tests" || entry == "test";
                    if let Some(inner) = dir.dir(&entry)? {
                        self.dir(&inner, &at, tests, depth - 1)?;
                    }
                }
                Kind::File if tests && self.left == 0 => self.cut = true,
                Kind::File if tests => {
                    self.left -= 1;
                    if let Content::Whole(bytes) = dir.read(&entry, FILE_MAX)? {
                        self.file(&String::from_utf8_lossy(&bytes), &at);
                    }
                }
                Kind::Directory | Kind::File | Kind::Nothing | Kind::Link | Kind::Other => {}
            }
        }
        Ok(())
    }

    fn file(&mut self, text: &str, at: &Path) {
        for line in text.lines() {
            let Some((_, rest)) = line.split_once(MARK) else { continue };
            let name: String = rest.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '-').collect();
            if !name.is_empty() {
                self.marks.entry(name).or_insert_with(|| at.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE_TEXT: &str = "# No silent defer\n\n- **Not an example**: above the heading\n\n## Forbidden patterns\n\n\
        - **Deferral note with today's stamp** — it says both\n  - a nested remark\n\
        - \"Pragmatic skip\" without a continuation\n\
        2. next run will catch it, they say, when it is the same\n\n## After\n\n- **Not one either**\n";

    #[test]
    fn examples_have_names() {
        assert_eq!(
            examples(RULE_TEXT),
            ["deferral-note-with-today-s-stamp", "pragmatic-skip", "next-run-will-catch-it-they"]
        );
        assert_eq!(examples("## Forbidden patterns\n"), Vec::<String>::new());
        assert_eq!(examples("## Other\n- **x**\n"), Vec::<String>::new());
    }

    #[test]
    fn every_example_needs_a_test() {
        let tile = tempfile::tempdir().unwrap();
        assert_eq!(lint(tile.path()).unwrap(), [Flaw::NoRule("there is no such file".to_owned())]);
        std::fs::create_dir_all(tile.path().join("rules")).unwrap();
        std::fs::create_dir_all(tile.path().join("skills/x/tests")).unwrap();
        let put = |file: &str, text: &str| std::fs::write(tile.path().join(file), text).unwrap();
        put(RULE, "no heading");
        assert_eq!(lint(tile.path()).unwrap(), [Flaw::NoExamples]);
        put(RULE, RULE_TEXT);
        put("skills/x/code.py", "# forbidden-pattern: next-run-will-catch-it-they\n");
        put(
            "skills/x/tests/a.py",
            "# forbidden-pattern: pragmatic-skip (see the rule)\n# forbidden-pattern: old-one\n",
        );
        assert_eq!(
            lint(tile.path()).unwrap(),
            [
                Flaw::NoTest("deferral-note-with-today-s-stamp".to_owned()),
                Flaw::NoTest("next-run-will-catch-it-they".to_owned()),
                Flaw::Stray("old-one".to_owned(), "skills/x/tests/a.py".into()),
            ]
        );
        put(
            "skills/x/tests/a.py",
            "forbidden-pattern: pragmatic-skip\nforbidden-pattern:deferral-note-with-today-s-stamp\n",
        );
        put("skills/x/tests/b.rs", "// forbidden-pattern: next-run-will-catch-it-they\n");
        assert_eq!(lint(tile.path()).unwrap(), []);
        put(RULE, &format!("{RULE_TEXT}## Forbidden patterns\n"));
        assert_eq!(lint(tile.path()).unwrap(), []);
        put(RULE, &RULE_TEXT.replace("2. next", "- **Pragmatic skip** next"));
        assert!(lint(tile.path()).unwrap().contains(&Flaw::SameName("pragmatic-skip".to_owned())));
        assert!(lint(&tile.path().join("nowhere")).is_err());
    }
}
