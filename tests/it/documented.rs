//! What a machine can tell of the documentation: that nothing is missing in it.

use std::collections::BTreeSet;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Code without its tests.
fn code(path: &str) -> String {
    let text = text(path);
    let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
    text[..end].to_owned()
}

/// Everything between two marks.
fn between<'t>(text: &'t str, begin: &str, end: &str) -> Vec<&'t str> {
    text.split(begin).skip(1).filter_map(|rest| rest.split_once(end)).map(|(inner, _)| inner).collect()
}

fn sources(dir: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = entry.file_name().into_string().unwrap();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" && name != "seams.rs" {
            found.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
        }
    }
}

/// Variables of ours, and those that the one reader of the environment looks up.
fn variables() -> BTreeSet<String> {
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    let mut found = BTreeSet::new();
    for file in &files {
        let code = code(file);
        for begin in ["env_lookup(\"", "env = \"", "env::path(\"", " path(\""] {
            let names = between(&code, begin, "\"").into_iter();
            let is_name = |name: &&str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
            found.extend(names.filter(is_name).filter(|name| !name.contains("_TEST_")).map(str::to_owned));
        }
    }
    found
}

#[test]
fn every_place_and_every_variable_is_in_the_list_of_files() {
    let files = text("docs/files.md");
    let missing = |what: &str, names: BTreeSet<String>| {
        assert!(names.len() > 5, "{what}: only {names:?} were found");
        let missing: Vec<&String> = names.iter().filter(|name| !files.contains(name.as_str())).collect();
        assert!(missing.is_empty(), "docs/files.md names none of these {what}: {missing:?}");
    };
    let paths = code("src/config/paths.rs");
    missing("places", between(&paths, "join(\"", "\")").into_iter().map(str::to_owned).collect());
    let wire = code("container/wire/src/names.rs");
    missing("files of the mailbox", between(&wire, "&str = \"", "\"").into_iter().map(str::to_owned).collect());
    missing("variables", variables());
}

/// A command that is not in the list is known only to those who read its code.
#[test]
fn every_command_is_in_the_list_of_commands() {
    let list = text("docs/commands.md");
    let code = code("src/cli/mod.rs");
    let commands = between(&code, "Command::", "(args)").into_iter().chain(between(&code, "Command::", "(command)"));
    let names: BTreeSet<String> =
        commands.filter(|name| name.bytes().all(|b| b.is_ascii_alphabetic())).map(str::to_lowercase).collect();
    assert!(names.len() > 20, "{names:?}");
    let is_there =
        |name: &&String| ["`", "hearth ", "import "].iter().any(|before| list.contains(&format!("{before}{name}")));
    let missing: Vec<&String> = names.iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "docs/commands.md names none of these commands: {missing:?}");
}

/// Every metric that is registered is in the table for operators, and nothing else is.
#[test]
fn every_metric_is_in_the_table() {
    let operations = text("docs/operations.md");
    let listed: BTreeSet<String> = between(&operations, "`hearth_", "`")
        .into_iter()
        .map(|name| name.split('{').next().unwrap().trim_end_matches("_total").trim_end_matches("_bytes").to_owned())
        .collect();
    let code = ["src/daemon/metrics/mod.rs", "src/daemon/metrics/gauges.rs"]
        .map(code)
        .concat()
        .replace(char::is_whitespace, "");
    let registered: BTreeSet<String> = ["register(\"", "register_with_unit(\""]
        .into_iter()
        .flat_map(|begin| between(&code, begin, "\"").into_iter().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert!(registered.len() > 10, "{registered:?}");
    assert_eq!(listed, registered);
}

/// Links between documents lead somewhere.
#[test]
fn links_between_documents_lead_somewhere() {
    let mut documents = vec!["README.md".to_owned()];
    for entry in std::fs::read_dir(root().join("docs")).unwrap().map(Result::unwrap) {
        documents.push(format!("docs/{}", entry.file_name().to_str().unwrap()));
    }
    assert!(documents.len() > 10, "{documents:?}");
    for name in &documents {
        for link in between(&text(name), "](", ")") {
            if link.contains("://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let base = root().join(name);
            let file = if path.is_empty() { base } else { base.parent().unwrap().join(path) };
            let found = std::fs::read_to_string(&file).unwrap_or_else(|_| panic!("{name}: {link} leads nowhere"));
            assert!(anchor.is_empty() || anchors(&found).contains(anchor), "{name}: {link} has no such heading");
        }
    }
}

fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor = |heading: &str| {
        let kept = heading
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .collect::<String>();
        kept.replace(' ', "-")
    };
    headings.map(anchor).collect()
}
