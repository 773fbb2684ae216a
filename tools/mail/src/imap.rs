//! The part of IMAP4rev1 that the bridge needs: it only reads, and marks nothing.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::connection::{Connection, PATIENCE, Trouble, Trust};
use crate::headers::HEADER_BYTES_MAX;
use crate::settings::{Security, Settings};

/// Largest mail that is fetched, in bytes.
pub(crate) const MAIL_BYTES_MAX: usize = 40 << 20;
/// Answers to one command, so that a server cannot fill the memory.
const ANSWERS_MAX: usize = 100_000;

/// A line of the server, in which `{0}` stands for the first literal, and so on.
#[derive(Debug, Default)]
struct Answer {
    text: String,
    literals: Vec<Vec<u8>>,
}

/// A mailbox that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Selected {
    pub(crate) validity: u32,
    /// The number that the next mail gets.
    pub(crate) next: u32,
}

/// What is known of a mail before it is fetched.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) size: usize,
    /// When the server received it, in seconds since 1970.
    pub(crate) received: i64,
    pub(crate) header: Vec<u8>,
}

pub(crate) struct Imap {
    connection: Connection,
    tag: u32,
    capabilities: Vec<String>,
    /// The server said that there are mails since this was last cleared: it says so once, also amid other answers.
    pub(crate) has_news: bool,
}

impl Imap {
    /// Connects and logs in.
    pub(crate) fn open(settings: &Settings, trust: &Trust, token: &str) -> Result<Self, Trouble> {
        let connection = Connection::open(&settings.imap, trust)?;
        let mut imap = Self { connection, tag: 0, capabilities: Vec::new(), has_news: false };
        imap.answer()?;
        if settings.imap.security == Security::StartTls {
            imap.command("STARTTLS")?;
            imap.connection = imap.connection.secured(&settings.imap.host, trust)?;
        }
        imap.learn()?;
        imap.log_in(&settings.user, token)?;
        imap.learn()?;
        Ok(imap)
    }

    fn log_in(&mut self, user: &str, token: &str) -> Result<(), Trouble> {
        let refused = |trouble| match trouble {
            Trouble::Odd(why) => Trouble::Credentials(why),
            lost @ (Trouble::Lost(_) | Trouble::Credentials(_)) => lost,
        };
        if self.can("AUTH=PLAIN") && self.can("SASL-IR") {
            let plain = STANDARD.encode(format!("\0{user}\0{token}"));
            return self.command(&format!("AUTHENTICATE PLAIN {plain}")).map(drop).map_err(refused);
        }
        if token.bytes().any(|byte| !(byte == b' ' || byte.is_ascii_graphic())) {
            return Err(Trouble::Credentials("this server takes no token with other characters than ASCII".to_owned()));
        }
        self.command(&format!("LOGIN {} {}", quoted(user), quoted(token))).map(drop).map_err(refused)
    }

    fn learn(&mut self) -> Result<(), Trouble> {
        let answers = self.command("CAPABILITY")?;
        let words = answers.iter().filter_map(|answer| answer.text.strip_prefix("* CAPABILITY "));
        self.capabilities = words.flat_map(str::split_ascii_whitespace).map(str::to_ascii_uppercase).collect();
        Ok(())
    }

