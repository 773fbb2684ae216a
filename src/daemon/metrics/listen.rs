//! Where the numbers are to be had: one address, one path, nothing to say.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::Metrics;
use crate::channel::webhook::Entrance;
use crate::daemon::{Daemon, Error};

/// The form of the text, as Prometheus names it.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves the numbers of a daemon until it stops.
///
/// # Errors
/// When the address cannot be had.
pub(in crate::daemon) async fn serve(daemon: &Arc<Daemon>, address: SocketAddr) -> Result<SocketAddr, Error> {
    let failed = |source| Error::Io { path: format!("metrics at {address}").into(), source };
    let entrance = Entrance::open(address).await.map_err(failed)?;
    let bound = entrance.address().map_err(failed)?;
    let router = Router::new().route("/metrics", get(answer)).with_state(Arc::clone(daemon));
    let stopping = Arc::clone(daemon);
    let work = axum::serve(entrance, router).with_graceful_shutdown(async move { stopping.stopped().await });
    tokio::spawn(async move {
        if let Err(error) = work.await {
            tracing::warn!(%error, "metrics are not served any more");
        }
    });
    Ok(bound)
}

async fn answer(State(daemon): State<Arc<Daemon>>) -> Response {
    // The store is read, which may wait for the disk.
    let text = tokio::task::spawn_blocking(move || Metrics::text(&daemon.metrics, &daemon)).await;
    match text {
        Ok(Ok(text)) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
