//! A build without debug assertions ignores the variables for tests.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "the test starts itself with other variables")]

use std::path::Path;
use std::process::Command;

use hearth_plain::env::INCARNATION_VARIABLE;
use hearth_plain::model::Millis;
use hearth_plain::model::policy::Policy;
use hearth_plain::roots::Start;
use hearth_plain::seams;

const VARIABLES: [&str; 9] = [
    "HEARTH_TEST_BACKOFF_MS",
    "HEARTH_TEST_BACKUP_MS",
    "HEARTH_TEST_CHECK_MS",
    "HEARTH_TEST_CRASH_AT",
    "HEARTH_TEST_HEARTBEAT_MS",
    "HEARTH_TEST_POINTS",
    "HEARTH_TEST_ROOTS",
    "HEARTH_TEST_RUNNER",
    "HEARTH_TEST_WAIT_MS",
];

#[test]
fn variables_of_the_daemon_are_ignored() {
    if std::env::var_os(VARIABLES[0]).is_none() {
        let mut with_variables = Command::new(std::env::current_exe().unwrap());
        with_variables.args(["--exact", "variables_of_the_daemon_are_ignored"]).envs(VARIABLES.map(|name| (name, "1")));
        assert!(with_variables.status().unwrap().success());
    }
    assert_eq!((seams::crash_at(), seams::points(), seams::runner(), seams::roots()), (None, None, None, None));
    assert_eq!(seams::check_every(), Millis::minutes(7 * 24 * 60));
    assert_eq!(seams::backup_every(), None);
    assert_eq!(format!("{:?}", seams::policy()), format!("{:?}", Policy::STANDARD));
}

#[test]
fn the_variable_of_the_runner_is_ignored() {
    let set = |name: &str| (name == INCARNATION_VARIABLE || name.starts_with("HEARTH_TEST_")).then(|| "1".to_owned());
    assert_eq!(Start::from_variables(&set).unwrap().crash_after_steps, None);
    assert!(hearth_plain::start().is_err(), "no variable is set");
}

/// The list above has every variable that the module names.
#[test]
fn every_variable_is_tried() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src/config/seams.rs");
    let text = std::fs::read_to_string(path).unwrap();
    let calls = text.split("variable!(\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let mut named: Vec<&str> = calls.collect();
    named.sort_unstable();
    assert_eq!(named, VARIABLES);
}
