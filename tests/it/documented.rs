//! Compares the documentation with the program: commands, options, keys and files.

use std::collections::BTreeSet;
use std::path::Path;

use crate::host::{Host, skipped};

mod examples;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The documents in the root, and those in `docs/`.
fn documents() -> Vec<String> {
    let mut documents =
        ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(str::to_owned).to_vec();
    for entry in std::fs::read_dir(root().join("docs")).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if name.ends_with(".md") {
            documents.push(format!("docs/{name}"));
        }
    }
    assert!(documents.len() > 10, "{documents:?}");
    documents
}

/// The README is short, and says how to run Hearth, how to test it, and where to read on.
#[test]
fn the_readme_is_short_and_leads_to_every_document() {
    let readme = text("README.md");
    assert!(readme.len() <= 10_000, "{} bytes: details belong into a document of docs/", readme.len());
    for command in ["\nhearth up\n", "\ncargo test --workspace\n"] {
        assert!(readme.contains(command), "{command}");
    }
    let unlisted: Vec<String> =
        documents().into_iter().filter(|name| name != "README.md" && !readme.contains(&format!("({name})"))).collect();
    assert!(unlisted.is_empty(), "the README leads to none of these: {unlisted:?}");
}

/// No figure of the comparison is written by hand: the measuring script can read them, and generates the same table.
#[test]
fn the_comparison_is_what_its_script_wrote() {
    let check = |page: &Path| {
        let mut script = crate::host::python();
        script.arg(root().join("tools/compare/compare.py")).arg("--self-check").arg("--check").arg(page);
        script.output()
    };
    let page = root().join("docs/comparison.md");
    let checked = match check(&page) {
        Ok(checked) => checked,
        Err(error) => return skipped(format_args!("no python3: {error}")),
    };
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let host = Host::new();
    let edited = host.path("comparison.md");
    let row = "| memory, idle |";
    let text = text("docs/comparison.md");
    assert!(text.contains(row), "the table has no row `{row}`");
    std::fs::write(&edited, text.replace(row, "| memory, idle | 1 MB |")).unwrap();
    let refused = check(&edited).unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("edited by hand"), "{said}");
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

/// Hearth's variables, and others that the environment reader looks up.
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

/// Every command of the program, such as `agents list`, from the generated manual pages.
fn commands() -> BTreeSet<String> {
    let host = Host::new();
    let pages = host.path("pages");
    host.done(&["man", pages.to_str().unwrap()], b"");
    let command = |page: std::fs::DirEntry| {
        let page = std::fs::read_to_string(page.path()).unwrap();
        let synopsis = between(&page, ".SH SYNOPSIS\n\\fB", "\\fR")[0].replace("\\-", "-");
        synopsis.strip_prefix("hearth ").map(str::to_owned)
    };
    let found: BTreeSet<String> = std::fs::read_dir(pages).unwrap().map(Result::unwrap).filter_map(command).collect();
    assert!(found.len() > 100 && found.contains("agents list"), "{found:?}");
    found
}

