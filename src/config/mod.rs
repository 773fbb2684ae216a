//! The operator's configuration: paths, environment, `hearth.toml`. Only this module reads the host's environment.
//!
//! Everything is validated once, here; the results need no further checks of their form. Called by `cli` and `daemon`.
//! `runtime` asks for the environment that references name and for the search path of its children.

pub mod env;
pub mod file;
pub mod nearest;
pub mod paths;
pub mod seams;
pub mod temp_dir;
pub mod zone;

pub use file::BadFile;
pub use nearest::nearest;
pub use paths::{BadPlace, Contents, Paths};
pub use zone::Machine;
