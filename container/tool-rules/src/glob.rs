//! Texts with wildcards. `*` stands for any characters, `\` takes the meaning from the next character.

/// One part of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Char(char),
    /// Any characters except `/`.
    Some,
    /// Any characters.
    All,
}

/// What `*` does not stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Star {
    /// Nothing: it stands for any character.
    Any,
    /// A slash; `**` does.
    WithinName,
}

/// Reads a pattern.
pub(crate) fn parts(text: &str, star: Star) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let part = match (c, star) {
            ('\\', _) => chars.next().map_or(Part::Char('\\'), Part::Char),
            ('*', Star::Any) => Part::All,
            ('*', Star::WithinName) => Part::Some,
            _ => Part::Char(c),
        };
        match (parts.last_mut(), part) {
            (Some(last @ (Part::Some | Part::All)), Part::Some) => *last = Part::All,
            (Some(Part::All), Part::All) => {}
            _ => parts.push(part),
        }
    }
    parts
}

/// Whether a pattern matches the whole text.
pub(crate) fn matches(parts: &[Part], text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    // The positions in the text that the parts so far can end at.
    let mut ends = vec![false; text.len() + 1];
    if let Some(first) = ends.first_mut() {
        *first = true;
    }
    for part in parts {
        let mut next = vec![false; ends.len()];
        let mut open = false;
        for (at, slot) in next.iter_mut().enumerate() {
            let before = at.checked_sub(1);
            let here = before.and_then(|before| text.get(before)).copied();
            let reached = |at: Option<usize>| at.and_then(|at| ends.get(at)).copied().unwrap_or(false);
            *slot = match part {
                Part::Char(c) => here == Some(*c) && reached(before),
                Part::All => {
                    open |= reached(Some(at));
                    open
                }
                Part::Some => {
                    open = reached(Some(at)) || (open && here != Some('/'));
                    open
                }
            };
        }
        ends = next;
    }
    ends.last().copied().unwrap_or(false)
}

/// A text as a pattern that matches only this text.
pub(crate) fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut all, c| {
        if matches!(c, '*' | '\\') {
            all.push('\\');
        }
        all.push(c);
        all
    })
}
