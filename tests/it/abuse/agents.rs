//! The half of the list that agents try, as `hearth doctor --self-test` does it: in confined processes, and in containers
//! where there is a Podman with the agents' image.

use hearth::model::attack::{ATTACKS, Stand};
use hearth::model::configure::RuntimeKind;
use serde_json::Value;

use crate::confine;
use crate::host::{Host, skipped};

/// The self-test's answer on this host.
pub(super) fn tested(host: &Host) -> Value {
    let ended = host.run(&["doctor", "--self-test", "--json"], b"");
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:#?}"));
    let broken: Vec<&Value> =
        answer["self_test"]["attacks"].as_array().unwrap().iter().filter(|one| one["result"] == "not_held").collect();
    assert!(broken.is_empty(), "{broken:#?}");
    answer
}

/// Everything that is promised was tried, and nothing that is not.
pub(super) fn all_that_is_promised(answer: &Value, kind: RuntimeKind) {
    let lacking = !answer["self_test"]["limits"].as_array().unwrap().is_empty();
    let attacks = answer["self_test"]["attacks"].as_array().unwrap();
    let by_agents: Vec<_> = ATTACKS.iter().filter(|attack| attack.is_by_agent()).collect();
    assert_eq!(attacks.len(), by_agents.len());
    for (shown, attack) in attacks.iter().zip(by_agents) {
        assert_eq!(shown["attack"], attack.name);
        let result = shown["result"].as_str().unwrap();
        let fits = match attack.stand(kind) {
            // The machine may have nothing to try it with: whoever runs this has no home.
            Stand::Held if attack.name == "home" => ["held", "not_tried"].contains(&result),
            Stand::Held => result == "held",
            Stand::Tested(_) | Stand::Moot(_) => result == "not_tried",
            Stand::With(_) => result == "held" || (lacking && result == "not_promised"),
            Stand::Open(_) => result == "not_promised",
        };
        assert!(fits, "{shown:#}");
    }
}

#[test]
fn in_processes() {
    let mut host = Host::new();
    host.env.push(("CONTAINER_HOST".to_owned(), "unix:///nonexistent".to_owned()));
    let scratch = host.path("scratch");
    std::fs::create_dir(&scratch).unwrap();
    host.env.push(("TMPDIR".to_owned(), scratch.to_str().unwrap().to_owned()));
    host.done(&["agents", "add", "main"], b"");
    let answer = tested(&host);
    assert_eq!(answer["self_test"]["confined"], confine::possible());
    if confine::possible() {
        all_that_is_promised(&answer, RuntimeKind::Process);
    }
    let told = host.done(&["doctor", "--self-test"], b"");
    assert!(told.contains("self-test in process") && told.contains("not promised"), "{told}");
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0, "nothing is left of the tests");
    assert!(!host.run(&["doctor"], b"").stdout.contains("self-test in"), "only when it is asked for");
}

/// The container of the hostile agent is made as those of all agents are.
#[test]
fn in_containers() {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let found = variable("HEARTH_TEST_PODMAN").zip(variable("HEARTH_TEST_IMAGE"));
    let Some((socket, image)) = found.filter(|(_, image)| image.contains("hearth-agent")) else {
        skipped("there is no Podman with the agents' image; `.ci/podman.sh cargo test` makes one");
        return;
    };
    let mut host = Host::new();
    host.env.push(("CONTAINER_HOST".to_owned(), format!("unix://{socket}")));
    host.apply(&format!("schema = 1\nruntime = \"podman\"\nimage = \"{image}\"\n[[agents]]\nfolder = \"main\"\n"));
    let answer = tested(&host);
    assert!(answer["self_test"]["runtime"].as_str().unwrap().starts_with("podman"), "{answer:#}");
    all_that_is_promised(&answer, RuntimeKind::Podman);
}
