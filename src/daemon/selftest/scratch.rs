//! The scratch installation of the self-test: agents with one conversation each. One agent turns hostile.

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::Error;
use crate::channel::event;
use crate::clock;
use crate::config::{Paths, env};
use crate::daemon::runtime::guarded;
use crate::daemon::runtime::this_program;
use crate::daemon::{Daemon, setup};
use crate::model::address::{ChannelName, ForeignId};
use crate::model::configure::{Change, ChatSpec, Configure, DestinationSpec, RoleSpec, UserSpec, WiringSpec};
use crate::model::delivery::Outbound;
use crate::model::entity::{
    AgentSettings, Engage, EnvValue, Folder, Ignored, Limits, Network, Origin, SenderScope, SessionMode, Trust,
    UnknownSenders,
};
use crate::model::id::{AgentId, OutboundId, SessionId};
use crate::model::incarnation::SpecDigest;
use crate::model::input::Input;
use crate::model::message::{Message, MessageState};
use crate::model::report::Reply;
use crate::model::session::SessionName;
use crate::model::task::{Missed, Overlap, TaskHome, TaskOrigin};
use crate::model::task_command::{NewTask, TaskCommand};
use crate::runtime::Spec;
use crate::runtime::process::Setup;

/// The channel of the scratch installation. It has no adapter.
pub(super) const CHANNEL: &str = "self-test";
/// The agent that turns hostile, its chat, and the other one.
pub(super) const OWN: &str = "own";
pub(super) const OTHER: &str = "other";
/// An agent that the hostile one may write to.
pub(super) const PEER: &str = "peer";
/// A message that makes an agent ask people a question. The question stays open longer than the test takes.
pub(super) const ASK: &str =
    r#"!payload {"type":"ask_question","title":"May I?","question":"May I?","options":["Yes","No"],"timeout":3600}"#;
/// The hostile agent's memory limit, where memory can be limited.
const MEMORY: u64 = 256 << 20;
const PIDS: u32 = 100;
/// Number of additional messages to the other agent.
const AHEAD: u32 = 3;
/// How often and how long a condition is polled.
const LOOKS: u32 = 1_200;
const LOOK: Duration = Duration::from_millis(50);

/// The scratch installation.
pub(super) struct Scratch<'a> {
    pub(super) daemon: &'a Arc<Daemon>,
    tokio: &'a Handle,
    /// A text in the environment of the other agent's processes.
    pub(super) secret: String,
    pub(super) own: (SessionId, AgentId),
    pub(super) other: (SessionId, AgentId),
    /// A socket of another program, accessible to every user.
    pub(super) socket: PathBuf,
    _listeners: [Option<UnixListener>; 2],
}

impl<'a> Scratch<'a> {
    pub(super) fn make(daemon: &'a Arc<Daemon>, tokio: &'a Handle) -> Result<Self, Error> {
        let entropy = clock::random().map_err(Error::Entropy)?;
        let secret = format!("self-test-{entropy:x}");
        let socket = daemon.paths().data().with_file_name("other.sock");
        let listeners = [Some(UnixListener::bind(&socket)?), abstract_listener(&secret)?];
        let nowhere = (SessionId::new(0), AgentId::new(0));
        let mut scratch = Self { daemon, tokio, secret, own: nowhere, other: nowhere, socket, _listeners: listeners };
        let mut changes = Vec::new();
        for folder in [OWN, OTHER, PEER] {
            changes.extend(scratch.agent(folder)?);
        }
        let peer = DestinationSpec::Agent(Folder::new(PEER)?);
        changes.push(Change::AddDestination(Folder::new(OWN)?, PEER.to_owned(), peer));
        // The installation needs a person who could decide.
        let id = setup::user(rustix::process::geteuid().as_raw())?;
        let owner = UserSpec { id, name: None, roles: vec![RoleSpec::Owner], member_of: Vec::new() };
        changes.push(Change::PutUser(owner));
        scratch.submit(Input::Configure(Configure::new(changes, Origin::Runtime)))?;
        scratch.own = scratch.converse(OWN)?;
        scratch.other = scratch.converse(OTHER)?;
        // Records of a previous incarnation are told apart by its number, so there has to be a previous one.
        let again = Change::RestartAgent(Folder::new(OWN)?, None);
        scratch.submit(Input::Configure(Configure::new(vec![again], Origin::Runtime)))?;
        scratch.converse(OWN)?;
        // The agent's own questions, and questions and messages of the other agent at numbers that it has not reached
        // yet.
        for chat in [OWN, OTHER] {
            scratch.tell(chat, ASK)?;
        }
        for _ in 0..AHEAD {
            scratch.converse(OTHER)?;
        }
        let first = Some("2099-01-01T00:00:00Z".to_owned());
        let task = NewTask {
            agent: scratch.other.1,
            home: TaskHome::Session(scratch.other.0),
            prompt: "look".to_owned(),
            script: None,
            reply: None,
            first,
            recurrence: None,
            missed: Missed::default(),
            overlap: Overlap::default(),
            origin: TaskOrigin::Operator,
            allow: Vec::new(),
        };
        scratch.submit(Input::Task(TaskCommand::Add(Box::new(task))))?;
        scratch.lay_out()?;
        Ok(scratch)
    }

