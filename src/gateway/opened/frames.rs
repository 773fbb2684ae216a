//! Frames of WebSockets (RFC 6455), read strictly. Pure. Whole messages come out, so that they can be searched.

/// Longest message in bytes.
pub(super) const MESSAGE_MAX: usize = 1 << 20;
/// Longest payload of a control frame in bytes.
const CONTROL_MAX: usize = 125;
/// Longest payload whose length is in the second byte of a frame, and those in the next two and eight bytes.
const SHORT_MAX: u8 = 125;
const MEDIUM: u8 = 126;
const LONG: u8 = 127;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The agent's program. It masks what it sends.
    Program,
    /// The host. It does not.
    Host,
}

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

/// A message, or a control frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) kind: Kind,
    /// Without the mask.
    pub(super) payload: Vec<u8>,
    /// The mask of its first frame.
    mask: Option<[u8; 4]>,
}

/// Why frames are not passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadFrame {
    /// It can be read in two ways, or has what was not agreed on.
    Form,
    /// The message is longer than [`MESSAGE_MAX`].
    TooLong,
}

/// The frames of one direction.
#[derive(Debug)]
pub(super) struct Frames {
    sender: Sender,
    bytes: Vec<u8>,
    /// A message whose last frame has not come.
    begun: Option<Message>,
}

struct FrameHead {
    is_last: bool,
    opcode: u8,
    mask: Option<[u8; 4]>,
    /// Length of the head.
    head: usize,
    payload: usize,
}

impl Frames {
    pub(super) const fn new(sender: Sender) -> Self {
        Self { sender, bytes: Vec::new(), begun: None }
    }

