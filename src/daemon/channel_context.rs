//! What the tasks of channels share.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::bridges::Bridges;
use super::files::BlobGuard;
use super::metrics::Metrics;
use super::reports::DeliveryReports;
use super::typing::Typing;
use crate::engine::commit::Engine;
use crate::gateway::opened::KnownSecrets;

/// What the channels' tasks need.
pub(super) struct ChannelContext {
    /// Runtime for the tasks.
    pub(super) tokio: Handle,
    /// The store with the channels' settings.
    pub(super) engine: Arc<Engine>,
    /// The way of what happens on the channels to the engine.
    pub(super) reports: Arc<DeliveryReports>,
    /// Starts bridges, and knows the paths.
    pub(super) bridges: Arc<Bridges>,
    /// Typing indicators, which are told the results of deliveries.
    pub(super) typing: Arc<Typing>,
    /// Settles the files of submitted messages.
    pub(super) blob_guard: BlobGuard,
    /// Counts deliveries.
    pub(super) metrics: Arc<Metrics>,
    /// Values that agents must not send anywhere.
    pub(super) known: Arc<KnownSecrets>,
}
