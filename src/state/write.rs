//! A write transaction, and the small state that it keeps in memory until the commit.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Env;
use super::error::{Error, Result};
use super::key::{KeyPart, encoded};
use crate::model::id::{AgentId, Counter};
use crate::model::recall::RecallScope;

/// A write transaction, which can also read. Only [`Store`](super::Store) begins and commits one.
pub struct Write<'t> {
    txn: heed::RwTxn<'t>,
    held: Held,
    made: RefCell<DerivedCache>,
    crowded: BTreeSet<RecallScope>,
    lasting: Option<&'t Lasting>,
}

/// Cache of derived values, by their basis, type and key.
type DerivedCache = Vec<(Basis, TypeId, HashMap<Vec<u8>, Arc<dyn Any + Send + Sync>, Quick>)>;

/// Derived values that outlive a commit. A transaction takes them when it begins and leaves them right before it commits,
/// so a change that is undone leaves none. Only the transaction after the one that left them takes them.
#[derive(Debug, Default)]
pub(super) struct Lasting(Mutex<Left>);

/// What a transaction left.
#[derive(Debug, Default)]
struct Left {
    by: usize,
    made: DerivedCache,
    crowded: BTreeSet<RecallScope>,
}

impl Lasting {
    /// Takes the scopes of [`Write::note_crowded`].
    pub(super) fn take_crowded(&self) -> BTreeSet<RecallScope> {
        std::mem::take(&mut self.lock().crowded)
    }

    fn lock(&self) -> MutexGuard<'_, Left> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A fast hasher without protection against chosen collisions: a commit has too few inputs for them to matter.
type Quick = BuildHasherDefault<Words>;

/// A multiplicative hash over words of eight bytes.
#[derive(Default)]
struct Words(u64);

impl Words {
    const fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Words {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.word(u64::from_be_bytes(*word)));
        self.word(rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
    }

    fn write_usize(&mut self, number: usize) {
        self.word(u64::try_from(number).unwrap_or(u64::MAX));
    }

    /// The product is well mixed only in its upper bits.
    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
}

/// Tables that cached values are derived from: `basis` in the schema. A change of one of them invalidates the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Tables that only people's decisions change: wirings, roles, members and what they refer to.
    Decisions,
    /// Live incarnations and their claims.
    Runs,
    /// Rows of sessions.
    Sessions,
    /// The settings of the installation. These values outlive a commit.
    Settings,
    /// What is set aside for turns under way. These values outlive a commit.
    Reservations,
    /// What people allowed and were told of budgets. These values outlive a commit.
    BudgetStates,
    /// The ledger of costs. These values outlive a commit.
    Spend,
    /// Its totals. These values outlive a commit.
    Totals,
}

impl Basis {
    /// Whether values outlive a commit. There are few of such a basis.
    const fn lasts(self) -> bool {
        matches!(self, Self::Settings | Self::Reservations | Self::BudgetStates | Self::Spend | Self::Totals)
    }
}

/// Values that nearly every input changes. Many inputs are committed together, so they are written only once per
/// commit.
#[derive(Debug, Clone, Default)]
pub(super) struct Held {
    /// Last allocated numbers.
    pub(super) counters: [Option<u64>; Counter::ALL.len()],
    /// Numbers of pending or claimed triggering messages, by agent.
    pub(super) backlog: Vec<(AgentId, u64)>,
}

impl<'t> Write<'t> {
    pub(super) fn new(txn: heed::RwTxn<'t>, lasting: &'t Lasting) -> Self {
        let Left { by, made, .. } = std::mem::take(&mut *lasting.lock());
        let made = if by.saturating_add(1) == txn.id() { made } else { DerivedCache::new() };
        Self { txn, held: Held::default(), made: RefCell::new(made), crowded: BTreeSet::new(), lasting: Some(lasting) }
    }

