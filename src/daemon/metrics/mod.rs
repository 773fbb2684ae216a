//! Prometheus metrics. Served only if an address is configured.
//!
//! Counters change when inputs are committed. Gauges are read from indexes for each request. Label values are bounded:
//! they are constants of Hearth or names of configured channels.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::engine::commit::{Answer, Submission};
use crate::model::address::ChannelName;
use crate::model::delivery::DeliveryResult;
use crate::model::effect::Effect;
use crate::model::gateway::ModelCall;
use crate::model::id::DropId;
use crate::model::incarnation::Exit;
use crate::model::input::{Input, RuntimeEvent};
use crate::model::message::Reason;
use crate::model::network::{ConnectionSeen, NetVerdict};
use crate::model::report::{Outcome, Reply};
use crate::model::spend::Tokens;
use crate::state::{self, Store};

mod gauges;
mod listen;

pub(super) use listen::Doorway;

use gauges::Gauges;

/// One label whose values are constants of Hearth.
type Words = [(&'static str, &'static str); 1];

/// Histogram buckets for durations, in seconds: from less than a sync to an unacceptable delay.
const SECONDS: [f64; 14] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];
/// Histogram buckets for the number of inputs per commit.
const GROUP: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
/// Maximum number of refusals counted per request. The next request continues.
const DROPS_MAX: usize = 10_000;

