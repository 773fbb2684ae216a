//! Secrets that are bound to hosts, through the real program: a confined agent uses them and does not have them. Skipped
//! where agents get no network of their own.

mod versions;

use std::process::Command;

use crate::host::confined::{Setup, possible};
use crate::host::echo_host::{EchoHost, OTHER, VALUE};
use crate::host::skipped;

/// Runs the commands that it is given, and says what came of each.
const AGENT: &str = r#"
def answer(text):
    told = []
    for command in json.loads(text):
        ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
        told.append(ended.stdout[-600:] + (" | " + ended.stderr[-300:] if ended.returncode else ""))
    return json.dumps(told)
"#;

fn said(setup: &Setup, commands: &[String]) -> Vec<String> {
    let asked = serde_json::to_string(commands).unwrap();
    let output = setup.hearth(&["chat", "--agent", "py", &asked]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A data directory with an agent that uses two secrets, one of them for the host.
fn furnished(setup: &Setup, host: &EchoHost) {
    for (name, value) in [("token", VALUE), ("other", OTHER)] {
        std::fs::write(setup.path("user").join(name), format!("{value}\n")).unwrap();
    }
    let (token, other) = (setup.path("user/token"), setup.path("user/other"));
    let settings = format!(
        "network = \"listed\"\nsecrets = {{ TOKEN = \"here\", OTHER = \"elsewhere\" }}\n\
         [secrets.here]\nvalue = \"file:{}\"\nhosts = [\"this-machine.internal:{}\"]\n\
         requests = [\"* /open/**\", \"GET /moved\"]\n\
         [secrets.elsewhere]\nvalue = \"file:{}\"\nhosts = [\"elsewhere.example\"]",
        token.display(),
        host.port,
        other.display()
    );
    setup.make(&settings, AGENT);
}

#[test]
fn an_agent_uses_a_secret_and_does_not_have_it() {
    let setup = Setup::new();
    if !possible() {
        return;
    }
    if String::from_utf8_lossy(&setup.hearth(&["doctor", "--offline"]).stdout).contains("install bubblewrap") {
        return skipped("there is no bubblewrap that works");
    }
    let host = EchoHost::start(&setup.path("user"));
    furnished(&setup, &host);
    let at = format!("https://this-machine.internal:{}", host.port);
    let auth = "-H \"Authorization: Bearer $TOKEN\"";
    let value = format!("$(printf %s%s {} {})", &VALUE[..9], &VALUE[9..]);
    let other = format!("$(printf %s%s {} {})", &OTHER[..9], &OTHER[9..]);
    let commands: Vec<(String, &str)> = vec![
        ("echo $TOKEN $OTHER; env | grep -c CA_BUNDLE".to_owned(), "hearth-here-"),
        (format!("curl -sSi {auth} {at}/open/a"), "x-good: True"),
        (
            format!(
                "python3 -c 'import os,urllib.request as r; q=r.Request(\"{at}/open/b\",headers={{\"Authorization\":\"Bearer \"+os.environ[\"TOKEN\"]}}); print(r.urlopen(q).headers[\"X-Good\"])'"
            ),
            "True",
        ),
        (
            format!("git -c http.extraHeader=\"Authorization: Bearer $TOKEN\" ls-remote {at}/open/repo 2>&1; true"),
            "not valid",
        ),
        (
            format!(
                "node -e 'fetch(\"{at}/open/c\",{{headers:{{authorization:\"Bearer \"+process.env.TOKEN}}}}).then(r=>console.log(r.headers.get(\"x-good\")))'"
            ),
            "True",
        ),
        (format!("curl -sSi {auth} {at}/moved"), "302"),
        (format!("curl -sS -H 'Authorization: Bearer foreign' {at}/open/a"), "does not have the placeholder"),
        (format!("curl -sS -H \"Authorization: Bearer $OTHER\" {at}/open/a"), "does not have the placeholder"),
        (format!("curl -sS {auth} -H 'X-Api-Key: foreign' {at}/open/a"), "`x-api-key` carries a credential"),
        (format!("curl -sS {auth} {at}/closed"), "allow only"),
        (format!("curl -sS --path-as-is {auth} {at}/open/../closed"), "mean something else"),
        (format!("curl -sS {auth} -d \"t={value}\" {at}/open/a"), "the body of this request has the value of here"),
        (
            format!("curl -sS {auth} \"{at}/open/a?t={other}\""),
            "the address of this request has the value of elsewhere",
        ),
        (
            format!("curl -sS {auth} -H \"X-Note: $(printf %s {other} | base64)\" {at}/open/a"),
            "has the value of elsewhere",
        ),
        ("cat /etc/ssl/certs/ca-certificates.crt | grep -c BEGIN".to_owned(), ""),
        ("ls $HOME/../../run 2>&1; true".to_owned(), ""),
    ];
    let words: Vec<String> = commands.iter().map(|(command, _)| command.clone()).collect();
    let said = said(&setup, &words);
    for ((command, expected), says) in commands.iter().zip(&said) {
        assert!(says.contains(expected), "{command}: {says}");
        let hidden = [VALUE, OTHER, "[secret"].iter().all(|text| !says.contains(text));
        assert!(hidden, "{command}: {says}");
    }
    assert!(said[1].contains("Bearer ****"), "the host repeated it: {}", said[1]);
    assert!(said[5].contains("location: https://elsewhere.example/Bearer ****"), "{}", said[5]);
    let shown = setup.hearth(&["net", "--json"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("this-machine.internal") && !shown.contains(VALUE) && !shown.contains(OTHER), "{shown}");
    nothing_is_stored(&setup);
}

/// Speaks WebSocket to the first argument with the placeholder, and sends the others as messages.
const SOCKET: &str = r#"
import asyncio, os, sys
import websockets
async def talk():
    header = {"Authorization": "Bearer " + os.environ["TOKEN"]}
    async with websockets.connect(sys.argv[1], extra_headers=header, open_timeout=20) as socket:
        for message in sys.argv[2:]:
            await socket.send(message)
            print(await asyncio.wait_for(socket.recv(), 20))
asyncio.run(talk())
"#;

#[test]
fn base_urls_and_websockets_carry_a_secret() {
    let setup = Setup::new();
    if !possible() {
        return;
    }
    if String::from_utf8_lossy(&setup.hearth(&["doctor", "--offline"]).stdout).contains("install bubblewrap") {
        return skipped("there is no bubblewrap that works");
    }
    if !Command::new("/usr/bin/python3").args(["-c", "import websockets"]).output().unwrap().status.success() {
        return skipped("there is no websockets for Python; `.ci/run` installs it");
    }
    let (host, other) = (EchoHost::start(&setup.path("user")), EchoHost::start(&setup.path("user")));
    std::fs::write(setup.path("user/token"), VALUE).unwrap();
    let (token, port, by_url) = (setup.path("user/token"), host.port, other.port);
    let settings = format!(
        "network = \"listed\"\nsecrets = {{ TOKEN = \"here\", API_URL = \"plain.url\", PLAIN = \"plain\" }}\n\
         [secrets.here]\nvalue = \"file:{token}\"\nhosts = [\"this-machine.internal:{port}\"]\n\
         requests = [\"* /open/**\", \"WEBSOCKET /live/*\"]\n\
         [secrets.plain]\nvalue = \"file:{token}\"\nhosts = [\"this-machine.internal:{by_url}\"]\n\
         requests = [\"* /open/**\", \"WEBSOCKET /live/*\"]",
        token = token.display(),
    );
    setup.make(&settings, AGENT);
    std::fs::write(setup.path("data/groups/py/talk.py"), SOCKET).unwrap();
    let at = format!("this-machine.internal:{port}");
    let script = setup.path("data/groups/py/talk.py").display().to_string();
    let socket = |path: &str, words: &str| format!("/usr/bin/python3 {script} wss://{at}{path} {words} 2>&1; true");
    let value = format!("$(printf %s%s {} {})", &VALUE[..9], &VALUE[9..]);
    let auth = "-H \"Authorization: Bearer $TOKEN\"";
    let plain = "-H \"Authorization: Bearer $PLAIN\"";
    let asked: Vec<(String, &str)> = vec![
        (socket("/live/a", "one two"), "two for Bearer ****"),
        (socket("/open/a", "one"), "403"),
        (socket("/live/a", &format!("\"a {value}\"")), "a message of this request has the value of"),
        // HTTP/2 is not offered on opened hosts, and not insisted on.
        (
            format!("curl -sS --http2 -o /dev/null -w '%{{http_code}} %{{http_version}}' {auth} https://{at}/open/a"),
            "200 1.1",
        ),
        ("echo $API_URL".to_owned(), "http://127.0.0.1:3128/plain"),
        (format!("curl -sS {plain} $API_URL/open/b?c=d"), "GET /open/b?c=d Bearer ****"),
        (format!("curl -sSi {plain} $API_URL/open/b"), "x-good: True"),
        (format!("curl -sS {plain} $API_URL/closed"), "allow only"),
        (
            format!("TOKEN=$PLAIN /usr/bin/python3 {script} ws://127.0.0.1:3128/plain/live/a one 2>&1; true"),
            "one for Bearer ****",
        ),
        ("curl -sS -H 'Authorization: Bearer foreign' $API_URL/open/b".to_owned(), "does not have the placeholder"),
        ("curl -sS http://127.0.0.1:3128/here/open/b".to_owned(), "no secret with a base URL"),
        (format!("curl -sS -o /dev/null -w '%{{http_connect}}' https://this-machine.internal:{by_url}/"), "403"),
    ];
    let words: Vec<String> = asked.iter().map(|(command, _)| command.clone()).collect();
    for ((command, expected), says) in asked.iter().zip(said(&setup, &words)) {
        assert!(says.contains(expected), "{command}: {says}");
        assert!(!says.contains(VALUE) && !says.contains("[secret"), "{command}: {says}");
    }
    nothing_is_stored(&setup);
}

/// No file of the installation has a value.
fn nothing_is_stored(setup: &Setup) {
    let found =
        Command::new("grep").args(["-rlaE", &format!("{VALUE}|{OTHER}")]).arg(setup.path("data")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    let mode = std::os::unix::fs::MetadataExt::mode(&setup.path("data/run/authority/key").metadata().unwrap());
    assert_eq!(mode & 0o777, 0o600);
}
