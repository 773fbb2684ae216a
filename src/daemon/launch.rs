//! Starts agents: what an incarnation finds when it starts.

use super::engine_thread::Item;
use super::mailbox_workers::{MailboxWorkers, lock};
use crate::contracts::home::{self, AgentHome, Wanted};
use crate::crash;
use crate::model::effect::Launch;
use crate::model::incarnation::Exit;
use crate::model::input::{Input, RuntimeEvent};
use crate::runtime::Spec;

impl MailboxWorkers {
    /// Prepares the mailbox and the files of an incarnation, and starts it.
    pub(super) fn launch(&self, launch: &Launch) {
        let (session, incarnation) = (launch.session, launch.incarnation);
        crash::point("launch");
        let zone = self.zone(&launch.export);
        if let Err(error) = self.mailboxes.export(&launch.export, zone.name()) {
            return self.not_started(launch, format!("cannot prepare its mailbox: {error}"));
        }
        let place = if self.context.runtime.shows_host_paths() { AgentHome::Host } else { AgentHome::Container };
        let wanted = Wanted { folder: &launch.folder, settings: &launch.settings, place };
        let prepared = match home::prepare(&self.paths, &wanted) {
            Ok(prepared) => prepared,
            Err(error) => return self.not_started(launch, format!("cannot prepare its files: {error}")),
        };
        self.tell_left_out(&launch.folder, prepared.left_out);
        let provider = launch.export.context.as_ref().map_or(launch.settings.provider, |context| context.provider);
        let model_access = match self.open_gateway(launch, provider) {
            Ok(access) => access,
            Err(error) => return self.not_started(launch, error),
        };
        let network_access = match self.open_network(launch, provider) {
            Ok(access) => access,
            Err(error) => return self.not_started(launch, error),
        };
        let secrets = self.given(session, incarnation);
        self.follow(session, incarnation);
        crash::point("launch-exported");
        self.context.runtime.ensure(Spec {
            session,
            incarnation,
            session_dir: self.mailboxes.path(session),
            group_dir: self.paths.groups().join(&launch.folder),
            home_dir: self.paths.homes().join(&launch.folder),
            settings: launch.settings.clone(),
            provider,
            session_name: launch.session_name,
            timezone: zone.variable(),
            digest: launch.digest,
            image: launch.image.clone(),
            mounts: prepared.mounts,
            secrets,
            model_access,
            network_access,
        });
        crash::point("launched");
    }

    fn not_started(&self, launch: &Launch, reason: String) {
        let (session, incarnation) = (launch.session, launch.incarnation);
        lock(&self.heartbeats).forget(session);
        tracing::warn!(%session, incarnation, reason, "agent not started");
        let exit = Exit::NotStarted(reason);
        let gone = RuntimeEvent::Gone { session, incarnation, exit, stderr_tail: String::new() };
        self.context.inbox.push(Item::of(Input::Runtime(gone)));
    }

    /// Logs once what an agent lacks. `agents show` and `doctor` report it each time.
    fn tell_left_out(&self, folder: &str, left_out: Vec<String>) {
        let mut told = lock(&self.left_out);
        let before = told.insert(folder.to_owned(), left_out.clone()).unwrap_or_default();
        for what in left_out.iter().filter(|what| !before.contains(what)) {
            tracing::warn!(agent = folder, what, "an agent starts without a declared resource");
        }
    }
}
