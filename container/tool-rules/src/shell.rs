//! Shell commands as far as rules need them: simple commands with their words. Not a shell: what a command computes is not
//! known.

use crate::call::Place;
use crate::effect::Effect;
use crate::path;

/// Characters that end a word or give a shell more to do than to run one program.
const SPECIAL: [char; 16] = [';', '|', '&', '<', '>', '$', '`', '(', ')', '{', '}', '\n', '\r', '\\', '!', '#'];
/// How often a shell may be in a shell.
const NESTED_MAX: u32 = 4;

/// Programs that start the program after them.
const WRAPPERS: [&str; 16] = [
    "sudo", "doas", "env", "nohup", "time", "exec", "command", "builtin", "nice", "ionice", "xargs", "setsid",
    "stdbuf", "timeout", "busybox", "then",
];
/// Programs that run a text as a command.
const SHELLS: [&str; 6] = ["sh", "bash", "zsh", "dash", "ash", "eval"];
/// Programs that reach others.
const SENDERS: [&str; 42] = [
    "curl",
    "wget",
    "ssh",
    "scp",
    "sftp",
    "rsync",
    "nc",
    "ncat",
    "netcat",
    "socat",
    "telnet",
    "ftp",
    "mail",
    "mailx",
    "sendmail",
    "msmtp",
    "mutt",
    "gh",
    "glab",
    "aws",
    "gcloud",
    "az",
    "kubectl",
    "helm",
    "docker",
    "podman",
    "twine",
    "http",
    "https",
    "xh",
    "aria2c",
    "lftp",
    "openssl",
    "dig",
    "nslookup",
    "host",
    "ping",
    "psql",
    "mysql",
    "redis-cli",
    "mosquitto_pub",
    "rclone",
];
/// Programs that reach others with one of these words.
const SENDERS_WITH: [(&str, &[&str]); 13] = [
    ("git", &["push", "pull", "fetch", "clone", "ls-remote", "submodule", "send-email", "archive"]),
    ("npm", &["publish", "install", "i", "ci", "add", "update", "login", "exec"]),
    ("pnpm", &["publish", "install", "i", "add", "update", "dlx"]),
    ("yarn", &["publish", "install", "add", "npm", "dlx"]),
    ("npx", &[]),
    ("pip", &["install", "download"]),
    ("pip3", &["install", "download"]),
    ("uv", &["pip", "add", "sync", "publish"]),
    ("cargo", &["publish", "install", "add", "update", "fetch", "login"]),
    ("go", &["get", "install"]),
    ("gem", &["install", "push"]),
    ("apt", &["install", "update", "upgrade"]),
    ("apt-get", &["install", "update", "upgrade"]),
];
/// Programs that change the files that they name.
const WRITERS: [&str; 17] = [
    "rm", "rmdir", "mv", "cp", "tee", "touch", "mkdir", "ln", "chmod", "chown", "chgrp", "truncate", "dd", "install",
    "shred", "unlink", "mkfifo",
];

/// A program with its words, and the files that its output goes to.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Simple {
    pub(crate) words: Vec<String>,
    pub(crate) outputs: Vec<String>,
}

