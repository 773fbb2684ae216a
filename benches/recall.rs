//! Searches over a million messages, the room that their index takes, and what it costs to keep it.

use std::time::Duration;

use hearth::engine::commit::{Engine, Submission};
use hearth::engine::recall::{Asked as Search, Viewer, search};
use hearth::model::input::Input;
use hearth::state::recall::{rebuild, version};
use hearth::state::{Error, Number, Text};
use hearth::time::zone::Zone;

use crate::ground::asked::{Asked, at_most};
use crate::ground::part::{Part, ms};
use crate::ground::{Ground, moment, now, submission};
use crate::ledger::{Case, ratio};
use crate::routing::{always, configuration, one_by_one, turn, waiting};

/// Name of this part.
pub(crate) const NAME: &str = "recall";

const MESSAGES: usize = 1_000_000;
/// Words of the made-up language. The n-th is said n times less often than the first.
const VOCABULARY: usize = 60_000;
/// Inputs of one commit.
const IN_FLIGHT: usize = 64;
/// Commits of one scenario with and without an index.
const COMMITS: usize = 30;

const CONFIGURATION: &str = "schema = 1\n[[agents]]\nfolder = \"a\"\n\
    [[users]]\nid = \"bench:1\"\nroles = [\"owner\"]\n\
    [[users]]\nid = \"bench:-\"\nroles = [\"owner\"]\n\
    [[chats]]\nchannel = \"bench\"\nplatform_id = \"c\"\nunknown_senders = \"strict\"\n\
    [[chats.wirings]]\nagent = \"a\"\nengage = \"pattern\"\npattern = \"^never$\"\nignored = \"accumulate\"\n";

pub(crate) fn all(asked: &Asked) {
    if !asked.wants(NAME) {
        return;
    }
    let mut part = Part::of_times(NAME, "searches over a million messages, and what their index costs");
    let times = asked.size(2_000, 600, 2);
    let Filled { ground, text_bytes, mut commits } = filled(at_most(MESSAGES));
    for (what, make) in QUERIES {
        part.add_times(what, searched(&ground, times, *make));
    }
    commits.sort_unstable();
    let longest = commits.last().copied().unwrap_or_default();
    part.add_times("a commit of 500 messages, index and all, while the store was filled", commits);
    let mut fact =
        |what: &str, value: String| part.add(&[what.to_owned(), value, String::new(), String::new(), String::new()]);
    fact("the longest of these commits", ms(longest));
    let share = index_bytes(&ground) as f64 / text_bytes as f64;
    fact("room of the index, beside that of the texts alone", format!("{:.0} %", share * 100.0));
    let counted = format!("{:.1} µs", time_to_count().as_secs_f64() * 1e6);
    fact("counting the words of such a text, on the thread that submits it", counted);
    let pairs = asked.size(21, 11, 1);
    for (what, with, without) in indexed() {
        fact(
            &format!("{what}: texts with words beside texts without"),
            format!("{:.2}", ratio(&with, &without, pairs)),
        );
    }
    part.keep(asked);
}

/// A query from a random number.
type Make = fn(&mut Random) -> String;

const QUERIES: &[(&str, Make)] = &[
    ("search: two words, of which one is among the thousand most common", |random| {
        format!("{} {}", word(random.below(1_000)), word(random.zipf()))
    }),
    ("search: one rare word", |random| word(VOCABULARY / 2 + random.below(VOCABULARY / 2))),
    ("search: the most common words", |random| format!("{} {}", word(random.below(5)), word(random.below(5)))),
    ("search: a phrase of two words", |random| format!("\"{} {}\"", word(random.below(200)), word(random.below(200)))),
    ("search: a beginning of three letters", |random| format!("{}*", &word(random.zipf())[..3])),
    ("search: four words and a person", |random| {
        let words: Vec<String> = (0..4).map(|_| word(random.zipf())).collect();
        format!("{} who:bench", words.join(" "))
    }),
];

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next()).unwrap() % end
    }

    /// A word's number, as often as words of that rank are said.
    fn zipf(&mut self) -> usize {
        let part = self.next() as f64 / (1_u64 << 31) as f64;
        ((VOCABULARY as f64).powf(part) as usize).clamp(1, VOCABULARY) - 1
    }
}

/// A word: rare ones are longer.
fn word(rank: usize) -> String {
    let mut random = Random(rank as u64 ^ 0x5eed);
    random.next();
    let length = 3 + rank.ilog2_or_zero() / 3 + random.below(4);
    (0..length)
        .map(|at| char::from(if at % 2 == 0 { b"bdfgklmnprstvz"[random.below(14)] } else { b"aeiou"[random.below(5)] }))
        .collect()
}

trait Log {
    fn ilog2_or_zero(self) -> usize;
}

impl Log for usize {
    fn ilog2_or_zero(self) -> usize {
        self.checked_ilog2().unwrap_or_default() as usize
    }
}

/// A text of 5 to 30 words.
fn text(random: &mut Random) -> String {
    let words: Vec<String> = (0..5 + random.below(26)).map(|_| word(random.zipf())).collect();
    words.join(" ")
}

