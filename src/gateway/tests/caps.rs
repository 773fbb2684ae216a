//! Requests over the caps of a message.

use super::*;
use crate::model::gateway::{Allowance, Cap, OverCap};
use crate::model::id::MessageId;

fn began(message: MessageId, calls: u32) -> TurnBegan {
    let left = Allowance { tokens: Some(10), calls: Some(calls) };
    TurnBegan { session: SESSION, incarnation: 1, message, left }
}

#[test]
fn a_request_over_a_cap_is_answered_with_402_and_reported() {
    let (world, server) = (World::new(), Server::start());
    let access = world.open(1, &agent(&server), SOCKETS);
    let message = MessageId::new(6);
    let ours = with_key(&access);
    assert!(world.gateway.turn_began(&began(message, 2)));
    assert!(!world.gateway.turn_began(&TurnBegan { incarnation: 2, ..began(message, 1) }));
    let answered = |tokens: u64| {
        let program = Program::ask(&access, &post(MESSAGES, &ours, BODY));
        server.answer("200 OK", "", &format!(r#"{{"usage":{{"input_tokens":{tokens}}}}}"#));
        server.got();
        assert!(program.all().contains("200 OK"));
        world.call()
    };
    assert_eq!(answered(1).over, None);
    answered(1);
    let refused = |cap, what: &str| {
        let answer = Program::ask(&access, &post(MESSAGES, &ours, BODY)).all();
        assert!(answer.starts_with("HTTP/1.1 402") && answer.contains("\"billing_error\""), "{answer}");
        assert!(answer.contains(&format!("its message has used all {what}")), "{answer}");
        assert!(server.is_unasked());
        let call = world.call();
        assert_eq!((call.over, call.status), (Some(OverCap { message: Some(message), cap }), None));
    };
    refused(Cap::Calls, "model calls");
    // What costs nothing passes.
    let headers = with_key(&access);
    let program = Program::ask(&access, &post("/anthropic/v1/messages/count_tokens", &headers, BODY));
    server.answer("200 OK", "", "{}");
    server.got();
    assert!(program.all().contains("200 OK"));
    world.call();
    world.gateway.turn_began(&began(message, 9));
    answered(10);
    refused(Cap::Tokens, "tokens");
}
