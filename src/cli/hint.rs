//! Hints for errors. Every error in JSON output has one.

/// What to do next. It is never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hint(String);

impl Hint {
    /// Creates a hint from a text. An empty text becomes the default hint of its kind.
    pub(super) fn new(kind: &str, text: impl Into<String>) -> Self {
        let text = text.into();
        if text.trim().is_empty() { Self::of_kind(kind) } else { Self(text) }
    }

    /// The default hint for a kind of error.
    pub(super) fn of_kind(kind: &str) -> Self {
        let text = match kind {
            "store_busy" => "try again in a moment",
            "store_full" => "free some space on the disk of the data directory, and try again",
            "store_damaged" => "`hearth check` lists the damage, `hearth restore` restores a backup",
            "store_too_new" => "install the version of Hearth that wrote this store, or a newer one",
            "workspace_moved" => "`hearth workspace adopt` continues them here",
            "conflict" | "record_too_large" | "import_refused" => {
                "`hearth import claw DIR --dry-run` shows what would happen to every file"
            }
            "export_refused" => "choose another file with --output, or replace this one with --force",
            _ if kind.starts_with("invalid_") => "`--help` after the command shows what it takes",
            _ if kind.starts_with("workspace") || kind == "agent_folder" => {
                "`hearth workspace status` shows the state of this directory"
            }
            _ => "`hearth doctor` checks the installation",
        };
        Self(text.to_owned())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_always_has_words() {
        let kinds = ["failed", "store_full", "store_failed", "workspace_moved", "invalid_role", "conflict", "", "?"];
        for kind in kinds {
            for text in ["", " \n"] {
                assert_eq!(Hint::new(kind, text), Hint::of_kind(kind));
                assert!(!Hint::new(kind, text).as_str().trim().is_empty(), "{kind}");
            }
            assert_eq!(Hint::new(kind, "do this").as_str(), "do this");
        }
    }
}