/// The command at the beginning of a text, without values and options.
fn command_in(text: &str) -> String {
    let is_word = |word: &&str| {
        word.starts_with(|first: char| first.is_ascii_lowercase())
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    let words = text.strip_prefix("hearth ").unwrap_or(text).split([' ', '\n']);
    words.take_while(is_word).collect::<Vec<_>>().join(" ")
}

/// The list of commands is complete, and contains only commands that exist.
#[test]
fn every_command_is_in_the_list_of_commands() {
    let commands = commands();
    let (mut listed, mut told) = (BTreeSet::new(), BTreeSet::new());
    for row in text("docs/commands.md").lines().filter(|line| line.starts_with("| `hearth ")) {
        let [_, names, about, _] = row.split('|').collect::<Vec<_>>()[..] else { panic!("{row}") };
        let spans = |cell: &str| cell.split('`').skip(1).step_by(2).map(command_in).collect::<Vec<_>>();
        for name in spans(names) {
            let first = name.split(' ').next().unwrap();
            told.extend(spans(about).iter().flat_map(|below| [format!("{first} {below}"), format!("{name} {below}")]));
            told.insert(first.to_owned());
            listed.insert(name);
        }
        told.extend(spans(about));
    }
    let first = |names: &BTreeSet<String>| -> BTreeSet<String> {
        names.iter().map(|name| name.split(' ').next().unwrap().to_owned()).collect()
    };
    assert_eq!(first(&listed), first(&commands));
    let invented: Vec<&String> = listed.difference(&commands).collect();
    assert!(invented.is_empty(), "docs/commands.md lists what is no command: {invented:?}");
    let missing: Vec<&String> =
        commands.iter().filter(|name| !listed.contains(*name) && !told.contains(*name)).collect();
    assert!(missing.is_empty(), "docs/commands.md names none of these commands: {missing:?}");
}

/// Documents mention no command that does not exist.
#[test]
fn documents_name_only_commands_that_there_are() {
    let mut commands = commands();
    // The commands on the agent's side have no page: `docs/trusted.md` describes them.
    commands.insert("agent".to_owned());
    let has_commands = |name: &str| commands.iter().any(|other| other.starts_with(&format!("{name} ")));
    let mut seen = 0;
    for name in documents() {
        let text = format!("\n{}", text(&name));
        for begin in ["`hearth ", "\nhearth ", "&& hearth "] {
            for rest in text.split(begin).skip(1) {
                let command = command_in(rest.split(['`', '\n']).next().unwrap());
                let mut words = command.split(' ').filter(|word| !word.is_empty());
                let Some(first) = words.next() else { continue };
                let whole = words.next().filter(|_| has_commands(first)).map(|second| format!("{first} {second}"));
                let known = commands.contains(first) && whole.is_none_or(|whole| commands.contains(&whole));
                assert!(known, "{name}: there is no command `hearth {command}`");
                seen += 1;
            }
        }
    }
    assert!(seen > 100, "{seen}");
}

/// Every variable appears in a document.
#[test]
fn every_variable_of_ours_is_in_a_document() {
    let mut files = Vec::new();
    for dir in ["src", "container/agent-runner/src", "tests/it", "benches"] {
        sources(&root().join(dir), &mut files);
    }
    let is_name = |name: &&str| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') && !name.is_empty();
    let mut names: BTreeSet<String> = BTreeSet::new();
    for file in files.iter().map(String::as_str).chain(["src/config/seams.rs"]) {
        let code = code(file);
        names
            .extend(between(&code, "\"HEARTH_", "\"").into_iter().filter(is_name).map(|name| format!("HEARTH_{name}")));
    }
    assert!(names.len() > 20, "{names:?}");
    let mut told: String = documents().iter().map(|name| text(name)).collect();
    told += &text("container/wire/README.md");
    told.extend(text("src/config/seams.rs").lines().filter(|line| line.starts_with("//! | ")));
    told.extend(text("tests/agent.py").split("\"\"\"").nth(1).map(str::to_owned));
    let words: BTreeSet<&str> = told.split(|c: char| !c.is_ascii_uppercase() && c != '_').collect();
    let missing: Vec<&String> = names.iter().filter(|name| !words.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "no document names these variables: {missing:?}");
}

/// The table for operators lists exactly the registered metrics.
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

/// Every type that the glossary names exists.
#[test]
fn the_glossary_names_words_of_the_code() {
    let mut files = Vec::new();
    for dir in ["src", "container"] {
        sources(&root().join(dir), &mut files);
    }
    let code: String = files.iter().map(|file| code(file)).collect();
    let glossary = text("docs/glossary.md");
    let words = glossary.lines().filter_map(|line| line.strip_suffix("` |")?.rsplit_once('`').map(|(_, word)| word));
    let words: Vec<&str> = words.collect();
    assert!(words.len() > 30, "{words:?}");
    let missing: Vec<&&str> = words.iter().filter(|word| !code.contains(**word)).collect();
    assert!(missing.is_empty(), "docs/glossary.md says that the code has these words: {missing:?}");
}

/// Links between documents have existing targets.
#[test]
fn links_between_documents_lead_somewhere() {
    for name in &documents() {
        for link in between(&text(name), "](", ")") {
            if link.contains("://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let base = root().join(name);
            let file = if path.is_empty() { base } else { base.parent().unwrap().join(path) };
            let found = std::fs::read(&file).unwrap_or_else(|_| panic!("{name}: {link} leads nowhere"));
            // Pictures have no headings.
            let found = String::from_utf8_lossy(&found);
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
