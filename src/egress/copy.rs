//! Copies bytes in one direction of a connection. An idle direction needs no buffer.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::net::{tcp, unix};

/// Bytes that are read before they are written.
const BUFFER: usize = 32 << 10;

/// A socket that can be read.
pub(super) trait Source {
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send;
    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize>;
}

/// A socket that can be written.
pub(super) trait Sink {
    fn writable(&self) -> impl Future<Output = io::Result<()>> + Send;
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize>;
}

macro_rules! sockets {
    ($($read:ty, $write:ty;)*) => {$(
        impl Source for $read {
            async fn readable(&self) -> io::Result<()> {
                <$read>::readable(self).await
            }
            fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
                <$read>::try_read(self, buffer)
            }
        }
        impl Sink for $write {
            async fn writable(&self) -> io::Result<()> {
                <$write>::writable(self).await
            }
            fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
                <$write>::try_write(self, bytes)
            }
        }
    )*};
}

sockets! {
    tcp::OwnedReadHalf, tcp::OwnedWriteHalf;
    unix::OwnedReadHalf, unix::OwnedWriteHalf;
}

/// Copies until the source ends. `first` is called with the first bytes, before they are written.
pub(super) async fn copy(
    from: &impl Source,
    to: &impl Sink,
    counted: &AtomicU64,
    mut first: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut is_first = true;
    while let Some(rest) = read_and_write(from, to, counted, |bytes| {
        if std::mem::take(&mut is_first) {
            first(bytes);
        }
    })
    .await?
    {
        write_all(to, &rest, counted).await?;
    }
    Ok(())
}

/// Reads some bytes and writes what can be written at once. Returns the rest, or `None` at the end.
async fn read_and_write(
    from: &impl Source,
    to: &impl Sink,
    counted: &AtomicU64,
    mut seen: impl FnMut(&[u8]),
) -> io::Result<Option<Vec<u8>>> {
    loop {
        from.readable().await?;
        let mut buffer = [0; BUFFER];
        let read = match from.try_read(&mut buffer) {
            Ok(0) => return Ok(None),
            Ok(read) => buffer.get(..read).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        seen(read);
        let written = match to.try_write(read) {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        count(counted, written);
        return Ok(Some(read.get(written..).unwrap_or_default().to_vec()));
    }
}

/// Reads the next bytes. None are the end.
pub(super) async fn read_some(from: &impl Source) -> io::Result<Vec<u8>> {
    loop {
        from.readable().await?;
        let mut buffer = [0; BUFFER];
        match from.try_read(&mut buffer) {
            Ok(read) => return Ok(buffer.get(..read).unwrap_or_default().to_vec()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes all bytes.
pub(super) async fn write_all(to: &impl Sink, bytes: &[u8], counted: &AtomicU64) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        to.writable().await?;
        match to.try_write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                count(counted, written);
                rest = rest.get(written..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn count(counted: &AtomicU64, bytes: usize) {
    counted.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
}
