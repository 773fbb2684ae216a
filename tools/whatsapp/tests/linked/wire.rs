//! One connection of the stand-in: WebSocket, the handshake with Noise, and frames.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Duration;

use tungstenite::{Message, WebSocket};
use whatsapp_rust::wacore::framing::{FrameDecoder, encode_frame};
use whatsapp_rust::wacore::handshake::NoiseHandshake;
use whatsapp_rust::wacore::libsignal::protocol::KeyPair;
use whatsapp_rust::wacore::noise::NoiseCipher;
use whatsapp_rust::wacore_binary::Node;
use whatsapp_rust::wacore_binary::consts::{NOISE_PATTERN_IK, NOISE_PATTERN_XX, WA_CONN_HEADER};
use whatsapp_rust::wacore_binary::marshal::{marshal, unmarshal_ref};
use whatsapp_rust::wacore_binary::util::unpack;
use whatsapp_rust::waproto::buffa::{Message as _, MessageField};
use whatsapp_rust::waproto::whatsapp as wa;

/// How long a read waits before what is to be sent is looked for.
const TICK: Duration = Duration::from_millis(10);

/// The public half of a key.
pub(crate) fn public(keys: &KeyPair) -> [u8; 32] {
    keys.public_key.public_key_bytes().try_into().unwrap()
}

pub(crate) struct Wire {
    socket: WebSocket<TcpStream>,
    frames: FrameDecoder,
    is_first: bool,
    ciphers: Option<(NoiseCipher, NoiseCipher)>,
    sent: u32,
    received: u32,
}

