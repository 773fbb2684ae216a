//! HTTP listener for metrics: one address and one path.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::runtime::Handle;

use super::Metrics;
use crate::channel::webhook::Entrance;
use crate::daemon::{Daemon, Error};

/// Content type of the response.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A bound address that does not serve requests yet.
pub(in crate::daemon) struct Doorway {
    entrance: Entrance,
    bound: SocketAddr,
}

impl Doorway {
    /// Binds the address. Called early, so that a failure leaves nothing to undo.
    ///
    /// # Errors
    /// [`Error::Metrics`] if the address cannot be bound.
    pub(in crate::daemon) fn take(address: SocketAddr, tokio: &Handle) -> Result<Self, Error> {
        let failed = |source| Error::Metrics { address, source };
        let entrance = tokio.block_on(Entrance::open_now(address)).map_err(failed)?;
        let bound = entrance.address().map_err(failed)?;
        Ok(Self { entrance, bound })
    }

    /// Serves the metrics of a daemon until it stops.
    pub(in crate::daemon) fn serve(self, daemon: &Arc<Daemon>, tokio: &Handle) {
        let router = Router::new().route("/metrics", get(answer));
        let router = router.with_state((Arc::clone(daemon), self.bound.ip()));
        let stopping = Arc::clone(daemon);
        let work = axum::serve(self.entrance, router).with_graceful_shutdown(async move { stopping.stopped().await });
        tokio.spawn(async move {
            if let Err(error) = work.await {
                tracing::warn!(%error, "metrics are no longer served");
            }
        });
        tracing::info!(address = %self.bound, "metrics are served");
    }
}

async fn answer(State((daemon, at)): State<(Arc<Daemon>, IpAddr)>, headers: HeaderMap) -> Response {
    if at.is_loopback() && !names_this_machine(&headers) {
        let words = "only this machine is answered: ask for an address, or for localhost\n";
        return (StatusCode::MISDIRECTED_REQUEST, words).into_response();
    }
    // Reading the store may block on the disk.
    let text = tokio::task::spawn_blocking(move || Metrics::text(&daemon.metrics, &daemon)).await;
    match text.map_err(|error| error.to_string()).flatten() {
        Ok(text) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => {
            tracing::warn!(error, "cannot render the metrics");
            (StatusCode::INTERNAL_SERVER_ERROR, "cannot read the metrics; see Hearth's log\n").into_response()
        }
    }
}

/// Whether the `Host` header names this machine: an IP address, `localhost`, or no header. This prevents DNS rebinding:
/// a web page could let its own name resolve to this address and read the metrics.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else { return true };
    let Ok(host) = host.to_str() else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || inner.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_page_could_have_are_nobody_here() {
        for (host, ours) in [
            ("localhost", true),
            ("LOCALHOST:9464", true),
            ("127.0.0.1:9464", true),
            ("127.0.0.1", true),
            ("[::1]:9464", true),
            ("[::1]", true),
            ("", false),
            (":9464", false),
            ("evil.example", false),
            ("evil.example:9464", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example:9464", false),
        ] {
            let headers = HeaderMap::from_iter([(HOST, host.parse().unwrap())]);
            assert_eq!(names_this_machine(&headers), ours, "{host}");
        }
        assert!(names_this_machine(&HeaderMap::new()), "old clients name nobody");
    }
}