fn said(number: usize, text: &str, sender: &str) -> Submission {
    let line = format!(
        r#"{{"channelType":"bench","platformId":"c","message":{{"id":"m{number}","kind":"chat","content":{{"text":"{text}","senderId":"{sender}"}}}}}}"#
    );
    submission(Input::Inbound(Box::new(hearth::channel::event::parse(line.as_bytes()).unwrap())))
}

struct Filled {
    ground: Ground,
    text_bytes: usize,
    commits: Vec<Duration>,
}

fn filled(messages: usize) -> Filled {
    let (mut random, mut text_bytes, mut commits) = (Random(7), 0, Vec::new());
    let fill = |engine: &Engine| {
        for (group, from) in (0..messages).step_by(500).enumerate() {
            let one = |number: usize| {
                let text = text(&mut random);
                text_bytes += text.len();
                said(number, &text, "1")
            };
            let inputs: Vec<Submission> = (from..messages.min(from + 500)).map(one).collect();
            let begin = now();
            engine.commit(&inputs, moment(group as u64 * 60_000), 7).unwrap();
            commits.push(now() - begin);
        }
    };
    let ground = Ground::new(CONFIGURATION, fill);
    Filled { ground, text_bytes, commits }
}

fn searched(ground: &Ground, times: usize, make: Make) -> Vec<Duration> {
    let engine = ground.engine();
    let mut random = Random(99);
    let zone = Zone::utc();
    let one = |_| {
        let query = make(&mut random);
        let asked = Search {
            query: &query,
            agent: None,
            chat: None,
            after: None,
            before: None,
            most: 20,
            now: moment(200_000_000).wall,
            zone: &zone,
        };
        let begin = now();
        let found = engine.store().read(|db, txn| search(db, txn, &Viewer::Operator, &asked)).unwrap();
        let took = now() - begin;
        found.unwrap_or_else(|why| panic!("{query}: {why}"));
        took
    };
    (0..times).map(one).collect()
}

/// What the store does not need once the index is removed. It is removed as one of another version is.
fn index_bytes(ground: &Ground) -> u64 {
    let copy = ground.copy();
    let engine = copy.engine();
    let store = engine.store();
    let before = store.usage().unwrap().used;
    let old = store.write(|db, txn| db.retention_cursors.put(txn, &Text::new("recall_version")?, &Number(77)));
    old.unwrap();
    let left = || {
        store.read(|db, txn| {
            Ok::<_, Error>(version::is_old(db, txn)? && db.recall_terms.len(txn)? + db.recall_new.len(txn)? > 0)
        })
    };
    while left().unwrap() {
        store.write(|db, txn| rebuild::step(db, txn, 20_000)).unwrap();
    }
    before - store.usage().unwrap().used
}

/// The time in which the words of a text are counted.
fn time_to_count() -> Duration {
    let mut random = Random(5);
    let inputs: Vec<Input> = (0..at_most(2_000)).map(|number| said(number, &text(&mut random), "1").input).collect();
    let begin = now();
    let counted: Vec<Submission> = inputs.into_iter().map(Submission::new).collect();
    (now() - begin) / u32::try_from(counted.len()).unwrap()
}

/// What is said, with words and without. Nothing of such a message without words is indexed: a sender is found by the words
/// of their id, and "-" has none. Of such an answer it is indexed that it is an agent's.
fn indexed() -> Vec<(&'static str, Case, Case)> {
    let engaged = CONFIGURATION.replace("^never$", ".");
    let both = |what, case: &dyn Fn(bool) -> Case| (what, case(true), case(false));
    let empty = |configuration: &str, groups| Case { ground: Ground::new(configuration, |_| {}), groups };
    let answers = |worded: bool| {
        let mut random = Random(3);
        one_by_one(|number| turn(number, &texts(&mut random, worded), Vec::new()))
    };
    vec![
        both("routing to an agent, one at a time", &|worded| empty(&engaged, messages(1, worded))),
        both("routing to an agent, 64 in flight", &|worded| empty(&engaged, messages(IN_FLIGHT, worded))),
        both("keeping what no agent is asked, 64 in flight", &|worded| {
            empty(CONFIGURATION, messages(IN_FLIGHT, worded))
        }),
        both("ingest, a claim and an answer", &|worded| Case {
            ground: waiting(&configuration(1, always)),
            groups: answers(worded),
        }),
    ]
}

/// A text, or one of the same length without words.
fn texts(random: &mut Random, worded: bool) -> String {
    let text = text(random);
    if worded { text } else { text.chars().map(|c| if c == ' ' { ' ' } else { '-' }).collect() }
}

/// Messages, so many in each commit.
fn messages(in_flight: usize, worded: bool) -> Vec<Vec<Submission>> {
    let mut random = Random(3);
    let sender = if worded { "1" } else { "-" };
    let mut group = |at: usize| -> Vec<Submission> {
        (at..at + in_flight).map(|number| said(number, &texts(&mut random, worded), sender)).collect()
    };
    let groups = if in_flight == 1 { at_most(COMMITS * 10) } else { at_most(COMMITS) };
    (0..groups).map(|number| group(number * in_flight)).collect()
}