    pub(crate) fn can(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|known| known == capability)
    }

    /// Opens a mailbox, read only.
    pub(crate) fn examine(&mut self, mailbox: &str) -> Result<Selected, Trouble> {
        let answers = self.command(&format!("EXAMINE {}", quoted(mailbox)))?;
        let number = |name: &str| {
            let text = answers.iter().find_map(|answer| answer.text.split_once(name).map(|(_, rest)| rest));
            text.and_then(|rest| rest.split(']').next()?.trim().parse().ok())
        };
        match (number("[UIDVALIDITY "), number("[UIDNEXT ")) {
            (Some(validity), Some(next)) => Ok(Selected { validity, next }),
            _ => Err(Trouble::Odd("the server does not number the mails of this mailbox".to_owned())),
        }
    }

    /// The numbers of the mails that a search finds, in order.
    pub(crate) fn search(&mut self, what: &str) -> Result<Vec<u32>, Trouble> {
        let answers = self.command(&format!("UID SEARCH {what}"))?;
        let found = answers.iter().filter_map(|answer| answer.text.strip_prefix("* SEARCH"));
        let mut uids: Vec<u32> =
            found.flat_map(str::split_ascii_whitespace).filter_map(|word| word.parse().ok()).collect();
        uids.sort_unstable();
        uids.dedup();
        Ok(uids)
    }

    /// The header of a mail; none if it is gone.
    pub(crate) fn summary(&mut self, uid: u32) -> Result<Option<Summary>, Trouble> {
        let items = format!("(UID RFC822.SIZE INTERNALDATE BODY.PEEK[HEADER]<0.{HEADER_BYTES_MAX}>)");
        let answers = self.command(&format!("UID FETCH {uid} {items}"))?;
        let Some(answer) = fetched(&answers, uid) else { return Ok(None) };
        let after = |name: &str| answer.text.split_once(name).map(|(_, rest)| rest);
        let size = after("RFC822.SIZE ").and_then(|rest| rest.split([' ', ')']).next()?.parse().ok());
        let received = after("INTERNALDATE \"").and_then(|rest| date(rest.split('"').next()?));
        let header = answer.literals.first().cloned();
        match (size, received, header) {
            (Some(size), Some(received), Some(header)) => Ok(Some(Summary { size, received, header })),
            _ => Err(Trouble::Odd(format!("the server does not describe mail {uid}"))),
        }
    }

    /// A whole mail; none if it is gone.
    pub(crate) fn fetch(&mut self, uid: u32) -> Result<Option<Vec<u8>>, Trouble> {
        let mut answers = self.command(&format!("UID FETCH {uid} (UID BODY.PEEK[])"))?;
        let at = answers.iter().position(|answer| is_of(answer, uid) && !answer.literals.is_empty());
        Ok(at.and_then(|at| answers.swap_remove(at).literals.into_iter().next()))
    }

    /// The mailbox with copies of sent mails.
    pub(crate) fn sent_mailbox(&mut self) -> Result<Option<String>, Trouble> {
        let list = if self.can("SPECIAL-USE") { "LIST (SPECIAL-USE) \"\" \"*\"" } else { "LIST \"\" \"*\"" };
        let answers = self.command(list)?;
        let is_sent = |answer: &&Answer| {
            let flags = answer.text.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(flags, _)| flags);
            flags.is_some_and(|flags| flags.split(' ').any(|flag| flag.eq_ignore_ascii_case("\\Sent")))
        };
        let sent = answers.iter().filter(|answer| answer.text.starts_with("* LIST")).find(is_sent);
        Ok(sent.and_then(name_of))
    }

    /// Waits until something is in the mailbox that was not, or the time is over. A server that does not answer
    /// afterwards is not there any more.
    pub(crate) fn idle(&mut self, time: Duration) -> Result<(), Trouble> {
        let tag = self.send("IDLE")?;
        let mut answer = self.answer()?;
        while !answer.text.starts_with('+') {
            if answer.text.starts_with(&format!("{tag} ")) {
                return Err(Trouble::Odd(answer.text));
            }
            answer = self.answer()?;
        }
        self.connection.wait_at_most(time)?;
        let heard = loop {
            if self.has_news {
                break Ok(());
            }
            match self.answer() {
                Ok(answer) if answer.text.to_ascii_uppercase().starts_with("* BYE") => {
                    break Err(Trouble::Odd(answer.text));
                }
                // Some servers say from time to time that they are still there.
                Ok(_) => {}
                Err(trouble) if trouble.is_silence() => break Ok(()),
                Err(trouble) => break Err(trouble),
            }
        };
        self.connection.wait_at_most(PATIENCE / 2)?;
        heard?;
        self.connection.write(b"DONE\r\n")?;
        self.end(&tag)?;
        self.connection.wait_at_most(PATIENCE)
    }

    /// Asks whether the server is there.
    pub(crate) fn noop(&mut self) -> Result<(), Trouble> {
        self.command("NOOP").map(drop)
    }

    fn send(&mut self, command: &str) -> Result<String, Trouble> {
        if command.contains(['\r', '\n', '\0']) {
            return Err(Trouble::Odd("a command with more than one line".to_owned()));
        }
        self.tag += 1;
        let tag = format!("h{}", self.tag);
        self.connection.write(format!("{tag} {command}\r\n").as_bytes())?;
        Ok(tag)
    }

    fn command(&mut self, command: &str) -> Result<Vec<Answer>, Trouble> {
        let tag = self.send(command)?;
        self.end(&tag)
    }

    /// The answers up to the end of a command.
    fn end(&mut self, tag: &str) -> Result<Vec<Answer>, Trouble> {
        let mut answers = Vec::new();
        loop {
            let answer = self.answer()?;
            if let Some(result) = answer.text.strip_prefix(tag).and_then(|rest| rest.strip_prefix(' ')) {
                return match result.split(' ').next() {
                    Some(word) if word.eq_ignore_ascii_case("OK") => Ok(answers),
                    _ => {
                        Err(Trouble::Odd(format!("the server says: {}", result.chars().take(300).collect::<String>())))
                    }
                };
            }
            if answers.len() >= ANSWERS_MAX {
                return Err(Trouble::Odd("the server does not end its answer".to_owned()));
            }
            answers.push(answer);
        }
    }

    fn answer(&mut self) -> Result<Answer, Trouble> {
        let mut answer = Answer::default();
        let mut bytes = 0_usize;
        loop {
            let line = self.connection.line()?;
            let text = String::from_utf8_lossy(&line);
            let Some(count) = literal(&text) else {
                answer.text.push_str(&text);
                self.has_news |= answer.literals.is_empty() && is_news(&answer.text);
                return Ok(answer);
            };
            bytes = bytes.saturating_add(count).saturating_add(text.len());
            if bytes > MAIL_BYTES_MAX + HEADER_BYTES_MAX || answer.literals.len() > 100 {
                return Err(Trouble::Odd("the server sends more than it was asked for".to_owned()));
            }
            let before = text.rsplit_once('{').map_or("", |(before, _)| before);
            answer.text.push_str(&format!("{before}{{{}}}", answer.literals.len()));
            answer.literals.push(self.connection.bytes(count)?);
        }
    }
}

