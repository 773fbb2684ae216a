//! Images that cannot be started.
