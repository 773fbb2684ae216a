//! Networks with rules, and bound secrets, of agents in containers.

use super::setup::Setup;
use crate::host::confined::PROTOCOL;
use crate::host::echo_host::{EchoHost, OTHER, VALUE};

/// Runs the commands in a file, and says what came of each in another one: chats would change the text.
const AGENT: &str = r#"
def answer(text):
    told = []
    for command in json.load(open("/workspace/group/commands")):
        ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
        told.append(ended.stdout[-900:] + (" | " + ended.stderr[-300:] if ended.returncode else ""))
    with open("/workspace/group/told", "w") as file:
        json.dump(told, file)
    return "all tried"
"#;

/// Has the agent run commands, and returns what came of each.
fn tried(setup: &mut Setup, id: i64, commands: &[String]) -> Vec<String> {
    std::fs::write(setup.group("commands"), serde_json::to_string(commands).unwrap()).unwrap();
    let before = setup.shown().len();
    setup.types(id, "go");
    setup.wait("an answer", || (setup.shown().len() > before).then_some(()));
    let told = std::fs::read_to_string(setup.group("told"));
    serde_json::from_str(&told.unwrap_or_else(|error| panic!("{error}: {:?}", setup.shown()))).unwrap()
}

/// An agent with this network that uses two secrets, one of them for the host.
fn configure(setup: &Setup, network: &str, host: &EchoHost) {
    for (name, value) in [("token", VALUE), ("other", OTHER)] {
        std::fs::write(setup.host.path(name), format!("{value}\n")).unwrap();
    }
    let (token, other) = (setup.host.path("token"), setup.host.path("other"));
    setup.host.apply(&format!(
        "schema = 1\n[secrets.here]\nvalue = \"file:{}\"\nhosts = [\"this-machine.internal:{port}\"]\nrequests = [\"* /open/**\"]\n\
         [secrets.elsewhere]\nvalue = \"file:{}\"\nhosts = [\"elsewhere.example\"]\n\
         [[agents]]\nfolder = \"main\"\ntrust = \"trusted\"\nprovider = \"command\"\n\
         command = [\"python3\", \"/workspace/group/agent.py\"]\nnetwork = \"{network}\"\n\
         secrets = {{ TOKEN = \"here\", OTHER = \"elsewhere\" }}\n",
        token.display(),
        other.display(),
        port = host.port,
    ));
    std::fs::create_dir_all(setup.group("")).unwrap();
    std::fs::write(setup.group("agent.py"), format!("{PROTOCOL}\n{AGENT}\nmain()\n")).unwrap();
}

