//! Spoken answers: made by a program or a server after the text was sent.

use serde_json::{Value, json};

use super::{Server, end, voice, why};
use crate::host::agents::searched;
use crate::host::beside::failing;
use crate::host::channels::{Receiver, SECRET, free_port, post};
use crate::host::fake_telegram::{Call, FakeTelegram};
use crate::host::telegram::{connect, typed, wait_delivered};
use crate::host::{CHAT, Host, is_alive, wait_for};

/// An agent that says the same each time, and stops if its prompt mentions speech.
const PROGRAM: &str = r#"
import json, sys
for line in sys.stdin:
    turn = json.loads(line)
    if turn["type"] != "turn":
        continue
    assert "answer.ogg" not in line and "spokenFormOf" not in line, line
    print(json.dumps({"type": "say", "text": "It is **soup**. See [it](http://a.b/c).\n```\ncode\n```"}))
    print(json.dumps({"type": "done"}), flush=True)
"#;
/// What is read aloud of its answer.
const READ: &str = "It is soup. See it.";
/// A program that speaks: its audio is the text that it reads.
const SPEAK: &str = "printf OggS; cat";

fn host(script: &str, more: &str) -> (Host, FakeTelegram) {
    connect(configured(script, more))
}

fn configured(script: &str, more: &str) -> Host {
    let host = Host::with_program(PROGRAM);
    let path = host.path("speak");
    std::fs::write(&path, script).unwrap();
    apply(&host, &format!("command = [\"/bin/sh\", {:?}]\n{more}", path.display()));
    host
}

fn apply(host: &Host, speak: &str) {
    host.apply(&format!("schema = 1\n[voice.speak]\n{speak}\n{CHAT}"));
}

/// What Telegram got of spoken answers.
fn spoken(server: &FakeTelegram) -> Vec<Call> {
    server.calls("sendVoice")
}

fn wait_spoken(server: &FakeTelegram, count: usize) -> Vec<Call> {
    wait_for("spoken answers", || Some(spoken(server)).filter(|spoken| spoken.len() >= count))
}

/// The speech of the first answer, when it has ended.
fn ended(host: &Host) -> Value {
    wait_for("the speech to end", || {
        let rows = host.rows("speeches");
        rows.first().filter(|row| row["value"].get("Waiting").is_none()).cloned()
    })
}

#[test]
fn an_answer_to_a_voice_message_is_spoken_after_its_text() {
    let (host, server) = host(SPEAK, "");
    voice(&server, 7);
    let files = wait_spoken(&server, 1).remove(0).files;
    let audio = format!("OggS{READ}").into_bytes();
    assert_eq!(files, [("voice".to_owned(), "answer.ogg".to_owned(), audio)]);
    wait_delivered(&host, 2);
    assert_eq!(server.shown(123)[0], "It is soup. See it.\ncode");
    let told = why(&host, "ms1");
    let answers = told["events"][0]["messages"][0]["answers"].as_array().unwrap().clone();
    let [written, aloud] = answers.as_slice() else { panic!("{told}") };
    assert_eq!(written["speech"]["message"], aloud["outbound"]);
    assert_eq!(written["speech"]["by"], "the command /bin/sh");
    assert_eq!((&aloud["spoken_form_of"], &aloud["text"]), (&written["outbound"], &json!("")));
    let shown = host.done(&["why", "ms1"], b"");
    let (first, second) = (written["outbound"].as_str().unwrap(), aloud["outbound"].as_str().unwrap());
    assert!(shown.contains(&format!("{first} was spoken as {second} (by the command /bin/sh, ")), "{shown}");
    assert!(shown.contains(&format!("Hearth sent {second}: the spoken form of {first}")), "{shown}");
    let found = searched(&host, "soup").stdout;
    assert!(found.contains(first) && !found.contains(second), "{found}");
    // What is typed is answered in writing, and so are commands.
    server.happens(typed(8, "hello"));
    wait_delivered(&host, 3);
    server.happens(typed(9, "/help"));
    wait_delivered(&host, 4);
    assert_eq!((host.rows("speeches").len(), spoken(&server).len()), (1, 1));
    assert!(!host.status()["warnings"].to_string().contains("could not be spoken"));
    end(host);
}