impl Wire {
    /// Answers a connection; also what the client says of itself. None if it ends before.
    pub(crate) fn accept(stream: TcpStream, server: &KeyPair) -> Option<(Self, wa::ClientPayload)> {
        let socket = tungstenite::accept(stream).ok()?;
        socket.get_ref().set_read_timeout(Some(TICK)).unwrap();
        let mut wire =
            Self { socket, frames: FrameDecoder::new(), is_first: true, ciphers: None, sent: 0, received: 0 };
        let hello = wire.handshake()?.client_hello.into_option()?;
        let ephemeral: [u8; 32] = hello.ephemeral?.try_into().ok()?;
        let payload = match hello.r#static {
            Some(fixed) => wire.ik(server, &ephemeral, &fixed, &hello.payload?),
            None => wire.xx(server, &ephemeral),
        }?;
        Some((wire, wa::ClientPayload::decode_from_slice(payload.as_slice()).ok()?))
    }

    fn handshake(&mut self) -> Option<wa::HandshakeMessage> {
        loop {
            if let Some(frame) = self.frame()? {
                return wa::HandshakeMessage::decode_from_slice(frame.as_slice()).ok();
            }
        }
    }

    fn hello(&mut self, ephemeral: [u8; 32], fixed: Option<Vec<u8>>, payload: Vec<u8>) {
        let hello = wa::handshake_message::ServerHello {
            ephemeral: Some(ephemeral.to_vec()),
            r#static: fixed,
            payload: Some(payload),
            ..Default::default()
        };
        let message = wa::HandshakeMessage { server_hello: MessageField::some(hello), ..Default::default() };
        self.write(&message.encode_to_vec());
    }

    fn xx(&mut self, server: &KeyPair, client: &[u8; 32]) -> Option<Vec<u8>> {
        let own = KeyPair::generate(&mut rand::rng());
        let mut noise = NoiseHandshake::new(NOISE_PATTERN_XX, &WA_CONN_HEADER).unwrap();
        noise.authenticate(client);
        noise.authenticate(&public(&own));
        noise.mix_shared_secret(own.private_key.serialize(), client).unwrap();
        let fixed = noise.encrypt(&public(server)).unwrap();
        noise.mix_shared_secret(server.private_key.serialize(), client).unwrap();
        let payload = noise.encrypt(&certificates(&public(server))).unwrap();
        self.hello(public(&own), Some(fixed), payload);
        let finish = self.handshake()?.client_finish.into_option()?;
        let client_fixed: [u8; 32] = noise.decrypt(&finish.r#static?).ok()?.try_into().ok()?;
        noise.mix_shared_secret(own.private_key.serialize(), &client_fixed).unwrap();
        let payload = noise.decrypt(&finish.payload?).ok()?;
        self.ciphers = noise.finish().ok();
        Some(payload)
    }

    fn ik(&mut self, server: &KeyPair, client: &[u8; 32], fixed: &[u8], payload: &[u8]) -> Option<Vec<u8>> {
        let mut noise = NoiseHandshake::new(NOISE_PATTERN_IK, &WA_CONN_HEADER).unwrap();
        noise.authenticate(&public(server));
        noise.authenticate(client);
        noise.mix_shared_secret(server.private_key.serialize(), client).unwrap();
        let client_fixed: [u8; 32] = noise.decrypt(fixed).ok()?.try_into().ok()?;
        noise.mix_shared_secret(server.private_key.serialize(), &client_fixed).unwrap();
        let payload = noise.decrypt(payload).ok()?;
        let own = KeyPair::generate(&mut rand::rng());
        noise.authenticate(&public(&own));
        noise.mix_shared_secret(own.private_key.serialize(), client).unwrap();
        noise.mix_shared_secret(own.private_key.serialize(), &client_fixed).unwrap();
        let answer = noise.encrypt(&certificates(&public(server))).unwrap();
        self.hello(public(&own), None, answer);
        self.ciphers = noise.finish().ok();
        Some(payload)
    }

    /// A frame, if one came. None if the connection ended.
    fn frame(&mut self) -> Option<Option<Vec<u8>>> {
        if let Some(frame) = self.frames.decode_frame() {
            return Some(Some(frame.to_vec()));
        }
        match self.socket.read() {
            Ok(Message::Binary(bytes)) => {
                let is_first = std::mem::take(&mut self.is_first);
                let bytes = if is_first { bytes.strip_prefix(&WA_CONN_HEADER).unwrap_or(&bytes) } else { &bytes };
                self.frames.feed(bytes);
                Some(self.frames.decode_frame().map(|frame| frame.to_vec()))
            }
            Ok(Message::Close(_)) => None,
            Ok(_) => Some(None),
            Err(tungstenite::Error::Io(error))
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
            {
                Some(None)
            }
            Err(_) => None,
        }
    }

    fn write(&mut self, payload: &[u8]) {
        let frame = encode_frame(payload, None).unwrap();
        drop(self.socket.send(Message::Binary(frame.into())));
    }

    /// A node, if one came. None if the connection ended.
    pub(crate) fn read(&mut self) -> Option<Option<Node>> {
        let Some(mut frame) = self.frame()? else { return Some(None) };
        let (read, _) = self.ciphers.as_ref().unwrap();
        read.decrypt_in_place_with_counter(self.received, &mut frame).ok()?;
        self.received += 1;
        let unpacked = unpack(&frame).unwrap();
        Some(Some(unmarshal_ref(&unpacked).unwrap().to_owned()))
    }

    pub(crate) fn send(&mut self, node: &Node) {
        let (_, write) = self.ciphers.as_ref().unwrap();
        let frame = write.encrypt_with_counter(self.sent, &marshal(node).unwrap()).unwrap();
        self.sent += 1;
        self.write(&frame);
    }

    pub(crate) fn close(mut self) {
        drop(self.socket.close(None));
        drop(self.socket.flush());
    }
}

/// Certificates without signatures, which the library only accepts in builds for tests.
fn certificates(key: &[u8; 32]) -> Vec<u8> {
    use wa::cert_chain::{NoiseCertificate, noise_certificate::Details};
    let certificate = |serial: u32, key: Vec<u8>| {
        let details = Details {
            serial: Some(serial),
            issuer_serial: Some(serial - 1),
            key: Some(key),
            not_before: Some(1_700_000_000),
            not_after: Some(1_900_000_000),
        };
        let (details, signature) = (Some(details.encode_to_vec()), Some(vec![0; 64]));
        MessageField::some(NoiseCertificate { details, signature })
    };
    let chain = wa::CertChain { leaf: certificate(2, key.to_vec()), intermediate: certificate(1, vec![0xCC; 32]) };
    chain.encode_to_vec()
}
