//! Every process dies at every point: each question is answered once, no message is sent twice, and no one is notified
//! of a failure that was repaired automatically.

use rustix::process::Signal;
use serde_json::json;

use super::setup::{Setup, podman};

/// What ends suddenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Daemon,
    Container,
    Runner,
    Cli,
    /// Podman's socket, for some time.
    Podman,
    /// Daemon and container together, as in a power cut.
    Machine,
}

/// How far the first question has come at the crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// Its container is being started.
    Starting,
    /// The model thinks.
    Asked,
    /// A tool runs.
    Tool,
    /// The agent has sent a message during its turn.
    Said,
    /// The answer is written and not collected.
    Answered,
    /// It is answered.
    Idle,
}

const ALL: [Who; 6] = [Who::Daemon, Who::Container, Who::Runner, Who::Cli, Who::Podman, Who::Machine];

static ROWS: std::sync::Mutex<()> = std::sync::Mutex::new(());

impl When {
    fn question(self) -> String {
        let what = match self {
            Self::Starting | Self::Idle => String::new(),
            Self::Asked | Self::Answered => "[[gate 0]]".to_owned(),
            Self::Tool => {
                let command = "echo begun >> begun; while [ ! -e go ]; do sleep 0.1; done";
                format!("[[tool Bash {}]]", json!({ "command": command }))
            }
            Self::Said => "[[tool mcp__nanoclaw__send_message {\"text\":\"middle\"}]] [[gate 1]]".to_owned(),
        };
        format!("{what} [[say first answer]]")
    }

    /// What Ann sees at the end of the first question.
    fn seen(self) -> Vec<&'static str> {
        if self == Self::Said { vec!["middle", "first answer"] } else { vec!["first answer"] }
    }

    fn wait(self, setup: &mut Setup) {
        match self {
            Self::Starting => setup.wait("a launch", || (!setup.host.rows("live").is_empty()).then_some(())),
            Self::Asked => setup.wait("the request", || (setup.api.gated() > 0).then_some(())),
            Self::Tool => setup.wait("the tool", || setup.group("begun").exists().then_some(())),
            Self::Said => {
                setup.wait_shown("middle");
                setup.wait("the request", || (setup.api.gated() > 0).then_some(()));
            }
            Self::Answered => {
                setup.wait("the request", || (setup.api.gated() > 0).then_some(()));
                setup.signal(Signal::STOP);
                setup.api.open();
                setup.wait("the answer's file", || has_answered(setup).then_some(()));
            }
            Self::Idle => {
                setup.wait_shown("first answer");
                setup.settle();
            }
        }
    }
}

fn has_answered(setup: &Setup) -> bool {
    let acks = std::fs::read_dir(setup.session().join("agent/ack")).into_iter().flatten().flatten();
    // A file that begins with a dot is being written: an agent that dies then has not answered.
    let is_whole = |name: &str| name.ends_with(".completed.json") && !name.starts_with('.');
    acks.into_iter().any(|ack| is_whole(&ack.file_name().to_string_lossy()))
}

impl Who {
    fn die(self, setup: &mut Setup) {
        match self {
            Self::Daemon => setup.host.kill(),
            Self::Container => {
                let id = setup.container();
                setup.podman(&["kill", &id]);
            }
            Self::Runner => setup.kill_process("hearth-runner"),
            Self::Cli => setup.kill_process("claude"),
            Self::Podman => {
                setup.proxy.close();
                std::thread::sleep(std::time::Duration::from_secs(1));
            }
            Self::Machine => {
                setup.host.kill();
                for id in setup.containers() {
                    setup.podman(&["kill", &id]);
                }
            }
        }
    }

    fn ends_daemon(self) -> bool {
        matches!(self, Self::Daemon | Self::Machine)
    }

    /// Whether the turn continues as if nothing had happened.
    fn is_survived(self) -> bool {
        matches!(self, Self::Daemon | Self::Podman)
    }
}

fn mend(setup: &mut Setup, (who, when): (Who, When)) {
    if when == When::Answered && !who.ends_daemon() {
        setup.signal(Signal::CONT);
    }
    setup.api.open();
    if when == When::Tool {
        std::fs::write(setup.group("go"), "").unwrap();
    }
    if who == Who::Podman {
        std::thread::sleep(std::time::Duration::from_secs(1));
        setup.proxy.reopen();
    }
    if who.ends_daemon() {
        setup.host.start();
    }
}

fn case(who: Who, when: When) {
    let Some(mut setup) = Setup::with_cli() else { return };
    setup.types(1, &when.question());
    when.wait(&mut setup);
    let before = if when == When::Starting { None } else { Some(setup.container()) };
    let asked = setup.api.requests().len();
    who.die(&mut setup);
    mend(&mut setup, (who, when));
    setup.wait_shown("first answer");
    setup.types(2, "[[say second answer]]");
    let shown = setup.wait_shown("second answer");
    let mut expected = when.seen();
    expected.push("second answer");
    assert_eq!(shown, expected, "{who:?} {when:?}");
    setup.settle();
    let completed = setup.host.states().iter().filter(|state| state.get("Completed").is_some()).count();
    assert_eq!(completed, 2, "{who:?} {when:?}: {:?}", setup.host.states());
    assert!(setup.host.rows("claims").is_empty());
    let tries: Vec<u64> =
        setup.host.rows("messages").iter().map(|row| row["value"]["tries"].as_u64().unwrap()).collect();
    let working = matches!(when, When::Asked | When::Tool | When::Said);
    let costs = working && matches!(who, Who::Container | Who::Runner | Who::Cli);
    // The next prompt may reach the CLI's pipe before the runner notices its death. Then a turn was lost.
    let met_the_dying = who == Who::Cli && when == When::Answered && tries == [0, 1];
    if when != When::Starting && !met_the_dying {
        assert_eq!(tries, [u64::from(costs), 0], "{who:?} {when:?}: {:#?}", setup.host.rows("journal"));
    }
    if who.is_survived()
        && let Some(before) = before
    {
        assert_eq!(setup.container(), before, "{who:?} {when:?}: the container goes on");
        let rounds = usize::from(matches!(when, When::Tool));
        assert_eq!(setup.api.requests().len(), asked + rounds + 1, "{who:?} {when:?}: nothing is asked again");
    }
    setup.stop();
    assert_eq!(setup.shown(), expected);
}

/// Crashes every process at this moment, in parallel, each on a host of its own.
fn row(when: When) {
    if podman().is_none() {
        return;
    }
    // Six agent CLIs that start at once are enough for a small machine.
    let _turn = ROWS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let results = std::thread::scope(|scope| {
        let cases = ALL.map(|who| (who, scope.spawn(move || case(who, when))));
        cases.map(|(who, case)| (who, case.join().is_ok()))
    });
    let failed: Vec<Who> = results.into_iter().filter(|(_, fine)| !fine).map(|(who, _)| who).collect();
    assert!(failed.is_empty(), "{when:?}: {failed:?}");
}

#[test]
fn while_it_starts() {
    row(When::Starting);
}

#[test]
fn while_the_model_thinks() {
    row(When::Asked);
}

#[test]
fn while_a_tool_runs() {
    row(When::Tool);
}

#[test]
fn after_it_said_something() {
    row(When::Said);
}

#[test]
fn when_the_answer_is_written() {
    row(When::Answered);
}

#[test]
fn when_nothing_is_to_do() {
    row(When::Idle);
}
