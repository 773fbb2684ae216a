//! `[channels.<instance>]`.

use std::net::SocketAddr;

use super::section::{Keys, Problems, Section, excerpt, with_article};
use crate::model::address::{ChannelName, ForeignId};
use crate::model::channel::{BridgeProgram, BridgeSetting, ChannelKind, UnknownChats};
use crate::model::configure::{Change, ChannelSpec};
use crate::model::console;
use crate::model::entity::EnvValue;

pub(super) const CHANNELS: Keys = Keys {
    place: "[channels.<name>]",
    known: &[
        "type",
        "token",
        "base_url",
        "secret",
        "listen",
        "bridge",
        "command",
        "settings",
        "notices",
        "unconfined",
        "link_previews",
        "unknown_chats",
        "tell_strangers",
    ],
    later: &[],
};

pub(super) const UNKNOWN_CHATS: [(&str, UnknownChats); 2] =
    [(UnknownChats::Ask.as_str(), UnknownChats::Ask), (UnknownChats::Ignore.as_str(), UnknownChats::Ignore)];

/// Kinds that a file can configure; the terminal always exists.
pub(super) const KINDS: [(&str, ChannelKind); 3] = [
    (ChannelKind::Telegram.as_str(), ChannelKind::Telegram),
    (ChannelKind::Webhook.as_str(), ChannelKind::Webhook),
    (ChannelKind::Bridge.as_str(), ChannelKind::Bridge),
];

/// The bridges that Hearth comes with, by the word that a file names them by, and their commands.
const BRIDGES: [(&str, &[&str]); 8] = [
    ("mail", &["hearth-mail"]),
    ("matrix", &["hearth-matrix"]),
    ("discord", &["hearth-networks", "discord"]),
    ("slack", &["hearth-networks", "slack"]),
    ("signal", &["hearth-networks", "signal"]),
    ("whatsapp", &["hearth-networks", "whatsapp"]),
    ("whatsapp-linked", &["hearth-whatsapp"]),
    ("mqtt", &["hearth-mqtt"]),
];

/// Most settings of a bridge, and most bytes of a value.
const SETTINGS_MAX: usize = 100;
const SETTING_BYTES_MAX: usize = 4_096;

pub(super) fn read(problems: &mut Problems<'_>, top: &Section<'_>) -> Vec<Change> {
    let mut changes = Vec::new();
    for (name, section) in top.named_tables(problems, "channels", &CHANNELS) {
        let checked = ChannelName::new(name).map_err(|error| error.to_string()).and_then(not_the_terminal);
        let kind = kind(problems, &section, name);
        let spec = |name, kind, problems: &mut Problems<'_>| {
            let program = (kind == ChannelKind::Bridge).then(|| program(problems, &section));
            let unknown_chats = section.word(problems, "unknown_chats", &UNKNOWN_CHATS);
            ChannelSpec {
                name,
                kind,
                token: reference(problems, &section, "token"),
                base_url: base_url(problems, &section),
                secret: reference(problems, &section, "secret"),
                listen: listen(problems, &section),
                link_previews: section.flag(problems, "link_previews").unwrap_or(false),
                unknown_chats: unknown_chats.unwrap_or_else(|| usual_for(program.as_ref())),
                tell_strangers: section.flag(problems, "tell_strangers").unwrap_or(false),
                program,
            }
        };
        match (checked, kind) {
            (Ok(name), Some(kind)) => {
                let spec = spec(name, kind, problems);
                check_kind(problems, &section, &spec);
                changes.push(Change::PutChannel(spec));
            }
            (Err(what), _) => problems.add(section.at(), what),
            (Ok(_), None) => {}
        }
    }
    changes
}

/// What happens to unknown chats if the file does not say it. Anybody can write mail to anybody: a card for each such mail
/// would bury the owner.
fn usual_for(program: Option<&BridgeProgram>) -> UnknownChats {
    let name = program.and_then(|program| program.command.first()).and_then(|word| word.rsplit('/').next());
    if name == Some("hearth-mail") { UnknownChats::Ignore } else { UnknownChats::default() }
}

fn not_the_terminal(name: ChannelName) -> Result<ChannelName, String> {
    if name.as_str() == console::CHANNEL {
        return Err("the channel `console` always exists: `[console]` configures it; use another name".to_owned());
    }
    if name.as_str() == ChannelKind::Terminal.as_str() {
        return Err(
            "the channel `terminal` always exists and cannot be configured; remove it or use another name".to_owned()
        );
    }
    if name.as_str().contains([':', '/']) {
        // Both characters end a channel's name in the text form of users and chats.
        return Err(format!("the channel name `{}` contains `:` or `/`; choose another", excerpt(name.as_str())));
    }
    Ok(name)
}

/// `type`, or else the kind that the channel's name implies.
fn kind(problems: &mut Problems<'_>, section: &Section<'_>, name: &str) -> Option<ChannelKind> {
    if section.get("type").is_some() {
        return section.word(problems, "type", &KINDS);
    }
    let named = KINDS.iter().find(|(word, _)| *word == name).map(|(_, kind)| *kind);
    if named.is_none() {
        let words: Vec<String> = KINDS.iter().map(|(word, _)| format!("`type = \"{word}\"`")).collect();
        problems
            .add(section.at(), format!("the channel `{}` needs a type; write {}", excerpt(name), words.join(" or ")));
    }
    named
}

