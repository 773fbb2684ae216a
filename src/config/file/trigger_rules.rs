//! Translates wirings of NanoClaw's version 1, `trigger_rules` and `response_scope`.
//!
//! Rules are read as leniently as in version 1: text that is not JSON has no rules. Only a `pattern` that is a text and
//! a `requiresTrigger` that is `false` count.

use serde_json::Value;
use toml::de::{DeTable, DeValue};

use super::section::{Problems, Section};
use crate::model::entity::{Engage, SenderScope};

const RULES: &str = "trigger_rules";
const SCOPE: &str = "response_scope";

/// Today's keys with the same meaning.
const TODAY: [&str; 4] = ["engage", "pattern", "senders", "ignored"];

/// Whose messages are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    Triggered,
    Allowlisted,
}

const SCOPES: [(&str, Scope); 3] =
    [("all", Scope::All), ("triggered", Scope::Triggered), ("allowlisted", Scope::Allowlisted)];

/// The parsed rules.
#[derive(Debug, Default)]
struct Rules {
    pattern: Option<String>,
    without_trigger: bool,
}

/// When the agent engages and for whom; none if the wiring does not use version 1's keys. Otherwise messages that do
/// not engage are dropped, which is the default of every wiring.
pub(super) fn wiring(problems: &mut Problems<'_>, section: &Section<'_>) -> Option<(Engage, SenderScope)> {
    let old = [RULES, SCOPE].into_iter().find(|key| section.get(key).is_some())?;
    for (key, value) in TODAY.iter().filter_map(|key| Some((key, section.get(key)?))) {
        let subject = section.subject();
        let what = format!("`{key}` and `{old}` of version 1 are both in {subject}; keep the keys of one version");
        problems.add(value.span().start, what);
    }
    let scope = section.word(problems, SCOPE, &SCOPES);
    Some(rules(problems, section).meaning(scope))
}

/// Converts a row of NanoClaw's database: rules as JSON, and the word for whose messages are answered.
#[must_use]
pub fn wiring_of_row(rules: Option<&str>, scope: Option<&str>) -> (Engage, SenderScope) {
    let scope = scope.and_then(|scope| SCOPES.iter().find(|(word, _)| *word == scope)).map(|(_, scope)| *scope);
    rules.map_or_else(Rules::default, Rules::of_json).meaning(scope)
}

fn rules(problems: &mut Problems<'_>, section: &Section<'_>) -> Rules {
    match section.get(RULES).map(|value| value.get_ref()) {
        None => Rules::default(),
        Some(DeValue::Table(table)) => Rules::of_table(table),
        Some(DeValue::String(text)) => Rules::of_json(text),
        Some(_) => {
            section.wrong_type(problems, RULES, "a table, in braces, or its JSON, in quotes");
            Rules::default()
        }
    }
}

impl Rules {
    fn meaning(self, scope: Option<Scope>) -> (Engage, SenderScope) {
        let engage = match self.pattern {
            Some(pattern) => Engage::Pattern(pattern),
            None if self.without_trigger || scope == Some(Scope::All) => Engage::Pattern(".".to_owned()),
            None => Engage::Mention,
        };
        (engage, if scope == Some(Scope::Allowlisted) { SenderScope::Known } else { SenderScope::All })
    }

    fn new(pattern: Option<&str>, requires_trigger: Option<bool>) -> Self {
        let pattern = pattern.filter(|pattern| !pattern.is_empty()).map(str::to_owned);
        Self { pattern, without_trigger: requires_trigger == Some(false) }
    }

    fn of_table(table: &DeTable<'_>) -> Self {
        let get = |key| table.get(key).map(|value| value.get_ref());
        Self::new(get("pattern").and_then(DeValue::as_str), get("requiresTrigger").and_then(DeValue::as_bool))
    }

    fn of_json(text: &str) -> Self {
        let rules: Value = serde_json::from_str(text).unwrap_or_default();
        Self::new(rules.get("pattern").and_then(Value::as_str), rules.get("requiresTrigger").and_then(Value::as_bool))
    }
}

#[cfg(test)]
mod tests {
    use crate::config::file::{parse, write};
    use crate::model::configure::{Change, WiringSpec};
    use crate::model::entity::{Engage, Ignored, SenderScope};

    const CHAT: &str =
        "schema = 1\n[[chats]]\nchannel = \"c\"\nplatform_id = \"1\"\n[[chats.wirings]]\nagent = \"a\"\n";

    fn read(keys: &str) -> (Vec<Change>, WiringSpec) {
        let changes = parse("hearth.toml", &format!("{CHAT}{keys}\n")).unwrap().changes;
        let Some(Change::PutChat(chat)) = changes.first() else { panic!("{changes:?}") };
        let wiring = chat.wirings[0].clone();
        (changes, wiring)
    }

