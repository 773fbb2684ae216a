//! Setup, with a crash at every point: the next setup does the rest, and nothing unfinished remains.

use super::{left_over, passed};
use crate::host::Host;
use crate::host::beside::failing;
use crate::host::fake_telegram::{FakeTelegram, TOKEN};

/// Number of crashes at the same time: they work more than they wait.
const THREADS: usize = 3;

/// A file that a person wrote before the first setup.
const BY_HAND: &str = "schema = 1\n# mine\ntimezone = \"Europe/Berlin\"\n";

/// A data directory with only a file, and the arguments of a setup that replaces it.
fn before(telegram: &FakeTelegram) -> (Host, Vec<String>) {
    let host = Host::before_the_first_start();
    std::fs::create_dir(host.data()).unwrap();
    std::fs::set_permissions(host.data(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::write(host.data().join("hearth.toml"), BY_HAND).unwrap();
    let token = host.path("token");
    std::fs::write(&token, TOKEN).unwrap();
    let (token, url) = (token.display().to_string(), telegram.url());
    let answers = ["setup", "--provider", "echo", "--telegram-token-file", &token, "--telegram-base-url", &url];
    let all = answers.iter().chain(&["--yes", "--no-service", "--no-message"]);
    (host, all.map(|word| (*word).to_owned()).collect())
}

fn run(host: &Host, words: &[String]) -> crate::host::Ended {
    host.run(&words.iter().map(String::as_str).collect::<Vec<_>>(), b"")
}

/// The points of a setup.
pub(super) fn points() -> Vec<String> {
    let telegram = FakeTelegram::start();
    let (mut host, words) = before(&telegram);
    let notes = host.path("points");
    host.env.push(("HEARTH_TEST_POINTS".to_owned(), notes.display().to_string()));
    let ended = run(&host, &words);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    passed(&notes)
}

#[test]
fn a_death_during_setup_is_survived() {
    let points = points();
    let at: Vec<usize> = (0..points.len()).filter(|at| points[*at].starts_with("setup-") || at % 7 == 0).collect();
    let failed = failing(THREADS, &at, |at| dies(*at, &points[*at]));
    assert!(failed.is_empty(), "at {failed:?} of {points:?}");
}

fn dies(at: usize, point: &str) {
    let telegram = FakeTelegram::start();
    let (mut host, words) = before(&telegram);
    host.env.push(("HEARTH_TEST_CRASH_AT".to_owned(), format!("any:{}", at + 1)));
    let ended = run(&host, &words);
    assert_eq!(ended.signal, Some(9), "{point}: {ended:#?}");
    host.env.pop();
    let ended = run(&host, &words);
    assert_eq!(ended.code, Some(0), "{point}: {ended:#?}");
    let file = host.data().join("hearth.toml");
    let applied = host.done(&["apply", file.to_str().unwrap()], b"");
    assert!(applied.contains("agent main") && applied.contains("channel telegram"), "{point}: {applied}");
    assert_eq!(std::fs::read_to_string(host.data().join("secrets/telegram.token")).unwrap(), TOKEN, "{point}");
    let left = left_over(&host.data());
    assert!(left.is_empty(), "{point}: {left:?}");
    host.check();
}