/// Checks a kind's required keys, and keys that do not apply to it.
fn check_kind(problems: &mut Problems<'_>, section: &Section<'_>, spec: &ChannelSpec) {
    let (needed, unused): (&[&str], &[&str]) = match spec.kind {
        ChannelKind::Telegram => {
            (&["token"], &["secret", "listen", "bridge", "command", "settings", "notices", "unconfined"])
        }
        ChannelKind::Webhook => (&["secret"], &["token", "bridge", "command", "settings", "notices", "unconfined"]),
        ChannelKind::Bridge => (&[], &["base_url", "listen"]),
        ChannelKind::Terminal => (&[], &[]),
    };
    if spec.program.as_ref().is_some_and(|program| program.command.is_empty()) && section.get("bridge").is_none() {
        let what = "a channel of type bridge needs `bridge` or `command`; write one that Hearth comes with, like `bridge = \
                    \"mail\"`, or a program and its arguments, like `command = [\"/usr/bin/python3\", \
                    \"/opt/bridge.py\"]`";
        problems.add(section.at(), what);
    }
    let kind = spec.kind.as_str();
    for key in needed.iter().filter(|key| section.get(key).is_none()) {
        problems.add(section.at(), format!("a channel of type {kind} needs `{key}`; write `{key} = \"env:NAME\"`"));
    }
    for key in unused {
        if let Some(value) = section.get(key) {
            problems.add(value.span().start, format!("`{key}` has no meaning for a channel of type {kind}; remove it"));
        }
    }
}

/// The program of a bridge.
fn program(problems: &mut Problems<'_>, section: &Section<'_>) -> BridgeProgram {
    let command = section.texts(problems, "command");
    if let Some((at, word)) = command.first()
        && word.contains('/')
        && !word.starts_with('/')
    {
        problems.add(
            *at,
            format!("`command` begins with `{}`; write an absolute path, or a name without `/`", excerpt(word)),
        );
    }
    let mut command: Vec<String> = command.into_iter().map(|(_, word)| word.to_owned()).collect();
    if let (Some(key), false) = (section.get("bridge"), command.is_empty()) {
        problems.add(key.span().start, "`bridge` and `command` both name a program; remove one");
    } else if let Some(words) = section.word(problems, "bridge", &BRIDGES) {
        command = words.iter().map(|word| (*word).to_owned()).collect();
    }
    let mut settings = settings(problems, section);
    settings.extend(notices(problems, section));
    BridgeProgram { command, settings, unconfined: section.flag(problems, "unconfined").unwrap_or(false) }
}

/// The chat that is told what the owner has to know.
fn notices(problems: &mut Problems<'_>, section: &Section<'_>) -> Option<BridgeSetting> {
    let (at, chat) = section.text(problems, "notices")?;
    match ForeignId::new("`notices`", chat) {
        Ok(_) => Some(BridgeProgram::with_notices(chat)),
        Err(error) => {
            problems.add(at, format!("{error}; write the id of a chat of this channel"));
            None
        }
    }
}

/// What a bridge is told: texts by name.
fn settings(problems: &mut Problems<'_>, section: &Section<'_>) -> Vec<BridgeSetting> {
    let Some(value) = section.get("settings") else { return Vec::new() };
    let Some(table) = value.get_ref().as_table() else {
        section.wrong_type(problems, "settings", "a table, in braces");
        return Vec::new();
    };
    let mut settings = Vec::new();
    for (name, value) in table {
        let at = value.span().start;
        let shown = excerpt(name.get_ref());
        match value.get_ref().as_str() {
            _ if name.get_ref().starts_with(BridgeProgram::OWN) => {
                problems.add(at, format!("`settings.{shown}` is a name of Hearth's own; choose another"));
            }
            Some(text) if text.len() <= SETTING_BYTES_MAX => {
                settings.push(BridgeSetting { name: name.get_ref().to_string(), value: text.to_owned() });
            }
            Some(_) => {
                problems.add(at, format!("`settings.{shown}` is longer than {SETTING_BYTES_MAX} bytes; shorten it"))
            }
            None => {
                let found = with_article(value.get_ref().type_str());
                problems.add(at, format!("`settings.{shown}` is {found}; write a string, in quotes"));
            }
        }
    }
    if settings.len() > SETTINGS_MAX {
        problems.add(value.span().start, format!("`settings` has more than {SETTINGS_MAX} entries; remove some"));
    }
    settings.sort_by(|a, b| a.name.cmp(&b.name));
    settings
}

/// A reference to a secret, never the secret itself.
fn reference(problems: &mut Problems<'_>, section: &Section<'_>, key: &str) -> Option<String> {
    let (at, text) = section.text(problems, key)?;
    let named = EnvValue::KINDS.iter().any(|kind| text.strip_prefix(kind).is_some_and(|rest| !rest.is_empty()));
    if !named {
        // The value may be the secret: it is not repeated.
        problems
            .add(at, format!("`{key}` must say where the secret is; write \"env:NAME\", \"file:/path\" or \"cmd:…\""));
        return None;
    }
    Some(text.to_owned())
}

fn base_url(problems: &mut Problems<'_>, section: &Section<'_>) -> Option<String> {
    let (at, text) = section.text(problems, "base_url")?;
    let web = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let plain = web.is_some_and(|rest| !rest.is_empty() && !rest.contains(['@', ' ', '#', '?']));
    if !plain || text.chars().any(char::is_control) {
        let what = "`base_url` must be a web address without credentials; write one like \"https://example.org/api\"";
        problems.add(at, what);
        return None;
    }
    Some(text.trim_end_matches('/').to_owned())
}

fn listen(problems: &mut Problems<'_>, section: &Section<'_>) -> Option<SocketAddr> {
    let (at, text) = section.text(problems, "listen")?;
    let address = text.parse();
    address
        .map_err(|_| {
            let what = "`listen` must be an address and a port of this machine; write one like \"127.0.0.1:8787\"";
            problems.add(at, what);
        })
        .ok()
}
