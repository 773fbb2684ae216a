//! A server that gives the same answer to every request, on connections that stay open.

use std::io::{BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Starts one on this machine. It serves until the program ends.
pub(crate) fn start(media: &str, body: &str) -> SocketAddr {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ncontent-length: {}\r\n\r\n", body.len());
    let answer = head + body;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || serve(stream, &answer));
        }
    });
    address
}

fn serve(mut stream: TcpStream, answer: &str) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while message(&mut reader).is_some() && stream.write_all(answer.as_bytes()).is_ok() {}
}

/// Reads a request or an answer with its body. Returns its first line; none at the end.
pub(crate) fn message(stream: &mut impl BufRead) -> Option<String> {
    let (mut first, mut length) = (String::new(), 0);
    stream.read_line(&mut first).ok().filter(|read| *read > 0)?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(first)
}
