//! EDGE: the console in the browser. It serves pages, and knows neither the store nor the engine.
//!
//! `serve` takes a request through the checks of `guard`, finds out whose it is, and lets `pages` draw what a [`Views`]
//! has read, or has a [`Host`] carry out what was asked for. The daemon implements both. Every page is a plain document
//! that works without a script; the script only fetches the same page again when `stream` says that something changed.

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::sync::watch;

use crate::channel::webhook::Entrance;
use crate::model::address::UserId;
use crate::model::card::{Button, PromptSubject};
use crate::model::console::{ConsoleSettings, Login, TokenDigest};
use crate::model::console_command::ConsoleCommand;
use crate::model::id::{ConsoleSessionId, OutboundId};

mod certificate;
pub mod chat;
mod deed;
mod form;
mod guard;
mod lookup;
pub mod lookup_view;
mod multipart;
mod pages;
mod secured;
mod serve;
mod sign_in;
mod site;
mod stream;
mod token;
mod upload;
pub mod view;

pub use certificate::{Certificate, CertificateError, stamp};
pub use form::segment;
pub use multipart::UploadedFile;
pub use token::{digest, new_token};

use lookup_view::{FoundTexts, MemoryChangeRow, MemoryEdit, MemoryLines, MemoryRow};
use secured::{Peer, SecuredEntrance};
use site::Site;
use view::{Asked, Chat, Home, Prompt, Section, Topic, Why};

/// Connections of the console: a few pages of a few people, and an event stream for each page that is open.
const CONNECTIONS_MAX: usize = 1_200;

/// Who a request comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visitor {
    pub session: ConsoleSessionId,
    pub user: UserId,
    pub name: Option<String>,
    /// What they may see.
    pub rank: Rank,
    /// How they signed in.
    pub login: Login,
    /// What tokens of forms are made from.
    pub seed: TokenDigest,
    /// Digest of the token that the request had.
    pub digest: TokenDigest,
    /// State of that token.
    pub token: TokenAge,
}

/// What a person may see and decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rank {
    Everything,
    /// What concerns some agents, by their folders: those that the person administers. `talks_to` are those with whom they
    /// may chat.
    Some {
        /// Agents that the person administers.
        administers: Vec<String>,
        /// Agents that the person may talk to.
        talks_to: Vec<String>,
    },
}

impl Rank {
    /// Whether the person sees what an agent does.
    #[must_use]
    pub fn sees(&self, agent: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Some { administers, .. } => administers.iter().any(|own| own == agent),
        }
    }

    /// Whether the person may talk to an agent.
    #[must_use]
    pub fn talks_to(&self, agent: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Some { talks_to, .. } => self.sees(agent) || talks_to.iter().any(|own| own == agent),
        }
    }

    /// Whether the person sees anything besides the own chats.
    #[must_use]
    pub const fn decides(&self) -> bool {
        match self {
            Self::Everything => true,
            Self::Some { administers, .. } => !administers.is_empty(),
        }
    }
}

/// State of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenAge {
    /// It is the newest one.
    Current,
    /// It is the newest one, and old enough to be replaced.
    Due,
    /// It is the newest one, and used for the first time.
    Fresh,
    /// It was replaced a moment ago.
    Replaced,
}

/// A sign-in by a message to a bot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChatLogin {
    /// The person has to send this code.
    Waiting { code: String },
    /// This person sent it.
    Proved(UserId),
    /// The code no longer works.
    Void,
}

/// A browser that asks for a code to sign in with from a chat.
#[derive(Debug, Clone, Copy)]
pub struct NewLogin<'a> {
    /// Digest of the token that it gets for the code.
    pub browser: TokenDigest,
    /// Digest of the token that it has from an earlier code, which ends.
    pub before: Option<TokenDigest>,
    /// Where it is.
    pub address: IpAddr,
    /// What it calls itself.
    pub name: &'a str,
}

