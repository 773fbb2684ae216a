//! Packages in an agent's image: requested, approved, built by the daemon with the options of the last `hearth image
//! build`, and present for the agent; and the report of a failed build.

use serde_json::Value;

use super::setup::Setup;

/// The base image gets a separate name for the duration of the test.
struct Images<'a>(&'a Setup);

impl Images<'_> {
    /// Names of the images of this host's agents.
    fn names(&self) -> Vec<String> {
        let filter = format!("label=hearth.image.install={}", self.0.install());
        let listed = self.0.podman(&["images", "--format", "{{.Repository}}:{{.Tag}}", "--filter", &filter]);
        listed.lines().map(str::to_owned).collect()
    }

    fn remove(&self) {
        for container in self.0.containers() {
            self.0.podman(&["rm", "--force", "--time", "0", &container]);
        }
        for name in self.names() {
            self.0.podman(&["rmi", "--force", &name]);
        }
    }
}

fn parsed(setup: &Setup, arguments: &[&str]) -> Value {
    let mut arguments = arguments.to_vec();
    arguments.push("--json");
    serde_json::from_str(&setup.host.run(&arguments, b"").stdout).unwrap()
}

fn image_of(setup: &Setup) -> String {
    setup.podman(&["inspect", "--format", "{{.ImageName}} {{.Image}}", &setup.container()])
}

#[test]
fn approved_packages_are_built_by_the_daemon_and_are_there() {
    let Some(mut setup) = Setup::with_cli() else { return };
    setup.types(1, "[[tool mcp__nanoclaw__install_packages {\"apt\":[\"tree\"],\"npm\":[\"is-odd\"]}]] [[say asked]]");
    setup.wait_shown("asked");
    setup.settle();
    let before = image_of(&setup);
    assert!(before.starts_with("localhost/hearth-agent:"), "{before}");
    setup.host.done(&["approvals", "approve", "ap1"], b"");
    // The agent is told, and answers the person who asked.
    setup.wait_shown("container rebuilt");
    setup.settle();
    let own = image_of(&setup);
    assert!(own.starts_with(&format!("localhost/hearth-agent-{}-main:", setup.install())), "{own}");
    setup.types(
        2,
        "[[tool Bash {\"command\":\"tree --version > has.txt; ls /usr/local/lib/node_modules >> has.txt\"}]]",
    );
    setup.wait("the packages", || {
        let has = std::fs::read_to_string(setup.group("has.txt")).ok()?;
        (has.starts_with("tree v") && has.contains("is-odd")).then_some(())
    });
    setup.settle();

    let rebuilt = parsed(&setup, &["agents", "restart", "main", "--rebuild"]);
    assert_eq!(own.split(' ').next(), rebuilt["images"][0]["image"].as_str(), "{rebuilt}");
    setup.types(3, "[[say still here]]");
    setup.wait_shown("still here");
    setup.settle();
    setup.stop();
    Images(&setup).remove();
    assert_eq!(Images(&setup).names(), Vec::<String>::new());
}

#[test]
fn a_build_that_fails_is_told_by_status_and_doctor_and_the_agent_works_on() {
    let Some(mut setup) = Setup::new("provider = \"echo\"\npackages = { apt = [\"no-such-package-of-debian\"] }")
    else {
        return;
    };
    setup.host.start();
    setup.types(1, "hello");
    setup.wait_shown("echo: hello");
    let words = "Unable to locate package no-such-package-of-debian";
    setup.wait("the failure", || {
        let status = parsed(&setup, &["status"]);
        status["warnings"].to_string().contains(words).then_some(())
    });
    let doctor = parsed(&setup, &["doctor"]);
    let checks = doctor["checks"].as_array().unwrap();
    let build = checks.iter().find(|check| check["check"] == "build").unwrap_or_else(|| panic!("{doctor}"));
    assert!(build["found"].as_str().unwrap().contains(words) && build["result"] == "warn", "{build}");
    setup.types(2, "still there?");
    setup.wait_shown("echo: still there?");
    setup.settle();
    setup.stop();
    Images(&setup).remove();
}
