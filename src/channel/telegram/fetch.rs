//! Fetches files of messages that are already stored, when Hearth asks for them: the messages waited for an approval, or
//! their files took long.
//!
//! Only final results are reported. After a network or disk failure nothing is reported, and Hearth asks again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::super::intake::Ingress;
use super::api::Api;
use super::attachments::kept;
use crate::model::address::ChannelName;
use crate::model::content::FileBytes;
use crate::model::effect::Fetch;
use crate::model::id::BodyId;

/// Fetches files, and those of one message only once at a time.
pub(super) struct Fetcher {
    pub(super) channel: ChannelName,
    pub(super) api: Arc<Api>,
    pub(super) intake: Arc<dyn Ingress>,
    /// Slots for files in memory.
    pub(super) places: Arc<Semaphore>,
    pub(super) in_flight: Mutex<HashMap<BodyId, AbortHandle>>,
}

impl Fetcher {
    /// Starts fetching, unless these files are already being fetched. Returns at once.
    pub(super) fn begin(self: &Arc<Self>, fetch: Fetch, handle: &Handle) {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        in_flight.retain(|_, task| !task.is_finished());
        in_flight.entry(fetch.body).or_insert_with(|| {
            let fetcher = Arc::clone(self);
            handle.spawn(async move { fetcher.run(fetch).await }).abort_handle()
        });
    }

    /// Cancels fetches in progress. Hearth asks a later adapter again.
    pub(super) fn stop(&self) {
        let in_flight = std::mem::take(&mut *self.in_flight.lock().unwrap_or_else(PoisonError::into_inner));
        in_flight.into_values().for_each(|task| task.abort());
    }

    async fn run(&self, Fetch { body, mut files, .. }: Fetch) {
        for file in &mut files {
            let FileBytes::Remote(id) = &file.blob else { continue };
            match kept(id, &self.api, &*self.intake, &self.places).await {
                Ok(Ok((blob, size))) => (file.blob, file.size) = (FileBytes::Stored(blob), size),
                Ok(Err(why)) => file.blob = FileBytes::Missing(why),
                Err(why) => {
                    tracing::warn!(channel = %self.channel, %body, %why, "cannot fetch a file, retrying");
                    return;
                }
            }
        }
        if let Err(why) = self.intake.fetched(body, files).await {
            tracing::warn!(channel = %self.channel, %body, %why, "cannot store fetched files, retrying");
        }
    }
}