    /// Commits, after [`Tables::commit`](super::Tables::commit) has written the cached values.
    pub(super) fn finish(self) -> Result<()> {
        let mut made = self.made.into_inner();
        made.retain(|(basis, ..)| basis.lasts());
        if let Some(lasting) = self.lasting {
            *lasting.lock() = Left { by: self.txn.id(), made, crowded: self.crowded };
        }
        self.txn.commit().map_err(Error::lmdb("committing"))
    }

    pub(super) fn abort(self) {
        self.txn.abort();
    }

    /// Runs a nested transaction. If it fails, it is rolled back.
    pub(super) fn within<T, E>(
        &mut self,
        env: &Env,
        work: impl FnOnce(&mut Write<'_>) -> std::result::Result<T, E>,
    ) -> Result<std::result::Result<T, E>> {
        let txn = env.nested_write_txn(&mut self.txn).map_err(Error::lmdb("beginning a transaction"))?;
        let (made, crowded) = (RefCell::default(), BTreeSet::new());
        let mut part = Write { txn, held: self.held.clone(), made, crowded, lasting: None };
        let answer = work(&mut part);
        let Write { txn, held, mut crowded, .. } = part;
        self.crowded.append(&mut crowded);
        match &answer {
            Ok(_) => {
                txn.commit().map_err(Error::lmdb("committing"))?;
                self.held = held;
                self.made.get_mut().clear();
            }
            Err(_) => txn.abort(),
        }
        Ok(answer)
    }

    /// Returns a value derived only from tables of this basis, and from what never changes. It is computed once for all
    /// inputs that are committed together, and if the basis says so for those after them, unless one of these tables
    /// changes in between. The type and the key identify it.
    ///
    /// # Errors
    /// Those of `make`. Failures are not cached.
    pub fn once<T: Any + Send + Sync>(
        &self,
        basis: Basis,
        key: &impl KeyPart,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        if let Some(known) = self.known(basis, key) {
            return Ok(known);
        }
        let made = Arc::new(make()?);
        self.keep(basis, key, Arc::clone(&made));
        Ok(made)
    }

    /// The value of [`Self::once`], if it is cached.
    #[must_use]
    pub fn known<T: Any + Send + Sync>(&self, basis: Basis, key: &impl KeyPart) -> Option<Arc<T>> {
        let what = (basis, TypeId::of::<T>());
        let (key, made) = (encoded(key), self.made.borrow());
        let (.., values) = made.iter().find(|(basis, of, _)| (*basis, *of) == what)?;
        values.get(key.as_slice()).map(Arc::clone)?.downcast().ok()
    }

    /// Caches a value for [`Self::once`], such as a row that was just written.
    pub fn keep<T: Any + Send + Sync>(&self, basis: Basis, key: &impl KeyPart, value: Arc<T>) {
        let what = (basis, TypeId::of::<T>());
        let mut all = self.made.borrow_mut();
        match all.iter_mut().find(|(basis, of, _)| (*basis, *of) == what) {
            Some((.., values)) => drop(values.insert(key.to_bytes(), value)),
            None => {
                let value: Arc<dyn Any + Send + Sync> = value;
                all.push((what.0, what.1, std::iter::once((key.to_bytes(), value)).collect()));
            }
        }
    }

    /// Invalidates the cached values of this basis: one of its tables changes.
    pub(super) fn forget(&mut self, basis: Basis) {
        self.made.get_mut().retain(|(of, ..)| *of != basis);
    }

    /// Notes a scope whose new texts should become a segment. If they no longer need to, that does no harm.
    pub(super) fn note_crowded(&mut self, scope: RecallScope) {
        self.crowded.insert(scope);
    }

    /// Takes the values that are not written yet.
    pub(super) fn take_held(&mut self) -> Held {
        std::mem::take(&mut self.held)
    }

    /// The last number that this transaction allocated from a counter.
    pub(super) fn given(&self, counter: Counter) -> Option<u64> {
        Counter::ALL.iter().zip(self.held.counters).find(|(known, _)| **known == counter).and_then(|(_, given)| given)
    }

    /// Caches the last number of a counter.
    pub(super) fn give(&mut self, counter: Counter, number: u64) {
        let places = Counter::ALL.iter().zip(&mut self.held.counters);
        places.filter(|(known, _)| **known == counter).for_each(|(_, place)| *place = Some(number));
    }

    /// The backlog of an agent, if this transaction changed it.
    pub(super) fn backlog(&self, agent: AgentId) -> Option<u64> {
        self.held.backlog.iter().find(|(known, _)| *known == agent).map(|(_, count)| *count)
    }

    /// Caches the backlog of an agent.
    pub(super) fn set_backlog(&mut self, agent: AgentId, count: u64) {
        match self.held.backlog.iter_mut().find(|(known, _)| *known == agent) {
            Some((_, held)) => *held = count,
            None => self.held.backlog.push((agent, count)),
        }
    }
}

impl<'t> Deref for Write<'t> {
    type Target = heed::RwTxn<'t>;

