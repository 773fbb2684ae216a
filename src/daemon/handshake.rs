//! Asks an agent of the provider `acp` what it is, without a prompt. It starts where it always runs and with all that it
//! always has, but with a mailbox of its own, so that its sessions go on meanwhile.

use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

pub use crate::runtime::process::handshake::{Handshake, Offered};

use super::runtime::{lookup, process_setup};
use super::{Error, references};
use crate::config::Paths;
use crate::config::temp_dir::{Purpose, TempDir};
use crate::contracts::home::{self, AgentHome, Wanted};
use crate::egress::{self, Egress};
use crate::gateway::{self, Gateway, OpenedRun};
use crate::mailbox::{Blobs, Mailboxes};
use crate::model::configure::{RuntimeKind, Settings};
use crate::model::effect::{ContextView, Export};
use crate::model::entity::{AgentSettings, Folder, Packages};
use crate::model::gateway::Reach;
use crate::model::id::SessionId;
use crate::model::incarnation::SpecDigest;
use crate::model::network::{NetworkPolicy, Unlisted};
use crate::model::session::SessionName;
use crate::runtime::image::image_of;
use crate::runtime::process::handshake::shake;
use crate::runtime::single_run::{Place, SingleRun};
use crate::runtime::{Known, Spec, podman};

/// Session and incarnation of the mailbox.
const SESSION: SessionId = SessionId::new(1);
const INCARNATION: u32 = 1;

#[derive(Debug, Clone, Copy)]
pub struct AskedAgent<'a> {
    /// Name of the installation.
    pub install: &'a str,
    pub installation: &'a Settings,
    /// The runtime in use.
    pub kind: RuntimeKind,
    pub folder: &'a Folder,
    pub settings: &'a AgentSettings,
}

/// What an agent says of itself.
///
/// # Errors
/// Why it says nothing, for people.
pub fn handshake(paths: &Paths, asked: &AskedAgent<'_>) -> Result<Handshake, String> {
    let directory = TempDir::create(Purpose::Handshake).map_err(|error| format!("no temporary directory: {error}"))?;
    let scratch = Paths::find(Some(&directory.path().join("data"))).and_then(|scratch| {
        scratch.create()?;
        Ok(scratch)
    });
    let scratch = scratch.map_err(|error| error.to_string())?;
    let place = place(paths, &scratch, asked.kind).map_err(|error| error.to_string())?;
    let mailboxes = mailboxes(&scratch, asked).map_err(|error| error.to_string())?;
    let at = if matches!(place, Place::Process(_)) { AgentHome::Host } else { AgentHome::Container };
    let wanted = Wanted { folder: asked.folder.as_str(), settings: asked.settings, place: at };
    let prepared = home::prepare(paths, &wanted).map_err(|error| error.to_string())?;
    let run = SingleRun::start(&place)?;
    let gateway = gateway(&scratch).map_err(|error| error.to_string())?;
    let opened = OpenedRun {
        session: SESSION,
        incarnation: INCARNATION,
        agent: asked.folder.as_str(),
        settings: asked.settings,
        reach: run.reach(asked.settings),
    };
    let model_access = gateway.open(&opened).map_err(|error| error.to_string())?;
    let egress = egress(&scratch).map_err(|error| error.to_string())?;
    let network_access = match (asked.settings.network.has_rules(), opened.reach) {
        (true, Reach::Socket { owner }) => {
            let rules = asked.settings;
            let policy = NetworkPolicy {
                allow: rules.allow.clone(),
                deny: rules.deny.clone(),
                ..NetworkPolicy::new(Unlisted::Refuse)
            };
            Some(egress.open(SESSION, INCARNATION, policy, owner).map_err(|error| error.to_string())?)
        }
        _ => None,
    };
    let spec = Spec {
        network_access,
        session_dir: mailboxes.path(SESSION),
        mounts: prepared.mounts,
        model_access,
        ..spec(paths, asked)
    };
    shake(run, spec, |name| mailboxes.agent_file(SESSION, name).map_err(|error| error.to_string()))
}

fn place(paths: &Paths, scratch: &Paths, kind: RuntimeKind) -> Result<Place, Error> {
    Ok(match kind {
        RuntimeKind::Process => Place::Process(Box::new(process_setup(paths, scratch.run().join("locks"))?)),
        RuntimeKind::Podman => Place::Podman(podman::Setup {
            install: format!("doctor{:x}", std::process::id()),
            lookup: lookup(),
            filter: scratch.seccomp(),
            secrets: scratch.secrets(),
        }),
    })
}

/// Mailboxes with one, which names the agent and has no message.
fn mailboxes(scratch: &Paths, asked: &AskedAgent<'_>) -> Result<Mailboxes, crate::mailbox::Error> {
    let mailboxes = Mailboxes::open(&scratch.sessions(), Arc::new(Blobs::open(&scratch.files())?), asked.install)?;
    let settings = asked.settings.clone();
    let context = ContextView {
        version: 1,
        folder: asked.folder.to_string(),
        incarnation: INCARNATION,
        session_name: SessionName::Default,
        reply: None,
        destinations: Vec::new(),
        next_number: 1,
        already_sent: Vec::new(),
        recap: Vec::new(),
        memory: None,
        provider: settings.provider,
        epoch: 0,
        timezone: None,
        granted: Vec::new(),
        settings,
    };
    let (messages, files) = (Vec::new(), Vec::new());
    let export =
        Export { session: SESSION, context: Some(context), messages, replies: Some(Vec::new()), exact: true, files };
    mailboxes.export(&export, "UTC")?;
    Ok(mailboxes)
}

/// A way out of its own. No one is asked about hosts.
fn egress(scratch: &Paths) -> Result<Egress, egress::Error> {
    Egress::start(egress::Setup {
        directory: scratch.run().join("network"),
        reach: egress::Reach::default(),
        hooks: egress::Hooks { ask: Box::new(|_| Box::pin(async { Ok(()) })), seen: Box::new(drop) },
    })
}

/// A gateway of its own: an agent never has a key that the daemon's gateway keeps from it.
fn gateway(scratch: &Paths) -> Result<Gateway, gateway::Error> {
    let resolve =
        |reference: &str| references::resolve(reference).map(OsStringExt::into_vec).map_err(|error| error.to_string());
    Gateway::start(gateway::Setup {
        directory: scratch.run().join("gate"),
        key: scratch.run().join("gateway.key"),
        resolve: Arc::new(resolve),
        finished: Arc::new(|_| {}),
    })
}

/// What is started, without what depends on the runtime.
fn spec(paths: &Paths, asked: &AskedAgent<'_>) -> Spec {
    let AskedAgent { install, installation, folder, .. } = *asked;
    let image = image_of(install, folder.as_str(), asked.settings, installation.image.as_deref());
    let mut settings = asked.settings.clone();
    // They are in the image already.
    settings.packages = Packages::default();
    Spec {
        session: SESSION,
        incarnation: INCARNATION,
        session_dir: paths.session(SESSION),
        group_dir: paths.group(folder),
        home_dir: paths.home(folder),
        provider: settings.provider,
        settings,
        session_name: SessionName::Default,
        timezone: "UTC".to_owned(),
        digest: SpecDigest::new(0),
        image: Some(image),
        mounts: Vec::new(),
        secrets: Known::default(),
        model_access: None,
        network_access: None,
    }
}
