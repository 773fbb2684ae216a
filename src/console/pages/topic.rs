//! Tables about a topic.

use maud::{Markup, html};

use super::time;
use crate::console::Visitor;
use crate::console::view::{Section, Topic};

pub(in crate::console) fn page(_: &Visitor, topic: Topic, sections: &[Section]) -> Markup {
    html! {
        div id="live" {
            @if sections.is_empty() { p class="dim" { "Nothing." } }
            @for section in sections { (table(topic, section)) }
        }
    }
}

fn table(topic: Topic, section: &Section) -> Markup {
    html! {
        section {
            @if section.title != topic.title() { h2 { (section.title) } }
            @if !section.rows.is_empty() {
                div class="scroll" tabindex="0" role="region" aria-label=(section.title) {
                    table {
                        thead { tr { @for name in &section.columns { th scope="col" { (name) } } } }
                        tbody { @for row in &section.rows { tr { @for cell in row { td { (shown(cell)) } } } } }
                    }
                }
            }
            @if let Some(note) = &section.note { p class="dim" { (note) } }
        }
    }
}

/// A time is shown as one.
fn shown(cell: &str) -> Markup {
    let bytes = cell.as_bytes();
    let is_time = bytes.len() >= 20 && bytes.get(10) == Some(&b'T') && bytes.last() == Some(&b'Z');
    if is_time {
        time(cell)
    } else {
        html! { (cell) }
    }
}
