//! The known name that a mistyped one probably means.

/// Least similarity of a suggestion.
const NEAR: f64 = 0.6;

/// The known name that is most similar to `name`; none if none is similar.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let alike = |known: &'a str| (strsim::normalized_damerau_levenshtein(&name, &known.to_lowercase()), known);
    let nearest = known.into_iter().map(alike).max_by(|a, b| a.0.total_cmp(&b.0));
    nearest.filter(|(score, _)| *score >= NEAR).map(|(_, known)| known)
}
