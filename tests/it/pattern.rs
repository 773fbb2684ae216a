//! Compares engage patterns with JavaScript: what they match, and what is refused.
//!
//! Skipped with a message if there is no `node`.
use std::io::Write as _;
use std::process::{Command, Stdio};

use hearth::engine::pattern::{Patterns, check};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::host::skipped;

/// Patterns of each kind.
const CASES: usize = 3_000;
/// The first Node version that supports inline flags and duplicate group names, which Hearth refuses.
const NEWER_NODE: u64 = 23;

/// Evaluates a list of patterns with their texts: null for a pattern that JavaScript rejects, otherwise whether each
/// text matches.
const SCRIPT: &str = r#"
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
const answers = cases.map(([pattern, texts]) => {
    let regex;
    try { regex = new RegExp(pattern); } catch (error) { return null; }
    return texts.map((text) => regex.test(text));
});
process.stdout.write(JSON.stringify([parseInt(process.versions.node), answers]));
"#;

/// Atoms that mean something else in other languages, or are easily translated incorrectly.
#[rustfmt::skip]
const ATOMS: &[&str] = &[
    ".", "\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "\\t", "\\n", "\\v", "\\f", "\\r", "\\0", "\\08", "\\1", "\\7",
    "\\8", "\\9", "\\10", "\\18", "\\101", "\\377", "\\400", "\\cA", "\\cj", "\\c", "\\c1", "\\c_", "\\x41", "\\x4",
    "\\xg1", "\\u0061", "\\u2028", "\\u{2}", "\\u{61}", "\\u00", "\\uD83D", "\\uDE00", "\\uD83D\\uDE00", "\\a", "\\e",
    "\\g", "\\k", "\\k<a>", "\\p{2}", "\\P", "\\z", "\\A", "\\Z", "\\Q", "\\h", "\\-", "\\_", "\\/", "\\ ", "\\é",
    "\\😀", "\\.", "\\*", "\\{", "\\[", "\\\\", "/", "#", "&&", "~~", "--", "{", "}", "]", "{,2}", "{a}", "{1",
    "{1,a}", "-", "_", "a", "b", "c", "1", "2", "k", "u", "x", " ", "\n", "\u{2028}", "\u{a0}", "é", "ſ", "\u{212a}",
    "😀", "😁", "[]", "[^]",
];

/// Members of classes.
#[rustfmt::skip]
const MEMBERS: &[&str] = &[
    "a", "b", "z", "0", "9", "-", "a-c", "0-9", "A-z", "\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "\\d-", "\\b", "\\B",
    "\\-", "\\]", "\\[", "[", "[:alpha:", "&&", "--", "~~", "||", "^", "$", ".", "\\^", "\\1", "\\101", "\\8", "\\0",
    "\\08", "\\c1", "\\c_", "\\c", "\\c-a", "\\cA", "\\x61", "\\x6", "\\u0061-\\u0063", "\\u{61}", "\\uD83D",
    "\\uD800-\\uDFFF", "\\uDE00", " -~", "\\0-\\uFFFF", "é", "😀", "\n", "\u{2028}", "\\k", "\\p{L}", "a-\\d", "\\s-a",
    "(", ")", "*", "+",
];

const ASSERTIONS: &[&str] = &["^", "$", "\\b", "\\B"];

const QUANTIFIERS: &[&str] =
    &["*", "+", "?", "*?", "+?", "??", "{0}", "{1}", "{2}", "{0,2}", "{1,3}", "{1,}", "{0,}?", "{2}?", "{02,003}"];

