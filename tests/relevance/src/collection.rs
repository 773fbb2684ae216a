//! The texts, the queries, and what should be found.
//!
//! The texts are the paragraphs of the articles of the Universal Declaration of Human Rights in 25 languages, all in one
//! collection. No person judged results: what is relevant follows from the articles.
//!
//! * [`Kind::Paraphrase`]: the query is the beginning of an article in another translation into the same language (an older
//!   spelling, another country, another dialect). The paragraphs of the article should be found.
//! * [`Kind::Reminder`]: the query is three long words of one paragraph, or four characters where no spaces are written.
//!   That paragraph should come first, and the others of its article after it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Translations that are searched, one of each language.
const SEARCHED: [&str; 25] = [
    "eng",
    "deu_1996",
    "fra",
    "spa",
    "por_PT",
    "rus",
    "ell_monotonic",
    "tur",
    "pol",
    "fin",
    "vie",
    "ukr",
    "ron_2006",
    "jpn",
    "kor",
    "tha",
    "cmn_hans",
    "arb",
    "heb",
    "hin",
    "hrv",
    "swe",
    "nld",
    "ces",
    "hun",
];

/// Other translations into the same language, and the one that is searched.
const PARAPHRASES: [(&str, &str); 8] = [
    ("deu_1901", "deu_1996"),
    ("por_BR", "por_PT"),
    ("ell_polytonic", "ell_monotonic"),
    ("ron_1953", "ron_2006"),
    ("ron_1993", "ron_2006"),
    ("bos_latn", "hrv"),
    ("tha2", "tha"),
    ("jpn_tokyo", "jpn"),
];

/// Words of a paraphrase, and characters of one without spaces.
const BEGINNING: (usize, usize) = (8, 14);

pub(crate) struct Paragraph {
    language: String,
    article: u32,
    pub(crate) text: String,
}

/// Results that count.
pub(crate) const TOP: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Paraphrase,
    Reminder,
}

/// Queries that are judged together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part {
    pub(crate) language: String,
    pub(crate) kind: Kind,
}

/// What is asked.
pub(crate) struct Query {
    part: Part,
    text: String,
    /// What should be found, by its place among the texts, and how much it is worth.
    relevant: BTreeMap<usize, u32>,
}

pub(crate) struct Collection {
    pub(crate) texts: Vec<Paragraph>,
    queries: Vec<Query>,
}

impl Collection {
    pub(crate) fn read(directory: &Path) -> Self {
        let texts: Vec<Paragraph> = SEARCHED.iter().flat_map(|language| paragraphs(directory, language)).collect();
        let mut queries = Vec::new();
        for (from, language) in PARAPHRASES {
            let mut begun = BTreeSet::new();
            for Paragraph { article, text, .. } in paragraphs(directory, from) {
                let relevant: BTreeMap<usize, u32> = of_article(&texts, language, article).map(|at| (at, 1)).collect();
                if begun.insert(article) && !relevant.is_empty() {
                    let part = Part { language: language.to_owned(), kind: Kind::Paraphrase };
                    queries.push(Query { part, text: beginning(&text), relevant });
                }
            }
        }
        for (at, paragraph) in texts.iter().enumerate() {
            let Some(text) = reminder(&paragraph.text) else { continue };
            let mut relevant: BTreeMap<usize, u32> =
                of_article(&texts, &paragraph.language, paragraph.article).map(|at| (at, 1)).collect();
            relevant.insert(at, 2);
            let part = Part { language: paragraph.language.clone(), kind: Kind::Reminder };
            queries.push(Query { part, text, relevant });
        }
        Self { texts, queries }
    }

    pub(crate) fn parts(&self) -> BTreeMap<Part, Vec<&Query>> {
        let mut parts = BTreeMap::<Part, Vec<&Query>>::new();
        for query in &self.queries {
            parts.entry(query.part.clone()).or_default().push(query);
        }
        parts
    }
}

/// The mean nDCG of what is found for queries.
pub(crate) fn mean(queries: &[&Query], find: &dyn Fn(&str) -> Vec<usize>) -> f64 {
    queries.iter().map(|query| ndcg(query, &find(&query.text))).fold(0.0, std::ops::Add::add) / queries.len() as f64
}

/// The gains of what was found, each worth less the later it comes, beside the best that was possible.
fn ndcg(query: &Query, found: &[usize]) -> f64 {
    let worth = |gains: &mut dyn Iterator<Item = u32>| -> f64 {
        let each = gains.take(TOP).enumerate().map(|(at, gain)| f64::from((1 << gain) - 1) / (at as f64 + 2.0).log2());
        each.fold(0.0, std::ops::Add::add)
    };
    let mut ideal: Vec<u32> = query.relevant.values().copied().collect();
    ideal.sort_unstable_by(|one, other| other.cmp(one));
    let got = worth(&mut found.iter().map(|text| query.relevant.get(text).copied().unwrap_or_default()));
    got / worth(&mut ideal.into_iter())
}

fn of_article<'a>(texts: &'a [Paragraph], language: &'a str, article: u32) -> impl Iterator<Item = usize> + 'a {
    let is_of = move |text: &Paragraph| text.language == language && text.article == article;
    texts.iter().enumerate().filter(move |(_, text)| is_of(text)).map(|(at, _)| at)
}

/// Whether words are separated by spaces.
fn has_spaces(text: &str) -> bool {
    text.split_whitespace().count() * 12 > text.chars().count()
}

fn beginning(text: &str) -> String {
    let (words, characters) = BEGINNING;
    match has_spaces(text) {
        true => text.split_whitespace().take(words).collect::<Vec<_>>().join(" "),
        false => text.chars().take(characters).collect(),
    }
}

/// Three long words of a paragraph in their order, or four characters from its middle.
fn reminder(text: &str) -> Option<String> {
    if !has_spaces(text) {
        let plain: Vec<char> = text.chars().filter(|c| c.is_alphanumeric()).collect();
        let middle = plain.len() / 2;
        return plain.get(middle..middle + 4).map(|part| part.iter().collect());
    }
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '’').collect();
    let mut long: Vec<(usize, &str)> =
        words.iter().copied().enumerate().filter(|(_, word)| word.chars().count() > 1).collect();
    long.sort_by_key(|(at, word)| (std::cmp::Reverse(word.chars().count()), *at));
    long.truncate(3);
    long.sort_unstable();
    (long.len() == 3).then(|| long.iter().map(|(_, word)| *word).collect::<Vec<_>>().join(" "))
}

/// The paragraphs of the articles of a translation. The files are written by one program, in one form.
fn paragraphs(directory: &Path, language: &str) -> Vec<Paragraph> {
    let path = directory.join(format!("{language}.html"));
    let html = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut found = Vec::new();
    let mut article = None;
    for line in html.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("<article data-number=\"") {
            article = rest.split('"').next().and_then(|number| number.parse().ok());
        }
        let tagged = |name: &str| Some(line.strip_prefix(&format!("<{name}>"))?.split('<').next()?.to_owned());
        if let (Some(article), Some(text)) =
            (article, tagged("p").or_else(|| tagged("li")).filter(|text| !text.is_empty()))
        {
            let text = text.replace("&amp;", "&").replace("&#x27;", "'").replace("&quot;", "\"").replace("&#39;", "'");
            found.push(Paragraph { language: language.to_owned(), article, text });
        }
    }
    assert!(found.len() >= 30, "{} has only {} paragraphs", path.display(), found.len());
    found
}
