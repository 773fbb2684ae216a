use super::*;

fn account() -> Account {
    Account { address: "bot@own.test".to_owned(), authserv_id: Some("mail.test".to_owned()) }
}

fn mail(fields: &str, body: &str) -> Mail {
    let fields = fields.replace('\n', "\r\n");
    read(format!("{fields}\r\n\r\n{body}").as_bytes(), Fetched::Whole, &account())
}

fn written(fields: &str, body: &str) -> Written {
    match mail(fields, body) {
        Mail::Message(written) => *written,
        Mail::Skipped(why) => panic!("{why}: {fields}"),
    }
}

const PASSED: &str = "Authentication-Results: mail.test; dkim=pass header.d=friend.test\n";

#[test]
fn a_mail_is_a_message_of_its_sender() {
    let found = written(
        &format!(
            "{PASSED}From: =?utf-8?q?Ann=C3=A9?= <Ann@Friend.test>\nMessage-ID: <m1@friend.test>\nSubject: =?utf-8?b?R3LDvMOfZQ==?=\n folded"
        ),
        "hello\r\n-- \r\nAnn\r\n",
    );
    assert_eq!((found.from.as_str(), found.name.as_deref()), ("ann@friend.test", Some("Anné")));
    assert!(found.is_verified && !found.is_answer);
    assert_eq!((found.id.as_str(), found.thread.as_deref()), ("m1@friend.test", Some("m1@friend.test")));
    assert_eq!((found.subject.as_str(), found.text.as_str()), ("Grüße folded", "hello"));
}

#[test]
fn a_forged_sender_is_nobody() {
    for from in [
        "From: ann@friend.test",
        "From: <ann@friend.test>",
        "From: Ann <ann@friend.test>",
        "From: \"Ann, of Friends\" <ann@friend.test>",
    ] {
        assert!(written(&format!("{PASSED}{from}"), "x").is_verified, "{from}");
        assert!(!written(from, "x").is_verified, "{from}");
    }
    for from in [
        "From: ann@evil.test",
        "From: ann@friend.test, eve@evil.test",
        "From: eve@evil.test, ann@friend.test",
        "From: \"ann@friend.test\" <eve@evil.test>",
        "From: \"eve@evil.test\" <ann@friend.test>",
        "From: =?utf-8?q?eve=40evil=2Etest?= <ann@friend.test>",
        "From: ann@friend.test\nFrom: eve@evil.test",
        "From: ann@friend.test\nfrom : eve@evil.test",
        "From: friends: ann@friend.test, eve@evil.test;",
        "From: <eve@evil.test> <ann@friend.test>",
        "From: ann@friend.test\rFrom: eve@evil.test",
        "From: ann@friend.test (eve@evil.test)",
    ] {
        if let Mail::Message(found) = mail(&format!("{PASSED}{from}"), "x") {
            assert!(!found.is_verified, "{from:?}: {found:?}");
            assert!(found.id.starts_with("unverified:"));
        }
    }
    let none = Account { authserv_id: None, ..account() };
    let raw = format!("{}From: ann@friend.test\r\n\r\nx", PASSED.replace('\n', "\r\n"));
    let Mail::Message(found) = read(raw.as_bytes(), Fetched::Whole, &none) else { panic!() };
    assert!(!found.is_verified, "without a trusted server nobody is verified");
}

#[test]
fn answers_belong_to_the_thread_of_the_first_mail() {
    let found = written(
        "From: a@x.test\nMessage-ID: <c@x>\nReferences: <a@x>\n <b@x>\nIn-Reply-To: <b@x>",
        "x\r\n\r\n> quoted by others\r\n",
    );
    assert_eq!((found.thread.as_deref(), found.is_answer), (Some("a@x"), true));
    assert!(found.text.contains("quoted"), "what others wrote is new to the agent");
    let own = account().message_id("5f0c91ab-mo17");
    assert_eq!(own, "hearth.5f0c91ab-mo17@own.test");
    let found = written(
        &format!("From: a@x.test\nIn-Reply-To: <{own}>"),
        "2\r\n\r\nOn Mon, Bot <bot@own.test> wrote:\r\n> 1. yes\r\n> 2. no\r\n",
    );
    assert_eq!((found.thread.as_deref(), found.text.as_str()), (Some(own.as_str()), "2"));
}