#[test]
fn an_agent_in_a_container_uses_a_secret_and_reaches_only_what_it_may() {
    let Some(mut setup) = Setup::new("provider = \"echo\"") else { return };
    let files = setup.host.path("server");
    std::fs::create_dir(&files).unwrap();
    let host = EchoHost::start(&files);
    setup.host.env.push(("HEARTH_TEST_ROOTS".to_owned(), files.join("roots.pem").display().to_string()));
    configure(&setup, "listed", &host);
    setup.host.start();
    let at = format!("https://this-machine.internal:{}", host.port);
    let python = |rest: &str| format!("python3 -c 'import os,socket,urllib.request as r; {rest}' 2>&1; true");
    let asks = |to: &str, header: &str| {
        python(&format!(
            "q=r.Request(\"{to}\",headers={{\"Authorization\":{header}}}); print(r.urlopen(q).headers[\"X-Good\"])"
        ))
    };
    let commands = [
        ("echo $TOKEN $OTHER".to_owned(), "hearth-here-"),
        (asks(&format!("{at}/open/a"), "\"Bearer \"+os.environ[\"TOKEN\"]"), "True"),
        (asks(&format!("{at}/closed"), "\"Bearer \"+os.environ[\"TOKEN\"]"), "403"),
        (asks(&format!("{at}/open/a"), "\"Bearer foreign\""), "403"),
        (format!("curl -sSi -H \"Authorization: Bearer $TOKEN\" {at}/open/a"), "Bearer ****"),
        ("curl -sS -o /dev/null -w '%{http_code}' http://other.example/".to_owned(), "403"),
        (python("socket.create_connection((\"192.0.2.1\",443),5)"), "unreachable"),
        (
            python("print(socket.socket(socket.AF_INET,socket.SOCK_DGRAM).sendto(b\"x\",(\"192.0.2.1\",53)))"),
            "unreachable",
        ),
        ("cat /proc/net/dev | grep -c :".to_owned(), "1"),
        ("cat /etc/resolv.conf".to_owned(), "127.0.0.1"),
    ];
    let words: Vec<String> = commands.iter().map(|(command, _)| command.clone()).collect();
    let said = tried(&mut setup, 1, &words);
    for ((command, expected), says) in commands.iter().zip(&said) {
        assert!(says.contains(expected), "{command}: {says}; all: {said:#?}");
        assert!([VALUE, OTHER, "[secret"].iter().all(|text| !says.contains(text)), "{command}: {says}");
    }
    let inspected = setup.podman(&["inspect", &setup.container()]);
    assert!(inspected.contains("\"none\"") && !inspected.contains(VALUE) && !inspected.contains(OTHER), "{inspected}");

    // The container goes on without a daemon, and is known to the next one.
    let container = setup.container();
    setup.host.kill();
    setup.host.start();
    let said = tried(&mut setup, 2, &words[1..4]);
    for ((command, expected), says) in commands[1..4].iter().zip(&said) {
        assert!(says.contains(expected), "{command}: {says}");
    }
    assert_eq!(setup.container(), container, "it went on");
    setup.settle();
    setup.stop();
}

/// Makes the same request by name and by the proxy at once, and says what came of each. Later turns do nothing.
const WAITING: &str = r#"
def answer(text):
    if not os.path.exists("/workspace/group/told"):
        by_proxy = ["curl", "-s", "--max-time", "100", "http://asked.example/"]
        by_name = ["env", "-u", "http_proxy", "-u", "HTTP_PROXY"] + by_proxy
        both = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for words in (by_proxy, by_name)]
        told = [one.communicate()[0] for one in both]
        with open("/workspace/group/told.new", "w") as file:
            json.dump(told, file)
        os.rename("/workspace/group/told.new", "/workspace/group/told")
    return "all tried"
"#;

/// The daemon dies while connections wait for a person. One by name waits for the next daemon and its answer; a request
/// to the proxy ends with a reason. The person is asked once.
#[test]
fn connections_that_wait_for_a_person_survive_the_daemon_or_end_with_a_reason() {
    let Some(mut setup) = Setup::new("provider = \"echo\"") else { return };
    setup.host.apply(
        "schema = 1\n[[agents]]\nfolder = \"main\"\ntrust = \"trusted\"\nprovider = \"command\"\n\
         command = [\"python3\", \"/workspace/group/agent.py\"]\nnetwork = \"ask\"\n",
    );
    std::fs::create_dir_all(setup.group("")).unwrap();
    std::fs::write(setup.group("agent.py"), format!("{PROTOCOL}\n{WAITING}\nmain()\n")).unwrap();
    setup.host.start();
    setup.types(1, "go");
    let open = |setup: &Setup| setup.host.done(&["approvals", "list", "--json"], b"").contains("\"ap1\"");
    setup.wait("the question", || open(&setup).then_some(()));
    // The other connection comes a moment later.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let container = setup.container();
    setup.host.kill();
    std::thread::sleep(std::time::Duration::from_secs(1));
    setup.host.start();
    assert!(open(&setup), "the question stays");
    setup.host.done(&["approvals", "approve", "ap1"], b"");
    setup.wait_shown("all tried");
    setup.settle();
    let told: Vec<String> = serde_json::from_slice(&std::fs::read(setup.group("told")).unwrap()).unwrap();
    assert!(told[0].starts_with("No answer came: Hearth was stopped"), "{told:#?}");
    assert!(told[1].starts_with("Hearth cannot reach asked.example:80"), "{told:#?}");
    assert_eq!((setup.host.rows("approvals").len(), setup.container()), (1, container));
    setup.stop();
}
