//! What agents and servers of models send through the model gateway.

use hearth::gateway::trial::{PLACEHOLDER, Verdict, counted, judged, placeholders};
use hearth::model::gateway::{KEY_VARIABLES, Operation};
use hearth::model::id::SessionId;

use super::headed;
use super::store::directory;

/// Headers that servers take credentials from.
const CREDENTIALS: [&str; 6] =
    ["authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "proxy-authorization"];

/// A request: `METHOD TARGET`, and headers. No other credential than the agent's own passes, and no further header makes
/// a request pass that was refused.
pub fn model_requests(bytes: &[u8]) {
    let Some((line, rest)) = headed(bytes) else { return };
    let Some((method, target)) = line.split_once(' ') else { return };
    let headers: Vec<(&str, &[u8])> = rest.split(|byte| *byte == b'\n').filter_map(header).collect();
    let verdict = judged(method, target, &headers);
    assert_eq!(verdict, judged(method, target, &headers));
    if let Verdict::Passed(_) = verdict {
        let (mut ours, mut credentials) = (Vec::new(), 0);
        for variable in &KEY_VARIABLES {
            let (name, prefix) = (variable.header.name(), variable.header.prefix());
            ours.push((name, format!("{prefix}{}{PLACEHOLDER}", variable.begins).into_bytes()));
        }
        for (name, value) in &headers {
            let name = name.to_ascii_lowercase();
            if CREDENTIALS.contains(&name.as_str()) {
                assert!(ours.contains(&(name.as_str(), value.to_vec())), "{name}: {}", String::from_utf8_lossy(value));
                credentials += 1;
            }
        }
        assert!((1..=2).contains(&credentials), "{credentials} credentials pass");
        assert!(!target.contains("..") && !target.contains("//"), "{target}");
    }
    let Some((_, fewer)) = headers.split_last() else { return };
    if let Verdict::Refused(why) = judged(method, target, fewer) {
        assert!(!why.is_empty());
        assert!(!matches!(verdict, Verdict::Passed(_)), "refused without the last header: {why}");
    }
}

fn header(line: &[u8]) -> Option<(&str, &[u8])> {
    let at = line.iter().position(|byte| *byte == b':')?;
    Some((std::str::from_utf8(&line[..at]).ok()?, line[at + 1..].trim_ascii()))
}

/// Longest answer that is cut at every byte.
const CUT_MAX: usize = 1 << 10;

/// An answer: `messages`, `chat`, `responses` or `generate`, with ` events` if it is a stream, and the body. However it is
/// cut into pieces, the same is counted.
pub fn usage(bytes: &[u8]) {
    let Some((line, answer)) = headed(bytes) else { return };
    let (operation, events) = line.strip_suffix(" events").map_or((line, false), |operation| (operation, true));
    let operation = match operation {
        "messages" => Operation::Messages,
        "chat" => Operation::Chat,
        "responses" => Operation::Responses,
        "generate" => Operation::Generate,
        _ => return,
    };
    let whole = counted(operation, events, &[answer]);
    for at in 0..answer.len().min(CUT_MAX) {
        let (head, tail) = answer.split_at(at);
        assert_eq!(counted(operation, events, &[head, tail]), whole, "cut at {at}");
    }
    let bytes: Vec<&[u8]> = answer.chunks(1).collect();
    assert_eq!(counted(operation, events, &bytes), whole);
}

/// The key of an installation. It is used or refused, and each incarnation has placeholders of its own, which can be sent
/// in a header.
pub fn placeholder(bytes: &[u8]) {
    let dir = directory();
    let key = dir.path().join("gateway.key");
    std::fs::write(&key, bytes).expect("a file can be written");
    let of = |session, incarnation| placeholders(&key, SessionId::new(session), incarnation).ok();
    let first = of(1, 11);
    assert_eq!((first.is_some(), &first), (bytes.len() == 32, &of(1, 11)));
    let Some(first) = first else { return };
    for (text, variable) in first.iter().zip(&KEY_VARIABLES) {
        let rest = text.strip_prefix(variable.begins).and_then(|rest| rest.strip_prefix("hearth-")).expect("its form");
        assert!(rest.len() == 32 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{text}");
    }
    for other in [of(1, 12), of(11, 1), of(111, 1)] {
        assert!(other.expect("the same key").iter().all(|text| !first.contains(text)));
    }
}
