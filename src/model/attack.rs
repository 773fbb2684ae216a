//! Catalogue of attacks by hostile agents and senders, and what must hold against each. Source for the self-test of
//! `hearth doctor`, the tests and docs/security.md.

mod keys;
mod row;
mod stand;

pub use row::Attack;
use row::{attack, of_network};
use stand::{BOTH, CONTROL_GROUPS, EVERY_NETWORK, KEYRING, OWN_SECRET, PROFILE, READER, VIEW, split};
pub use stand::{By, Stand};

const REFUSED: &str = "the request is refused";
const FILES: &str = "Files";
const SECRETS: &str = "Secrets and sockets";
const RIGHTS: &str = "Rights";
const MODELS: &str = "Keys of models";
const NETWORK: &str = "Network";
const HOSTS: &str = "Secrets of hosts";
const FLOODS: &str = "Floods";
const MAILBOX: &str = "Mailbox";
const IDENTITY: &str = "Identity";
const CARDS: &str = "Cards";
const TEXTS: &str = "Texts and files";
const STRANGERS: &str = "Approvals";
const ENTRANCES: &str = "Entrances";

/// The list. Agents first, then senders.
pub const ATTACKS: &[Attack] = &[
    attack(FILES, "store-read", ("reads the store", "it can read none of it"), BOTH),
    attack(FILES, "store-change", ("changes the store, or the data directory", "nothing changes"), BOTH),
    attack(FILES, "session-read", ("reads another session's mailbox", "it can read none of it"), BOTH),
    attack(FILES, "session-change", ("writes into another session's mailbox", "nothing changes"), BOTH),
    attack(FILES, "agent-read", ("reads another agent's folder or home", "it can read none of it"), BOTH),
    attack(FILES, "agent-change", ("writes into another agent's folder or home", "nothing changes"), BOTH),
    attack(FILES, "host-half", ("changes what the host tells it", "the host's half of the mailbox is read-only"), BOTH),
    attack(FILES, "own-folder", ("changes its folder although it is `untrusted`", "the folder is read-only"), BOTH),
    attack(FILES, "programs", ("changes the programs it runs", "the system, or the image, is read-only"), BOTH),
    attack(FILES, "home", ("reads the home of the user who runs Hearth", "it can read none of it"), BOTH),
    attack(
        FILES,
        "passwords",
        ("reads the machine's passwords, /etc/shadow", "it can read none of them"),
        split(VIEW, Stand::Held),
    ),
    attack(FILES, "temporary", ("looks into the machine's /tmp", "it sees nothing of it"), BOTH),
    attack(
        FILES,
        "symbolic-link",
        ("reads through a symbolic link that it created", "links reach nothing outside"),
        BOTH,
    ),
    attack(FILES, "hard-link", ("reads through a hard link that it created", "it cannot create one"), BOTH),
    attack(FILES, "move", ("moves another user's file into its folder", "nothing moves"), BOTH),
    attack(FILES, "dots", ("leaves its folder by `..`", "it finds nothing to read"), BOTH),
    attack(FILES, "processes", ("reads files through /proc", "/proc reaches nothing outside"), BOTH),
    attack(
        FILES,
        "modes",
        ("opens the token, the store or your keys to other users by changing their mode", "no mode changes"),
        split(VIEW, Stand::Held),
    ),
    attack(FILES, "terminal", ("uses the user's terminals", "none can be opened"), BOTH),
    attack(SECRETS, "token", ("reads the token of the daemon's socket", "it can read none of it"), BOTH),
    attack(
        SECRETS,
        "daemon-socket",
        ("commands the daemon through its socket", "no client is served without the token"),
        BOTH,
    ),
    attack(SECRETS, "daemon-memory", ("reads the environment or memory of the daemon", "neither can be read"), BOTH),
    attack(
        SECRETS,
        "other-environment",
        ("reads another agent's environment, where its secrets are", "it cannot be read"),
        BOTH,
    ),
    attack(
        SECRETS,
        "other-sockets",
        ("asks Podman, systemd or D-Bus to start a program", "their sockets cannot be reached"),
        BOTH,
    ),
    attack(
        SECRETS,
        "abstract-sockets",
        ("connects to an abstract socket of another program", "no one answers"),
        split(Stand::With("Linux 6.12, or `network = \"none\"`"), Stand::Held),
    ),
    attack(
        SECRETS,
        "keyring",
        ("uses the kernel's keyring, where other programs keep secrets", "it is refused"),
        split(Stand::Held, KEYRING),
    ),
    attack(
        SECRETS,
        "shared-memory",
        ("looks for other programs' System V shared memory", "it finds none"),
        split(Stand::Held, Stand::Tested("it needs a program that the image may lack")),
    ),
    attack(
        SECRETS,
        "stored-secret",
        ("received a secret and ends", "no file of the runtime contains it, during the run or afterwards"),
        split(
            Stand::Moot("the environment of a process is in memory only"),
            Stand::Tested("it needs a search through everything that Podman stores"),
        ),
    ),
    keys::READ,
    keys::REPLAY,
    keys::FOREIGN,
    keys::PATH,
    keys::SMUGGLE,
    keys::ECHO,
    attack(
        RIGHTS,
        "setuid",
        ("gains rights from a program with the setuid bit", "no new privileges, no capabilities"),
        BOTH,
    ),
    attack(RIGHTS, "mount", ("mounts something", "nothing is mounted"), BOTH),
    attack(
        RIGHTS,
        "user-namespace",
        ("mounts something in a user namespace of its own", "nothing is mounted"),
        split(Stand::Held, PROFILE),
    ),
    attack(RIGHTS, "device", ("makes a device node", "none is made"), BOTH),
    attack(
        RIGHTS,
        "signal",
        ("kills the daemon with a signal", "the daemon cannot be signalled"),
        split(Stand::With("bubblewrap or Linux 6.12"), Stand::Held),
    ),
    attack(
        RIGHTS,
        "limits-of-others",
        ("ends the daemon by its resource limits (`prlimit`)", "the limits of other processes do not change"),
        BOTH,
    ),
    attack(
        RIGHTS,
        "setuid-made",
        ("gives a file of its own the setuid bit", "the bit cannot be set"),
        split(
            Stand::Held,
            Stand::Open("the bit can be set, but has no effect in a container, and no other user can reach the file"),
        ),
    ),
    attack(
        RIGHTS,
        "outlive",
        ("leaves a process behind: another session, two forks, no descriptors", "it ends with the agent"),
        split(VIEW, Stand::Tested("a container's processes end with it")),
    ),
    attack(
        RIGHTS,
        "lock-in-flight",
        ("blocks the next start of its session with a lock descriptor in flight in a socket", "the next run starts"),
        split(Stand::Held, Stand::Moot("a container has none of the host's descriptors")),
    ),
    attack(
        RIGHTS,
        "unconfined",
        (
            "uses `command` or `claude` on a machine that cannot confine it",
            "it does not start unless it is `unconfined`",
        ),
        split(Stand::Held, Stand::Moot("a container holds whatever is in it")),
    ),
    attack(NETWORK, "network-none", ("reaches this machine with `network = \"none\"`", "no one answers"), BOTH),
    attack(
        NETWORK,
        "network-host",
        ("reaches other machines with `network = \"host\"`", "it cannot reach any"),
        split(EVERY_NETWORK, Stand::Tested("it needs a second machine")),
    ),
    attack(
        NETWORK,
        "network-open",
        ("reaches services that this machine offers to its network, with `network = \"open\"`", "it cannot reach any"),
        split(EVERY_NETWORK, Stand::Open("`open` is open")),
    ),
    attack(
        NETWORK,
        "network-loopback",
        (
            "reaches the loopback address of this machine with `network = \"open\"`",
            "no one answers unless `allow_host_loopback` is set",
        ),
        split(EVERY_NETWORK, Stand::With("slirp4netns, without which only `none` works")),
    ),
    attack(
        NETWORK,
        "network-agents",
        ("reaches another agent with `network = \"open\"`", "no one answers"),
        split(EVERY_NETWORK, Stand::Tested("it needs a second agent that listens")),
    ),
    of_network("net-host", "reaches a host that no rule allows, by name or through the proxy", "it is refused"),
    of_network("net-bypass", "connects past the daemon, over TCP or UDP", "there is no route"),
    of_network("net-dns", "puts data into names that it looks up", "such names do not exist, and no server is asked"),
    of_network("net-metadata", "reaches metadata addresses, even if they are listed", "it is refused"),
    of_network("net-lan", "reaches the local network or a loopback address that is not listed", "it is refused"),
    of_network("net-hearth", "reaches ports of Hearth itself, even if they are listed", "it is refused"),
    of_network("net-front", "names another host in TLS than the one that is allowed", "nothing is sent"),
    of_network("net-smuggle", "hides an HTTP request for another host behind one for its host", "it is not sent"),
    of_network(
        "net-rebind",
        "has a name that leads to the internet first, and then to this machine or the local network",
        "it is refused",
    ),
    of_network("net-other-agent", "uses the way out of another agent", "it cannot connect"),
    keys::OPENED_REPLAY,
    keys::OPENED_FOREIGN,
    keys::OPENED_SMUGGLE,
    keys::OPENED_PATH,
    keys::OPENED_LEAK,
    keys::OPENED_ECHO,
    attack(
        FLOODS,
        "fork-bomb",
        ("starts processes without end", "its limit ends it, 512 unless configured"),
        split(Stand::With("bubblewrap and user namespaces"), CONTROL_GROUPS),
    ),
    attack(
        FLOODS,
        "memory",
        ("uses all memory", "its limit ends it, 2 GiB unless configured"),
        split(Stand::Open("each process has this limit, all of them together have none"), CONTROL_GROUPS),
    ),
    attack(
        FLOODS,
        "disk",
        ("fills the disk", "there is a limit"),
        split(
            Stand::Open(
                "its folder, home and mailbox have no limit; Hearth refuses new work before the store runs out of space",
            ),
            Stand::Open(
                "its folder, `.claude` and mailbox have no limit; Hearth refuses new work before the store runs out of space",
            ),
        ),
    ),
    attack(
        FLOODS,
        "many-files",
        ("puts 10,000 files into its outbox", "other agents are served, and the files are removed"),
        BOTH,
    ),
    attack(FLOODS, "huge-file", ("puts a file of one gigabyte into its outbox", "it is not read"), BOTH),
    attack(FLOODS, "deep-tree", ("leaves directories 1,000 deep in its outbox", "they do no harm"), BOTH),
    attack(
        FLOODS,
        "many-questions",
        ("asks people one question after the other", "no more than 50 are open at once, and others can still ask"),
        BOTH,
    ),
    attack(MAILBOX, "higher-incarnation", ("poses as a later incarnation of itself", "its output is refused"), BOTH),
    attack(MAILBOX, "predecessor", ("poses as an earlier incarnation of itself", "its output is refused"), BOTH),
    attack(MAILBOX, "forged-end", ("acknowledges messages that are not its own", "they are not changed"), BOTH),
    attack(MAILBOX, "number-jump", ("uses up the message numbers of its session", "the number is refused"), BOTH),
    attack(MAILBOX, "foreign-chat", ("writes to a chat it was not given", "nothing arrives there"), BOTH),
    attack(MAILBOX, "foreign-agent", ("writes to an agent it was not given", "nothing arrives there"), BOTH),
    attack(
        MAILBOX,
        "false-sender",
        ("writes to another agent and poses as a person", "the other agent is told the real sender"),
        BOTH,
    ),
    attack(MAILBOX, "foreign-message", ("edits another session's message", "the message is not changed"), BOTH),
    attack(
        MAILBOX,
        "foreign-question",
        ("answers its own question, or one of another agent", "only people answer"),
        BOTH,
    ),
    attack(MAILBOX, "forged-decision", ("approves its own request", "only people decide"), BOTH),
    attack(
        MAILBOX,
        "reference",
        (
            "requests a tool that receives a file of the host, or a command's output there",
            "no one is asked to approve it",
        ),
        BOTH,
    ),
    attack(
        MAILBOX,
        "host-variable",
        (
            "requests a tool that receives one of the daemon's variables, which may be secrets",
            "no one is asked to approve it unless the operator listed the variable",
        ),
        BOTH,
    ),
    attack(
        MAILBOX,
        "own-secret",
        (
            "writes the value of its own secret into a message, a file or a request, as it is, in base64, in hexadecimal or \
             percent-encoded",
            "`[secret NAME]` takes its place, and the file is not sent",
        ),
        split(OWN_SECRET, OWN_SECRET),
    ),
    attack(MAILBOX, "foreign-task", ("cancels a task of another agent", "the task stays"), BOTH),
    attack(
        MAILBOX,
        "linked-answer",
        ("puts a link to a file of the host into its outbox", "the host never follows it"),
        BOTH,
    ),
    attack(MAILBOX, "linked-file", ("sends a link to a file of the host", "none of it is sent"), BOTH),
    attack(
        MAILBOX,
        "race",
        ("replaces a directory by a link while the host looks", "nothing at its target is read or removed"),
        BOTH,
    ),
    attack(
        MAILBOX,
        "linked-directory",
        ("replaces a directory of its mailbox by a link", "nothing at its target is read or removed"),
        BOTH,
    ),
    attack(MAILBOX, "second-name", ("puts a hard link into its outbox", "a file with a second name is not read"), BOTH),
    attack(MAILBOX, "pipe", ("puts a pipe into its outbox", "the host does not wait for it"), BOTH),
    attack(MAILBOX, "file-name", ("sends a file called `../../token`", "none of it is sent"), BOTH),
    attack(MAILBOX, "nonsense", ("writes what is not JSON, or nested endlessly", "it is refused"), BOTH),
    attack(
        CARDS,
        "hidden-request",
        ("hides a part of its request with invisible characters", "each of them is shown visibly"),
        split(READER, READER),
    ),
    attack(
        CARDS,
        "long-request",
        ("requests more than a card can show", "it is approved only where all of it is shown"),
        split(READER, READER),
    ),
    attack(
        IDENTITY,
        "name",
        ("takes the owner's display name", "a name identifies no one: the sender stays unknown"),
        By::Sender,
    ),
    attack(
        IDENTITY,
        "namespace",
        ("claims an id of another channel", "an id counts only in its own channel"),
        By::Sender,
    ),
    attack(IDENTITY, "agent-namespace", ("poses as an agent", "the event is refused"), By::Sender),
    attack(
        IDENTITY,
        "other-channel",
        ("speaks for another channel through a webhook", "the event is refused"),
        By::Sender,
    ),
    attack(
        IDENTITY,
        "commands",
        ("gives commands as a stranger", "they are held or dropped like any message"),
        By::Sender,
    ),
    attack(CARDS, "foreign-press", ("presses a button meant for another person", "nothing is decided"), By::Sender),
    attack(CARDS, "invented-press", ("presses a forged button", "nothing is decided"), By::Sender),
    attack(CARDS, "replayed-press", ("presses a button again after the decision", "the decision stands"), By::Sender),
    attack(CARDS, "old-press", ("presses a button of a card whose question is over", "nothing is decided"), By::Sender),
    attack(
        CARDS,
        "disguised-name",
        ("has a name that poses as other text of the card", "the name is in quotation marks that it cannot end"),
        By::Sender,
    ),
    attack(TEXTS, "element", ("closes the prompt element around their words", "the words stay inside it"), By::Sender),
    attack(
        TEXTS,
        "control",
        ("sends control characters and marks that reverse the text's direction", "no terminal obeys them"),
        By::Sender,
    ),
    attack(
        TEXTS,
        "attachment-name",
        ("names a file `../../token`, or like a device", "files have safe names"),
        By::Sender,
    ),
    attack(TEXTS, "huge-text", ("sends ten megabytes of text", "the event is refused with a reason"), By::Sender),
    attack(
        TEXTS,
        "mention-flood",
        ("mentions an agent again and again", "messages beyond the limit are dropped with a reason"),
        By::Sender,
    ),
    attack(TEXTS, "nested", ("sends endlessly nested JSON", "the event is refused with a reason"), By::Sender),
    attack(
        STRANGERS,
        "unknown-chats",
        (
            "mentions the bot in 1,500 chats at once",
            "the approver is shown 10 cards and a count, and answers are sent before cards",
        ),
        By::Sender,
    ),
    attack(
        STRANGERS,
        "stranger-files",
        (
            "sends file after file while the messages wait for an approval",
            "none is fetched if the network keeps it; otherwise 10 MiB per person and 100 MiB in total are kept",
        ),
        By::Sender,
    ),
    attack(ENTRANCES, "again", ("sends the same message again", "it changes nothing the second time"), By::Sender),
    attack(ENTRANCES, "same-id", ("sends a different text under the same id", "the first text is kept"), By::Sender),
    attack(
        ENTRANCES,
        "unsigned",
        ("calls a webhook without a signature, or with a wrong one", "nothing is read"),
        By::Sender,
    ),
    attack(
        ENTRANCES,
        "old-stamp",
        ("repeats a webhook request that was signed long ago", "nothing is read"),
        By::Sender,
    ),
    attack(ENTRANCES, "changed-body", ("changes a signed request", "nothing is read"), By::Sender),
    attack(
        ENTRANCES,
        "slow",
        (
            "sends a webhook request so slowly that it never ends",
            "it is cut off after a minute, or earlier if others need the connection",
        ),
        By::Sender,
    ),
    attack(
        ENTRANCES,
        "no-token",
        ("commands the daemon through its socket without the token", "they are turned away"),
        By::Sender,
    ),
    attack(
        ENTRANCES,
        "endless-line",
        ("sends an endless line to the socket", "its connection is closed, and other clients are served"),
        By::Sender,
    ),
    attack(
        ENTRANCES,
        "silence",
        ("opens the socket three hundred times and says nothing", "commands with the token are still served at once"),
        By::Sender,
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::model::policy::Policy;

    #[test]
    fn the_number_of_questions_is_the_real_one() {
        let attack = ATTACKS.iter().find(|attack| attack.name == "many-questions").unwrap();
        assert!(attack.holds.contains(&format!(" {} ", Policy::STANDARD.questions_per_agent)), "{}", attack.holds);
    }

    #[test]
    fn the_bounds_of_what_waits_are_the_real_ones() {
        let holds = |name| ATTACKS.iter().find(|attack| attack.name == name).unwrap().holds;
        let policy = Policy::STANDARD;
        assert!(holds("unknown-chats").contains(&format!("shown {} cards", policy.cards_per_decider)));
        let bytes = [policy.held_bytes_per_person >> 20, policy.held_bytes >> 20];
        assert_eq!(
            holds("stranger-files"),
            format!(
                "none is fetched if the network keeps it; otherwise {} MiB per person and {} MiB in total are kept",
                bytes[0], bytes[1]
            )
        );
    }

    #[test]
    fn names_are_used_once_and_agents_come_first() {
        let names: BTreeSet<_> = ATTACKS.iter().map(|attack| attack.name).collect();
        assert_eq!(names.len(), ATTACKS.len());
        let plain = |name: &&str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        assert!(names.iter().all(plain), "{names:?}");
        assert!(ATTACKS.is_sorted_by_key(|attack| !attack.is_by_agent()));
        let headings: Vec<_> = ATTACKS.iter().map(|attack| (attack.about, attack.is_by_agent())).collect();
        let together = headings.chunk_by(|one, next| one == next).count();
        assert_eq!(together, headings.iter().collect::<BTreeSet<_>>().len(), "each heading stands once");
    }
}
