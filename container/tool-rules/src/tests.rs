use proptest::prelude::*;
use serde_json::{Value, json};

use crate::call::{Call, Place};
use crate::{Pattern, ToolPolicy, ToolPreset, ToolRule, ToolVerdict, grants};

fn place() -> Place {
    Place {
        folder: "/workspace/agent".to_owned(),
        inside: vec!["/workspace/agent".to_owned(), "/tmp".to_owned()],
        conversation: vec!["here".to_owned()],
    }
}

fn rule(verdict: ToolVerdict, pattern: &str) -> ToolRule {
    ToolRule { verdict, pattern: pattern.to_owned() }
}

fn judged(policy: &ToolPolicy, tool: &str, input: &Value) -> ToolVerdict {
    policy.judge(&Call { tool, kind: "", input, place: &place() }).verdict
}

fn only(verdict: ToolVerdict, pattern: &str) -> ToolPolicy {
    ToolPolicy { rules: vec![rule(verdict, pattern)], ..ToolPolicy::default() }
}

fn bash(command: &str) -> Value {
    json!({ "command": command })
}

#[test]
fn rules_about_commands_see_every_command_in_a_line() {
    let deny = only(ToolVerdict::Deny, "Bash(git push:*)");
    for (command, verdict) in [
        ("git push", ToolVerdict::Deny),
        ("git push origin main", ToolVerdict::Deny),
        ("cd x && git push", ToolVerdict::Deny),
        ("sudo git push", ToolVerdict::Deny),
        ("A=1 git  push -f", ToolVerdict::Deny),
        ("bash -c 'git push'", ToolVerdict::Deny),
        ("echo $(git push)", ToolVerdict::Deny),
        ("true;git push", ToolVerdict::Deny),
        ("git pushed", ToolVerdict::Allow),
        ("git pull", ToolVerdict::Allow),
        ("echo 'git push'", ToolVerdict::Allow),
    ] {
        assert_eq!(judged(&deny, "Bash", &bash(command)), verdict, "{command}");
    }
}

#[test]
fn an_allowed_command_allows_nothing_beside_it() {
    let policy = ToolPolicy {
        preset: ToolPreset::Locked,
        rules: vec![rule(ToolVerdict::Allow, "Bash(git log:*)")],
        granted: vec![],
    };
    for (command, verdict) in [
        ("git log", ToolVerdict::Allow),
        ("git log --oneline -3", ToolVerdict::Allow),
        ("git log; rm -rf /", ToolVerdict::Ask),
        ("git log | sh", ToolVerdict::Ask),
        ("git log $(rm x)", ToolVerdict::Ask),
        ("git log > /etc/passwd", ToolVerdict::Ask),
        ("git log\nrm x", ToolVerdict::Ask),
        ("git logs", ToolVerdict::Ask),
    ] {
        assert_eq!(judged(&policy, "Bash", &bash(command)), verdict, "{command}");
    }
}

#[test]
fn presets_ask_before_what_leaves() {
    let (allow, ask) = (ToolVerdict::Allow, ToolVerdict::Ask);
    for (tool, input, careful, locked) in [
        ("Read", json!({"file_path": "a.txt"}), allow, allow),
        ("Read", json!({"file_path": "/etc/passwd"}), allow, ask),
        ("Write", json!({"file_path": "/workspace/agent/a"}), allow, allow),
        ("Write", json!({"file_path": "/workspace/agent/../x"}), ask, ask),
        ("Write", json!({"file_path": "/workspace/agents/a"}), ask, ask),
        ("Edit", json!({}), ask, ask),
        ("TodoWrite", json!({}), allow, allow),
        ("WebFetch", json!({"url": "https://example.org/"}), ask, ask),
        ("WebSearch", json!({"query": "x"}), allow, ask),
        ("mcp__mail__send", json!({"to": "a"}), ask, ask),
        ("mcp__nanoclaw__send_message", json!({"text": "x"}), allow, allow),
        ("mcp__nanoclaw__send_message", json!({"text": "x", "to": "here"}), allow, allow),
        ("mcp__nanoclaw__send_message", json!({"text": "x", "to": "family"}), ask, ask),
        ("mcp__nanoclaw__install_packages", json!({"apt": ["x"]}), allow, allow),
        ("Unheard", json!({}), ask, ask),
        ("Bash", bash("ls -l"), allow, ask),
        ("Bash", bash("rm -r build"), allow, ask),
        ("Bash", bash("rm -r /etc"), ask, ask),
        ("Bash", bash("cd / && rm -r etc"), ask, ask),
        ("Bash", bash("rm -r ~/x"), ask, ask),
        ("Bash", bash("rm -r \"$HOME/x\""), ask, ask),
        ("Bash", bash("make 2>&1 >/dev/null"), allow, ask),
        ("Bash", bash("echo x > ../y"), ask, ask),
        ("Bash", bash("echo x >> /tmp/y"), allow, ask),
        ("Bash", bash("curl -s https://example.org"), ask, ask),
        ("Bash", bash("git commit -m 'fixed'"), allow, ask),
        ("Bash", bash("git push"), ask, ask),
        ("Bash", json!({"command": ["bash", "-lc", "git push"]}), ask, ask),
    ] {
        for (preset, verdict) in
            [(ToolPreset::Open, allow), (ToolPreset::Careful, careful), (ToolPreset::Locked, locked)]
        {
            let policy = ToolPolicy { preset, ..ToolPolicy::default() };
            assert_eq!(judged(&policy, tool, &input), verdict, "{} {tool} {input}", preset.as_str());
        }
    }
}

