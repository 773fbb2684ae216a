//! Disk space of the store: enough; none for new work, while messages that end work must succeed; and almost none at
//! all, which exceeds what Hearth is designed for.

use hearth::model::Input;
use hearth::model::report::Reply;
use hearth::model::task_command::TaskCommand;
use hearth::state::{Admission, NoRoom, Options};

use super::Sim;

/// Address space of the store when there is enough.
const ROOMY: usize = 512 << 20;
const PAGE: usize = 4_096;
/// Number of pages left in a nearly full map, in addition to free pages within it.
const PAGES: usize = 8 * PAGE;
/// Smallest map of which a fifth is enough for a transaction over a small store.
const MAP_MIN: usize = 4 << 20;
/// The reserve, which is released when there is no space.
const RESERVE: u64 = 1 << 16;
/// Space that must stay free on the disk.
const MARGIN: u64 = 1 << 16;

/// Maximum number of steps without space, in addition to the first ten.
const STEPS: u64 = 80;

/// The amount of space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Enough,
    /// Free disk space is below the required minimum.
    Disk,
    /// The store has nearly reached its maximum size.
    Limit(u64),
    /// The map is hardly larger than the store plus the fifth that Hearth reserves for ending work.
    Map(usize),
    /// The map has only some pages left: sooner or later an input finds no space in it.
    Pages(usize),
}

impl Room {
    pub(super) fn set(self, options: &mut Options) {
        (options.reserve_bytes, options.margin_bytes) = (RESERVE, MARGIN);
        (options.max_bytes, options.map_bytes) = (u64::MAX, Some(ROOMY));
        match self {
            Self::Enough => {}
            Self::Disk => options.margin_bytes = u64::MAX / 2,
            Self::Limit(bytes) => options.max_bytes = bytes,
            Self::Map(bytes) | Self::Pages(bytes) => options.map_bytes = Some(bytes),
        }
    }
}

impl Sim {
    pub(super) fn is_tight(&self) -> bool {
        self.room != Room::Enough
    }

    /// Space runs out for some time, or becomes available again.
    pub(super) fn tighten(&mut self) {
        if self.is_tight() {
            return self.widen();
        }
        self.tight_until = self.step + 10 + self.chance.next(STEPS);
        let file = self.world.file_bytes().next_multiple_of(PAGE);
        let used = self.world.store().usage().unwrap().used;
        let more = self.chance.index(64) * PAGE;
        let room = match self.chance.next(4) {
            0 => Room::Disk,
            1 => Room::Limit(used + more as u64),
            2 => {
                let map = usize::try_from(used + used / 4).unwrap().next_multiple_of(PAGE);
                Room::Map(map.max(file).max(MAP_MIN) + more)
            }
            _ => Room::Pages(file + more % PAGES),
        };
        self.make(room);
        self.count(match room {
            Room::Pages(_) => "times with some pages",
            _ => "times without room for new work",
        });
    }

    pub(super) fn widen(&mut self) {
        self.make(Room::Enough);
    }

    fn make(&mut self, room: Room) {
        self.forget();
        self.world.reopen(|options| room.set(options));
        assert!(self.world.store().has_reserve(), "a start makes the reserve if there is room for it");
        self.room = room;
        self.started();
    }

    /// Whether new work is taken in.
    pub(super) fn is_open(&self) -> bool {
        if !self.is_tight() {
            return true;
        }
        let admission = self.world.store().admission().unwrap();
        let disk = matches!(admission, Admission::Refuse(NoRoom::Disk { .. }));
        assert!(disk || self.room != Room::Disk, "the disk is full, and new work would be taken in");
        matches!(admission, Admission::Open)
    }

    /// An input did nothing, because there was no space. New work is refused with its own code instead, and inputs that
    /// end work must succeed as long as Hearth's reserve exists.
    pub(super) fn found_no_room(&mut self, input: &Input) {
        assert!(!begins_work(input), "no room, and it was not refused by name: {input:?}");
        assert!(matches!(self.room, Room::Pages(_)), "there is room for what ends work ({:?}): {input:?}", self.room);
        assert!(!self.world.store().has_reserve(), "no room, and the reserve was kept");
        self.count("inputs without room");
    }

    /// Only new work is refused for lack of space, and on a full disk all of it is.
    pub(super) fn answered_for_want_of_room(&mut self, input: &Input, reply: &Reply, open: bool) {
        if is_full(reply) {
            assert!(self.is_tight() && begins_work(input), "refused in {:?}: {input:?}", self.room);
            return self.count("refused for want of room");
        }
        if open {
            return;
        }
        assert!(self.room != Room::Disk || !begins_work(input), "{input:?} was taken in on a full disk: {reply:?}");
        match input {
            Input::Collected(_) => self.count("collected without room"),
            Input::Delivered(..) => self.count("delivered without room"),
            Input::Pressed(_) | Input::Decide(..) => self.count("decided without room"),
            Input::Runtime(_) => self.count("news of the runtime without room"),
            _ => {}
        }
    }
}

/// Inputs that Hearth may refuse for lack of space.
fn begins_work(input: &Input) -> bool {
    match input {
        Input::Inbound(_) => true,
        Input::Configure(configure) => !configure.may_make_room(),
        Input::Task(command) => matches!(command, TaskCommand::Add(_) | TaskCommand::Set(..) | TaskCommand::Run(_)),
        _ => false,
    }
}

pub(super) fn is_full(reply: &Reply) -> bool {
    matches!(reply, Reply::Refused(refusal) if refusal.code == "store_full")
}
