//! Mails, as `hearth-mail` reads them.

use hearth_mail::compose::{self, Draft, File};
use hearth_mail::message::{self, Account, Fetched, Mail};
use hearth_mail::{is_address, visible_text};

/// A mail: the same each time, bounded, and with a sender who is verified only by the topmost result of the own server. An
/// answer to it has the fields that it should have, and no others.
pub fn mail(bytes: &[u8]) {
    let account = Account { address: "bot@own.test".to_owned(), authserv_id: Some("mail.test".to_owned()) };
    let page = String::from_utf8_lossy(bytes);
    assert_eq!(visible_text(&page), visible_text(&page));
    let found = message::read(bytes, Fetched::Whole, &account);
    assert_eq!(found, message::read(bytes, Fetched::Whole, &account));
    let Mail::Message(written) = found else { return };
    assert!(is_address(&written.from) && written.from != account.address, "{written:?}");
    let is_shown = |text: &str| text.chars().all(|char| matches!(char, '\n' | '\t') || !char.is_control());
    assert!(is_shown(&written.text) && written.text.len() < 210_000, "{}", written.text.len());
    assert!(is_shown(&written.subject) && !written.subject.contains('\n'), "{:?}", written.subject);
    assert!(written.files.len() <= 32);
    assert_ne!(written.is_verified, written.id.starts_with("unverified:"));
    let above = |field: &str| match message::read(&[field.as_bytes(), bytes].concat(), Fetched::Whole, &account) {
        Mail::Message(written) => written.is_verified,
        Mail::Skipped(_) => false,
    };
    assert!(!above("Authentication-Results: mx.test; none\r\n"), "only the topmost result counts");
    assert!(!above("Authentication-Results: mail.test; dkim=fail\r\n"), "only the topmost result counts");
    answer(&written);
}

fn answer(written: &message::Written) {
    let answers: Vec<String> = written.thread.iter().chain(&written.message_id).cloned().collect();
    let file = |name: &String| File { name: name.clone(), bytes: written.text.clone().into_bytes() };
    let files: Vec<File> = written.files.iter().filter_map(|file| file.name.as_ref()).map(file).take(2).collect();
    let draft = Draft {
        name: written.name.as_deref().unwrap_or_default(),
        from: "andy@own.test",
        to: &written.from,
        subject: &written.subject,
        message_id: "hearth.1@own.test",
        answers: &answers,
        date: "Mon, 20 Apr 2026 12:00:00 +0000",
        text: &written.text,
    };
    let raw = compose::write(&draft, &files);
    let text = std::str::from_utf8(&raw).expect("a mail is ASCII");
    assert!(text.split("\r\n").all(|line| line.len() <= 998 && line.is_ascii() && !line.contains(['\r', '\n'])));
    let (head, _) = text.split_once("\r\n\r\n").expect("a mail has a header");
    let names: Vec<&str> = head
        .split("\r\n")
        .filter(|line| !line.starts_with([' ', '\t']))
        .map(|line| line.split_once(':').expect("a field has a name").0)
        .collect();
    for name in ["From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "MIME-Version", "Content-Type"] {
        assert_eq!(names.iter().filter(|found| **found == name).count(), 1, "{name}: {head}");
    }
    assert!(names.len() <= 11, "{head}");
    // Hearth answers no automatic mail, and so not its own.
    let other = Account { address: "other@x.test".to_owned(), authserv_id: None };
    assert!(matches!(message::read(&raw, Fetched::Whole, &other), Mail::Skipped(_)));
}
