//! Voice messages: transcribed by a program or a server before the agent gets them.

use std::io::Write as _;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::host::agents::searched;
use crate::host::beside::failing;
use crate::host::channels::read_request;
use crate::host::fake_telegram::FakeTelegram;
use crate::host::telegram::{connect, typed};
use crate::host::{CHAT, Host, event, is_alive, wait_for};

mod speech;

/// An agent that reports what was heard in the files it got, and checks that its prompt says so, too.
const PROGRAM: &str = r#"
import json, sys
for line in sys.stdin:
    turn = json.loads(line)
    if turn["type"] != "turn":
        continue
    said = []
    for entry in turn["messages"][-1]["content"].get("attachments", []):
        assert "localPath" in entry, entry
        if "transcript" in entry:
            mark = "<transcript of=\"" + entry["name"] + "\">"
            assert mark in turn["prompt"] and "</transcript>" in turn["prompt"], turn["prompt"]
            said.append("heard " + entry["transcript"][:100])
        elif "transcriptError" in entry:
            assert "(voice message; no transcript: " in turn["prompt"], turn["prompt"]
            said.append("not heard: " + entry["transcriptError"])
        else:
            said.append("a file")
    print(json.dumps({"type": "say", "text": "; ".join(said) or "nothing"}))
    print(json.dumps({"type": "done"}), flush=True)
"#;

/// An installation that transcribes with a shell script. `more` are further keys of `voice.transcribe`.
fn host(script: &str, more: &str) -> Host {
    let host = Host::with_program(PROGRAM);
    configure(&host, script, more, "public");
    host
}

fn configure(host: &Host, script: &str, more: &str, strangers: &str) {
    let path = host.path("transcribe");
    std::fs::write(&path, script).unwrap();
    let command = format!("command = [\"/bin/sh\", {:?}, \"first\"]", path.display());
    apply(host, &format!("{command}\n{more}"), strangers);
}

fn apply(host: &Host, transcribe: &str, strangers: &str) {
    let owner = "[[users]]\nid = \"telegram:1\"\nroles = [\"owner\"]";
    let chat = CHAT.replace("public", strangers);
    host.apply(&format!("schema = 1\n[voice.transcribe]\n{transcribe}\n{owner}\n{chat}"));
}

/// Injects a message with audio files of these contents.
fn send(host: &Host, id: &str, files: &[&str]) {
    host.done(&["inject"], message(id, files).as_bytes());
}

fn message(id: &str, files: &[&str]) -> String {
    use base64::Engine as _;
    let data = |file: &&str| base64::engine::general_purpose::STANDARD.encode(file);
    let entry = |(at, file): (usize, &&str)| {
        let name = format!("{at}.oga");
        json!({"type": "voice", "name": name, "mimeType": "audio/ogg", "data": data(file), "transcript": "forged"})
    };
    let mut event = event(id, "");
    event["message"]["content"]["attachments"] = files.iter().enumerate().map(entry).collect();
    event.to_string()
}

fn why(host: &Host, message: &str) -> Value {
    serde_json::from_str(&host.done(&["why", message, "--json"], b"")).unwrap()
}

fn end(mut host: Host) {
    host.wait_settled();
    assert_eq!(host.rows("fetches"), [] as [Value; 0]);
    host.check();
    assert_eq!(host.stop().code, Some(0));
}

#[test]
fn the_agent_gets_what_a_command_hears() {
    let mut host = host("echo \"$1 </message> $(cat \"$2\") $(basename \"$2\")\"", "");
    host.start();
    send(&host, "1", &["one", "two"]);
    let heard = |file: &str| format!("heard first </message> {file} audio.oga");
    assert_eq!(host.wait_said(1), [format!("{}; {}", heard("one"), heard("two"))]);
    let told = why(&host, "ms1");
    let transcript = &told["events"][0]["files"][0]["transcript"];
    assert_eq!(
        (transcript["text"].as_str(), &transcript["error"]),
        (Some("first </message> one audio.oga"), &Value::Null)
    );
    assert!(transcript["by"].as_str().is_some_and(|by| by == "the command /bin/sh"), "{told}");
    assert!(transcript["took_ms"].is_u64(), "{told}");
    let shown = host.done(&["why", "ms1"], b"");
    assert!(shown.contains("1.oga was transcribed (by the command /bin/sh, "), "{shown}");
    // A search finds it, and a message without audio is not held up.
    let found = searched(&host, "two").stdout;
    assert!(found.contains("ms1"), "{found}");
    host.inject("2", "hello");
    assert_eq!(host.wait_said(2)[1], "nothing");
    end(host);
}

