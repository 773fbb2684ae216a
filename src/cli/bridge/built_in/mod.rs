//! A channel of the daemon as the program of a bridge, so that the kit tests it with the same cases: frames become calls
//! of the adapter, and what it passes on becomes frames.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use hearth_bridge::program::Daemon;
use hearth_bridge::program::run::{failed, greet};
use hearth_bridge::{
    Attempted, Capabilities, Choice, FromBridge, Hello, Idempotency, PROTOCOL, Pong, Ready, SentFile, ToBridge,
};
use tokio::runtime::{Builder, Runtime};

use crate::channel::intake::Ingress;
use crate::channel::{Channel, telegram, webhook};
use crate::cli::log::{self, LogFormat};
use crate::cli::{Done, Failure};
use crate::clock;
use crate::model::address::{Address, ChannelName, ForeignId, UserId};
use crate::model::channel::{self, ChannelKind, OnUncertain};
use crate::model::id::SessionId;
use ingress::Frames;

mod delivery;
mod ingress;

/// Pause between two looks whether the channel has closed its socket.
const LOOK: std::time::Duration = std::time::Duration::from_millis(20);

/// A channel that is part of the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum BuiltIn {
    /// Signed JSON over HTTP
    Webhook,
    /// A bot of the Bot API
    Telegram,
}

impl BuiltIn {
    /// The arguments that make this program run it.
    pub(super) fn arguments(self) -> [&'static str; 3] {
        ["bridge", "built-in", self.kind().as_str()]
    }

    const fn kind(self) -> ChannelKind {
        match self {
            Self::Webhook => ChannelKind::Webhook,
            Self::Telegram => ChannelKind::Telegram,
        }
    }
}

/// A channel that runs, and where it listens, if it does.
struct Running {
    channel: Arc<dyn Channel>,
    name: ChannelName,
    files: PathBuf,
    listens: Option<SocketAddr>,
}

/// Runs a channel until the kit is gone.
pub(super) fn run(built_in: BuiltIn) -> Done {
    log::start(true, LogFormat::Text);
    let mut daemon = Daemon::inherited()?;
    let Some(hello) = greet(&mut daemon, built_in.kind().as_str())? else { return Ok(()) };
    let frames = Frames::new(daemon.writer(), PathBuf::from(&hello.files));
    let tokio = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match start(built_in, &tokio, &hello, &frames) {
        Ok(running) => {
            daemon.send(&ready(built_in))?;
            frames.ready();
            let done = running.follow(&mut daemon, &frames);
            // The kit may be gone, or waits for the end.
            tokio.shutdown_background();
            done
        }
        Err(why) => Ok(daemon.send(&failed(why, None))?),
    }
}

fn start(built_in: BuiltIn, tokio: &Runtime, hello: &Hello, frames: &Arc<Frames>) -> Result<Running, String> {
    let setting = |name: &str| hello.settings.get(name).and_then(|value| value.as_str());
    let secret = |name: &str| hello.secrets.get(name).cloned().ok_or(format!("it has no {name}; give --{name}"));
    let name = ChannelName::new(hello.channel.as_str()).map_err(|error| error.to_string())?;
    let (files, base_url) = (PathBuf::from(&hello.files), setting("base_url").map(str::to_owned));
    let intake: Arc<dyn Ingress> = Arc::clone(frames) as Arc<dyn Ingress>;
    let (sessions, link_previews, now) = (files.clone(), false, clock::wall);
    if built_in == BuiltIn::Telegram {
        let token = secret("token")?;
        let setup = telegram::Setup { name: name.clone(), token, base_url, sessions, link_previews, now };
        let channel = telegram::start(setup, intake, tokio.handle()).map_err(|error| error.to_string())?;
        return Ok(Running { channel, name, files, listens: None });
    }
    let listens = setting("listen").map_or(Ok(webhook::LISTEN), str::parse);
    let listen = listens.map_err(|error| format!("the setting `listen` is no address: {error}"))?;
    let secret = secret("secret")?;
    let setup = webhook::Setup { name: name.clone(), secret, base_url, listen, sessions, link_previews, now };
    let channel = tokio.block_on(webhook::start(setup, intake))?;
    Ok(Running { channel, name, files, listens: Some(listen) })
}

