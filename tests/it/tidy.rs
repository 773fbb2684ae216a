//! House rules that the compiler does not check: imports, circles of imports, bans, first lines, and the length of files.
//!
//! The rules are data in [`rules`]; the checks work on a map of files, so that they are tested with planted violations.

mod circles;
mod rules;
mod rust;

use std::collections::BTreeMap;
use std::path::Path;

use rules::{BANS, EMPTY_NAMES, ENGINE, FOLDERS, IMPORTS, LINES_MAX, LONG_FILES, NAMES, ROOTS, TEST_LINES_MAX, Thing};

/// Path from the root of the repository -> text.
type Files = BTreeMap<String, String>;

#[test]
fn the_house_is_tidy() {
    let mut files = Files::new();
    load(Path::new(env!("CARGO_MANIFEST_DIR")), "", &mut files);
    assert!(files.contains_key("src/lib.rs") && files.contains_key("tests/it/tidy.rs"), "{:?}", files.keys());
    let violations = violations(&files);
    assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), violations.join("\n"));
}

/// Reads the files that people write: no build output, no hidden directories but `.ci`, no binary files.
fn load(root: &Path, below: &str, files: &mut Files) {
    for entry in std::fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        // A fuzzer may write beside the sources while this test runs.
        let grown = ["tests/fuzz/artifacts", "tests/fuzz/grown"].contains(&path.as_str());
        let skipped = grown || ["target", "fixtures", "node_modules"].contains(&name.as_str());
        if (name.starts_with('.') && name != ".ci") || skipped {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            load(root, &path, files);
        } else if let Ok(text) = std::fs::read_to_string(entry.path()) {
            files.insert(path, text);
        }
    }
}

fn violations(files: &Files) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in files {
        if path.ends_with(".rs") {
            let code = rust::code(text);
            let production = if is_test(path) { String::new() } else { rust::production(&code) };
            found.extend(imports(path, &production));
            found.extend(layers(path, &production));
            found.extend(bans(path, &production));
            found.extend(length(path, text, &production));
            found.extend(names(path, &code));
            found.extend(introduction(path, text));
        }
    }
    found.extend(circles::circles(files));
    found.extend(orphans(files));
    found.extend(tests_of_others(files));
    found
}

/// Whether a file contains only tests.
fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs")
        || path.contains("/tests/")
        || path.starts_with("tests/")
        || path.starts_with("benches/")
}

/// The folder of `src/` that a file belongs to; none for roots of crates, and for crates elsewhere.
fn folder(path: &str) -> Option<&str> {
    if path.starts_with("tools/") {
        return Some("tools");
    }
    let first = path.strip_prefix("src/").filter(|_| !ROOTS.contains(&path))?.split('/').next()?;
    Some(first.trim_end_matches(".rs"))
}

/// The depth of a file's module in its crate, from which `super` counts.
fn module_depth(path: &str) -> usize {
    let path = path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    let is_crate = path.split('/').next().is_some_and(|folder| FOLDERS.contains(&folder));
    path.split('/').count() - usize::from(is_crate)
}

fn imports(path: &str, code: &str) -> Vec<String> {
    let Some(folder) = folder(path) else { return Vec::new() };
    let Some((_, allowed)) = IMPORTS.iter().find(|(name, _)| *name == folder) else {
        return vec![format!("{path}: `{folder}` is not in the import table; say there what it may import")];
    };
    let mut found = Vec::new();
    for import in rust::paths(code) {
        let supers = import.segments.iter().take_while(|segment| *segment == "super").count();
        let segment = |at: usize| import.segments.get(at).map(String::as_str);
        let target = match import.segments[0].as_str() {
            "crate" | "hearth" | "hearth_base" | "hearth_edges" | "hearth_host" => segment(1),
            name @ ("hearth_engine" | "hearth_state") => name.strip_prefix("hearth_"),
            "super" if supers >= module_depth(path) => segment(supers),
            _ => None,
        };
        let Some(target) = target else { continue };
        let known = IMPORTS.iter().any(|(name, _)| *name == target);
        if known && target != folder && !allowed.contains(&target) {
            found.push(format!("{path}:{}: `{folder}` may not import `{target}`", import.line));
        }
    }
    found
}

