//! Packets of MQTT 3.1.1, as far as the bridge needs them. Everything that arrives is bounded.

/// Largest packet that is accepted in bytes.
pub(super) const PACKET_MAX: usize = 512 * 1024;

/// A packet of the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Packet {
    /// The answer to CONNECT: 0 accepts.
    ConnAck(u8),
    Publish {
        topic: String,
        payload: Vec<u8>,
        /// None without a guarantee of delivery.
        id: Option<u16>,
        retained: bool,
    },
    PubAck(u16),
    /// The answer to SUBSCRIBE: whether it was accepted.
    SubAck(bool),
    PingResp,
    /// Of a kind that the bridge does not need.
    Other,
}

/// Why bytes are not a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the broker sent something that is not MQTT, or too long")]
pub(super) struct BadPacket;

/// The first packet in some bytes and its length; none if it is not complete.
pub(super) fn read(bytes: &[u8]) -> Result<Option<(Packet, usize)>, BadPacket> {
    let Some((head, rest)) = bytes.split_first() else { return Ok(None) };
    let (mut length, mut size) = (0_usize, 0);
    loop {
        let Some(byte) = rest.get(size) else {
            return if size >= 4 { Err(BadPacket) } else { Ok(None) };
        };
        length |= usize::from(byte & 0x7f) << (7 * size);
        size += 1;
        if byte & 0x80 == 0 {
            break;
        }
        if size == 4 {
            return Err(BadPacket);
        }
    }
    if length > PACKET_MAX {
        return Err(BadPacket);
    }
    let Some(body) = rest.get(size..size + length) else { return Ok(None) };
    let packet = match head >> 4 {
        2 => Packet::ConnAck(*body.get(1).ok_or(BadPacket)?),
        3 => publish(*head, body)?,
        4 => Packet::PubAck(number(body).ok_or(BadPacket)?),
        9 => Packet::SubAck(body.get(2).ok_or(BadPacket)? & 0x80 == 0),
        13 => Packet::PingResp,
        _ => Packet::Other,
    };
    Ok(Some((packet, 1 + size + length)))
}

fn publish(head: u8, body: &[u8]) -> Result<Packet, BadPacket> {
    let length = usize::from(number(body).ok_or(BadPacket)?);
    let topic = body.get(2..2 + length).ok_or(BadPacket)?;
    let topic = String::from_utf8(topic.to_vec()).map_err(|_| BadPacket)?;
    let rest = body.get(2 + length..).ok_or(BadPacket)?;
    let (id, payload) = match (head >> 1) & 3 {
        0 => (None, rest),
        1 => (Some(number(rest).ok_or(BadPacket)?), rest.get(2..).ok_or(BadPacket)?),
        // The bridge asks for no more than that.
        _ => return Err(BadPacket),
    };
    Ok(Packet::Publish { topic, payload: payload.to_vec(), id, retained: head & 1 == 1 })
}

fn number(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.first()?, *bytes.get(1)?]))
}

/// What the bridge connects with.
pub(super) struct Connect<'a> {
    pub(super) client: &'a str,
    pub(super) user: Option<&'a str>,
    pub(super) password: Option<&'a str>,
    /// Topic and text of what the broker says when the bridge is gone.
    pub(super) will: (&'a str, &'a str),
    /// Seconds.
    pub(super) keep_alive: u16,
}

pub(super) fn connect(asked: &Connect<'_>) -> Vec<u8> {
    // The session is kept, and the will is retained with a guarantee of delivery.
    let mut flags = 0b0010_1100;
    let mut body = Vec::new();
    text(&mut body, "MQTT");
    let mut rest = Vec::new();
    text(&mut rest, asked.client);
    text(&mut rest, asked.will.0);
    text(&mut rest, asked.will.1);
    if let Some(user) = asked.user {
        flags |= 0b1000_0000;
        text(&mut rest, user);
        if let Some(password) = asked.password {
            flags |= 0b0100_0000;
            text(&mut rest, password);
        }
    }
    body.extend([4, flags]);
    body.extend(asked.keep_alive.to_be_bytes());
    body.extend(rest);
    packet(0x10, &body)
}

