//! Prints how good tantivy's results are for the queries of [`collection`], a line for each language and kind of query.

mod collection;
mod peer;

use std::path::Path;
use std::process::ExitCode;

use collection::{Collection, mean};
use peer::{Index, Splitting};

fn main() -> ExitCode {
    let Some(directory) = std::env::args().nth(1) else {
        eprintln!("usage: hearth-relevance DIRECTORY, which `tests/relevance/run` fills");
        return ExitCode::FAILURE;
    };
    let collection = Collection::read(Path::new(&directory));
    let indexes = Splitting::ALL.map(|splitting| Index::of(&collection, splitting));
    println!("# nDCG@10 of tantivy 0.27, written by tests/relevance/run");
    println!("language\tkind\tqueries\twords\tplain letters\tpairs of characters");
    for (part, queries) in collection.parts() {
        let values = indexes.each_ref().map(|index| format!("{:.4}", mean(&queries, &|text| index.find(text))));
        println!("{}\t{:?}\t{}\t{}", part.language, part.kind, queries.len(), values.join("\t"));
    }
    ExitCode::SUCCESS
}
