//! The answer of `hearth doctor --self-test`.

use hearth::model::attack::{ATTACKS, Stand};
use hearth::model::configure::RuntimeKind;
use serde_json::Value;

use crate::host::{Host, PATIENCE, Running};

/// The result of the self-test on this host.
pub(crate) fn tested(host: &Host) -> Value {
    // It starts dozens of agents: half a minute alone, and minutes beside other tests in containers.
    let ended = Running::start(host.command(&["doctor", "--self-test", "--json"]), b"").end_within(PATIENCE * 3);
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:#?}"));
    let broken: Vec<&Value> =
        answer["self_test"]["attacks"].as_array().unwrap().iter().filter(|one| one["result"] == "not_held").collect();
    assert!(broken.is_empty(), "{broken:#?}");
    answer
}

/// Everything that is promised was tried, and nothing else.
pub(crate) fn all_that_is_promised(answer: &Value, kind: RuntimeKind) {
    let lacking = !answer["self_test"]["limits"].as_array().unwrap().is_empty();
    let attacks = answer["self_test"]["attacks"].as_array().unwrap();
    let by_agents: Vec<_> = ATTACKS.iter().filter(|attack| attack.is_by_agent()).collect();
    assert_eq!(attacks.len(), by_agents.len());
    for (shown, attack) in attacks.iter().zip(by_agents) {
        assert_eq!(shown["attack"], attack.name);
        let result = shown["result"].as_str().unwrap();
        let fits = match attack.stand(kind) {
            // The user who runs this has no home.
            Stand::Held if attack.name == "home" => ["held", "not_tried"].contains(&result),
            Stand::Held => result == "held",
            Stand::Tested(_) | Stand::Moot(_) => result == "not_tried",
            Stand::With(_) => result == "held" || (lacking && result == "not_promised"),
            Stand::Open(_) => result == "not_promised",
        };
        assert!(fits, "{shown:#}");
    }
}
