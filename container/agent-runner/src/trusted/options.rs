//! Parses command lines like the programs that these commands replace: options may be abbreviated if they stay unique,
//! and their value is the next word or follows `=`. Unlike there, a value may begin with a hyphen.

/// The command line of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// The command's name.
    pub(crate) tool: &'static str,
    /// Its usage text.
    pub(crate) usage: &'static str,
    /// Options with a value, including their hyphens.
    pub(crate) values: &'static [&'static str],
    /// Options without one.
    pub(crate) flags: &'static [&'static str],
}

/// Why a command does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Usage {
    /// Help was requested.
    Help,
    /// The arguments are wrong.
    Wrong(String),
}

/// The parsed arguments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ParsedArgs {
    values: Vec<(&'static str, String)>,
    flags: Vec<&'static str>,
}

impl ParsedArgs {
    /// The last value of an option.
    pub(crate) fn value(&self, option: &str) -> Option<&str> {
        self.all(option).last()
    }

    /// All values of an option, in order.
    pub(crate) fn all(&self, option: &str) -> impl Iterator<Item = &str> {
        self.values.iter().filter(move |(name, _)| *name == option).map(|(_, value)| value.as_str())
    }

    /// Whether a flag was given.
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    /// The value of a required option.
    ///
    /// # Errors
    /// If it is missing.
    pub(crate) fn required(&self, option: &str) -> Result<&str, Usage> {
        self.value(option).ok_or_else(|| Usage::wrong(format!("the following arguments are required: {option}")))
    }

    /// The value of an option as a number.
    ///
    /// # Errors
    /// If it is not a number.
    pub(crate) fn number<N: std::str::FromStr>(&self, option: &str, default: N) -> Result<N, Usage> {
        let Some(text) = self.value(option) else { return Ok(default) };
        text.trim().parse().map_err(|_| Usage::wrong(format!("argument {option}: invalid int value: '{text}'")))
    }
}

impl Usage {
    /// An error about the arguments.
    pub(crate) fn wrong(what: impl Into<String>) -> Self {
        Self::Wrong(what.into())
    }
}

impl Options {
    /// Parses the arguments.
    ///
    /// # Errors
    /// What is wrong with them, or a request for help.
    pub(crate) fn read(&self, words: &[String]) -> Result<ParsedArgs, Usage> {
        let mut given = ParsedArgs::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (name, joined) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => (word.as_str(), None),
            };
            match self.option(name)? {
                Known::Help => return Err(Usage::Help),
                Known::Flag(flag) if joined.is_none() => given.flags.push(flag),
                Known::Flag(flag) => return Err(Usage::wrong(format!("argument {flag}: takes no value"))),
                Known::Value(option) => {
                    let value = joined.or_else(|| words.next().cloned());
                    let missing = || Usage::wrong(format!("argument {option}: expected one argument"));
                    given.values.push((option, value.ok_or_else(missing)?));
                }
            }
        }
        Ok(given)
    }

    fn option(&self, word: &str) -> Result<Known, Usage> {
        let flags = self.flags.iter().map(|flag| (*flag, Known::Flag(flag)));
        let values = self.values.iter().map(|value| (*value, Known::Value(value)));
        let all = flags.chain(values).chain([("--help", Known::Help)]);
        let matching: Vec<_> = all.filter(|(name, _)| word.len() > 2 && name.starts_with(word)).collect();
        if let Some((_, known)) = matching.iter().find(|(name, _)| *name == word) {
            return Ok(*known);
        }
        match matching.as_slice() {
            _ if word == "-h" => Ok(Known::Help),
            [] => Err(Usage::wrong(format!("unrecognized arguments: {word}"))),
            [(_, known)] => Ok(*known),
            several => {
                let names: Vec<_> = several.iter().map(|(name, _)| *name).collect();
                Err(Usage::wrong(format!("ambiguous option: {word} could match {}", names.join(", "))))
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Known {
    Help,
    Flag(&'static str),
    Value(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: Options =
        Options { tool: "t", usage: "usage: t", values: &["--line", "--lines-file", "--date"], flags: &["--fast"] };

    fn read(words: &[&str]) -> Result<ParsedArgs, Usage> {
        OPTIONS.read(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_in_all_their_forms() {
        let given = read(&["--line", "- a", "--line=-b=c", "--da", "d", "--line", "--date", "--f"]).unwrap();
        assert_eq!(given.all("--line").collect::<Vec<_>>(), ["- a", "-b=c", "--date"]);
        assert_eq!((given.value("--date"), given.has("--fast"), given.value("--lines-file")), (Some("d"), true, None));
    }

    #[test]
    fn what_is_not_clear_is_refused() {
        for (words, message) in [
            (vec!["x"], "unrecognized arguments: x"),
            (vec!["--what"], "unrecognized arguments: --what"),
            (vec!["--"], "unrecognized arguments: --"),
            (vec!["--date"], "argument --date: expected one argument"),
            (vec!["--lin", "x"], "ambiguous option: --lin could match --line, --lines-file"),
            (vec!["--fast=1"], "argument --fast: takes no value"),
        ] {
            assert_eq!(read(&words), Err(Usage::wrong(message)), "{words:?}");
        }
        assert_eq!(read(&["--he"]), Err(Usage::Help));
        assert_eq!(read(&["-h"]), Err(Usage::Help));
    }
}
