//! How people and programs name a session.

use super::id::SessionId;
use super::session::SessionLabel;

/// What a text names. Ids and files are told apart by how they look, never by what lies on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// The newest one in which something was said.
    Latest,
    /// By the id that people use.
    Label(SessionLabel),
    /// By the store's id: how sessions of agents are named.
    Key(SessionId),
    /// A file: nothing that is in the store.
    File,
    /// It cannot be the id of a session.
    Nothing,
}

impl Reference {
    /// Reads a text. An alias hides whatever has its name.
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

    /// Which way it was taken, for programs.
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
