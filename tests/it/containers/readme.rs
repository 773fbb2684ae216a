//! The manual steps of docs/setup.md from nothing to an agent on Telegram.

use serde_json::Value;

use super::setup::Setup;
use crate::host::fake_telegram::TOKEN;

/// The part of the document with these steps.
fn way(readme: &str) -> &str {
    let (_, way) = readme.split_once("\n## By hand\n").unwrap();
    way
}

/// The blocks between such a fence and the next one.
fn blocks<'a>(way: &'a str, fence: &str) -> Vec<&'a str> {
    way.split(fence).skip(1).map(|block| block.split_once("```").unwrap().0).collect()
}

#[test]
fn from_nothing_to_an_agent_on_telegram() {
    let Some(mut setup) = Setup::empty() else { return };
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/setup.md")).unwrap();
    let way = way(&readme);
    let shell = blocks(way, "```sh\n");
    let steps: Vec<&str> =
        shell.iter().flat_map(|block| block.lines()).map(|line| line.split('#').next().unwrap().trim()).collect();
    // The first block builds the image, which `.ci/podman.sh` has already built in the same way. A daemon stands in for
    // the service.
    let before = ["hearth image build", "hearth apply agent.toml", "hearth service install", "hearth status"];
    let after =
        ["hearth channels pair telegram", "hearth approvals list", "hearth approvals approve ap1", "hearth why latest"];
    assert_eq!(steps, [&before[..], &after].concat());
    let home = setup.host.path(".");
    for (name, secret) in [("bot-token", TOKEN), ("api-key", "sk-ant-test")] {
        std::fs::write(home.join(name), secret).unwrap();
        std::fs::set_permissions(home.join(name), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
    // The fake servers for Telegram and the agent CLI's API have other addresses than the real ones.
    let (telegram, api) = (setup.telegram.url(), setup.api.port());
    let file = blocks(way, "```toml\n")[0].replace("/home/you", home.to_str().unwrap());
    let file = file.replacen("[[agents]]", &format!("base_url = \"{telegram}\"\n[[agents]]"), 1);
    // The model gateway asks the API, from this machine.
    let elsewhere = format!("env = {{ ANTHROPIC_BASE_URL = \"http://127.0.0.1:{api}\",");
    let file = file.replacen("env = {", &elsewhere, 1);
    std::fs::write(home.join("agent.toml"), file).unwrap();

    setup.host.done(&["up"], b"");
    setup.host.done(&["apply", home.join("agent.toml").to_str().unwrap()], b"");
    setup.host.start();
    let status = setup.host.done(&["status"], b"");
    assert!(status.contains("channel: telegram"), "{status}");
    // An agent with several destinations has to name one.
    setup.types(7, r#"hello [[say {{message to="ann"}}hello from afar{{/message}}]]"#);
    let asked = setup.wait("a person to be asked", || {
        let listed: Value = serde_json::from_str(&setup.host.done(&["approvals", "list", "--json"], b"")).unwrap();
        listed.to_string().contains("ap1").then_some(listed)
    });
    assert!(asked.to_string().contains("telegram"), "{asked}");
    setup.host.done(&["approvals", "approve", "ap1"], b"");
    setup.wait("an answer", || (setup.shown() == ["hello from afar"]).then_some(()));
    let why = setup.host.done(&["why", "latest"], b"");
    assert!(why.contains("ap1 was approved"), "{why}");
    setup.settle();
    setup.stop();
}