/// Whether an answer says how many mails there are, which it does when there are more.
fn is_news(text: &str) -> bool {
    let mut words = text.split(' ');
    words.next() == Some("*")
        && words.next().is_some_and(|count| count.bytes().all(|byte| byte.is_ascii_digit()))
        && words.next().is_some_and(|word| word.eq_ignore_ascii_case("EXISTS"))
}

/// The length of the literal that follows a line.
fn literal(line: &str) -> Option<usize> {
    line.strip_suffix('}')?.rsplit_once('{')?.1.parse().ok()
}

fn is_of(answer: &Answer, uid: u32) -> bool {
    let is_fetch = answer.text.strip_prefix("* ").and_then(|rest| rest.split_once(' '));
    let number = answer.text.split_once("UID ").and_then(|(_, rest)| rest.split([' ', ')']).next()?.parse().ok());
    is_fetch.is_some_and(|(_, rest)| rest.starts_with("FETCH ")) && number == Some(uid)
}

fn fetched(answers: &[Answer], uid: u32) -> Option<&Answer> {
    answers.iter().find(|answer| is_of(answer, uid) && !answer.literals.is_empty())
}

/// The name in an answer to `LIST`.
fn name_of(answer: &Answer) -> Option<String> {
    if let Some(literal) = answer.literals.first() {
        return String::from_utf8(literal.clone()).ok();
    }
    let rest = answer.text.split_once(") ")?.1;
    // After the separator of levels.
    let name = match rest.strip_prefix('"') {
        Some(quoted) => quoted.trim_start_matches('\\').split_once("\" ")?.1,
        None => rest.split_once(' ')?.1,
    };
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => Some(quoted.replace("\\\"", "\"").replace("\\\\", "\\")),
        None => Some(name.to_owned()),
    }
}

/// A string for a command. It has no control characters.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Seconds since 1970 of a date like `17-Jul-1996 02:44:25 -0700`.
fn date(text: &str) -> Option<i64> {
    let words: Vec<&str> = text.split([' ', '-', ':']).filter(|word| !word.is_empty()).collect();
    let [day, month, year, hour, minute, second, zone] = words.as_slice() else { return None };
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))?;
    let (month, day): (i64, i64) = (i64::try_from(month).ok()? + 1, day.parse().ok()?);
    let year: i64 = year.parse().ok().filter(|year| (1_900..10_000).contains(year))?;
    let (hour, minute, second): (i64, i64, i64) = (hour.parse().ok()?, minute.parse().ok()?, second.parse().ok()?);
    let zone_digits: i64 = zone.trim_start_matches('+').parse().ok()?;
    let is_west = text.rsplit(' ').next().is_some_and(|zone| zone.starts_with('-'));
    let zone = (zone_digits / 100 * 60 + zone_digits % 100) * if is_west { -60 } else { 60 };
    // Days since 1970 of a civil date, after Howard Hinnant.
    let shifted = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second - zone)
}

/// A day for a search, like `17-Jul-1996`, of seconds since 1970.
pub(crate) fn day(seconds: i64) -> String {
    let date = mail_parser::DateTime::from_timestamp(seconds);
    let month = MONTHS.get(usize::from(date.month.saturating_sub(1))).copied().unwrap_or("Jan");
    format!("{}-{month}-{}", date.day, date.year)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_server() {
        for (text, seconds) in [
            ("01-Jan-1970 00:00:00 +0000", 0),
            ("17-Jul-1996 02:44:25 -0700", 837_596_665),
            (" 1-Mar-2024 00:30:00 +0100", 1_709_249_400),
        ] {
            assert_eq!(date(text), Some(seconds), "{text}");
        }
        assert_eq!(day(837_596_665), "17-Jul-1996");
        for text in ["", "x", "1-Foo-2000 00:00:00 +0000", "1-Jan-99999999999999999999 00:00:00 +0000"] {
            assert_eq!(date(text), None);
        }
    }

    #[test]
    fn names_and_literals_are_read() {
        let answer = |text: &str| Answer { text: text.to_owned(), literals: Vec::new() };
        assert_eq!(name_of(&answer("* LIST (\\HasNoChildren \\Sent) \".\" Sent")).as_deref(), Some("Sent"));
        assert_eq!(
            name_of(&answer("* LIST (\\Sent) \"/\" \"[Gmail]/Sent Mail\"")).as_deref(),
            Some("[Gmail]/Sent Mail")
        );
        assert_eq!(name_of(&answer("* LIST (\\Sent) NIL \"a \\\"b\"")).as_deref(), Some("a \"b"));
        assert_eq!((literal("* 1 FETCH (BODY[] {42}"), literal("x {4} y"), literal("{-1}")), (Some(42), None, None));
        assert!(is_of(&answer("* 3 FETCH (UID 17 BODY[] {0})"), 17) && !is_of(&answer("* 3 FETCH (UID 171)"), 17));
    }
}
