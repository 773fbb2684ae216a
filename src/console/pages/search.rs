//! The search over what was said.

use maud::{Markup, html};

use super::instant;
use crate::console::lookup_view::{FoundText, FoundTexts};

pub(in crate::console) fn page(query: &str, found: Option<&FoundTexts>) -> Markup {
    html! {
        form class="find" method="get" action="/search" role="search" {
            label { span class="hidden" { "Words" }
                input type="search" name="q" value=(query) required maxlength="500" autocomplete="off"
                    placeholder="Words, a \"phrase\", who:ada, after:7d"; }
            button class="main" { "Search" }
        }
        @if let Some(found) = found { (results(found)) }
    }
}

fn results(found: &FoundTexts) -> Markup {
    html! {
        section aria-label="What was found" {
            @if let Some(problem) = &found.problem { p class="problem" role="alert" { (problem) } }
            @else if found.texts.is_empty() { p class="dim" role="status" { "Nothing was found." } }
            @for text in &found.texts { (one(text)) }
            @if found.cut { p class="dim" { "More was found: use more words." } }
            @if found.incomplete { p class="dim" { "Older messages are still being indexed." } }
        }
    }
}

fn one(text: &FoundText) -> Markup {
    html! {
        article class="card found" {
            p class="dim" {
                @match &text.page {
                    Some(page) => a href=(page) { (text.id) },
                    None => (text.id),
                }
                " · " (instant(text.at)) " · " (text.who) " · " (text.place)
            }
            p class="excerpt" dir="auto" {
                @for part in &text.excerpt {
                    @if part.matches { mark { (part.text) } } @else { (part.text) }
                }
            }
            @for file in &text.files { div class="file" { (file) } }
        }
    }
}
