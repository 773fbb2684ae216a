//! The daemon dies while a person is asked about a host: the question stays, is asked once, and the answer holds.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::host::beside::side_by_side;
use crate::host::confined::host_with;
use crate::host::deaths::{passed, pick};
use crate::host::disk::copy_store;
use crate::host::{Ended, Host, wait_for};

/// Asks for a host until it is known whether it may be reached, and answers with what it was told. Its file `tries` has a
/// line for each request. When the daemon dies, its proxy says nothing any more, which is no answer.
const AGENT: &str = r#"
def answer(text):
    for _ in range(100):
        with open("tries", "a") as tries:
            tries.write("x\n")
        ended = subprocess.run(["curl", "-s", "--max-time", "60", "http://asked.example/"], capture_output=True, text=True)
        if ended.stdout and "Hearth asked a person" not in ended.stdout:
            break
        if not ended.stdout:
            time.sleep(0.1)
    return ended.stdout + ended.stderr
"#;

/// What the agent is told when the host is allowed: the name leads nowhere.
const ALLOWED: &str = "Hearth cannot reach asked.example:80";
const REFUSED: &str = "Hearth did not connect to asked.example:80";
/// How long a connection waits for a person.
const PATIENCE: Duration = Duration::from_secs(15);

/// Conversations at the same time: they wait more than they work.
const THREADS: usize = 6;
/// Crashes of an ordinary run.
const MOST: usize = 16;

fn asking() -> Option<Host> {
    host_with("network = \"ask\"", AGENT)
}

fn tries(host: &Host) -> usize {
    std::fs::read_to_string(host.data().join("groups/main/tries")).map_or(0, |text| text.lines().count())
}

/// The questions that are open.
fn open(host: &Host) -> Vec<String> {
    let listed: Value = serde_json::from_str(&host.done(&["approvals", "list", "--json"], b"")).unwrap();
    let ids = listed["approvals"].as_array().unwrap().iter();
    ids.map(|one| one["approval"].as_str().unwrap().to_owned()).collect()
}

/// There was one question, and everything that the agent was told is this.
fn assert_told(host: &Host, told: &str) {
    host.wait_settled();
    assert_eq!((host.rows("approvals").len(), open(host)), (1, Vec::new()), "it was asked once, and is decided");
    let said = host.said();
    let (answers, others): (Vec<&String>, Vec<&String>) = said.iter().partition(|text| text.starts_with("Hearth "));
    assert!(!answers.is_empty() && answers.iter().all(|text| text.starts_with(told)), "{said:#?}");
    // A card that was on its way when it was decided is followed by a text that says so.
    let cards = others.iter().filter(|text| text.contains("asked.example:80") && text.contains("1. Once")).count();
    assert!(cards <= 1, "{said:#?}");
    host.check();
}

#[test]
fn a_question_about_a_host_survives_a_kill() {
    let once = ["approvals", "approve", "ap1"];
    let always = ["approvals", "approve", "ap1", "--always"];
    let never = ["net", "deny", "main", "asked.example:80"];
    for (decision, told) in [(&once[..], ALLOWED), (&always, ALLOWED), (&never, REFUSED)] {
        let Some(mut host) = asking() else { return };
        host.start();
        host.inject("m1", "go");
        wait_for("the question", || (open(&host) == ["ap1"]).then_some(()));
        host.kill();
        assert_eq!(open(&host), ["ap1"]);
        let before = tries(&host);
        host.start();
        wait_for("the next try", || (tries(&host) > before).then_some(()));
        let waiting = Instant::now();
        assert_eq!(open(&host), ["ap1"], "the same question");
        host.done(decision, b"");
        wait_for("the answer", || host.said().iter().any(|text| text.starts_with(told)).then_some(()));
        assert!(waiting.elapsed() < PATIENCE, "the connection that waits is told");
        assert_told(&host, told);
        // It holds for every later try, and no one is asked again.
        host.inject("m2", "again");
        assert_told(&host, told);
        assert_eq!(host.stop().code, Some(0));
    }
}

