//! Every valid and every invalid kind of request.

use serde_json::{Value, json};

use super::*;

fn action_of(kind: OutKind, content: Value) -> (RequestedAction, String) {
    parse(kind, content.as_object().unwrap())
}

fn asked(content: Value) -> Result<Request, String> {
    match action_of(OutKind::System, content) {
        (RequestedAction::Request(request), _) => Ok(*request),
        (RequestedAction::Impossible(why), _) => Err(why),
        other => panic!("{other:?}"),
    }
}

fn option_of(label: &str, chosen: &str, value: &str) -> CardOption {
    CardOption { label: label.into(), chosen: chosen.into(), value: value.into() }
}

#[test]
fn questions_are_normalised() {
    let content = json!({"action": "ask_user_question", "title": "Deploy?", "question": "Now\u{7}, or\nnever",
        "options": ["Yes", {"label": "No", "selectedLabel": "❌ No", "value": "no"}, {"label": "Later", "value": null}],
        "timeout": 1.5});
    let Ok(Request::Question(question)) = asked(content) else { panic!() };
    assert_eq!((question.title.as_str(), question.body.as_str()), ("Deploy?", "Now\u{fffd}, or\nnever"));
    assert_eq!(question.timeout, Millis::new(1_500));
    let options =
        [option_of("Yes", "Yes", "Yes"), option_of("No", "❌ No", "no"), option_of("Later", "Later", "Later")];
    assert_eq!(question.options, options);
    let by_peer = json!({"type": "ask_question", "questionId": "q", "title": "T", "question": "Q", "options": ["a"]});
    let (action, _) = action_of(OutKind::ChatSdk, by_peer);
    let RequestedAction::Request(request) = action else { panic!() };
    assert!(matches!(*request, Request::Question(question) if question.timeout == Millis::seconds(300)));
}

#[test]
fn questions_that_no_card_can_show_are_refused_with_the_reason() {
    let whole = json!({"action": "ask_user_question", "title": "T", "question": "Q", "options": ["a", "b"]});
    let required = "title, question, and options are required";
    for (key, value, problem) in [
        ("title", json!(null), required),
        ("title", json!(7), required),
        ("question", json!(""), required),
        ("options", json!("a"), required),
        ("options", json!([]), "a question has 1 to 10 options, this one has 0"),
        ("options", json!(vec!["a"; 11]), "a question has 1 to 10 options, this one has 11"),
        ("options", json!([1]), "an option is a text, or an object with a `label`"),
        ("options", json!([{"value": "a"}]), "an option is a text, or an object with a `label`"),
        ("options", json!([" "]), "an option is a text, or an object with a `label`"),
        ("options", json!([{"label": "a", "value": 1}]), "`value` of an option is a text of at most 100 characters"),
        ("options", json!(["x".repeat(101)]), "an option has 101 characters, at most 100 can be shown"),
        ("title", json!("x".repeat(201)), "the title has 201 characters, at most 200 can be shown"),
        ("question", json!("x".repeat(3_001)), "the question has 3001 characters, at most 3000 can be shown"),
        ("timeout", json!(0), "timeout is a number of seconds"),
        ("timeout", json!(-1), "timeout is a number of seconds"),
        ("timeout", json!("60"), "timeout is a number of seconds"),
    ] {
        let mut content = whole.clone();
        content[key] = value.clone();
        assert_eq!(asked(content), Err(problem.to_owned()), "{key} {value}");
    }
    let Ok(Request::Question(long)) = asked(json!({"action": "ask_user_question", "title": "T", "question": "Q",
        "options": ["a"], "timeout": 1e300}))
    else {
        panic!()
    };
    assert_eq!(long.timeout, Millis::new(u64::MAX));
}

#[test]
fn packages_servers_and_agents() {
    assert_eq!(
        asked(json!({"action": "install_packages", "apt": ["jq"], "npm": ["@a/b"], "reason": "to\u{0} see"})),
        Ok(Request::InstallPackages {
            packages: Packages { apt: vec!["jq".into()], npm: vec!["@a/b".into()] },
            reason: Some("to\u{fffd} see".into()),
        })
    );
    let server = asked(json!({"action": "add_mcp_server", "name": "files", "command": "mcp-files", "args": ["--all"],
        "env": {"KEY": "env:KEY", "A": "plain:text"}}));
    let Ok(Request::AddMcpServer(server)) = server else { panic!("{server:?}") };
    let env =
        [("A".into(), EnvValue::Plain("plain:text".into())), ("KEY".into(), EnvValue::Reference("env:KEY".into()))];
    assert_eq!(
        (server.name.as_str(), server.command.as_str(), &*server.args),
        ("files", "mcp-files", &["--all".into()][..])
    );
    assert_eq!(server.env, env);
    assert_eq!(
        asked(json!({"action": "create_agent", "name": " Research Bot ", "instructions": " "})),
        Ok(Request::CreateAgent { name: "Research Bot".into(), instructions: None })
    );
}

