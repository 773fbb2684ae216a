//! Bridges: the kit that tests them, with the example of docs/bridges.md and with bridges that break the contract.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::host::beside::failing;
use crate::host::bridge_programs::{self, kill, kit, kit_within, program};
use crate::host::chaos::{Chaos, settled, words};
use crate::host::discord::Discord;
use crate::host::documents::generated;
use crate::host::mail::Mail;
use crate::host::matrix::Matrix;
use crate::host::signal::Signal;
use crate::host::slack::Slack;
use crate::host::webhook::Webhook;
use crate::host::whatsapp::WhatsApp;
use crate::host::{Host, skipped, telegram, wait_for};
use crate::world::directory;

const BRIDGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chat_bridge.py");
const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chat_server.py");

/// A chat server with an installation beside it.
pub(crate) struct Net {
    pub(crate) host: Host,
    server: Child,
    port: PathBuf,
    directory: tempfile::TempDir,
}

impl Net {
    pub(crate) fn start() -> Self {
        let mut host = Host::new();
        let directory = directory();
        let port = directory.path().join("port");
        host.env.push(("CHAT_PORT".to_owned(), port.display().to_string()));
        let mut command = host.bare("python3");
        command.arg(SERVER).arg("serve").arg(&port).stdin(Stdio::null());
        let server = command.spawn().unwrap();
        let net = Self { host, server, port, directory };
        wait_for("the chat server", || net.port.exists().then_some(()));
        net
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", std::fs::read_to_string(&self.port).unwrap())
    }

    /// Runs the kit.
    fn test(&self, bridge: &Path, only: &str) -> Value {
        let settings = format!("{{\"server\": \"{}\"}}", self.address());
        let bridge = bridge.display().to_string();
        let words = ["--network", SERVER, "--settings", &settings, "--only", only, "--chat", "room"];
        // A broken bridge keeps the kit waiting for all of that time.
        let seconds = if only.is_empty() { "60" } else { "5" };
        kit_within(&self.host, seconds, &words, &["python3", &bridge])
    }