/// Imports within the engine that lead upwards.
fn layers(path: &str, code: &str) -> Vec<String> {
    let rank = |name: &str| ENGINE.iter().position(|layer| *layer == name);
    let folder = path.strip_prefix("src/engine/").and_then(|path| path.split('/').next());
    let Some(own) = folder.and_then(rank) else { return Vec::new() };
    let mut found = Vec::new();
    for import in rust::paths(code) {
        let supers = import.segments.iter().take_while(|segment| *segment == "super").count();
        let target = match import.segments[0].as_str() {
            "crate" => import.segments.get(1),
            "super" if supers == module_depth(path) => import.segments.get(supers),
            _ => None,
        };
        if let Some(target) = target
            && rank(target).is_some_and(|rank| rank > own)
        {
            found.push(format!("{path}:{}: `{}` is below `{target}` and may not import it", import.line, ENGINE[own]));
        }
    }
    found
}

/// Modules of `tests/it` that import a module with tests. Shared steps are in `world` and `host`.
///
/// A module and its submodules are one subject and may share.
fn tests_of_others(files: &Files) -> Vec<String> {
    let modules: BTreeMap<Vec<&str>, &String> =
        files.iter().filter_map(|(path, text)| Some((test_module(path)?, text))).collect();
    let has_tests = |module: &[&str]| modules.get(module).is_some_and(|text| text.contains("#[test]"));
    let mut found = Vec::new();
    for (path, text) in files {
        let Some(own) = test_module(path) else { continue };
        for import in rust::paths(&rust::code(text)) {
            let supers = import.segments.iter().take_while(|segment| *segment == "super").count();
            let mut target = match import.segments[0].as_str() {
                "crate" => Vec::new(),
                "super" => own[..own.len().saturating_sub(supers)].to_vec(),
                _ => continue,
            };
            for segment in import.segments.iter().skip(supers.max(1)) {
                target.push(segment);
                if !modules.contains_key(&target) {
                    target.pop();
                    break;
                }
            }
            if has_tests(&target) && !own.starts_with(&target) && !target.starts_with(&own) {
                let target = target.join("::");
                found.push(format!(
                    "{path}:{}: `{target}` has tests: move what both need to `world` or `host`",
                    import.line
                ));
            }
        }
    }
    found
}

/// The module of the integration tests that a file holds.
fn test_module(path: &str) -> Option<Vec<&str>> {
    let module = path.strip_prefix("tests/it/")?.strip_suffix(".rs")?;
    Some(module.split('/').filter(|part| !["mod", "main"].contains(part)).collect())
}

fn bans(path: &str, code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let paths = rust::paths(code);
    for ban in BANS.iter().filter(|ban| path.starts_with(ban.within)) {
        if ban.places.iter().any(|(place, _)| path.starts_with(place)) {
            continue;
        }
        let (thing, lines) = match &ban.thing {
            Thing::Crate(name) => (name, lines(&paths, |segments| segments.len() > 1 && segments[0] == *name)),
            Thing::Segments(wanted) => {
                let wanted: Vec<&str> = wanted.split("::").collect();
                let has = |segments: &[String]| segments.windows(wanted.len()).any(|window| window == wanted);
                (
                    match &ban.thing {
                        Thing::Crate(name) | Thing::Segments(name) | Thing::Text(name) => name,
                    },
                    lines(&paths, has),
                )
            }
            Thing::Text(text) => {
                let hits = code.lines().enumerate().filter(|(_, line)| line.replace(' ', "").contains(text));
                (text, hits.map(|(at, _)| at + 1).collect())
            }
        };
        found.extend(lines.iter().map(|line| format!("{path}:{line}: `{thing}` is not used here: {}", ban.why)));
    }
    found
}

