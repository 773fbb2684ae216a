//! Examples of `hearth.toml` in the documents: the program accepts them.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::{documents, text};
use crate::host::Host;

/// Where examples keep their secrets.
const HOME: &str = "file:/home/you/";

/// What stands before a part of a file: nothing, a table of an agent, or one of a secret. Two secrets are known.
const BEFORE: [&str; 3] = [
    "",
    "[secrets.git]\nvalue = \"env:X\"\nhosts = [\"a.example\"]\nheader = \"X: {}\"\n\
     [secrets.github]\nvalue = \"env:X\"\nhosts = [\"a.example\"]\nheader = \"X: {}\"\n\
     [[agents]]\nfolder = \"main\"\nprovider = \"claude\"\nnetwork = \"ask\"\n",
    "[secrets.home]\nvalue = \"env:X\"\nhosts = [\"a.example\"]\nheader = \"X: {}\"\n",
];

/// Every block of TOML with its document, without its indentation.
fn blocks() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for document in documents() {
        let whole = text(&document);
        let mut lines = whole.lines();
        while let Some(line) = lines.next() {
            let indent = line.len() - line.trim_start().len();
            if line.trim_start() != "```toml" {
                continue;
            }
            let inner = lines.by_ref().take_while(|line| !line.trim_start().starts_with("```"));
            let block = inner.map(|line| line.get(indent..).unwrap_or_default().to_owned() + "\n").collect();
            found.push((document.clone(), block));
        }
    }
    assert!(found.len() > 35, "only {} blocks were found", found.len());
    found
}

/// Creates the files that an example names, and returns it with their paths.
fn with_secrets(block: &str, home: &Path) -> String {
    for rest in block.split(HOME).skip(1) {
        let file = home.join(rest.split('"').next().unwrap());
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let secret = std::fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&file);
        std::io::Write::write_all(&mut secret.unwrap(), b"secret-of-the-example").unwrap();
    }
    block.replace(HOME, &format!("file:{}/", home.display()))
}

#[test]
fn every_whole_file_in_the_documents_is_applied() {
    let mut applied = Vec::new();
    for (document, block) in blocks().into_iter().filter(|(_, block)| block.contains("schema = ")) {
        let host = Host::new();
        let file = host.path("hearth.toml");
        std::fs::write(&file, with_secrets(&block, &host.path("you"))).unwrap();
        let done = host.run(&["apply", file.to_str().unwrap()], b"");
        assert_eq!(done.code, Some(0), "{document}: {done:#?}\n{block}");
        assert!(!done.stderr.contains("does not exist"), "{document}: {done:#?}");
        host.check();
        applied.push(document);
    }
    for document in ["docs/configuration.md", "docs/family.md", "docs/setup.md"] {
        assert!(applied.iter().any(|one| one == document), "{document} has no whole file: {applied:?}");
    }
}

#[test]
fn every_part_of_a_file_in_the_documents_is_accepted() {
    let host = Host::with_echo();
    let file = host.path("part.toml");
    for (document, block) in blocks().into_iter().filter(|(_, block)| !block.contains("schema = ")) {
        let part = with_secrets(&block, &host.path("you"));
        let tried = BEFORE.map(|before| {
            std::fs::write(&file, format!("schema = 1\n{before}{part}")).unwrap();
            host.run(&["apply", "--dry-run", file.to_str().unwrap()], b"")
        });
        assert!(tried.iter().any(|one| one.code == Some(0)), "{document}:\n{block}\n{tried:#?}");
    }
}
