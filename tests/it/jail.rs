//! Agents in a mount view of their own, seen from outside: which processes end with them, which user they are, what
//! they can reach, and which programs work there. Skipped with a message where bubblewrap does not work.

#![expect(clippy::disallowed_methods, reason = "tests start programs and wait for them")]

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::host::confined::{PROTOCOL, Setup};
use crate::host::{Host, skipped, wait_for};

/// Whether agents get a mount view here; reports a skipped test if not.
fn possible(host: &Host) -> bool {
    let ended = host.run(&["doctor", "--json"], b"");
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:#?}"));
    let check = answer["checks"].as_array().unwrap().iter().find(|check| check["check"] == "confinement").unwrap();
    if check["result"] != "ok" {
        skipped(format_args!("agents get no mount view: {}", check["found"]));
    }
    check["result"] == "ok"
}

/// Leaves the session and the group, forks twice, closes everything, and counts for a minute.
const ESCAPE: &str = r#"
import time
def answer(text):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 64)
            for count in range(3000):
                with open(os.path.expanduser("~/new"), "w") as file:
                    file.write(str(count))
                os.rename(os.path.expanduser("~/new"), os.path.expanduser("~/beat"))
                time.sleep(0.02)
        os._exit(0)
    while not os.path.exists(os.path.expanduser("~/beat")):
        time.sleep(0.01)
    return "escaped"
"#;

fn goes_on(beat: &Path) -> bool {
    let before = std::fs::read(beat).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    std::fs::read(beat).unwrap() != before
}

#[test]
fn nothing_outlives_a_restart_or_the_daemon() {
    let mut host = Host::new();
    if !possible(&host) {
        return;
    }
    let program = host.path("agent.py");
    std::fs::write(&program, format!("{PROTOCOL}\n{ESCAPE}\nmain()\n")).unwrap();
    let agent = format!("provider = \"command\"\ncommand = [\"python3\", {:?}]", program.display());
    host.apply(&crate::host::with_chat(&agent));
    host.start();
    let beat = host.data().join("homes/main/beat");
    host.inject("1", "go");
    host.wait_said(1);
    assert!(goes_on(&beat));
    host.done(&["agents", "restart", "main"], b"");
    wait_for("what escaped to end with its agent", || (!goes_on(&beat)).then_some(()));
    std::fs::remove_file(&beat).unwrap();
    host.inject("2", "go");
    host.wait_said(2);
    assert!(goes_on(&beat));
    host.kill();
    wait_for("what escaped to end with the daemon", || (!goes_on(&beat)).then_some(()));
}

#[test]
fn an_agent_of_root_is_another_user() {
    if !rustix::process::geteuid().is_root() || !possible(&Host::new()) {
        return;
    }
    let setup = Setup::new();
    let program = r#"
def answer(data):
    open(os.path.expanduser("~/made"), "w").write("here")
    open("made", "w").write("here")
    groups, status = os.getgroups(), open("/proc/self/status").read().split()
    caps = [status[status.index(name) + 1] for name in ("CapPrm:", "CapEff:", "CapInh:", "CapAmb:")]
    return json.dumps([os.getresuid(), os.getresgid(), groups, sorted(set(caps)), tried(os.setuid, 0)])
"#;
    let answer: Value = serde_json::from_str(setup.ask("trust = \"main\"", program, "who?").trim()).unwrap();
    let thousand = serde_json::json!([1000, 1000, 1000]);
    assert_eq!((&answer[0], &answer[1]), (&thousand, &thousand));
    assert_eq!(answer[3], serde_json::json!(["0000000000000000"]));
    // This machine may have no such user.
    let setuid = answer[4].as_str().unwrap();
    assert!(setuid == "forbidden" || setuid.contains("Invalid argument"), "{setuid}");
    for made in ["data/homes/py/made", "data/groups/py/made"] {
        assert_eq!(std::fs::metadata(setup.path(made)).unwrap().uid(), 1000, "{made}");
    }
    assert_eq!(std::fs::metadata(setup.path("data/store")).unwrap().uid(), 0);
}