#[test]
fn loops_are_refused() {
    for fields in [
        "From: bot@own.test",
        "From: BOT@OWN.test",
        "From: a@x.test\nMessage-ID: <hearth.5f0c91ab-mo17@own.test>",
        "From: a@x.test\nAuto-Submitted: auto-replied",
        "From: a@x.test\nReturn-Path: <>",
        "From: nobody",
        "Subject: no sender",
        "From: <a@x.test>\nPrecedence: bulk",
    ] {
        assert!(matches!(mail(fields, "x"), Mail::Skipped(_)), "{fields}");
    }
}

const MIXED: &str = "--b\r\nContent-Type: multipart/alternative; boundary=c\r\n\r\n--c\r\nContent-Type: text/html\r\n\r\n\
    <p>seen<p style='display:none'>EVIL</p>\r\n--c--\r\n--b\r\nContent-Type: application/pdf; name=\"../a.pdf\"\r\n\
    Content-Disposition: attachment\r\nContent-Transfer-Encoding: base64\r\n\r\nAAEC\r\n--b\r\n\
    Content-Type: message/rfc822\r\n\r\nFrom: eve@evil.test\r\nSubject: inner\r\n\r\ninner text\r\n--b\r\n\
    Content-Type: text/plain\r\nContent-Disposition: attachment; filename*=utf-8''n%C3%B6te.txt\r\n\r\nnote\r\n--b--\r\n";

#[test]
fn parts_are_text_or_files() {
    let found = written("From: a@x.test\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b", MIXED);
    assert_eq!(found.text, "seen\n\n(hidden text left out)");
    let files: Vec<_> = found.files.iter().map(|file| (file.name.as_deref(), file.bytes.clone().unwrap())).collect();
    assert_eq!(files[0], (Some("../a.pdf"), vec![0, 1, 2]));
    assert!(files[1].0 == Some("message.eml") && String::from_utf8_lossy(&files[1].1).contains("inner text"));
    assert_eq!(files[2], (Some("nöte.txt"), b"note".to_vec()));
    assert_eq!(files.len(), 3);
    assert_eq!(found.files[0].mime.as_deref(), Some("application/pdf"));
}

#[test]
fn unseen_characters_and_long_texts_are_cut() {
    let found =
        written("From: a@x.test\nContent-Type: text/plain; charset=utf-8", "a\u{200b}b\u{e0041}\u{202e}c\u{7}d");
    assert_eq!(found.text, "abcd");
    let found = written("From: a@x.test\nContent-Type: text/plain; charset=utf-8", &"ä".repeat(300_000));
    assert!(found.text.len() < TEXT_BYTES_MAX + 100 && found.text.ends_with("left out)"));
    assert_eq!(bare_subject("Re: AW:  Fwd: topic: more"), "topic: more");
}

#[test]
fn bombs_end() {
    let mut nested = String::from("From: a@x.test\r\n");
    for number in 0..5_000 {
        nested.push_str(&format!("Content-Type: multipart/mixed; boundary=b{number}\r\n\r\n--b{number}\r\n"));
    }
    let mut forwarded = String::from("From: a@x.test\r\n");
    for _ in 0..5_000 {
        forwarded.push_str("Content-Type: message/rfc822\r\n\r\n");
    }
    let parts = format!(
        "From: a@x.test\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n{}",
        "--b\r\nContent-Type: application/x-y\r\n\r\nx\r\n".repeat(20_000)
    );
    for raw in [nested, forwarded, parts, "From: a@x.test\r\nSubject: ".to_owned() + &"x".repeat(1 << 20)] {
        if let Mail::Message(found) = read(raw.as_bytes(), Fetched::Whole, &account()) {
            assert!(found.files.len() <= FILES_MAX && found.subject.len() <= SUBJECT_MAX);
        }
    }
}

#[test]
fn bytes_that_are_no_mail_are_skipped() {
    for raw in ["", "\r\n", "\0", "Autheder.b=\"x\";\r\n", "From", ":"] {
        assert!(matches!(read(raw.as_bytes(), Fetched::Whole, &account()), Mail::Skipped(_)), "{raw:?}");
    }
}
