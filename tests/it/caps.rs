//! Caps of single messages, and the breaker of loops.

use hearth::model::gateway::{Allowance, Api, Cap, ModelCall, Operation, OverCap, TurnBegan};
use hearth::model::id::{MessageId, SessionId};
use hearth::model::mailbox::{CollectedRecord, Record, RetryHint};
use hearth::model::message::MessageState;
use hearth::model::spend::{ReportedUse, Tokens};
use hearth::model::task::TaskHome;
use hearth::model::{Effect, Input, Millis};

use crate::host::confined::{Setup, possible};
use crate::host::fake_api::FakeApi;
use crate::host::keys::KEY;
use crate::world::outside::{claim, end, try_again};
use crate::world::schedules::{add, new};
use crate::world::{World, event_in};

const S: SessionId = SessionId::new(1);

/// An agent with a key, in a public chat of the network.
fn world(caps: &str) -> World {
    let agent = format!("env = {{ ANTHROPIC_API_KEY = \"plain\" }}\ncaps = {{ {caps} }}");
    World::of(&crate::world::ONE.replace("folder = \"main\"", &format!("folder = \"main\"\n{agent}")))
}

/// The owner's terminal.
const TERMINAL: &str = "[[chats]]\nchannel = \"terminal\"\nplatform_id = \"main\"\nunknown_senders = \"public\"\n";

