//! Circles of imports: files that depend on each other, directly or through others.

use std::collections::{BTreeMap, BTreeSet};

use super::rules::{CIRCLE_MAX, FOLDERS};
use super::{Files, is_test, rust};

type Module = Vec<String>;

/// The names that a module imports, and those that others may import from it.
#[derive(Default)]
struct Imports {
    names: BTreeMap<String, Module>,
    exported: BTreeSet<String>,
}

/// The modules of `src/`, with their code.
struct Graph {
    code: BTreeMap<Module, String>,
    imports: BTreeMap<Module, Imports>,
}

/// Circles of more than [`CIRCLE_MAX`] files.
pub(super) fn circles(files: &Files) -> Vec<String> {
    longer(files, CIRCLE_MAX)
}

/// Circles of more than `most` files. An import from a parent module, such as `use super::Result`, does not
/// count: a folder shares its common types that way. A re-exported name leads to the file that defines it.
fn longer(files: &Files, most: usize) -> Vec<String> {
    let sources = files.iter().filter(|(path, _)| path.starts_with("src/") && path.ends_with(".rs") && !is_test(path));
    let mut code: BTreeMap<Module, String> =
        sources.map(|(path, text)| (module(path), rust::production(&rust::code(text)))).collect();
    let only_tests: Vec<Module> = code.keys().filter(|own| !is_declared(&code, own)).cloned().collect();
    code.retain(|own, _| !only_tests.contains(own));
    let mut graph = Graph { code, imports: BTreeMap::new() };
    graph.imports = graph.code.iter().map(|(module, code)| (module.clone(), graph.imports_of(module, code))).collect();
    let edges: BTreeMap<&Module, BTreeSet<&Module>> = graph.code.keys().map(|own| (own, graph.targets(own))).collect();
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = edges.keys().map(|own| (*own, reach(&edges, own))).collect();
    let circle = |own: &Module| -> Vec<String> {
        let mutual = reached[own].iter().filter(|other| reached[**other].contains(own));
        mutual.map(|module| module.join("/")).collect()
    };
    let found: BTreeSet<Vec<String>> = edges.keys().map(|own| circle(own)).collect();
    let long = found.into_iter().filter(|circle| circle.len() > most);
    long.map(|circle| format!("{} files import each other, at most {most}: {}", circle.len(), circle.join(" ")))
        .collect()
}

/// Whether the module above declares a module, other than for tests.
fn is_declared(code: &BTreeMap<Module, String>, own: &[String]) -> bool {
    let Some((name, above)) = own.split_last().filter(|(_, above)| !above.is_empty()) else { return true };
    code.get(above).is_none_or(|code| code.contains(&format!("mod {name};")))
}

fn module(path: &str) -> Module {
    let path = path.trim_start_matches("src/").trim_end_matches(".rs");
    path.split('/').filter(|part| !["mod", "lib", "main"].contains(part)).map(str::to_owned).collect()
}

/// Every module that is reachable through imports.
fn reach<'a>(edges: &BTreeMap<&'a Module, BTreeSet<&'a Module>>, from: &Module) -> BTreeSet<&'a Module> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&Module> = edges[from].iter().copied().collect();
    while let Some(module) = next.pop() {
        if found.insert(module) {
            next.extend(&edges[module]);
        }
    }
    found
}

impl Graph {
    fn imports_of(&self, own: &Module, code: &str) -> Imports {
        let mut imports = Imports::default();
        for (at, _) in code.match_indices("use ") {
            let line = code[..at].rsplit('\n').next().unwrap_or_default().trim();
            if !line.is_empty() && !line.starts_with("pub") {
                continue;
            }
            let statement = code[at + 4..].split(';').next().unwrap_or_default();
            let mut paths = rust::paths(statement).into_iter().map(|path| path.segments).peekable();
            while let Some(mut path) = paths.next() {
                path.truncate(path.len() - usize::from(path.len() > 1 && path.ends_with(&["self".to_owned()])));
                let renamed = paths.next_if(|next| next == &["as"]).and_then(|_| paths.next());
                let name = renamed.unwrap_or_else(|| path.clone()).pop().unwrap_or_default();
                if let Some(target) = self.absolute(own, &path, None) {
                    if line.starts_with("pub") {
                        imports.exported.insert(name.clone());
                    }
                    imports.names.insert(name, target);
                }
            }
        }
        imports
    }