/// Whatever the program does, the text is sent, and nothing else.
#[test]
fn an_answer_that_cannot_be_spoken_is_sent() {
    let cases = [
        ("echo secret >&2; exit 3", "", "the command ended with exit status: 3"),
        ("exec sleep 1000", "timeout = \"1s\"", "the command did not end within 1 s"),
        ("exec yes", "max_bytes = 1000", "the command wrote more than 1000 bytes"),
        ("exit 0", "", "there was no audio"),
        ("echo hello", "", "what was made is not audio of a known format"),
        (SPEAK, "max_chars = 5", "characters, and at most 5 are spoken"),
    ];
    let failed = failing(2, &cases, |(script, more, expected)| {
        let (host, server) = host(script, more);
        voice(&server, 7);
        let row = ended(&host);
        assert!(row["value"]["Failed"]["why"].as_str().unwrap().contains(expected), "{row}");
        wait_delivered(&host, 1);
        let shown = host.done(&["why", "ms1"], b"");
        assert!(shown.contains("was not spoken") && shown.contains(expected), "{shown}");
        // An answer that is too long is no failure.
        let is_told = host.status()["warnings"].to_string().contains("could not be spoken");
        assert_eq!(is_told, !more.contains("max_chars"));
        assert_eq!((server.shown(123).len(), host.rows("outbound").len()), (1, 1));
        end(host);
    });
    assert_eq!(failed, [] as [&(&str, &str, &str); 0]);
}

/// A daemon that dies while an answer is spoken speaks it again, and sends it once.
#[test]
fn a_daemon_that_dies_speaks_once() {
    for point in [None, Some("speak"), Some("spoken")] {
        let host =
            configured("echo x >> \"$0.runs\"; while [ ! -e \"$0.go\" ]; do sleep 0.05; done; printf OggS; cat", "");
        let runs = host.path("speak.runs");
        if point.is_some() {
            std::fs::write(host.path("speak.go"), "").unwrap();
        }
        let (mut host, server) = connect(host);
        host.stop();
        host.env.extend(point.iter().map(|point| ("HEARTH_TEST_CRASH_AT".to_owned(), (*point).to_owned())));
        host.start();
        voice(&server, 7);
        match point {
            None => {
                wait_for("the command to run", || runs.exists().then_some(()));
                host.kill();
            }
            Some(_) => assert!(host.ended().signal.is_some()),
        }
        host.env.retain(|(name, _)| name != "HEARTH_TEST_CRASH_AT");
        assert_eq!((server.shown(123).len(), spoken(&server).len()), (1, 0), "{point:?}");
        host.start();
        std::fs::write(host.path("speak.go"), "").unwrap();
        wait_spoken(&server, 1);
        wait_delivered(&host, 2);
        assert_eq!((server.shown(123).len(), spoken(&server).len()), (2, 1), "{point:?}");
        assert_eq!(host.rows("outbound").len(), 2);
        end(host);
    }
}

/// `/stop` ends the program, although the answer was sent and no turn runs.
#[test]
fn stopping_ends_the_speech() {
    let (host, server) = host("echo $$ > \"$0.pid\"; exec sleep 1000", "");
    voice(&server, 7);
    let file = host.path("speak.pid");
    let read = || std::fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok();
    let pid = wait_for("the command to run", read);
    server.happens(typed(8, "/stop"));
    wait_for("the command to end", || (!is_alive(pid)).then_some(()));
    let row = ended(&host);
    assert_eq!(row["value"]["Failed"]["why"], "it was stopped");
    wait_for("the person to be told", || {
        server.shown(123).iter().any(|text| text.contains("not read aloud")).then_some(())
    });
    assert_eq!(spoken(&server).len(), 0);
    end(host);
}

