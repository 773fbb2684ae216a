//! API failures seen by a real agent CLI in a container: nothing is lost, and people are notified when it matters.

use serde_json::Value;

use super::setup::Setup;
use crate::host::fake_api::{FakeApi, Trouble};

/// What Ann is told about a message that failed.
const FAILED: &str = "The agent could not process your message.";

/// When the fault ends.
#[derive(Debug, Clone, Copy)]
enum Until {
    /// After Ann was told this.
    Told(&'static str),
    /// After Ann was told that her message failed. `hearth why` shows this reason.
    Failed(&'static str),
    /// After this number of tries.
    Tries(u64),
    /// After this number of API requests.
    Asked(usize),
}

/// The outcome of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Answered,
    Failed,
}

fn tries(setup: &Setup) -> u64 {
    setup.host.rows("messages").iter().map(|row| row["value"]["tries"].as_u64().unwrap()).max().unwrap_or_default()
}

fn wait(setup: &Setup, until: Until) {
    match until {
        Until::Told(text) => drop(setup.wait_shown(text)),
        Until::Failed(why) => {
            setup.wait_shown(FAILED);
            let told = setup.host.done(&["why", "ms1"], b"");
            assert!(told.contains(why), "{told}");
        }
        Until::Tries(count) => setup.wait("tries", || (tries(setup) >= count).then_some(())),
        Until::Asked(count) => setup.wait("requests", || (setup.api.requests().len() >= count).then_some(())),
    }
}

/// One message that meets a failing API, and one after it.
fn case(trouble: Trouble, until: Until, end: End) {
    let Some(setup) = Setup::with_cli() else { return };
    setup.api.trouble(Some(trouble));
    setup.types(1, "[[say first answer]]");
    wait(&setup, until);
    setup.api.trouble(None);
    assert_end(&setup, until, end);
}

fn assert_end(setup: &Setup, until: Until, end: End) {
    let mut expected: Vec<&str> = Vec::new();
    match until {
        Until::Told(text) => expected.push(text),
        Until::Failed(_) => expected.push(FAILED),
        Until::Tries(_) | Until::Asked(_) => {}
    }
    if end == End::Answered {
        setup.wait_shown("first answer");
        expected.push("first answer");
    }
    setup.types(2, "[[say second answer]]");
    let shown = setup.wait_shown("second answer");
    expected.push("second answer");
    assert_eq!(shown.len(), expected.len(), "{expected:?}: {shown:?}");
    assert!(shown.iter().zip(&expected).all(|(shown, expected)| shown.contains(expected)), "{expected:?}: {shown:?}");
    setup.settle();
    let failed = setup.host.states().iter().filter(|state: &&Value| state.get("Failed").is_some()).count();
    assert_eq!(failed, usize::from(end == End::Failed));
}

/// Asserts that waiting cost no try.
fn assert_no_try(trouble: Trouble) {
    let Some(setup) = Setup::with_cli() else { return };
    let until = Until::Told("Your message waits");
    setup.api.trouble(Some(trouble));
    setup.types(1, "[[say first answer]]");
    wait(&setup, until);
    setup.api.trouble(None);
    assert_end(&setup, until, End::Answered);
    assert_eq!(tries(&setup), 0);
}

#[test]
fn a_login_that_is_refused_is_told_at_once() {
    let trouble = Trouble::Status(401, "authentication_error", None);
    case(trouble, Until::Failed("set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN"), End::Failed);
}

#[test]
fn an_api_that_fails_is_tried_again() {
    case(Trouble::Status(500, "api_error", None), Until::Tries(1), End::Answered);
}

#[test]
fn an_api_that_fails_for_ever_is_told_after_the_last_try() {
    case(Trouble::Status(500, "api_error", None), Until::Failed("failed after 5 tries"), End::Failed);
}

#[test]
fn an_api_that_wants_less_is_waited_for() {
    assert_no_try(Trouble::Status(429, "rate_limit_error", None));
}

#[test]
fn an_api_that_says_how_long_is_waited_for() {
    assert_no_try(Trouble::Status(429, "rate_limit_error", Some(1)));
}

#[test]
fn an_api_that_has_too_much_to_do_is_waited_for() {
    assert_no_try(Trouble::Status(529, "overloaded_error", None));
}

#[test]
fn an_answer_that_breaks_off_is_asked_for_again() {
    case(Trouble::Breaks, Until::Asked(2), End::Answered);
}

/// Without further input the CLI waits five minutes. People who do not want to wait restart the agent.
#[test]
fn an_answer_that_never_goes_on_is_asked_for_again_when_the_agent_is_started_again() {
    let Some(setup) = Setup::with_cli() else { return };
    let until = Until::Asked(1);
    setup.api.trouble(Some(Trouble::Stalls));
    setup.types(1, "[[say first answer]]");
    wait(&setup, until);
    setup.api.trouble(None);
    setup.host.done(&["agents", "restart", "main"], b"");
    assert_end(&setup, until, End::Answered);
    assert_eq!(tries(&setup), 0, "it was the operator's wish");
}

#[test]
fn an_api_that_is_down_is_tried_again() {
    let Some(mut setup) = Setup::with_cli() else { return };
    let port = setup.api.port();
    let silent = FakeApi::start();
    drop(std::mem::replace(&mut setup.api, silent));
    setup.types(1, "[[say first answer]]");
    let until = Until::Told("the agent's provider cannot be reached");
    wait(&setup, until);
    setup.api = FakeApi::start_at(port);
    assert_end(&setup, until, End::Answered);
    assert_eq!(tries(&setup), 0);
}
