//! The README's way from nothing to an agent on Telegram, step by step, with its own file.

use serde_json::Value;

use super::house::House;
use crate::fake_telegram::TOKEN;

/// What stands in the README between this fence and the next, after the words with which the way begins.
fn block<'a>(readme: &'a str, fence: &str) -> &'a str {
    let (_, way) = readme.split_once("From nothing to a real agent on Telegram").unwrap();
    let (_, block) = way.split_once(fence).unwrap();
    block.split_once("```").unwrap().0
}

#[test]
fn from_nothing_to_an_agent_on_telegram() {
    let Some(mut house) = House::empty() else { return };
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let steps: Vec<&str> =
        block(&readme, "```sh\n").lines().map(|line| line.split('#').next().unwrap().trim()).collect();
    // The second makes the image, which is there already: `.ci/podman.sh` does just that.
    let build = "cargo runner && hearth image build";
    assert_eq!(steps, ["hearth up", build, "hearth apply agent.toml", "hearth run &", "hearth approvals approve ap1"]);

    let home = house.host.path(".");
    for (name, secret) in [("bot-token", TOKEN), ("api-key", "sk-ant-test")] {
        std::fs::write(home.join(name), secret).unwrap();
        std::fs::set_permissions(home.join(name), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
    // The stand-ins for Telegram and for the API of the agent CLI are somewhere else than the real ones.
    let (telegram, api) = (house.telegram.url(), house.api.port());
    let file = block(&readme, "```toml\n").replace("/home/you", home.to_str().unwrap());
    let file = file.replacen("[[agents]]", &format!("base_url = \"{telegram}\"\n[[agents]]\nnetwork = \"host\""), 1);
    let elsewhere = format!("env = {{ ANTHROPIC_BASE_URL = \"http://host.containers.internal:{api}\",");
    let file = file.replacen("env = {", &elsewhere, 1);
    std::fs::write(home.join("agent.toml"), file).unwrap();

    house.host.done(&["up"], b"");
    house.host.done(&["apply", home.join("agent.toml").to_str().unwrap()], b"");
    house.host.start();
    house.types(7, "hello from afar");
    let asked = house.wait("somebody to be asked", || {
        let listed: Value = serde_json::from_str(&house.host.done(&["approvals", "list", "--json"], b"")).unwrap();
        listed.to_string().contains("ap1").then_some(listed)
    });
    assert!(asked.to_string().contains("telegram"), "{asked}");
    house.host.done(&["approvals", "approve", "ap1"], b"");
    house.wait("an answer", || house.shown().iter().any(|one| one.contains("hello from afar")).then_some(()));
    house.settle();
    house.stop();
}
