//! Texts that are not complete, as the claude provider shows them.

use hearth_wire::AckStatus;

use crate::bench::wait_for;
use crate::claude_trouble::scripted;

/// Pieces of a text show that the CLI lives. The text is gone when its turn has ended or failed.
#[test]
fn a_text_that_is_not_complete_ends_with_its_turn() {
    let cli = r#"
def write(text):
    tell(type="stream_event", event={"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}})
for uuid, prompt in users():
    tell(type="command_lifecycle", command_uuid=uuid, state="queued")
    write("of another turn")
    took(uuid)
    for piece in "abcdefghi":
        write(piece)
        time.sleep(9 if "hang" in prompt else 0.3)
    result("done")
"#;
    let Some(bench) = scripted(cli) else { return };
    let _runner = bench.start_with(|command| {
        command.env("HEARTH_TEST_HASTE", "100");
    });
    let written = || bench.state().and_then(|state| state.writing).map(|writing| (writing.in_reply_to, writing.text));
    let shows = |seq, text: &str| wait_for(text, || written().filter(|written| *written == (seq, text.to_owned())));
    let ends = || wait_for("the end of the text", || written().is_none().then_some(()));
    bench.say(2, "write");
    shows(2, "abc");
    assert_eq!(bench.texts(2), ["done"]);
    ends();
    bench.say(4, "hang");
    shows(4, "a");
    assert_eq!(bench.ended(4).status, AckStatus::Failed);
    ends();
}
