//! Scripts for sequences that random inputs rarely produce.

use super::ground::Said;
use super::reference::State;
use super::{Pair, Step, Work};

/// More deaths in a row than random inputs produce: after its last try a message fails, in both.
#[test]
fn a_message_over_which_everybody_dies_is_given_up() {
    let mut pair = Pair::new();
    let mut step = |step| pair.step(step).unwrap();
    step(Step::Said(Said { at: (0, 0), who: 0, text: 0, mention: false }));
    for tries in 0..6 {
        for _ in 0..tries {
            step(Step::Pass(41));
        }
        step(Step::Work(0, Work::Ends));
        step(Step::Die(0));
    }
    assert_eq!(pair.setup.messages[0].state, State::Failed);
}

/// More events in one thread than random inputs produce: following lasts for a day from the last engagement, a mute
/// ends it, and context from that time is exported up to the limit.
#[test]
fn an_engagement_goes_on_and_ends() {
    let mut pair = Pair::new();
    let mut step = |step| pair.step(step).unwrap();
    let at = (3, 1);
    let said = |mention| Step::Said(Said { at, who: 3, text: 0, mention });
    for script in [
        vec![said(false), said(true), said(false), Step::Days(1), said(false), Step::Again(0)],
        vec![said(true), Step::Mute(true, at), said(false), said(true), Step::Unmute(true, at), said(false)],
        vec![Step::Again(1), said(false), said(false), said(true), Step::EndListening(true, (3, 0)), said(false)],
    ] {
        script.into_iter().for_each(&mut step);
    }
}

/// More failures of one turn than random inputs produce: its messages wait together, as long as the one with the most
/// tries.
#[test]
fn a_turn_is_tried_again_as_a_whole() {
    let mut pair = Pair::new();
    let mut step = |step| pair.step(step).unwrap();
    let said = Step::Said(Said { at: (0, 0), who: 0, text: 0, mention: false });
    let again = |work| [Step::Work(0, Work::Ends), Step::Work(0, work), Step::Pass(7)];
    let steps = [vec![said], again(Work::Later).to_vec(), vec![said], again(Work::LaterAll).to_vec()].concat();
    steps.into_iter().for_each(&mut step);
    step(Step::Pass(7));
    assert_eq!(pair.setup.offered(("a", Some((0, 0)))).len(), 2);
}

/// More unknown senders than random events produce: the number of open approvals and of held messages is limited, and a
/// person with authority over some of the agents decides for these.
#[test]
fn strangers_wait_in_bounds() {
    let mut pair = Pair::new();
    let mut step = |step| pair.step(step).unwrap();
    let said = |who| Step::Said(Said { at: (1, 0), who, text: 0, mention: true });
    for who in [3, 3, 3, 2, 1, 1] {
        step(said(who));
    }
    step(Step::Decide(Some(3), true));
    step(Step::Decide(Some(4), true));
    step(Step::Decide(None, true));
    step(said(3));
    assert_eq!((pair.setup.asked(), pair.setup.held()), (1, 1));
}

/// Earlier than random events produce: a run that writes about a message is not stuck, even if its output is collected
/// together with its claim. A run that then claims another message and writes nothing is stuck.
#[test]
fn what_is_said_at_once_counts() {
    let mut pair = Pair::new();
    let mut step = |step| pair.step(step).unwrap();
    let said = Step::Said(Said { at: (2, 0), who: 0, text: 1, mention: false });
    for script in [
        vec![said, Step::Work(0, Work::Ends), Step::Work(0, Work::Says), Step::Pass(41), Step::Pass(41)],
        vec![Step::Work(0, Work::Ends), said, Step::Work(0, Work::Ends), Step::Pass(41), Step::Pass(41)],
    ] {
        script.into_iter().for_each(&mut step);
    }
    let of_a = pair.setup.messages.iter().filter(|message| message.talk.0 == "a");
    assert_eq!(of_a.map(|message| message.tries).collect::<Vec<_>>(), [0, 1]);
}
