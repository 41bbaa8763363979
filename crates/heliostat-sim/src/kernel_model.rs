//! What Linux would make of the legs of an array: which disks md takes, what it resyncs, and which
//! of them it then may read.
//!
//! Written from the format alone, with a reader of its own, and sharing nothing with the assembly
//! that heliostat itself uses: the two are compared, and what one of them would read after a crash
//! the other one must read as well. What no leg says, namely whose bitmap md believes and how far a
//! resync has come, is left open, so that each must be right.
//!
//! It does not know journals, reshapes, clusters, levels without mirrors, and superblocks of other
//! versions.

mod disk;
mod map;

pub(crate) use self::disk::ReadDisk;
use self::disk::{Bits, FAULTY, Fields, HAS_RECOVERY_OFFSET, IS_REPLACEMENT, ROLE_MAX};
use self::map::KernelMap;

/// A resync offset that says that nothing is to be resynced.
const CLEAN: u64 = u64::MAX;

/// How much of a disk is good that is not being recovered.
const WHOLE: u64 = u64::MAX;

/// A disk that is there.
#[derive(Clone, Copy)]
pub(crate) struct Disk<'a> {
    pub(crate) size_bytes: u64,
    pub(crate) read: &'a ReadDisk<'a>,
}

/// What becomes of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is read and written in this role.
    InSync(usize),
    /// It is written in this role, and good below so many sectors of its data.
    Recovering(usize, u64),
    /// It is written in this role beside the disk that it is to replace there, and good below so
    /// many sectors of its data.
    Replacing(usize, u64),
    /// It belongs to the array and has no role.
    Spare,
    /// It stays out, and why.
    LeftOut(String),
    /// It is not there.
    Absent,
}

/// Whether a resync that follows copies a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resyncs {
    /// Whichever disk's bitmap is believed.
    Surely,
    /// That depends on it.
    Perhaps,
    /// Never.
    Not,
}

/// A copy of a sector of the array: on which disk, and where on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) disk: usize,
    pub(crate) sector: u64,
}

/// An array as md would run it.
#[derive(Clone, Debug)]
pub(crate) struct KernelArray {
    map: KernelMap,
    members: Vec<Member>,
    /// The disk that is written in each role.
    by_role: Vec<Option<usize>>,
    /// The one that is to replace it.
    replacing: Vec<Option<usize>>,
    /// From which sector of the array on it is to be resynced, if anywhere.
    resync_from: u64,
    /// It was not stopped in order, and is not resynced: only one disk is in sync.
    is_alone: bool,
    /// Those of the disks in sync.
    bitmaps: Vec<Bits>,
}

#[derive(Clone, Debug)]
struct Member {
    taken: Taken,
    data_offset: u64,
    is_write_mostly: bool,
    bad_blocks: Vec<(u64, u64)>,
}

impl Member {
    const ABSENT: Self = Self {
        taken: Taken::Absent,
        data_offset: 0,
        is_write_mostly: false,
        bad_blocks: Vec::new(),
    };

    /// Whether it holds a sector of its data, in good order.
    fn holds(&self, sector: u64) -> bool {
        let is_filled = match self.taken {
            Taken::InSync(_) => true,
            Taken::Recovering(_, below) | Taken::Replacing(_, below) => sector < below,
            Taken::Spare | Taken::LeftOut(_) | Taken::Absent => false,
        };
        let mut bad = self.bad_blocks.iter();
        is_filled && !bad.any(|(first, count)| (*first..first + count).contains(&sector))
    }
}

