use hearth_wire::DestinationTarget;

use super::*;

fn reply(text: &str) -> Utterance {
    Utterance::reply(text)
}

fn to(name: &str, text: &str) -> Utterance {
    Utterance::to(name, text)
}

fn destinations(names: &[&str]) -> Vec<Destination> {
    let target = DestinationTarget::Channel { channel: "c".to_owned(), platform_id: "p".to_owned() };
    names.iter().map(|name| Destination { name: (*name).to_owned(), display: None, target: target.clone() }).collect()
}

#[test]
fn everything_has_one_receiver() {
    for (text, expected) in [
        ("42", vec![reply("42")]),
        ("", vec![]),
        ("  \n ", vec![]),
        (r#"<message to="a">x</message>"#, vec![to("a", "x")]),
        (r#"<message to="a" > x </message>"#, vec![to("a", "x")]),
        ("<message\nto=\"a\"\n>x\ny</message>", vec![to("a", "x\ny")]),
        (
            r#"hi <message to="a">x</message> mid <message to="b">y</message>"#,
            vec![reply("hi"), to("a", "x"), reply("mid"), to("b", "y")],
        ),
        (r#"<internal>secret</internal><message to="a">x</message><internal>s</internal>"#, vec![to("a", "x")]),
        ("a <internal>s</internal>b", vec![reply("a b")]),
        (r#"<message to="a">x <internal>s</internal>y</message>"#, vec![to("a", "x y")]),
        (r#"<message to="a"><internal>only</internal></message>"#, vec![]),
        (r#"<internal>draft <message to="a">x</message></internal>done"#, vec![reply("done")]),
        ("if a < b then <internal>open", vec![reply("if a < b then <internal>open")]),
        (r#"<message to="a">never closed"#, vec![reply(r#"<message to="a">never closed"#)]),
        ("<message to='a'>x</message>", vec![reply("<message to='a'>x</message>")]),
        (r#"<message id="1" to="a">x</message>"#, vec![reply(r#"<message id="1" to="a">x</message>"#)]),
        (r#"<messageto="a">x</message>"#, vec![reply(r#"<messageto="a">x</message>"#)]),
        (r#"<message to="">x</message>"#, vec![reply(r#"<message to="">x</message>"#)]),
        (r#"<message to="a"></message>"#, vec![]),
        (
            r#"<message to="a">write <message to="b">y</message> like this</message> ok"#,
            vec![to("a", r#"write <message to="b">y</message> like this"#), reply("ok")],
        ),
        (r#"<message to="a">x <message to="b">y</message>"#, vec![to("a", r#"x <message to="b">y"#)]),
        (r#"<message to="a">x</message></message>"#, vec![to("a", "x"), reply("</message>")]),
        (r#"<message <message to="a">x</message>"#, vec![reply("<message"), to("a", "x")]),
        (r#"<message to="<message to="a">x</message>"#, vec![reply(r#"<message to=""#), to("a", "x")]),
        (r#"<message to="</message>">x</message>"#, vec![reply(r#"<message to="</message>">x</message>"#)]),
        ("5 &lt; 6", vec![reply("5 &lt; 6")]),
    ] {
        assert_eq!(addressed(text), expected, "{text}");
    }
}

/// This would take hours if every opening tag were followed by a new search for its end.
#[test]
fn many_blocks_that_are_not_closed_take_no_longer_than_others() {
    let open = r#"<message to="a">x"#.repeat(100_000);
    assert_eq!(addressed(&open), vec![reply(&open)]);
    let every_other = r#"<message to="a">x <message to="b">y</message>"#.repeat(50_000);
    assert_eq!(addressed(&every_other), vec![to("a", r#"x <message to="b">y"#); 50_000]);
}

#[test]
fn words_without_a_block_are_asked_about_only_where_they_could_mean_several_places() {
    let two = destinations(&["a", "b"]);
    for (origin, destinations) in
        [(Origin::Unclear, &destinations(&[])), (Origin::Unclear, &destinations(&["a"])), (Origin::Chat, &two)]
    {
        assert_eq!(decide("42", origin, destinations, None), ResultAction::Said(vec![reply("42")]), "{origin:?}");
    }
    let ResultAction::Again { said, note, draft } = decide("42", Origin::Unclear, &two, None) else {
        panic!("no nudge")
    };
    assert_eq!(said, []);
    assert_eq!(
        note,
        "<system>Your response was not delivered — it was not wrapped in <message to=\"name\">...</message> blocks. All \
         output must be wrapped: use <message to=\"name\"> for content to send, or <internal> for scratchpad. Your \
         destinations: a, b. Please re-send your response with the correct wrapping.</system>"
    );
    let second = |text: &str| decide(text, Origin::Unclear, &two, Some(draft.clone()));
    assert_eq!(second(r#"<message to="b">42</message>"#), ResultAction::Said(vec![to("b", "42")]));
    assert_eq!(second("it is 42"), ResultAction::Said(vec![reply("it is 42")]));
    assert_eq!(second("<internal>sent</internal>"), ResultAction::Said(vec![reply("42")]));
    assert_eq!(second(r#"<message to="c">42</message>"#), ResultAction::Said(vec![to("c", "42")]));
    for silent in ["", "<internal>nothing to say</internal>"] {
        assert_eq!(decide(silent, Origin::Unclear, &two, None), ResultAction::Said(vec![]));
    }
    let beside = r#"bare <message to="a">x</message>"#;
    assert_eq!(decide(beside, Origin::Unclear, &two, None), ResultAction::Said(vec![reply("bare"), to("a", "x")]));
}

#[test]
fn unknown_names_are_told_once() {
    let known = destinations(&["a"]);
    let text = r#"<message to="a">x</message><message to="nobody">y</message><message to="nobody">z</message>"#;
    let ResultAction::Again { said, note, draft } = decide(text, Origin::Chat, &known, None) else {
        panic!("not told")
    };
    assert_eq!(said, [to("a", "x")]);
    assert!(note.contains(r#"of that name: "nobody". Your destinations: a. "#), "{note}");
    let second = |text: &str| decide(text, Origin::Chat, &known, Some(draft.clone()));
    assert_eq!(second(r#"<message to="a">y z</message>"#), ResultAction::Said(vec![to("a", "y z")]));
    assert_eq!(second(""), ResultAction::Said(vec![to("nobody", "y"), to("nobody", "z")]));
    assert_eq!(second("sorry"), ResultAction::Said(vec![to("nobody", "y"), to("nobody", "z"), reply("sorry")]));
    assert_eq!(draft.into_kept(), [to("nobody", "y"), to("nobody", "z")]);
    let ResultAction::Again { note, .. } = decide(r#"<message to="x">y</message>"#, Origin::Chat, &[], None) else {
        panic!("not told")
    };
    assert!(note.contains("Your destinations: (none)."), "{note}");
}