impl Simple {
    /// Without variables and programs that only start another one.
    pub(crate) fn bare(&self) -> &[String] {
        let mut words = self.words.as_slice();
        while let Some((first, rest)) = words.split_first() {
            let is_variable = first.split_once('=').is_some_and(|(name, _)| is_name(name));
            let wraps = WRAPPERS.contains(&program(first)) && !rest.is_empty();
            let is_option = words.len() < self.words.len() && (first.starts_with('-') || is_duration(first));
            if !is_variable && !wraps && (!is_option || rest.is_empty()) {
                break;
            }
            words = rest;
        }
        words
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_duration(text: &str) -> bool {
    text.trim_end_matches(['s', 'm', 'h']).parse::<f64>().is_ok()
}

fn program(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Words as a command.
pub(crate) fn of_words(words: &[&str]) -> String {
    let plain = |word: &str| !word.is_empty() && !word.contains(SPECIAL) && !word.contains([' ', '\t', '\'', '"', '*']);
    let quoted = |word: &&str| {
        if plain(word) { (*word).to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Whether a command runs one program, and gives the shell nothing else to do.
pub(crate) fn is_simple(command: &str) -> bool {
    !command.contains(SPECIAL)
}

/// The simple commands of a command, also those in substitutions and in nested shells.
pub(crate) fn parse(command: &str) -> Vec<Simple> {
    nested(command, 0)
}

fn nested(command: &str, depth: u32) -> Vec<Simple> {
    let mut found = Reader::read(command);
    if depth < NESTED_MAX {
        let inner: Vec<Simple> = found.iter().filter_map(inner).flat_map(|text| nested(&text, depth + 1)).collect();
        found.extend(inner);
    }
    found
}

/// The command in a nested shell.
fn inner(simple: &Simple) -> Option<String> {
    let (first, rest) = simple.bare().split_first()?;
    match program(first) {
        "eval" => Some(rest.join(" ")),
        shell if SHELLS.contains(&shell) => {
            let flag = rest.iter().position(|word| word.starts_with('-') && word.ends_with('c'))?;
            rest.get(flag + 1).cloned()
        }
        _ => None,
    }
}

/// Reads a command character by character.
#[derive(Debug, Default)]
struct Reader {
    done: Vec<Simple>,
    now: Simple,
    word: String,
    /// Whether the word exists, even if it is empty.
    is_word: bool,
    /// Whether the next word is where output goes.
    is_output: bool,
    quote: Option<char>,
}

impl Reader {
    fn read(command: &str) -> Vec<Simple> {
        let mut reader = Self::default();
        let mut chars = command.chars().peekable();
        while let Some(c) = chars.next() {
            match (reader.quote, c) {
                (Some('\''), '\'') | (Some('"'), '"') => reader.quote = None,
                (Some('\''), c) => reader.push(c),
                (_, '\\') => {
                    if let Some(next) = chars.next().filter(|next| *next != '\n') {
                        reader.push(next);
                    }
                }
                // What is substituted is a command of its own.
                (_, '$') if chars.peek() == Some(&'(') => {
                    reader.push('$');
                    reader.end_command();
                    reader.quote = None;
                }
                (_, '`') => {
                    reader.push('`');
                    reader.end_command();
                    reader.quote = None;
                }
                (Some(_), c) => reader.push(c),
                (None, '\'' | '"') => (reader.quote, reader.is_word) = (Some(c), true),
                (None, ' ' | '\t') => reader.end_word(),
                (None, ';' | '|' | '\n' | '\r' | '(' | ')') => reader.end_command(),
                (None, '&') if reader.is_output || chars.peek() == Some(&'>') => {}
                (None, '&') => reader.end_command(),
                (None, '{' | '}') if !reader.is_word => reader.end_command(),
                (None, '>') => {
                    reader.end_word();
                    reader.is_output = true;
                }
                (None, '<') => reader.end_word(),
                (None, c) => reader.push(c),
            }
        }
        reader.end_command();
        reader.done
    }

    fn push(&mut self, c: char) {
        self.word.push(c);
        self.is_word = true;
    }

    fn end_word(&mut self) {
        if !std::mem::take(&mut self.is_word) {
            return;
        }
        let word = std::mem::take(&mut self.word);
        if std::mem::take(&mut self.is_output) {
            self.now.outputs.push(word);
        } else {
            self.now.words.push(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.is_output = false;
        let simple = std::mem::take(&mut self.now);
        if simple != Simple::default() {
            self.done.push(simple);
        }
    }
}

/// What a command does, as far as it shows.
pub(crate) fn effect(command: &str, place: &Place) -> Effect {
    let mut directory = place.folder.clone();
    let mut effect = Effect::Shell;
    for simple in parse(command) {
        let found = of_simple(&simple, &directory, place);
        effect = effect.max(found);
        if let [first, target] = simple.bare()
            && matches!(first.as_str(), "cd" | "pushd")
        {
            let is_plain = !target.starts_with(['~', '-', '$', '`']);
            directory = if is_plain { path::resolve(&directory, target) } else { "/".to_owned() };
        }
    }
    effect
}

fn of_simple(simple: &Simple, directory: &str, place: &Place) -> Effect {
    let leaves = |word: &String| !is_device(word) && !place.holds(directory, word);
    let writes = |changes: bool| if changes { Effect::Writes } else { Effect::Shell };
    let outputs = simple.outputs.iter().any(|word| !is_descriptor(word) && leaves(word));
    let Some((first, rest)) = simple.bare().split_first() else { return writes(outputs) };
    let name = program(first);
    let with = SENDERS_WITH.iter().find(|(known, _)| *known == name);
    let sends = SENDERS.contains(&name)
        || with.is_some_and(|(_, words)| words.is_empty() || rest.iter().any(|word| words.contains(&word.as_str())));
    if sends {
        return Effect::Sends;
    }
    let edits = WRITERS.contains(&name)
        || (name == "sed" && rest.iter().any(|word| word.starts_with("-i") || word.starts_with("--in-place")))
        || (name == "find" && rest.iter().any(|word| matches!(word.as_str(), "-delete" | "-exec" | "-execdir")));
    let named = rest.iter().filter(|word| !word.starts_with('-')).any(leaves);
    writes(outputs || (edits && named))
}

fn is_device(word: &str) -> bool {
    matches!(word, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty")
}

/// Whether output goes to another descriptor, such as in `2>&1`.
fn is_descriptor(word: &str) -> bool {
    word == "-" || (word.len() == 1 && word.bytes().all(|byte| byte.is_ascii_digit()))
}
