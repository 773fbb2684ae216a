//! Opens files that agents send: copies in the directories of their sessions.

use std::fs::File;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, open as open_file};

/// Opens a file that is to be sent. Names are relative and stay inside the directory, and no link is followed.
///
/// # Errors
/// Why it cannot be sent, for the chat.
pub(super) fn open(sessions: &Path, name: &str) -> Result<(File, PathBuf), String> {
    if !Path::new(name).components().all(|part| matches!(part, Component::Normal(_))) {
        return Err("its name is not that of a kept file".to_owned());
    }
    let path: PathBuf = sessions.join(name);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = open_file(&path, flags, Mode::empty()).map_err(|error| super::unreadable(&path, &error.into()))?;
    let file = File::from(opened);
    let about = file.metadata().map_err(|error| super::unreadable(&path, &error))?;
    if about.is_file() { Ok((file, path)) } else { Err("it is not a file".to_owned()) }
}