/// All metrics, counted since the daemon started.
pub(super) struct Metrics {
    registry: Registry,
    commit_seconds: Histogram,
    commit_inputs: Histogram,
    sweep_seconds: Histogram,
    faults: Counter,
    events: Family<Words, Counter>,
    drops: Family<[(&'static str, &'static str); 2], Counter>,
    deliveries: Family<[(&'static str, String); 2], Counter>,
    launches: Counter,
    model_requests: Family<[(&'static str, &'static str); 2], Counter>,
    model_tokens: Family<[(&'static str, &'static str); 2], Counter>,
    connections: Family<Words, Counter>,
    network_bytes: Family<Words, Counter>,
    ended: Family<Words, Counter>,
    fires: Family<Words, Counter>,
    gauges: Gauges,
    /// The newest refusal that was counted.
    counted: Mutex<Option<DropId>>,
}

impl Metrics {
    /// Starts counting now: earlier refusals are not counted.
    pub(super) fn new(store: &Store, runtime: &'static str) -> Result<Arc<Self>, state::Error> {
        let counted = store.read(|db, txn| db.dropped_events.last(txn, ..))?.map(|(id, _)| id);
        let mut registry = Registry::with_prefix("hearth");
        let info = Family::<[(&str, &str); 2], Gauge>::default();
        info.get_or_create(&[("version", env!("CARGO_PKG_VERSION")), ("runtime", runtime)]).set(1);
        registry.register("build", "Version and runtime of the daemon; always 1", info);
        let gauges = Gauges::register(&mut registry);
        let mut metrics = Self {
            registry,
            commit_seconds: Histogram::new(SECONDS),
            commit_inputs: Histogram::new(GROUP),
            sweep_seconds: Histogram::new(SECONDS),
            faults: Counter::default(),
            events: Family::default(),
            drops: Family::default(),
            deliveries: Family::default(),
            launches: Counter::default(),
            model_requests: Family::default(),
            model_tokens: Family::default(),
            connections: Family::default(),
            network_bytes: Family::default(),
            ended: Family::default(),
            fires: Family::default(),
            gauges,
            counted: Mutex::new(counted),
        };
        metrics.register();
        Ok(Arc::new(metrics))
    }

    fn register(&mut self) {
        let Self { registry, commit_seconds, commit_inputs, sweep_seconds, .. } = self;
        registry.register("commit_seconds", "Time of a commit with everything in it", commit_seconds.clone());
        registry.register("commit_inputs", "Inputs that were committed together", commit_inputs.clone());
        registry.register("sweep_seconds", "Time of a commit that had a sweep in it", sweep_seconds.clone());
        registry.register("faults", "Inputs that could not be carried out", self.faults.clone());
        registry.register("events", "Inbound events, by outcome", self.events.clone());
        registry.register(
            "drops",
            "Dropped events, by reason: noise concerned no agent, policy was a person's decision, a fault is Hearth's",
            self.drops.clone(),
        );
        registry.register("deliveries", "Attempts to deliver, by channel and outcome", self.deliveries.clone());
        registry.register("launches", "Incarnations that were started", self.launches.clone());
        registry.register(
            "model_requests",
            "Requests of agents to models, by API and outcome",
            self.model_requests.clone(),
        );
        registry.register("model_tokens", "Tokens that models counted, by API and kind", self.model_tokens.clone());
        registry.register(
            "connections",
            "Connections of agents through the gate, by verdict",
            self.connections.clone(),
        );
        registry.register("network_traffic", "Bytes in them, by direction", self.network_bytes.clone());
        registry.register("incarnation_ends", "Incarnations that ended, by how", self.ended.clone());
        registry.register("task_fires", "Occurrences of tasks, by outcome", self.fires.clone());
    }

    /// A group of inputs was committed.
    pub(super) fn committed(&self, group: &[Submission], took: Duration) {
        let seconds = took.as_secs_f64();
        self.commit_seconds.observe(seconds);
        self.commit_inputs.observe(u32::try_from(group.len()).map_or(f64::MAX, f64::from));
        let real = || group.iter().filter(|one| !one.dry_run).map(|one| &one.input);
        if real().any(|input| matches!(input, Input::Sweep(_))) {
            self.sweep_seconds.observe(seconds);
        }
        for input in real() {
            if let Input::Runtime(RuntimeEvent::Gone { exit, .. }) = input {
                self.ended.get_or_create(&[("how", how(exit))]).inc();
            }
        }
    }

    /// One of them was answered.
    pub(super) fn answered(&self, one: &Submission, answer: &Answer) {
        if one.dry_run {
            return;
        }
        let Ok(applied) = answer else {
            self.faults.inc();
            return;
        };
        if let Reply::Routed(report) = &applied.reply {
            self.events.get_or_create(&[("outcome", report.outcome.as_str())]).inc();
            let dropped = report.reason.filter(|reason| report.outcome == Outcome::Dropped && leaves_no_row(*reason));
            if let Some(reason) = dropped {
                self.dropped(reason);
            }
        }
        let launches = applied.effects.iter().filter(|effect| matches!(effect, Effect::Launch(_))).count();
        self.launches.inc_by(u64::try_from(launches).unwrap_or(0));
        for outcome in &applied.fires {
            self.fires.get_or_create(&[("outcome", outcome)]).inc();
        }
    }

    /// Counts a request to a model that has ended.
    pub(super) fn model_call(&self, call: &ModelCall) {
        let outcome = match call.status {
            _ if call.over.is_some() => "capped",
            None => "unreached",
            Some(200..=299) if call.complete => "answered",
            Some(200..=299) => "broken",
            Some(429 | 529) => "limited",
            Some(_) => "refused",
        };
        let api = ("api", call.api.as_str());
        self.model_requests.get_or_create(&[api, ("outcome", outcome)]).inc();
        let Tokens { input, output, cache_read, cache_write, .. } = call.usage.unwrap_or_default();
        for (kind, tokens) in
            [("input", input), ("output", output), ("cache_read", cache_read), ("cache_write", cache_write)]
        {
            self.model_tokens.get_or_create(&[api, ("kind", kind)]).inc_by(tokens);
        }
    }

    /// Counts a connection of an agent that has ended or was refused.
    pub(super) fn connected(&self, seen: &ConnectionSeen) {
        let verdict = match seen.verdict {
            NetVerdict::Allowed(_) => "allowed",
            NetVerdict::Refused(_) => "refused",
            NetVerdict::Asked => "asked",
        };
        self.connections.get_or_create(&[("verdict", verdict)]).inc();
        for (direction, bytes) in [("up", seen.up), ("down", seen.down)] {
            self.network_bytes.get_or_create(&[("direction", direction)]).inc_by(bytes);
        }
    }

    /// Counts the result of a delivery.
    pub(super) fn delivered(&self, channel: &ChannelName, result: &DeliveryResult) {
        let outcome = match result {
            DeliveryResult::Delivered { .. } => "delivered",
            DeliveryResult::Absent => "absent",
            DeliveryResult::NoAdapter => "no_adapter",
            DeliveryResult::Retry(_) => "retry",
            DeliveryResult::Rejected(_) => "rejected",
            DeliveryResult::Uncertain(_) => "uncertain",
        };
        let labels = [("channel", channel.to_string()), ("outcome", outcome.to_owned())];
        self.deliveries.get_or_create(&labels).inc();
    }

    /// All metrics as text. The gauges are read in one transaction.
    fn text(&self, daemon: &super::Daemon) -> Result<String, String> {
        let read = self.count_drops(daemon.store()).and_then(|()| self.gauges.read(daemon));
        read.map_err(|error| error.to_string())?;
        let mut text = String::new();
        encode(&mut text, &self.registry).map_err(|error| error.to_string())?;
        Ok(text)
    }

    /// Counts new refusals. Row ids increase, so rows after the last counted id are new.
    fn count_drops(&self, store: &Store) -> Result<(), state::Error> {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let from = DropId::new(counted.map_or(0, |last| last.number().saturating_add(1)));
        let new = store.read(|db, txn| db.dropped_events.collect_range(txn, from.., DROPS_MAX))?;
        for (id, row) in new {
            if !leaves_no_row(row.reason) {
                self.dropped(row.reason);
            }
            *counted = Some(id);
        }
        Ok(())
    }

    fn dropped(&self, reason: Reason) {
        self.drops.get_or_create(&[("kind", gauges::kind(reason)), ("reason", reason.as_str())]).inc();
    }
}

/// Whether a refusal is not always stored. Such refusals are counted when they are answered, the others by their rows.
fn leaves_no_row(reason: Reason) -> bool {
    matches!(reason, Reason::UnknownChat | Reason::ChatDenied | Reason::NoAgentWired)
}

fn how(exit: &Exit) -> &'static str {
    match exit {
        Exit::Code(0) => "done",
        Exit::Code(_) => "failed",
        Exit::Signal(_) => "killed",
        Exit::NotStarted(_) => "not_started",
        Exit::Unknown => "unknown",
    }
}
