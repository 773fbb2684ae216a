//! Writes a mail: plain text and files, never HTML.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A mail to write.
#[derive(Debug, Clone)]
pub struct Draft<'a> {
    /// The sender's name.
    pub name: &'a str,
    /// The sender's address.
    pub from: &'a str,
    pub to: &'a str,
    pub subject: &'a str,
    /// Its id, without `<` and `>`.
    pub message_id: &'a str,
    /// The mails that it answers, the first one first.
    pub answers: &'a [String],
    /// The time, as mails have it.
    pub date: &'a str,
    pub text: &'a str,
}

/// A file to attach.
#[derive(Debug, Clone)]
pub struct File {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// The mail in the form in which it is sent, with lines of at most 998 bytes of ASCII.
#[must_use]
pub fn write(draft: &Draft<'_>, files: &[File]) -> Vec<u8> {
    let mut mail = String::new();
    let mut field = |name: &str, value: &str| mail.push_str(&format!("{name}: {value}\r\n"));
    let name = words(draft.name);
    field("From", &if name.is_empty() { format!("<{}>", draft.from) } else { format!("{name} <{}>", draft.from) });
    field("To", &format!("<{}>", draft.to));
    field("Subject", &words(draft.subject));
    field("Date", draft.date);
    field("Message-ID", &format!("<{}>", draft.message_id));
    if let Some(last) = draft.answers.last() {
        field("In-Reply-To", &format!("<{last}>"));
        let all: Vec<String> = draft.answers.iter().map(|id| format!("<{id}>")).collect();
        field("References", &all.join("\r\n "));
    }
    // So that no program answers it (RFC 3834).
    field("Auto-Submitted", if draft.answers.is_empty() { "auto-generated" } else { "auto-replied" });
    field("MIME-Version", "1.0");
    let text = format!(
        "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n{}\r\n",
        quoted_printable(draft.text)
    );
    if files.is_empty() {
        mail.push_str(&text);
        return mail.into_bytes();
    }
    // No line of quoted-printable text or base64 has `=_` in it.
    let boundary = format!("=_{}", draft.message_id.replace(|char: char| !char.is_ascii_alphanumeric(), "_"));
    let boundary: String = boundary.chars().take(60).collect();
    mail.push_str(&format!("Content-Type: multipart/mixed; boundary=\"{boundary}\"\r\n\r\n--{boundary}\r\n{text}"));
    for file in files {
        mail.push_str(&format!(
            "--{boundary}\r\nContent-Type: {}\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: attachment;\r\n {}\r\n\r\n",
            mime(&file.name),
            file_name(&file.name)
        ));
        let bytes = STANDARD.encode(&file.bytes);
        for line in bytes.as_bytes().chunks(76) {
            mail.push_str(&String::from_utf8_lossy(line));
            mail.push_str("\r\n");
        }
    }
    mail.push_str(&format!("--{boundary}--\r\n"));
    mail.into_bytes()
}

/// Text for a header: as it is if it is short and plain, else in encoded words (RFC 2047).
fn words(text: &str) -> String {
    let text: String = text.chars().map(|char| if char.is_control() { ' ' } else { char }).take(300).collect();
    let text = text.trim();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b" -_.!?/+'".contains(&byte);
    if text.len() <= 60 && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    for char in text.chars() {
        if word.len() + char.len_utf8() > 42 {
            words.push(std::mem::take(&mut word));
        }
        word.push(char);
    }
    words.push(word);
    let encoded: Vec<String> = words.iter().map(|word| format!("=?utf-8?B?{}?=", STANDARD.encode(word))).collect();
    encoded.join("\r\n ")
}

/// The parameter with a file's name (RFC 2231).
fn file_name(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let name: String = name.chars().filter(|char| !char.is_control()).take(150).collect();
    if name.bytes().all(plain) {
        return format!("filename=\"{name}\"");
    }
    let encoded =
        name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") });
    let bytes: Vec<String> = encoded.collect();
    let pieces = bytes.chunks(20).enumerate().map(|(number, piece)| {
        let charset = if number == 0 { "utf-8''" } else { "" };
        format!("filename*{number}*={charset}{}", piece.concat())
    });
    pieces.collect::<Vec<_>>().join(";\r\n ")
}

/// A media type by the end of a file's name.
fn mime(name: &str) -> &'static str {
    let end = name.rsplit_once('.').map_or("", |(_, end)| end).to_ascii_lowercase();
    match end.as_str() {
        "txt" | "log" | "md" => "text/plain",
        "csv" => "text/csv",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "mp3" => "audio/mpeg",
        "ogg" => "audio/ogg",
        "mp4" => "video/mp4",
        "zip" => "application/zip",
        "json" => "application/json",
        _ => "application/octet-stream",
    }
}

