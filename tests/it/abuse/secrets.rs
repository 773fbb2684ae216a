//! Marked secrets in a run with every feature on. They reach their users, and appear in no file and no output.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;

use crate::host::channels::{SECRET, free_port, post};
use crate::host::confined;
use crate::host::fake_telegram::{FakeTelegram, Fault, TOKEN};
use crate::host::telegram::typed;
use crate::host::{Host, skipped, wait_for};

const KEY: &str = "marked-key-of-the-agent-5f2c";
const FILE: &str = "marked-file-of-the-agent-77aa";
const MADE: &str = "marked-output-of-a-command-90b1";
/// Not a secret: Podman may store it.
const PLAIN: &str = "plain-text-of-the-agent-31d7";

/// The agent's message after its secrets were removed.
const HIDDEN: &str = r#"[["FILE", "KEY", "MADE"], []] [secret KEY] [secret KEY] [secret KEY]"#;

/// Agents that report whether they have their own secrets and what else they can see, that repeat them, and that cause
/// failures.
const PROGRAM: &str = r#"
import json, os, sys
for line in sys.stdin:
    turn = json.loads(line)
    if turn["type"] != "turn":
        continue
    mine = [name for name in ("KEY", "FILE", "MADE") if "marked" in os.environ.get(name, "")]
    rest = [name for name, value in os.environ.items() if "marked" in value and name not in mine]
    key = os.environ.get("KEY", "")
    repeated = "".join(" " + form for form in (key, key.encode().hex(), "".join("%%%02X" % b for b in key.encode())) if form)
    print(json.dumps({"type": "say", "text": json.dumps([sorted(mine), rest]) + repeated}))
    print(json.dumps({"type": "done"}), flush=True)
    print("a complaint that has", os.environ.get("KEY"), "in it", file=sys.stderr, flush=True)
"#;

/// The argument lists of all processes of this machine.
fn command_lines() -> Vec<u8> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.flat_map(|entry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default()).collect()
}

fn clean(what: &str, text: &[u8]) {
    for secret in [TOKEN, SECRET, KEY, FILE, MADE] {
        let found = text.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!found, "{what} has {secret}");
    }
}

/// Every file below a directory.
fn files(at: &Path, look: &mut dyn FnMut(&Path)) {
    for entry in std::fs::read_dir(at).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&entry.path(), look),
            Ok(kind) if kind.is_file() => look(&entry.path()),
            _ => {}
        }
    }
}

/// Where agents run, and with which program.
enum At {
    Process,
    /// In containers of this image, through this socket.
    Podman(String, String),
}

fn configure(host: &Host, telegram: &FakeTelegram, (port, at): (u16, &At)) {
    std::fs::write(host.path("secret.txt"), format!("{FILE}\n")).unwrap();
    std::fs::write(host.path("made.txt"), format!("{MADE}\n")).unwrap();
    let (program, runtime) = match at {
        At::Process => {
            std::fs::write(host.path("agent.py"), PROGRAM).unwrap();
            (host.path("agent.py").display().to_string(), "runtime = \"process\"".to_owned())
        }
        At::Podman(image, _) => {
            host.done(&["agents", "add", "has"], b"");
            for folder in ["has", "hasnot"] {
                let group = host.data().join("groups").join(folder);
                std::fs::create_dir_all(&group).unwrap();
                std::fs::write(group.join("agent.py"), PROGRAM).unwrap();
            }
            ("/workspace/group/agent.py".to_owned(), format!("runtime = \"podman\"\nimage = \"{image}\""))
        }
    };
    let open = if confined::possible() { "" } else { "unconfined = true\n" };
    let agent = |folder: &str, env: &str| {
        format!(
            "[[agents]]\nfolder = \"{folder}\"\nprovider = \"command\"\nnetwork = \"none\"\n\
             command = [\"python3\", \"{program}\"]\n{open}{env}\n"
        )
    };
    let env = format!(
        "env = {{ MOOD = \"{PLAIN}\", KEY = \"env:MARKED\", FILE = \"file:{}\", MADE = \"cmd:cat {}\" }}",
        host.path("secret.txt").display(),
        host.path("made.txt").display()
    );
    let chat = |channel: &str, id: &str, agent: &str| {
        format!(
            "[[chats]]\nchannel = \"{channel}\"\nplatform_id = \"{id}\"\nunknown_senders = \"public\"\n\
             [[chats.wirings]]\nagent = \"{agent}\"\nengage = \"pattern\"\npattern = \".\"\n"
        )
    };
    host.apply(&format!(
        "schema = 1\n{runtime}\n{}{}[channels.telegram]\ntoken = \"env:BOT_TOKEN\"\nbase_url = \"{}\"\n\
         [channels.web]\ntype = \"webhook\"\nsecret = \"env:WEB_SECRET\"\nlisten = \"127.0.0.1:{port}\"\n\
         base_url = \"http://127.0.0.1:9\"\n{}{}",
        agent("has", &env),
        agent("hasnot", ""),
        telegram.url(),
        chat("telegram", "123", "has"),
        chat("web", "room", "hasnot"),
    ));
}

