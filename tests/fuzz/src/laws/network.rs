//! What agents send to the gate of their network, and rules about hosts.

use hearth::egress::trial::{FirstMessage, first_message, passed, wanted};
use hearth::model::network::{Host, HostRule, Judgement, NetworkPolicy, Unlisted, judge};

/// The first message of a TLS client. It is read the same however much of it has come, and more bytes change nothing.
pub fn hello(bytes: &[u8]) {
    let whole = first_message(bytes);
    for at in 0..bytes.len().min(1 << 10) {
        match first_message(&bytes[..at]) {
            FirstMessage::Unfinished => {}
            early => assert_eq!(early, whole, "after {at} bytes"),
        }
    }
    if let FirstMessage::Names(name) = &whole {
        assert_eq!(first_message(&[bytes, b"more"].concat()), whole);
        assert!(name.as_ref().is_none_or(|name| !name.is_empty()));
    }
}

/// A request to the gate. What it is sent on as means the same when it is read again.
pub fn way_out(bytes: &[u8]) {
    let read = wanted(bytes);
    assert_eq!(read, wanted(bytes));
    if let Err(why) = &read {
        assert!(!why.is_empty());
    }
    let Ok(Some((to, Some(head)))) = read else { return };
    if to.port == 80 {
        let again = passed(&to, &[&head]).expect("what is sent on is for its host");
        assert_eq!(again, head);
    }
}

/// Requests without TLS. However they are cut into pieces, the same passes, and every `Host` in what passes as a head is
/// the one that was judged.
pub fn plain_requests(bytes: &[u8]) {
    let to = "a.org:80".parse().expect("an endpoint");
    let whole = passed(&to, &[bytes]);
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(passed(&to, &single), whole);
    let Some(whole) = whole else { return };
    assert!(bytes.starts_with(&whole), "bytes pass as they came");
    if let Some(end) = whole.windows(4).position(|window| window == b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&whole[..end]).to_ascii_lowercase();
        let hosts: Vec<&str> =
            head.split("\r\n").filter_map(|line| line.strip_prefix("host:")).map(str::trim).collect();
        assert!(matches!(hosts[..], ["a.org" | "a.org." | "a.org:80" | "a.org.:80"]), "{hosts:?}");
    }
}

/// A rule about hosts, and a host in the second line. A rule is written as it is read, and a denial always holds.
pub fn hosts(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut lines = text.lines();
    let (rule, host) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let host = host.parse::<Host>();
    if let Ok(host) = &host {
        assert_eq!(host.to_string().parse().as_ref(), Ok(host));
    }
    let rule = match rule.parse::<HostRule>() {
        Ok(rule) => rule,
        Err(why) => return assert!(!why.to_string().is_empty()),
    };
    assert_eq!(rule.to_string().parse().as_ref(), Ok(&rule));
    let Ok(host) = host else { return };
    let to = hearth::model::network::Endpoint { host, port: rule.port.unwrap_or(443) };
    let policy =
        NetworkPolicy { allow: vec![rule.clone()], deny: vec![rule.clone()], ..NetworkPolicy::new(Unlisted::Public) };
    if rule.covers(&to.host) {
        let judged = judge(&policy, &to);
        assert!(matches!(judged, Judgement::Refuse(_)), "{judged:?}");
    }
    // Another denial never allows more, and another allowance overrides neither a denial nor a refusal of a person.
    for unlisted in [Unlisted::Refuse, Unlisted::Ask, Unlisted::Public] {
        let denied = NetworkPolicy { deny: vec![rule.clone()], ..NetworkPolicy::new(unlisted) };
        let refused = NetworkPolicy { refused: vec![rule.clone()], ..NetworkPolicy::new(unlisted) };
        for policy in [denied, refused] {
            let (before, without) = (judge(&policy, &to), judge(&NetworkPolicy::new(unlisted), &to));
            assert!(before == without || matches!(before, Judgement::Refuse(_)), "{without:?} becomes {before:?}");
            let any = HostRule::exactly(to.clone());
            let more = NetworkPolicy { allow: vec![any.clone()], granted: vec![any], ..policy };
            assert!(before == without || judge(&more, &to) == before, "{before:?} is overridden");
        }
    }
}
