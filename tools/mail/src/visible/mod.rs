//! The text that a person sees of an HTML mail. What is hidden from people is hidden from agents, too: text that only
//! agents read is how mails give them orders. What cannot be judged counts as hidden.

mod style;
mod tokens;

use style::{Colour, Effect, Sheets};
use tokens::{Tag, Token};

/// Deepest nesting that is followed.
const DEPTH_MAX: usize = 500;
/// Longest HTML that is read, in bytes.
const HTML_BYTES_MAX: usize = 4 << 20;

/// The text of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Visible {
    pub(crate) text: String,
    /// Something was left out.
    pub(crate) has_hidden: bool,
}

/// Elements without content.
const VOID: [&str; 14] =
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"];
/// Elements whose content is not shown.
const UNSEEN: [&str; 12] =
    ["template", "object", "applet", "audio", "video", "canvas", "svg", "dialog", "datalist", "select", "map", "math"];
/// Elements that begin a line.
const BLOCKS: [&str; 33] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "center",
    "dd",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "html",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "tr",
    "ul",
];
/// Elements that browsers open again after the end of one around them.
const FORMATTING: [&str; 14] =
    ["a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"];
/// Elements that no end tag of another element ends.
const SCOPES: [&str; 7] = ["table", "td", "th", "caption", "object", "marquee", "applet"];
/// Elements that the next of their kind ends.
const SINGLE: [&str; 8] = ["p", "li", "tr", "td", "th", "dt", "dd", "option"];

/// The visible text of HTML.
pub(crate) fn text(html: &str) -> Visible {
    let end = (0..=HTML_BYTES_MAX.min(html.len())).rev().find(|end| html.is_char_boundary(*end)).unwrap_or(0);
    let tokens = tokens::read(html.get(..end).unwrap_or_default());
    let mut sheets = Sheets::default();
    for token in &tokens {
        if let Token::Sheet(sheet) = token {
            sheets.add(sheet);
        }
    }
    let mut page = Page { sheets, open: Vec::new(), lines: Lines::default(), has_hidden: end < html.len() };
    for token in tokens {
        match token {
            Token::Text(text) => page.text(&text),
            Token::Open(tag) => page.open(&tag),
            Token::Close(name) => page.close(&name),
            Token::Sheet(_) => {}
        }
    }
    let has_hidden = page.has_hidden;
    Visible { text: page.lines.end(), has_hidden }
}

/// An open element.
#[derive(Clone)]
struct Element {
    name: String,
    /// What its own style does.
    effect: Effect,
    is_hidden: bool,
    colour: Colour,
    background: Colour,
}

struct Page {
    sheets: Sheets,
    open: Vec<Element>,
    lines: Lines,
    has_hidden: bool,
}

impl Page {
    fn top(&self) -> Element {
        let (name, effect) = (String::new(), Effect::default());
        let page = Element { name, effect, is_hidden: false, colour: [0; 3], background: [255; 3] };
        self.open.last().cloned().unwrap_or(page)
    }

    fn text(&mut self, text: &str) {
        let top = self.top();
        if top.is_hidden || !style::can_be_read(top.colour, top.background) {
            self.has_hidden |= !text.trim().is_empty();
            return;
        }
        if self.open.iter().any(|element| element.name == "pre") {
            for (number, line) in text.split('\n').enumerate() {
                if number > 0 {
                    self.lines.end_line();
                }
                self.lines.line.push_str(line.trim_end_matches('\r'));
            }
        } else {
            self.lines.words(text);
        }
    }

