//! Tantivy: BM25, any word may match.

use tantivy::collector::TopDocs;
use tantivy::query::BooleanQuery;
use tantivy::schema::{Field, INDEXED, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions, Value as _};
use tantivy::tokenizer::{AsciiFoldingFilter, LowerCaser, NgramTokenizer, SimpleTokenizer, TextAnalyzer};
use tantivy::{Searcher, TantivyDocument, Term, doc};

use crate::collection::{Collection, TOP};

/// How texts become terms.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Splitting {
    /// Words in lower case, which is the default of tantivy.
    Words,
    /// The same, without the accents of Latin letters.
    PlainLetters,
    /// Pairs of characters, for languages without spaces between words.
    Pairs,
}

impl Splitting {
    pub(crate) const ALL: [Self; 3] = [Self::Words, Self::PlainLetters, Self::Pairs];

    fn analyzer(self) -> TextAnalyzer {
        match self {
            Self::Words => TextAnalyzer::builder(SimpleTokenizer::default()).filter(LowerCaser).build(),
            Self::PlainLetters => {
                TextAnalyzer::builder(SimpleTokenizer::default()).filter(LowerCaser).filter(AsciiFoldingFilter).build()
            }
            Self::Pairs => TextAnalyzer::builder(NgramTokenizer::new(2, 2, false).unwrap()).filter(LowerCaser).build(),
        }
    }
}

pub(crate) struct Index {
    searcher: Searcher,
    analyzer: TextAnalyzer,
    text: Field,
    place: Field,
}

impl Index {
    pub(crate) fn of(collection: &Collection, splitting: Splitting) -> Self {
        let mut schema = Schema::builder();
        let terms = TextFieldIndexing::default().set_tokenizer("split").set_index_option(IndexRecordOption::WithFreqs);
        let text = schema.add_text_field("text", TextOptions::default().set_indexing_options(terms));
        let place = schema.add_u64_field("place", INDEXED | STORED);
        let index = tantivy::Index::create_in_ram(schema.build());
        index.tokenizers().register("split", splitting.analyzer());
        let mut writer = index.writer_with_num_threads(1, 50_000_000).unwrap();
        for (at, paragraph) in collection.texts.iter().enumerate() {
            writer.add_document(doc!(text => paragraph.text.as_str(), place => at as u64)).unwrap();
        }
        writer.commit().unwrap();
        Self { searcher: index.reader().unwrap().searcher(), analyzer: splitting.analyzer(), text, place }
    }

    /// The places of the best texts.
    pub(crate) fn find(&self, text: &str) -> Vec<usize> {
        let mut terms = Vec::new();
        self.analyzer.clone().token_stream(text).process(&mut |token| {
            terms.push(Term::from_field_text(self.text, &token.text));
        });
        let query = BooleanQuery::new_multiterms_query(terms);
        let found = self.searcher.search(&query, &TopDocs::with_limit(TOP).order_by_score()).unwrap();
        found
            .iter()
            .map(|(_, address)| {
                let document: TantivyDocument = self.searcher.doc(*address).unwrap();
                let place = document.get_first(self.place).and_then(|value| value.as_u64()).unwrap();
                usize::try_from(place).unwrap()
            })
            .collect()
    }
}
