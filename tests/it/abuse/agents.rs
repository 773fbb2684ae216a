//! The attacks of the list that agents try, as `hearth doctor --self-test` tries them: in confined processes, and in
//! containers of the agents' image where there is a Podman. `rootless.rs` tries them without root.

use hearth::model::configure::RuntimeKind;

use super::self_test::{all_that_is_promised, tested};
use crate::host::confined::possible;
use crate::host::{Host, skipped};

#[test]
fn the_list_of_attacks_holds_in_processes() {
    if !possible() {
        return;
    }
    let mut host = Host::new();
    host.env.push(("CONTAINER_HOST".to_owned(), "unix:///nonexistent".to_owned()));
    let scratch = host.path("scratch");
    std::fs::create_dir(&scratch).unwrap();
    host.env.push(("TMPDIR".to_owned(), scratch.to_str().unwrap().to_owned()));
    host.done(&["agents", "add", "main"], b"");
    let answer = tested(&host);
    assert_eq!(answer["self_test"]["confined"], true);
    all_that_is_promised(&answer, RuntimeKind::Process);
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0, "nothing is left of the tests");
}

/// The container of the hostile agent is made as those of all agents are.
#[test]
fn the_list_of_attacks_holds_in_the_agents_image() {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let found = variable("HEARTH_TEST_PODMAN").zip(variable("HEARTH_TEST_IMAGE"));
    let Some((socket, image)) = found.filter(|(_, image)| image.contains("hearth-agent")) else {
        return skipped("there is no Podman with the agents' image; `.ci/podman.sh cargo test` makes one");
    };
    let mut host = Host::new();
    host.env.push(("CONTAINER_HOST".to_owned(), format!("unix://{socket}")));
    host.apply(&format!("schema = 1\nruntime = \"podman\"\nimage = \"{image}\"\n[[agents]]\nfolder = \"main\"\n"));
    let answer = tested(&host);
    assert!(answer["self_test"]["runtime"].as_str().unwrap().starts_with("podman"), "{answer:#}");
    all_that_is_promised(&answer, RuntimeKind::Podman);
}
