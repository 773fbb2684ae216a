//! Writes an archive.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::Stat;
use sha2::{Digest as _, Sha256};

use super::error::Error;
use super::format::{Copied, Head, Kind, Writer, hex};
use super::names::{CONTENTS, FILES, IDENTITY, STORE};
use super::report::{Contents, Identity};
use super::tree::{Rules, Trees};
use crate::config::Paths;
use crate::contracts::dir::Dir;
use crate::model::content::BlobId;
use crate::model::entity::Folder;

/// Bytes that stay free on the disk of the data directory, so that a backup does not stop the daemon's work.
const RESERVE: u64 = 128 << 20;
/// Mode of files that the archive itself adds.
const PRIVATE: u32 = 0o600;

/// What is archived.
#[derive(Debug)]
pub struct Source<'a> {
    /// The data directory.
    pub paths: &'a Paths,
    /// A directory with a snapshot of the store and its manifest.
    pub store: &'a Path,
    /// Folders of the agents in the snapshot.
    pub folders: &'a [Folder],
    /// Files that the snapshot needs.
    pub blobs: &'a [BlobId],
    /// The identity of the archive.
    pub identity: &'a Identity,
}

/// Writes an archive to a new file and syncs it. The daemon may run meanwhile. Returns what is in the archive and what is
/// not.
///
/// # Errors
/// [`Error`]; the file is then unusable. Files of agents cause none: what cannot be copied of them is skipped and listed.
pub fn write(path: &Path, source: &Source<'_>) -> Result<Contents, Error> {
    let mut contents = Contents::default();
    let mut writer = Writer::create(path, reserve(path, source.paths.data())?)?;
    put_json(&mut writer, IDENTITY, source.identity)?;
    for entry in STORE {
        put_store(&mut writer, source.store, entry)?;
    }
    let mut trees = Trees { writer: &mut writer, contents: &mut contents };
    configuration(&mut trees, source)?;
    blobs(&mut trees, source)?;
    for (path, at) in [(source.paths.skills(), "skills"), (source.paths.trusted(), "trusted")] {
        if let Some(dir) = Dir::find(&path)? {
            let stat = dir.own_stat()?;
            trees.copy_root(dir, &stat, at, Rules::Folder)?;
        }
    }
    agents(&mut trees, source)?;
    bridges(&mut trees, source)?;
    let summary = writer.summary();
    (contents.entries, contents.bytes, contents.sha256) = (summary.entries, summary.bytes, summary.sha256);
    put_json(&mut writer, CONTENTS, &contents)?;
    writer.finish()?;
    Ok(contents)
}

fn reserve(path: &Path, data: &Path) -> Result<u64, Error> {
    let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev()).map_err(Error::io("look at", path));
    let dir = path.parent().unwrap_or(path);
    Ok(if device(dir)? == device(data)? { RESERVE } else { 0 })
}

fn put_json<T: serde::Serialize>(writer: &mut Writer, entry: &[u8], value: &T) -> Result<(), Error> {
    let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
    text.push(b'\n');
    let head = Head { path: entry.to_vec(), mode: PRIVATE, size: text.len() as u64, ..Head::default() };
    writer.put(&head, &mut text.as_slice()).map(drop)
}

/// The snapshot has to be complete.
fn put_store(writer: &mut Writer, store: &Path, entry: &[u8]) -> Result<(), Error> {
    let name = entry.rsplit(|byte| *byte == b'/').next().unwrap_or(entry);
    let path = store.join(String::from_utf8_lossy(name).as_ref());
    let mut file = File::open(&path).map_err(Error::io("open", &path))?;
    let found = file.metadata().map_err(Error::io("look at", &path))?;
    let modified = u64::try_from(found.mtime()).unwrap_or(0);
    let head = Head { path: entry.to_vec(), mode: PRIVATE, modified, size: found.len(), ..Head::default() };
    match writer.put(&head, &mut file)? {
        Copied::Whole => Ok(()),
        Copied::Partly(reason) => Err(Error::Changed { path, reason }),
    }
}

/// Files of the operator in the data directory.
fn configuration(trees: &mut Trees<'_>, source: &Source<'_>) -> Result<(), Error> {
    let data = Dir::open(source.paths.data())?;
    for name in FILES {
        trees.copy_file(&data, name.as_ref(), name.as_bytes())?;
    }
    let Some(secrets) = Dir::find(&source.paths.kept_secrets())? else { return Ok(()) };
    for name in secrets.list(SECRETS_MAX)? {
        let at = super::names::join(b"secrets", &name);
        if source.identity.with_secrets {
            trees.copy_file(&secrets, &name, &at)?;
        } else {
            trees.contents.leave_out(&at);
        }
    }
    Ok(())
}

