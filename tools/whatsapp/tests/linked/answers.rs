//! What the stand-in answers, from what it knows.

use std::collections::BTreeMap;

use whatsapp_rust::wacore_binary::Node;
use whatsapp_rust::waproto::buffa::Message as _;
use whatsapp_rust::waproto::whatsapp as wa;
use whatsapp_rust::{Jid, NodeBuilder};

use crate::world::{Known, address, bytes, hidden, text};

impl Known {
    pub(crate) fn uploaded(&mut self, device: &str, node: &Node) {
        let Some(entry) = self.devices.get_mut(device) else { return };
        if node.get_optional_child("registration").is_some() {
            entry.registration = bytes(node, "registration");
        }
        entry.signed_key = node.get_optional_child("skey").cloned().or_else(|| entry.signed_key.take());
        let keys = node.get_optional_child("list").and_then(Node::children).unwrap_or_default();
        entry.keys.extend(keys.iter().cloned());
    }

    fn numbers(&self, number: &str) -> Vec<u16> {
        let of = |jid: &String| jid.parse::<Jid>().ok().filter(|jid| jid.user_base() == number).map(|jid| jid.device);
        self.devices.keys().filter_map(of).collect()
    }

    pub(crate) fn devices_of(&self, usync: &Node) -> Node {
        let asked = usync.get_optional_child("list").and_then(Node::children).unwrap_or_default();
        let users = asked.iter().map(|user| {
            let jid = text(user, "jid").into_owned();
            let user = jid.split([':', '@']).next().unwrap();
            let number = if jid.ends_with("@lid") { user.strip_prefix('9').unwrap_or(user) } else { user };
            let ids = self.numbers(number);
            let nodes = ids.iter().map(|id| {
                NodeBuilder::new("device").attr("id", id.to_string()).attr("key-index", id.to_string()).build()
            });
            let list = NodeBuilder::new("device-list").children(nodes).build();
            let index = wa::ADVKeyIndexList {
                raw_id: Some(1),
                timestamp: Some(1_000),
                current_index: ids.iter().copied().max().map(u32::from),
                valid_indexes: ids.iter().copied().map(u32::from).collect(),
                ..Default::default()
            };
            let signed = wa::ADVSignedKeyIndexList { details: Some(index.encode_to_vec()), ..Default::default() };
            let index = NodeBuilder::new("key-index-list").attr("ts", "1000").bytes(signed.encode_to_vec()).build();
            let devices = NodeBuilder::new("devices").children([list, index]).build();
            let lid = NodeBuilder::new("lid").attr("val", Jid::lid(hidden(number)).to_string()).build();
            let contact = NodeBuilder::new("contact").attr("type", "in").build();
            NodeBuilder::new("user").attr("jid", jid.as_str()).children([devices, lid, contact]).build()
        });
        let list = NodeBuilder::new("list").children(users.collect::<Vec<_>>()).build();
        NodeBuilder::new("usync").children([list]).build()
    }

    pub(crate) fn group(&self, group: &str) -> Node {
        let members = self.groups.get(group).cloned().unwrap_or_default();
        let members = members.iter().map(|number| {
            let lid = Jid::lid(hidden(number)).to_string();
            NodeBuilder::new("participant").attr("jid", Jid::pn(number.as_str()).to_string()).attr("lid", lid).build()
        });
        let group = group.split('@').next().unwrap_or_default();
        let node = NodeBuilder::new("group").attr("id", group).attr("subject", "Group").attr("creation", "1700000000");
        let node = node.attr("s_t", "1700000000").attr("s_o", "15550000002@s.whatsapp.net");
        node.attr("addressing_mode", "pn").children(members.collect::<Vec<_>>()).build()
    }
}

/// The device of an address, in the form in which devices are known here.
pub(crate) fn known_device(jid: &str) -> String {
    let jid: Jid = jid.parse().unwrap();
    let number = if jid.is_lid() { jid.user_base().strip_prefix('9').unwrap() } else { jid.user_base() };
    address(number, jid.device)
}

pub(crate) fn collections(sync: &Node) -> Node {
    let names = sync.children().unwrap_or_default().iter().map(|collection| {
        NodeBuilder::new("collection").attr("name", text(collection, "name").as_ref()).attr("version", "0").build()
    });
    NodeBuilder::new("sync").children(names.collect::<Vec<_>>()).build()
}

/// Keys for first messages. Each is given away once.
pub(crate) fn keys(known: &mut Known, asked: &Node) -> Node {
    let mut users = Vec::new();
    for user in asked.children().unwrap_or_default() {
        let jid = text(user, "jid").into_owned();
        let Some(device) = known.devices.get_mut(&known_device(&jid)).filter(|device| device.signed_key.is_some())
        else {
            let error = NodeBuilder::new("error").attr("code", "404").build();
            users.push(NodeBuilder::new("user").attr("jid", jid).children([error]).build());
            continue;
        };
        let mut parts = vec![
            NodeBuilder::new("registration").bytes(device.registration.clone()).build(),
            NodeBuilder::new("type").bytes(vec![5]).build(),
            NodeBuilder::new("identity").bytes(device.identity.clone()).build(),
            NodeBuilder::new("device-identity").bytes(device.signed.clone()).build(),
        ];
        parts.extend(device.signed_key.clone());
        if !device.keys.is_empty() {
            parts.push(device.keys.remove(0));
        }
        users.push(NodeBuilder::new("user").attr("jid", jid).children(parts).build());
    }
    NodeBuilder::new("list").children(users).build()
}

/// Who gets a message, and what of it.
pub(crate) fn targets(known: &Known, device: &str, node: &Node) -> Vec<(String, Vec<Node>)> {
    let to = text(node, "to").into_owned();
    let mut targets: BTreeMap<String, Vec<Node>> = BTreeMap::new();
    let identity = node.get_optional_child("device-identity");
    let own: Vec<&Node> = node.get_children_by_tag("enc").collect();
    if let Some(members) = known.groups.get(&to) {
        for number in members {
            for id in known.numbers(number) {
                targets.insert(address(number, id), own.iter().map(|part| (*part).clone()).collect());
            }
        }
        targets.remove(device);
    } else if !own.is_empty() {
        targets.insert(known_device(&to), own.iter().map(|part| (*part).clone()).collect());
    }
    for each in node.get_optional_child("participants").and_then(Node::children).unwrap_or_default() {
        let parts = targets.entry(known_device(&text(each, "jid"))).or_default();
        // Keys of a group come before what they open.
        parts.splice(0..0, each.children().unwrap_or_default().iter().cloned());
    }
    targets
        .into_iter()
        .map(|(jid, mut parts)| {
            parts.extend(identity.cloned());
            (jid, parts)
        })
        .collect()
}