#[test]
fn a_decision_without_a_daemon_holds_for_the_next_one() {
    let Some(mut host) = asking() else { return };
    host.start();
    host.inject("m1", "go");
    wait_for("the question", || (open(&host) == ["ap1"]).then_some(()));
    host.kill();
    host.done(&["approvals", "approve", "ap1"], b"");
    host.start();
    host.wait_said(1);
    assert_told(&host, ALLOWED);
    assert_eq!(host.stop().code, Some(0));
}

#[test]
fn a_death_at_every_point_of_a_question_about_a_host_is_survived() {
    let Some(origin) = asking() else { return };
    origin.inject("m1", "go");
    let points = Asked::new(&origin, None).run().0;
    let at = pick("a question about a host", &points, MOST);
    let died = side_by_side(THREADS, &at, |k| Asked::new(&origin, Some(*k)).run().1);
    let failed: Vec<String> = at
        .iter()
        .zip(&died)
        .filter(|(_, died)| died.is_err())
        .map(|(k, _)| format!("{k} ({})", points.get(k - 1).map_or("", |name| name)))
        .collect();
    assert!(failed.is_empty(), "{} of {} deaths were not survived:\n{}", failed.len(), at.len(), failed.join("\n"));
    let dead = died.iter().flatten().filter(|died| **died).count();
    assert!(dead * 4 >= at.len() * 3, "{dead} of {} daemons died", at.len());
}

/// One question, with or without a crash.
struct Asked {
    host: Host,
    at: Option<usize>,
    died: bool,
    notes: PathBuf,
}

impl Asked {
    fn new(origin: &Host, at: Option<usize>) -> Self {
        let mut host = Host::before_the_first_start();
        copy_store(origin, &host);
        host.env.clone_from(&origin.env);
        let group = host.data().join("groups/main");
        std::fs::create_dir_all(&group).unwrap();
        std::fs::copy(origin.data().join("groups/main/agent.py"), group.join("agent.py")).unwrap();
        let notes = host.path("points");
        Self { host, at, died: false, notes }
    }

    /// Runs to the end: the points that were reached, and whether the daemon died.
    fn run(mut self) -> (Vec<String>, bool) {
        let seam = match self.at {
            Some(k) => ("HEARTH_TEST_CRASH_AT".to_owned(), format!("any:{k}")),
            None => ("HEARTH_TEST_POINTS".to_owned(), self.notes.display().to_string()),
        };
        self.host.env.push(seam);
        self.host.launch();
        self.host.env.pop();
        wait_for("the question to be decided, and the agent to be told", || {
            self.revive();
            for id in open(&self.host) {
                // A dying daemon may not answer; then it is decided again.
                self.host.run(&["approvals", "approve", &id], b"");
            }
            let decided = !self.host.rows("approvals").is_empty() && open(&self.host).is_empty();
            let told = self.host.said().iter().any(|text| text.starts_with(ALLOWED));
            let over = self.host.states().iter().all(|state| state.get("Completed").is_some());
            (decided && told && over).then_some(())
        });
        let ended = self.host.stop();
        self.assert_ended(&ended);
        assert_told(&self.host, ALLOWED);
        let points = if self.at.is_some() { Vec::new() } else { passed(&self.notes) };
        (points, self.died)
    }

    /// Starts the daemon again if it died.
    fn revive(&mut self) {
        if self.host.daemon().is_some_and(|daemon| daemon.try_end().is_some()) {
            let ended = self.host.ended();
            self.assert_ended(&ended);
            self.host.check();
            self.host.launch();
        }
    }

    fn assert_ended(&mut self, ended: &Ended) {
        assert!(!ended.stderr.contains(" ERROR "), "{ended:#?}");
        let killed = ended.signal == Some(9);
        assert!(ended.code == Some(0) || (killed && !self.died), "{ended:#?}");
        self.died |= killed;
    }
}
