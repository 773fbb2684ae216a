//! Tells pages that something changed, by server-sent events. An event says only that; the page fetches itself again, so
//! what is shown is always what the store has, whatever was lost on the way.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::IntoResponse as _;
use axum::response::Response;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream;
use tokio::sync::watch;

/// Time between two events. What changes in between is one event.
const PAUSE: Duration = Duration::from_millis(300);
/// Time between two signs of life without changes.
const ALIVE: Duration = Duration::from_secs(20);
/// Life of a stream. The page opens another one, which is checked again.
const LIFE: Duration = Duration::from_secs(600);

/// The stream of a page that is open.
pub(super) fn open(changes: watch::Receiver<u64>) -> Response {
    let end = Box::pin(tokio::time::sleep(LIFE));
    let events = stream::unfold((changes, end, true), |(mut changes, mut end, first)| async move {
        if !first {
            tokio::select! {
                // The daemon may be stopping.
                changed = changes.changed() => changed.ok()?,
                () = end.as_mut() => return None,
            }
            tokio::time::sleep(PAUSE).await;
        }
        let number = *changes.borrow_and_update();
        let event = Event::default().event("changed").id(number.to_string()).data(number.to_string());
        Some((Ok::<_, Infallible>(event), (changes, end, false)))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)).into_response()
}
