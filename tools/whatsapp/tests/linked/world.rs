//! A stand-in for WhatsApp's server: it links devices, keeps their keys, and passes on what they send to each other. What is
//! in messages it cannot read.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use whatsapp_rust::wacore::libsignal::protocol::KeyPair;
use whatsapp_rust::wacore_binary::Node;
use whatsapp_rust::waproto::buffa::Message as _;
use whatsapp_rust::waproto::whatsapp as wa;
use whatsapp_rust::{Jid, NodeBuilder};

use crate::answers::{collections, keys, known_device, targets};
use crate::http::{Request, answer};
use crate::wire::{Wire, public};

/// How long a test waits for something.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The account of the bot, and the number of its linked device.
pub(crate) const BOT: &str = "15550000001";
pub(crate) const DEVICE: u16 = 5;
pub(crate) const ANN: &str = "15550000002";

impl Device {
    pub(crate) fn is_online(&self) -> bool {
        self.online.is_some() && self.is_active
    }

    pub(crate) fn has_keys(&self) -> bool {
        self.signed_key.is_some()
    }
}

/// What is sent to a connection.
pub(crate) enum Task {
    Send(Node),
    /// Ends it.
    Close,
}

/// A linked device.
#[derive(Default, Clone)]
pub(crate) struct Device {
    pub(crate) identity: Vec<u8>,
    /// What its account signed, in the form for others.
    pub(crate) signed: Vec<u8>,
    /// What it uploaded: registration, signed key and keys for first messages.
    pub(crate) registration: Vec<u8>,
    pub(crate) signed_key: Option<Node>,
    pub(crate) keys: Vec<Node>,
    /// Messages that it has not confirmed, by their ids.
    waiting: Vec<Node>,
    online: Option<Sender<Task>>,
    /// The number of its connection.
    connection: u64,
    /// It asked for what waits.
    is_active: bool,
}

/// A code that was scanned, and the device that it links.
struct Link {
    shown: String,
    device: String,
}

#[derive(Default)]
pub(crate) struct Known {
    pub(crate) devices: BTreeMap<String, Device>,
    accounts: BTreeMap<String, Arc<KeyPair>>,
    /// Connections that show a code, by what they show.
    pairing: BTreeMap<String, Sender<Task>>,
    links: BTreeMap<String, Link>,
    /// Numbers of the members of groups.
    pub(crate) groups: BTreeMap<String, Vec<String>>,
    files: BTreeMap<String, Vec<u8>>,
    /// Ids of all messages that were sent, with the device that did.
    pub(crate) sent: Vec<(String, String)>,
    /// What was asked for, for tests that fail.
    pub(crate) asked: BTreeSet<String>,
    /// Answers to the next messages: nothing, or a code.
    pub(crate) answers: Vec<Option<String>>,
    /// Receipts by their types, with the device that sent them.
    pub(crate) receipts: Vec<(String, String)>,
    /// Confirmations are lost.
    pub(crate) is_deaf: bool,
    number: u64,
}

impl Known {
    /// How many messages a device has not confirmed.
    pub(crate) fn waits(&self, device: &str) -> usize {
        self.devices.get(device).map_or(0, |device| device.waiting.len())
    }
}

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    known: Arc<(Mutex<Known>, Condvar)>,
    keys: Arc<KeyPair>,
}

/// The address of a device.
pub(crate) fn address(number: &str, device: u16) -> String {
    Jid::pn_device(number, device).to_string()
}

/// The address of a person.
pub(crate) fn jid(number: &str) -> String {
    format!("{number}@s.whatsapp.net")
}

pub(crate) fn hidden(number: &str) -> String {
    format!("9{number}")
}

pub(crate) fn text<'n>(node: &'n Node, key: &str) -> std::borrow::Cow<'n, str> {
    node.attrs().optional_string(key).unwrap_or_default()
}

pub(crate) fn bytes(node: &Node, child: &str) -> Vec<u8> {
    let found = node.get_optional_child(child).map(|child| child.as_node_ref().content_bytes().unwrap().to_vec());
    found.unwrap_or_default()
}