/// Most files of `secrets/`.
const SECRETS_MAX: usize = 10_000;

/// The files that the snapshot needs. Their names are their digests.
fn blobs(trees: &mut Trees<'_>, source: &Source<'_>) -> Result<(), Error> {
    let Some(files) = Dir::find(&source.paths.files())? else {
        source.blobs.iter().for_each(|blob| trees.contents.skip(entry_of(blob).as_bytes(), "it is missing"));
        return Ok(());
    };
    for blob in source.blobs {
        let entry = entry_of(blob);
        let shard = OsStr::new(blob.as_str().get(..2).unwrap_or_default());
        let dir = files.dir(shard)?;
        let found = dir.map(|dir| dir.any_file(OsStr::new(blob.as_str()))).transpose()?.and_then(Result::ok);
        match found {
            None => trees.contents.skip(entry.as_bytes(), "it is missing"),
            Some((file, stat)) => blob_file(trees, &entry, blob, file, &stat)?,
        }
    }
    Ok(())
}

fn entry_of(blob: &BlobId) -> String {
    let name = blob.as_str();
    format!("files/{}/{name}", name.get(..2).unwrap_or_default())
}

fn blob_file(trees: &mut Trees<'_>, entry: &str, blob: &BlobId, mut file: File, stat: &Stat) -> Result<(), Error> {
    let digest = match digest(&mut file) {
        Ok(digest) => digest,
        Err(error) => {
            trees.contents.skip(entry.as_bytes(), format!("it cannot be read: {error}"));
            return Ok(());
        }
    };
    if digest != blob.as_str() {
        trees.contents.skip(entry.as_bytes(), "it is damaged: its digest does not match its name");
        return Ok(());
    }
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let modified = u64::try_from(stat.st_mtime).unwrap_or(0);
    let head = Head { path: entry.into(), kind: Kind::File, mode: PRIVATE, modified, size, ..Head::default() };
    match trees.writer.put(&head, &mut file)? {
        Copied::Whole => Ok(()),
        // It is written once and never again.
        Copied::Partly(reason) => Err(Error::Changed { path: entry.into(), reason }),
    }
}

fn digest(file: &mut File) -> std::io::Result<String> {
    let (mut digest, mut buffer) = (Sha256::new(), vec![0; 1 << 17]);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            file.rewind()?;
            return Ok(hex(digest));
        }
        digest.update(buffer.get(..read).unwrap_or_default());
    }
}

/// Most channels with bridges.
const BRIDGES_MAX: usize = 10_000;

/// What bridges keep of their networks. Each can write into its own directory only.
fn bridges(trees: &mut Trees<'_>, source: &Source<'_>) -> Result<(), Error> {
    let with_secrets = source.identity.with_secrets;
    let Some(bridges) = Dir::find(&source.paths.data().join("bridges"))? else { return Ok(()) };
    for name in bridges.list(BRIDGES_MAX)? {
        // The names are those that Hearth gives to channels.
        let (Some(channel), Some(bridge)) = (name.to_str(), bridges.dir(&name)?) else { continue };
        let at = format!("bridges/{channel}/state");
        trees.copy(&bridge, "state".as_ref(), &at, Rules::Home { with_secrets })?;
    }
    Ok(())
}

/// The agents' folders and homes, and the files beside the folders.
fn agents(trees: &mut Trees<'_>, source: &Source<'_>) -> Result<(), Error> {
    let with_secrets = source.identity.with_secrets;
    if let Some(groups) = Dir::find(&source.paths.groups())? {
        trees.copy_file(&groups, "CLAUDE.md".as_ref(), b"groups/CLAUDE.md")?;
        let shared = std::iter::once("global");
        for name in shared.chain(source.folders.iter().map(Folder::as_str)) {
            trees.copy(&groups, name.as_ref(), &format!("groups/{name}"), Rules::Folder)?;
        }
    }
    let Some(homes) = Dir::find(&source.paths.homes())? else { return Ok(()) };
    for name in source.folders.iter().map(Folder::as_str) {
        trees.copy(&homes, name.as_ref(), &format!("homes/{name}"), Rules::Home { with_secrets })?;
    }
    Ok(())
}
