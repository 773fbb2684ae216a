//! `hearth import`: what other programs kept.

mod nanoclaw;

pub(super) use nanoclaw::{NanoclawArgs, nanoclaw};