    /// An echo agent, and a chat in which it receives everything.
    fn agent(&self, folder: &str) -> Result<[Change; 2], Error> {
        let folder = Folder::new(folder)?;
        let env = vec![("SELF_TEST_SECRET".to_owned(), EnvValue::Plain(self.secret.clone()))];
        let env = if folder.as_str() == OTHER { env } else { Vec::new() };
        let network = Network::None;
        let settings = AgentSettings { env, network, ..AgentSettings::named(folder.as_str().to_owned()) };
        let wiring = WiringSpec {
            agent: folder.clone(),
            engage: Engage::Pattern(".".to_owned()),
            senders: SenderScope::All,
            ignored: Ignored::Drop,
            session: SessionMode::Shared,
            priority: 0,
            context_from: None,
        };
        let chat = ChatSpec {
            channel: ChannelName::new(CHANNEL)?,
            platform_id: ForeignId::new("the chat", folder.as_str())?,
            name: None,
            group: false,
            unknown_senders: UnknownSenders::Public,
            wirings: vec![wiring],
        };
        Ok([Change::PutAgent(folder, settings), Change::PutChat(chat)])
    }

    /// Target of a link that replaces the directory of files.
    pub(super) fn bait(&self) -> PathBuf {
        self.paths().data().with_file_name("bait")
    }

    /// Creates files that other agents must not see or change.
    fn lay_out(&self) -> Result<(), Error> {
        for place in super::mailbox::baited() {
            let place = self.bait().join(place);
            std::fs::create_dir_all(&place)?;
            std::fs::write(place.join("token"), &self.secret)?;
        }
        for spec in [self.spec(), self.other_spec()] {
            std::fs::create_dir_all(&spec.home_dir)?;
            std::fs::create_dir_all(spec.home_dir.join(".claude"))?;
            for directory in [&spec.session_dir.join("host"), &spec.group_dir, &spec.home_dir] {
                std::fs::write(directory.join("note"), "private")?;
            }
        }
        Ok(())
    }

    pub(super) fn paths(&self) -> &Paths {
        self.daemon.paths()
    }

    fn submit(&self, input: Input) -> Result<Reply, Error> {
        let reply = self.tokio.block_on(self.daemon.submit(input, false)).map_err(Error::Trial)?;
        if reply.is_refusal() { Err(Error::Trial(format!("{reply:?}"))) } else { Ok(reply) }
    }

    /// Sends a message to an agent's chat and waits for the answer.
    pub(super) fn converse(&self, chat: &str) -> Result<(SessionId, AgentId), Error> {
        self.tell(chat, "hello")
    }

