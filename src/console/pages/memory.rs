//! What agents remember: their files, and corrections of single lines.

use maud::{Markup, html};

use super::{form_token, instant};
use crate::console::Visitor;
use crate::console::form::segment;
use crate::console::lookup_view::{MemoryChangeRow, MemoryLines, MemoryRow};

/// Lines on one page.
const LINES: usize = 200;

/// What of a file is shown.
pub(in crate::console) struct Place<'a> {
    pub(in crate::console) agent: &'a str,
    pub(in crate::console) file: &'a str,
    /// The first line that is shown; the last ones if none.
    pub(in crate::console) from: Option<usize>,
    /// The line that is corrected.
    pub(in crate::console) line: Option<usize>,
}

impl Place<'_> {
    fn path(&self) -> String {
        format!("/memory/{}/{}", segment(self.agent), segment(self.file))
    }
}

pub(in crate::console) fn list(rows: &[MemoryRow]) -> Markup {
    html! {
        div id="live" {
            @if rows.is_empty() { p class="dim" { "Agents have written nothing down." } }
            @else {
                div class="scroll" tabindex="0" role="region" aria-label="Memory files" {
                    table {
                        thead { tr { th scope="col" { "Agent" } th scope="col" { "File" } th scope="col" { "Size" } th scope="col" { "Changed" } } }
                        tbody { @for row in rows { tr {
                            td { a href={ "/memory/" (segment(&row.agent)) } aria-label={ "Changes in the memory of " (row.agent) } { (row.agent) } }
                            td { a href={ "/memory/" (segment(&row.agent)) "/" (segment(&row.file)) } { (row.file) } }
                            td { (row.size) }
                            td { @if let Some(at) = row.changed { (instant(at)) } }
                        } } }
                    }
                }
            }
        }
        p class="dim" { "Agents write these files. A correction changes one line, and the agent reads it the next time it looks." }
    }
}

/// What an agent noted and when, as far as its files say it.
pub(in crate::console) fn changes(agent: &str, rows: &[MemoryChangeRow]) -> Markup {
    let place = |row: &MemoryChangeRow| {
        let line = row.line.map(|line| format!("?from={line}#line{line}")).unwrap_or_default();
        format!("/memory/{}/{}{line}", segment(agent), segment(&row.file))
    };
    html! {
        p { a href="/memory" { "All files" } " · " strong { (agent) } }
        div id="live" {
            h2 { "Changes" }
            @if rows.is_empty() { p class="dim" { "No changes are known." } }
            ul class="plain" { @for row in rows {
                li {
                    @if row.text.is_empty() { span class="dim" { "Changed" } } @else { pre dir="auto" { (row.text) } }
                    div class="dim" {
                        (instant(row.at)) " · " a href=(place(row)) { (row.file) @if let Some(line) = row.line { ", line " (line) } }
                    }
                }
            } }
        }
    }
}

pub(in crate::console) fn file(who: &Visitor, place: &Place<'_>, text: &MemoryLines) -> Markup {
    html! {
        p { a href="/memory" { "All files" } " · " strong { (place.agent) } " · " (place.file) }
        // A line that is being corrected stays as the person saw it.
        div id=[place.line.is_none().then_some("live")] {
            @match &text.lines {
                Err(why) => p class="problem" { "This file is not shown: " (why) },
                Ok(lines) if lines.is_empty() => p class="dim" { "The file is empty." },
                Ok(lines) => (shown(who, place, lines)),
            }
        }
    }
}

fn shown(who: &Visitor, place: &Place<'_>, lines: &[String]) -> Markup {
    let last = lines.len().saturating_sub(LINES).saturating_add(1);
    let from = place.line.map(|line| line.saturating_sub(20)).or(place.from).unwrap_or(last).clamp(1, lines.len());
    let numbered = (1_usize..).zip(lines).skip(from.saturating_sub(1)).take(LINES);
    html! {
        @if from > 1 { p { a href={ (place.path()) "?from=" (from.saturating_sub(LINES).max(1)) } { "Earlier lines" } } }
        table class="memory" {
            tbody { @for (number, line) in numbered {
                tr id={ "line" (number) } {
                    td class="dim" { a href={ (place.path()) "?line=" (number) "#line" (number) } aria-label={ "Correct line " (number) } { (number) } }
                    td {
                        @if place.line == Some(number) { (edit(who, place, number, line)) }
                        @else { pre dir="auto" { (line) } }
                    }
                }
            } }
        }
        @if from.saturating_add(LINES) <= lines.len() {
            p { a href={ (place.path()) "?from=" (from.saturating_add(LINES)) } { "Later lines" } }
        }
        @if place.line.is_none() { p class="dim" { "The number of a line leads to its correction." } }
    }
}

fn edit(who: &Visitor, place: &Place<'_>, number: usize, line: &str) -> Markup {
    html! {
        form class="say" method="post" action=(place.path()) {
            (form_token(who))
            input type="hidden" name="line" value=(number);
            input type="hidden" name="was" value=(line);
            label { span class="hidden" { "The line" }
                textarea name="text" rows="3" dir="auto" required maxlength="16384" { (line) } }
            div class="row" {
                button class="main" name="how" value="correct" { "Correct" }
                button name="how" value="remove" { "Remove" }
                a class="button" href={ (place.path()) "?from=" (number.saturating_sub(20).max(1)) } { "Cancel" }
            }
        }
    }
}