/// Why a request is not answered with what it asks for. All texts are for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// It does not exist, or the person may not see it.
    NotFound(String),
    /// The person or the request may not do this.
    Forbidden(String),
    /// It was refused, with the reason.
    Refused(String),
    /// It was refused because there is too much of it at present.
    TooMany(String),
    Failed(String),
}

/// A result for a page.
pub type Seen<T> = Result<T, Trouble>;

/// A message of a person to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// Folder of the agent.
    pub agent: String,
    /// Idempotency key of the form.
    pub id: String,
    pub text: String,
    /// Files that go with it.
    pub files: Vec<UploadedFile>,
}

/// A file that a browser may keep.
#[derive(Debug)]
pub struct Download {
    pub name: String,
    pub file: File,
    /// Its length in bytes.
    pub length: u64,
}

/// Reads what pages show. All functions may block, and check what the person may see.
pub trait Views: Send + Sync {
    /// What matters now.
    ///
    /// # Errors
    /// [`Trouble`], as for all others.
    fn home(&self, who: &Visitor) -> Seen<Home>;

    /// Everything that needs a decision.
    ///
    /// # Errors
    /// [`Trouble`].
    fn asked(&self, who: &Visitor) -> Seen<Asked>;

    /// One approval or question, open or not.
    ///
    /// # Errors
    /// [`Trouble`].
    fn prompt(&self, who: &Visitor, id: PromptSubject) -> Seen<Prompt>;

    /// The person's chat with an agent: the newest messages, or those around the message or answer `at`.
    ///
    /// # Errors
    /// [`Trouble`].
    fn chat(&self, who: &Visitor, agent: &str, at: Option<&str>) -> Seen<Chat>;

    /// A file of an answer in the person's chat with an agent, by its place.
    ///
    /// # Errors
    /// [`Trouble`].
    fn file(&self, who: &Visitor, agent: &str, answer: OutboundId, at: usize) -> Seen<Download>;

    /// The history of a message or an answer.
    ///
    /// # Errors
    /// [`Trouble`].
    fn why(&self, who: &Visitor, id: &str) -> Seen<Why>;

    /// The tables about one agent.
    ///
    /// # Errors
    /// [`Trouble`].
    fn agent(&self, who: &Visitor, folder: &str) -> Seen<Vec<Section>>;

    /// Runs the checks of `hearth doctor`, whose result the page about the installation's health shows.
    ///
    /// # Errors
    /// [`Trouble`].
    fn examine(&self, who: &Visitor) -> Seen<()>;

    /// What was said and the person may find.
    ///
    /// # Errors
    /// [`Trouble`].
    fn search(&self, who: &Visitor, query: &str) -> Seen<FoundTexts>;

    /// The memory files of the agents that the person administers.
    ///
    /// # Errors
    /// [`Trouble`].
    fn memory(&self, who: &Visitor) -> Seen<Vec<MemoryRow>>;

    /// A memory file.
    ///
    /// # Errors
    /// [`Trouble`].
    fn memory_file(&self, who: &Visitor, agent: &str, file: &str) -> Seen<MemoryLines>;

    /// What changed in the memory files of an agent, the newest first.
    ///
    /// # Errors
    /// [`Trouble`].
    fn memory_changes(&self, who: &Visitor, agent: &str) -> Seen<Vec<MemoryChangeRow>>;

    /// The tables of a topic.
    ///
    /// # Errors
    /// [`Trouble`].
    fn topic(&self, who: &Visitor, topic: Topic) -> Seen<Vec<Section>>;
}

/// Carries out what people ask for. All functions but [`Host::changes`] may block.
pub trait Host: Send + Sync {
    /// Whether people may sign in by a message to a bot.
    fn has_chat_login(&self) -> bool;

