//! Completions, typed into real shells at a terminal.

use std::path::Path;

use crate::host::pty::Pty;
use crate::host::{Host, skipped};

/// The names in the store.
const CONFIGURED: &str = r#"
schema = 1
[[agents]]
folder = "family"
provider = "echo"
[[agents]]
folder = "weather"
provider = "echo"
[channels.bot]
type = "telegram"
token = "env:BOT_TOKEN"
[[users]]
id = "bot:123"
name = "Ann"
[[chats]]
channel = "bot"
platform_id = "-100"
[[chats.wirings]]
agent = "family"
"#;

/// A shell that has read the script and shows `ready> ` when a line can be typed.
fn shell(host: &Host, name: &str) -> Option<Pty> {
    if std::process::Command::new(name).arg("--version").output().is_err() {
        skipped(format!("{name} is not installed, so its completions are not tried"));
        return None;
    }
    let (programs, script) = (host.path("programs"), host.path(&format!("script-{name}")));
    std::fs::write(&script, host.done(&["completions", name], b"")).unwrap();
    let script = script.to_str().unwrap();
    // A process has no controlling terminal by itself, and an interactive shell wants one.
    let mut command = host.bare("setsid");
    command.args(["--ctty", name]);
    match name {
        "bash" => {
            let file = start_file(host, "bashrc", &format!("PS1='ready> '\n. {script}\n"));
            command.args(["--noprofile", "--rcfile", &file, "-i"]);
        }
        "zsh" => {
            let dir = host.path("zsh");
            std::fs::create_dir_all(dir.join("functions")).unwrap();
            std::fs::copy(script, dir.join("functions/_hearth")).unwrap();
            let text = "PS1='ready> '\nfpath=($ZDOTDIR/functions $fpath)\nautoload -Uz compinit\ncompinit -u\n";
            std::fs::write(dir.join(".zshrc"), text).unwrap();
            command.args(["-d", "-i"]).env("ZDOTDIR", dir);
        }
        _ => {
            let text = format!("function fish_prompt; echo 'ready> '; end; set fish_greeting; source {script}");
            command.args(["--no-config", "--interactive", "--init-command", &text]);
        }
    }
    let path = format!("{}:{}", programs.display(), crate::host::search_path());
    command.env("PATH", path).env("HEARTH_DATA", host.data()).env("TERM", "xterm").env("NO_COLOR", "1");
    Some(Pty::start(command))
}

fn start_file(host: &Host, name: &str, text: &str) -> String {
    let path = host.path(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn bash_zsh_and_fish_complete_names_and_ids_of_the_store() {
    let host = Host::new();
    host.apply(CONFIGURED);
    host.done(&["tasks", "add", "family", "water the plants", "--every", "90m", "--chat", "bot/-100"], b"");
    let programs = host.path("programs");
    std::fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink(Path::new(env!("CARGO_BIN_EXE_hearth")), programs.join("hearth")).unwrap();
    for name in ["bash", "zsh", "fish"] {
        let Some(mut at) = shell(&host, name) else { continue };
        // Each is completed, then run: what a shell redraws of a line differs.
        for (typed, shown) in [
            ("hearth agents show fam\t\r", "technical_skips"),
            ("hearth tasks sh\tta\t\r", "water the plants"),
            ("hearth users show bot:1\t\r", "Ann"),
            ("hearth chats show bot/\t\r", "unknown_senders"),
        ] {
            at.wait("ready> ");
            at.type_keys(typed);
            at.wait(shown);
        }
        at.kill();
    }
    host.check();
}
