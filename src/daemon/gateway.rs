//! The model gateway in the daemon: started once, opened for each agent that starts or that an earlier daemon left.

use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::Error;
use super::engine_thread::{Inbox, Item};
use super::mailbox_workers::{Job, MailboxWorkers};
use super::metrics::Metrics;
use super::runtime::lookup;
use crate::config::{Paths, seams};
use crate::gateway::opened::{KnownSecrets, Opener, OpenerSetup};
use crate::gateway::{Gateway, OpenedRun, Resolve, Setup};
use crate::model::effect::Launch;
use crate::model::entity::ProviderKind;
use crate::model::gateway::{ModelAccess, TurnBegan};
use crate::model::id::SessionId;
use crate::model::input::Input;
use crate::runtime::process::resolve_reference;

/// The file with the key from which placeholders are derived.
fn key(paths: &Paths) -> PathBuf {
    paths.run().join("gateway.key")
}

fn resolve() -> Resolve {
    let lookup = lookup();
    Arc::new(move |reference: &str| {
        let value = resolve_reference(reference, &lookup, &|| false);
        value.map(OsStringExt::into_vec).map_err(|error| error.to_string())
    })
}

/// What opens connections to hosts with bound secrets.
pub(super) fn opener(paths: &Paths) -> Result<Arc<Opener>, Error> {
    let more = seams::roots();
    let opener = Opener::open(OpenerSetup {
        directory: &paths.run().join("authority"),
        key: &key(paths),
        more: more.as_deref(),
        resolve: resolve(),
    })?;
    Ok(Arc::new(opener))
}

/// Starts the gateway. Finished calls are counted, and go into the ledger.
pub(super) fn start(
    paths: &Paths,
    metrics: &Arc<Metrics>,
    inbox: &Arc<Inbox>,
    known: &Arc<KnownSecrets>,
) -> Result<Arc<Gateway>, Error> {
    let (metrics, inbox) = (Arc::clone(metrics), Arc::clone(inbox));
    let gateway = Gateway::start(Setup {
        directory: paths.run().join("gate"),
        key: key(paths),
        resolve: resolve(),
        finished: Arc::new(move |call| {
            metrics.model_call(&call);
            tracing::debug!(?call, "a request to a model has ended");
            inbox.push(Item::of(Input::ModelCall(call)));
        }),
    })?;
    Ok(Arc::new(gateway.telling(known)))
}

impl MailboxWorkers {
    /// What an agent that is about to start gets instead of keys.
    pub(super) fn open_gateway(&self, launch: &Launch, provider: ProviderKind) -> Result<Option<ModelAccess>, String> {
        let (session, incarnation, settings) = (launch.session, launch.incarnation, &launch.settings);
        let reach = self.context.runtime.reach(settings, provider);
        let opened = OpenedRun { session, incarnation, agent: &launch.folder, settings, reach };
        self.context.gateway.open(&opened).map_err(|error| error.to_string())
    }

    /// Opens the gateway for an agent that an earlier daemon started, if it is still live.
    pub(super) fn reopen_gateway(&self, session: SessionId, incarnation: u32) {
        let agent = match self.agent_of(session) {
            Ok(Some(agent)) => agent,
            Ok(None) => return,
            Err(error) => return tracing::warn!(%session, %error, "an agent does not reach its model"),
        };
        let reach = self.context.runtime.reach(&agent.settings, agent.settings.provider);
        let (folder, settings) = (agent.folder.as_str(), &agent.settings);
        let opened = OpenedRun { session, incarnation, agent: folder, settings, reach };
        if let Err(error) = self.context.gateway.open(&opened) {
            tracing::warn!(%session, %error, "an agent does not reach its model");
        }
    }

    /// Tells the gateway that a turn began. If the agent has no address yet, this is repeated when it has one: a restarted
    /// daemon opens addresses in its own time.
    pub(super) fn turn_began(&self, turn: TurnBegan) {
        if !self.context.gateway.turn_began(&turn) {
            self.give(turn.session, Job::Turn(turn));
        }
    }

    /// Cuts an agent off from its model.
    pub(super) fn close_gateway(&self, session: SessionId, incarnation: u32) {
        self.context.gateway.close(session, incarnation);
    }
}