/// Inputs that nearly every pattern translator gets wrong in some way.
#[rustfmt::skip]
const SOUP: &[&str] = &[
    "(", ")", "[", "]", "{", "}", "?", "*", "+", "|", "^", "$", "\\", ".", "-", ",", "1", "2", "0", "9", "a", "b",
    "k", "u", "c", "x", "d", "<", ">", "=", "!", ":", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?<a>", "(?<b>", "(?<",
    "(?i:", "\\k<a>", "\\1", "\\b", "\\d", "\\u{61}", "{1,2}", "{2,1}", "[^", "(?<\\u0061>", "(?<\\u{62}>", "(?<1>",
    "(?<$é>", "(?<𐐀>", "😀",
];

#[rustfmt::skip]
const TEXTS: &[&str] = &[
    "a", "b", "c", "z", "A", "Z", "k", "u", "uu", "x", "p", "0", "1", "2", "8", "9", "-", "_", "^", "&", "~", "|",
    "[", "]", "{", "}", "(", "/", "\\", ".", " ", ":", "\t", "\n", "\u{b}", "\r", "\u{0}", "\u{1}", "\u{2}", "\u{7}",
    "\u{8}", "\u{11}", "\u{1f}", "\u{85}", "\u{a0}", "\u{ff}", "\u{180e}", "\u{200b}", "\u{2028}", "\u{2029}",
    "\u{3000}", "\u{feff}", "é", "ß", "ſ", "\u{212a}", "٣", "😀", "😁", "\u{10d83d}",
];

fn class() -> impl Strategy<Value = String> {
    (select(&["[", "[^"][..]), vec(select(MEMBERS), 0..4))
        .prop_map(|(open, members)| format!("{open}{}]", members.concat()))
}

fn pattern() -> impl Strategy<Value = String> {
    let atom = prop_oneof![6 => select(ATOMS).prop_map(str::to_owned), 2 => class(), 1 => select(ASSERTIONS).prop_map(str::to_owned)];
    atom.prop_recursive(4, 16, 4, |inner| {
        let repeated = (inner.clone(), select(QUANTIFIERS)).prop_map(|(inner, quantifier)| inner + quantifier);
        let term = prop_oneof![3 => inner.clone(), 1 => repeated];
        let group = (select(&["(", "(?:", "(?<a>", "(?<b>"][..]), inner.clone(), inner.clone());
        prop_oneof![
            4 => vec(term, 1..5).prop_map(|terms| terms.concat()),
            1 => vec(inner, 1..3).prop_map(|sides| sides.join("|")),
            2 => group.prop_map(|(open, a, b)| format!("{open}{a}{b})")),
        ]
    })
}

fn soup() -> impl Strategy<Value = String> {
    vec(select(SOUP), 0..9).prop_map(|parts| parts.concat())
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    vec(vec(select(TEXTS), 0..5).prop_map(|parts| parts.concat()), 12)
}

/// Every class of one character against every character on which classes differ.
fn single() -> Vec<(String, Vec<String>)> {
    let texts: Vec<String> = (0..0x3100).chain(0xFE00..=0xFFFF).filter_map(char::from_u32).map(String::from).collect();
    let sets = [".", "\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "\\b", "\\B", "[^]", "[^\\s\\w]", "[\\0-\\uFFFF]"];
    sets.iter().map(|set| (format!("^{set}$"), texts.clone())).collect()
}

/// JavaScript's results for the cases, and the version of Node; none if there is no Node.
fn javascript(cases: &[(String, Vec<String>)]) -> Option<(u64, Vec<Value>)> {
    let mut node = Command::new("node");
    node.args(["-e", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut node = match node.spawn() {
        Ok(node) => node,
        Err(error) => {
            skipped(format_args!("no node here ({error}); install it to compare patterns with JavaScript"));
            return None;
        }
    };
    node.stdin.take().unwrap().write_all(json!(cases).to_string().as_bytes()).unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    let (version, answers): (u64, Vec<Value>) = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answers.len(), cases.len());
    Some((version, answers))
}

/// Whether a refusal is one that JavaScript need not share.
fn on_purpose(refusal: &str, node: u64) -> bool {
    let newer = ["the group is of no known kind", "two groups have the same name"];
    let begins = |begin: &&str| refusal.starts_with(*begin);
    ["look-", "negative look-", "a back-reference", "a named back-reference", "it needs more than"].iter().any(begins)
        || (node >= NEWER_NODE && newer.iter().any(begins))
}

#[test]
fn patterns_mean_what_they_mean_in_javascript() {
    let mut runner = TestRunner::deterministic();
    let mut cases = single();
    for _ in 0..CASES {
        cases.push((pattern(), texts()).new_tree(&mut runner).unwrap().current());
        cases.push((soup(), texts()).new_tree(&mut runner).unwrap().current());
    }
    let Some((node, answers)) = javascript(&cases) else { return };
    let patterns = Patterns::default();
    let (mut accepted, mut matched, mut wrong) = (0, 0, Vec::new());
    for ((pattern, texts), answer) in cases.iter().zip(&answers) {
        match (check(pattern), answer.as_array()) {
            (Ok(()), Some(_)) if pattern == "." => {}
            (Ok(()), Some(expected)) => {
                accepted += 1;
                for (text, expected) in texts.iter().zip(expected) {
                    matched += usize::from(expected == &json!(true));
                    if json!(patterns.matches(pattern, text)) != *expected {
                        wrong.push(format!("{pattern:?} on {text:?}: {expected} in JavaScript"));
                    }
                }
            }
            (Ok(()), None) => wrong.push(format!("{pattern:?}: refused in JavaScript")),
            (Err(refusal), Some(_)) if !on_purpose(&refusal, node) => {
                wrong.push(format!("{pattern:?}: {refusal}, but not in JavaScript"));
            }
            (Err(_), _) => {}
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong[..wrong.len().min(20)].join("\n"));
    assert!(accepted > CASES && matched > 3 * CASES, "the cases say little: {accepted} accepted, {matched} matches");
}
