//! One crate of tests, one file per capability.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking, wherever it does"
)]
#![allow(clippy::disallowed_methods, reason = "tests start programs, wait for them and look at their own environment")]

mod abuse;
#[cfg(test)]
mod acp;
mod again;
mod agents;
mod approvals;
mod asking;
mod backup;
mod backup_all;
mod bad_input;
mod bound_secrets;
mod bridges;
mod budgets;
mod builds;
mod caps;
mod channels;
mod claw;
mod cli;
mod clock;
mod commands;
mod confine;
mod conformance;
mod console;
mod containers;
mod crash;
#[path = "../sim/days/mod.rs"]
mod days;
mod declarative;
mod delivery;
mod discord;
mod documented;
mod drain;
mod egress;
mod ending;
mod entities;
mod failures_told;
mod fallback;
mod files;
mod full_store;
mod fuzz;
#[path = "../fuzz/src/laws/mod.rs"]
mod fuzz_laws;
mod gateway;
mod group_files;
mod group_state;
mod hanging;
mod home;
mod host;
mod idle;
mod image;
mod inodes;
mod installed;
mod intake;
mod jail;
mod killed;
mod lifecycle;
mod limits;
mod local_owner;
mod mail;
mod matrix;
mod memory;
mod metrics;
mod missing_store;
mod model;
mod nanoclaw;
mod network;
mod new_agents;
mod openai;
mod operating;
mod operator;
mod own_commands;
mod pairing;
mod pattern;
mod peers;
mod places;
mod points;
mod prerequisites;
mod prompt_cap;
mod providers_page;
mod recall_killed;
mod reconnect;
mod recovery;
mod relevance;
mod requests;
mod restart;
mod retention;
mod routing;
mod routing_gate;
mod routing_identity;
mod routing_sticky;
mod routing_threads;
mod schedules;
mod seams;
mod search;
mod session;
mod setup;
mod shells;
mod signal;
mod simulated;
mod skips;
mod slack;
mod slots;
mod soak;
mod speech;
mod spend;
mod starts;
mod stop;
mod stopped;
mod store_faults;
mod tasks;
mod telegram;
mod telegram_files;
mod tidy;
mod tool_asks;
mod tool_calls;
mod tools;
mod trouble;
mod typing;
mod upgrade;
mod voice;
mod whatsapp;
mod whatsapp_linked;
mod why;
mod working;
mod workspaces;
mod world;
mod zones;