/// What the channel can do, as a bridge would say it.
fn ready(built_in: BuiltIn) -> FromBridge {
    let can = built_in.kind().capabilities();
    let capabilities = Capabilities {
        threads: can.threads,
        edits: can.edits,
        opens_direct: can.opens_direct,
        files: can.files,
        choice: match can.choice {
            channel::Choice::Buttons => Choice::Buttons,
            channel::Choice::Numbers => Choice::Numbers,
        },
        idempotency: match can.on_uncertain {
            OnUncertain::SendAgain => Idempotency::Always,
            OnUncertain::SendAgainMarked => Idempotency::None,
            OnUncertain::SendAgainWithin(window) => Idempotency::Window { seconds: window.get() / 1_000 },
        },
        card_max: usize::try_from(can.card_max).ok(),
    };
    let program = format!("hearth {}", env!("CARGO_PKG_VERSION"));
    FromBridge::Ready { ready: Box::new(Ready { protocol: PROTOCOL, program, me: None, capabilities }) }
}

fn id(text: String) -> Result<ForeignId, Failure> {
    ForeignId::new("the id", text).map_err(|error| Failure::Failed(error.to_string()))
}

impl Running {
    /// Does what the kit says, until it is gone or the channel has ended.
    fn follow(&self, daemon: &mut Daemon, frames: &Frames) -> Done {
        loop {
            match daemon.read() {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                done => done?,
            }
            while let Some(frame) = daemon.frame() {
                if let ToBridge::ShutDown { .. } = frame {
                    self.channel.shut_down();
                    self.closed();
                    return Ok(());
                }
                self.act(frame, daemon, frames)?;
            }
        }
    }

    fn act(&self, frame: ToBridge, daemon: &mut Daemon, frames: &Frames) -> Done {
        match frame {
            ToBridge::Deliver { deliver } => {
                let begun = Attempted { id: deliver.id.clone(), attempt: deliver.attempt };
                let files = self.named(&deliver.files)?;
                let delivery = delivery::read(&self.name, *deliver).map_err(Failure::Failed)?;
                frames.begin(&delivery, files);
                // The daemon stores that an attempt begins before the channel gets it.
                daemon.send(&FromBridge::Begun { begun })?;
                self.channel.deliver(delivery);
            }
            ToBridge::Typing { typing } => {
                let platform_id = id(typing.platform_id)?;
                let at = Address { channel: self.name.clone(), platform_id, thread: None };
                self.channel.typing(SessionId::new(1), &at);
            }
            ToBridge::Ping { ping } => {
                let health = self.channel.health();
                let heard = health.last_contact.map(|at| at.to_string());
                daemon.send(&FromBridge::Pong { pong: ping, rest: Pong { heard, down: health.failure } })?;
            }
            ToBridge::StopTaking { .. } => {
                frames.stop();
                self.channel.stop_taking();
            }
            ToBridge::OpenDirect { open_direct, seq } => {
                let user = UserId::new(self.name.clone(), id(open_direct.user_id)?);
                frames.opens(user.clone(), seq);
                self.channel.open_direct(user);
            }
            answer => frames.answer(answer),
        }
        Ok(())
    }

    /// Gives files their names, each in a directory of its own. Returns these directories.
    fn named(&self, files: &[SentFile]) -> Result<Vec<PathBuf>, Failure> {
        let mut directories = Vec::new();
        for file in files {
            let Some(path) = &file.path else { continue };
            let directory = self.files.join(delivery::directory_of(path));
            std::fs::create_dir_all(&directory)?;
            std::fs::rename(self.files.join(path), directory.join(&file.name))?;
            directories.push(directory);
        }
        Ok(directories)
    }

    /// Waits until the channel listens no more, so that another instance can.
    fn closed(&self) {
        let Some(listens) = self.listens else { return };
        while TcpStream::connect(listens).is_ok() {
            std::thread::sleep(LOOK);
        }
    }
}
