//! The program alone. `tests/linked.rs` tests it with a stand-in for WhatsApp.

#[test]
#[expect(clippy::disallowed_methods, reason = "the program that is tested")]
fn without_a_daemon_it_says_how_it_is_started() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hearth-whatsapp"));
    let ended = command.stdin(std::process::Stdio::null()).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.code() == Some(1) && said.contains("Hearth starts this program"), "{said}");
}
