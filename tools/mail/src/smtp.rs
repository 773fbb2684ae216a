//! Submits a mail (RFC 5321). The server has it when it has read the line with the dot at the end: before, nothing was
//! sent; afterwards, only its answer says whether it was.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::connection::{Connection, Trouble, Trust};
use crate::settings::{Security, Settings};

/// Lines of an answer.
const LINES_MAX: usize = 100;

/// Why a mail was not sent for certain.
#[derive(Debug)]
pub(crate) enum NotSent {
    /// Nothing was sent; it may be tried again.
    Retry(String),
    /// It will never be accepted.
    Rejected(String),
    /// It may have been sent.
    Uncertain(String),
}

impl From<Trouble> for NotSent {
    fn from(trouble: Trouble) -> Self {
        Self::Retry(trouble.to_string())
    }
}

/// An answer of the server.
struct Answer {
    code: u16,
    lines: Vec<String>,
}

impl Answer {
    fn is_good(&self) -> bool {
        (200..400).contains(&self.code)
    }

    fn text(&self) -> String {
        let text = self.lines.join(" ");
        format!("the mail server says {} {}", self.code, text.chars().take(300).collect::<String>())
    }

    /// What a refusal of this mail means.
    fn refusal(&self) -> NotSent {
        if (500..600).contains(&self.code) { NotSent::Rejected(self.text()) } else { NotSent::Retry(self.text()) }
    }
}

pub(crate) struct Smtp {
    connection: Connection,
    /// The lines after `EHLO`, in upper case.
    can: Vec<String>,
}

impl Smtp {
    /// Connects and logs in.
    pub(crate) fn open(settings: &Settings, trust: &Trust, token: &str) -> Result<Self, Trouble> {
        let connection = Connection::open(&settings.smtp, trust)?;
        let mut smtp = Self { connection, can: Vec::new() };
        let greeting = smtp.answer()?;
        smtp.good(greeting)?;
        smtp.greet()?;
        if settings.smtp.security == Security::StartTls {
            let answer = smtp.ask("STARTTLS")?;
            smtp.good(answer)?;
            smtp.connection = smtp.connection.secured(&settings.smtp.host, trust)?;
            smtp.greet()?;
        }
        smtp.log_in(&settings.user, token)?;
        Ok(smtp)
    }

    fn greet(&mut self) -> Result<(), Trouble> {
        let answer = self.ask("EHLO [127.0.0.1]")?;
        self.can = answer.lines.iter().skip(1).map(|line| line.to_ascii_uppercase()).collect();
        self.good(answer)
    }

    fn log_in(&mut self, user: &str, token: &str) -> Result<(), Trouble> {
        let methods = self.can.iter().find_map(|line| line.strip_prefix("AUTH "));
        let Some(methods) = methods else {
            return Err(Trouble::Credentials("it offers no way to log in".to_owned()));
        };
        let knows = |name: &str| methods.split_ascii_whitespace().any(|method| method == name);
        let answer = if knows("PLAIN") {
            self.ask(&format!("AUTH PLAIN {}", STANDARD.encode(format!("\0{user}\0{token}"))))?
        } else if knows("LOGIN") {
            self.ask("AUTH LOGIN")?;
            self.ask(&STANDARD.encode(user))?;
            self.ask(&STANDARD.encode(token))?
        } else {
            return Err(Trouble::Credentials("it knows neither PLAIN nor LOGIN".to_owned()));
        };
        match answer.code {
            235 => Ok(()),
            500..600 => Err(Trouble::Credentials(answer.text())),
            _ => Err(Trouble::Odd(answer.text())),
        }
    }

    /// The most bytes of a mail that the server accepts, if it says so.
    pub(crate) fn size_max(&self) -> Option<usize> {
        let size = self.can.iter().find_map(|line| line.strip_prefix("SIZE "))?;
        size.trim().parse().ok().filter(|size| *size > 0)
    }

    /// Submits a mail. `begin` is called right before the server can have it; if that fails, it will not have it.
    pub(crate) fn submit(
        &mut self,
        from: &str,
        to: &str,
        mail: &[u8],
        begin: impl FnOnce() -> std::io::Result<()>,
    ) -> Result<(), NotSent> {
        let size = if self.size_max().is_some() { format!(" SIZE={}", mail.len()) } else { String::new() };
        for command in [format!("MAIL FROM:<{from}>{size}"), format!("RCPT TO:<{to}>"), "DATA".to_owned()] {
            let answer = self.ask(&command)?;
            if !answer.is_good() {
                return Err(answer.refusal());
            }
        }
        self.connection.write(&stuffed(mail))?;
        begin().map_err(|error| NotSent::Retry(error.to_string()))?;
        let uncertain = |trouble: Trouble| NotSent::Uncertain(format!("the mail server did not answer: {trouble}"));
        self.connection.write(b".\r\n").map_err(uncertain)?;
        let answer = self.answer().map_err(uncertain)?;
        if answer.is_good() { Ok(()) } else { Err(answer.refusal()) }
    }

    /// Ends the session, of which nothing is expected any more.
    pub(crate) fn quit(mut self) {
        drop(self.connection.write(b"QUIT\r\n"));
    }

    #[expect(clippy::unused_self, reason = "reads as a step of the session")]
    fn good(&self, answer: Answer) -> Result<(), Trouble> {
        if answer.is_good() { Ok(()) } else { Err(Trouble::Odd(answer.text())) }
    }

    fn ask(&mut self, command: &str) -> Result<Answer, Trouble> {
        if command.contains(['\r', '\n', '\0']) {
            return Err(Trouble::Odd("a command with more than one line".to_owned()));
        }
        self.connection.write(format!("{command}\r\n").as_bytes())?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Answer, Trouble> {
        let mut lines = Vec::new();
        loop {
            let line = self.connection.line()?;
            let text = String::from_utf8_lossy(&line);
            let odd = || Trouble::Odd("the mail server does not speak SMTP".to_owned());
            let code = text.get(..3).and_then(|code| code.parse().ok()).ok_or_else(odd)?;
            let is_last = !text.get(3..).unwrap_or_default().starts_with('-');
            lines.push(text.get(4..).unwrap_or_default().to_owned());
            if is_last {
                return Ok(Answer { code, lines });
            }
            if lines.len() > LINES_MAX {
                return Err(odd());
            }
        }
    }
}

/// The mail without the dot at its end, and with no other line that is one.
fn stuffed(mail: &[u8]) -> Vec<u8> {
    let mut stuffed = Vec::with_capacity(mail.len() + 2);
    let mut is_start = true;
    for byte in mail {
        if is_start && *byte == b'.' {
            stuffed.push(b'.');
        }
        stuffed.push(*byte);
        is_start = *byte == b'\n';
    }
    if !stuffed.ends_with(b"\r\n") {
        stuffed.extend_from_slice(b"\r\n");
    }
    stuffed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_a_mail_is_its_end() {
        assert_eq!(stuffed(b"a\r\n.\r\n..b\r\nc"), b"a\r\n..\r\n...b\r\nc\r\n");
        assert_eq!(stuffed(b"."), b"..\r\n");
    }
}
