//! What an entity loses or gains when a key goes back to its default.

use crate::model::entity::Network;
use crate::model::report::FieldChange;

/// A key, and the consequence of its default.
type Words = (&'static str, &'static str);

const AGENT: &[Words] = &[
    ("name", "its name is that of its folder"),
    ("provider", "it only repeats what people write"),
    ("command", "it loses its own program"),
    ("env", "it loses variables"),
    ("model", "its provider chooses the model"),
    ("effort", "its provider chooses the effort"),
    ("verbosity", "people lose what it writes before it uses tools"),
    ("recall", "searches cover only its session's chat"),
    ("mode", "its program runs in the mode that `permissions` needs"),
    ("permissions", "it may use tools without asking for permission"),
    ("tools", "it may use every tool without a question"),
    ("blocked_tools", "it may use tools that were blocked"),
    ("trust", "it becomes untrusted, its memory read-only unless `folder_access` allows writing"),
    ("folder_access", "access to its folder and memory follows `trust`"),
    ("unconfined", "it runs confined"),
    ("allow", "it loses hosts that it may reach"),
    ("deny", "no host is denied to it"),
    ("allow_host_loopback", "it loses the services of this machine"),
    ("secrets", "it loses secrets"),
    ("request_env", "its requests may name no variables"),
    ("gateway", "Hearth keeps the keys of its models from it"),
    ("models", "it may use all models"),
    ("on_limit", "its messages wait for a person when a budget is spent"),
    ("caps", "its messages have the default limits"),
    ("fallback", "no other provider is used while its own refuses requests"),
    ("max_prompt_messages", "its prompts have the default number of context messages"),
    ("max_parallel", "the default number of its sessions runs at once"),
    ("technical_skips", "people are told about every skip"),
    ("timezone", "it uses the time zone of all agents"),
    ("packages", "its image loses packages"),
    ("mcp_servers", "it loses MCP servers"),
    ("instructions", "a new folder of it has no instructions"),
    ("mounts", "it loses directories"),
    ("limits", "its containers have the default limits"),
    ("skills", "it gets all skills"),
];

const USER: &[Words] = &[
    ("name", "this person has the name under which they write"),
    ("roles", "this person loses roles"),
    ("member_of", "this person loses agents"),
];

const CHAT: &[Words] = &[
    ("name", "it has the name that its network gives it"),
    ("group", "it counts as a direct chat"),
    ("unknown_senders", "a person decides about strangers"),
];

const WIRING: &[Words] = &[
    ("engage", "the agent answers only mentions"),
    ("pattern", "the agent loses the pattern of messages that it answers"),
    ("senders", "the agent answers strangers, too"),
    ("ignored", "the agent loses messages that it does not answer as context"),
    ("session", "all messages of the chat share a session"),
    ("priority", "wirings with a higher priority come first"),
    ("context_from", "`unknown_senders` of the chat decides whose messages are context"),
];

const CHANNEL: &[Words] = &[
    ("type", "its name is its type"),
    ("token", "it loses its token"),
    ("base_url", "it loses the address of its server"),
    ("secret", "it loses its secret"),
    ("listen", "it listens on the default address"),
    ("command", "it loses its program"),
    ("settings", "it loses settings"),
    ("notices", "no chat of it is told what the owner has to know"),
    ("unconfined", "its program runs confined"),
    ("link_previews", "links in its messages have no previews"),
    ("unknown_chats", "what happens to a mention in a chat without an agent is the default"),
    ("tell_strangers", "strangers are not told that they wait for an approval"),
];

const CONSOLE: &[Words] = &[
    ("enabled", "it is on"),
    ("listen", "it listens on this machine only"),
    ("chat_login", "people cannot sign in from a chat"),
    ("names", "browsers reach it only by its address"),
    ("tls_cert", "it loses its certificate"),
    ("tls_key", "it loses its certificate"),
];