    fn open(&mut self, tag: &Tag) {
        let name = tag.name.as_str();
        if SINGLE.contains(&name) && self.open.last().is_some_and(|last| last.name == name) {
            self.close(name);
        }
        // A block ends a paragraph.
        if BLOCKS.contains(&name) && self.open.last().is_some_and(|last| last.name == "p") {
            self.close("p");
        }
        let around = self.top();
        if !around.is_hidden {
            self.begin(name);
        }
        if VOID.contains(&name) {
            return;
        }
        let effect = self.sheets.effect(tag);
        // What is nested deeper is not followed, so what it is in is not known.
        let too_deep = self.open.len() >= DEPTH_MAX;
        if too_deep {
            if let Some(last) = self.open.last_mut() {
                last.is_hidden = true;
            }
            self.has_hidden = true;
            return;
        }
        let hides = effect.hides || UNSEEN.contains(&name);
        self.push(name.to_owned(), Effect { hides, ..effect });
        if name == "blockquote" && !self.top().is_hidden {
            self.lines.quotes += 1;
        }
    }

    /// An element within the innermost one.
    fn push(&mut self, name: String, effect: Effect) {
        let around = self.top();
        self.open.push(Element {
            name,
            effect,
            is_hidden: around.is_hidden || effect.hides,
            colour: effect.colour.unwrap_or(around.colour),
            background: effect.background.unwrap_or(around.background),
        });
    }

    /// What a start tag does to the lines.
    fn begin(&mut self, name: &str) {
        match name {
            "br" => self.lines.end_line(),
            "td" | "th" => self.lines.words(" "),
            "li" => {
                self.lines.end_block();
                self.lines.line.push_str("- ");
            }
            name if BLOCKS.contains(&name) => {
                self.lines.end_block();
                if matches!(name, "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "blockquote") {
                    self.lines.empty_line();
                }
            }
            _ => {}
        }
    }

    fn close(&mut self, name: &str) {
        let from = self.open.iter().rposition(|element| element.name == name);
        let Some(from) = from else { return };
        let crossed = self.open.get(from + 1..).unwrap_or_default();
        let is_table_part = ["table", "tr", "td", "th", "tbody", "thead", "tfoot", "caption"].contains(&name);
        let barrier = |element: &Element| {
            if is_table_part { element.name == "table" } else { SCOPES.contains(&element.name.as_str()) }
        };
        if name != "table" && crossed.iter().any(barrier) {
            return;
        }
        let closed = self.open.split_off(from);
        let reopens = !SCOPES.contains(&name) && !FORMATTING.contains(&name);
        for element in closed {
            if element.name == "blockquote" && !element.is_hidden {
                self.lines.end_block();
                self.lines.quotes = self.lines.quotes.saturating_sub(1);
            }
            if BLOCKS.contains(&element.name.as_str()) && !element.is_hidden {
                self.lines.end_block();
            }
            if reopens && FORMATTING.contains(&element.name.as_str()) {
                self.push(element.name, element.effect);
            }
        }
    }
}

/// The text so far.
#[derive(Default)]
struct Lines {
    done: String,
    line: String,
    quotes: usize,
}

impl Lines {
    /// Adds words; spaces are one.
    fn words(&mut self, text: &str) {
        for char in text.chars() {
            if matches!(char, ' ' | '\t' | '\n' | '\r' | '\u{c}' | '\u{a0}') {
                if !self.line.is_empty() && !self.line.ends_with(' ') {
                    self.line.push(' ');
                }
            } else {
                self.line.push(char);
            }
        }
    }

    /// Ends a line, which may be empty.
    fn end_line(&mut self) {
        let mark = "> ".repeat(self.quotes.min(8));
        self.done.push_str(format!("{mark}{}", self.line).trim_end());
        self.done.push('\n');
        self.line.clear();
    }

    fn end_block(&mut self) {
        if self.line.trim().is_empty() {
            self.line.clear();
        } else {
            self.end_line();
        }
    }

    fn empty_line(&mut self) {
        if !self.done.is_empty() && !self.done.ends_with("\n\n") {
            self.end_line();
        }
    }

    fn end(mut self) -> String {
        self.end_block();
        let mut text = self.done.trim_matches('\n').to_owned();
        while text.contains("\n\n\n") {
            text = text.replace("\n\n\n", "\n\n");
        }
        text
    }
}

#[cfg(test)]
mod tests;
