//! The real daemon with the real Podman, the agents' image and the agent CLI in it: every process dies at every moment,
//! and the tests check what people see.
//!
//! Skipped without `HEARTH_TEST_PODMAN` and `HEARTH_TEST_IMAGE`; `.ci/podman.sh cargo test` creates both.

mod adopt;
mod builds;
mod deaths;
mod egress;
mod filter;
mod gateway;
mod matrix;
mod readme;
mod setup;
mod talk;
mod trouble;
mod unstartable;