#[test]
fn a_server_speaks_as_openai_does() {
    let speech = Server::start(&[("503 Busy", ""), ("200 OK", "ID3 audio")]);
    let host = Host::with_program(PROGRAM);
    let more = "model = \"kokoro\"\nvoice = \"nova\"\nformat = \"mp3\"\nkey = \"env:SPEECH_KEY\"";
    apply(&host, &format!("{}\n{more}", speech.url()));
    let mut host = host;
    host.env.push(("SPEECH_KEY".to_owned(), "top-secret".to_owned()));
    let (host, server) = connect(host);
    voice(&server, 7);
    let files = wait_spoken(&server, 1).remove(0).files;
    assert_eq!(files, [("voice".to_owned(), "answer.mp3".to_owned(), b"ID3 audio".to_vec())]);
    wait_delivered(&host, 2);
    let asked = speech.asked();
    let asked: Vec<Value> = asked.iter().map(|asked| serde_json::from_str(asked).unwrap()).collect();
    let expected = json!({"model": "kokoro", "voice": "nova", "input": READ, "response_format": "mp3"});
    assert_eq!(asked, [expected.clone(), expected]);
    let shown = host.done(&["why", "ms1"], b"");
    assert!(shown.contains("by kokoro at http://127.0.0.1:") && !shown.contains("top-secret"), "{shown}");
    end(host);
}

#[test]
fn a_server_that_does_not_speak_is_named() {
    type Answers = &'static [(&'static str, &'static str)];
    let cases: [(Answers, usize, &str); 6] = [
        (&[("401 No", r#"{"error": {"message": "bad key top-secret"}}"#)], 1, "the server answered 401: bad key [key]"),
        (&[("429 Slow", "")], 3, "the server answered 429"),
        (&[("500 Oh", "")], 3, "the server answered 500"),
        (&[("302 Found\r\nlocation: http://127.0.0.1:1/", "")], 1, "the server answered 302"),
        (&[("200 OK", "<html>")], 1, "what was made is not audio of a known format"),
        (&[("200 OK", "OggS and more than fits")], 1, "the server's answer has more than 8 bytes"),
    ];
    let failed = failing(2, &cases, |(answers, attempts, expected)| {
        let speech = Server::start(answers);
        let host = Host::with_program(PROGRAM);
        apply(&host, &format!("{}\nmax_bytes = 8\nkey = \"env:SPEECH_KEY\"", speech.url()));
        let mut host = host;
        host.env.push(("SPEECH_KEY".to_owned(), "top-secret".to_owned()));
        let (host, server) = connect(host);
        voice(&server, 7);
        assert_eq!(ended(&host)["value"]["Failed"]["why"], *expected);
        assert_eq!((speech.asked().len(), server.shown(123).len()), (*attempts, 1));
        end(host);
    });
    assert!(failed.is_empty());
}

/// With `when = "always"`, typed messages are answered by voice where people get files, and a webhook sees what belongs
/// together.
#[test]
fn every_answer_is_spoken_where_people_get_files() {
    let receiver = Receiver::start(&[]);
    let mut host = configured(SPEAK, "when = \"always\"");
    let port = free_port();
    host.apply(&format!(
        "schema = 1\n[channels.site]\ntype = \"webhook\"\nsecret = \"env:WEB\"\nlisten = \"127.0.0.1:{port}\"\n{}\n\
         [[chats]]\nchannel = \"site\"\nplatform_id = \"c\"\nunknown_senders = \"public\"\n[[chats.wirings]]\n\
         agent = \"main\"\nengage = \"pattern\"\npattern = \".\"\n",
        receiver.base_url()
    ));
    let terminal = CHAT.replace("telegram", "terminal").replace("123", "main");
    host.apply(&format!("schema = 1\n{terminal}"));
    host.env.push(("WEB".to_owned(), SECRET.to_owned()));
    host.start();
    let event = json!({
        "channelType": "site",
        "platformId": "c",
        "message": {"id": "1", "kind": "chat", "content": {"text": "hello", "senderId": "9", "senderName": "Ann"}},
    });
    wait_for("the channel", || post(port, SECRET, "/v1/events", &event).filter(|(status, _)| *status == 200));
    let said = wait_for("both", || Some(receiver.said()).filter(|said| said.len() >= 2));
    let [written, aloud] = said.as_slice() else { panic!("{said:#?}") };
    assert_eq!((&aloud["text"], &aloud["content"]["spokenFormOf"]), (&json!(""), &written["id"]));
    assert_eq!((&aloud["files"][0]["name"], &aloud["speaker"]), (&json!("answer.ogg"), &written["speaker"]));
    assert!(written["speaker"].is_string(), "{written}");
    host.done(&["chat", "hello"], b"");
    host.wait_settled();
    assert_eq!(host.rows("speeches").len(), 1);
    end(host);
}
