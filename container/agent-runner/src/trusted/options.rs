//! Words on the command line, as the programs that these commands replace read them: options may be shortened as long
//! as it is clear which is meant, and take their value from the next word or from behind `=`. Unlike there, a value may
//! begin with a hyphen.

/// What a command can be given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Its name.
    pub(crate) tool: &'static str,
    /// How it is used.
    pub(crate) usage: &'static str,
    /// Options with a value, with their hyphens.
    pub(crate) values: &'static [&'static str],
    /// Options without one.
    pub(crate) flags: &'static [&'static str],
}

/// Why a command does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Usage {
    /// It was asked how it is used.
    Help,
    /// What is wrong with the words.
    Wrong(String),
}

/// The words of a command line, sorted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    values: Vec<(&'static str, String)>,
    flags: Vec<&'static str>,
}

impl Given {
    /// The value of an option; the last one, if there are several.
    pub(crate) fn value(&self, option: &str) -> Option<&str> {
        self.all(option).last()
    }

    /// All values of an option in their order.
    pub(crate) fn all(&self, option: &str) -> impl Iterator<Item = &str> {
        self.values.iter().filter(move |(name, _)| *name == option).map(|(_, value)| value.as_str())
    }

    /// Whether an option without value was given.
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    /// The value of an option that must be there.
    ///
    /// # Errors
    /// That it is not.
    pub(crate) fn required(&self, option: &str) -> Result<&str, Usage> {
        self.value(option).ok_or_else(|| Usage::wrong(format!("the following arguments are required: {option}")))
    }

    /// The value of an option as a number.
    ///
    /// # Errors
    /// That it is none.
    pub(crate) fn number<N: std::str::FromStr>(&self, option: &str, default: N) -> Result<N, Usage> {
        let Some(text) = self.value(option) else { return Ok(default) };
        text.trim().parse().map_err(|_| Usage::wrong(format!("argument {option}: invalid int value: '{text}'")))
    }
}

impl Usage {
    /// Words that are wrong.
    pub(crate) fn wrong(what: impl Into<String>) -> Self {
        Self::Wrong(what.into())
    }
}

impl Options {
    /// Sorts the words.
    ///
    /// # Errors
    /// What is wrong with them, or that help is wanted.
    pub(crate) fn read(&self, words: &[String]) -> Result<Given, Usage> {
        let mut given = Given::default();
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

    fn read(words: &[&str]) -> Result<Given, Usage> {
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