    /// The example with a change.
    fn changed(&self, name: &str, from: &str, to: &str) -> PathBuf {
        let text = std::fs::read_to_string(BRIDGE).unwrap();
        assert!(text.contains(from), "the example has no {from:?}");
        let path = self.directory.path().join(name);
        std::fs::write(&path, text.replace(from, to)).unwrap();
        // Another user runs it if this one is root.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.directory.path(), mode).unwrap();
        path
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

/// The cells of a column: whether a case passed, or the reason why it does not apply.
fn column(found: &Value) -> Vec<Result<(), String>> {
    let cell = |case: &Value| match case["result"].as_str() {
        Some("passed") => Ok(()),
        _ => Err(case["detail"].as_str().unwrap_or_default().to_owned()),
    };
    found["cases"].as_array().unwrap().iter().map(cell).collect()
}

/// The table of all columns, with its reasons below it.
fn table(columns: &[(&str, &Value)]) -> String {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let mut table =
        format!("| | case | what it checks | {} |\n|---|---|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    let cells: Vec<_> = columns.iter().map(|(_, found)| column(found)).collect();
    let mut notes: Vec<&str> = Vec::new();
    for (at, case) in columns[0].1["cases"].as_array().unwrap().iter().enumerate() {
        let [name, checks] = ["case", "checks"].map(|key| case[key].as_str().unwrap());
        let number = case["number"].as_u64().map(|number| number.to_string()).unwrap_or_default();
        table.push_str(&format!("| {number} | `{name}` | {checks} |"));
        for cells in &cells {
            match &cells[at] {
                Ok(()) => table.push_str(" passed |"),
                Err(why) => {
                    let known = notes.iter().position(|note| note == why);
                    let number = known.unwrap_or_else(|| {
                        notes.push(why);
                        notes.len() - 1
                    });
                    table.push_str(&format!(" – [{}] |", number + 1));
                }
            }
        }
        table.push('\n');
    }
    table.push('\n');
    for (number, note) in notes.iter().enumerate() {
        table.push_str(&format!("* [{}]: {note}\n", number + 1));
    }
    table
}

/// One of each kind: with a real server, with a stand-in for the network, and a part of the daemon.
#[test]
fn a_bridge_of_each_kind_passes_every_case() {
    let mail = std::thread::spawn(|| Mail::start().map(|mail| mail.test()));
    let telegram = std::thread::spawn(telegram::test);
    let discord = Discord::start().test();
    let (mail, telegram) = (mail.join().unwrap(), telegram.join().unwrap());
    let columns =
        mail.iter().map(|found| ("`hearth-mail`", found)).chain([("Discord", &discord), ("Telegram", &telegram)]);
    let failed: String = columns.map(|(name, found)| failures(name, found)).collect();
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn the_bridges_that_are_here_pass_every_case() {
    let mail = std::thread::spawn(|| Mail::start().map(|mail| mail.test()));
    let matrix = std::thread::spawn(|| Matrix::start().map(|matrix| matrix.test()));
    let discord = std::thread::spawn(|| Discord::start().test());
    let slack = std::thread::spawn(|| Slack::start().test(&program("networks")));
    let signal = std::thread::spawn(|| Signal::start().test(&program("networks")));
    let whatsapp = std::thread::spawn(|| WhatsApp::start().test(&program("networks")));
    let webhook = std::thread::spawn(|| Webhook::start().test());
    let telegram = std::thread::spawn(telegram::test);
    let page = include_str!("../../docs/bridges.md");
    let example = include_str!("../chat_bridge.py");
    assert!(page.contains(example), "docs/bridges.md has another bridge than tests/chat_bridge.py");
    // Both wait most of the time.
    let (example, mqtt) = std::thread::scope(|scope| {
        let mqtt = scope.spawn(|| Broker::start().map(|broker| broker.test()));
        (Net::start().test(Path::new(BRIDGE), ""), mqtt.join().unwrap())
    });
    let Some(mqtt) = mqtt else {
        return skipped("there is no mosquitto, so `hearth-mqtt` is not tested");
    };
    let ntfy = Ntfy::start().test();
    let (Some(mail), Some(matrix)) = (mail.join().unwrap(), matrix.join().unwrap()) else { return };
    let [slack, discord, signal, whatsapp] = [slack, discord, signal, whatsapp].map(|thread| thread.join().unwrap());
    let (webhook, telegram) = (webhook.join().unwrap(), telegram.join().unwrap());
    let columns = [
        ("example", &example),
        ("`hearth-mqtt`", &mqtt),
        ("`hearth-mail`", &mail),
        ("`hearth-matrix`", &matrix),
        ("Slack", &slack),
        ("Discord", &discord),
        ("Signal", &signal),
        ("WhatsApp", &whatsapp),
        ("ntfy", &ntfy),
        ("webhook", &webhook),
        ("Telegram", &telegram),
    ];
    columns.iter().for_each(|(name, found)| slow(name, found));
    let failed: String = columns.iter().map(|(name, found)| failures(name, found)).collect();
    assert!(failed.is_empty(), "{failed}");
    generated("docs/channels.md", "bridges: generated by tests/it/bridges.rs", "bridges", &table(&columns));
}

/// Shows the cases that take more than the seconds that they have on a machine with nothing else to do.
fn slow(name: &str, found: &Value) {
    let cases = found["cases"].as_array().unwrap().iter();
    for case in cases.filter(|case| case["seconds"].as_f64().unwrap() > 5.0) {
        eprintln!("{name} {}: {:.1} s", case["case"], case["seconds"].as_f64().unwrap());
    }
}

/// The cases that a bridge does not pass.
fn failures(name: &str, found: &Value) -> String {
    let cases = found["cases"].as_array().unwrap().iter().filter(|case| case["result"] == "failed");
    cases.map(|case| format!("\n{name} {}: {}", case["case"], case["detail"])).collect()
}

const PEOPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mqtt_people.py");

/// A real broker of MQTT with people.
struct Broker {
    host: Host,
    people: Child,
    directory: tempfile::TempDir,
}

impl Broker {
    fn start() -> Option<Self> {
        let mut host = Host::new();
        host.bare("mosquitto").arg("-h").stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?.wait().unwrap();
        let directory = directory();
        let here = directory.path().display().to_string();
        host.env.push(("MQTT_PEOPLE".to_owned(), here.clone()));
        // The programs end with its standard input.
        let people = host.bare("python3").arg(PEOPLE).arg("serve").arg(&here).stdin(Stdio::piped()).spawn().unwrap();
        let broker = Self { host, people, directory };
        wait_for("the broker", || broker.directory.path().join("ready").exists().then_some(()));
        Some(broker)
    }

    fn settings(&self) -> String {
        let port = std::fs::read_to_string(self.directory.path().join("port")).unwrap();
        format!("{{\"server\": \"127.0.0.1:{port}\", \"people\": \"topics\"}}")
    }

    fn test(&self) -> Value {
        let settings = self.settings();
        let words = ["--network", PEOPLE, "--settings", &settings, "--chat", "ann"];
        kit(&self.host, &words, &[program("mqtt").to_str().unwrap()])
    }
}

/// Starts a daemon with the channel `home`, an agent that cannot be started in the chat `123`, and a decision that
/// waits.
fn noticing(host: &mut Host, channel: &str) {
    host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "100".to_owned()));
    let chat = |id: &str, more: &str, agent: &str| {
        format!(
            "[[chats]]\nchannel = \"telegram\"\nplatform_id = \"{id}\"\n{more}\n[[chats.wirings]]\nagent = \"{agent}\"\n\
             engage = \"pattern\"\npattern = \".\"\n"
        )
    };
    host.apply(&format!(
        "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\n[[agents]]\nfolder = \"broken\"\nprovider = \
         \"command\"\ncommand = [\"/no/such/program\"]\n[[users]]\nid = \"terminal:1\"\nroles = [\"owner\"]\n\
         [channels.home]\ntype = \"bridge\"\n{channel}{}{}",
        chat("room", "group = true\nunknown_senders = \"request_approval\"", "main"),
        chat("123", "unknown_senders = \"public\"", "broken"),
    ));
    assert!(host.done(&["export"], b"").contains("notices = \""));
    host.start();
    wait_for("the bridge", || (listed(host)["state"] == "up").then_some(()));
    let mut stranger = crate::host::event("1", "may I?");
    stranger["platformId"] = "room".into();
    host.done(&["inject", "--json"], stranger.to_string().as_bytes());
}

impl Broker {
    /// What people do, and what it shows.
    fn people(&self, words: &[&str]) -> String {
        let done = self.host.bare("python3").arg(PEOPLE).args(words).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// What people were sent.
    fn heard(&self) -> String {
        self.people(&["heard"])
    }
}

/// Starts a daemon with a bridge as the channel `net`, and an agent that echoes in one chat there.
fn echoing(host: &mut Host, bridge: &str, chat: &str) {
    host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "100".to_owned()));
    host.apply(&format!(
        "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\n[channels.net]\ntype = \"bridge\"\n{bridge}\n\
         [[chats]]\nchannel = \"net\"\nplatform_id = \"{chat}\"\nunknown_senders = \"public\"\n[[chats.wirings]]\n\
         agent = \"main\"\nengage = \"pattern\"\npattern = \".\"\n"
    ));
    host.start();
    wait_for("the bridge", || (listed(host)["state"] == "up").then_some(()));
}

/// A copy of a program, so that a test kills no other's. Another user runs it if this one is root.
fn copied(program: &Path, to: &Path) -> PathBuf {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(to, mode).unwrap();
    let copy = to.join(program.file_name().unwrap());
    std::fs::copy(program, &copy).unwrap();
    copy
}

/// The bridge and the daemon are killed and mosquitto is restarted while messages arrive and answers leave. People
/// recognise repeats by their ids, so that everything is there exactly once.
#[test]
fn nothing_is_lost_or_doubled_by_mqtt() {
    let Some(mut broker) = Broker::start() else {
        return skipped("there is no mosquitto, so `hearth-mqtt` is not killed in a conversation");
    };
    let bridge = copied(&program("mqtt"), broker.directory.path());
    let settings = broker.settings().replace("\":", "\" =");
    echoing(&mut broker.host, &format!("command = [\"{}\"]\nsettings = {settings}", bridge.display()), "ann");
    let chaos = Chaos::new(8);
    let heard = |broker: &Broker| broker.heard().lines().map(str::to_owned).collect::<Vec<_>>();
    for (number, burst) in chaos.bursts() {
        broker.people(&[&["say"], &words(burst)[..]].concat());
        std::thread::sleep(Duration::from_millis(37 * (number as u64 % 5)));
        match number % 4 {
            0 => drop(broker.people(&["restart"])),
            1 | 2 => bridge_programs::running(&bridge).into_iter().for_each(kill),
            _ => {
                broker.host.kill();
                broker.host.start();
            }
        }
        chaos.follow(number, || heard(&broker), || broker.host.unfinished());
    }
    chaos.once(|| heard(&broker), || broker.host.unfinished());
    assert_eq!(broker.host.rows("bodies").len(), chaos.texts.len(), "each message is stored once");
    broker.host.check();
}

/// An agent that cannot be started, a decision that waits, and nothing that can be decided there.
#[test]
fn what_the_owner_has_to_know_goes_to_the_chat_that_is_configured_for_it() {
    let Some(mut broker) = Broker::start() else {
        return skipped("there is no mosquitto, so notices by `hearth-mqtt` are not tested");
    };
    let port = std::fs::read_to_string(broker.directory.path().join("port")).unwrap();
    program("mqtt");
    let channel = format!(
        "bridge = \"mqtt\"\nsettings = {{ server = \"127.0.0.1:{port}\", people = \"topics\" }}\nnotices = \"ann\"\n"
    );
    noticing(&mut broker.host, &channel);
    wait_for("the notice of a decision", || broker.heard().contains("A decision waits (ap1): ").then_some(()));
    broker.host.inject("2", "hello");
    wait_for("the notice of an agent", || broker.heard().contains("/no/such/program").then_some(()));
    // Hearth does not know who writes to the topic.
    broker.host.bare("python3").arg(PEOPLE).args(["say", "ap1 1"]).status().unwrap();
    let open = broker.host.done(&["approvals", "list", "--json"], b"");
    assert!(open.contains("\"ap1\""), "{open}");
    broker.host.check();
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.people.stdin.take());
        self.people.wait().unwrap();
    }
}

