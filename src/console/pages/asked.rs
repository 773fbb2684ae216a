//! Approvals, questions and skipped work. What takes effect is shown whole, as it is.

use maud::{Markup, html};

use super::{facts, form_token, time};
use crate::console::Visitor;
use crate::console::form::segment;
use crate::console::view::{Asked, Choice, Held, Prompt};

pub(in crate::console) fn page(who: &Visitor, asked: &Asked) -> Markup {
    html! {
        div id="live" {
            h2 class="hidden" { "Open" }
            @if asked.prompts.is_empty() { p class="dim" { "Nothing needs a decision." } }
            (list(who, asked))
        }
    }
}

pub(super) fn list(who: &Visitor, asked: &Asked) -> Markup {
    let ids: Vec<&str> = asked.prompts.iter().map(|prompt| prompt.id.as_str()).collect();
    html! {
        // Read out when it changes, for people who do not see that there is another card.
        p id="open" class="hidden" role="status" { @if !ids.is_empty() { "Open: " (ids.join(", ")) } }
        @for prompt in &asked.prompts { (card(who, prompt)) }
        @if asked.more > 0 { p class="dim" { (asked.more) " more, which are shown once these are decided." } }
    }
}

/// One of them.
pub(in crate::console) fn one(who: &Visitor, prompt: &Prompt) -> Markup {
    html! { div id="live" { h2 class="hidden" { "All of it" } (card(who, prompt)) } }
}

fn card(who: &Visitor, prompt: &Prompt) -> Markup {
    html! {
        article class="card prompt" id=(prompt.id) aria-labelledby={ (prompt.id) "-title" } {
            h3 id={ (prompt.id) "-title" } {
                (prompt.kind) " " a href={ "/asked/" (segment(&prompt.id)) } { (prompt.id) }
                @if let Some(state) = &prompt.state { " " span class="badge" { (state) } }
            }
            pre class="about" dir="auto" tabindex="0" { (prompt.about) }
            (facts(&prompt.facts))
            @if !prompt.held.is_empty() {
                details open data-key={ (prompt.id) " waiting" } {
                    summary { (prompt.held.len()) " waiting" }
                    @for held in &prompt.held { (waiting(held)) }
                }
            }
            @if !prompt.options.is_empty() {
                div class="row" { @for choice in &prompt.options { (button(who, prompt, choice)) } }
            }
            p class="dim" {
                "Asked " (time(&prompt.created))
                @if let Some(expires) = &prompt.expires { ", expires " (time(expires)) }
            }
        }
    }
}

fn button(who: &Visitor, prompt: &Prompt, choice: &Choice) -> Markup {
    html! {
        form class="inline" method="post" action="/decide" {
            (form_token(who))
            input type="hidden" name="id" value=(prompt.id);
            input type="hidden" name="value" value=(choice.value);
            @if let Some(what) = choice.asks {
                label { span class="hidden" { (what) }
                    input name="text" required maxlength="500" placeholder=(what) autocomplete="off"; }
            }
            button { (choice.label) }
        }
    }
}

fn waiting(held: &Held) -> Markup {
    html! {
        blockquote {
            pre dir="auto" { (held.text) }
            @for file in &held.files { div class="file" { (file) } }
            div class="dim" { (time(&held.said)) }
        }
    }
}
