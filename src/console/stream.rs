//! What is sent or received piece by piece: events for pages that are open, files, and long forms.
//!
//! An event says only that something changed; the page fetches itself again, so what is shown is always what the store has,
//! whatever was lost on the way.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::response::IntoResponse as _;
use axum::response::Response;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{StreamExt as _, stream};
use tokio::sync::Semaphore;

use super::Host;
use super::serve::blocking;
use crate::model::console::TokenDigest;

/// Time between two events. What changes in between is one event.
const PAUSE: Duration = Duration::from_millis(300);
/// Time between two signs of life without changes.
const ALIVE: Duration = Duration::from_secs(20);
/// Life of a stream. The page opens another one, which is checked again.
const LIFE: Duration = Duration::from_secs(600);
/// Length of a piece of a file.
const PIECE: u64 = 64 << 10;

/// Streams whose sessions are looked up at a time: a change wakes all streams at once.
static LOOKS: Semaphore = Semaphore::const_new(4);

/// The stream of a page that is open. It ends with the session of the token. Events are all the same, because a number of
/// changes would tell how much others do.
pub(super) fn open(host: Arc<dyn Host>, token: TokenDigest) -> Response {
    let (changes, end) = (host.changes(), Box::pin(tokio::time::sleep(LIFE)));
    let events = stream::unfold((changes, end, true), move |(mut changes, mut end, first)| {
        let host = Arc::clone(&host);
        async move {
            if !first {
                tokio::select! {
                    // The daemon may be stopping.
                    changed = changes.changed() => changed.ok()?,
                    () = end.as_mut() => return None,
                }
                tokio::time::sleep(PAUSE).await;
                changes.mark_unchanged();
                if !is_signed_in(host, token).await {
                    return None;
                }
            }
            Some((Ok::<_, Infallible>(Event::default().event("changed").data("1")), (changes, end, false)))
        }
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)).into_response()
}

async fn is_signed_in(host: Arc<dyn Host>, token: TokenDigest) -> bool {
    let _one_of_few = LOOKS.acquire().await;
    matches!(blocking(move || host.visitor(token)).await, Ok(Some(_)))
}

/// A file of this length as the body of an answer. It is read as the browser takes it.
pub(super) fn file(file: File, length: u64) -> Body {
    Body::from_stream(stream::try_unfold((file, length), |(file, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = Vec::new();
            (&file).take(PIECE.min(left)).read_to_end(&mut piece)?;
            Ok::<_, io::Error>((piece, file))
        });
        let (piece, file) = read.await.map_err(io::Error::other)??;
        let got = u64::try_from(piece.len()).map_err(io::Error::other)?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok::<_, io::Error>(Some((piece, (file, left.saturating_sub(got)))))
    }))
}

/// Reads on until a body ends or has brought more than `most` bytes. Returns whether it ended.
pub(super) async fn read_on(body: &mut BodyDataStream, bytes: &mut Vec<u8>, most: usize) -> Result<bool, axum::Error> {
    while bytes.len() <= most {
        match body.next().await {
            Some(piece) => bytes.extend_from_slice(&piece?),
            None => return Ok(true),
        }
    }
    Ok(false)
}
