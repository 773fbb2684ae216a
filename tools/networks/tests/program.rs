//! The program alone. `tests/it/discord.rs` tests it with a daemon and a stand-in for the network.

#[test]
#[expect(clippy::disallowed_methods, reason = "the program that is tested")]
fn without_a_daemon_or_a_network_it_says_how_it_is_started() {
    for (words, expected) in [
        (&["discord"][..], "Hearth starts this program"),
        (&[], "name one network: discord"),
        (&["no-such-network"], "name one network: discord"),
        (&["signal", "/usr/bin/signal-cli"], "Hearth starts this program"),
        (&["whatsapp"], "Hearth starts this program"),
        (&["discord", "more"], "name one network: discord"),
        (&["whatsapp", "more"], "name one network: discord"),
        (&["signal", "one", "more"], "name one network: discord"),
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hearth-networks"));
        let ended = command.args(words).stdin(std::process::Stdio::null()).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.code() == Some(1) && said.contains(expected), "{words:?}: {said}");
    }
}
