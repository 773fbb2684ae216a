//! The agent's side of an opened connection: reads requests, writes answers.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use super::head::{self, Chunks, Framing, HEAD_MAX, Head};
use super::refusal::Refusal;

/// How much is read at once.
const PIECE: usize = 16 << 10;
/// How long a connection may be idle between requests.
const IDLE: Duration = Duration::from_secs(120);
/// How long the head of a request may take once it began, and a body may pause.
const PATIENCE: Duration = Duration::from_secs(60);
/// How much of a refused request is read, so that its program sees the answer.
const DISCARDED_MAX: usize = 1 << 20;
/// For how long.
const DISCARDED_FOR: Duration = Duration::from_secs(2);

pub(super) struct Inbound<R> {
    reader: R,
    buffer: Vec<u8>,
}

/// How much of a request body is still unread.
#[derive(Debug, Clone, Copy)]
pub(super) enum BodyState {
    /// This many bytes.
    Length(u64),
    /// The rest of its chunks.
    Chunked(Chunks),
}

impl BodyState {
    pub(super) const fn new(framing: Framing) -> Self {
        match framing {
            Framing::None => Self::Length(0),
            Framing::Length(length) => Self::Length(length),
            Framing::Chunked => Self::Chunked(Chunks::Size),
        }
    }

    /// Whether it was read to its end.
    pub(super) const fn is_over(self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunks::Done))
    }
}

impl<R: AsyncRead + Unpin> Inbound<R> {
    pub(super) const fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new() }
    }

    /// The next head. `None`: the program has ended the connection, or it was idle for too long.
    pub(super) async fn head(&mut self) -> Result<Option<Head>, Refusal> {
        loop {
            if let Some(length) = head::length(&self.buffer)? {
                let head = head::parse(self.buffer.get(..length).unwrap_or_default());
                self.buffer.drain(..length);
                return head.map(Some);
            }
            let begins = self.buffer.is_empty();
            match timeout(if begins { IDLE } else { PATIENCE }, self.more()).await {
                Ok(Ok(0) | Err(_)) => return Ok(None),
                Ok(Ok(_)) => {}
                Err(_) if begins => return Ok(None),
                Err(_) => return Err(Refusal::Late),
            }
        }
    }

    /// The next bytes of a body. `None` at its end.
    pub(super) async fn body(&mut self, state: &mut BodyState) -> Result<Option<Vec<u8>>, Refusal> {
        loop {
            let piece = match state {
                BodyState::Length(0) => return Ok(None),
                BodyState::Length(left) => {
                    let length = usize::try_from(*left).unwrap_or(usize::MAX).min(self.buffer.len());
                    *left = left.saturating_sub(u64::try_from(length).unwrap_or(u64::MAX));
                    (length > 0).then(|| self.buffer.drain(..length).collect())
                }
                BodyState::Chunked(chunks) => chunks.next(&mut self.buffer)?,
            };
            if piece.is_some() || state.is_over() {
                return Ok(piece);
            }
            match timeout(PATIENCE, self.more()).await {
                Ok(Ok(0) | Err(_)) => return Err(Refusal::Form("its body is shorter than it says")),
                Ok(Ok(_)) => {}
                Err(_) => return Err(Refusal::Late),
            }
        }
    }

    /// Takes the bytes that are buffered after the last request.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Reads bytes that follow the last request; empty at end of stream.
    pub(super) async fn read_on(&mut self) -> io::Result<Vec<u8>> {
        self.more().await?;
        Ok(self.take())
    }

    /// Keeps reading briefly: a program that is still sending would not see the answer of a closed connection.
    pub(super) async fn discard(&mut self) {
        let read = async {
            let mut left = DISCARDED_MAX;
            while left > 0 {
                self.buffer.clear();
                match self.more().await {
                    Ok(0) | Err(_) => return,
                    Ok(read) => left = left.saturating_sub(read),
                }
            }
        };
        // After this time the program has had its chance.
        drop(timeout(DISCARDED_FOR, read).await);
    }

    async fn more(&mut self) -> io::Result<usize> {
        // A chunk's line or a head is never longer.
        if self.buffer.len() > HEAD_MAX + PIECE {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.buffer.reserve(PIECE);
        self.reader.read_buf(&mut self.buffer).await
    }
}

/// Writes all of it now.
pub(super) async fn write<W: AsyncWrite + Unpin>(writer: &mut W, bytes: &[u8]) -> io::Result<()> {
    writer.write_all(bytes).await?;
    writer.flush().await
}
