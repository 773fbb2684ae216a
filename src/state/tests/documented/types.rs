//! The types of records, read from the sources, for docs/store-format.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::types_of;
use crate::{Kind, Tables};

/// Types that the document itself describes, or that are well known.
const DESCRIBED: [&str; 9] = ["Arc", "Box", "Content", "IpAddr", "Option", "Result", "SocketAddr", "String", "Vec"];
/// Aliases, described in the document as well.
const ALIASES: [&str; 2] = ["Short", "WorkspaceKey"];

fn sources(dir: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            found.push(std::fs::read_to_string(path).unwrap());
        }
    }
}

/// The stored types of a source file: name, and definition without comments, attributes and visibility.
fn definitions(source: &str) -> Vec<(String, String)> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let (mut found, mut attributes) = (Vec::new(), String::new());
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let Some(rest) = line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub enum ")) else {
            attributes = if line.starts_with(['#', '/', ' ', ')']) { attributes + line } else { String::new() };
            continue;
        };
        let mut definition = vec![line];
        if !line.ends_with([';', '}']) {
            definition.extend(lines.by_ref().take_while(|line| *line != "}"));
            definition.push("}");
        }
        let plain = definition.iter().filter(|line| !line.trim_start().starts_with(['/', '#']));
        let plain: Vec<String> = plain.map(|line| line.replace("pub ", "")).collect();
        // Its serialization is written by hand, as text.
        if std::mem::take(&mut attributes).contains("Serialize") || rest.starts_with("RawJson") {
            found.push((identifiers(rest)[0].to_owned(), plain.join("\n")));
        }
    }
    found
}

fn identifiers(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect()
}

/// The types that a definition uses, in their order. The first word of a line is a variant or a field.
fn used(definition: &str) -> Vec<&str> {
    let lines = definition.lines().enumerate();
    let words = lines.flat_map(|(at, line)| identifiers(line).into_iter().skip(if at == 0 { 2 } else { 1 }));
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase())).collect()
}

/// Definitions of all records in the order of their tables, then of the types in them, each once.
pub(super) fn listed() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = vec![std::fs::read_to_string(root.join("state/meta.rs")).unwrap()];
    sources(&root.join("model"), &mut files);
    sources(&root.join("../container/presets/src"), &mut files);
    sources(&root.join("../container/tool-rules/src"), &mut files);
    let mut known = BTreeMap::new();
    for (name, definition) in files.iter().flat_map(|file| definitions(file)) {
        let other = known.insert(name.clone(), definition);
        assert_eq!(other, None, "two stored types are called {name}");
    }
    let tables = Tables::ABOUT.iter().filter(|about| about.kind == Kind::Table);
    let mut wanted: Vec<&str> = tables.map(|about| types_of(about.name).1).collect();
    let (mut seen, mut text, mut at) = (BTreeSet::new(), String::new(), 0);
    while let Some(name) = wanted.get(at).copied() {
        at += 1;
        let is_id = name.ends_with("Id") && !known.contains_key(name);
        if !seen.insert(name) || is_id || DESCRIBED.contains(&name) || ALIASES.contains(&name) {
            continue;
        }
        let definition = known.get(name).unwrap_or_else(|| panic!("the definition of {name} was not found"));
        text.push_str(definition);
        text.push('\n');
        wanted.extend(used(definition));
    }
    format!("\n```rust\n{text}```\n\n")
}
