//! Requests to hosts with bound secrets, their bodies, the answers, and the rules about them.

use hearth::gateway::opened::trial::{PLACEHOLDER, Sender, VALUE, judged, masked, searched, sent_on, unchunked};
use hearth::model::bound_secret::{RequestPattern, SecretHeader, SecretHost, is_plain_path};

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// A request. It is read the same however much of it has come. What passes has one meaning, no value that Hearth knows,
/// and no credential but the placeholder, and it is for a path that the secret may be used for.
pub fn requests(bytes: &[u8]) {
    let whole = judged(bytes);
    for at in 0..bytes.len().min(1 << 10) {
        match judged(&bytes[..at]) {
            Ok(None) => {}
            early => assert_eq!(early, whole, "after {at} bytes"),
        }
    }
    if let Err(why) = &whole {
        assert!(!why.is_empty() && !why.contains(VALUE));
    }
    let Ok(Some(passed)) = whole else { return };
    assert_eq!(judged(&passed.head), Ok(Some(passed.clone())), "it is read again as it was read");
    assert!(!holds(&passed.head, VALUE));
    let head = String::from_utf8_lossy(&passed.head);
    let target = head.split(' ').nth(1).expect("an address");
    assert!(target.starts_with("/open"), "{target}");
    assert!(is_plain_path(target.split('?').next().expect("a path")), "{target}");
    let credentials: Vec<&str> =
        head.split("\r\n").filter_map(|line| line.strip_prefix("authorization: ")).map(str::trim).collect();
    match credentials[..] {
        [] => assert!(passed.injected.is_empty()),
        [one] => {
            assert_eq!(one, format!("Bearer {PLACEHOLDER}"));
            assert_eq!(passed.injected, ["authorization"]);
        }
        _ => panic!("two credentials pass: {head}"),
    }
    for name in ["cookie", "x-api-key", "proxy-authorization"] {
        assert!(!head.contains(&format!("\r\n{name}:")), "{head}");
    }
}

/// The messages of a WebSocket: the first byte says who sends, and the rest are its frames. However they are cut, the same
/// messages are sent on, which are read again as they were read.
pub fn sockets(bytes: &[u8]) {
    let Some((first, frames)) = bytes.split_first() else { return };
    let sender = if first % 2 == 0 { Sender::Program } else { Sender::Host };
    let whole = sent_on(sender, &[frames]);
    let single: Vec<&[u8]> = frames.chunks(1).collect();
    assert_eq!(sent_on(sender, &single), whole);
    let Ok(sent) = whole else { return };
    // Frames that were put together may need a longer length.
    assert!(sent.len() <= frames.len() + 8, "nothing is added");
    assert_eq!(sent_on(sender, &[&sent]), Ok(sent.clone()));
}

/// A body in chunks. However it is cut, it has the same content and the same end.
pub fn chunks(bytes: &[u8]) {
    let whole = unchunked(&[bytes]);
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(unchunked(&single), whole);
    match whole {
        Err(why) => assert!(!why.is_empty()),
        Ok(None) => {}
        Ok(Some((body, rest))) => {
            assert!(bytes.ends_with(&rest));
            assert!(body.len() < bytes.len());
            let size = format!("{:x}\r\n", body.len());
            let again = if body.is_empty() { Vec::new() } else { [size.as_bytes(), &body, b"\r\n"].concat() };
            assert_eq!(unchunked(&[&again, b"0\r\n\r\n", &rest]), Ok(Some((body, rest))));
        }
    }
}

/// A text around the value, in place of each NUL. However it is cut, the value passes in neither direction, lengths stay
/// the same, and a text without it passes as it is.
pub fn echoes(bytes: &[u8]) {
    let text: Vec<u8> =
        bytes.iter().flat_map(|byte| if *byte == 0 { VALUE.as_bytes().to_vec() } else { vec![*byte] }).collect();
    let single: Vec<&[u8]> = text.chunks(1).collect();
    let (front, back) = text.split_at(text.len() / 2);
    for pieces in [&[text.as_slice()][..], &[front, back], &single] {
        let answer = masked(pieces);
        assert_eq!(answer.len(), text.len());
        assert!(!holds(&answer, VALUE));
        let sent = searched(pieces);
        if holds(&text, VALUE) {
            assert_eq!(sent, None);
        }
        if let Some(sent) = sent {
            assert_eq!((sent, answer), (text.clone(), text.clone()));
        }
    }
}

/// A rule about requests or a header, and a method and a path in the second line. A rule is written as it is read, and
/// what it allows is a plain path of its method.
pub fn secret_rules(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut lines = text.lines();
    let (rule, asked) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    match rule.parse::<SecretHeader>() {
        Ok(header) => assert_eq!(header.to_string().parse(), Ok(header)),
        Err(why) => assert!(!why.to_string().is_empty()),
    }
    match rule.parse::<SecretHost>() {
        Ok(host) => assert_eq!(host.to_string().parse(), Ok(host)),
        Err(why) => assert!(!why.to_string().is_empty()),
    }
    let rule = match rule.parse::<RequestPattern>() {
        Ok(rule) => rule,
        Err(why) => return assert!(!why.to_string().is_empty()),
    };
    assert_eq!(rule.to_string().parse().as_ref(), Ok(&rule));
    let Some((method, path)) = asked.split_once(' ') else { return };
    if !rule.matches(method, path) {
        return;
    }
    assert!(rule.method.as_deref().is_none_or(|own| own == method));
    let fixed: Vec<&str> = rule.path.split('/').skip(1).take_while(|segment| !segment.contains('*')).collect();
    let given: Vec<&str> = path.split('/').skip(1).collect();
    assert_eq!(given.get(..fixed.len()), Some(fixed.as_slice()), "{rule} allows {path}");
}