fn lines(paths: &[rust::Path], has: impl Fn(&[String]) -> bool) -> Vec<usize> {
    paths.iter().filter(|path| has(&path.segments)).map(|path| path.line).collect()
}

fn length(path: &str, text: &str, production: &str) -> Vec<String> {
    if LONG_FILES.iter().any(|(long, _)| *long == path) {
        return Vec::new();
    }
    let all = text.lines().count();
    let (lines, max) = if is_test(path) { (all, TEST_LINES_MAX) } else { (production_lines(production), LINES_MAX) };
    if lines > max { vec![format!("{path}: {lines} lines, at most {max}: cut it by meaning")] } else { Vec::new() }
}

fn production_lines(production: &str) -> usize {
    production.trim_end().lines().count()
}

/// A product file says first what it holds.
fn introduction(path: &str, text: &str) -> Option<String> {
    (!is_test(path) && !text.starts_with("//! ")).then(|| format!("{path}: its first line is no `//!` comment"))
}

fn names(path: &str, code: &str) -> Vec<String> {
    if NAMES.iter().any(|(name, _)| *name == path) {
        return Vec::new();
    }
    let empty = |name: &str| rust::words(name).iter().any(|word| EMPTY_NAMES.contains(&word.as_str()));
    let stem = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".rs");
    let file = empty(stem).then(|| format!("{path}: the file's name says nothing"));
    let defined = rust::definitions(code).into_iter().filter(|(_, name)| empty(name));
    let defined = defined.map(|(line, name)| format!("{path}:{line}: the name `{name}` says nothing"));
    file.into_iter().chain(defined).collect()
}

/// Files that no `mod` includes: they are not compiled, so their tests never run.
fn orphans(files: &Files) -> Vec<String> {
    let mut found = Vec::new();
    for path in files.keys().filter(|path| path.starts_with("src/") || path.starts_with("tests/it/")) {
        let Some(module) = path.strip_suffix(".rs").map(|path| path.trim_end_matches("/mod")) else { continue };
        let Some((parent, name)) = module.rsplit_once('/') else { continue };
        let is_root = ROOTS.contains(&path.as_str()) || (parent == "src" && FOLDERS.contains(&name));
        if is_root || matches!(path.as_str(), "src/main.rs" | "tests/it/main.rs") {
            continue;
        }
        let of_crate = ROOTS.iter().filter(|_| parent == "src").map(|root| (*root).to_owned());
        let of_folder = ["", "/mod", "/main"].map(|root| format!("{parent}{root}.rs"));
        let roots: Vec<String> = of_folder.into_iter().chain(of_crate).collect();
        let declared = |text: &String| {
            let words = rust::paths(&rust::code(text));
            words.windows(2).any(|pair| pair[0].segments == ["mod"] && pair[1].segments == [name])
        };
        let borrowed = |text: &String| text.contains("#[path = \"") && text.contains(&format!("/{path}\"]"));
        if !roots.iter().filter_map(|root| files.get(root)).any(declared) && !files.values().any(borrowed) {
            found.push(format!("{path}: no `mod {name}` leads to it"));
        }
    }
    found
}

/// The findings about one planted file in an otherwise tidy tree.
fn planted(path: &str, text: &str) -> Vec<String> {
    let mut files = Files::new();
    files.insert(path.to_owned(), text.to_owned());
    let found = violations(&files);
    let about_text = |line: &String| !line.contains("leads to it") && !line.contains("first line");
    found.into_iter().filter(about_text).collect()
}