#[test]
fn rules_name_tools_paths_hosts_and_fields() {
    for (pattern, tool, input, hit) in [
        ("*", "Bash", bash("ls"), true),
        ("mcp__web__*", "mcp__web__get", json!({}), true),
        ("mcp__web__*", "mcp__webs__get", json!({}), false),
        ("Write(/etc/**)", "Write", json!({"file_path": "/etc/a/b"}), true),
        ("Write(/etc/**)", "Write", json!({"file_path": "/etc"}), true),
        ("Write(/etc/*)", "Write", json!({"file_path": "/etc/a/b"}), false),
        ("Write(notes/*.md)", "Write", json!({"file_path": "notes/a.md"}), true),
        ("*(path:/etc/**)", "Bash", bash("cat /etc/passwd"), true),
        ("WebFetch(host:example.org)", "WebFetch", json!({"url": "https://EXAMPLE.org:443/x"}), true),
        ("WebFetch(domain:example.org)", "WebFetch", json!({"url": "https://a@example.org"}), true),
        ("WebFetch(host:*.example.org)", "WebFetch", json!({"url": "https://a.example.org"}), true),
        ("WebFetch(host:*.example.org)", "WebFetch", json!({"url": "https://badexample.org"}), false),
        ("WebFetch(host:example.org)", "WebFetch", json!({"url": "https://example.org@evil.test"}), false),
        ("Bash(host:example.org)", "Bash", bash("curl https://example.org/x"), true),
        ("mcp__mail__send(@to=*@example.org)", "mcp__mail__send", json!({"to": "a@example.org"}), true),
        ("mcp__mail__send(@to=*@example.org)", "mcp__mail__send", json!({"to": "a@other.org"}), false),
        ("mcp__x__y(anything)", "mcp__x__y", json!({}), true),
    ] {
        let verdict = judged(&only(ToolVerdict::Deny, pattern), tool, &input);
        assert_eq!(verdict == ToolVerdict::Deny, hit, "{pattern} {tool} {input}");
    }
}

#[test]
fn patterns_that_say_nothing_are_refused() {
    for text in
        ["", "(x)", "Bash(", "Bash(x", "Bash()", "Bash(path:)", "Bash(path:~/x)", "a\nb", " Bash", "Bash(@x)", "é"]
    {
        assert!(Pattern::parse(text).is_err(), "{text:?}");
    }
    // A rule that cannot be read is never a hole.
    assert_eq!(judged(&only(ToolVerdict::Deny, "Bash("), "Read", &json!({})), ToolVerdict::Deny);
}

#[test]
fn an_answer_for_longer_is_as_narrow_as_it_can_be() {
    for (tool, input, pattern) in [
        ("Bash", bash("git push"), Some("Bash(command:git push)")),
        ("Bash", bash("rm *"), Some("Bash(command:rm \\*)")),
        ("Bash", bash("a && b"), Some("Bash(command:a && b)")),
        ("Bash", bash("a\nb"), None),
        ("Bash", bash("git push:*"), Some("Bash(command:git push:\\*)")),
        ("Write", json!({"file_path": "/etc/x"}), Some("Write(path:/etc/x)")),
        ("WebFetch", json!({"url": "https://a.org/x"}), Some("WebFetch(host:a.org)")),
        (
            "mcp__nanoclaw__send_message",
            json!({"to": "family", "text": "x"}),
            Some("mcp__nanoclaw__send_message(@to=family)"),
        ),
        ("mcp__mail__list", json!({}), Some("mcp__mail__list")),
        ("x*", json!({}), None),
    ] {
        let place = place();
        let call = Call { tool, kind: "", input: &input, place: &place };
        assert_eq!(Pattern::of(&call).map(|pattern| pattern.to_string()).as_deref(), pattern, "{tool} {input}");
    }
    let place = place();
    let other = bash("git push; x");
    assert!(!grants("Bash(command:git push)", &Call { tool: "Bash", kind: "", input: &other, place: &place }));
}

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "git", "push", "rm", "/etc", "a", "*", "\\", ";", "|", "$(", ")", "'", "\"", ">", "&&", "\n", "..", "~", "curl",
    ])
    .prop_map(str::to_owned)
}