    fn deref(&self) -> &Self::Target {
        &self.txn
    }
}

impl DerefMut for Write<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.txn
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::model::address::ChannelName;
    use crate::model::channel::{ChannelInstance, ChannelKind, UnknownChats};
    use crate::model::configure::Settings;
    use crate::model::entity::Origin;
    use crate::model::id::{AgentId, ChatId, MessageId, SessionId};
    use crate::model::incarnation::{Incarnation, IncarnationId, SpecDigest};
    use crate::model::time::{Awake, Timestamp};
    use crate::tests::store;
    use crate::{Basis, Error, ForeignKey, Result, Tables, Write};

    /// Allocates an id, counts a message, and fails if requested.
    fn work(db: &Tables, txn: &mut Write<'_>, fails: &bool) -> Result<MessageId> {
        let id = db.allocate(txn)?;
        db.change_waiting(txn, AgentId::new(1), |count| count + 1)?;
        if *fails { db.chats.require(txn, &ChatId::new(9)).map(|_| id) } else { Ok(id) }
    }

    #[test]
    fn what_is_held_is_written_with_the_group_and_undone_with_its_part() {
        let undoable: [fn(&bool) -> bool; 2] = [|_| true, |_| false];
        for undoable in undoable {
            let (_dir, store) = store();
            let answers = store.write_batch(&[false, true, false], work, undoable, Error::is_full).unwrap();
            let ids: Vec<Option<MessageId>> = answers.into_iter().map(Result::ok).collect();
            assert_eq!(ids, [Some(MessageId::new(1)), None, Some(MessageId::new(2))]);
            let (last, waiting) = store
                .read(|db, txn| Ok::<_, Error>((db.counter::<MessageId>(txn)?, db.backlog.get(txn, &AgentId::new(1))?)))
                .unwrap();
            assert_eq!((last, waiting), (2, Some(2)));
        }
    }

    #[test]
    fn a_backlog_of_none_has_no_row() {
        let (_dir, store) = store();
        let agent = AgentId::new(1);
        store.write(|db, txn| db.change_waiting(txn, agent, |_| 3)).unwrap();
        let seen = store.write(|db, txn| {
            let before = db.waiting(txn, agent)?;
            db.change_waiting(txn, agent, |count| count - before)?;
            Ok::<_, Error>((before, db.waiting(txn, agent)?))
        });
        assert_eq!(seen.unwrap(), (3, 0));
        assert!(store.read(|db, txn| db.backlog.is_empty(txn)).unwrap());
    }

