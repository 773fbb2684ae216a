//! The chat of a person with an agent.

use maud::{Markup, html};

use super::{form_token, instant};
use crate::console::Visitor;
use crate::console::form::segment;
use crate::console::view::{Author, Chat, Line};

/// `form` is the id of the message that is written next.
pub(in crate::console) fn page(who: &Visitor, chat: &Chat, form: &str) -> Markup {
    let place = segment(&chat.agent.folder);
    html! {
        p class="row" {
            strong { (chat.agent.name) }
            @for other in &chat.others { a class="button" href={ "/chat/" (segment(&other.folder)) } { (other.name) } }
        }
        div id="live" class="chat" data-working=[chat.working.as_ref().map(|_| "1")] {
            @if let Some(at) = &chat.earlier { p { a href={ "/chat/" (place) "?at=" (at) "#" (at) } { "Earlier messages" } } }
            @if chat.lines.is_empty() { p class="dim" { "Nothing was said yet." } }
            div id="log" class="chat" role="log" aria-live="polite" aria-label={ "Chat with " (chat.agent.name) } {
                @for line in &chat.lines { (said(who, &place, line)) }
            }
            @if let Some(at) = &chat.later {
                p { a href={ "/chat/" (place) "?at=" (at) "#" (at) } { "Later messages" } " · " a href={ "/chat/" (place) } { "The newest" } }
            }
            // What is being written changes all the time, so it is not read out before it is whole.
            @if let Some(writing) = &chat.writing { div class="line agent partial" { pre dir="auto" { (writing) } } }
            @if let Some(working) = &chat.working { p class="dim working" role="status" { (working) } }
        }
        form id="say" class="say" method="post" action={ "/chat/" (place) } enctype="multipart/form-data" {
            (form_token(who))
            input type="hidden" name="id" value=(form);
            label { span class="hidden" { "Message" }
                textarea name="text" rows="3" dir="auto" maxlength="200000" placeholder={ "Message to " (chat.agent.name) } {} }
            p id="trouble" class="problem" role="alert" hidden {}
            div class="row sending" {
                label class="files" { span { "Files" } input type="file" name="file" multiple; }
                button class="main" { "Send" }
            }
        }
    }
}

fn said(who: &Visitor, place: &str, line: &Line) -> Markup {
    let (class, name) = match &line.by {
        Author::Person => ("line person", "You"),
        Author::Agent(name) => ("line agent", name.as_str()),
        Author::Hearth => ("line hearth", "Hearth"),
    };
    html! {
        div class=(class) id=(line.id) {
            div class="dim" { (name) " · " a href={ "/why/" (segment(&line.id)) } { (instant(line.at)) }
                @if let Some(state) = &line.state { " · " (state) } }
            pre dir="auto" { (line.text) }
            @for file in &line.files {
                div class="file" {
                    @if let Some(at) = file.download {
                        a href={ "/file/" (place) "/" (segment(&line.id)) "/" (at) } download { (file.name) }
                    } @else { (file.name) }
                }
            }
            @if !line.buttons.is_empty() {
                div class="row" {
                    @for button in &line.buttons {
                        form class="inline" method="post" action={ "/press/" (place) } {
                            (form_token(who))
                            input type="hidden" name="button" value=(button.button);
                            button { (button.label) }
                        }
                    }
                }
            }
        }
    }
}