#[test]
fn every_wrong_request_says_why() {
    let server = |more: Value| {
        let mut content = json!({"action": "add_mcp_server", "name": "s", "command": "c"});
        content.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        content
    };
    for (content, problem) in [
        (json!({}), "a request needs an `action`"),
        (json!({"action": 7}), "a request needs an `action`"),
        (json!({"action": "format_disk"}), "unknown action `format_disk`"),
        (
            json!({"action": "install_packages"}),
            "install_packages failed: at least one apt or npm package is required.",
        ),
        (json!({"action": "install_packages", "apt": "jq"}), "install_packages failed: apt is a list of texts."),
        (json!({"action": "install_packages", "apt": [1]}), "install_packages failed: apt is a list of texts."),
        (
            json!({"action": "install_packages", "apt": ["Foo"]}),
            "install_packages failed: invalid apt package name \"Foo\".",
        ),
        (json!({"action": "add_mcp_server"}), "add_mcp_server failed: name and command are required."),
        (server(json!({"name": "a b"})), "add_mcp_server failed: a name has"),
        (server(json!({"name": "nanoclaw"})), "add_mcp_server failed: a name has"),
        (server(json!({"args": ["a\nb"]})), "add_mcp_server failed: a command has at most"),
        (server(json!({"args": vec!["a"; 33]})), "add_mcp_server failed: a command has at most"),
        (server(json!({"command": "c\u{202e}"})), "add_mcp_server failed: a command has at most"),
        (server(json!({"env": []})), "add_mcp_server failed: env is an object of texts."),
        (server(json!({"env": {"A B": "x"}})), "add_mcp_server failed: env has a variable that cannot be: `A B`."),
        (server(json!({"env": {"A": 1}})), "add_mcp_server failed: env has a variable that cannot be: `A`."),
        (server(json!({"env": {"A": "cmd:cat /etc/shadow"}})), "add_mcp_server failed: the value of `A` may be"),
        (server(json!({"env": {"A": "file:/etc/shadow"}})), "add_mcp_server failed: the value of `A` may be"),
        (server(json!({"env": {"A": "env:1"}})), "add_mcp_server failed: the value of `A` may be"),
        (json!({"action": "create_agent"}), "create_agent failed: name is required."),
        (json!({"action": "create_agent", "name": " "}), "create_agent failed: name is required."),
        (json!({"action": "create_agent", "name": "a\nb"}), "create_agent failed: the name is one line"),
        (json!({"action": "create_agent", "name": "a", "instructions": 1}), "create_agent failed: instructions are"),
        (
            json!({"action": "create_agent", "name": "a", "instructions": "x".repeat(32 * 1024 + 1)}),
            "create_agent failed: instructions are",
        ),
    ] {
        let why = asked(content.clone()).unwrap_err();
        assert!(why.starts_with(problem), "{content}: {why}");
    }
}

#[test]
fn edits_and_reactions_name_a_number() {
    let of = |content| action_of(OutKind::ChatSdk, content);
    let edit = |content: Value| {
        json!({"operation": "edit"})
            .as_object()
            .cloned()
            .map(|mut fields| {
                fields.extend(content.as_object().unwrap().clone());
                of(Value::Object(fields))
            })
            .unwrap()
    };
    assert_eq!(edit(json!({"messageId": 7, "text": "new"})), (RequestedAction::Edit(7), "new".into()));
    assert_eq!(edit(json!({"messageId": "#7", "markdown": "new"})), (RequestedAction::Edit(7), "new".into()));
    for wrong in [json!({}), json!({"messageId": 7}), json!({"text": "x"}), json!({"messageId": "x", "text": "x"})] {
        assert_eq!(
            edit(wrong.clone()).0,
            RequestedAction::Impossible("messageId and text are required".into()),
            "{wrong}"
        );
    }
    let react = |emoji: &str| of(json!({"operation": "reaction", "messageId": 4, "emoji": emoji}));
    assert_eq!(react("thumbs_up"), (RequestedAction::React(4), "thumbs_up".into()));
    for wrong in ["", " ", "a\nb", &"x".repeat(65)] {
        assert_eq!(react(wrong).0, RequestedAction::Impossible("messageId and emoji are required".into()), "{wrong:?}");
    }
    assert_eq!(
        of(json!({"operation": "explode"})).0,
        RequestedAction::Impossible("unknown operation `explode`".into())
    );
    // A chat message may have any fields: only fields of platform payloads are examined.
    assert_eq!(
        action_of(OutKind::Chat, json!({"operation": "edit", "text": "hi"})),
        (RequestedAction::Say, "hi".into())
    );
}