fn call() -> impl Strategy<Value = (String, Value)> {
    let command = prop::collection::vec(word(), 0..8).prop_map(|words| bash(&words.join(" ")));
    let path = prop::collection::vec(word(), 1..4).prop_map(|words| json!({"file_path": words.join("/")}));
    let other = "\\PC{0,20}".prop_map(|text| json!({"to": text, "url": "https://example.org"}));
    let tool = prop::sample::select(vec!["Bash", "Write", "Read", "WebFetch", "mcp__nanoclaw__send_message", "x"]);
    (tool.prop_map(str::to_owned), prop_oneof![command, path, other])
}

fn pattern() -> impl Strategy<Value = String> {
    let argument = prop::collection::vec(word(), 1..4).prop_map(|words| words.join(" "));
    let kind = prop::sample::select(vec!["", "command:", "path:", "host:", "@to="]);
    let tool = prop::sample::select(vec!["Bash", "Write", "*", "mcp__*", "Web*", "x"]);
    prop_oneof![
        tool.clone().prop_map(str::to_owned),
        (tool, kind, argument).prop_map(|(tool, kind, argument)| format!("{tool}({kind}{argument})")),
        "\\PC{0,12}",
    ]
}

fn policy() -> impl Strategy<Value = ToolPolicy> {
    let one = (prop::sample::select(ToolVerdict::ALL.to_vec()), pattern());
    let rules = prop::collection::vec(one.prop_map(|(verdict, pattern)| ToolRule { verdict, pattern }), 0..5);
    let preset = prop::sample::select(ToolPreset::ALL.to_vec());
    (preset, rules, prop::collection::vec(pattern(), 0..3)).prop_map(|(preset, rules, granted)| ToolPolicy {
        preset,
        rules,
        granted,
    })
}

proptest! {
    #[test]
    fn a_deny_never_allows_more((tool, input) in call(), policy in policy(), added in pattern()) {
        let before = judged(&policy, &tool, &input);
        let mut more = policy;
        more.rules.push(rule(ToolVerdict::Deny, &added));
        let after = judged(&more, &tool, &input);
        prop_assert!(after == before || after == ToolVerdict::Deny);
    }

    #[test]
    fn an_allow_never_overrides_an_ask_or_a_deny((tool, input) in call(), policy in policy(), added in pattern()) {
        let ruled = |policy: &ToolPolicy| {
            let place = place();
            let call = Call { tool: &tool, kind: "", input: &input, place: &place };
            policy.rules.iter().any(|rule| rule.verdict != ToolVerdict::Allow && crate::applies(rule, &call))
        };
        let before = judged(&policy, &tool, &input);
        let is_ruled = ruled(&policy);
        let mut more = policy;
        more.rules.push(rule(ToolVerdict::Allow, &added));
        let after = judged(&more, &tool, &input);
        prop_assert!(after <= before);
        prop_assert!(!is_ruled || after == before);
    }

    #[test]
    fn a_grant_never_overrides_a_deny((tool, input) in call(), policy in policy(), added in pattern()) {
        let before = judged(&policy, &tool, &input);
        let mut more = policy;
        more.granted.push(added);
        let after = judged(&more, &tool, &input);
        prop_assert!(after == before || (before == ToolVerdict::Ask && after == ToolVerdict::Allow));
    }

    #[test]
    fn the_order_of_rules_does_not_matter((tool, input) in call(), policy in policy()) {
        let mut reversed = policy.clone();
        reversed.rules.reverse();
        prop_assert_eq!(judged(&policy, &tool, &input), judged(&reversed, &tool, &input));
    }

    #[test]
    fn an_answer_for_longer_covers_the_call_it_was_given_for((tool, input) in call()) {
        let place = place();
        let call = Call { tool: &tool, kind: "", input: &input, place: &place };
        if let Some(pattern) = Pattern::of(&call) {
            prop_assert!(grants(&pattern.to_string(), &call), "{}", pattern);
        }
    }
}

#[test]
fn a_digest_names_a_call() {
    let one: Value = serde_json::from_str(r#"{"a": 1, "b": 2}"#).unwrap();
    let same: Value = serde_json::from_str(r#"{"b": 2, "a": 1}"#).unwrap();
    assert_eq!(crate::digest("x", &one), crate::digest("x", &same));
    assert_ne!(crate::digest("x", &one), crate::digest("y", &one));
    assert_ne!(crate::digest("x", &one), crate::digest("x", &json!({"a": 1})));
    assert_eq!(crate::digest("x", &one).len(), 64);
}