#[test]
fn planted_violations_are_found() {
    let long = "fn f() {}\n".repeat(LINES_MAX + 1);
    let tests = "fn f() {}\n".repeat(TEST_LINES_MAX + 1);
    let cases = [
        ("src/channel/x.rs", "use crate::state::Store;", "src/channel/x.rs:1: `channel` may not import `state`"),
        ("src/channel/x.rs", "\nuse crate::{model::Input, engine};", ":2: `channel` may not import `engine`"),
        ("src/channel/x.rs", "use super::super::engine::apply;", "`channel` may not import `engine`"),
        ("src/channel/mod.rs", "use super::engine::apply;", "`channel` may not import `engine`"),
        ("src/model/x.rs", "fn f() -> crate::config::Paths {}", "`model` may not import `config`"),
        ("src/state/x.rs", "use crate::clock;", "`state` may not import `clock`"),
        ("src/engine/x.rs", "use crate::runtime::Runtime;", "`engine` may not import `runtime`"),
        ("src/clock.rs", "use crate::state::Store;", "`clock` may not import `state`"),
        ("src/main.rs", "use hearth::state::Store;", "`main` may not import `state`"),
        ("tools/dump/main.rs", "hearth::engine::apply();", "`tools` may not import `engine`"),
        ("src/novel/x.rs", "", "`novel` is not in the import table"),
        ("src/engine/x.rs", "use heed::Env;", "`heed` is not used here"),
        ("src/engine/rows/x.rs", "use crate::{turns, Result};", "`rows` is below `turns` and may not import it"),
        ("src/engine/rows/x.rs", "fn f() { super::super::turns::g() }", "`rows` is below `turns`"),
        ("src/state/x.rs", "use bincode::config;", "`bincode` is not used here"),
        ("src/engine/x.rs", "fn f() { serde_json::to_string(1) }", "`serde_json` is not used here"),
        ("src/engine/x.rs", "use hearth_wire::Ack;", "`hearth_wire` is not used here"),
        ("src/engine/route.rs", "use regex::Regex;", "`regex` is not used here"),
        ("src/model/x.rs", "#[serde(default)]\nstruct A;", "`#[serde(` is not used here"),
        ("src/model/x.rs", "#[derive(A)] #[ serde(default) ]", "`#[serde(` is not used here"),
        ("src/runtime/x.rs", "use std::time::{Duration, Instant};", "`Instant` is not used here"),
        ("src/state/x.rs", "let t = std::time::SystemTime::now();", "`SystemTime` is not used here"),
        ("container/agent-runner/src/run.rs", "use std::time::Instant;", "`Instant` is not used here"),
        ("src/cli/x.rs", "use std::process::{ExitCode, Command};", "`process::Command` is not used here"),
        ("src/cli/x.rs", "use tokio::process::Command;", "`process::Command` is not used here"),
        ("src/cli/x.rs", "std::env::var(\"X\")", "`env::var` is not used here"),
        ("src/config/paths.rs", "std::env::var_os(\"X\")", "`env::var_os` is not used here"),
        ("src/engine/x.rs", "struct SessionManager;", "src/engine/x.rs:1: the name `SessionManager` says nothing"),
        ("src/engine/x.rs", "mod helpers;", "the name `helpers` says nothing"),
        ("src/engine/route_utils.rs", "", "the file's name says nothing"),
        ("src/engine/x.rs", long.as_str(), "501 lines, at most 500"),
        ("tests/it/x.rs", tests.as_str(), "801 lines, at most 800"),
        ("src/engine/x.rs", "use sha2::Sha256;", "`sha2` is not used here"),
        ("src/model/x.rs", "fn f() -> chrono::DateTime {}", "`chrono` is not used here"),
    ];
    for (path, text, expected) in cases {
        let found = planted(path, text);
        assert!(found.iter().any(|line| line.contains(expected)), "{path}: {text:.60}\n{found:?}\n{expected}");
    }
}