#[test]
fn a_network_of_its_own_has_nothing_in_it() {
    if !possible(&Host::new()) {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let program = r#"
def connect(*address):
    with socket.create_connection(address, 3):
        pass
def answer(port):
    own = socket.create_server(("127.0.0.1", 0))
    connect(*own.getsockname())
    return " ".join("DONE" if tried(connect, *to) == "DONE" else "no" for to in [("127.0.0.1", int(port)), ("192.0.2.1", 9)])
"#;
    for (network, expected) in [("none", "no no"), ("open", "DONE no")] {
        let settings = format!("network = \"{network}\"");
        assert_eq!(Setup::new().ask(&settings, program, &port).trim(), expected, "{network}");
    }
}

/// Name, required program, and command.
const PROGRAMS: [(&str, &str, &str); 14] = [
    ("jobs of a shell", "bash", "sleep 0.05 & wait; echo ok"),
    ("compiler", "cc", "echo 'int main(void){return 0;}' > a.c && cc a.c -o a.out && ./a.out && echo ok"),
    (
        "git",
        "git",
        "git init -q g && cd g && echo x > a && git add a && git -c user.name=a -c user.email=a@b commit -qm a && git log --oneline | wc -l",
    ),
    (
        "processes of Python",
        "python3",
        "cat > pool.py <<'X'\nimport multiprocessing as m\ndef f(x): return x * x\nif __name__ == '__main__':\n  with m.Pool(2) as p: print(p.map(f, [1, 2]))\n  print(m.Manager().list([1]))\nX\npython3 pool.py",
    ),
    (
        "database",
        "python3",
        "python3 -c \"import sqlite3; c = sqlite3.connect('x.db'); c.execute('pragma journal_mode=wal'); c.execute('create table t(a)'); c.commit(); print('ok')\"",
    ),
    ("pip", "pip", "pip --version"),
    ("virtual environment", "python3", "python3 -m venv --without-pip v && v/bin/python -c 'print(1)'"),
    ("node", "node", "node -e \"require('child_process').exec('echo ok', (e, o) => console.log(e || o))\""),
    (
        "workers of node",
        "node",
        "node -e \"const w = require('worker_threads'); if (w.isMainThread) new w.Worker('console.log(1)', { eval: true })\"",
    ),
    ("npm", "npm", "mkdir -p n && cd n && npm init -y > /dev/null && npm ls && echo ok"),
    ("temporary files", "mktemp", "mktemp && echo ok"),
    ("keys", "ssh-keygen", "ssh-keygen -q -t ed25519 -N '' -f k && echo ok"),
    ("certificates", "openssl", "openssl genrsa -out x.pem 2048 && echo ok"),
    (
        "who it is",
        "id",
        "id -un && nice -n 1 true && ulimit -n 100 && timeout 5 true && tar cf m.tar /etc/hosts && echo ok",
    ),
];

#[test]
fn programs_work_in_a_mount_view() {
    if !possible(&Host::new()) {
        return;
    }
    let program = r#"
def answer(commands):
    os.makedirs("work", exist_ok=True)
    os.chdir("work")
    results = {}
    for name, command in json.loads(commands):
        run = subprocess.run(["bash", "-ec", command], capture_output=True, text=True)
        results[name] = [run.returncode, run.stdout[-300:] + run.stderr[-300:]]
    return json.dumps(results)
"#;
    let there = |program: &str| {
        std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|directory| directory.join(program).is_file())
    };
    let (present, absent): (Vec<_>, Vec<_>) = PROGRAMS.iter().partition(|(_, program, _)| there(program));
    absent.iter().for_each(|(name, program, _)| skipped(format_args!("{name}: there is no {program}")));
    let commands: Vec<(&str, &str)> = present.iter().map(|(name, _, command)| (*name, *command)).collect();
    let answer = Setup::new().ask("trust = \"main\"", program, &serde_json::to_string(&commands).unwrap());
    let results: Value = serde_json::from_str(answer.trim()).unwrap();
    let failed: Vec<_> = results.as_object().unwrap().iter().filter(|(_, result)| result[0] != 0).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(results.as_object().unwrap().len(), present.len());
}
