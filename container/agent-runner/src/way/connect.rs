//! `hearth-runner connect HOST PORT`: connects standard input and output with a host, for programs that start another
//! one for that (`ProxyCommand` of ssh).

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::ExitCode;

use super::PROXY;
use super::opening::is_opened;
use crate::log;

pub(crate) const COMMAND: &str = "connect";

/// Runs the command.
pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let [host, port] = arguments else {
        log::note("`connect` takes a host and a port: hearth-runner connect git.example.org 2222");
        return ExitCode::from(2);
    };
    match carry_out(host, port) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::note(format_args!("cannot connect to {host}:{port}: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn carry_out(host: &str, port: &str) -> io::Result<()> {
    if [host, port].iter().any(|word| word.contains(|c: char| c.is_whitespace() || c.is_control())) {
        return Err(io::Error::other("that is no host and port"));
    }
    let mut stream = TcpStream::connect(PROXY)?;
    stream.write_all(format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n").as_bytes())?;
    is_opened(&stream)?.map_err(io::Error::other)?;
    let mut up = stream.try_clone()?;
    std::thread::Builder::new().name("connect".to_owned()).spawn(move || {
        let copied = copy(&mut io::stdin().lock(), &mut up);
        // The host may be gone already.
        drop(copied.and_then(|()| up.shutdown(Shutdown::Write)));
    })?;
    copy(&mut stream, &mut io::stdout().lock())
}

/// Copies without waiting for a full buffer.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => to.write_all(buffer.get(..read).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        to.flush()?;
    }
}