#[test]
fn what_is_allowed_is_not_found() {
    let long_tests = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{}}}\n", "    fn f() {}\n".repeat(600));
    let cases = [
        ("src/channel/x.rs", "use crate::model::Input;\nuse crate::channel::event;\nuse super::event;"),
        ("src/channel/x.rs", "//! See [`crate::state`] and `heed::Env`.\nconst A: &str = \"crate::state::x\";"),
        ("src/channel/x.rs", "fn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::state::Store;\n}\n"),
        ("src/channel/event/tests.rs", "use crate::state::Store;\nuse std::time::Instant;"),
        ("src/state/x.rs", "use heed::Env;\nuse crate::model::Input;"),
        ("src/clock.rs", "use std::time::{Instant, SystemTime};"),
        ("src/config/env.rs", "std::env::var(\"X\")"),
        ("src/main.rs", "hearth::cli::run()"),
        ("src/lib.rs", "pub mod state;\npub mod channel;"),
        ("src/cli/x.rs", "use clap::Command;\nlet x = env!(\"CARGO_PKG_VERSION\");"),
        ("src/engine/x.rs", long_tests.as_str()),
    ];
    for (path, text) in cases {
        assert_eq!(planted(path, text), Vec::<String>::new(), "{path}: {text:.60}");
    }
}

#[test]
fn files_without_an_introduction_are_found() {
    for (path, text, found) in [
        ("src/engine/x.rs", "//! Routes events.\n\nuse crate::tx::Tx;", false),
        ("src/engine/x.rs", "use crate::tx::Tx;\n//! Routes events.", true),
        ("src/engine/x.rs", "/// Routes an event.\nfn route() {}", true),
        ("tools/mail/src/x.rs", "", true),
        ("src/engine/x/tests.rs", "use super::*;", false),
        ("tests/it/x.rs", "use crate::host::Host;", false),
    ] {
        assert_eq!(introduction(path, text).is_some(), found, "{path}: {text}");
    }
}

#[test]
fn tests_that_import_tests_are_found() {
    let with = |path: &str, text: &str| -> Vec<String> {
        let own = "#[test]\nfn t() {}";
        let mut files: Files = ["tests/it/a.rs", "tests/it/a/b.rs", "tests/it/c/mod.rs", "tests/it/c/d.rs"]
            .map(|path| (path.to_owned(), own.to_owned()))
            .into();
        files.insert("tests/it/world/mod.rs".to_owned(), String::new());
        files.insert("tests/it/a/shared.rs".to_owned(), String::new());
        files.insert(path.to_owned(), text.to_owned());
        tests_of_others(&files)
    };
    for (path, text, target) in [
        ("tests/it/x.rs", "use crate::a::step;", "a"),
        ("tests/it/x.rs", "use crate::{world::World, c};", "c"),
        ("tests/it/x.rs", "fn f() { crate::a::b::step() }", "a::b"),
        ("tests/it/a/x.rs", "use super::{b, step};", "a::b"),
        ("tests/it/a/x.rs", "use super::super::c::step;", "c"),
        ("tests/it/c/x.rs", "use super::d::step;", "c::d"),
    ] {
        let found = with(path, text);
        assert!(found.iter().any(|line| line.contains(&format!(":1: `{target}` has tests"))), "{text}: {found:?}");
    }
    for (path, text) in [
        ("tests/it/x.rs", "use crate::world::World;\nuse crate::a::shared::step;"),
        ("tests/it/a/x.rs", "use super::step;\nuse crate::a::shared::step;"),
        ("tests/it/a.rs", "mod b;\nuse self::b::step;\nuse crate::a::b::other;"),
        ("src/x.rs", "use crate::a::step;"),
    ] {
        assert_eq!(with(path, text), Vec::<String>::new(), "{path}: {text}");
    }
}

#[test]
fn files_that_nothing_leads_to_are_found() {
    let files = |entries: &[(&str, &str)]| -> Files {
        entries.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    };
    let connected = files(&[
        ("src/lib.rs", "pub mod channel;"),
        ("src/channel/mod.rs", "mod event;"),
        ("src/channel/event.rs", "#[cfg(test)]\nmod tests;"),
        ("src/channel/event/tests.rs", ""),
        ("tests/it/main.rs", "mod tidy;"),
        ("tests/it/tidy.rs", ""),
    ]);
    assert_eq!(orphans(&connected), Vec::<String>::new());
    let borrowed = files(&[
        ("tests/it/fake.rs", ""),
        ("container/x/tests/main.rs", "#[path = \"../../../tests/it/fake.rs\"]\nmod fake;"),
    ]);
    assert_eq!(orphans(&borrowed), Vec::<String>::new());
    let lost = files(&[("tests/it/main.rs", "// mod lost;"), ("tests/it/lost.rs", ""), ("src/channel/x.rs", "")]);
    assert_eq!(orphans(&lost).len(), 2);
}

