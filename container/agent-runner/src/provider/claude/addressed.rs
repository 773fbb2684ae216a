//! Whom a text is for: blocks to destinations, words for nobody, and the rest. Pure.

use crate::outgoing::Utterance;

const END: &str = "</message>";

/// Cuts a final text into what is said to whom, in its order. `<message to="NAME">…</message>` goes to that destination,
/// `<internal>…</internal>` outside of such a block to nobody, everything else to where the message came from. A tag
/// that is not closed, or not written like that, is ordinary text: nothing is lost by a mistake.
pub(crate) fn addressed(text: &str) -> Vec<Utterance> {
    let mut said = Vec::new();
    let mut bare = String::new();
    let mut rest = text;
    while let Some((before, tag)) = rest.split_once('<') {
        bare.push_str(before);
        if let Some((name, body, after)) = block(tag) {
            flush(&mut bare, &mut said);
            if !body.trim().is_empty() {
                said.push(Utterance::to(name, body.trim()));
            }
            rest = after;
        } else if let Some((_, after)) = tag.strip_prefix("internal>").and_then(|tag| tag.split_once("</internal>")) {
            rest = after;
        } else {
            bare.push('<');
            rest = tag;
        }
    }
    bare.push_str(rest);
    flush(&mut bare, &mut said);
    said
}

/// Name, body and what follows, of a block whose `<` was taken off.
fn block(tag: &str) -> Option<(&str, &str, &str)> {
    let attribute = tag.strip_prefix("message")?;
    let quoted = attribute.trim_start();
    let (name, after_name) =
        quoted.strip_prefix("to=\"").filter(|_| quoted.len() < attribute.len())?.split_once('"')?;
    let (body, after) = after_name.trim_start().strip_prefix('>')?.split_once(END)?;
    (!name.is_empty()).then_some((name, body, after))
}

fn flush(bare: &mut String, said: &mut Vec<Utterance>) {
    if !bare.trim().is_empty() {
        said.push(Utterance::reply(bare.trim()));
    }
    bare.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_one_receiver() {
        let reply = |text: &str| Utterance::reply(text);
        let to = |name: &str, text: &str| Utterance::to(name, text);
        for (text, expected) in [
            ("42", vec![reply("42")]),
            ("", vec![]),
            ("  \n ", vec![]),
            (r#"<message to="a">x</message>"#, vec![to("a", "x")]),
            (r#"<message to="a" > x </message>"#, vec![to("a", "x")]),
            (
                r#"hi <message to="a">x</message> mid <message to="b">y</message>"#,
                vec![reply("hi"), to("a", "x"), reply("mid"), to("b", "y")],
            ),
            (r#"<internal>secret</internal><message to="a">x</message><internal>s</internal>"#, vec![to("a", "x")]),
            ("a <internal>s</internal>b", vec![reply("a b")]),
            (r#"<message to="a"><internal>kept</internal></message>"#, vec![to("a", "<internal>kept</internal>")]),
            ("if a < b then <internal>open", vec![reply("if a < b then <internal>open")]),
            (r#"<message to="a">never closed"#, vec![reply(r#"<message to="a">never closed"#)]),
            ("<message to='a'>x</message>", vec![reply("<message to='a'>x</message>")]),
            (r#"<message id="1" to="a">x</message>"#, vec![reply(r#"<message id="1" to="a">x</message>"#)]),
            (r#"<messageto="a">x</message>"#, vec![reply(r#"<messageto="a">x</message>"#)]),
            (r#"<message to="a"></message>"#, vec![]),
        ] {
            assert_eq!(addressed(text), expected, "{text}");
        }
    }
}