const NTFY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ntfy_bridge.py");
const NTFY_SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ntfy_server.py");

/// A stand-in for the server of ntfy, and an installation.
struct Ntfy {
    host: Host,
    server: Child,
    directory: tempfile::TempDir,
}

impl Ntfy {
    fn start() -> Self {
        let mut host = Host::new();
        let directory = directory();
        let server = Self::serve(&host, directory.path());
        wait_for("the server", || directory.path().join("port").exists().then_some(()));
        host.env.push(("NTFY_TOKEN".to_owned(), "tk_secret".to_owned()));
        host.env.push(("NTFY_PEOPLE".to_owned(), directory.path().display().to_string()));
        Self { host, server, directory }
    }

    fn serve(host: &Host, directory: &Path) -> Child {
        host.bare("python3").arg(NTFY_SERVER).arg(directory).stdin(Stdio::null()).spawn().unwrap()
    }

    /// Kills the server and starts it again.
    fn restart(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
        self.server = Self::serve(&self.host, self.directory.path());
    }

    fn address(&self) -> String {
        let port = std::fs::read_to_string(self.directory.path().join("port")).unwrap();
        format!("http://127.0.0.1:{port}")
    }

    /// The texts that subscribers got.
    fn texts(&self) -> Vec<String> {
        let heard = self.heard();
        let lines = heard.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter_map(|line| line["message"].as_str().map(str::to_owned)).collect()
    }

