//! Every process dies at every point: each question is answered once, no message is sent twice, and no one is notified
//! of a failure that was repaired automatically.

use rustix::process::Signal;
use serde_json::json;

use super::house::{House, podman};

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

    fn wait(self, house: &mut House) {
        match self {
            Self::Starting => house.wait("a launch", || (!house.host.rows("live").is_empty()).then_some(())),
            Self::Asked => house.wait("the request", || (house.api.gated() > 0).then_some(())),
            Self::Tool => house.wait("the tool", || house.group("begun").exists().then_some(())),
            Self::Said => {
                house.wait_shown("middle");
                house.wait("the request", || (house.api.gated() > 0).then_some(()));
            }
            Self::Answered => {
                house.wait("the request", || (house.api.gated() > 0).then_some(()));
                house.signal(Signal::STOP);
                house.api.open();
                house.wait("the answer's file", || has_answered(house).then_some(()));
            }
            Self::Idle => {
                house.wait_shown("first answer");
                house.settle();
            }
        }
    }
}

fn has_answered(house: &House) -> bool {
    let acks = std::fs::read_dir(house.session().join("agent/ack")).into_iter().flatten().flatten();
    // A file that begins with a dot is being written: an agent that dies then has not answered.
    let is_whole = |name: &str| name.ends_with(".completed.json") && !name.starts_with('.');
    acks.into_iter().any(|ack| is_whole(&ack.file_name().to_string_lossy()))
}

impl Who {
    fn die(self, house: &mut House) {
        match self {
            Self::Daemon => house.host.kill(),
            Self::Container => {
                let id = house.container();
                house.podman(&["kill", &id]);
            }
            Self::Runner => house.kill_process("hearth-runner"),
            Self::Cli => house.kill_process("claude"),
            Self::Podman => {
                house.door.close();
                std::thread::sleep(std::time::Duration::from_secs(1));
            }
            Self::Machine => {
                house.host.kill();
                for id in house.containers() {
                    house.podman(&["kill", &id]);
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

fn mend(house: &mut House, (who, when): (Who, When)) {
    if when == When::Answered && !who.ends_daemon() {
        house.signal(Signal::CONT);
    }
    house.api.open();
    if when == When::Tool {
        std::fs::write(house.group("go"), "").unwrap();
    }
    if who == Who::Podman {
        std::thread::sleep(std::time::Duration::from_secs(1));
        house.door.reopen();
    }
    if who.ends_daemon() {
        house.host.start();
    }
}

fn case(who: Who, when: When) {
    let Some(mut house) = House::with_cli() else { return };
    house.types(1, &when.question());
    when.wait(&mut house);
    let before = if when == When::Starting { None } else { Some(house.container()) };
    let asked = house.api.requests().len();
    who.die(&mut house);
    mend(&mut house, (who, when));
    house.wait_shown("first answer");
    house.types(2, "[[say second answer]]");
    let shown = house.wait_shown("second answer");
    let mut expected = when.seen();
    expected.push("second answer");
    assert_eq!(shown, expected, "{who:?} {when:?}");
    house.settle();
    let completed = house.host.states().iter().filter(|state| state.get("Completed").is_some()).count();
    assert_eq!(completed, 2, "{who:?} {when:?}: {:?}", house.host.states());
    assert!(house.host.rows("claims").is_empty());
    let tries: Vec<u64> =
        house.host.rows("messages").iter().map(|row| row["value"]["tries"].as_u64().unwrap()).collect();
    let working = matches!(when, When::Asked | When::Tool | When::Said);
    let costs = working && matches!(who, Who::Container | Who::Runner | Who::Cli);
    // The next prompt may reach the CLI's pipe before the runner notices its death. Then a turn was lost.
    let met_the_dying = who == Who::Cli && when == When::Answered && tries == [0, 1];
    if when != When::Starting && !met_the_dying {
        assert_eq!(tries, [u64::from(costs), 0], "{who:?} {when:?}: {:#?}", house.host.rows("journal"));
    }
    if who.is_survived()
        && let Some(before) = before
    {
        assert_eq!(house.container(), before, "{who:?} {when:?}: the container goes on");
        let rounds = usize::from(matches!(when, When::Tool));
        assert_eq!(house.api.requests().len(), asked + rounds + 1, "{who:?} {when:?}: nothing is asked again");
    }
    house.stop();
    assert_eq!(house.shown(), expected);
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