    /// Adds bytes that have come.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message. `None`: more bytes are needed.
    pub(super) fn next(&mut self) -> Result<Option<Message>, BadFrame> {
        while let Some(frame) = self.head()? {
            let end = frame.head.saturating_add(frame.payload);
            if self.bytes.len() < end {
                return Ok(None);
            }
            let mut payload: Vec<u8> = self.bytes.drain(..end).skip(frame.head).collect();
            apply(frame.mask, &mut payload);
            if let Some(message) = self.joined(&frame, payload)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// Adds a frame to the message that it belongs to. Control frames come between those of a message.
    fn joined(&mut self, frame: &FrameHead, payload: Vec<u8>) -> Result<Option<Message>, BadFrame> {
        let new = |kind, payload| Message { kind, payload, mask: frame.mask };
        let kind = match (frame.opcode, frame.is_last) {
            (0, _) => {
                let mut message = self.begun.take().ok_or(BadFrame::Form)?;
                message.payload.extend(payload);
                if frame.is_last {
                    return Ok(Some(message));
                }
                self.begun = Some(message);
                return Ok(None);
            }
            (8, true) => return Ok(Some(new(Kind::Close, payload))),
            (9, true) => return Ok(Some(new(Kind::Ping, payload))),
            (10, true) => return Ok(Some(new(Kind::Pong, payload))),
            (1, _) => Kind::Text,
            (2, _) => Kind::Binary,
            _ => return Err(BadFrame::Form),
        };
        match (self.begun.is_some(), frame.is_last) {
            (true, _) => Err(BadFrame::Form),
            (false, true) => Ok(Some(new(kind, payload))),
            (false, false) => {
                self.begun = Some(new(kind, payload));
                Ok(None)
            }
        }
    }

    /// The head of the next frame. It is judged before its payload comes.
    fn head(&self) -> Result<Option<FrameHead>, BadFrame> {
        let [first, second, rest @ ..] = self.bytes.as_slice() else { return Ok(None) };
        // Reserved bits are of extensions, and none is agreed on.
        let (is_last, reserved, opcode) = (first & 0x80 != 0, first & 0x70, first & 0x0f);
        let (is_masked, short) = (second & 0x80 != 0, second & 0x7f);
        if reserved != 0 || is_masked != (self.sender == Sender::Program) {
            return Err(BadFrame::Form);
        }
        let digits = match short {
            ..=SHORT_MAX => 0_usize,
            MEDIUM => 2,
            _ => 8,
        };
        let Some((length, rest)) = rest.split_at_checked(digits) else { return Ok(None) };
        let length = length.iter().fold(0_u64, |length, byte| (length << 8) | u64::from(*byte));
        let payload = if digits == 0 { u64::from(short) } else { length };
        let is_shortest = match digits {
            0 => true,
            2 => payload > u64::from(SHORT_MAX),
            _ => payload > u64::from(u16::MAX),
        };
        let payload = usize::try_from(payload).map_err(|_| BadFrame::TooLong)?;
        if !is_shortest || (opcode >= 8 && payload > CONTROL_MAX) {
            return Err(BadFrame::Form);
        }
        let begun = self.begun.as_ref().map_or(0, |message| message.payload.len());
        if payload.saturating_add(begun) > MESSAGE_MAX {
            return Err(BadFrame::TooLong);
        }
        let mask = match (is_masked, rest) {
            (false, _) => None,
            (true, [a, b, c, d, ..]) => Some([*a, *b, *c, *d]),
            (true, _) => return Ok(None),
        };
        let head = 2_usize.saturating_add(digits).saturating_add(if is_masked { 4 } else { 0 });
        Ok(Some(FrameHead { is_last, opcode, mask, head, payload }))
    }
}

impl Message {
    #[cfg(test)]
    pub(super) const fn new(kind: Kind, payload: Vec<u8>, mask: Option<[u8; 4]>) -> Self {
        Self { kind, payload, mask }
    }

    /// A message of the gate's own that ends a WebSocket, for the agent's program. The text is for people.
    pub(super) fn close(code: u16, text: &str) -> Self {
        let room = CONTROL_MAX.saturating_sub(2);
        let end = (0..=room.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let text = text.get(..end).unwrap_or_default();
        Self { kind: Kind::Close, payload: [&code.to_be_bytes()[..], text.as_bytes()].concat(), mask: None }
    }

    /// The message as one frame.
    pub(super) fn written(mut self) -> Vec<u8> {
        let opcode = match self.kind {
            Kind::Text => 1,
            Kind::Binary => 2,
            Kind::Close => 8,
            Kind::Ping => 9,
            Kind::Pong => 10,
        };
        let masked = if self.mask.is_some() { 0x80 } else { 0 };
        let mut frame = vec![0x80 | opcode];
        match (u8::try_from(self.payload.len()), u16::try_from(self.payload.len())) {
            (Ok(short @ ..=SHORT_MAX), _) => frame.push(masked | short),
            (_, Ok(medium)) => {
                frame.push(masked | MEDIUM);
                frame.extend(medium.to_be_bytes());
            }
            _ => {
                frame.push(masked | LONG);
                frame.extend(u64::try_from(self.payload.len()).unwrap_or(u64::MAX).to_be_bytes());
            }
        }
        frame.extend(self.mask.iter().flatten());
        apply(self.mask, &mut self.payload);
        frame.append(&mut self.payload);
        frame
    }
}

fn apply(mask: Option<[u8; 4]>, payload: &mut [u8]) {
    let Some(mask) = mask else { return };
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(sender: Sender, pieces: &[&[u8]]) -> Result<Vec<(Kind, Vec<u8>)>, BadFrame> {
        let (mut frames, mut found) = (Frames::new(sender), Vec::new());
        for piece in pieces {
            frames.push(piece);
            while let Some(message) = frames.next()? {
                found.push((message.kind, message.payload));
            }
        }
        Ok(found)
    }

    #[test]
    fn messages_are_joined_from_their_frames() {
        // The examples of RFC 6455, section 5.7.
        let hello = Ok(vec![(Kind::Text, b"Hello".to_vec())]);
        assert_eq!(all(Sender::Host, &[b"\x81\x05Hello"]), hello);
        assert_eq!(all(Sender::Program, &[b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"]), hello);
        assert_eq!(all(Sender::Host, &[b"\x01\x03Hel\x80\x02lo"]), hello);
        let between = Ok(vec![(Kind::Ping, b"x".to_vec()), (Kind::Text, b"Hello".to_vec())]);
        assert_eq!(all(Sender::Host, &[b"\x01\x03Hel\x89\x01x\x80\x02lo"]), between);
        assert_eq!(all(Sender::Host, &[b"\x88\x02\x03\xe8"]), Ok(vec![(Kind::Close, vec![3, 232])]));
    }

    #[test]
    fn what_was_not_agreed_on_is_refused() {
        for bytes in [
            // Masked by a host, reserved bits, opcodes that do not exist.
            &b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"[..],
            b"\xc1\x05Hello",
            b"\x83\x01x",
            b"\x8b\x01x",
            // A continuation of nothing, a message within a message, control frames in parts or too long.
            b"\x80\x02lo",
            b"\x01\x03Hel\x81\x02lo",
            b"\x09\x01x",
            b"\x89\x7e\x00\x7ex",
            // Lengths in more bytes than they need.
            b"\x81\x7e\x00\x05Hello",
            b"\x81\x7f\x00\x00\x00\x00\x00\x00\x00\x05Hello",
        ] {
            assert_eq!(all(Sender::Host, &[bytes]), Err(BadFrame::Form), "{bytes:?}");
        }
        assert_eq!(all(Sender::Program, &[b"\x81\x05Hello"]), Err(BadFrame::Form), "not masked");
    }

    #[test]
    fn long_messages_are_refused_before_they_have_come() {
        assert_eq!(all(Sender::Host, &[b"\x82\x7f\x00\x00\x00\x00\x00\x10\x00\x01"]), Err(BadFrame::TooLong));
        assert_eq!(all(Sender::Host, &[b"\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00"]), Err(BadFrame::TooLong));
        let mut frames = Frames::new(Sender::Host);
        frames.push(b"\x02\x7f\x00\x00\x00\x00\x00\x10\x00\x00");
        frames.push(&vec![0; MESSAGE_MAX]);
        assert_eq!(frames.next(), Ok(None));
        frames.push(b"\x80\x01");
        assert_eq!(frames.next(), Err(BadFrame::TooLong), "its frames together");
    }

    #[test]
    fn the_text_of_a_close_fits_its_frame() {
        let long = Message::close(1008, &"\u{fc}".repeat(200)).written();
        assert_eq!((long[0], long[1]), (0x88, 124));
        assert!(std::str::from_utf8(&long[4..]).is_ok());
    }

    proptest! {
        /// However bytes are cut, the same messages come out, and a written one reads the same.
        #[test]
        fn cuts_do_not_matter(lengths in prop::collection::vec(0_usize..70_000, 1..4), cut in 0_usize..200_000, masked: bool) {
            let sender = if masked { Sender::Program } else { Sender::Host };
            let mask = masked.then_some([1, 2, 3, 250]);
            let message = |length: &usize| Message { kind: Kind::Binary, payload: vec![7; *length], mask };
            let text: Vec<u8> = lengths.iter().flat_map(|length| message(length).written()).collect();
            let (one, other) = text.split_at(cut.min(text.len()));
            let expected: Vec<_> = lengths.iter().map(|length| (Kind::Binary, vec![7; *length])).collect();
            prop_assert_eq!(all(sender, &[one, other]), Ok(expected));
        }

        /// Nothing that comes makes it panic, and it holds no more than one message and one frame.
        #[test]
        fn hostile_bytes_are_bounded(bytes in prop::collection::vec(any::<u8>(), 0..300), masked: bool) {
            let sender = if masked { Sender::Program } else { Sender::Host };
            drop(all(sender, &[&bytes]));
        }
    }
}