    fn heard(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("heard")).unwrap_or_default()
    }

    /// Runs the kit.
    fn test(&self) -> Value {
        let settings = format!("{{\"server\": \"{}\"}}", self.address());
        let words =
            ["--network", NTFY_SERVER, "--token", "env:NTFY_TOKEN", "--settings", &settings, "--chat", "alerts"];
        kit(&self.host, &words, &["python3", NTFY])
    }
}

impl Drop for Ntfy {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

/// The bridge of the page as a channel, with a stand-in for the server of ntfy.
#[test]
fn notices_go_to_ntfy_by_the_bridge_of_the_documentation() {
    let page = include_str!("../../docs/bridges.md");
    assert!(
        page.contains(include_str!("../ntfy_bridge.py")),
        "docs/bridges.md has another one than tests/ntfy_bridge.py"
    );
    let mut ntfy = Ntfy::start();
    let channel = format!(
        "command = [\"python3\", \"{NTFY}\"]\ntoken = \"env:NTFY_TOKEN\"\nsettings = {{ server = \"{}\" }}\nnotices = \"alerts\"\n",
        ntfy.address()
    );
    noticing(&mut ntfy.host, &channel);
    wait_for("the notice of a decision", || ntfy.heard().contains("A decision waits (ap1): ").then_some(()));
    assert!(!ntfy.heard().contains("tk_secret"));
}

/// The bridge, the daemon and the server are killed while answers leave: nothing is lost, and what people see twice says so.
/// Nothing is read from ntfy, so that the messages come from commands.
#[test]
fn nothing_is_lost_by_ntfy_and_repeats_are_marked() {
    let mut ntfy = Ntfy::start();
    let bridge = copied(Path::new(NTFY), ntfy.directory.path());
    let channel = format!(
        "command = [\"python3\", \"{}\"]\ntoken = \"env:NTFY_TOKEN\"\nsettings = {{ server = \"{}\" }}",
        bridge.display(),
        ntfy.address()
    );
    echoing(&mut ntfy.host, &channel, "alerts");
    let chaos = Chaos::new(8);
    for (number, burst) in chaos.bursts() {
        let events = burst.iter().map(|text| {
            let mut event = crate::host::event(text, text);
            (event["channelType"], event["platformId"]) = ("net".into(), "alerts".into());
            format!("{event}\n")
        });
        ntfy.host.done(&["inject", "--json"], events.collect::<String>().as_bytes());
        std::thread::sleep(Duration::from_millis(37 * (number as u64 % 5)));
        match number % 4 {
            0 => ntfy.restart(),
            1 | 2 => running(&bridge).into_iter().for_each(kill),
            _ => {
                ntfy.host.kill();
                wait_for("the bridge to end with the daemon", || running(&bridge).is_empty().then_some(()));
                ntfy.host.start();
            }
        }
        chaos.follow(number, || ntfy.texts(), || ntfy.host.unfinished());
    }
    chaos.marked(|| ntfy.texts(), || ntfy.host.unfinished());
    settled(&ntfy.host);
    assert_eq!(ntfy.host.rows("bodies").len(), chaos.texts.len(), "each message is stored once");
    ntfy.host.check();
}

#[test]
fn the_kit_finds_each_break_of_the_example() {
    const BREAKS: [(&str, &str, &str); 14] = [
        ("daemon-killed", "frames.put({\"shutDown\": {}})", "time.sleep(60)"),
        ("say", "send({\"begun\"", "({\"begun\""),
        ("again", "\"key\": this[\"id\"]", "\"key\": this[\"id\"] + str(this[\"attempt\"])"),
        ("later", "due = time.time() + frame[\"after\"]", "current, since = None, current[\"number\"]"),
        ("refused", "frame.get(\"taken\", frame.get(\"refused\"))", "frame.get(\"taken\")"),
        ("killed-before", "int(since) if since.isdigit() else 0", "10 ** 9"),
        (
            "killed-after",
            "current, due, taking, down = None, 0, True, None",
            "current, due, taking, down, since = None, 0, True, None, 0\nplain = send\ndef send(frame):\n    if \"event\" in frame:\n        \
             frame[\"event\"][\"message\"][\"id\"] += str(time.time())\n    plain(frame)",
        ),
        ("message", "\"sender\": {\"id\": current[\"from\"], \"verified\": True},", ""),
        ("protocol", "if 1 not in hello[\"protocol\"]:", "if False:"),
        ("ping", "elif \"ping\" in frame:", "elif False:"),
        ("secrets", "send({\"ready\"", "print(token, flush=True)\nsend({\"ready\""),
        ("unknown", "if \"shutDown\" in frame:", "if \"shutDown\" in frame or \"news\" in frame:"),
        ("file", "os.unlink(", "os.stat("),
        ("edit", "this[\"act\"] in (\"edit\", \"react\")", "False"),
    ];
    // Each with a chat server of its own: what one case leaves to be passed on would change another. They wait more than
    // they work.
    let failed = failing(5, &BREAKS, |(case, from, to)| {
        let net = Net::start();
        let bridge = net.changed(&format!("{case}.py"), from, to);
        let found = net.test(&bridge, case);
        let found = found["cases"].as_array().unwrap().iter().find(|found| found["case"] == *case).unwrap();
        assert_eq!(found["result"], "failed", "{from:?} became {to:?}: {found}");
    });
    assert!(failed.is_empty(), "{failed:?}");
}

const BROKEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/broken_bridge.py");

/// What `tests/broken_bridge.py` does to a bridge, by the case that has to find it.
const BROKEN_BRIDGES: [(&str, &str); 50] = [
    ("message", "up = lambda frame: changed(frame, 'event', 'sender', to=None)"),
    ("repeated", "up = lambda frame: changed(frame, 'event', 'message', 'id', to=lambda id: id + str(time.time()))"),
    ("later", "up = lambda frame: [] if 'of another chat' in text_of(frame) else [frame]"),
    (
        "order",
        "seen = []\ndef up(frame):\n    if 'burst' not in text_of(frame):\n        return [frame]\n    seen.append(frame)\n    \
         if len(seen) == 1:\n        send(ours, {'taken': frame['seq']})\n        return []\n    \
         return [frame, seen[0]] if len(seen) == 6 else [frame]",
    ),
    ("away", "up = lambda frame: [] if 'meanwhile' in text_of(frame) else [frame]"),
    (
        "cursor",
        "def up(frame):\n    if 'not taken' in text_of(frame):\n        if os.path.exists('seen'):\n            \
         return []\n        open('seen', 'w').close()\n    return [frame]",
    ),
    ("lost-cursor", "up = lambda frame: [] if 'after the loss' in text_of(frame) else [frame]"),
    (
        "own",
        "down = lambda frame: (later(said(frame)) if 'deliver' in frame else None, [frame])[1]\n\
             said = lambda frame: {'event': {'platformId': 'x', 'message': {'id': 'x', 'content': \
             {'text': frame['deliver']['text']}}}, 'seq': 10**6}",
    ),
    ("changes", LATE),
    ("meddling", LATE),
    ("namesake", "up = lambda frame: changed(frame, 'event', 'sender', 'id', to='ann')"),
    ("forged", "up = lambda frame: changed(frame, 'event', 'sender', 'id', to='ann')"),
    ("mention", "up = lambda frame: changed(frame, 'event', 'message', 'isMention', to=False)"),
    ("group", "up = lambda frame: changed(frame, 'event', 'message', 'isGroup', to=False)"),
    ("file-in", FILES),
    (
        "file-large",
        "def up(frame):\n    for file in frame.get('event', {}).get('files', []):\n        file['path'] = 'x'\n        \
         open(os.path.join(hello['files'], 'x'), 'w').close()\n    return [frame]",
    ),
    (
        "file-unwanted",
        "def up(frame):\n    if 'wanted' in frame:\n        send(ours, {'wanted': frame['seq'], 'yes': True})\n        \
         return []\n    return [frame]",
    ),
    (
        "file",
        "def down(frame):\n    for file in frame.get('deliver', {}).get('files', []):\n        if file.get('path'):\n            \
         open(os.path.join(hello['files'], file['path']), 'ab').write(b'\\n')\n    return [frame]",
    ),
    (
        "file-elsewhere",
        "def up(frame):\n    if 'event' in frame:\n        address = hello['settings']['server'] + '/far/x'\n        \
         told = urllib.request.Request(address, headers={'Authorization': hello['secrets']['token']})\n        try:\n            \
         urllib.request.urlopen(told, timeout=5)\n        except OSError:\n            pass\n    return [frame]",
    ),
    ("direct", "up = lambda frame: changed(frame, 'opened', 'platformId', to='somewhere')"),
    ("say", "up = lambda frame: [] if 'begun' in frame else [frame]"),
    ("again-restarted", RENAMED),
    ("cut", "up = lambda frame: changed(frame, 'outcome', 'result', to='rejected')"),
    ("busy", "up = lambda frame: changed(frame, 'outcome', 'result', to='uncertain')"),
    ("killed-begun", "up = lambda frame: [] if 'begun' in frame else [frame]"),
    ("marked", "down = lambda frame: changed(frame, 'deliver', 'repeated', to=False)"),
    ("long", "down = lambda frame: changed(frame, 'deliver', 'text', to=lambda text: text[:len(text) // 2])"),
    ("notifies", "down = lambda frame: changed(frame, 'deliver', 'text', to=lambda text: text.replace('<b>', ''))"),
    ("previews", "down = lambda frame: changed(frame, 'deliver', 'linkPreviews', to=True)"),
    ("card", "down = lambda frame: changed(frame, 'deliver', 'card', 'options', to=lambda all: all[:1])"),
    ("press", "up = lambda frame: changed(frame, 'action', 'button', to='ap1.00000000000000c7.0')"),
    ("press-late", "up = lambda frame: [] if 'action' in frame else [frame]"),
    (
        "react",
        "emoji = iter('👍🎉👍')\ndown = lambda frame: changed(frame, 'deliver', 'text', to=lambda text: \
               next(emoji) if frame['deliver']['act'] == 'react' else text)",
    ),
    ("limited", "up = lambda frame: changed(frame, 'outcome', 'after', to=31536000)"),
    ("nonsense", "up = lambda frame: changed(frame, 'outcome', 'result', to='delivered')"),
    (
        "nowhere",
        "down = lambda frame: [] if frame.get('deliver', {}).get('platformId', '').startswith('no ') else [frame]",
    ),
    ("typing", "down = lambda frame: (time.sleep('typing' in frame), [frame])[1]"),
    ("refused-token", "up = lambda frame: [] if 'failed' in frame else [frame]"),
    ("half-open", "up = lambda frame: os._exit(1) if 'after the silence' in text_of(frame) else [frame]"),
    ("shut-down", "down = lambda frame: [] if 'stopTaking' in frame else [frame]"),
    ("garbage", "raw = lambda line: time.sleep(600)"),
    ("long-part", "down = lambda frame: changed(frame, 'deliver', 'text', to=lambda text: text[:len(text) // 2])"),
    (
        "edit-parts",
        "down = lambda frame: changed(frame, 'deliver', 'messageId', to=lambda ids: ids and ids.split(' ')[0])",
    ),
    ("thread", "down = lambda frame: changed(frame, 'deliver', 'threadId', to=None)"),
    ("room", "up = lambda frame: changed(frame, 'event', 'platformId', to=lambda id: id + str(time.time()))"),
    ("thrown-out", "up = lambda frame: changed(frame, 'outcome', 'result', to='delivered')"),
    (
        "code",
        "up = lambda frame: changed(frame, 'event', 'message', 'content', 'text', to=lambda text: 'Ann: ' + text)",
    ),
    ("second", "up = lambda frame: changed(frame, 'down', to=None) if 'pong' in frame else [frame]"),
    ("memory", "all = []\nup = lambda frame: (all.append('x' * 400_000), [frame])[1]"),
    ("ready", "up = lambda frame: changed(frame, 'ready', 'program', to='')"),
];

/// A message after each message.
const LATE: &str = "def up(frame):\n    if 'event' in frame:\n        other = json.loads(json.dumps(frame))\n        \
                    other['seq'] += 10**6\n        later(other)\n    return [frame]";
/// Files of messages are cut off.
const FILES: &str = "def up(frame):\n    for file in frame.get('event', {}).get('files', []):\n        \
                     os.truncate(os.path.join(hello['files'], file['path']), 3)\n    return [frame]";
/// Each attempt of a delivery has an id of its own for the network.
const RENAMED: &str = "down = lambda frame: changed(frame, 'deliver', 'id', to=lambda id: id + 'abc'[frame['deliver']['attempt'] - 1])\n\
                       up = lambda frame: changed(frame, 'outcome', 'id', to=lambda id: id[:-1]) if 'outcome' in frame \
                       else changed(frame, 'begun', 'id', to=lambda id: id[:-1])";

/// Each with the stand-in that has everything: most of all Discord's.
#[test]
fn the_kit_finds_each_broken_bridge() {
    let failed = failing(4, &BROKEN_BRIDGES, |(case, change)| {
        let found = match *case {
            "lost-cursor" | "file-elsewhere" => Slack::start().test_broken(&[BROKEN, change], case),
            "second" => telegram::test_broken(&[BROKEN, change], case),
            _ => Discord::start().test_broken(&[BROKEN, change], case),
        };
        let found = found["cases"].as_array().unwrap().iter().find(|found| found["case"] == *case).unwrap();
        assert_eq!(found["result"], "failed", "{change}: {found}");
    });
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn the_kit_finds_a_token_that_is_written_late() {
    let net = Net::start();
    let taken = "frame.get(\"taken\", frame.get(\"refused\"))";
    let bridge = net.changed("late.py", taken, &format!("(print(token, flush=True), {taken})[1]"));
    // All cases with an "s": `message`, in which it is written, and `secrets`.
    let found = net.test(&bridge, "s");
    let found = found["cases"].as_array().unwrap().iter().find(|found| found["case"] == "secrets").unwrap();
    assert_eq!(found["result"], "failed", "{found}");
}

#[test]
fn what_cannot_be_started_is_told() {
    let host = Host::new();
    let run = |words: &[&str]| host.run(&[&["bridge", "test", "--only", "ready", "--"], words].concat(), b"");
    for (words, expected) in [
        (&["no-such-program"][..], "its program `no-such-program` was not found"),
        (&["sh", "-c", "echo it is broken >&2; exit 3"][..], "it is broken"),
        (&["sh", "-c", "echo nonsense >&3; sleep 9"][..], "not a JSON object"),
    ] {
        let ended = run(words);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(ended.code == Some(1) && said.contains(expected), "{words:?}: {said}");
    }
}

/// The processes that run a file.
fn running(file: &Path) -> Vec<u32> {
    let file = file.display().to_string();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let runs = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.starts_with(b"python3\0") && String::from_utf8_lossy(&words).contains(&file)
    };
    pids.filter(runs).collect()
}

/// A daemon with the example as the channel `net`, and an agent that echoes in its chat.
fn connected(net: &mut Net, bridge: &Path) {
    let (server, bridge) = (net.address(), bridge.display());
    let channel = format!("command = [\"python3\", \"{bridge}\"]\nsettings = {{ server = \"{server}\" }}");
    echoing(&mut net.host, &channel, "room");
}

fn listed(host: &Host) -> Value {
    let mut list: Value = serde_json::from_str(&host.done(&["channels", "list", "--json"], b"")).unwrap();
    list["channels"].as_array_mut().unwrap().pop().unwrap_or_default()
}

impl Net {
    fn people(&self, words: &[&str]) -> String {
        let mut command = self.host.bare("python3");
        let done = command.arg(SERVER).args(words).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// How often people heard the answer to a text. Messages that waited together are one turn, whose answer has a line
    /// for each.
    fn answers(&self, text: &str) -> usize {
        self.people(&["heard"]).lines().filter(|line| line.strip_prefix("echo: ").unwrap_or(line) == text).count()
    }
}

#[test]
fn a_channel_carries_a_conversation_and_shows_its_state() {
    let mut net = Net::start();
    connected(&mut net, Path::new(BRIDGE));
    net.people(&["say", "is anybody there?"]);
    wait_for("the answer", || (net.answers("is anybody there?") == 1).then_some(()));
    let known = net.host.rows("bridges").pop().unwrap()["value"].take();
    assert_eq!(known["cursors"], serde_json::json!([{"name": "since", "value": "1"}]), "{known}");
    assert_eq!(known["capabilities"]["on_uncertain"], "SendAgain", "{known}");
    let one = listed(&net.host);
    assert_eq!((&one["type"], &one["program"][0]), (&"bridge".into(), &"python3".into()), "{one}");
    assert!(net.host.done(&["export"], b"").contains("type = \"bridge\""));
    let message = net.host.rows("bodies").pop().unwrap();
    assert!(message.to_string().contains("ann"), "{message}");
    net.host.done(&["channels", "remove", "net"], b"");
    assert!(net.host.rows("bridges").is_empty());
    net.host.check();
}

#[test]
fn a_bridge_that_cannot_be_started_is_down_in_words() {
    let mut host = Host::new();
    host.apply(
        "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\n[channels.net]\ntype = \"bridge\"\n\
         command = [\"sh\", \"-c\", \"echo out of order >&2; exit 7\"]\n",
    );
    host.start();
    let one = wait_for("the failure", || Some(listed(&host)).filter(|one| one["state"] == "down"));
    let why = one["why"].as_str().unwrap();
    assert!(why.contains("exit status: 7") && why.contains("out of order"), "{why}");
    let doctor = host.run(&["doctor"], b"");
    assert!(doctor.stdout.contains("net is down"), "{doctor:#?}");
}

/// Bridge and daemon are killed at any moment of a conversation. The network recognises repeated ids, so that everything
/// is there exactly once. Every night only: an answer may wait for a sweep, longer than other tests are let.
#[test]
fn nothing_is_lost_or_doubled_when_bridge_and_daemon_are_killed() {
    let chaos = Chaos::new(0);
    if chaos.texts.is_empty() {
        skipped("bridge and daemon of the example are killed in a conversation with HEARTH_CHAOS=<messages> only");
        return;
    }
    let mut net = Net::start();
    let bridge = net.changed("own.py", "\"\"\"A bridge", "\"\"\"The bridge");
    connected(&mut net, &bridge);
    let heard = |net: &Net| net.people(&["heard"]).lines().map(str::to_owned).collect::<Vec<_>>();
    for (number, burst) in chaos.bursts() {
        net.people(&[&["say"], &words(burst)[..]].concat());
        std::thread::sleep(Duration::from_millis(37 * (number as u64 % 5)));
        match number % 4 {
            1 => running(&bridge).into_iter().for_each(kill),
            3 if number % 8 == 7 => {
                net.host.kill();
                wait_for("the bridge to end with the daemon", || running(&bridge).is_empty().then_some(()));
                net.host.start();
            }
            _ => {}
        }
        chaos.follow(number, || heard(&net), || net.host.unfinished());
    }
    chaos.once(|| heard(&net), || net.host.unfinished());
    assert_eq!(net.host.rows("bodies").len(), chaos.texts.len(), "each message is stored once");
    net.host.check();
}
