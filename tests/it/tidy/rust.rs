//! A minimal lexer for the house rules: code without comments and string contents, and the paths in it.

/// A path in code, such as `crate::state::Store`, with imports written out one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) line: usize,
    pub(super) segments: Vec<String>,
}

/// The text with comments, strings and characters blanked; line breaks stay where they are.
pub(super) fn code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = blank_end(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
        } else {
            code.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// End of the comment, string or character that begins here; `at` itself if none does.
fn blank_end(chars: &[char], at: usize) -> usize {
    let rest = &chars[at..];
    let until = |found: Option<usize>, length: usize| found.map_or(chars.len(), |found| at + found + length);
    let word_before = at > 0 && is_word(chars[at - 1]);
    match rest {
        ['/', '/', ..] => until(rest.iter().position(|&c| c == '\n'), 0),
        ['/', '*', ..] => until(rest.windows(2).position(|pair| pair == ['*', '/']), 2),
        ['r', '"' | '#', ..] if !word_before => raw_string_end(chars, at),
        ['"', ..] => quoted_end(chars, at, '"'),
        ['\'', '\\', ..] => quoted_end(chars, at, '\''),
        ['\'', _, '\'', ..] => at + 3,
        _ => at,
    }
}

fn quoted_end(chars: &[char], at: usize, quote: char) -> usize {
    let mut at = at + 1;
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

fn raw_string_end(chars: &[char], at: usize) -> usize {
    let hashes = chars[at + 1..].iter().take_while(|&&c| c == '#').count();
    if chars.get(at + 1 + hashes) != Some(&'"') {
        return at;
    }
    let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let body = at + 2 + hashes;
    let found = chars[body.min(chars.len())..].windows(end.len()).position(|window| window == end);
    found.map_or(chars.len(), |found| body + found + end.len())
}

/// The code without `#[cfg(test)] mod …`, whose lines are blanked.
pub(super) fn production(code: &str) -> String {
    let mut kept = Vec::new();
    let mut skipping = false;
    let mut marked = false;
    for line in code.lines() {
        let is_module = line.starts_with("mod ") || line.starts_with("pub mod ") || line.starts_with("pub(crate) mod ");
        let starts = marked && is_module;
        let test = skipping || starts;
        kept.push(if test { "" } else { line });
        if starts {
            skipping = !line.trim_end().ends_with([';', '}']);
        } else if skipping && line.starts_with('}') {
            skipping = false;
        }
        marked = line.trim() == "#[cfg(test)]";
    }
    kept.join("\n")
}

/// Every path of the code.
pub(super) fn paths(code: &str) -> Vec<Path> {
    let mut reader = Reader { chars: code.chars().collect(), at: 0, line: 1, found: Vec::new() };
    while reader.at < reader.chars.len() {
        if is_word(reader.chars[reader.at]) {
            reader.path(Vec::new());
        } else {
            reader.step();
        }
    }
    reader.found
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    line: usize,
    found: Vec<Path>,
}

impl Reader {
    fn step(&mut self) {
        if self.chars.get(self.at) == Some(&'\n') {
            self.line += 1;
        }
        self.at += 1;
    }

    fn skip_space(&mut self) {
        while self.chars.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.step();
        }
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(&c) = self.chars.get(self.at).filter(|c| is_word(**c)) {
            word.push(c);
            self.at += 1;
        }
        word
    }

    /// Reads a path that begins here, with `before` as its prefix. Groups in braces become one path each.
    fn path(&mut self, before: Vec<String>) {
        let mut segments = before;
        let line = self.line;
        segments.push(self.word());
        while self.chars[self.at..].starts_with(&[':', ':']) {
            match self.chars.get(self.at + 2) {
                Some('{') => return self.group(&segments),
                Some(&c) if is_word(c) => {
                    self.at += 2;
                    segments.push(self.word());
                }
                _ => break,
            }
        }
        self.found.push(Path { line, segments });
    }

    fn group(&mut self, before: &[String]) {
        self.at += 3;
        loop {
            self.skip_space();
            match self.chars.get(self.at) {
                None => return,
                Some('}') => return self.step(),
                Some(&c) if is_word(c) => self.path(before.to_vec()),
                Some(_) => self.step(),
            }
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Names that the code defines, with their kind.
pub(super) fn definitions(code: &str) -> Vec<(usize, String)> {
    const KINDS: [&str; 6] = ["struct", "enum", "trait", "type", "union", "mod"];
    let words: Vec<Path> = paths(code).into_iter().filter(|path| path.segments.len() == 1).collect();
    let pairs = words.windows(2).filter(|pair| KINDS.contains(&pair[0].segments[0].as_str()));
    pairs.map(|pair| (pair[1].line, pair[1].segments[0].clone())).collect()
}

/// The words of a name: `DeviceManager` and `device_manager` have the words `device` and `manager`.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        if c == '_' || c.is_uppercase() {
            words.push(String::new());
        }
        if c != '_' {
            words.last_mut().unwrap().extend(c.to_lowercase());
        }
    }
    words
}
