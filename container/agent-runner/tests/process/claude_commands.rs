//! Chat commands with the real CLI, and its compaction.

use crate::bench::names;
use crate::claude::{bench, conversation, start};

#[test]
fn a_cleared_conversation_is_another_one() {
    let Some((bench, api)) = bench() else { return };
    bench.say(2, "my favourite colour is teal [[say noted]]");
    let _runner = start(&bench, &api);
    bench.ended(2);
    let first = conversation(&bench).unwrap();
    bench.say(4, "before [[recall]]");
    bench.say(6, "  /CLEAR please ");
    bench.say(8, "after [[recall]]");
    assert!(bench.texts(4)[0].contains("teal"), "what came before it is answered before it");
    assert_eq!(bench.texts(6), ["Session cleared."]);
    assert_eq!(bench.ended(6).ends, [0_u64; 0]);
    assert!(!bench.texts(8)[0].contains("teal"), "nothing is recalled");
    assert_ne!(conversation(&bench).unwrap(), first);
    bench.say(10, "/clearance sale [[say fine]]");
    assert_eq!(bench.texts(10), ["fine"]);
    let seen = api.requests().pop().unwrap()["messages"].to_string();
    assert!(seen.contains("/clearance") && seen.contains("<message"), "ordinary text is a prompt: {seen}");
}

#[test]
fn compaction_keeps_an_archive_and_what_matters() {
    let Some((bench, api)) = bench() else { return };
    let _runner = start(&bench, &api);
    for seq in [2, 4, 6] {
        bench.say(seq, &format!("message {seq} [[say answer {seq}]]"));
        bench.ended(seq);
    }
    bench.say(8, "/compact keep the plums");
    bench.ended(8);
    let said = bench.outs().into_values().find(|out| !out.is_final).unwrap();
    let text = said.content["text"].as_str().unwrap();
    assert!(text.starts_with("Context compacted (") && text.ends_with(" tokens compacted)."), "{text}");
    let summary = api.requests().iter().map(ToString::to_string).find(|body| body.contains("Additional Instructions"));
    let summary = summary.unwrap();
    assert!(summary.contains("keep the plums"), "what a person asked for counts");
    assert!(summary.contains("Available destinations: `family`."), "and what the runner asks for");
    assert!(summary.contains("Text without a block goes to the chat that you answer"), "{summary}");
    let archives = names(&bench.path("group/conversations"));
    assert_eq!(archives.len(), 1, "{archives:?}");
    assert!(archives[0].ends_with(".md") && archives[0].contains("-conversation-"), "{archives:?}");
    let page = std::fs::read_to_string(bench.path("group/conversations").join(&archives[0])).unwrap();
    assert!(page.starts_with("# Conversation\n\nArchived: "), "{page}");
    assert!(page.contains("**User**: ") && page.contains("**Andy**: answer 4\n\n"), "{page}");
    bench.say(10, "[[say goes on]]");
    assert_eq!(bench.texts(10), ["goes on"]);
}

#[test]
fn what_the_cli_answers_itself_is_said_where_it_was_asked() {
    let Some((mut bench, api)) = bench() else { return };
    let mut office = bench.context.destinations[0].clone();
    office.name = "office".to_owned();
    bench.context.destinations.push(office);
    bench.publish();
    bench.say(2, "/context");
    let _runner = start(&bench, &api);
    let text = bench.texts(2).remove(0);
    assert!(text.contains("Context Usage"), "{text}");
    assert_eq!(api.requests().len(), 0, "no model was asked, not even to say it better");
    bench.say(4, "/compact");
    let text = bench.texts(4).join("");
    assert!(!text.is_empty(), "why nothing was compacted");
}

#[test]
fn refused_tools_are_refused_and_the_turn_goes_on() {
    let Some((mut bench, api)) = bench() else { return };
    bench.context.blocked_tools = vec!["WebFetch".to_owned()];
    bench.publish();
    bench.say(2, "[[tool CronCreate {\"cron\":\"* * * * *\",\"prompt\":\"x\"}]] [[tool WebFetch {\"url\":\"http://x\",\"prompt\":\"x\"}]] [[say done]]");
    let _runner = start(&bench, &api);
    assert_eq!(bench.texts(2), ["done"]);
    assert_eq!(bench.state().unwrap().tool, None);
    let results = api.requests().pop().unwrap()["messages"].to_string();
    assert_eq!(results.matches("\"is_error\":true").count(), 2, "{results}");
}

/// The model is told about its tools with the first question.
#[test]
fn the_runners_own_server_of_tools_is_connected() {
    let Some((bench, api)) = bench() else { return };
    bench.say(2, "[[tool mcp__nanoclaw__no_such_tool {}]] [[say done]]");
    let _runner = start(&bench, &api);
    assert_eq!(bench.texts(2), ["done"]);
    let told = api.requests()[0]["tools"].to_string();
    assert!(told.contains("mcp__nanoclaw__send_message"), "{told}");
}
