//! The machine under the world: daemons that start anew over the same store, and power that goes.

use hearth::engine::commit::Submission;
use hearth::model::{Awake, Input};
use hearth::state::Store;

use super::{World, engine};

impl World {
    /// The daemon dies with everything it had in memory, and another one opens the store, in a map of so many bytes if
    /// that is to be another one. What it has to do first is up to the caller.
    pub(crate) fn reopen(&mut self, map_bytes: Option<usize>) {
        self.close();
        self.options.map_bytes = map_bytes.or(self.options.map_bytes);
        self.open();
        self.awake = Awake::new(self.store().begin_run().unwrap(), 0);
    }

    /// The power goes while a group is being committed: nobody hears of it, and the store is what it was after the commit
    /// before. A commit syncs its pages before the page that makes them count, and is answered after both; so the one
    /// that is under way is all that a power cut can take, and it takes it whole. Here the file of the store is put back
    /// as it was before the group, which is the same.
    pub(crate) fn cut_power(&mut self, inputs: Vec<Input>) {
        self.close();
        let file = self.dir.path().join("store/data.mdb");
        let before = std::fs::read(&file).unwrap();
        self.open();
        let group: Vec<Submission> = inputs.into_iter().map(|input| Submission { input, dry_run: false }).collect();
        let (now, entropy) = (self.now(), self.entropy());
        drop(self.engine().commit(&group, now, entropy));
        self.close();
        std::fs::write(&file, before).unwrap();
        self.open();
        self.awake = Awake::new(self.store().begin_run().unwrap(), 0);
    }

    /// Bytes of the store's file.
    pub(crate) fn file_bytes(&self) -> usize {
        usize::try_from(std::fs::metadata(self.dir.path().join("store/data.mdb")).unwrap().len()).unwrap()
    }

    fn close(&mut self) {
        self.effects.clear();
        drop(self.engine.take());
    }

    fn open(&mut self) {
        let store = Store::open(self.dir.path(), self.options.clone()).unwrap();
        self.engine = Some(engine(store, &self.policy, self.builds));
    }
}