    /// Begins a sign-in by a message. Returns false if that is switched off.
    ///
    /// # Errors
    /// [`Trouble`].
    fn begin_login(&self, new: NewLogin<'_>) -> Seen<bool>;

    /// The state of a browser's sign-in; none if it has none, or it is over.
    fn login(&self, browser: TokenDigest) -> Option<ChatLogin>;

    /// Signs in the person who sent the browser's code, which then no longer works.
    ///
    /// # Errors
    /// [`Trouble`].
    fn end_login(&self, browser: TokenDigest, token: TokenDigest, name: &str) -> Seen<()>;

    /// The person whom a link signs in. Consumes nothing.
    fn of_link(&self, code: &str) -> Option<UserId>;

    /// Signs a person in by a link, which it consumes.
    ///
    /// # Errors
    /// [`Trouble`], as for all others.
    fn sign_in(&self, code: &str, token: TokenDigest, browser: &str) -> Seen<()>;

    /// Finds out whose a token is.
    ///
    /// # Errors
    /// [`Trouble`].
    fn visitor(&self, token: TokenDigest) -> Seen<Option<Visitor>>;

    /// Replaces a token. Returns false if another request replaced it already.
    ///
    /// # Errors
    /// [`Trouble`].
    fn rotate(&self, session: ConsoleSessionId, from: TokenDigest, to: TokenDigest) -> Seen<bool>;

    /// Records that a browser has used its new token.
    ///
    /// # Errors
    /// [`Trouble`].
    fn confirm(&self, session: ConsoleSessionId) -> Seen<()>;

    /// Ends a session.
    ///
    /// # Errors
    /// [`Trouble`].
    fn sign_out(&self, session: ConsoleSessionId) -> Seen<()>;

    /// Decides an approval or answers a question. Returns what was decided, in words.
    ///
    /// # Errors
    /// [`Trouble`].
    fn decide(&self, who: &Visitor, matter: PromptSubject, value: &str) -> Seen<String>;

    /// Sends a message to an agent. Returns Hearth's answer, if the message was for Hearth.
    ///
    /// # Errors
    /// [`Trouble`].
    fn say(&self, who: &Visitor, message: NewMessage) -> Seen<Option<String>>;

    /// Carries out a command. Returns what was done, in words.
    ///
    /// # Errors
    /// [`Trouble`].
    fn command(&self, who: &Visitor, command: ConsoleCommand) -> Seen<String>;

    /// Presses a button in a chat. Returns the answer, in words.
    ///
    /// # Errors
    /// [`Trouble`].
    fn press(&self, who: &Visitor, agent: &str, button: Button) -> Seen<String>;

    /// Corrects or removes a line of a memory file, under the lock of its other writers.
    ///
    /// # Errors
    /// [`Trouble`].
    fn correct_memory(&self, who: &Visitor, edit: &MemoryEdit) -> Seen<()>;

    /// A number that changes with every change of the store. It ends with the daemon.
    fn changes(&self) -> watch::Receiver<u64>;
}

/// A console that listens.
pub struct Listening {
    entrance: SecuredEntrance,
    site: Site,
}

impl Listening {
    /// Binds the address. With a certificate, it speaks TLS only.
    ///
    /// # Errors
    /// If that is impossible.
    pub async fn open(settings: &ConsoleSettings, certificate: Option<Certificate>) -> std::io::Result<Self> {
        let entrance = Entrance::open_for(settings.listen, CONNECTIONS_MAX).await?;
        let site = Site { bound: entrance.address()?, names: settings.names.clone(), tls: certificate.is_some() };
        let tls = certificate.map(|certificate| certificate.config);
        Ok(Self { entrance: SecuredEntrance::new(entrance, tls), site })
    }

    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.site.bound
    }

    /// How addresses of pages begin.
    #[must_use]
    pub fn origin(&self) -> String {
        self.site.origin()
    }

    /// Serves pages until the future is dropped or the daemon stops.
    ///
    /// # Errors
    /// Errors of the listener.
    pub async fn serve(self, host: Arc<dyn Host>, views: Arc<dyn Views>) -> std::io::Result<()> {
        let mut changes = host.changes();
        let router = serve::router(self.site, host, views);
        let stopped = async move { while changes.changed().await.is_ok() {} };
        axum::serve(self.entrance, router.into_make_service_with_connect_info::<Peer>())
            .with_graceful_shutdown(stopped)
            .await
    }
}