    /// A path from the root of `src/`; none for other crates and local names.
    fn absolute(&self, own: &Module, path: &[String], imports: Option<&Imports>) -> Option<Module> {
        let (head, rest) = path.split_first()?;
        let supers = path.iter().take_while(|segment| *segment == "super").count();
        let child = || [own.as_slice(), std::slice::from_ref(head)].concat();
        match head.as_str() {
            "crate" => Some([self.crate_of(own, rest), rest].concat()),
            "hearth" | "hearth_base" | "hearth_edges" | "hearth_host" => Some(rest.to_vec()),
            "self" => Some([own.as_slice(), rest].concat()),
            "super" => Some([own.get(..own.len().checked_sub(supers)?)?, &path[supers..]].concat()),
            name if FOLDERS.iter().any(|folder| name.strip_prefix("hearth_") == Some(folder)) => {
                Some([&[name.trim_start_matches("hearth_").to_owned()], rest].concat())
            }
            _ if self.code.contains_key(&child()) => Some([own.as_slice(), path].concat()),
            name => imports?.names.get(name).map(|target| [target.as_slice(), rest].concat()),
        }
    }

    /// The folder that `crate` means in a module: a crate of its own, unless the name comes from one below it.
    fn crate_of<'a>(&self, own: &'a [String], path: &[String]) -> &'a [String] {
        let folder = own.get(..1).filter(|folder| FOLDERS.contains(&folder[0].as_str())).unwrap_or_default();
        let inside = |name: &String| self.code.contains_key(&[folder, std::slice::from_ref(name)].concat());
        if path.first().is_some_and(inside) { folder } else { &[] }
    }

    /// The file that defines the target of a path.
    fn definition(&self, path: &Module) -> Option<&Module> {
        let mut path = path.clone();
        for _ in 0..8 {
            let length = (0..=path.len()).rev().find(|length| self.code.contains_key(&path[..*length]))?;
            let (module, rest) = path.split_at(length);
            let imports = self.imports.get(module)?;
            let next =
                rest.first().filter(|name| imports.exported.contains(*name)).and_then(|name| imports.names.get(name));
            match next.map(|target| [target.as_slice(), &rest[1..]].concat()) {
                Some(next) if next != path => path = next,
                _ => return self.code.get_key_value(module).map(|(module, _)| module),
            }
        }
        None
    }

    fn targets(&self, own: &Module) -> BTreeSet<&Module> {
        let imports = &self.imports[own];
        let used = rust::paths(&self.code[own]).into_iter().filter(|path| path.segments.len() > 1);
        let used = used.filter_map(|path| self.absolute(own, &path.segments, Some(imports)));
        let named: Vec<Module> = imports.names.values().cloned().chain(used).collect();
        named.iter().filter_map(|path| self.definition(path)).filter(|module| !own.starts_with(module)).collect()
    }
}

fn planted(files: &[(&str, &str)]) -> Vec<String> {
    longer(&files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect(), 4)
}

#[test]
fn circles_of_imports_are_found() {
    let ring = |first: &'static str| {
        planted(&[
            ("src/model/mod.rs", "pub use b::B;\npub mod a;\npub mod b;\nmod c;\nmod d;\nmod e;\nmod id;"),
            ("src/model/a.rs", first),
            ("src/model/b.rs", "use crate::model::{c::C, id::Id};"),
            ("src/model/c.rs", "fn f() -> super::d::D {}"),
            ("src/model/d.rs", "use super::e as other;\nfn f() { other::g() }"),
            ("src/model/e.rs", "use crate::model::a::A;"),
            ("src/model/id.rs", ""),
        ])
    };
    for first in ["use super::b::B;", "use super::B;", "use crate::model::B as C;", "fn f() { crate::model::B::new() }"]
    {
        let found = ring(first);
        assert_eq!(found.len(), 1, "{first}: {found:?}");
        assert!(found[0].starts_with("5 files") && found[0].ends_with("model/a model/b model/c model/d model/e"));
    }
    let crate_of_its_own = planted(&[
        (
            "src/engine/mod.rs",
            "mod hosts;\nmod senders;\nmod tools;\nmod outcome;\nmod naming;\npub use hearth_base::model;",
        ),
        ("src/engine/hosts.rs", "use crate::senders::A;\nuse crate::model::id::Id;"),
        ("src/engine/senders.rs", "use crate::tools::A;"),
        ("src/engine/tools.rs", "use crate::outcome::A;"),
        ("src/engine/outcome.rs", "fn f() { crate::naming::f() }"),
        ("src/engine/naming.rs", "use crate::hosts::A;"),
        ("src/model/mod.rs", "pub mod id;"),
        ("src/model/id.rs", ""),
    ]);
    assert_eq!(crate_of_its_own.len(), 1, "{crate_of_its_own:?}");
    assert!(crate_of_its_own[0].starts_with("5 files"), "{crate_of_its_own:?}");
    for first in
        ["use super::Result;", "// use super::b::B;", "#[cfg(test)]\nmod tests {\n    use super::super::b::B;\n}"]
    {
        assert_eq!(ring(first), Vec::<String>::new(), "{first}");
    }
}