/// Text in lines of at most 76 characters (RFC 2045).
fn quoted_printable(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut result = String::new();
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            result.push_str("\r\n");
        }
        let (mut width, last) = (0, line.len().saturating_sub(1));
        for (at, byte) in line.bytes().enumerate() {
            let is_plain = byte.is_ascii_graphic() && byte != b'=' || byte == b' ' && at != last;
            // A mail program of old times would take `From ` and `.` at the start of a line for its own.
            let is_plain = is_plain && !(width == 0 && (byte == b'.' || byte == b'F'));
            let piece = if is_plain { char::from(byte).to_string() } else { format!("={byte:02X}") };
            if width + piece.len() > 75 {
                result.push_str("=\r\n");
                width = 0;
            }
            width += piece.len();
            result.push_str(&piece);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail_parser::{MessageParser, MimeHeaders as _};

    fn draft<'a>(text: &'a str, subject: &'a str, answers: &'a [String]) -> Draft<'a> {
        Draft {
            name: "Andy \"Ä\" <x@y>",
            from: "bot@own.test",
            to: "ann@friend.test",
            subject,
            message_id: "hearth.1@own.test",
            answers,
            date: "Mon, 20 Apr 2026 12:00:00 +0000",
            text,
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = "Größe 😀 = 1\n.\nFrom me \n\ttab\n".to_owned() + &"long ".repeat(100) + "end";
        let answers = ["a@x".to_owned(), "b@x".to_owned()];
        let files = [
            File { name: "note.txt".to_owned(), bytes: b"note".to_vec() },
            File { name: "Übersicht \"1\"; x=\r\nBcc: eve.pdf".to_owned(), bytes: (0..=255).collect() },
        ];
        for files in [&files[..], &[]] {
            let raw =
                write(&draft(&text, "Re: Größe und sehr viel mehr, was nicht in eine Zeile passt", &answers), files);
            let lines: Vec<&[u8]> = raw.split(|byte| *byte == b'\n').collect();
            assert!(lines.iter().all(|line| line.len() < 200 && line.is_ascii()), "{}", String::from_utf8_lossy(&raw));
            let mail = MessageParser::default().parse(&raw).unwrap();
            assert_eq!(mail.body_text(0).unwrap().replace("\r\n", "\n").trim_end(), text);
            assert_eq!(mail.subject(), Some("Re: Größe und sehr viel mehr, was nicht in eine Zeile passt"));
            assert_eq!(mail.message_id(), Some("hearth.1@own.test"));
            assert_eq!(mail.from().unwrap().first().unwrap().address.as_deref(), Some("bot@own.test"));
            assert_eq!(mail.from().unwrap().first().unwrap().name.as_deref(), Some("Andy \"Ä\" <x@y>"));
            assert_eq!(mail.references().as_text_list().unwrap().len(), 2);
            assert_eq!(mail.html_body_count(), usize::from(files.is_empty()).max(mail.text_body_count()));
            for (file, found) in files.iter().zip(mail.attachments()) {
                assert_eq!(found.contents(), file.bytes);
                let name: String = file.name.chars().filter(|char| !char.is_control()).collect();
                assert_eq!(found.attachment_name(), Some(name.as_str()));
            }
            assert_eq!(mail.attachment_count(), files.len());
        }
    }

    #[test]
    fn no_text_becomes_a_field() {
        let raw = write(&draft("x", "a\r\nBcc: eve@evil.test\r\n\r\nbody", &[]), &[]);
        let text = String::from_utf8(raw).unwrap();
        assert!(!text.contains("\nBcc") && text.contains("Auto-Submitted: auto-generated"), "{text}");
    }
}