/// Assembles an array of disks, in the order in which they are given; what is `None` is not there.
///
/// # Errors
/// Where md would not run it: what it lacks.
pub(crate) fn assemble(disks: &[Option<Disk<'_>>]) -> Result<KernelArray, String> {
    let read = |disk: &Disk<'_>| Fields::read(disk.size_bytes, disk.read);
    let said: Vec<Option<Result<Fields, String>>> =
        disks.iter().map(|disk| disk.as_ref().map(read)).collect();
    let freshest = freshest(said.iter().flatten().flatten())
        .ok_or_else(|| "no disk thinks that it has a role".to_owned())?;
    let map = KernelMap::of(freshest)?;
    let mut members = vec![Member::ABSENT; disks.len()];
    let mut by_role: Vec<Option<usize>> = vec![None; freshest.raid_disks as usize];
    let mut replacing = by_role.clone();
    // Of disks that claim one role, the one with most events has it.
    let mut order: Vec<(usize, &Result<Fields, String>)> = said
        .iter()
        .enumerate()
        .filter_map(|(index, fields)| Some((index, fields.as_ref()?)))
        .collect();
    order.sort_by_key(|(_, fields)| fields.as_ref().map_or(0, |fields| u64::MAX - fields.events));
    for (index, fields) in order {
        let member = &mut members[index];
        let fields = match fields {
            Ok(fields) => fields,
            Err(text) => {
                member.taken = Taken::LeftOut(text.clone());
                continue;
            }
        };
        let disk = disks[index].expect("it was read");
        member.data_offset = fields.data_offset;
        member.is_write_mostly = fields.is_write_mostly;
        member.bad_blocks = fields.bad_blocks(disk.read)?;
        member.taken = taken(fields, freshest);
        let (role, place) = match member.taken {
            Taken::InSync(role) | Taken::Recovering(role, _) => (role, &mut by_role[role]),
            Taken::Replacing(role, _) => (role, &mut replacing[role]),
            Taken::Spare | Taken::LeftOut(_) | Taken::Absent => continue,
        };
        if let Some(other) = *place {
            member.taken = Taken::LeftOut(format!("disk {other} has its role {role}"));
        } else {
            *place = Some(index);
        }
    }
    let mut array = KernelArray {
        map,
        members,
        by_role,
        replacing,
        resync_from: freshest.resync_offset,
        is_alone: false,
        bitmaps: Vec::new(),
    };
    array.look_at_replacements()?;
    if !array
        .map
        .is_enough(|role| array.disk_in_sync(role).is_some())
    {
        return Err("some bytes have no disk that is in sync".to_owned());
    }
    let in_sync: Vec<usize> = array.in_sync().collect();
    for index in &in_sync {
        let disk = disks[*index].expect("it is there");
        let fields = read(&disk).expect("it was read");
        let bits = fields.bits((array.map.array_sectors(), freshest.events), disk.read)?;
        array.bitmaps.extend(bits);
    }
    if array.map.is_mirror() && in_sync.len() == 1 {
        // There is nothing in sync that it could differ from.
        array.is_alone = array.resync_from != CLEAN;
        array.resync_from = CLEAN;
    }
    Ok(array)
}

/// The first one of those with most events, among disks that think that they have a role.
fn freshest<'a>(said: impl Iterator<Item = &'a Fields>) -> Option<&'a Fields> {
    let mut freshest: Option<&Fields> = None;
    for fields in said {
        let has_role = fields.own_role().is_some_and(|role| role < ROLE_MAX);
        if has_role && freshest.is_none_or(|best| fields.events > best.events) {
            freshest = Some(fields);
        }
    }
    freshest
}

/// What becomes of a disk that says this, where another one, or itself, is the freshest.
fn taken(fields: &Fields, freshest: &Fields) -> Taken {
    let out = |text: &str| Taken::LeftOut(text.to_owned());
    if fields.identity() != freshest.identity() {
        return out("it is of another array");
    }
    let Some(own) = fields.own_role() else {
        return Taken::Spare;
    };
    if own < ROLE_MAX && fields.events + 1 < freshest.events {
        return out("it is more than one event behind");
    }
    if own < ROLE_MAX {
        // Which disk has that role is another question, as a spare may have taken it.
        let role = freshest.own_role().expect("it has one");
        if !fields.roles.contains(&role) {
            return out("it says that the freshest one is out");
        }
    }
    // Who is behind may have been failed by those who are not.
    let role = if fields.events < freshest.events {
        match freshest.role_of(fields.dev_number) {
            Some(role) => role,
            None => return out("the freshest one has no place for it"),
        }
    } else {
        own
    };
    if role == FAULTY {
        return out("it was failed");
    }
    if role >= ROLE_MAX {
        return Taken::Spare;
    }
    let role = usize::from(role);
    if role >= freshest.raid_disks as usize {
        return out("it has a role that the array has not");
    }
    let is_begun = fields.features & HAS_RECOVERY_OFFSET != 0;
    let below = if is_begun {
        fields.recovery_offset
    } else {
        WHOLE
    };
    if fields.features & IS_REPLACEMENT != 0 {
        return Taken::Replacing(role, below);
    }
    recovering(role, below)
}

/// A disk that is good below so many sectors of its data.
const fn recovering(role: usize, below: u64) -> Taken {
    match below {
        WHOLE => Taken::InSync(role),
        below => Taken::Recovering(role, below),
    }
}

