//! Tests of all commands at once.

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use super::Cli;

/// The words of every command that people see, each with its options.
fn commands() -> Vec<(Vec<String>, clap::Command)> {
    let mut found: Vec<(Vec<String>, clap::Command)> = Vec::new();
    let mut left = vec![(vec!["hearth".to_owned()], Cli::command())];
    while let Some((words, command)) = left.pop() {
        for child in command.get_subcommands().filter(|child| !child.is_hide_set() && child.get_name() != "help") {
            left.push(([&words[..], &[child.get_name().to_owned()]].concat(), child.clone()));
        }
        found.push((words, command));
    }
    found
}

fn told(words: &[String]) -> clap::Error {
    Cli::command().try_get_matches_from(words).unwrap_err()
}

#[test]
fn no_command_takes_a_limit_of_nothing() {
    let mut tried = 0;
    for (words, command) in commands() {
        if command.get_arguments().any(|argument| argument.get_long() == Some("limit")) {
            let error = told(&[&words[..], &["--limit".to_owned(), "0".to_owned()]].concat());
            assert_eq!(error.kind(), ErrorKind::ValueValidation, "{words:?}: {error}");
            assert!(error.to_string().contains("it must be at least 1"), "{words:?}: {error}");
            tried += 1;
        }
    }
    assert!(tried >= 10, "{tried} commands with --limit");
}

#[test]
fn help_explains_commands_within_commands() {
    for (words, _) in commands().into_iter().filter(|(words, _)| words.len() > 1) {
        let by_word = told(&[&["hearth".to_owned(), "help".to_owned()], &words[1..]].concat());
        let by_option = told(&[&words[..], &["--help".to_owned()]].concat());
        assert_eq!(by_word.kind(), ErrorKind::DisplayHelp, "{words:?}: {by_word}");
        assert_eq!(by_word.to_string(), by_option.to_string(), "{words:?}");
    }
}