const SETTINGS: &[Words] = &[
    ("default_agent", "`hearth chat` needs `--agent` where there are several"),
    ("store_max_bytes", "the store may fill the disk"),
    ("session_files_max_bytes", "agents keep the default amount of files of ended messages"),
    ("max_containers", "the default number of agents runs at once"),
    ("timezone", "people have the time zone of this machine"),
    ("runtime", "Hearth chooses where agents run"),
    ("image", "agents run in Hearth's own image"),
    ("retention.bodies", "texts are kept for the default time"),
    ("retention.journal", "the journal is kept for the default time"),
    ("retention.attachments", "files are kept for the default time"),
    ("retention.dedup", "duplicates are recognised for the default time"),
    ("retention.drops", "refused events are kept for the default time"),
    ("backup.every", "nothing is backed up"),
    ("backup.keep", "the default number of backups is kept"),
    ("backup.to", "backups go to the data directory"),
    ("backup.with_secrets", "backups have no secrets"),
    ("prices", "prices of models are those of Hearth's list"),
    ("budgets", "no budget limits what is spent"),
    ("grace", "the default number of messages passes a spent budget"),
    ("secrets", "agents lose secrets"),
    ("voice.transcribe.command", "voice messages lose this program"),
    ("voice.transcribe.url", "voice messages lose this server"),
    ("voice.transcribe.model", "the server chooses the model for voice messages"),
    ("voice.transcribe.key", "voice messages lose the key of the server"),
    ("voice.transcribe.language", "the language of voice messages is not given"),
    ("voice.transcribe.max_bytes", "voice messages have the default limit of size"),
    ("voice.transcribe.timeout", "voice messages have the default limit of time"),
    ("voice.speak.command", "spoken answers lose this program"),
    ("voice.speak.url", "spoken answers lose this server"),
    ("voice.speak.model", "the server chooses the model for spoken answers"),
    ("voice.speak.key", "spoken answers lose the key of the server"),
    ("voice.speak.voice", "the server chooses the voice"),
    ("voice.speak.format", "spoken answers have the default format"),
    ("voice.speak.when", "only answers to voice messages are spoken"),
    ("voice.speak.max_chars", "spoken answers have the default limit of length"),
    ("voice.speak.max_bytes", "spoken answers have the default limit of size"),
    ("voice.speak.timeout", "spoken answers have the default limit of time"),
];

/// The consequence of the default of a key. `entity` is the entity's name in reports.
pub(super) fn consequence(entity: &str, field: &FieldChange) -> &'static str {
    let kind = entity.split(' ').next().unwrap_or_default();
    match (kind, field.field.as_str()) {
        ("agent", "network") => network(field.after.as_deref()),
        (kind, key) => words(kind, key).unwrap_or("it has the default"),
    }
}

fn words(kind: &str, key: &str) -> Option<&'static str> {
    let words = match kind {
        "agent" => AGENT,
        "user" => USER,
        "chat" => CHAT,
        "wiring" => WIRING,
        "channel" => CHANNEL,
        "console" => CONSOLE,
        _ => SETTINGS,
    };
    words.iter().find(|(known, _)| *known == key).map(|(_, words)| *words)
}

/// The default network depends on trust and confinement.
fn network(after: Option<&str>) -> &'static str {
    match after {
        Some(word) if word == Network::Ask.as_str() => "a person is asked about hosts that `allow` does not list",
        Some(word) if word == Network::Listed.as_str() => "it reaches only hosts that `allow` lists",
        _ => "it reaches everything",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file;

    #[test]
    fn every_key_has_words_and_every_word_a_key() {
        let mut known = Vec::new();
        for (kind, key) in file::known_keys() {
            let field = FieldChange { field: key.clone(), before: None, after: None };
            assert_ne!(consequence(kind, &field), "it has the default", "{kind}: {key}");
            known.push((kind, key));
        }
        let all = [
            ("agent", AGENT),
            ("user", USER),
            ("chat", CHAT),
            ("wiring", WIRING),
            ("channel", CHANNEL),
            ("console", CONSOLE),
            ("settings", SETTINGS),
        ];
        for (kind, words) in all {
            for (key, _) in words {
                assert!(known.contains(&(kind, (*key).to_owned())), "{kind}: the file has no key {key}");
            }
        }
    }
}