impl KernelArray {
    /// A disk that is to replace one that is not there is a disk like any other. A mirror is not
    /// run with one that is to replace a disk that is not whole.
    fn look_at_replacements(&mut self) -> Result<(), String> {
        let is_mirror = self.map.is_mirror();
        for (first, second) in self.by_role.iter_mut().zip(&mut self.replacing) {
            let Some(by) = *second else {
                continue;
            };
            match *first {
                None => {
                    *first = second.take();
                    if let Taken::Replacing(role, below) = self.members[by].taken {
                        self.members[by].taken = recovering(role, below);
                    }
                }
                Some(disk) if is_mirror => {
                    if !matches!(self.members[disk].taken, Taken::InSync(_)) {
                        return Err(format!(
                            "disk {by} replaces disk {disk}, which is not whole"
                        ));
                    }
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// What becomes of a disk.
    pub(crate) fn taken(&self, disk: usize) -> &Taken {
        &self.members[disk].taken
    }

    /// Whether nothing is to be resynced.
    pub(crate) fn is_clean(&self) -> bool {
        self.resync_from == CLEAN
    }

    fn disk_in_sync(&self, role: usize) -> Option<usize> {
        let disk = self.by_role[role]?;
        matches!(self.members[disk].taken, Taken::InSync(_)).then_some(disk)
    }

    /// The disks in sync, by role.
    pub(crate) fn in_sync(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.by_role.len()).filter_map(|role| self.disk_in_sync(role))
    }

    /// Whether a resync copies a sector of the array.
    pub(crate) fn resyncs(&self, sector: u64) -> Resyncs {
        if sector < self.resync_from {
            return Resyncs::Not;
        }
        let set = self.bitmaps.iter().filter(|bits| bits.has(sector)).count();
        if set == self.bitmaps.len() {
            Resyncs::Surely
        } else if set > 0 {
            Resyncs::Perhaps
        } else {
            Resyncs::Not
        }
    }

    /// Which disks in sync have the bit of a sector, in words.
    pub(crate) fn whose_bits(&self, sector: u64) -> String {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for (disk, bits) in self.in_sync().zip(&self.bitmaps) {
            if bits.has(sector) {
                with.push(disk);
            } else {
                without.push(disk);
            }
        }
        format!("with a bit: {with:?}, without: {without:?}")
    }

    /// The good copies of a sector of the array, in the order in which md tries them before a
    /// resync.
    ///
    /// A mirror tries disks that replace others last. RAID10 tries them instead of those that they
    /// replace.
    pub(crate) fn copies(&self, sector: u64) -> impl Iterator<Item = Copy> + '_ {
        let places = self.map.places(sector);
        let of = |disks: &[Option<usize>], role: usize, at: u64| {
            let disk = disks[role]?;
            let member = &self.members[disk];
            member.holds(at).then(|| Copy {
                disk,
                sector: member.data_offset + at,
            })
        };
        let first = places
            .iter()
            .map(|(role, at)| of(&self.by_role, *role, *at));
        let second = places
            .iter()
            .map(|(role, at)| of(&self.replacing, *role, *at));
        let copies: Vec<Copy> = if self.map.is_mirror() {
            first.chain(second).flatten().collect()
        } else {
            let pairs = second.zip(first);
            pairs
                .flat_map(|(second, first)| [second, first])
                .flatten()
                .collect()
        };
        copies.into_iter()
    }

    /// The copies of a sector of the array that md may read, now or after the resync: where that
    /// copies it the first one, otherwise all.
    ///
    /// After an unclean stop md also reads a disk that has recovered in part, below where that had
    /// come, in what the stop may have left different; where only one disk of a mirror is in sync,
    /// it does not even make that equal. That is so of its own arrays as well, and of such disks
    /// only what no bit speaks of is looked at here.
    pub(crate) fn readers(&self, sector: u64) -> Vec<Copy> {
        let resyncs = self.resyncs(sector);
        let has_bit = self.bitmaps.is_empty() || self.bitmaps.iter().any(|bits| bits.has(sector));
        let may_differ = resyncs == Resyncs::Surely || self.is_alone && has_bit;
        let is_in_sync = |copy: &Copy| matches!(self.members[copy.disk].taken, Taken::InSync(_));
        let copies = self.copies(sector);
        let copies = copies.filter(|copy| !may_differ || is_in_sync(copy));
        match resyncs {
            Resyncs::Surely => copies.take(1).collect(),
            Resyncs::Perhaps | Resyncs::Not => copies.collect(),
        }
    }

    /// The copy that a resync copies over the others.
    pub(crate) fn source(&self, sector: u64) -> Option<Copy> {
        let mut copies = self.copies(sector).filter(|copy| {
            let is_in_sync = matches!(self.members[copy.disk].taken, Taken::InSync(_));
            is_in_sync
        });
        let first = copies.next()?;
        // In a mirror, though not in RAID10, it takes a write-mostly disk last.
        let is_avoided =
            |copy: &Copy| self.map.is_mirror() && self.members[copy.disk].is_write_mostly;
        if !is_avoided(&first) {
            return Some(first);
        }
        Some(copies.find(|copy| !is_avoided(copy)).unwrap_or(first))
    }
}

#[cfg(test)]
mod compared;
#[cfg(test)]
mod tests;
