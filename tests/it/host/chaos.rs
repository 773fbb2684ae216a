//! Conversations in which bridges and daemons are killed, and what people must have in the end.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Host, wait_for_or};

/// How many messages each such conversation has, instead of its usual number.
const VARIABLE: &str = "HEARTH_CHAOS";
/// Deaths of one conversation. A longer one has more messages between two of them.
const DEATHS_MAX: usize = 400;
/// Messages that may be unanswered before the next ones. More would become few answers, and long ones.
const UNANSWERED_MAX: usize = 30;
/// Begin of a message that people may see twice: Hearth's, and that of the example for ntfy.
const MARKS: [&str; 2] = ["(sent again, the first attempt may have arrived)", "(again) "];
/// A second copy would come within moments.
const MOMENT: Duration = Duration::from_secs(2);

/// A conversation: texts without white space, each of which is answered with itself.
pub(crate) struct Chaos {
    pub(crate) texts: Vec<String>,
    /// Messages before each death, and deaths.
    burst: usize,
    deaths: usize,
    begin: Instant,
}

impl Chaos {
    pub(crate) fn new(usual: usize) -> Self {
        let number = std::env::var(VARIABLE).ok().map_or(usual, |number| number.parse().expect(VARIABLE));
        let texts = (0..number).map(|number| format!("message-{number}.")).collect();
        let burst = number.div_ceil(DEATHS_MAX).max(1);
        Self { texts, burst, deaths: number.div_ceil(burst), begin: Instant::now() }
    }

    /// The messages before each death, which has a number.
    pub(crate) fn bursts(&self) -> impl Iterator<Item = (usize, &[String])> {
        self.texts.chunks(self.burst).enumerate()
    }

    /// Waits after a death until people have nearly all answers.
    pub(crate) fn follow(&self, death: usize, heard: impl Fn() -> Vec<String>, detail: impl Fn() -> String) {
        let sent = ((death + 1) * self.burst).min(self.texts.len());
        if let Some(last) = sent.checked_sub(UNANSWERED_MAX) {
            all_of(&self.texts[..last], &heard, &detail);
        }
    }

    /// Waits for all answers, and counts them.
    pub(crate) fn end(&self, heard: impl Fn() -> Vec<String>, detail: impl Fn() -> String) -> Tally {
        all_of(&self.texts, &heard, &detail);
        std::thread::sleep(MOMENT);
        let tally = Tally::of(&self.texts, &heard());
        let (messages, deaths, time) = (self.texts.len(), self.deaths, self.begin.elapsed());
        let Tally { answers, lost, doubled, unmarked, marks } = tally;
        eprintln!(
            "{messages} messages, {deaths} deaths, {answers} answers in {time:?}: {lost} lost, {doubled} doubled, \
             {unmarked} of them without a mark; {marks} marked answers"
        );
        tally
    }

    /// Asserts that people have every answer once, where the network recognises a repeat.
    pub(crate) fn once(&self, heard: impl Fn() -> Vec<String>, detail: impl Fn() -> String) {
        let tally = self.end(heard, detail);
        assert!(tally.lost == 0 && tally.doubled == 0 && tally.marks == 0, "{tally:?}");
    }

    /// Asserts that people have every answer, and that repeats are marked and no more than deaths.
    pub(crate) fn marked(&self, heard: impl Fn() -> Vec<String>, detail: impl Fn() -> String) {
        let tally = self.end(heard, detail);
        assert!(tally.lost == 0 && tally.unmarked == 0 && tally.marks <= self.deaths, "{tally:?}");
    }
}

/// Texts as words of a command.
pub(crate) fn words(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

/// The texts of messages.
pub(crate) fn texts(messages: &[Value]) -> Vec<String> {
    messages.iter().filter_map(|message| message["text"].as_str()).map(str::to_owned).collect()
}

/// Waits until every answer is delivered, or abandoned: that of a turn that did not end is made again.
pub(crate) fn settled(host: &Host) {
    let is = |row: &Value, state: &str| row["value"]["state"][state].is_object();
    let open = || host.outgoing().into_iter().filter(|row| !is(row, "Delivered") && !is(row, "Abandoned"));
    let detail = || format!("{:#?}", open().collect::<Vec<_>>());
    wait_for_or("all answers to be delivered", &mut || open().next().is_none().then_some(()), detail);
    eprintln!("{} answers were abandoned", host.outgoing().iter().filter(|row| is(row, "Abandoned")).count());
}

fn all_of(texts: &[String], heard: &dyn Fn() -> Vec<String>, detail: &dyn Fn() -> String) {
    wait_for_or("all answers", &mut || (Tally::of(texts, &heard()).lost == 0).then_some(()), detail);
}

/// What people have of a conversation.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Messages of the bot.
    answers: usize,
    /// Texts without an answer.
    lost: usize,
    /// Texts with more than one answer.
    doubled: usize,
    /// Those of them with more than one answer that is not marked.
    unmarked: usize,
    /// Answers with the mark.
    marks: usize,
}

impl Tally {
    fn of(texts: &[String], heard: &[String]) -> Self {
        let mut counts: HashMap<&str, [usize; 2]> = texts.iter().map(|text| (text.as_str(), [0, 0])).collect();
        let is_marked = |answer: &&String| MARKS.iter().any(|mark| answer.contains(mark));
        for answer in heard {
            let kind = usize::from(is_marked(&answer));
            for word in answer.split_whitespace() {
                if let Some(count) = counts.get_mut(word) {
                    count[kind] += 1;
                }
            }
        }
        let number = |is: fn(&[usize; 2]) -> bool| counts.values().filter(|count| is(count)).count();
        Self {
            answers: heard.len(),
            lost: number(|[plain, marked]| plain + marked == 0),
            doubled: number(|[plain, marked]| plain + marked > 1),
            unmarked: number(|[plain, _]| *plain > 1),
            marks: heard.iter().filter(is_marked).count(),
        }
    }
}
