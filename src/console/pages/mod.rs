//! Draws pages. Every text is escaped by `maud`.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::view::Topic;
use super::{Visitor, token};
use crate::model::console::Login;
use crate::model::time::Timestamp;

/// Pages on which sessions from a chat change nothing.
const LINK_ONLY: [&str; 7] = ["Decisions", "Decision", "People", "Agents", "Agent", "Network", "Memory"];

pub(super) mod asked;
pub(super) mod chat;
pub(super) mod home;
pub(super) mod memory;
pub(super) mod search;
pub(super) mod sign_in;
pub(super) mod topic;
pub(super) mod why;

/// A document without a visitor.
fn bare(title: &str, body: &Markup) -> Markup {
    document(title, &html! { main id="main" class="narrow" { (body) } })
}

fn document(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Hearth" }
                link rel="stylesheet" href="/style.css";
                link rel="icon" type="image/svg+xml" href="/icon.svg";
                script src="/console.js" defer {}
            }
            body { (body) }
        }
    }
}

/// A page for a visitor. What is in `#live` is replaced when something changes.
pub(super) fn frame(who: &Visitor, title: &str, note: Option<String>, body: &Markup) -> Markup {
    document(
        title,
        &html! {
            a class="skip" href="#main" { "Skip to the page" }
            header {
                nav aria-label="Pages" {
                    a class="brand" href="/" { "Hearth" }
                    @for (path, name) in links(who) {
                        a href=(path) aria-current=[(name == title).then_some("page")] { (name) }
                    }
                }
                form class="me" method="post" action="/sign-out" {
                    (form_token(who))
                    span { @if let Some(name) = &who.name { (name) } @else { (who.user) } }
                    button class="quiet" { "Sign out" }
                }
            }
            main id="main" tabindex="-1" {
                h1 { (title) }
                @if let Some(note) = note { p class="note" role="status" { (note) } }
                @if who.login == Login::Chat && LINK_ONLY.contains(&title) {
                    p class="dim" {
                        "You signed in from a chat. To let people in or change roles, members, hosts, agents or memory, sign in with a "
                        "link from " code { "hearth console" } "."
                    }
                }
                (body)
            }
            p id="offline" role="status" hidden { "Hearth is not responding. This page continues when it does." }
        },
    )
}

fn links(who: &Visitor) -> Vec<(String, &'static str)> {
    let mut links = vec![("/".to_owned(), "Home")];
    if who.rank.decides() {
        links.push(("/asked".to_owned(), "Decisions"));
    }
    links.push(("/#chat".to_owned(), "Chat"));
    links.push(("/why".to_owned(), "Why"));
    links.push(("/search".to_owned(), "Search"));
    if who.rank.decides() {
        links.push(("/memory".to_owned(), "Memory"));
    }
    let topics = Topic::ALL.iter().filter(|topic| topic.is_for(&who.rank));
    links.extend(topics.map(|topic| (format!("/{}", topic.path()), topic.title())));
    links
}

/// The hidden field that shows that a form comes from this session's pages.
pub(super) fn form_token(who: &Visitor) -> Markup {
    html! { input type="hidden" name="token" value=(token::of_forms(who.seed)); }
}

/// A page that says why there is no other.
pub(super) fn trouble(who: Option<&Visitor>, words: &str) -> Markup {
    let body = html! {
        p class="problem" role="alert" { (words) }
        p { a href="/" { "Home" } }
    };
    match who {
        Some(who) => frame(who, "Not done", None, &body),
        None => bare("Not done", &html! { h1 { "Not done" } (body) }),
    }
}

/// A time, which the script shows in the reader's zone.
pub(super) fn time(at: &str) -> Markup {
    html! { time datetime=(at) { (at) } }
}

fn instant(at: Timestamp) -> Markup {
    time(&at.to_string())
}

/// A list of labels and texts.
pub(super) fn facts(all: &[(&'static str, String)]) -> Markup {
    html! {
        @if !all.is_empty() {
            dl { @for (label, text) in all { dt { (label) } dd dir="auto" { (text) } } }
        }
    }
}

/// A number of pixels or percent in SVG.
fn number(value: i64) -> PreEscaped<String> {
    PreEscaped(value.to_string())
}
