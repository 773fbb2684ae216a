//! The setting of the reference: who listens where and to what, who talks, and what they send.

/// Who listens in the chats, and to what.
pub(super) const CHATS: [Chat; 5] = [
    // A group without threads, open to everyone.
    Chat { wirings: [ALWAYS, Wiring { known_only: true, ..MENTIONED }], ..GROUP },
    // An approver is asked about people whom the agents do not know.
    Chat { name: "R", lets_in: LetsIn::Asked, wirings: [ALWAYS, Wiring { keeps_rest: false, ..STICKY }], ..GROUP },
    // Only people whom the agents know.
    Chat { name: "S", lets_in: LetsIn::Known, wirings: [DEPLOY, MENTIONED], ..GROUP },
    // A group with threads; one of its agents has one conversation for everything.
    Chat { name: "T", threads: true, wirings: [Wiring { agent: "a", ..STICKY }, ONE_FOR_ALL], ..GROUP },
    // A direct message with threads: agents do not follow threads there.
    Chat { name: "D", threads: true, group: false, wirings: [ALWAYS, Wiring { split: true, ..STICKY }], ..GROUP },
];

const GROUP: Chat =
    Chat { name: "P", lets_in: LetsIn::Everybody, group: true, threads: false, wirings: [ALWAYS, MENTIONED] };

const MENTIONED: Wiring = Wiring {
    agent: "b",
    engages: Engages::Mentioned,
    keeps_rest: true,
    known_only: false,
    split: false,
    one_for_all: false,
};
const ALWAYS: Wiring = Wiring { agent: "a", engages: Engages::Containing(""), keeps_rest: false, ..MENTIONED };
const DEPLOY: Wiring = Wiring { agent: "a", engages: Engages::Containing("deploy"), ..MENTIONED };
const STICKY: Wiring = Wiring { engages: Engages::Sticking, ..MENTIONED };
const ONE_FOR_ALL: Wiring = Wiring { keeps_rest: false, one_for_all: true, ..STICKY };

pub(super) struct Chat {
    pub(super) name: &'static str,
    pub(super) lets_in: LetsIn,
    pub(super) group: bool,
    pub(super) threads: bool,
    pub(super) wirings: [Wiring; 2],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LetsIn {
    Everybody,
    /// People whom the agent knows; an approver is asked about others.
    Asked,
    /// Those whom the agent knows.
    Known,
}

#[derive(Clone, Copy)]
pub(super) struct Wiring {
    pub(super) agent: &'static str,
    pub(super) engages: Engages,
    /// Messages that do not engage are kept as context.
    pub(super) keeps_rest: bool,
    /// Only people whom the agent knows engage it.
    pub(super) known_only: bool,
    /// Each thread has its own conversation, even where threads of groups would otherwise share one.
    pub(super) split: bool,
    /// The agent has one conversation for all chats that are wired like this.
    pub(super) one_for_all: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Engages {
    Containing(&'static str),
    Mentioned,
    /// A mention, and everything that follows it in the same thread of a group for a day.
    Sticking,
}

/// People: an owner, one whom each agent may know, an unknown sender, an administrator of `b`, and one without a name.
pub(super) const PEOPLE: [&str; 6] = ["boss", "ann", "bob", "stranger", "bea", ""];

pub(super) const TEXTS: [&str; 6] = ["words", "deploy now", "/help", " /CLEAR it", "/review deploy", "/NEW"];

/// Threads; the first one means no thread.
pub(super) const THREADS: [Option<&str>; 3] = [None, Some("t1"), Some("t2")];

/// A chat and a thread.
pub(super) type Place = (usize, usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) at: Place,
    pub(super) who: usize,
    pub(super) text: usize,
    pub(super) mention: bool,
}

/// A conversation: an agent, and the place if the agent has more than one.
pub(super) type Talk = (&'static str, Option<Place>);

/// The conversation of a wiring that a message sent there belongs to.
pub(super) fn talk((chat, thread): Place, wiring: &Wiring) -> Talk {
    let Chat { group, threads, .. } = CHATS[chat];
    let own = threads && (group || wiring.split);
    (wiring.agent, (!wiring.one_for_all).then_some((chat, if own { thread } else { 0 })))
}

/// All possible conversations.
pub(super) fn talks() -> Vec<Talk> {
    let places = (0..CHATS.len()).flat_map(|chat| (0..THREADS.len()).map(move |thread| (chat, thread)));
    let mut all: Vec<Talk> =
        places.flat_map(|at| CHATS[at.0].wirings.iter().map(move |wiring| talk(at, wiring))).collect();
    all.sort_unstable();
    all.dedup();
    all
}

pub(super) fn agent(first: bool) -> &'static str {
    if first { "a" } else { "b" }
}

/// Whether a person has authority over an agent.
pub(super) fn administers(who: usize, agent: &str) -> bool {
    matches!((PEOPLE[who], agent), ("boss", _) | ("bea", "b"))
}

/// The setting as a configuration.
pub(super) fn configuration() -> String {
    let mut toml =
        "max_containers = 40\n[retention]\nbodies = \"400d\"\ndrops = \"400d\"\ndedup = \"400d\"\n".to_owned();
    for agent in ["a", "b"] {
        toml += &format!("[[agents]]\nfolder = \"{agent}\"\nmax_parallel = 20\nmax_prompt_messages = 2\n");
    }
    toml += "[[users]]\nid = \"net:boss\"\nroles = [\"owner\"]\n";
    toml += "[[users]]\nid = \"net:ann\"\nmember_of = [\"a\"]\n[[users]]\nid = \"net:bob\"\nmember_of = [\"b\"]\n";
    toml += "[[users]]\nid = \"net:bea\"\nroles = [\"admin:b\"]\n";
    for chat in &CHATS {
        let policy = match chat.lets_in {
            LetsIn::Everybody => "public",
            LetsIn::Asked => "request_approval",
            LetsIn::Known => "strict",
        };
        let Chat { name, group, .. } = chat;
        toml += &format!(
            "[[chats]]\nchannel = \"net\"\nplatform_id = \"{name}\"\ngroup = {group}\nunknown_senders = \"{policy}\"\n"
        );
        for wiring in &chat.wirings {
            toml += &wired(wiring);
        }
    }
    toml
}

fn wired(wiring: &Wiring) -> String {
    let engages = match wiring.engages {
        Engages::Mentioned => "engage = \"mention\"".to_owned(),
        Engages::Sticking => "engage = \"mention-sticky\"".to_owned(),
        Engages::Containing("") => "engage = \"pattern\"\npattern = \".\"".to_owned(),
        Engages::Containing(part) => format!("engage = \"pattern\"\npattern = \"{part}\""),
    };
    let senders = if wiring.known_only { "known" } else { "all" };
    let ignored = if wiring.keeps_rest { "accumulate" } else { "drop" };
    let session = match (wiring.one_for_all, wiring.split) {
        (true, _) => "agent-shared",
        (false, true) => "per-thread",
        (false, false) => "shared",
    };
    let agent = wiring.agent;
    format!(
        "[[chats.wirings]]\nagent = \"{agent}\"\n{engages}\nsenders = \"{senders}\"\nignored = \"{ignored}\"\n\
         session = \"{session}\"\n"
    )
}