    #[test]
    fn cached_values_are_computed_again_after_a_change() {
        let (_dir, store) = store();
        let name = |name: &str| ChannelName::new(name).unwrap();
        let put = |db: &Tables, txn: &mut Write<'_>, called: &str| {
            let channel = ChannelInstance {
                name: name(called),
                kind: ChannelKind::Webhook,
                program: None,
                token: None,
                base_url: None,
                secret: None,
                listen: None,
                link_previews: false,
                unknown_chats: UnknownChats::Ask,
                tell_strangers: false,
                origin: Origin::Runtime,
                created: Timestamp::from_millis(0),
            };
            db.channels.put(txn, &ForeignKey::of(&channel.name), &channel)
        };
        let count =
            |db: &Tables, txn: &Write<'_>| txn.once(Basis::Decisions, &(), || db.channels.len(txn)).map(|count| *count);
        store
            .write(|db, txn| {
                assert_eq!(count(db, txn)?, 0);
                put(db, txn, "a")?;
                assert_eq!(count(db, txn)?, 1, "a change makes it anew");
                db.allocate::<AgentId>(txn)?;
                let failed = txn.once::<u64>(Basis::Decisions, &(), || panic!("it is known"));
                assert_eq!(*failed?, 1);
                Ok::<_, Error>(())
            })
            .unwrap();
        store
            .write(|db, txn| {
                assert_eq!(count(db, txn)?, 1);
                store.part(txn, |part| put(db, part, "b"))?;
                assert_eq!(count(db, txn)?, 2, "so does a change in a part of it");
                let undone = store.part(txn, |part| {
                    put(db, part, "c")?;
                    assert_eq!(count(db, part)?, 3);
                    db.chats.require(part, &ChatId::new(9))
                });
                assert!(undone.is_err());
                assert_eq!(count(db, txn)?, 2);
                Ok::<_, Error>(())
            })
            .unwrap();
    }

    #[test]
    fn lasting_values_outlive_commits_but_not_changes_or_what_is_undone() {
        let (_dir, store) = store();
        let settings = |zone: &str| Settings { timezone: Some(zone.to_owned()), ..Settings::default() };
        let zone = |db: &Tables, txn: &Write<'_>| {
            let read = || Ok(db.settings.get(txn, &())?.and_then(|settings| settings.timezone));
            txn.once(Basis::Settings, &(), read).map(|zone| (*zone).clone())
        };
        let is_kept = |txn: &Write<'_>| {
            let mut is_kept = true;
            txn.once(Basis::Settings, &(), || Ok(std::mem::take(&mut is_kept).then(String::new)))?;
            Ok::<_, Error>(is_kept)
        };
        let write = |name: &'static str, fails: bool| {
            store.write(|db, txn| {
                db.settings.put(txn, &(), &settings(name))?;
                assert_eq!(zone(db, txn)?.as_deref(), Some(name));
                if fails { db.chats.require(txn, &ChatId::new(9)).map(drop) } else { Ok(()) }
            })
        };
        write("UTC", false).unwrap();
        assert!(store.write(|db, txn| db.allocate::<AgentId>(txn).and_then(|_| is_kept(txn))).unwrap());
        write("Europe/Berlin", true).unwrap_err();
        assert_eq!(store.write(|db, txn| zone(db, txn)).unwrap().as_deref(), Some("UTC"), "it was undone");
        store.write(|db, txn| store.part(txn, |part| db.settings.put(part, &(), &settings("Asia/Tokyo")))).unwrap();
        assert_eq!(store.write(|db, txn| zone(db, txn)).unwrap().as_deref(), Some("Asia/Tokyo"));
    }

    #[test]
    fn a_change_invalidates_only_values_of_its_basis() {
        let (_dir, store) = store();
        store
            .write(|db, txn| {
                let runs =
                    |txn: &Write<'_>| txn.once(Basis::Runs, &(), || db.incarnations.len(txn)).map(|count| *count);
                let chats = |txn: &Write<'_>| txn.once(Basis::Decisions, &(), || db.chats.len(txn)).map(drop);
                chats(txn)?;
                assert_eq!(runs(txn)?, 0);
                let id = IncarnationId::new(SessionId::new(1), 1);
                let run = Incarnation::new(Awake::new(1, 0), Timestamp::from_millis(0), SpecDigest::new(0));
                db.incarnations.put(txn, &id, &run)?;
                assert_eq!(runs(txn)?, 1);
                txn.keep(Basis::Runs, &(), Arc::new(7_u64));
                assert_eq!(runs(txn)?, 7);
                db.incarnations.put(txn, &IncarnationId { number: 2, ..id }, &run)?;
                assert_eq!(runs(txn)?, 2);
                txn.once::<u64>(Basis::Decisions, &(), || panic!("it is known")).map(drop)
            })
            .unwrap();
    }
}