impl World {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let keys = Arc::new(KeyPair::generate(&mut rand::rng()));
        let world = Self { address, known: Arc::default(), keys };
        let accepting = world.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let world = accepting.clone();
                std::thread::spawn(move || world.connection(stream));
            }
        });
        world
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.0.lock().unwrap()
    }

    fn changed(&self) {
        self.known.1.notify_all();
    }

    /// Waits until something is so.
    pub(crate) fn until<T>(&self, what: &str, mut is: impl FnMut(&mut Known) -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        let mut known = self.known();
        loop {
            if let Some(found) = is(&mut known) {
                return found;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{what} did not happen; asked: {:?}", known.asked);
            known = self.known.1.wait_timeout(known, left).unwrap().0;
        }
    }

    fn connection(&self, stream: TcpStream) {
        let mut first = [0; 8];
        while stream.peek(&mut first).is_ok_and(|count| (1..8).contains(&count)) {}
        if !first.starts_with(b"GET /ws") {
            return self.file(&stream);
        }
        let Some((wire, payload)) = Wire::accept(stream, &self.keys) else { return };
        let (sender, tasks) = channel();
        match payload.username {
            Some(number) => {
                let device = u16::try_from(payload.device.unwrap_or_default()).unwrap();
                self.login(&address(&number.to_string(), device), sender, &tasks, wire);
            }
            None => {
                let shown = format!("2@ref{}", self.next());
                let refs = [0; 6].map(|_| NodeBuilder::new("ref").bytes(shown.as_bytes()).build());
                let pair = NodeBuilder::new("pair-device").children(refs).build();
                drop(sender.send(Task::Send(self.iq("set").children([pair]).build())));
                self.known().pairing.insert(shown, sender);
                self.changed();
                self.serve("", &tasks, wire);
            }
        }
    }

    fn next(&self) -> u64 {
        let mut known = self.known();
        known.number += 1;
        known.number
    }

    fn iq(&self, kind: &'static str) -> NodeBuilder {
        let id = format!("server-{}", self.next());
        NodeBuilder::new("iq").attr("from", "s.whatsapp.net").attr("type", kind).attr("id", id)
    }

    fn login(&self, device: &str, sender: Sender<Task>, tasks: &Receiver<Task>, mut wire: Wire) {
        let connection = self.next();
        let before = {
            let mut known = self.known();
            let Some(entry) = known.devices.get_mut(device) else {
                drop(known);
                wire.send(&NodeBuilder::new("failure").attr("reason", "401").build());
                return wire.close();
            };
            (entry.is_active, entry.connection) = (false, connection);
            entry.online.replace(sender)
        };
        if let Some(before) = before {
            let conflict = NodeBuilder::new("conflict").attr("type", "replaced").build();
            drop(before.send(Task::Send(NodeBuilder::new("stream:error").children([conflict]).build())));
            drop(before.send(Task::Close));
        }
        let number = device.split([':', '@']).next().unwrap();
        let lid = Jid::lid(hidden(number)).to_string();
        wire.send(&NodeBuilder::new("success").attr("t", "1796000000").attr("lid", lid).build());
        self.serve(device, tasks, wire);
        if let Some(entry) = self.known().devices.get_mut(device).filter(|entry| entry.connection == connection) {
            (entry.online, entry.is_active) = (None, false);
        }
    }

    /// Answers a connection until it ends.
    fn serve(&self, device: &str, tasks: &Receiver<Task>, mut wire: Wire) {
        loop {
            for task in tasks.try_iter() {
                match task {
                    Task::Send(node) => wire.send(&node),
                    Task::Close => return wire.close(),
                }
            }
            match wire.read() {
                Some(Some(node)) => self.handle(device, &node, &mut wire),
                Some(None) => {}
                None => break,
            }
        }
    }

    fn handle(&self, device: &str, node: &Node, wire: &mut Wire) {
        match node.tag.as_ref() {
            "iq" if text(node, "type") == "result" => self.paired(node),
            "iq" => {
                let answer = self.answer(device, node);
                let is_active = node.get_optional_child("active").is_some();
                wire.send(&answer);
                if is_active {
                    self.offline(device, wire);
                }
            }
            "message" => self.message(device, node),
            "ack" | "receipt" => {
                self.confirmed(device, node);
                if node.tag == "receipt" {
                    let ack = NodeBuilder::new("ack").attr("class", "receipt").attr("id", text(node, "id").as_ref());
                    wire.send(&ack.attr("from", text(node, "to").as_ref()).build());
                }
            }
            other => drop(self.known().asked.insert(format!("<{other}>"))),
        }
    }

    /// Hands over what waits for a device.
    fn offline(&self, device: &str, wire: &mut Wire) {
        let waiting = {
            let mut known = self.known();
            let Some(entry) = known.devices.get_mut(device) else { return };
            entry.is_active = true;
            entry.waiting.clone()
        };
        self.changed();
        for (place, node) in waiting.iter().enumerate() {
            let mut node = node.clone();
            node.attrs.insert("offline", place.to_string());
            wire.send(&node);
        }
        let count = NodeBuilder::new("offline").attr("count", waiting.len().to_string()).build();
        wire.send(&NodeBuilder::new("ib").attr("from", "s.whatsapp.net").children([count]).build());
    }

    /// Sends to a device that is connected.
    fn give(known: &mut Known, device: &str, node: Node) {
        if let Some(online) = known.devices.get(device).and_then(|device| device.online.as_ref()) {
            drop(online.send(Task::Send(node)));
        }
    }

    /// Says something to a device.
    pub(crate) fn tell(&self, device: &str, node: Node) {
        Self::give(&mut self.known(), device, node);
    }

    /// Cuts the connection of a device.
    pub(crate) fn cut(&self, device: &str) {
        if let Some(online) = self.known().devices.get(device).and_then(|device| device.online.as_ref()) {
            drop(online.send(Task::Close));
        }
    }

    /// Forgets a device, as the phone does.
    pub(crate) fn remove(&self, device: &str) {
        let conflict = NodeBuilder::new("conflict").attr("type", "device_removed").build();
        let error = NodeBuilder::new("stream:error").attr("code", "401").children([conflict]).build();
        self.tell(device, error);
        self.known().devices.remove(device);
    }

    fn confirmed(&self, device: &str, node: &Node) {
        let (id, kind) = (text(node, "id").into_owned(), text(node, "type").into_owned());
        let mut known = self.known();
        known.receipts.push((device.to_owned(), format!("{} {kind}", node.tag)));
        if known.is_deaf {
            return;
        }
        if kind == "retry" {
            let to = text(node, "to").into_owned();
            let author = match node.attrs().optional_string("participant") {
                Some(participant) => participant.into_owned(),
                None => to.clone(),
            };
            let mut receipt = node.clone();
            receipt.attrs.insert("from", if to.ends_with("@g.us") { to } else { device.to_owned() });
            receipt.attrs.insert("participant", device.to_owned());
            Self::give(&mut known, &known_device(&author), receipt);
        } else if let Some(entry) = known.devices.get_mut(device) {
            // Of messages that waited, several are confirmed at once.
            let more = node.get_optional_child("list").and_then(Node::children).unwrap_or_default();
            let ids: Vec<_> = more.iter().map(|item| text(item, "id").into_owned()).chain([id]).collect();
            entry.waiting.retain(|waiting| !ids.iter().any(|id| text(waiting, "id") == *id));
        }
        drop(known);
        self.changed();
    }

    fn message(&self, device: &str, node: &Node) {
        let (id, to) = (text(node, "id").into_owned(), text(node, "to").into_owned());
        let mut known = self.known();
        known.sent.push((device.to_owned(), id.clone()));
        let own = device.split([':', '@']).next().unwrap().to_owned();
        for (target, parts) in targets(&known, device, node) {
            let is_own = target.starts_with(&own);
            let mut copy = NodeBuilder::new("message")
                .attr("id", id.as_str())
                .attr("type", text(node, "type").as_ref())
                .attr("t", "1796000000")
                .attr("notify", format!("Person {own}"));
            copy = if to.ends_with("@g.us") {
                copy.attr("from", to.as_str()).attr("participant", device).attr("addressing_mode", "pn")
            } else if is_own {
                copy.attr("from", device).attr("recipient", to.as_str())
            } else {
                copy.attr("from", device).attr("sender_lid", Jid::lid(hidden(&own)).to_string())
            };
            if let Some(edit) = node.attrs().optional_string("edit") {
                copy = copy.attr("edit", edit.as_ref());
            }
            let copy = copy.children(parts).build();
            if let Some(entry) = known.devices.get_mut(&target) {
                entry.waiting.retain(|waiting| text(waiting, "id") != id);
                entry.waiting.push(copy.clone());
            }
            Self::give(&mut known, &target, copy);
        }
        let answer = if known.answers.is_empty() { Some(String::new()) } else { known.answers.remove(0) };
        if let Some(code) = answer {
            let mut ack = NodeBuilder::new("ack").attr("class", "message").attr("id", id.as_str()).attr("from", to);
            if !code.is_empty() {
                ack = ack.attr("error", code);
            }
            Self::give(&mut known, device, ack.attr("t", "1796000000").build());
        }
        drop(known);
        self.changed();
    }

    /// The phone scans a code.
    pub(crate) fn scan(&self, code: &str, number: &str, device: u16) {
        let parts: Vec<&str> = code.split(',').collect();
        let [shown, _, identity, secret, ..] = parts.as_slice() else { panic!("{code}") };
        let [identity, secret] = [identity, secret].map(|part| BASE64_STANDARD.decode(part).unwrap());
        let mut known = self.known();
        let account =
            known.accounts.entry(number.to_owned()).or_insert_with(|| Arc::new(KeyPair::generate(&mut rand::rng())));
        let account = Arc::clone(account);
        let details = wa::ADVDeviceIdentity {
            raw_id: Some(1),
            timestamp: Some(1_000),
            key_index: Some(device.into()),
            ..Default::default()
        };
        let details = details.encode_to_vec();
        let signed = [&[6, 0], details.as_slice(), &identity].concat();
        let signature = account.private_key.calculate_signature(&signed, &mut rand::rng()).unwrap();
        let signed = wa::ADVSignedDeviceIdentity {
            details: Some(details),
            account_signature_key: Some(public(&account).to_vec()),
            account_signature: Some(signature.to_vec()),
            ..Default::default()
        };
        let signed = signed.encode_to_vec();
        let mut mac = <Hmac<Sha256>>::new_from_slice(&secret).unwrap();
        mac.update(&signed);
        let container = wa::ADVSignedDeviceIdentityHMAC {
            details: Some(signed),
            hmac: Some(mac.finalize().into_bytes().to_vec()),
            ..Default::default()
        };
        let jid = address(number, device);
        let lid = Jid::lid_device(hidden(number), device).to_string();
        let success = NodeBuilder::new("pair-success").children([
            NodeBuilder::new("device-identity").bytes(container.encode_to_vec()).build(),
            NodeBuilder::new("biz").attr("name", format!("Person {number}")).build(),
            NodeBuilder::new("device").attr("jid", jid.as_str()).attr("lid", lid).build(),
            NodeBuilder::new("platform").attr("name", "android").build(),
        ]);
        let iq = NodeBuilder::new("iq").attr("from", "s.whatsapp.net").attr("type", "set");
        known.number += 1;
        let id = format!("pair-{}", known.number);
        known.links.insert(id.clone(), Link { shown: (*shown).to_owned(), device: jid.clone() });
        let iq = iq.attr("id", id).children([success.build()]).build();
        known.devices.insert(jid, Device { identity, ..Device::default() });
        drop(known.pairing[*shown].send(Task::Send(iq)));
    }

    /// A device signed that it is linked, and connects again.
    fn paired(&self, node: &Node) {
        let Some(sign) = node.get_optional_child("pair-device-sign") else { return };
        let mut known = self.known();
        let Some(Link { shown, device }) = known.links.remove(text(node, "id").as_ref()) else { return };
        known.devices.get_mut(&device).unwrap().signed = bytes(sign, "device-identity");
        Self::tell_others(&mut known, &device);
        let connection = known.pairing.remove(&shown).unwrap();
        drop(connection.send(Task::Send(NodeBuilder::new("stream:error").attr("code", "515").build())));
        drop(connection.send(Task::Close));
        drop(known);
        self.changed();
    }

    /// Tells the other devices of an account which ones it has. Those of other people ask when they write to it.
    fn tell_others(known: &mut Known, new: &str) {
        let number = new.split(':').next().unwrap();
        let all: Vec<String> = known.devices.keys().filter(|device| device.starts_with(number)).cloned().collect();
        let list = all.iter().map(|device| NodeBuilder::new("device").attr("jid", device.as_str()).build());
        let list = NodeBuilder::new("devices").attr("dhash", "2:x").children(list.collect::<Vec<_>>()).build();
        let told = NodeBuilder::new("notification").attr("type", "account_sync").attr("from", jid(number));
        let told =
            told.attr("id", format!("devices-{}", known.number)).attr("t", "1796000000").children([list]).build();
        all.iter().filter(|device| *device != new).for_each(|device| Self::give(known, device, told.clone()));
    }

    fn answer(&self, device: &str, node: &Node) -> Node {
        let space = text(node, "xmlns").into_owned();
        let child = node.children().and_then(|children| children.first());
        let what = child.map(|child| child.tag.to_string()).unwrap_or_default();
        let mut known = self.known();
        known.asked.insert(format!("{space} {what}"));
        let result = match (space.as_str(), what.as_str()) {
            ("encrypt", "count") => {
                let count = known.devices.get(device).map_or(0, |device| device.keys.len());
                vec![NodeBuilder::new("count").attr("value", count.to_string()).build()]
            }
            ("encrypt", "key") => vec![keys(&mut known, child.unwrap())],
            ("encrypt", _) if text(node, "type") == "set" => {
                known.uploaded(device, node);
                Vec::new()
            }
            ("usync", _) => vec![known.devices_of(child.unwrap())],
            ("w:g2", _) => vec![known.group(&text(node, "to"))],
            ("w:m", _) => {
                let host = NodeBuilder::new("host").attr("hostname", "media.test").build();
                let media = NodeBuilder::new("media_conn").attr("auth", "a").attr("ttl", "3600");
                vec![media.attr("auth_ttl", "3600").attr("max_buckets", "1").children([host]).build()]
            }
            ("w:sync:app:state", _) => vec![collections(child.unwrap())],
            ("privacy", _) => vec![NodeBuilder::new("privacy").build()],
            ("blocklist", _) => vec![NodeBuilder::new("list").build()],
            ("abt", _) => vec![NodeBuilder::new("props").attr("hash", "x").attr("refresh", "86400").build()],
            _ => Vec::new(),
        };
        drop(known);
        self.changed();
        let answer = NodeBuilder::new("iq").attr("from", "s.whatsapp.net").attr("type", "result");
        answer.attr("id", text(node, "id").as_ref()).children(result).build()
    }

    /// The store of files, by HTTP.
    fn file(&self, stream: &TcpStream) {
        let Some(Request { is_post, path, body }) = Request::read(stream) else { return };
        if !is_post {
            let found = self.known().files.get(&path).cloned();
            return answer(stream, found.as_deref());
        }
        let path = format!("/f/{}", self.next());
        self.known().files.insert(path.clone(), body);
        let place = format!("{{\"url\": \"https://media.test{path}\", \"direct_path\": \"{path}\"}}");
        answer(stream, Some(place.as_bytes()));
    }
}
