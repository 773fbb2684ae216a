//! An API in trouble.
