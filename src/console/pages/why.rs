//! The history of a message, as a picture and in words.

use maud::{Markup, html};

use super::{facts, instant, number};
use crate::console::view::{Decision, Step, StepKind, Why};

/// Width of the picture in its own units.
const WIDTH: i64 = 1_000;
/// Free space at both ends.
const EDGE: i64 = 20;

/// Asks for an id.
pub(in crate::console) fn search() -> Markup {
    html! {
        form method="get" action="/why" class="row" {
            label { "Id of a message or an answer, or " code { "latest" } " "
                input name="id" required placeholder="ms12" autocomplete="off"; }
            button { "Show" }
        }
    }
}

pub(in crate::console) fn page(why: &Why) -> Markup {
    html! {
        (search())
        div id="live" {
            h2 { (why.id) }
            (facts(&why.facts))
            @if !why.decisions.is_empty() {
                h3 { "Who listens" }
                ul class="plain" { @for one in &why.decisions { (decision(one)) } }
            }
            h3 { "What happened" }
            (picture(&why.steps))
            ol class="steps" { @for (at, one) in why.steps.iter().enumerate() { (step(one, at.checked_sub(1).and_then(|at| why.steps.get(at)))) } }
            @if !why.states.is_empty() {
                h3 { "Now" }
                dl { @for (what, state) in &why.states { dt { (what) } dd { (state) } } }
            }
        }
    }
}

fn decision(one: &Decision) -> Markup {
    html! {
        li { @if let Some(agent) = &one.agent { strong { (agent) } " " } span class="badge" { (one.decision) } " " (one.reason) }
    }
}

const fn class(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Arrival => "arrival",
        StepKind::Wait => "wait",
        StepKind::Work => "work",
        StepKind::Answer => "answer",
        StepKind::Done => "done",
        StepKind::Trouble => "trouble",
    }
}

fn step(step: &Step, before: Option<&Step>) -> Markup {
    let passed = before.map(|before| step.at.millis().saturating_sub(before.at.millis()));
    html! {
        li class=(class(step.kind)) {
            (instant(step.at))
            @if let Some(passed) = passed.filter(|passed| *passed > 0) { " " span class="dim" { "+" (length(passed)) } }
            div { (step.what) }
        }
    }
}

/// A length of time, in two digits or more.
fn length(millis: i64) -> String {
    match millis {
        ..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        60_000..3_600_000 => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
        _ => format!("{} h {} min", millis / 3_600_000, millis % 3_600_000 / 60_000),
    }
}

/// Steps along a line of time. Spans between them have the colour of the step that began them.
fn picture(steps: &[Step]) -> Markup {
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return html! {} };
    let (from, whole) = (first.at.millis(), last.at.millis().saturating_sub(first.at.millis()).max(1));
    let place = |step: &Step| {
        let passed = step.at.millis().saturating_sub(from).clamp(0, whole);
        EDGE.saturating_add(passed.saturating_mul(WIDTH - 2 * EDGE) / whole)
    };
    html! {
        svg class="picture" viewBox="0 0 1000 60" role="img" aria-label={ (steps.len()) " steps in " (length(whole)) } {
            @for (step, next) in steps.iter().zip(steps.iter().skip(1)) {
                rect class=(class(step.kind)) x=(number(place(step))) y="26" height="8"
                    width=(number(place(next).saturating_sub(place(step)))) {}
            }
            @for step in steps {
                circle class=(class(step.kind)) cx=(number(place(step))) cy="30" r="9" { title { (step.what) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Timestamp;

    #[test]
    fn lengths_are_short() {
        for (millis, shown) in
            [(0, "0 ms"), (999, "999 ms"), (1_250, "1.2 s"), (61_000, "1 min 1 s"), (3_660_000, "1 h 1 min")]
        {
            assert_eq!(length(millis), shown);
        }
    }

    #[test]
    fn steps_lie_within_the_picture_and_texts_are_escaped() {
        let step =
            |at, what: &str| Step { at: Timestamp::from_millis(at), what: what.to_owned(), kind: StepKind::Work };
        let drawn = picture(&[step(5, "<script>"), step(5, "b"), step(1_005, "c")]).into_string();
        assert!(drawn.contains("&lt;script&gt;") && !drawn.contains("<script>"), "{drawn}");
        assert!(drawn.contains("cx=\"20\"") && drawn.contains("cx=\"980\""), "{drawn}");
        assert!(picture(&[]).into_string().is_empty());
        picture(&[step(i64::MIN, "a"), step(i64::MAX, "b")]);
    }
}