/// NanoClaw's cards on channels that show only text: no content of the card is lost.
#[test]
fn cards_have_a_text() {
    let of = |content| action_of(OutKind::ChatSdk, content);
    let card = json!({"title": "T", "description": "D", "children": ["one", {"text": "two"}, {"image": "x"}, 7, ""],
        "actions": [{"label": "Open", "url": "https://example.org"}, {"label": "No-link"}]});
    for (content, text) in [
        (json!({"type": "card", "card": card, "fallbackText": "F"}), "F"),
        (json!({"type": "card", "card": card}), "T\nD\none\ntwo\nOpen: https://example.org"),
        (json!({"type": "card", "card": {"title": "T"}}), "T"),
        (json!({"type": "card", "title": "A card"}), "A card"),
        (json!({"text": "plain hello"}), "plain hello"),
    ] {
        assert_eq!(of(content.clone()), (RequestedAction::Say, text.to_owned()), "{content}");
    }
    for empty in
        [json!({"type": "card", "card": {}}), json!({"type": "card", "card": {"actions": [{"label": "No-link"}]}})]
    {
        assert_eq!(of(empty).0, RequestedAction::Impossible("the card has nothing to show".into()));
    }
}

/// Any JSON that the parser accepts, however deep or odd.
fn value() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,300}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..12).prop_map(Value::from),
            proptest::collection::btree_map("[a-zA-Z_]{0,8}", inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest::proptest! {
    /// Whatever an agent writes is parsed into something bounded, or refused with a reason.
    #[test]
    fn nothing_an_agent_writes_breaks_the_edge(
        action in proptest::sample::select(vec!["ask_user_question", "install_packages", "add_mcp_server", "create_agent", "hearth", "recall", "use_tool", "tool_calls"]),
        fields in proptest::collection::btree_map(
            "(title|question|options|timeout|apt|npm|reason|name|command|args|env|instructions|about|query|who|after|before|limit|tool|input|folder|kind|calls)", value(), 0..8),
    ) {
        let mut content: Fields = fields.into_iter().collect();
        content.insert("action".to_owned(), action.into());
        match parse(OutKind::System, &content) {
            (RequestedAction::Impossible(why), text) => proptest::prop_assert!(!why.is_empty() && text.is_empty()),
            (RequestedAction::Request(request), _) => match *request {
                Request::Question(question) => {
                    proptest::prop_assert!((1..=OPTIONS).contains(&question.options.len()));
                    proptest::prop_assert!(question.title.chars().count() <= TITLE_CHARS);
                    proptest::prop_assert!(question.options.iter().all(|o| o.label.chars().count() <= LABEL_CHARS));
                }
                Request::InstallPackages { packages, .. } => proptest::prop_assert_eq!(packages_problem(&packages), None),
                Request::AddMcpServer(server) => {
                    proptest::prop_assert!(is_server_name(&server.name));
                    proptest::prop_assert!(server.env.windows(2).all(|pair| pair[0].0 < pair[1].0));
                }
                Request::CreateAgent { name, .. } => proptest::prop_assert!(is_short_line(&name, LABEL_CHARS)),
                Request::Tasks(_) => proptest::prop_assert!(action.ends_with("_task") || action == "list_tasks"),
                Request::About(_) => proptest::prop_assert_eq!(action, "hearth"),
                Request::UseTool(call) => {
                    proptest::prop_assert!(!call.tool.is_empty() && call.digest.len() == 64);
                    proptest::prop_assert!(call.folder.starts_with('/'));
                }
                Request::ToolCalls(calls) => proptest::prop_assert!(calls.len() <= 64),
                Request::Recall(wanted) => proptest::prop_assert!((1..=500).contains(&wanted.query.chars().count())),
            },
            other => proptest::prop_assert!(false, "{other:?}"),
        }
    }
}
