//! What the operator decided: places, environment, `hearth.toml`. The only reader of the host's environment.
//!
//! Everything is checked once, here; what comes out needs no further checks of its form. Called by `cli` and `daemon`;
//! `runtime` asks for the environment that references name and for the search path of its children.

pub mod env;
pub mod file;
pub mod paths;
pub mod seams;
pub mod zone;

pub use file::BadFile;
pub use paths::{BadPlace, Paths};
pub use zone::Machine;