#[test]
fn marked_secrets_stay_where_they_belong() {
    run(&At::Process);
}

#[test]
fn also_when_agents_are_in_containers() {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let found = variable("HEARTH_TEST_PODMAN").zip(variable("HEARTH_TEST_IMAGE"));
    let Some((socket, image)) = found.filter(|(_, image)| image.contains("hearth-agent")) else {
        skipped("there is no Podman with the agents' image; `.ci/podman.sh cargo test` makes one");
        return;
    };
    run(&At::Podman(image, socket));
}

/// Nothing that Podman shows or stores contains a secret, not even of the agent that received it.
fn inspect(host: &Host, socket: &str) {
    let install = host.rows("meta")[0]["value"]["install"].as_u64().unwrap();
    let podman = |arguments: &[&str]| {
        let mut command = std::process::Command::new("podman");
        let output = command.args(["--url", &format!("unix://{socket}")]).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let listed = podman(&["ps", "--quiet", "--filter", &format!("label=hearth.install={install:016x}")]);
    let shown: Vec<String> = listed.lines().map(|id| podman(&["inspect", id])).collect();
    assert!(shown.iter().any(|shown| shown.contains(PLAIN)), "plain values are shown");
    for shown in shown {
        clean("a container", shown.as_bytes());
    }
    assert_ne!(stored(socket, &[PLAIN]), "", "plain values are stored");
    search_storage(socket);
}

/// Names of files in Podman's storage that contain one of these texts.
fn stored(socket: &str, texts: &[&str]) -> String {
    let url = format!("unix://{socket}");
    let format = "{{.Store.GraphRoot}}\n{{.Store.RunRoot}}";
    let mut podman = std::process::Command::new("podman");
    let places = podman.args(["--url", &url, "info", "--format", format]).output().unwrap();
    let places = String::from_utf8(places.stdout).unwrap();
    assert_eq!(places.lines().count(), 2, "{places}");
    // Not passed as arguments: the other test searches the arguments of all processes of this machine for secrets.
    let mut wanted = tempfile::NamedTempFile::new().unwrap();
    wanted.write_all(texts.join("\n").as_bytes()).unwrap();
    let mut files = Vec::new();
    places.lines().for_each(|place| files_below(Path::new(place), &mut files));
    let search = |files: &[PathBuf]| {
        let mut grep = std::process::Command::new("grep");
        grep.args(["-laF", "--file"]).arg(wanted.path()).arg("--").args(files).stderr(Stdio::null());
        String::from_utf8_lossy(&grep.output().unwrap().stdout).into_owned()
    };
    files.chunks(500).map(search).collect()
}

/// Containers of other tests come and go meanwhile: `grep -r` and `find` leave a tree when a directory disappears.
fn files_below(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_below(&entry.path(), files),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
}

fn search_storage(socket: &str) {
    assert_eq!(stored(socket, &[KEY, FILE, MADE]), "", "Podman stores a secret");
}

/// The next daemon adopts the container, and finds out which values it must not show.
fn adopted(host: &mut Host, telegram: &FakeTelegram) {
    host.kill();
    host.start();
    telegram.happens(typed(8, "hello again"));
    host.wait_said(3);
    host.done(&["agents", "restart", "has"], b"");
    wait_for("the end of its second run", || {
        let rows = host.rows("incarnations");
        (rows.iter().filter(|row| row["value"]["phase"].get("Closed").is_some()).count() >= 2).then_some(())
    });
    clean("sessions show", host.run(&["sessions", "show", "se1"], b"").stdout.as_bytes());
}

fn run(at: &At) {
    let telegram = FakeTelegram::start();
    let mut host = Host::new();
    let port = free_port();
    for (name, value) in [("BOT_TOKEN", TOKEN), ("WEB_SECRET", SECRET), ("MARKED", KEY), ("HEARTH_LOG", "debug")] {
        host.env.push((name.to_owned(), value.to_owned()));
    }
    if let At::Podman(_, socket) = at {
        host.runtime = "podman";
        host.env.push(("CONTAINER_HOST".to_owned(), format!("unix://{socket}")));
    }
    configure(&host, &telegram, (port, at));
    telegram.fails("getUpdates", [Fault::Close, Fault::Say(500, "no".to_owned())]);
    telegram.fails("sendMessage", [Fault::Close, Fault::Error(400, "Bad Request", json!({}))]);
    host.start();
    telegram.happens(typed(7, "hello"));
    let event = json!({"channelType": "web", "platformId": "room",
        "message": {"id": "m1", "content": {"text": "hello", "senderId": "ann"}}});
    wait_for("the web service", || post(port, SECRET, "/v1/events", &event).filter(|(status, _)| *status == 200));
    post(port, "wrong", "/v1/events", &event).unwrap();
    let said = host.wait_said(2);
    assert!(said.iter().any(|said| said == HIDDEN), "{said:?}");
    assert!(said.iter().any(|said| said == "[[], []]"), "{said:?}");
    // Not all messages: what an agent is told about a message that could not be sent waits for its next turn.
    wait_for("both to be answered", || {
        let completed = host.states().iter().filter(|state| state.get("Completed").is_some()).count();
        (completed >= 2).then_some(())
    });
    let told = |session: &str| {
        host.run(&["sessions", "prompt", session], b"").stdout.contains("You wrote the value of a secret (KEY)")
    };
    wait_for("the agent to be told", || (told("se1") || told("se2")).then_some(()));
    clean("a command line", &command_lines());
    if let At::Podman(_, socket) = at {
        inspect(&host, socket);
    }
    // Its output is kept after it is gone.
    host.done(&["agents", "restart", "has"], b"");
    let complains = |session: &str| host.run(&["sessions", "show", session], b"").stdout.contains("a complaint");
    wait_for("the complaint", || (complains("se1") || complains("se2")).then_some(()));
    let commands: [&[&str]; 12] = [
        &["status", "--json"],
        &["export"],
        &["doctor", "--json"],
        &["agents", "show", "has", "--json"],
        &["sessions", "show", "se1", "--json"],
        &["sessions", "show", "se2", "--json"],
        &["channels", "list", "--json"],
        &["why", "latest", "--json"],
        &["sessions", "prompt", "se1"],
        &["backup", "--json"],
        &["store", "export", "-"],
        &["approvals", "list", "--json"],
    ];
    for words in commands {
        let ended = host.run(words, b"");
        clean(&words.join(" "), format!("{}{}", ended.stdout, ended.stderr).as_bytes());
    }
    for words in [&["--json", "--bodies"][..], &[]] {
        clean("hearth-dump", host.dump(words).stdout.as_bytes());
    }
    if matches!(at, At::Podman(..)) {
        adopted(&mut host, &telegram);
    }
    let log = host.stop().stderr;
    if let At::Podman(_, socket) = at {
        search_storage(socket);
    }
    assert!(log.contains("DEBUG"), "everything is on");
    clean("the log", log.as_bytes());
    // The store, its backup, mailboxes and whatever else was written.
    files(&host.data(), &mut |path| clean(&path.display().to_string(), &std::fs::read(path).unwrap_or_default()));
}
