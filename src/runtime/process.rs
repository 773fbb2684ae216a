//! The process runtime.
