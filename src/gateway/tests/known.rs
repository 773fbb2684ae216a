//! Values that Hearth knows in requests to models.

use super::*;

const TOKEN: &str = "ghp_theRealToken42";

#[test]
fn a_request_with_a_known_secret_reaches_no_model() {
    let (world, server) = (World::new(), Server::start());
    world.gateway.known.add("github", TOKEN.as_bytes());
    let access = world.open(1, &agent(&server), SOCKETS);
    let body =
        |text: &str| format!(r#"{{"model":"m","max_tokens":1,"messages":[{{"role":"user","content":"{text}"}}]}}"#);
    let hex: String = TOKEN.bytes().map(|byte| format!("{byte:02x}")).collect();
    let note = format!("{}x-note: {TOKEN}\r\n", with_key(&access));
    let query = format!("{MESSAGES}&note=ghp_theReal%54oken42");
    for (request, place) in [
        (post(MESSAGES, &with_key(&access), &body(TOKEN)), "the body"),
        (post(MESSAGES, &with_key(&access), &body(&hex)), "the body"),
        (post(MESSAGES, &note, BODY), "the header `x-note`"),
        (post(&query, &with_key(&access), BODY), "the address"),
    ] {
        let answer = Program::ask(&access, &request).all();
        assert!(answer.contains(" 403 ") && answer.contains(place) && answer.contains("github"), "{answer}");
        assert!(!answer.contains(TOKEN), "{answer}");
    }
    assert!(server.is_unasked());
    let program = Program::ask(&access, &post(MESSAGES, &with_key(&access), &body("ghp_theRealToken4")));
    server.answer("200 OK", "", "{}");
    assert!(server.got().body.contains("ghp_theRealToken4"));
    assert!(program.all().contains("200 OK"));
}
