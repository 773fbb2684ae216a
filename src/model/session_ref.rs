//! References to a session, as people and programs write them.

use super::id::SessionId;
use super::session::SessionLabel;

/// What a reference means. Ids and files are distinguished by their form, never by what is on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// The newest session that has messages.
    Latest,
    /// A session by the id that people use.
    Label(SessionLabel),
    /// A session by the store's id. Sessions of agents are named like this.
    Key(SessionId),
    /// A file, not a session in the store.
    File,
    /// Not a valid id of a session.
    Nothing,
}

impl Reference {
    /// Parses a reference. An alias takes precedence over anything with the same name.
    #[must_use]
    pub fn read(text: &str) -> Self {
        if SessionLabel::ALIASES.iter().any(|alias| alias.eq_ignore_ascii_case(text)) {
            return Self::Latest;
        }
        if text.contains('/') || text == "." || text == ".." {
            return Self::File;
        }
        if let Ok(key) = text.parse() {
            return Self::Key(key);
        }
        let id = text.strip_suffix(".jsonl").or_else(|| text.strip_suffix(".json")).unwrap_or(text);
        SessionLabel::new(id).map_or(Self::Nothing, Self::Label)
    }

    /// How the reference was interpreted, for programs.
    #[must_use]
    pub const fn branch(&self) -> &'static str {
        match self {
            Self::Latest => "alias",
            Self::File => "file",
            Self::Label(_) | Self::Key(_) | Self::Nothing => "id",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_by_their_looks() {
        let label = |text: &str| Reference::Label(SessionLabel::new(text).unwrap());
        for (text, expected) in [
            ("latest", Reference::Latest),
            ("LAST", Reference::Latest),
            ("Recent", Reference::Latest),
            ("latest ", Reference::Nothing),
            ("latest.jsonl", Reference::Nothing),
            ("session-1743724800123-0", label("session-1743724800123-0")),
            ("session-1743724800123-0.jsonl", label("session-1743724800123-0")),
            ("a.json", label("a")),
            ("a.b", label("a.b")),
            ("a.JSONL", label("a.JSONL")),
            ("a.jsonl.jsonl", Reference::Nothing),
            ("se12", Reference::Key(SessionId::new(12))),
            ("se12.json", Reference::Nothing),
            ("/etc/passwd", Reference::File),
            ("./a.jsonl", Reference::File),
            ("../a", Reference::File),
            ("a/b", Reference::File),
            (".", Reference::File),
            ("..", Reference::File),
            ("", Reference::Nothing),
            ("-x", Reference::Nothing),
            ("a b", Reference::Nothing),
            ("é", Reference::Nothing),
        ] {
            assert_eq!(Reference::read(text), expected, "{text:?}");
        }
    }
}
