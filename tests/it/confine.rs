//! Confined agents: the real program, a data directory, agents in Python that try to escape. Skipped with a message
//! where the kernel cannot confine.

#![expect(clippy::disallowed_methods, reason = "tests start the program and wait for it")]

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::host::confined::{Setup, possible};
use crate::host::fake_api::FakeApi;
use crate::host::skipped;

#[test]
fn an_agent_of_ones_own_cannot_get_out() {
    if !possible() {
        return;
    }
    let setup = Setup::new();
    let program = r#"
def answer(data):
    token, user = data + "/run/token", os.path.dirname(data) + "/user"
    parent = "/proc/%d" % os.getppid()
    daemon = [line.split()[1] for line in open(parent + "/status") if line.startswith("PPid")][0]
    def mount(kind):
        shell = "cp %s . 2>&1" % token
        if kind == "bind":
            shell = "mkdir -p m && mount --bind %s m && cat m/token" % (data + "/run")
        return subprocess.run(["unshare", "-rm", "sh", "-c", shell], capture_output=True).returncode
    def child(path):
        program = "import sys\ntry: open(%r)\nexcept OSError as error: sys.exit(error.errno)" % path
        return subprocess.run([sys.executable, "-c", program], capture_output=True).returncode
    def rename():
        os.rename(data + "/sessions", data + "/groups/py/sessions")
    def by_descriptor():
        root = os.open("/", os.O_PATH)
        os.open(token[1:], os.O_RDONLY, dir_fd=root)
    def gone():
        os.symlink(user, "user")
        os.listdir("user")
    results = {
        "token": tried(open, token), "store": tried(os.listdir, data + "/store"), "key": tried(open, user + "/key"),
        "home": tried(os.listdir, user), "homes": tried(os.listdir, data + "/homes"), "above": tried(os.listdir, ".."),
        "truncate": tried(os.truncate, data + "/store/data.mdb", 0), "unlink": tried(os.unlink, token),
        "link": tried(gone), "hard link": tried(os.link, user + "/key", "key"), "rename": tried(rename),
        "descriptor": tried(by_descriptor), "lock": tried(open, "/proc/self/fd/4"),
        "environ": tried(lambda: open("/proc/" + daemon + "/environ").read()),
        "memory": tried(open, "/proc/" + daemon + "/mem"), "root": tried(open, "/proc/" + daemon + "/root" + token),
        "cwd": tried(os.listdir, "/proc/" + daemon + "/cwd"), "signal": tried(os.kill, int(daemon), 0),
        "device": tried(os.mknod, "disk", 0o060600, os.makedev(8, 0)), "child": "forbidden" if child(token) in (2, 13) else "DONE",
        "mount": "forbidden" if mount("bind") and mount("copy") else "DONE",
        "tmp": tried(os.listdir, "/tmp"), "host": tried(open, data + "/sessions/se1/host/context.json", "a"),
    }
    return json.dumps({name: result for name, result in results.items() if result != "forbidden"})
"#;
    let data = setup.path("data");
    let answer = setup.ask("trust = \"main\"", program, data.to_str().unwrap());
    assert_eq!(answer.trim(), "{}");
    assert!(setup.path("data/run/token").exists());
}

/// The real command line program of the claude provider, if it is installed.
fn claude() -> Option<PathBuf> {
    let installed = "target/agent-cli/node_modules/@anthropic-ai/claude-code-linux-x64/claude";
    let binary = Path::new(env!("CARGO_MANIFEST_DIR")).join(installed);
    let binary = std::env::var_os("HEARTH_TEST_CLAUDE").map_or(binary, PathBuf::from);
    if !binary.exists() {
        skipped(format_args!("no agent CLI at {}; .ci/agent-cli.sh installs it", binary.display()));
    }
    binary.exists().then_some(binary)
}