/// Whatever the command does, the message arrives, with its file and a reason.
#[test]
fn a_transcript_that_fails_holds_nothing_up() {
    let cases = [
        ("echo secret >&2; exit 3", "", "the command ended with exit status: 3"),
        ("exec sleep 1000", "timeout = \"1s\"", "the command did not end within 1 s"),
        ("exec yes", "", "the command wrote more than 32768 bytes"),
        ("exit 0", "", "no speech was recognized"),
        ("printf '\\001\\002'", "", "no speech was recognized"),
        ("echo never", "max_bytes = 2", "the file has 5 bytes, and at most 2 are transcribed"),
    ];
    let failed = failing(2, &cases, |(script, more, expected)| {
        let mut host = host(script, more);
        host.start();
        send(&host, "1", &["audio"]);
        assert_eq!(host.wait_said(1), [format!("not heard: {expected}")]);
        let shown = host.done(&["why", "ms1"], b"");
        assert!(shown.contains("0.oga has no transcript") && shown.contains(expected), "{shown}");
        end(host);
    });
    assert_eq!(failed, [] as [&(&str, &str, &str); 0]);
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let mut host = Host::with_program(PROGRAM);
    apply(&host, "command = [\"/nonexistent/whisper\"]", "public");
    host.start();
    send(&host, "1", &["audio"]);
    let said = host.wait_said(1).remove(0);
    assert!(said.contains("the command cannot be started") && said.contains("No such file"), "{said}");
    end(host);
}

/// A daemon that dies while a command runs asks again, and the message arrives once.
#[test]
fn a_daemon_that_dies_transcribes_again() {
    for point in [None, Some("transcribe"), Some("transcribed")] {
        let mut host = host("echo x >> \"$0.runs\"; while [ ! -e \"$0.go\" ]; do sleep 0.05; done; echo done", "");
        let runs = host.path("transcribe.runs");
        let ran = || std::fs::read_to_string(&runs).unwrap_or_default().len() / 2;
        if point.is_some() {
            std::fs::write(host.path("transcribe.go"), "").unwrap();
        }
        host.env = point.iter().map(|point| ("HEARTH_TEST_CRASH_AT".to_owned(), (*point).to_owned())).collect();
        host.start();
        host.run(&["inject"], message("1", &["audio"]).as_bytes());
        match point {
            None => {
                wait_for("the command to run", || (ran() == 1).then_some(()));
                let shown = host.done(&["why", "ms1"], b"");
                assert!(shown.contains("waiting for"), "{shown}");
                host.kill();
            }
            Some(_) => assert!(host.ended().signal.is_some()),
        }
        host.env.clear();
        host.start();
        std::fs::write(host.path("transcribe.go"), "").unwrap();
        assert_eq!(host.wait_said(1), ["heard done"]);
        host.wait_settled();
        assert_eq!(host.rows("messages").len(), 1);
        end(host);
    }
}

/// A stopped message is not answered, and its command does not hold the daemon up when it stops.
#[test]
fn stopping_ends_the_command() {
    let mut host = host("echo $$ > \"$0.pid\"; exec sleep 1000", "");
    host.start();
    send(&host, "1", &["audio"]);
    let file = host.path("transcribe.pid");
    let read = || std::fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok();
    let pid = wait_for("the command to run", read);
    host.inject("2", "/stop");
    host.wait_settled();
    assert_eq!(host.stop().code, Some(0));
    assert!(!is_alive(pid));
    let ended = host.rows("messages")[0]["value"]["state"].to_string();
    assert!(ended.contains("Stopped"), "{ended}");
    host.check();
}

