//! Restarts of the daemon over the same store, and power cuts.

use std::path::{Path, PathBuf};

use hearth::engine::commit::Submission;
use hearth::model::{Awake, Input};
use hearth::state::backup::{self, BackupPath, Proof, Request, Restore, Unwatched};
use hearth::state::{Error, Options, Store};

use super::{World, engine};

impl World {
    /// The daemon dies with everything it had in memory, and another one opens the store, perhaps with other limits.
    /// The caller decides what it does first.
    pub(crate) fn reopen(&mut self, change: impl FnOnce(&mut Options)) {
        self.close();
        change(&mut self.options);
        self.open();
        self.awake = Awake::new(self.store().begin_run().unwrap(), 0);
    }

    /// A newer Hearth used the store meanwhile. This version refuses it without changing a byte. Then the store is put
    /// back as it was.
    pub(crate) fn refuse_a_newer_store(&mut self) {
        let own = self.bytes_when_closed();
        self.open();
        let newer = |db: &hearth::state::Tables, txn: &mut hearth::state::Write<'_>| {
            let mut meta = db.meta.require(txn, &())?;
            meta.format += 1;
            db.meta.put(txn, &(), &meta)
        };
        self.store().write(newer).unwrap();
        let theirs = self.bytes_when_closed();
        let opened = Store::open(self.dir.path(), self.options.clone());
        assert!(matches!(opened, Err(Error::NewerFormat { .. })), "a store of a newer Hearth was opened: {opened:?}");
        assert!(std::fs::read(self.file()).unwrap() == theirs, "a store that was refused has changed");
        std::fs::write(self.file(), own).unwrap();
        self.open();
    }

    /// The power fails during the commit of a group: no caller gets an answer, and the store is as after the previous
    /// commit. A commit syncs its pages before the page that makes them valid, and is answered after both. So a power
    /// cut can lose only the commit in progress, and loses it entirely. Here the file of the store is replaced by its
    /// state before the group, which is equivalent.
    pub(crate) fn cut_power(&mut self, inputs: Vec<Input>) {
        let before = self.bytes_when_closed();
        self.open();
        let group: Vec<Submission> = inputs.into_iter().map(Submission::new).collect();
        let (now, entropy) = (self.now(), self.entropy());
        drop(self.engine().commit(&group, now, entropy));
        self.close();
        std::fs::write(self.file(), before).unwrap();
        self.open();
        self.awake = Awake::new(self.store().begin_run().unwrap(), 0);
    }

    /// Another world with the same store and the same clock. Its outside is empty, and nothing is in progress.
    pub(crate) fn twin(&mut self) -> Self {
        let bytes = self.bytes_when_closed();
        let mut twin = Self::with_builds(self.builds, self.policy.clone(), |options| *options = self.options.clone());
        twin.close();
        std::fs::write(twin.file(), bytes).unwrap();
        (twin.wall, twin.awake) = (self.wall, self.awake);
        twin.groups.set(self.groups.get());
        twin.open();
        self.open();
        twin
    }

    /// Makes a backup while the daemon runs.
    pub(crate) fn back_up(&self, to: &Path) {
        let data = self.dir.path().to_owned();
        let (place, now) = (BackupPath::At(to.to_owned()), self.now().wall);
        let request = Request { data, place, now, keep: None, proof: Proof::Sound };
        backup::backup(self.store().reader(), &request, &Unwatched).unwrap();
    }

    /// A backup replaces the store, and another daemon opens it. The caller decides what it does first.
    pub(crate) fn restore(&mut self, from: &Path) {
        let epoch = self.entropy().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.close();
        let request = Restore {
            backup: from.to_owned(),
            data: self.dir.path().canonicalize().unwrap(),
            replace: true,
            keep_id: false,
            install: 1,
            epoch,
            now: self.now().wall,
            proof: Proof::Sound,
        };
        let aside = backup::restore(&request, &|_| Ok(()), &Unwatched).unwrap().aside.unwrap();
        std::fs::remove_dir_all(aside).unwrap();
        self.open();
        self.awake = Awake::new(self.store().begin_run().unwrap(), 0);
    }

    /// Damages a record on the disk while the store is closed; only that record contains `text`.
    pub(crate) fn damage(&mut self, text: &[u8]) {
        self.close();
        damage(&self.file(), text);
        self.forsaken = true;
        self.open();
    }

    /// Size of the store's file in bytes.
    pub(crate) fn file_bytes(&self) -> usize {
        usize::try_from(std::fs::metadata(self.file()).unwrap().len()).unwrap()
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("store/data.mdb")
    }

    fn bytes_when_closed(&mut self) -> Vec<u8> {
        self.close();
        std::fs::read(self.file()).unwrap()
    }

    fn close(&mut self) {
        self.effects.clear();
        drop(self.engine.take());
    }

    /// Every start proposes a name for a new installation; an existing store has one and keeps it.
    fn open(&mut self) {
        self.options.install += 1;
        let store = Store::open(self.dir.path(), self.options.clone()).unwrap();
        self.engine = Some(engine(store, &self.policy, self.builds));
    }
}

/// Changes one character of a text in the file of a closed store.
pub(crate) fn damage(store: &Path, text: &[u8]) {
    let mut bytes = std::fs::read(store).unwrap();
    let places: Vec<usize> =
        bytes.windows(text.len()).enumerate().filter(|(_, window)| *window == text).map(|(at, _)| at).collect();
    assert!(!places.is_empty(), "the text is not in the store");
    for at in places {
        bytes[at] ^= 0x20;
    }
    std::fs::write(store, bytes).unwrap();
}
