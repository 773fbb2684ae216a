//! Time from an agent's question about a tool call to the card, and from the person's answer to the agent. The real
//! program with the real runner on a real disk; the agent reports when it asked and when it heard.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hearth::socket::client::Client;
use hearth::socket::protocol::{Request, Response};

use crate::ground::asked::Asked;
use crate::ground::daemon::Daemon;
use crate::ground::part::Part;
use crate::ground::{Ground, floor};

/// Name of this part.
pub(crate) const NAME: &str = "tools";

/// Speaks the Agent Client Protocol as far as needed: asks once for permission in each turn.
const AGENT: &str = r#"
while IFS= read -r line; do
  id=${line#*'"id":'}
  id=${id%%[,\}]*}
  case $line in
    *'"method":"initialize"'*) result='{"protocolVersion":1,"agentCapabilities":{},"authMethods":[]}' ;;
    *'"method":"session/new"'*) result='{"sessionId":"s"}' ;;
    *'"method":"session/prompt"'*)
      prompt=$id
      call='{"toolCallId":"c'$prompt'","title":"Bash","kind":"execute","status":"pending","rawInput":{"command":"git push"}}'
      options='[{"optionId":"yes","name":"Yes","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]'
      asked=$EPOCHREALTIME
      echo '{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s","toolCall":'"$call"',"options":'"$options"'}}'
      continue ;;
    *'"outcome"'*)
      heard=$EPOCHREALTIME
      text='{"type":"text","text":"'"$asked $heard"'"}'
      echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","messageId":"m","content":'"$text"'}}}'
      id=$prompt
      result='{"stopReason":"end_turn"}' ;;
    *'"method"'*'"id"'* | *'"id"'*'"method"'*) result='{}' ;;
    *) continue ;;
  esac
  echo '{"jsonrpc":"2.0","id":'"$id"',"result":'"$result"'}'
done
"#;

/// What was measured at one question.
struct Asking {
    /// From the agent's question until the person has the card.
    card: Duration,
    /// From the person's answer until the agent has it.
    answer: Duration,
}

pub(crate) fn all(asked: &Asked) {
    if !asked.wants(NAME) {
        return;
    }
    let file = format!(
        "schema = 1\n[[agents]]\nfolder = \"a0\"\nprovider = \"acp\"\nnetwork = \"open\"\ntools = {{ rules = [{{ ask = \"*\" }}] }}\n\
         command = [\"/bin/bash\", \"-c\", '''{AGENT}''']\n"
    );
    let ground = Ground::new(&file, |_| {});
    let bare = Ground::new("", |_| {});
    let daemon = Daemon::start(ground.dir.path(), &["--runtime", "process"]);
    let mut client = daemon.attached(Some("a0"));
    ask(&mut client, 0);
    let (mut commits, mut cards, mut answers) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1..=asked.size(200, 100, 3) {
        // What a sync costs changes from one second to the next.
        commits.push(floor::one_commit(&bare, number));
        let Asking { card, answer } = ask(&mut client, number);
        cards.push(card);
        answers.push(answer);
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut part = Part::of_times(NAME, "until a question about a tool call is asked and answered");
    part.add_times("one durable commit of raw LMDB, between the questions of the next two lines", commits);
    part.add_times("the agent's program asks → the person has the card", cards);
    part.add_times("the person answers → the agent's program may go on", answers);
    part.keep(asked);
}

/// A message, the agent's question about a tool, and the answer.
fn ask(client: &mut Client, number: usize) -> Asking {
    client.send(&Request::Say { id: format!("m{number}"), text: format!("number {number}") }).unwrap();
    let (mut shown, mut pressed, mut times) = (None, None, None);
    loop {
        match client.next().unwrap() {
            Response::Said { id, text, .. } => {
                // A card is answered only when it is known to be shown.
                client.send(&Request::Shown { id }).unwrap();
                match (shown, spoken(&text)) {
                    (None, _) => {
                        shown = Some(wall());
                        assert!(text.contains("git push"), "{text}");
                        pressed = Some(wall());
                        client.send(&Request::Say { id: format!("a{number}"), text: "1".to_owned() }).unwrap();
                    }
                    (Some(_), Some(found)) => times = Some(found),
                    (Some(_), None) => {}
                }
            }
            Response::Settled { .. } if times.is_some() => {
                let (Some(shown), Some(pressed), Some((asked, heard))) = (shown, pressed, times) else {
                    panic!("the agent did not ask")
                };
                return Asking { card: shown.saturating_sub(asked), answer: heard.saturating_sub(pressed) };
            }
            other => assert!(!matches!(other, Response::Refused { .. }), "{other:?}"),
        }
    }
}

fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// The two times that the agent says, and nothing else.
fn spoken(text: &str) -> Option<(Duration, Duration)> {
    let (asked, heard) = text.trim().split_once(' ')?;
    let time = |text: &str| Some(Duration::from_secs_f64(text.parse().ok()?));
    Some((time(asked)?, time(heard)?))
}