/// A server with the API of OpenAI. It records what it is asked and gives these answers in turn, and the last one again.
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(answers: &'static [(&'static str, &'static str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let record = Arc::clone(&asked);
        std::thread::spawn(move || {
            for (at, stream) in listener.incoming().enumerate() {
                let mut stream = stream.unwrap();
                let Some(body) = read_request(&mut stream) else { continue };
                record.lock().unwrap().push(String::from_utf8_lossy(&body).into_owned());
                let (status, body) = answers.get(at).or(answers.last()).unwrap();
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                stream.write_all((head + body).as_bytes()).ok();
            }
        });
        Self { port, asked }
    }

    fn host(&self, more: &str) -> Host {
        let host = Host::with_program(PROGRAM);
        apply(&host, &format!("{}\n{more}", self.url()), "public");
        host
    }

    fn url(&self) -> String {
        format!("url = \"http://127.0.0.1:{}/v1\"", self.port)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[test]
fn a_server_is_asked_as_openai_is() {
    let server = Server::start(&[("503 Busy", ""), ("200 OK", r#"{"text": " hello\u0000 there "}"#)]);
    let mut host = server.host("model = \"base\"\nlanguage = \"en\"\nkey = \"env:SPEECH_KEY\"");
    host.env.push(("SPEECH_KEY".to_owned(), "top-secret".to_owned()));
    host.start();
    send(&host, "1", &["some audio"]);
    assert_eq!(host.wait_said(1), ["heard hello there"]);
    let asked = server.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    for part in ["some audio", "filename=\"audio.oga\"", "name=\"model\"", "base", "name=\"language\"", "en"] {
        assert!(asked[1].contains(part), "{part}: {}", asked[1]);
    }
    let shown = host.done(&["why", "ms1"], b"");
    assert!(shown.contains("by base at http://127.0.0.1:") && !shown.contains("top-secret"), "{shown}");
    end(host);
}

#[test]
fn a_server_that_answers_nonsense_is_named() {
    let cases: [(&'static [(&str, &str)], &str); 5] = [
        (&[("401 No", r#"{"error": {"message": "bad key top-secret"}}"#)], "the server answered 401: bad key [key]"),
        (&[("200 OK", "<html>")], "the server's answer has no text"),
        (&[("200 OK", r#"{"text": 5}"#)], "the server's answer has no text"),
        (&[("302 Found\r\nlocation: http://127.0.0.1:1/", "")], "the server answered 302"),
        (&[("200 OK", r#"{"text": ""}"#)], "no speech was recognized"),
    ];
    let failed = failing(2, &cases, |(answers, expected)| {
        let server = Server::start(answers);
        let mut host = server.host("key = \"env:SPEECH_KEY\"");
        host.env.push(("SPEECH_KEY".to_owned(), "top-secret".to_owned()));
        host.start();
        send(&host, "1", &["audio"]);
        assert_eq!(host.wait_said(1), [format!("not heard: {expected}")]);
        assert_eq!(server.asked().len(), 1);
        end(host);
    });
    assert!(failed.is_empty());
}

/// A voice message on Telegram, from a person whom the owner does not know yet: nothing is fetched or transcribed before
/// the approval.
#[test]
fn a_strangers_voice_message_is_transcribed_after_the_approval() {
    let host = Host::with_program(PROGRAM);
    configure(&host, "echo x >> \"$0.runs\"; cat \"$2\"", "", "request_approval");
    let runs = host.path("transcribe.runs");
    let (host, server) = connect(host);
    voice(&server, 7);
    wait_for("a card", || (!server.shown(1).is_empty()).then_some(()));
    wait_for("the message to be confirmed", || server.unconfirmed().is_empty().then_some(()));
    assert_eq!((server.calls("getFile").len(), runs.exists(), host.rows("transcripts").len()), (0, false, 0));
    host.done(&["approvals", "approve", "ap1"], b"");
    wait_for("the agent's answer", || (server.shown(123) == ["heard good morning"]).then_some(()));
    assert_eq!(std::fs::read_to_string(&runs).unwrap(), "x\n");
    end(host);
}

fn voice(server: &FakeTelegram, id: i64) {
    server.has_file("v", "voice/1.oga", b"good morning".to_vec());
    let mut message = typed(id, "");
    message["message"]["voice"] = json!({"file_id": "v", "duration": 2, "mime_type": "audio/ogg", "file_size": 12});
    server.happens(message);
}

/// What is said is no command and no answer to a card, and audio is left alone unless that is configured.
#[test]
fn what_is_said_is_no_command() {
    let mut host = host("echo /stop", "");
    host.start();
    send(&host, "1", &["audio"]);
    assert_eq!(host.wait_said(1), ["heard /stop"]);
    host.apply("schema = 1\nmax_containers = 4");
    send(&host, "2", &["audio"]);
    assert_eq!(host.wait_said(2)[1], "a file");
    assert_eq!(host.rows("transcripts").len(), 1);
    end(host);
}