/// A message of Ann that the run of the session claims: its id, its position, and the run.
fn work(world: &mut World, id: &str) -> (MessageId, u64, u32) {
    let report = world.inject(&event_in(("net", "C", None), (id, "do it", r#""senderId":"ann""#), ""));
    world.settle();
    let message = report.wirings[0].message.unwrap();
    let (seq, run) = (world.message(message).seq, world.session(S).live.unwrap());
    write(world, vec![claim(seq, run)]);
    (message, seq, run)
}

fn write(world: &mut World, found: Vec<CollectedRecord>) {
    let written = world.outside.write(S, found);
    world.put(written);
    world.settle();
    world.assert_sound();
}

fn call(world: &World, run: u32, number: u64) -> ModelCall {
    ModelCall {
        session: S,
        incarnation: run,
        number,
        api: Api::Anthropic,
        operation: Operation::Messages,
        model: None,
        status: Some(200),
        usage: Some(Tokens { input: 40, ..Tokens::default() }),
        began: world.now().wall,
        ended: world.now().wall,
        complete: true,
        over: None,
    }
}

/// A request that the gateway refused.
fn over(world: &World, run: u32, message: MessageId, cap: Cap) -> Input {
    let over = Some(OverCap { message: Some(message), cap });
    Input::ModelCall(ModelCall { over, usage: None, status: None, ..call(world, run, 99) })
}

fn error(world: &World, id: MessageId) -> String {
    match world.state_of(id) {
        MessageState::Failed { error, .. } => error,
        other => panic!("{other:?}"),
    }
}

fn texts(world: &World) -> Vec<String> {
    world.all_outbound().iter().map(|(_, outbound)| outbound.text.clone()).collect()
}

fn turns(world: &World) -> Vec<TurnBegan> {
    let turn = |effect: &Effect| match effect {
        Effect::TurnBegan(turn) => Some(*turn),
        _ => None,
    };
    world.effects.iter().filter_map(turn).collect()
}

/// The turn ends with the refusal and is not tried again; what the run still writes changes nothing.
#[test]
fn a_turn_ends_when_a_request_over_its_cap_is_refused() {
    let mut world = world("tokens = 100, calls = 3");
    let (message, seq, run) = work(&mut world, "m1");
    let first = call(&world, run, 7);
    world.put(Input::ModelCall(first));
    // Of another message, as a late answer of the gateway would be.
    let stale = over(&world, run, MessageId::new(message.number() + 1), Cap::Calls);
    world.put(stale);
    assert!(matches!(world.state_of(message), MessageState::Claimed { .. }));
    let refused = over(&world, run, message, Cap::Calls);
    world.put(refused.clone());
    let why = "it reached the limit of 3 model calls for one message";
    assert_eq!(error(&world, message), why);
    let told = format!("Stopped because {why}.");
    assert_eq!(texts(&world), [told.as_str()]);
    let used = CollectedRecord { record: Record::Tools(vec!["Bash".to_owned()]), files: Vec::new() };
    world.outside.write(S, vec![end(seq, run, vec![]), used]);
    world.put(refused);
    world.settle();
    world.assert_sound();
    assert_eq!(texts(&world), [told, "Tools that had already run: Bash.".to_owned()]);
    assert_eq!((error(&world, message).as_str(), world.session(S).live), (why, None));
    // The agent learns of it with the next message, which has caps of its own.
    let (_, _, next) = work(&mut world, "m2");
    assert_ne!(next, run);
    assert!(
        world.outside.inbox[&S].values().any(|one| one.content.as_str().contains("was stopped because it reached"))
    );
}

/// A message that is tried again has what its earlier turns left, and is not tried again when nothing is left.
#[test]
fn a_cap_counts_all_turns_of_a_message() {
    let mut world = world("tokens = 100, calls = 3");
    let (message, seq, run) = work(&mut world, "m1");
    let left = |tokens, calls| Allowance { tokens: Some(tokens), calls: Some(calls) };
    let first = call(&world, run, 7);
    world.put(Input::ModelCall(first));
    write(&mut world, vec![try_again(seq, vec![], run, RetryHint::Later)]);
    world.pass(Millis::seconds(60));
    world.sweep();
    world.settle();
    let again = world.session(S).live.unwrap();
    assert_ne!(again, run);
    let written = world.outside.write(S, vec![claim(seq, again)]);
    world.effects.clear();
    world.put(written);
    assert_eq!(turns(&world), [TurnBegan { session: S, incarnation: again, message, left: left(60, 2) }]);
    // A restarted daemon tells its gateway again.
    world.effects.clear();
    world.put(Input::Start);
    assert_eq!(turns(&world).first().map(|turn| (turn.message, turn.left)), Some((message, left(60, 2))));
    for number in [8, 9] {
        let next = call(&world, again, number);
        world.put(Input::ModelCall(next));
    }
    write(&mut world, vec![try_again(seq, vec![], again, RetryHint::Later)]);
    let why = error(&world, message);
    assert!(why.starts_with("it reached the limit of 100 tokens for one message; its last turn failed: "), "{why}");
}

/// Agents without the gateway are judged by what they report.
#[test]
fn a_reported_use_over_the_cap_is_not_tried_again() {
    let mut world = World::of(&crate::world::ONE.replace("\"main\"\n[[c", "\"main\"\ncaps = { tokens = 50 }\n[[c"));
    let (message, seq, run) = work(&mut world, "m1");
    assert_eq!(turns(&world), []);
    let used = vec![ReportedUse { model: None, tokens: Tokens { output: 50, ..Tokens::default() }, cost: None }];
    let used = CollectedRecord { record: Record::Used { seq, incarnation: run, used }, files: vec![] };
    write(&mut world, vec![used, try_again(seq, vec![], run, RetryHint::Later)]);
    assert!(error(&world, message).starts_with("it reached the limit of 50 tokens"), "{}", error(&world, message));
}

#[test]
fn a_turn_ends_when_its_minutes_are_over() {
    let mut world = world("minutes = 1");
    let (message, _, run) = work(&mut world, "m1");
    world.pass(Millis::seconds(59));
    world.sweep();
    assert!(matches!(world.state_of(message), MessageState::Claimed { .. }));
    world.pass(Millis::seconds(1));
    world.sweep();
    assert_eq!(error(&world, message), "it reached the limit of 1 minute for one message");
    assert!(world.effects.contains(&Effect::StopNow(S, run)));
    world.settle();
    world.assert_sound();
}

/// The next occurrence of a task, which the run of the session does.
fn occurrence(world: &mut World) {
    world.pass(Millis::seconds(60));
    world.sweep();
    world.settle();
}

/// Ends the turns of all messages that the run of the session has got. Returns how many.
fn done(world: &mut World) -> usize {
    let Some(run) = world.session(S).live else { return 0 };
    let all: Vec<u64> = world.outside.inbox.get(&S).map(|inbox| inbox.keys().copied().collect()).unwrap_or_default();
    for seq in &all {
        write(world, vec![claim(*seq, run), end(*seq, run, vec![])]);
    }
    all.len()
}

#[test]
fn turns_without_a_word_from_a_person_end_until_one_comes() {
    let config = crate::world::ONE.replace("folder = \"main\"", "folder = \"main\"\ncaps = { unattended_turns = 3 }");
    let mut world = World::of(&format!("{config}{TERMINAL}"));
    let (_, seq, run) = work(&mut world, "m1");
    write(&mut world, vec![end(seq, run, vec![])]);
    let task =
        add(hearth::model::task_command::NewTask { home: TaskHome::Session(S), ..new(&world, 60, Some("* * * * *")) });
    world.put(task);
    let mut turns = Vec::new();
    for _ in 0..6 {
        occurrence(&mut world);
        turns.push(done(&mut world));
    }
    assert_eq!(turns.iter().sum::<usize>(), 3, "{turns:?}");
    let waits = |world: &World| {
        world.all_messages().iter().filter(|(_, message)| matches!(message.state, MessageState::Pending(_))).count()
    };
    assert!(waits(&world) >= 1);
    let told = texts(&world).into_iter().find(|text| text.contains("had 3 turns in a row")).unwrap();
    assert!(told.starts_with("Agent main") && told.contains("See `hearth why ms"), "{told}");
    // A person's message lets everything go on.
    let report = world.inject(&event_in(("net", "C", None), ("m2", "go on", r#""senderId":"ann""#), ""));
    world.settle();
    assert!(report.wirings[0].message.is_some());
    assert!(done(&mut world) >= 2);
    occurrence(&mut world);
    assert_eq!(done(&mut world), 1);
}

/// An agent whose program asks its model again and again, whatever it is answered.
const ENDLESS: &str = r#"
import http.client, urllib.parse
BODY = b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}'
def answer(text):
    url = urllib.parse.urlsplit(os.environ["ANTHROPIC_BASE_URL"])
    while True:
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=30)
        headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"]}
        connection.request("POST", url.path + "/v1/messages", BODY, headers)
        connection.getresponse().read()
"#;

#[test]
fn an_endless_agent_ends_at_its_cap() {
    if !possible() {
        return;
    }
    let (setup, api) = (Setup::new(), FakeApi::start());
    api.takes(KEY);
    let file = setup.path("user/model-key");
    std::fs::write(&file, KEY).unwrap();
    let settings = format!(
        "trust = \"trusted\"\ncaps = {{ calls = 20 }}\n\
         env = {{ ANTHROPIC_API_KEY = \"file:{}\", ANTHROPIC_BASE_URL = \"{}\" }}",
        file.display(),
        api.url()
    );
    setup.make(&settings, ENDLESS);
    let output = setup.hearth(&["chat", "--agent", "py", "go"]);
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("it reached the limit of 20 model calls for one message"), "{said}");
    assert_eq!(api.keys().len(), 20);
    let why = setup.hearth(&["why", "ms1"]);
    let why = String::from_utf8_lossy(&why.stdout);
    assert!(why.contains("it reached the limit of 20 model calls for one message"), "{why}");
}
