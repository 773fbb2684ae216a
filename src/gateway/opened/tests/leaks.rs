//! Values in requests.

use super::*;

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[test]
fn a_known_value_does_not_leave_wherever_it_is() {
    let world = World::new(echo);
    for (value, name) in [(VALUE, "github"), (OTHER, "ANTHROPIC_API_KEY")] {
        let encoded = percent(value);
        let json = format!("{{\"a\":\"{value}\"}}");
        let length = format!("Content-Length: {}", json.len());
        let header = format!("X-Note: a {value} b");
        for (line, headers, body, place) in [
            (format!("GET /a/{value}"), vec![AUTH], "", Place::Address),
            (format!("GET /a?q={encoded}"), vec![AUTH], "", Place::Address),
            ("GET /a".to_owned(), vec![AUTH, header.as_str()], "", Place::Header("x-note".to_owned())),
            ("POST /a".to_owned(), vec![AUTH, length.as_str()], json.as_str(), Place::Body),
        ] {
            let answer = world.ask(&line, &headers, body);
            assert!(answer.starts_with("HTTP/1.1 403"), "{line}: {answer}");
            assert!(answer.contains(name) && !answer.contains(value), "{answer}");
            assert!(world.nothing_arrived());
            let seen = world.seen().pop().unwrap();
            assert_eq!(seen.leak, Some(Leak { name: name.to_owned(), place }), "{line}");
            assert!(!format!("{seen:?}").contains(value) && !format!("{seen:?}").contains(&encoded), "{seen:?}");
        }
    }
}

#[test]
fn a_long_body_is_searched_as_it_passes() {
    let world = World::new(echo);
    let clean = "x".repeat(300_000);
    let length = format!("Content-Length: {}", clean.len());
    let answer = world.ask("POST /none", &[AUTH, &length], &clean);
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    assert_eq!(world.got().body.len(), clean.len());
    let dirty = format!("{clean}{OTHER}{clean}");
    let length = format!("Content-Length: {}", dirty.len());
    let answer = world.ask("POST /none", &[AUTH, &length], &dirty);
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("the body"), "{answer}");
    assert!(world.nothing_arrived(), "the host never got the whole request");
    let chunked =
        format!("{:x}\r\n{clean}\r\n3\r\nsk-\r\n{:x}\r\n{}\r\n0\r\n\r\n", clean.len(), OTHER.len() - 3, &OTHER[3..]);
    let answer = world.ask("POST /none", &[AUTH, "Transfer-Encoding: chunked"], &chunked);
    assert!(answer.starts_with("HTTP/1.1 403"), "across chunks: {answer}");
    assert!(world.nothing_arrived());
}
