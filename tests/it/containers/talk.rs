//! Everyday things in containers, both ways.
