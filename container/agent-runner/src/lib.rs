//! The agent runner.
