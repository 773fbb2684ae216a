//! Generated parts of documents.

use std::path::Path;

/// Compares a generated part of a document with what it should be, and writes it with `HEARTH_UPDATE_DOCS=1`.
pub(crate) fn generated(document: &str, begin: &str, end: &str, wanted: &str) {
    let (begin, end) = (format!("<!-- {begin} -->\n"), format!("<!-- end of {end} -->"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
    let whole = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = whole.split_once(&begin).expect("the part begins");
    let (shown, after) = rest.split_once(&end).expect("the part ends");
    if shown == wanted {
        return;
    }
    if std::env::var_os("HEARTH_UPDATE_DOCS").is_some() {
        return std::fs::write(&path, format!("{before}{begin}{wanted}{end}{after}")).unwrap();
    }
    let differs = shown.lines().zip(wanted.lines()).find(|(shown, made)| shown != made);
    panic!("a part of {document} differs from its source; run this test with HEARTH_UPDATE_DOCS=1: {differs:?}");
}
