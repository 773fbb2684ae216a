//! Podman's REST API without Hearth: the floor for containers.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};

/// Makes a container, starts it, waits for its end and removes it: what it said, as Podman's log has it.
pub(crate) fn first_output(socket: &Path, image: &str, script: &str) -> Vec<u8> {
    let order = json!({ "image": image, "entrypoint": ["/bin/bash", "-c", script], "netns": { "nsmode": "none" } });
    let made: Value = serde_json::from_slice(&call(socket, "POST", "/create", &order.to_string())).unwrap();
    let id = made["Id"].as_str().unwrap_or_else(|| panic!("{made}"));
    call(socket, "POST", &format!("/{id}/start"), "");
    call(socket, "POST", &format!("/{id}/wait"), "");
    let log = call(socket, "GET", &format!("/{id}/logs?stdout=true"), "");
    call(socket, "DELETE", &format!("/{id}?force=true"), "");
    // Each piece of a log begins with eight bytes about it.
    log.get(8..).unwrap_or_default().to_vec()
}

fn call(socket: &Path, method: &str, path: &str, body: &str) -> Vec<u8> {
    let mut stream = UnixStream::connect(socket).unwrap();
    let head = format!(
        "{method} /v4.3.1/libpod/containers{path} HTTP/1.0\r\nHost: podman\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    assert!(
        answer.starts_with(b"HTTP/1.0 2") || answer.starts_with(b"HTTP/1.1 2"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    answer.split_off(end + 4)
}