/// Asks for a topic, with a guarantee of delivery.
pub(super) fn subscribe(topic: &str) -> Vec<u8> {
    let mut body = vec![0, 1];
    text(&mut body, topic);
    body.push(1);
    packet(0x82, &body)
}

/// A message, with a guarantee of delivery.
pub(super) struct Message<'a> {
    pub(super) topic: &'a str,
    pub(super) payload: &'a [u8],
    pub(super) id: u16,
    pub(super) retain: bool,
}

pub(super) fn published(message: &Message<'_>) -> Vec<u8> {
    let mut body = Vec::new();
    text(&mut body, message.topic);
    body.extend(message.id.to_be_bytes());
    body.extend(message.payload);
    packet(0x32 | u8::from(message.retain), &body)
}

pub(super) fn acknowledged(id: u16) -> Vec<u8> {
    packet(0x40, &id.to_be_bytes())
}

pub(super) fn ping() -> Vec<u8> {
    packet(0xc0, &[])
}

pub(super) fn disconnect() -> Vec<u8> {
    packet(0xe0, &[])
}

/// Texts are cut at their limit of 65,535 bytes; none that the bridge sends is that long.
fn text(body: &mut Vec<u8>, text: &str) {
    let text = text.get(..text.floor_char_boundary(usize::from(u16::MAX))).unwrap_or_default();
    body.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    body.extend(text.as_bytes());
}

fn packet(head: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![head];
    let mut length = body.len();
    loop {
        let byte = u8::try_from(length & 0x7f).unwrap_or(0);
        length >>= 7;
        packet.push(if length > 0 { byte | 0x80 } else { byte });
        if length == 0 {
            break;
        }
    }
    packet.extend(body);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_however_they_are_cut() {
        let payload = vec![b'x'; 300];
        let message = published(&Message { topic: "a/b", payload: &payload, id: 77, retain: false });
        let all =
            [message.clone(), acknowledged(9), vec![0x20, 2, 0, 5], vec![0xd0, 0], vec![0x90, 3, 0, 1, 0x80]].concat();
        for end in 0..message.len() {
            assert_eq!(read(&all[..end]), Ok(None), "{end}");
        }
        let mut rest = all.as_slice();
        let mut found = Vec::new();
        while let Some((packet, length)) = read(rest).unwrap() {
            found.push(packet);
            rest = &rest[length..];
        }
        let first = Packet::Publish { topic: "a/b".to_owned(), payload, id: Some(77), retained: false };
        assert_eq!(found, [first, Packet::PubAck(9), Packet::ConnAck(5), Packet::PingResp, Packet::SubAck(false)]);
    }

    #[test]
    fn nonsense_is_refused_and_never_more() {
        for bytes in [
            &[0x30, 0xff, 0xff, 0xff, 0xff][..],
            &[0x30, 0xff, 0xff, 0xff, 0x7f],
            &[0x30, 1, 0],
            &[0x32, 3, 0, 5, b'a'],
            &[0x34, 4, 0, 0, 0, 1],
            &[0x30, 4, 0, 2, 0xff, 0xfe],
            &[0x40, 0],
            &[0x20, 1, 0],
        ] {
            assert_eq!(read(bytes), Err(BadPacket), "{bytes:?}");
        }
        // Every short packet is complete, incomplete or refused.
        for head in 0..=255 {
            for length in 0..6_u8 {
                for byte in [0, 1, 0x7f, 0x80, 0xff] {
                    let bytes: Vec<u8> = [head, length].into_iter().chain(std::iter::repeat_n(byte, 6)).collect();
                    drop(read(&bytes));
                }
            }
        }
    }
}