    #[test]
    fn wirings_of_version_1_are_read_as_its_migration_has_them() {
        let pattern = |text: &str| Engage::Pattern(text.to_owned());
        let (all, known) = (SenderScope::All, SenderScope::Known);
        for (rules, scope, engage, senders) in [
            (Some(r#"{"pattern":"^@Andy\\b","requiresTrigger":true}"#), Some("triggered"), pattern("^@Andy\\b"), all),
            (Some(r#"{"pattern":"^@Andy\\b"}"#), Some("all"), pattern("^@Andy\\b"), all),
            (Some(r#"{"pattern":""}"#), Some("all"), pattern("."), all),
            (Some(r#"{"pattern":"","requiresTrigger":true}"#), Some("triggered"), Engage::Mention, all),
            (Some(r#"{"requiresTrigger":false}"#), Some("triggered"), pattern("."), all),
            (Some(r#"{"requiresTrigger":"false"}"#), Some("triggered"), Engage::Mention, all),
            (Some(r#"{"requiresTrigger":true}"#), Some("all"), pattern("."), all),
            (None, Some("all"), pattern("."), all),
            (None, None, Engage::Mention, all),
            (None, Some("triggered"), Engage::Mention, all),
            (Some(r#"{"requiresTrigger":true}"#), Some("allowlisted"), Engage::Mention, known),
            (Some(r#"{"requiresTrigger":false}"#), Some("allowlisted"), pattern("."), known),
            (Some("not json"), Some("triggered"), Engage::Mention, all),
            (Some("not json"), Some("all"), pattern("."), all),
            (Some(r#"{"pattern":5}"#), Some("triggered"), Engage::Mention, all),
            // Rules that are not an object are ignored, including everything beside them.
            (Some("null"), None, Engage::Mention, all),
            (Some("[1]"), Some("allowlisted"), Engage::Mention, known),
            (Some(r#"{"pattern":" x ","other":{}}"#), None, pattern(" x "), all),
        ] {
            let key =
                |name: &str, text: Option<&str>| text.map_or(String::new(), |text| format!("{name} = '{text}'\n"));
            let keys = key("trigger_rules", rules) + &key("response_scope", scope);
            let (changes, wiring) = read(&keys);
            assert_eq!((wiring.engage, wiring.senders, wiring.ignored), (engage, senders, Ignored::Drop), "{keys}");
            let written = write::write(&changes);
            assert!(!written.contains("trigger_rules") && !written.contains("response_scope"), "{written}");
            assert_eq!(parse("hearth.toml", &written).unwrap().changes, changes, "{written}");
        }
    }

    #[test]
    fn rules_can_be_a_table_and_stand_beside_what_version_1_did_not_have() {
        let keys = "trigger_rules = { pattern = '^!', requiresTrigger = true }\nsession = \"per-thread\"\npriority = 3";
        let (_, wiring) = read(keys);
        assert_eq!((wiring.engage, wiring.priority), (Engage::Pattern("^!".into()), 3));
        assert_eq!(read("trigger_rules.requiresTrigger = false").1.engage, Engage::Pattern(".".into()));
        assert_eq!(read("[chats.wirings.trigger_rules]\npattern = 5").1.engage, Engage::Mention);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_the_name_of_the_wiring() {
        for (keys, message) in [
            (
                "response_scope = \"everyone\"",
                "hearth.toml:7: `response_scope` cannot be \"everyone\" in the wiring to `a` of the chat `1` on `c`; \
                 write \"all\" or \"triggered\" or \"allowlisted\"",
            ),
            ("response_scope = 1", "hearth.toml:7: `response_scope` is an integer; write a string, in quotes"),
            (
                "trigger_rules = 1",
                "hearth.toml:7: `trigger_rules` is an integer; write a table, in braces, or its JSON, in quotes",
            ),
            (
                "response_scope = \"all\"\nsenders = \"known\"",
                "hearth.toml:8: `senders` and `response_scope` of version 1 are both in the wiring to `a` of the chat `1` \
                 on `c`; keep the keys of one version",
            ),
            (
                "engage = \"mention\"\ntrigger_rules = \"{}\"",
                "hearth.toml:7: `engage` and `trigger_rules` of version 1 are both in the wiring to `a` of the chat `1` \
                 on `c`; keep the keys of one version",
            ),
        ] {
            let told = parse("hearth.toml", &format!("{CHAT}{keys}\n")).unwrap_err().to_string();
            assert_eq!(told, message);
        }
    }
}
