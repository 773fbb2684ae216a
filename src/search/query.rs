//! What people and agents write to search: words, `"phrases"`, `beginnings*`, and filters.

use super::{terms, tokens};

/// Most bytes of a query that are read.
pub const QUERY_MAX: usize = 1_000;

/// Most words and phrases of a query.
const CLAUSES_MAX: usize = 32;

/// A part of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clause {
    /// A folded word.
    Word(String),
    /// The beginning of words.
    Beginning(String),
    /// Words that follow each other. Only texts with them are found.
    Phrase(Vec<String>),
}

impl Clause {
    /// A single character of a script without spaces begins pairs, and every other word is one.
    fn of(word: String) -> Self {
        let mut letters = word.chars();
        match (letters.next(), letters.next()) {
            (Some(only), None) if tokens::is_unspaced(only) => Self::Beginning(word),
            _ => Self::Word(word),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Its words and phrases.
    pub clauses: Vec<Clause>,
    /// Words of names or ids of the sender; `agent` and `me` are agents.
    pub who: Vec<String>,
    /// A chat, as written.
    pub chat: Option<String>,
    /// An agent, as written.
    pub agent: Option<String>,
    /// Only before this day or time, as written.
    pub before: Option<String>,
    /// Only from this day or time on, as written.
    pub after: Option<String>,
    /// Only messages with files.
    pub has_file: bool,
}

impl Query {
    /// Reads a query. Nothing is refused: what is no filter is a word.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let end = text.floor_char_boundary(QUERY_MAX.min(text.len()));
        let mut query = Self::default();
        for part in parts(text.get(..end).unwrap_or_default()) {
            query.add(part);
        }
        query.clauses.truncate(CLAUSES_MAX);
        query
    }

    /// Whether it has neither words nor filters that limit what is found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clauses.is_empty() && self.who.is_empty() && !self.has_file
    }

    fn add(&mut self, part: Part<'_>) {
        match part {
            Part::Quoted(text) => match words(text) {
                words if words.len() < 2 => self.clauses.extend(words.into_iter().map(Clause::of)),
                words => self.clauses.push(Clause::Phrase(words)),
            },
            Part::Filter(name, value) => self.filter(name, value),
            Part::Plain(text) => {
                let mut found = words(text);
                let beginning = if text.ends_with('*') { found.pop() } else { None };
                self.clauses.extend(found.into_iter().map(Clause::of));
                self.clauses.extend(beginning.map(Clause::Beginning));
            }
        }
    }

    fn filter(&mut self, name: Filter, value: &str) {
        let whole = || Some(value.to_owned());
        match name {
            Filter::Who => self.who.extend(words(value)),
            Filter::Chat => self.chat = whole(),
            Filter::Agent => self.agent = whole(),
            Filter::Before => self.before = whole(),
            Filter::After => self.after = whole(),
            Filter::HasFile => self.has_file = true,
        }
    }

    /// The words to find and to highlight.
    pub fn words(&self) -> impl Iterator<Item = (&str, Match)> {
        self.clauses.iter().flat_map(|clause| match clause {
            Clause::Word(word) => vec![(word.as_str(), Match::Word)],
            Clause::Beginning(word) => vec![(word.as_str(), Match::Beginning)],
            Clause::Phrase(words) => words.iter().map(|word| (word.as_str(), Match::Word)).collect(),
        })
    }
}

/// How a word of a query matches one of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// It is the same word.
    Word,
    Beginning,
}

#[derive(Debug, Clone, Copy)]
enum Filter {
    Who,
    Chat,
    Agent,
    Before,
    After,
    HasFile,
}

enum Part<'a> {
    Plain(&'a str),
    Quoted(&'a str),
    Filter(Filter, &'a str),
}

/// The folded words of a part of a query.
fn words(text: &str) -> Vec<String> {
    tokens::all(text)
        .into_iter()
        .filter(|token| !token.last)
        .map(|token| token.word.into_owned())
        .filter(|word| !terms::is_left_out(word))
        .collect()
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (part, after) = match rest.strip_prefix(['"', '“', '„', '”']) {
            Some(quoted) => {
                let (inside, after) = quoted_end(quoted);
                (Part::Quoted(inside), after)
            }
            None => plain(rest),
        };
        parts.push(part);
        rest = after.trim_start();
    }
    parts
}

fn quoted_end(text: &str) -> (&str, &str) {
    text.split_once(['"', '”', '“']).unwrap_or((text, ""))
}

fn plain(text: &str) -> (Part<'_>, &str) {
    let end = text.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(text.len());
    let (word, after) = text.split_at_checked(end).unwrap_or((text, ""));
    let Some((name, value)) = word.split_once(':').and_then(|(name, value)| Some((filter(name, value)?, value))) else {
        return (Part::Plain(word), after);
    };
    // A value with spaces is quoted: `chat:"The family"`.
    match (value.is_empty(), after.strip_prefix('"')) {
        (true, Some(quoted)) => {
            let (inside, after) = quoted_end(quoted);
            (Part::Filter(name, inside), after)
        }
        (true, None) => (Part::Plain(word), after),
        (false, _) => (Part::Filter(name, value), after),
    }
}

fn filter(name: &str, value: &str) -> Option<Filter> {
    match name.to_ascii_lowercase().as_str() {
        "who" | "from" => Some(Filter::Who),
        "chat" | "in" => Some(Filter::Chat),
        "agent" => Some(Filter::Agent),
        "before" | "until" => Some(Filter::Before),
        "after" | "since" => Some(Filter::After),
        "has" if matches!(value.to_ascii_lowercase().as_str(), "file" | "files") => Some(Filter::HasFile),
        _ => None,
    }
}
