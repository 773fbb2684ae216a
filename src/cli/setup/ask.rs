//! Questions at a terminal.

use crate::cli::{Done, Failure, print, read_line, tty};

/// Longest answer in bytes.
const ANSWER_MAX: usize = 8 << 10;

/// A person who can be asked, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// The person at the terminal.
    Person,
    /// No one: every answer is an option of the command.
    Options,
}

/// A numbered answer.
pub(super) struct Choice<'a> {
    pub(super) name: &'a str,
    pub(super) about: &'a str,
}

impl Ask {
    /// Whether there is a person to ask.
    pub(super) const fn is_person(self) -> bool {
        matches!(self, Self::Person)
    }

    /// Asks for a line of text; it may be empty.
    pub(super) fn line(self, question: &str) -> Result<String, Failure> {
        print::question(question)?;
        match read_line::read(&mut std::io::stdin().lock(), ANSWER_MAX)? {
            Some(Ok(line)) => Ok(String::from_utf8_lossy(&line).trim().to_owned()),
            Some(Err(why)) => {
                print::note(&why);
                self.line(question)
            }
            None => left(),
        }
    }

    /// Asks for a secret, which is not shown.
    pub(super) fn secret(self, question: &str) -> Result<String, Failure> {
        let typed = tty::read_hidden(question, ANSWER_MAX)?;
        // The line break was not shown either.
        print::note("");
        typed.map_or_else(left, |typed| Ok(String::from_utf8_lossy(&typed).trim().to_owned()))
    }

    /// Asks for one of several answers, by its number or name. An empty answer is the first one.
    pub(super) fn choose(self, choices: &[Choice<'_>]) -> Result<usize, Failure> {
        let width = choices.iter().map(|choice| choice.name.chars().count()).max().unwrap_or_default();
        let digits = choices.len().to_string().len();
        for (at, Choice { name, about }) in choices.iter().enumerate() {
            let text = format!("  {:digits$}  {name:width$}  {about}", at + 1);
            print::line(&fold(&text, width + digits + 6, columns()))?;
        }
        loop {
            let typed = self.line("Your choice [1]: ")?;
            let named = |choice: &Choice<'_>| choice.name.eq_ignore_ascii_case(&typed);
            let number = typed.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let chosen = if typed.is_empty() { Some(0) } else { number.or(choices.iter().position(named)) };
            match chosen.filter(|at| *at < choices.len()) {
                Some(at) => return Ok(at),
                None => print::note(&format!("Type a number from 1 to {}.", choices.len())),
            }
        }
    }

    /// Asks for yes or no. An empty answer is `default`.
    pub(super) fn yes(self, question: &str, default: bool) -> Result<bool, Failure> {
        let hint = if default { "[Y/n]" } else { "[y/N]" };
        loop {
            match self.line(&format!("{question} {hint}: "))?.to_lowercase().as_str() {
                "" => return Ok(default),
                "y" | "yes" => return Ok(true),
                "n" | "no" => return Ok(false),
                _ => print::note("Type y or n."),
            }
        }
    }

    /// Waits until the person presses Enter.
    pub(super) fn wait(self, question: &str) -> Done {
        self.line(question).map(drop)
    }
}

/// Widest text: longer lines are hard to read.
const COLUMNS_MAX: usize = 100;

/// Width of the terminal.
pub(super) fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.map_or(COLUMNS_MAX, |size| usize::from(size.ws_col)).clamp(40, COLUMNS_MAX)
}

/// Breaks a text between words into lines of at most so many columns. All lines but the first are indented.
pub(super) fn fold(text: &str, indent: usize, columns: usize) -> String {
    let mut lines = Vec::new();
    for paragraph in text.split('\n') {
        let mut line = if lines.is_empty() { String::new() } else { " ".repeat(indent) };
        let mut is_empty = true;
        for word in paragraph.split(' ') {
            if !is_empty && line.chars().count() + 1 + word.chars().count() > columns {
                lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(word);
            is_empty = false;
        }
        lines.push(line);
    }
    lines.join("\n")
}

/// The person ended the input.
fn left<T>() -> Result<T, Failure> {
    print::note("");
    Err(Failure::Failed("setup is not finished: `hearth setup` continues where it stopped".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::fold;

    #[test]
    fn long_lines_are_broken_between_words() {
        assert_eq!(fold("  1  a few words and more", 5, 13), "  1  a few\n     words\n     and more");
        assert_eq!(fold("one\ntwo", 2, 80), "one\n  two");
        assert_eq!(fold("https://a.very.long.address/", 2, 10), "https://a.very.long.address/");
        assert_eq!(fold("", 2, 80), "");
    }
}
