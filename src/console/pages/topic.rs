//! Tables about a topic, with buttons and forms.

use maud::{Markup, html};

use super::{form_token, time};
use crate::console::Visitor;
use crate::console::deed::{self, Fields};
use crate::console::form::segment;
use crate::console::view::{Care, Cell, Entry, Field, Link, Row, RowButton, Section, Topic};

pub(in crate::console) fn page(who: &Visitor, topic: Topic, sections: &[Section]) -> Markup {
    html! {
        div id="live" {
            @if sections.is_empty() { p class="dim" { "Nothing." } }
            @for section in sections { (table(who, topic.title(), section)) }
        }
        @for entry in sections.iter().flat_map(|section| &section.forms) { (form(who, entry)) }
        @if topic == Topic::Health && topic.is_for(&who.rank) {
            form method="post" action="/doctor" {
                (form_token(who))
                button { "Check everything now" }
            }
        }
    }
}

/// The page of one agent.
pub(in crate::console) fn agent(who: &Visitor, folder: &str, sections: &[Section]) -> Markup {
    html! {
        p { a href="/agents" { "All agents" } }
        div id="live" { @for section in sections { (table(who, folder, section)) } }
    }
}

fn table(who: &Visitor, title: &str, section: &Section) -> Markup {
    let facts = section.columns.iter().all(String::is_empty);
    let acts = section.rows.iter().any(|row| !row.buttons.is_empty());
    html! {
        section {
            @if section.title != title { h2 { (section.title) } }
            @if !section.rows.is_empty() {
                div class="scroll" tabindex="0" role="region" aria-label=(section.title) {
                    table role="table" class=[facts.then_some("facts")] {
                        @if !facts {
                            thead { tr role="row" {
                                @for name in &section.columns { th scope="col" role="columnheader" { (name) } }
                                @if acts { th scope="col" role="columnheader" { span class="hidden" { "what can be done" } } }
                            } }
                        }
                        tbody { @for row in &section.rows { (line(who, section, row, acts)) } }
                    }
                }
            }
            @if let Some(note) = &section.note { p class="dim" { (note) } }
        }
    }
}

fn line(who: &Visitor, section: &Section, row: &Row, acts: bool) -> Markup {
    let facts = section.columns.iter().all(String::is_empty);
    let name = row.cells.first().map_or("", |cell| cell.text.as_str());
    html! {
        tr role="row" {
            @for (at, cell) in row.cells.iter().enumerate() {
                @if facts && at == 0 {
                    th scope="row" role="rowheader" { (shown(cell)) }
                } @else if !cell.text.is_empty() || at == 0 {
                    td role="cell" data-label=(section.columns.get(at).map_or("", String::as_str)) { (shown(cell)) }
                } @else {
                    td role="cell" class="empty" {}
                }
            }
            @if acts { td role="cell" class="acts" { div class="row" { @for button in &row.buttons { (act(who, button, name)) } } } }
        }
    }
}

/// A button of a row. `name` is what it is about, for people who do not see the row.
fn act(who: &Visitor, button: &RowButton, name: &str) -> Markup {
    let Some(Fields { what, of, to }) = deed::fields(&button.command) else { return html! {} };
    let (label, hint) = match button.care {
        Care::Light => (button.label.clone(), format!("{} ({name})", button.label)),
        Care::Grave => (format!("Yes: {}", button.label), format!("Yes: {} ({name})", button.label)),
    };
    let form = html! {
        form class="inline" method="post" action="/do" {
            (form_token(who))
            input type="hidden" name="do" value=(what);
            input type="hidden" name="of" value=(of);
            input type="hidden" name="to" value=(to);
            button aria-label=(hint) { (label) }
        }
    };
    match button.care {
        Care::Light => form,
        Care::Grave => html! {
            details class="grave" data-key={ (what) " " (of) " " (to) } {
                summary class="button" aria-label={ (button.label) "… (" (name) ")" } { (button.label) "…" }
                (form)
            }
        },
    }
}

fn form(who: &Visitor, entry: &Entry) -> Markup {
    html! {
        form class="entry" method="post" action="/do" {
            h2 { (entry.title) }
            (form_token(who))
            (field("of", &entry.of))
            (field("to", &entry.to))
            div class="row" { @for button in &entry.buttons { button name="do" value=(button.what) { (button.label) } } }
        }
    }
}

fn field(name: &str, field: &Field) -> Markup {
    html! {
        label { span { (field.label) }
            @if let Some(choices) = &field.choices {
                select name=(name) required { @for choice in choices { option { (choice) } } }
            } @else {
                input name=(name) required maxlength="300" autocomplete="off" autocapitalize="off" placeholder=(field.example);
            }
        }
    }
}

fn shown(cell: &Cell) -> Markup {
    match cell.link {
        _ if cell.text.is_empty() => html! {},
        Some(Link::Agent) => html! { a href={ "/agents/" (segment(&cell.text)) } { (cell.text) } },
        Some(Link::Why) => html! { a href={ "/why/" (segment(&cell.text)) } { (cell.text) } },
        None => plain(&cell.text),
    }
}

/// A time is shown as one.
fn plain(cell: &str) -> Markup {
    let bytes = cell.as_bytes();
    let is_time = bytes.len() >= 20 && bytes.get(10) == Some(&b'T') && bytes.last() == Some(&b'Z');
    if is_time {
        time(cell)
    } else {
        html! { (cell) }
    }
}