/// Dependencies that a manifest declares to be used in certain places only.
fn claims(manifest: &str) -> Vec<String> {
    let lines = manifest.lines().filter_map(|line| line.split_once(" = ").zip(line.split_once(" # ")));
    let claims = lines.filter(|(_, (_, reason))| reason.contains("; only ") && !reason.contains("; only tests"));
    claims.map(|((name, _), _)| name.replace('-', "_")).collect()
}

/// A dependency of tests cannot be used elsewhere: the compiler checks that.
#[test]
fn what_is_said_of_a_dependency_is_held() {
    let planted = "a-b = \"1\" # c; only d\ne = \"2\" # f\ng = \"3\" # h; only tests of i\n";
    assert_eq!(claims(planted), ["a_b"]);
    let manifest = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let claims = claims(&manifest);
    assert!(claims.len() > 20, "{claims:?}");
    let is_held = |name: &&String| {
        BANS.iter().any(|ban| match ban.thing {
            Thing::Crate(banned) => banned == **name,
            Thing::Segments(banned) | Thing::Text(banned) => banned.starts_with(&format!("{name}::")),
        })
    };
    let loose: Vec<&String> = claims.iter().filter(|name| !is_held(name)).collect();
    assert!(loose.is_empty(), "Cargo.toml says where these are used, and no rule holds it: {loose:?}");
}

#[test]
fn every_exception_has_a_reason_and_every_folder_a_row() {
    let reasons = BANS.iter().flat_map(|ban| ban.places).chain(LONG_FILES).chain(NAMES);
    assert!(reasons.into_iter().all(|(place, reason)| !place.is_empty() && reason.len() > 3));
    for (folder, allowed) in IMPORTS {
        for target in *allowed {
            assert!(IMPORTS.iter().any(|(name, _)| name == target), "{folder} imports {target}, which has no row");
        }
    }
}

#[test]
fn comments_and_texts_are_not_code() {
    let text = "a // crate::x\n/* b\n */ \"crate::y \\\" z\" 'q' '\\'' r#\"c\" d\"# &'life e\nfor r in 1 {}";
    let code = rust::code(text);
    let left: Vec<&str> = code.split_whitespace().collect();
    assert_eq!(left, ["a", "&'life", "e", "for", "r", "in", "1", "{}"]);
    assert_eq!(code.lines().count(), text.lines().count());
}

#[test]
fn imports_are_written_out() {
    let code = "use crate::{a::b, c::{self, D},\n e};\nfn f() { super::super::state::open::<u8>() }";
    let shown: Vec<String> =
        rust::paths(code).iter().map(|path| format!("{} {}", path.line, path.segments.join("::"))).collect();
    for path in ["1 crate::a::b", "1 crate::c::self", "1 crate::c::D", "2 crate::e", "3 super::super::state::open"] {
        assert!(shown.contains(&path.to_owned()), "{path}: {shown:?}");
    }
}

#[test]
fn test_modules_are_not_production() {
    let code = "a\n#[cfg(test)]\nmod tests;\nb\n#[cfg(test)]\nmod tests {\n    x\n}\nc\n#[cfg(test)]\nfn d() {}";
    let kept: Vec<String> = rust::production(code).split_whitespace().map(str::to_owned).collect();
    assert_eq!(kept, ["a", "#[cfg(test)]", "b", "#[cfg(test)]", "c", "#[cfg(test)]", "fn", "d()", "{}"]);
}

#[test]
fn names_have_words() {
    assert_eq!(rust::words("DeviceManager"), ["", "device", "manager"]);
    assert_eq!(rust::words("device_manager"), ["device", "manager"]);
}
