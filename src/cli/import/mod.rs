//! `hearth import`: data of other programs.

mod nanoclaw;

pub(super) use nanoclaw::{NanoclawArgs, nanoclaw};
