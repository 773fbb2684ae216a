//! What the gate itself says to an agent's program.

use super::request::BadHead;
use crate::model::network::{Endpoint, NetRefusal, NetVerdict};

/// The answer that opens a connection.
pub(super) const OPENED: &[u8] = b"HTTP/1.1 200 Connected\r\n\r\n";
/// The fatal TLS alert `access_denied`.
pub(super) const ALERT: &[u8] = &[21, 3, 3, 0, 2, 2, 49];

/// The answer to a request that is refused or failed, or about which a person was asked.
pub(super) fn refused(to: &Endpoint, verdict: &NetVerdict) -> Vec<u8> {
    match verdict {
        NetVerdict::Refused(why @ (NetRefusal::NoAddress | NetRefusal::NoAnswer)) => {
            response("502 Not Reached", &format!("Hearth cannot reach {to}: {why}"))
        }
        NetVerdict::Refused(why @ NetRefusal::TooManyConnections) => {
            response("503 Too Many Connections", &format!("Hearth did not connect to {to}: {why}"))
        }
        NetVerdict::Refused(why) => {
            response("403 Refused by Hearth", &format!("Hearth did not connect to {to}: {why}"))
        }
        NetVerdict::Asked => response(
            "403 A Person Is Asked",
            &format!(
                "Hearth asked a person whether this agent may connect to {to}; you will be told when it is allowed"
            ),
        ),
        // What is allowed is not answered here.
        NetVerdict::Allowed(_) => OPENED.to_vec(),
    }
}

/// The answer to something that is no proper request.
pub(super) fn malformed(why: &BadHead) -> Vec<u8> {
    response("400 Not Understood by Hearth", &format!("Hearth does not understand the request: {why}"))
}

/// One line of text.
fn response(status: &str, text: &str) -> Vec<u8> {
    let length = text.len().saturating_add(1);
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\nx-hearth-gate: \
         refused\r\nconnection: close\r\n\r\n{text}\n"
    )
    .into_bytes()
}