    /// Like [`Scratch::converse`], with this text.
    pub(super) fn tell(&self, chat: &str, text: &str) -> Result<(SessionId, AgentId), Error> {
        let before = self.messages()?.len();
        // Nothing else in the text needs escaping.
        let text = text.replace('"', "\\\"");
        let event = format!(
            r#"{{"channelType":"{CHANNEL}","platformId":"{chat}","message":{{"kind":"chat","content":{{"text":"{text}","senderId":"1"}}}}}}"#
        );
        let event = event::parse(event.as_bytes()).map_err(|error| Error::Trial(error.to_string()))?;
        self.submit(Input::Inbound(Box::new(event)))?;
        for _ in 0..LOOKS {
            let messages = self.messages()?;
            let over = |message: &&Message| matches!(message.state, MessageState::Completed { .. });
            if let Some(message) = messages.get(before).filter(over) {
                return Ok((message.session, message.agent));
            }
            std::thread::sleep(LOOK);
        }
        Err(Error::Trial(format!("the agent `{chat}` does not answer")))
    }

    /// Waits until a condition holds. Returns whether it does.
    pub(super) fn wait(&self, mut look: impl FnMut() -> Result<bool, Error>) -> Result<bool, Error> {
        for _ in 0..LOOKS {
            if look()? {
                return Ok(true);
            }
            std::thread::sleep(LOOK);
        }
        Ok(false)
    }

    pub(super) fn messages(&self) -> Result<Vec<Message>, Error> {
        self.daemon
            .store()
            .read(|db, txn| Ok(db.messages.iter(txn)?.map(|row| row.map(|(_, row)| row)).collect::<Result<_, _>>()?))
    }

    pub(super) fn outbound(&self) -> Result<Vec<(OutboundId, Outbound)>, Error> {
        self.daemon.store().read(|db, txn| Ok(db.outbound.iter(txn)?.collect::<Result<_, _>>()?))
    }

    /// The agent that turns hostile.
    pub(super) fn spec(&self) -> Spec {
        self.spec_of(OWN, self.own.0)
    }

    pub(super) fn other_spec(&self) -> Spec {
        self.spec_of(OTHER, self.other.0)
    }

    /// The hostile agent with a low limit of processes.
    pub(super) fn small(&self) -> Spec {
        let mut spec = self.spec();
        spec.settings.limits.pids = Some(PIDS);
        spec
    }

    /// The hostile agent in a container: without a network, and with low limits.
    pub(super) fn contained(&self, image: Option<String>) -> Spec {
        let mut spec = Spec { image, ..self.spec() };
        spec.settings.network = Network::None;
        spec.settings.limits = Limits { memory: Some(MEMORY), pids: Some(PIDS), ..Limits::default() };
        spec
    }

    fn spec_of(&self, folder: &str, session: SessionId) -> Spec {
        let paths = self.paths();
        let settings = AgentSettings { trust: Trust::Untrusted, ..AgentSettings::named(folder.to_owned()) };
        Spec {
            session,
            incarnation: 1,
            session_dir: paths.session(session),
            group_dir: paths.groups().join(folder),
            home_dir: paths.homes().join(folder),
            provider: settings.provider,
            settings,
            session_name: SessionName::Default,
            timezone: "UTC".to_owned(),
            digest: SpecDigest::new(0),
            image: None,
            mounts: Vec::new(),
            secrets: crate::runtime::Known::default(),
            model_access: None,
            network_access: None,
        }
    }

    pub(super) fn setup(&self) -> Result<Setup, Error> {
        let nothing = Arc::new(|_: &str| None);
        let locks = self.paths().run().join("self-test");
        Ok(Setup::new(this_program()?, env::child_path(), locks, nothing).guarding(guarded(self.paths())))
    }

    /// Home directory of the user who runs the test; none if it does not exist or is the root.
    pub(super) fn user_home(&self) -> Option<PathBuf> {
        let home = guarded(self.paths()).into_iter().nth(1);
        home.filter(|home| home.is_dir() && home.parent().is_some())
    }
}

#[cfg(target_os = "linux")]
fn abstract_listener(name: &str) -> std::io::Result<Option<UnixListener>> {
    use std::os::linux::net::SocketAddrExt as _;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
    UnixListener::bind_addr(&address).map(Some)
}

#[cfg(not(target_os = "linux"))]
fn abstract_listener(_: &str) -> std::io::Result<Option<UnixListener>> {
    Ok(None)
}