#[test]
fn the_real_cli_works_confined() {
    let (true, Some(binary)) = (possible(), claude()) else { return };
    for (trust, may_write) in [("main", true), ("untrusted", false)] {
        let (setup, api) = (Setup::new(), FakeApi::start());
        let toml = format!(
            "schema = 1\n[[agents]]\nfolder = \"ai\"\nprovider = \"claude\"\ntrust = \"{trust}\"\ncommand = [\"{}\"]\n\
             env = {{ ANTHROPIC_BASE_URL = \"{}\", ANTHROPIC_API_KEY = \"sk-ant-test\", CLAUDE_CODE_MAX_RETRIES = \"1\" }}\n",
            binary.display(),
            api.url()
        );
        std::fs::write(setup.path("hearth.toml"), toml).unwrap();
        assert!(setup.hearth(&["apply", setup.path("hearth.toml").to_str().unwrap()]).status.success());
        let script = format!(
            "exec > ~/made; python3 -c 'print(6*7)'; mktemp; echo $HOME; cat {} || echo forbidden; touch here && echo wrote",
            setup.path("user/key").display()
        );
        let output = setup.hearth(&["chat", &format!("[[tool Bash {{\"command\":\"{script}\"}}]] [[say done]]")]);
        let shown = String::from_utf8_lossy(&output.stdout);
        assert_eq!(shown.trim(), "done", "{}", String::from_utf8_lossy(&output.stderr));
        let home = setup.path("data/homes/ai");
        let made = std::fs::read_to_string(home.join("made")).unwrap();
        let lines: Vec<&str> = made.lines().collect();
        assert!(lines.len() >= 4 && lines[0] == "42" && lines[3] == "forbidden", "{made}");
        assert!(Path::new(lines[1]).starts_with(home.join("tmp/se1")), "{made}");
        assert_eq!(Path::new(lines[2]), home);
        assert_eq!(lines.get(4).is_some(), may_write, "{trust}: {made}");
        assert_eq!(setup.path("data/groups/ai/here").exists(), may_write);
    }
}

#[test]
fn an_agent_of_ones_own_can_work() {
    if !possible() {
        return;
    }
    let setup = Setup::new();
    let program = r#"
def answer(data):
    open("made", "w").write("here")
    open(os.path.expanduser("~/made"), "w").write("here")
    with tempfile.NamedTemporaryFile() as file:
        place = file.name
    shell = subprocess.run("echo out > shell && cat shell && ls /usr/bin > /dev/null", shell=True, capture_output=True)
    address = socket.getaddrinfo("localhost", 80)[0][0].name
    return json.dumps([place, shell.stdout.decode(), shell.returncode, os.environ["HOME"], "SECRET" in os.environ])
"#;
    let answer = setup.ask("trust = \"trusted\"", program, "work");
    let home = setup.path("data/homes/py");
    let answer: Value = serde_json::from_str(answer.trim()).unwrap();
    assert!(Path::new(answer[0].as_str().unwrap()).starts_with(home.join("tmp/se1")), "{answer}");
    assert_eq!((&answer[1], &answer[2], &answer[3]), (&"out\n".into(), &0.into(), &home.to_str().unwrap().into()));
    assert_eq!(answer[4], false);
    assert!(home.join("made").exists() && setup.path("data/groups/py/made").exists());
}

#[test]
fn trust_and_the_operators_word_decide_how_much() {
    if !possible() {
        return;
    }
    let program = r#"
def answer(data):
    made, home = tried(open, "made", "w"), tried(open, os.path.expanduser("~/made"), "w")
    return " ".join([made, home, tried(open, os.path.dirname(data) + "/user/key")])
"#;
    for (settings, expected, shown) in [
        ("trust = \"untrusted\"", "forbidden DONE forbidden", "confined"),
        ("trust = \"trusted\"", "DONE DONE forbidden", "confined"),
        ("unconfined = true", "DONE DONE DONE", "unconfined"),
    ] {
        let setup = Setup::new();
        let data = setup.path("data");
        assert_eq!(setup.ask(settings, program, data.to_str().unwrap()).trim(), expected, "{settings}");
        let status: Value = serde_json::from_slice(&setup.hearth(&["status", "--json"]).stdout).unwrap();
        assert_eq!(status["agents"][0]["confinement"], shown, "{settings}");
    }
}
