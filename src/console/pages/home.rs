//! What matters now.

use maud::{Markup, html};

use super::{asked, time};
use crate::console::Visitor;
use crate::console::form::segment;
use crate::console::view::{Home, Recent, Run};

pub(in crate::console) fn page(who: &Visitor, home: &Home) -> Markup {
    html! {
        p class="dim" { "Signed in as " (who.user) "." }
        div id="live" {
            @if who.rank.decides() {
                section {
                    h2 { "Needs a decision" }
                    @if home.asked.prompts.is_empty() { p class="dim" { "Nothing." } }
                    (asked::list(who, &home.asked))
                }
                section {
                    h2 { "Problems" }
                    @if home.problems.is_empty() { p class="dim" { "None." } }
                    @for problem in &home.problems { p class="problem" { (problem) } }
                }
                section {
                    h2 { "Running" }
                    @if home.runs.is_empty() { p class="dim" { "No agent runs, and no message waits." } }
                    @for run in &home.runs { (running(run)) }
                }
            }
            section id="chat" {
                h2 { "Chat" }
                @if home.agents.is_empty() { p class="dim" { "There is no agent that you may talk to." } }
                p class="row" {
                    @for agent in &home.agents {
                        a class="button" href={ "/chat/" (segment(&agent.folder)) } { (agent.name) }
                    }
                }
            }
            @if let Some(spent) = &home.spent {
                section { h2 { "Spent today" } p { (spent) } }
            }
            @if !home.recent.is_empty() {
                section { h2 { "Newest conversations" } ul class="plain" { @for one in &home.recent { (recent(one)) } } }
            }
        }
    }
}

fn running(run: &Run) -> Markup {
    html! {
        div class="card run" {
            strong { (run.agent) } " " span class="badge" { (run.doing) }
            div class="dim" {
                (run.chat) " · " (run.session)
                @if let Some(since) = &run.since { " · since " (time(since)) }
            }
        }
    }
}

fn recent(one: &Recent) -> Markup {
    html! {
        li {
            a href={ "/why/" (segment(&one.id)) } dir="auto" { @if one.text.is_empty() { (one.id) } @else { (one.text) } }
            div class="dim" { (one.agent) " · " (one.chat) " · " (time(&one.at)) }
        }
    }
}
