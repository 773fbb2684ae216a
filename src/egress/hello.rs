//! The first message of a TLS client, which names the server. Pure.

/// Longest first message, with the headers of its records.
const HELLO_MAX: usize = 64 << 10;
/// Type of a record, and of a message.
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
/// Number of the extension with the server's name, and the kind of name.
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;

/// The bytes are not those of a TLS client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotTls;

/// What a client says in its first message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hello {
    /// The name of the server, if there is one, as it was sent.
    pub(super) server: Option<String>,
}

/// Whether a connection that begins with these bytes begins like TLS.
pub(super) fn is_begun(bytes: &[u8]) -> bool {
    bytes.first() == Some(&HANDSHAKE)
}

/// Reads the first message, if the bytes hold all of it.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Hello>, NotTls> {
    let mut message = Vec::new();
    let mut rest = bytes;
    loop {
        if let Some(hello) = whole(&message)? {
            return client_hello(hello).map(Some);
        }
        let mut reader = Reader(rest);
        let Some(kind) = reader.byte() else { break };
        let Some(major) = reader.byte() else { return if kind == HANDSHAKE { Ok(None) } else { Err(NotTls) } };
        if kind != HANDSHAKE || major != 3 {
            return Err(NotTls);
        }
        let Some(length) = reader.byte().and_then(|_| reader.short()) else { break };
        if length == 0 || length > 1 << 14 {
            return Err(NotTls);
        }
        let Some(fragment) = reader.take(length) else {
            // Another message than the right one is not waited for.
            return if reader.0.first().is_some_and(|first| message.is_empty() && *first != CLIENT_HELLO) {
                Err(NotTls)
            } else {
                unfinished(bytes)
            };
        };
        message.extend_from_slice(fragment);
        rest = reader.0;
    }
    unfinished(bytes)
}

fn unfinished(bytes: &[u8]) -> Result<Option<Hello>, NotTls> {
    if bytes.len() > HELLO_MAX { Err(NotTls) } else { Ok(None) }
}

/// The body of the message, if it is complete.
fn whole(message: &[u8]) -> Result<Option<&[u8]>, NotTls> {
    let mut reader = Reader(message);
    match reader.byte() {
        None => return Ok(None),
        Some(CLIENT_HELLO) => {}
        Some(_) => return Err(NotTls),
    }
    let Some(length) = reader.byte().and_then(|high| Some((usize::from(high) << 16) | reader.short()?)) else {
        return Ok(None);
    };
    if length > HELLO_MAX {
        return Err(NotTls);
    }
    Ok(reader.take(length))
}

fn client_hello(body: &[u8]) -> Result<Hello, NotTls> {
    let mut reader = Reader(body);
    // Version and random number.
    reader.take(34).ok_or(NotTls)?;
    // Session, cipher suites, compression.
    reader.byte().and_then(|length| reader.take(length.into())).ok_or(NotTls)?;
    reader.short().and_then(|length| reader.take(length)).ok_or(NotTls)?;
    reader.byte().and_then(|length| reader.take(length.into())).ok_or(NotTls)?;
    if reader.0.is_empty() {
        return Ok(Hello { server: None });
    }
    let mut extensions = reader.short().and_then(|length| reader.take(length)).map(Reader).ok_or(NotTls)?;
    if !reader.0.is_empty() {
        return Err(NotTls);
    }
    let mut names = None;
    while !extensions.0.is_empty() {
        let kind = extensions.short().ok_or(NotTls)?;
        let content = extensions.short().and_then(|length| extensions.take(length)).ok_or(NotTls)?;
        if kind == usize::from(SERVER_NAME) && names.replace(content).is_some() {
            return Err(NotTls);
        }
    }
    names.map_or(Ok(Hello { server: None }), server_name)
}

/// The one name of the extension.
fn server_name(content: &[u8]) -> Result<Hello, NotTls> {
    let mut reader = Reader(content);
    let mut list = reader.short().and_then(|length| reader.take(length)).map(Reader).ok_or(NotTls)?;
    let kind = list.byte().ok_or(NotTls)?;
    let name = list.short().and_then(|length| list.take(length)).ok_or(NotTls)?;
    let is_one = kind == HOST_NAME && list.0.is_empty() && reader.0.is_empty();
    let name = String::from_utf8(name.to_vec()).map_err(|_| NotTls)?;
    if is_one && !name.is_empty() { Ok(Hello { server: Some(name) }) } else { Err(NotTls) }
}

/// Reads numbers and parts.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn short(&mut self) -> Option<usize> {
        let bytes: [u8; 2] = self.take(2)?.try_into().ok()?;
        Some(u16::from_be_bytes(bytes).into())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The first message of a client.
    pub(crate) fn hello(server: Option<&str>) -> Vec<u8> {
        let long = |bytes: &[u8]| [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat();
        let names =
            server.map(|name| [&[0, 0][..], &long(&long(&[&[0][..], &long(name.as_bytes())].concat()))].concat());
        let other = [0, 43, 0, 3, 2, 3, 4];
        let extensions = long(&[&other[..], &names.unwrap_or_default()].concat());
        let body = [&[3, 3][..], &[7; 32], &[0], &long(&[0x13, 1]), &[1, 0], &extensions].concat();
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        let message = [&[CLIENT_HELLO][..], &length[1..], &body].concat();
        [&[HANDSHAKE, 3, 1][..], &long(&message)].concat()
    }

    #[test]
    fn the_name_is_found() {
        for server in [Some("example.org"), None] {
            let bytes = hello(server);
            let expected = Hello { server: server.map(str::to_owned) };
            assert_eq!(read(&bytes), Ok(Some(expected.clone())));
            assert_eq!(read(&[&bytes[..], &[1, 2, 3]].concat()), Ok(Some(expected)), "more may follow");
            for end in 0..bytes.len() {
                assert_eq!(read(&bytes[..end]), Ok(None), "{end}");
            }
        }
    }

    #[test]
    fn a_message_in_several_records_is_put_together() {
        let bytes = hello(Some("example.org"));
        let records: Vec<u8> = bytes[5..]
            .chunks(7)
            .flat_map(|part| [&[HANDSHAKE, 3, 1, 0, u8::try_from(part.len()).unwrap()][..], part].concat())
            .collect();
        assert_eq!(read(&records).unwrap().unwrap().server.as_deref(), Some("example.org"));
    }

    #[test]
    fn everything_else_is_refused() {
        let good = hello(Some("example.org"));
        let changed = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        let twice = {
            let name = [0, 0, 0, 6, 0, 4, 0, 0, 1, b'a'];
            let body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0, 0, 20], &name, &name].concat();
            let message = [&[1, 0, 0, u8::try_from(body.len()).unwrap()][..], &body].concat();
            [&[22, 3, 1, 0, u8::try_from(message.len()).unwrap()][..], &message].concat()
        };
        for bytes in [
            b"GET / HTTP/1.1\r\n".to_vec(),
            b"SSH-2.0-x".to_vec(),
            changed(1, 2),
            changed(5, 2),
            vec![22, 3, 1, 0, 0],
            vec![22, 3, 1, 0xff, 0xff, 1],
            vec![22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff],
            twice,
        ] {
            assert_eq!(read(&bytes), Err(NotTls), "{bytes:?}");
        }
        // A second name in the list.
        let at = good.len() - 14;
        assert_eq!(read(&changed(at + 1, 12)), Err(NotTls));
    }
}
