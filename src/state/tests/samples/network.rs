//! Connections, and decisions about hosts.

use super::{AGENT, SESSION, ada, at};
use crate::model::approval::Decider;
use crate::model::connection::Connection;
use crate::model::host_grant::{HostDecision, HostFlood, HostGrant, HostPass};
use crate::model::id::{ConnectionId, MessageId};
use crate::model::network::{NetRefusal, NetVerdict, RuleOrigin, SeenRequest};
use crate::{HostKey, Result, Tables, Text, Write};

pub(super) fn fill(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    let passes = vec![HostPass { session: SESSION, until: at(99) }];
    for (to, decision, by) in [
        ("a.org:443", HostDecision::Always, Decider::Person(ada())),
        ("b.org:443", HostDecision::Once(passes), Decider::Person(ada())),
        ("c.org:80", HostDecision::Never, Decider::Operator),
    ] {
        let key = HostKey { agent: AGENT, host: Text::new(to)? };
        db.host_grants.put(txn, &key, &HostGrant { to: to.parse().unwrap(), decision, by, at: at(6) })?;
    }
    db.host_floods.put(txn, &AGENT, &HostFlood { told: at(6) })?;
    let first = Connection {
        agent: AGENT,
        session: SESSION,
        incarnation: 2,
        message: Some(MessageId::new(1)),
        to: Some("api.example.org:443".parse().unwrap()),
        verdict: NetVerdict::Allowed(RuleOrigin::Allow("*.example.org".parse().unwrap())),
        request: Some(SeenRequest { method: "GET".to_owned(), path: "/v1".to_owned() }),
        began: at(6),
        ended: at(7),
        count: 2,
        up: 900,
        down: 12_000,
    };
    let refused = NetVerdict::Refused(NetRefusal::Unlisted);
    let others = Connection { message: None, to: None, verdict: refused, request: None, ..first.clone() };
    db.connections.put(txn, &ConnectionId::new(1), &first)?;
    db.connections.put(txn, &ConnectionId::new(2), &others)
}
