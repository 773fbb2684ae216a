//! Commands for the files that trusted agents share: session state, memory, skip summaries. They take the place of the
//! scripts of an earlier system and keep what other programs rely on: paths, formats, locks, exit codes, diagnostics.
//! `docs/trusted.md` says what they do and where they differ.

mod files;
mod json;
mod state_file;
