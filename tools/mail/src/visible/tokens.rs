//! Cuts HTML into tags and text.

use mail_parser::decoders::html::add_html_token;

/// Elements whose content is not HTML.
const RAW: [&str; 8] = ["script", "style", "title", "textarea", "iframe", "noembed", "noframes", "xmp"];
/// Attributes of a tag that are read.
const ATTRIBUTES_MAX: usize = 100;

/// A piece of HTML.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Text without entities.
    Text(String),
    /// A start tag.
    Open(Tag),
    /// The name of an end tag.
    Close(String),
    /// A style sheet.
    Sheet(String),
}

/// A start tag.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) name: String,
    pub(super) attributes: Vec<Attribute>,
}

/// An attribute, its name in lower case.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) value: String,
}

impl Tag {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|attribute| attribute.name == name).map(|attribute| attribute.value.as_str())
    }
}

/// Reads all of it.
pub(super) fn read(html: &str) -> Vec<Token> {
    let (mut tokens, mut rest) = (Vec::new(), html);
    while !rest.is_empty() {
        let at = rest.find('<').unwrap_or(rest.len());
        let (text, tail) = rest.split_at(at);
        if !text.is_empty() {
            tokens.push(Token::Text(decoded(text)));
        }
        rest = markup(tail, &mut tokens);
    }
    tokens
}

/// Reads what begins with `<`; returns the rest.
fn markup<'a>(tail: &'a str, tokens: &mut Vec<Token>) -> &'a str {
    let Some(inner) = tail.strip_prefix('<') else { return tail };
    if let Some(comment) = inner.strip_prefix("!--") {
        // `<!-->` is a whole comment.
        if let Some(rest) = comment.strip_prefix('>').or_else(|| comment.strip_prefix("->")) {
            return rest;
        }
        return comment.split_once("-->").or_else(|| comment.split_once("--!>")).map_or("", |(_, rest)| rest);
    }
    let end_tag = inner.strip_prefix('/');
    let named = end_tag.unwrap_or(inner);
    if !named.starts_with(|char: char| char.is_ascii_alphabetic()) {
        if inner.starts_with(['!', '?']) || end_tag.is_some() {
            return inner.split_once('>').map_or("", |(_, rest)| rest);
        }
        tokens.push(Token::Text("<".to_owned()));
        return inner;
    }
    let (tag, rest) = tag(named);
    if end_tag.is_some() {
        tokens.push(Token::Close(tag.name));
        return rest;
    }
    if !RAW.contains(&tag.name.as_str()) {
        tokens.push(Token::Open(tag));
        return rest;
    }
    let (content, rest) = raw(rest, &tag.name);
    match tag.name.as_str() {
        "style" => tokens.push(Token::Sheet(content.to_owned())),
        "textarea" | "xmp" => tokens.push(Token::Text(decoded(content))),
        _ => {}
    }
    rest
}

/// The content of an element up to its end tag.
fn raw<'a>(text: &'a str, name: &str) -> (&'a str, &'a str) {
    let mut from = 0;
    while let Some(found) = text.get(from..).and_then(|rest| rest.find("</")) {
        let at = from + found;
        let end = text.get(at + 2..).unwrap_or_default();
        if end.get(..name.len()).is_some_and(|word| word.eq_ignore_ascii_case(name)) {
            let rest = end.split_once('>').map_or("", |(_, rest)| rest);
            return (text.get(..at).unwrap_or_default(), rest);
        }
        from = at + 2;
    }
    (text, "")
}

/// A tag after its `<`, and what follows its `>`. A tag without an end takes the rest, as in browsers.
fn tag(text: &str) -> (Tag, &str) {
    let ends = |char: char| char.is_ascii_whitespace() || char == '/' || char == '>';
    let (name, mut rest) = text.split_at(text.find(ends).unwrap_or(text.len()));
    let mut tag = Tag { name: name.to_ascii_lowercase(), attributes: Vec::new() };
    loop {
        rest = rest.trim_start_matches(|char: char| char.is_ascii_whitespace() || char == '/');
        if rest.is_empty() {
            return (tag, "");
        }
        if let Some(rest) = rest.strip_prefix('>') {
            return (tag, rest);
        }
        // An `=` at the start belongs to the name.
        let end = rest.char_indices().skip(1).find(|(_, char)| ends(*char) || *char == '=');
        let (name, after) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
        let (value, after) = match after.trim_start().strip_prefix('=') {
            Some(value) => self::value(value.trim_start()),
            None => ("", after),
        };
        rest = after;
        let name = name.to_ascii_lowercase();
        if tag.attributes.len() < ATTRIBUTES_MAX && tag.get(&name).is_none() {
            tag.attributes.push(Attribute { name, value: decoded(value) });
        }
    }
}

/// The value of an attribute, and what follows.
fn value(text: &str) -> (&str, &str) {
    for quote in ['"', '\''] {
        if let Some(quoted) = text.strip_prefix(quote) {
            return quoted.split_once(quote).unwrap_or((quoted, ""));
        }
    }
    text.split_at(text.find(|char: char| char.is_ascii_whitespace() || char == '>').unwrap_or(text.len()))
}

/// Text with its entities replaced.
fn decoded(text: &str) -> String {
    const LONGEST: usize = 33;
    let (mut result, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('&') {
        let (before, entity) = rest.split_at(at);
        result.push_str(before);
        let end = entity.bytes().take(LONGEST).position(|byte| byte == b';');
        match end.and_then(|end| entity.split_at_checked(end + 1)) {
            Some((entity, after)) => {
                add_html_token(&mut result, entity.as_bytes(), false);
                rest = after;
            }
            None => {
                result.push('&');
                rest = entity.get(1..).unwrap_or_default();
            }
        }
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_cut_as_browsers_do() {
        let open = |name: &str, attributes: &[(&str, &str)]| {
            let of = |(name, value): &(&str, &str)| Attribute { name: (*name).to_owned(), value: (*value).to_owned() };
            Token::Open(Tag { name: name.to_owned(), attributes: attributes.iter().map(of).collect() })
        };
        let text = |text: &str| Token::Text(text.to_owned());
        for (html, expected) in [
            ("a &lt;b&gt; &#228;&auml;& x", vec![text("a <b> ää& x")]),
            ("<P CLASS=a id='b c' hidden>", vec![open("p", &[("class", "a"), ("id", "b c"), ("hidden", "")])]),
            ("<p title=\">\">x</p >", vec![open("p", &[("title", ">")]), text("x"), Token::Close("p".to_owned())]),
            ("a<!-- <p> -->b<!-->c", vec![text("a"), text("b"), text("c")]),
            ("1 < 2", vec![text("1 "), text("<"), text(" 2")]),
            ("<script>if (a<b) '</p>'</SCRIPT >x", vec![text("x")]),
            ("<style>.a{}</style>", vec![Token::Sheet(".a{}".to_owned())]),
            ("<!doctype html><br/>", vec![open("br", &[])]),
            ("<p style=\"a", vec![open("p", &[("style", "a")])]),
        ] {
            assert_eq!(read(html), expected, "{html}");
        }
    }
}
