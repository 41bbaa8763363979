//! Growing an array that nobody uses: more or fewer legs of a mirror, or more of each leg.
//!
//! A plan is a list of writes, each durable before the next one begins, and the array can be
//! assembled after any of them, with all its data on all legs that had it:
//!
//! 1. What each leg has room for (`data_size`), where that is more than it says. Nobody compares
//!    that between legs, and no event is counted.
//! 2. The bitmaps, already counting the next event. With superblocks that do not, they are newer
//!    than needed, which is what a crash between bitmap and superblock leaves as well. They have
//!    no bit less than the old ones; or else the array is clean and no leg is missing, so that
//!    bits say nothing, and `events_cleared` says that none is to be believed of a leg that was
//!    away.
//! 3. The superblocks, one event further. A leg whose superblock is still the old one is one event
//!    behind; its data is the same, since nothing else was written. It is taken with what the
//!    freshest superblock says ([`crate::assembly`]), and the kernel does that too. mdadm does not
//!    assemble legs that disagree in size or number, so between the first and the last of these
//!    writes it has to be given those that agree, or heliostat finishes what was begun.
//! 4. New legs, last: with a superblock that says that nothing of the array is on them yet.

use heliostat_types::{LEGS_MAX, SECTOR_BYTES};
use stdx::units::format_size;

use crate::assembly::{Assembly, Candidate, Member, Resync};
use crate::{
    BITMAP_PAGE_BYTES, BITMAP_SUPER_BYTES, BitmapBits, BitmapSuper, Features, RESYNC_DONE,
    ROLES_MAX, Raid10Word, Refusal, Role, Stamp, Superblock,
};

/// What an array is to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// A mirror of so many legs.
    Legs {
        /// How many.
        count: u32,
        /// How many of them are new.
        new: usize,
    },
    /// One that uses more of each leg.
    Size {
        /// So much; `None`: as much as all legs have.
        bytes: Option<u64>,
        /// Whether the legs are known to be equal in what is new.
        assume_clean: bool,
    },
}

/// One write, to be durable before the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrowthWrite {
    /// The superblock of a leg.
    Superblock {
        /// Which candidate.
        leg: usize,
        /// It.
        superblock: Box<Superblock>,
    },
    /// A page of the bitmap of a leg.
    BitmapPage {
        /// Which candidate.
        leg: usize,
        /// Where, from the start of the leg.
        sector: u64,
        /// The page.
        bytes: Vec<u8>,
    },
}

/// How an array grows.
#[derive(Clone, Debug)]
pub struct GrowthPlan {
    /// What is written to the legs that are there, in this order; nothing where the array is so
    /// already.
    pub writes: Vec<GrowthWrite>,
    /// What is written to new legs then, but for what only the legs know: their identity, and how
    /// much they have room for.
    pub new_legs: Vec<Superblock>,
    /// The bitmap, for the new legs.
    pub bitmap: Option<BitmapBits>,
    /// What the array was.
    pub before: Superblock,
    /// What it is when all is written.
    pub after: Superblock,
}

/// An array that grows.
struct Growing<'a> {
    candidates: &'a [Candidate],
    device_bytes: &'a [u64],
    assembly: Assembly,
    now: Stamp,
}

/// What changes for all legs.
struct Shape {
    raid_disks: u32,
    size_sectors: u64,
    resync_offset_sectors: u64,
    roles: Vec<Role>,
}

impl GrowthPlan {
    /// How to grow an array of these legs, which have so many bytes each.
    ///
    /// # Errors
    /// Where the legs are no array, or it cannot grow so; nothing has been written.
    pub fn new(
        candidates: &[Candidate],
        device_bytes: &[u64],
        growth: Growth,
        now: Stamp,
    ) -> Result<Self, Refusal> {
        assert_eq!(candidates.len(), device_bytes.len(), "each has a size");
        let assembly = Assembly::of(candidates).map_err(|error| {
            let way_out = "serve it once, which says what can be done";
            Refusal::new("the array", "incomplete", error.to_string(), way_out)
        })?;
        if let Some(known) = assembly.replacement {
            return Err(Refusal::new(
                "the array",
                "about to change",
                format!("leg {} is being replaced", known.role),
                "serve it until that is done, or give it up with 'heliostat fail'",
            ));
        }
        let growing = Growing {
            candidates,
            device_bytes,
            assembly,
            now,
        };
        match growth {
            Growth::Legs { count, new } => growing.to_legs(count, new),
            Growth::Size {
                bytes,
                assume_clean,
            } => growing.to_size(bytes, assume_clean),
        }
    }
}

impl Growing<'_> {
    fn fresh(&self) -> &Superblock {
        &self.candidates[self.assembly.freshest].superblock
    }

    /// The members that are there by role, whether they have all data or not.
    fn members(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let members = self.assembly.members.iter().enumerate();
        members.filter_map(|(role, member)| {
            if let Member::InSync(candidate) | Member::Rebuilding { candidate, .. } = member {
                return Some((role, *candidate));
            }
            None
        })
    }

    /// Where legs may differ, as all in sync see it together.
    fn resync_offset(&self) -> u64 {
        match self.assembly.resync {
            Resync::Nowhere => RESYNC_DONE,
            Resync::Bits => 0,
            Resync::From(sector) => sector,
        }
    }

    /// Whether some leg describes the array otherwise than the freshest: an earlier growth was cut
    /// short.
    fn is_cut_short(&self) -> bool {
        let fresh = self.fresh();
        self.members().any(|(_, candidate)| {
            let own = &self.candidates[candidate].superblock;
            (own.raid_disks, own.size_sectors) != (fresh.raid_disks, fresh.size_sectors)
        })
    }

    fn to_legs(&self, count: u32, new: usize) -> Result<GrowthPlan, Refusal> {
        let fresh = self.fresh();
        let refused = |why: String, way_out: &str| {
            Err(Refusal::new("the number of legs", count, why, way_out))
        };
        if fresh.level != 1 {
            let why = "a RAID10 gets other legs by moving all of its data, which is not done here";
            let way_out = "assemble it with mdadm and let the kernel do it ('mdadm --grow \
                           --raid-devices')";
            return refused(why.to_owned(), way_out);
        }
        if count == 0 || count as usize > LEGS_MAX {
            let why = format!("a mirror has 1 to {LEGS_MAX} legs here");
            return refused(why, "choose such a number");
        }
        let present = self.members().count();
        if present + new > count as usize {
            let why = format!("{present} legs are there, and {new} are new");
            let way_out = "while it is served, take legs out with 'heliostat fail' and 'remove', \
                           or ask for more legs";
            return refused(why, way_out);
        }
        let mut roles = self.roles_of(count);
        let new_numbers = self.take_numbers(&mut roles, count, new)?;
        let is_as_before = count == fresh.raid_disks && new == 0;
        let shape = Shape {
            raid_disks: count,
            size_sectors: fresh.size_sectors,
            resync_offset_sectors: self.resync_offset(),
            roles,
        };
        let mut plan = self.rewrite(&shape, self.assembly.bitmap.clone());
        plan.new_legs = new_numbers
            .into_iter()
            .map(|number| new_leg(&plan.after, number))
            .collect();
        if is_as_before && !self.is_cut_short() {
            plan.writes.clear();
        }
        self.check(&plan)?;
        Ok(plan)
    }

    /// The table of roles of so many legs: where a leg has a role that is no more, all move down,
    /// in their order.
    fn roles_of(&self, count: u32) -> Vec<Role> {
        let mut roles = self.fresh().roles.clone();
        let is_beyond = |role: usize| role >= count as usize;
        let moves = self.members().any(|(role, _)| is_beyond(role));
        for role in &mut roles {
            if let Role::Active(number) = *role
                && (moves || is_beyond(usize::from(number)))
            {
                *role = Role::Spare;
            }
        }
        if moves {
            for (role, (_, candidate)) in (0..).zip(self.members()) {
                let number = self.candidates[candidate].superblock.dev_number as usize;
                roles[number] = Role::Active(role);
            }
        }
        roles
    }

    /// Gives each new leg a role that nobody has, and a number that nobody had.
    fn take_numbers(
        &self,
        roles: &mut Vec<Role>,
        count: u32,
        new: usize,
    ) -> Result<Vec<usize>, Refusal> {
        let members: Vec<usize> = self
            .members()
            .map(|(_, candidate)| self.candidates[candidate].superblock.dev_number as usize)
            .collect();
        let free = (0..).take(count as usize).filter(|role| {
            let holder = roles.iter().position(|other| *other == Role::Active(*role));
            holder.is_none_or(|number| !members.contains(&number))
        });
        let free: Vec<u16> = free.take(new).collect();
        let known = self.candidates.iter();
        let known = known.map(|candidate| candidate.superblock.dev_number as usize + 1);
        let used = roles.iter().rposition(|role| *role != Role::Spare);
        let first = known.chain(used.map(|last| last + 1)).max().unwrap_or(0);
        if first + new > ROLES_MAX {
            let why = "the array has had as many legs as a superblock has room for";
            let way_out = "take legs that were part of it";
            return Err(Refusal::new("dev_roles", first, why, way_out));
        }
        let numbers: Vec<usize> = (first..first + new).collect();
        if roles.len() < first + new {
            roles.resize(first + new, Role::Spare);
        }
        for (&number, &role) in numbers.iter().zip(&free) {
            // Whoever had it before is away, and comes back as a new leg.
            for other in roles
                .iter_mut()
                .filter(|other| **other == Role::Active(role))
            {
                *other = Role::Spare;
            }
            roles[number] = Role::Active(role);
        }
        Ok(numbers)
    }

    fn to_size(&self, bytes: Option<u64>, assume_clean: bool) -> Result<GrowthPlan, Refusal> {
        let fresh = self.fresh();
        let unit = SizeUnit::of(fresh)?;
        let most = self.most_sectors()?;
        let sectors = unit.rounded(bytes.map_or(most, |bytes| bytes / SECTOR_BYTES));
        let told = bytes.unwrap_or_else(|| sectors.saturating_mul(SECTOR_BYTES));
        let told = format_size(told);
        let refused = |why: String, way_out: &str| {
            Err(Refusal::new("the size of the legs", &told, why, way_out))
        };
        let used = format_size(fresh.size_sectors * SECTOR_BYTES);
        if sectors < fresh.size_sectors {
            let why = format!("{used} of each leg are used, and data would be cut off");
            return refused(why, "an array is not made smaller here");
        }
        if sectors > most {
            let leg = (0..self.candidates.len()).min_by_key(|leg| self.room(*leg));
            let leg = leg.expect("an array has a leg");
            let why = format!(
                "{} has room for {}",
                self.candidates[leg].name,
                format_size(self.room(leg) * SECTOR_BYTES)
            );
            return refused(why, "replace it by a larger leg first");
        }
        if sectors == fresh.size_sectors {
            return Ok(self.as_it_is());
        }
        self.expect_at_rest()?;
        let shape = Shape {
            raid_disks: fresh.raid_disks,
            size_sectors: sectors,
            resync_offset_sectors: if assume_clean {
                RESYNC_DONE
            } else {
                fresh.array_sectors().unwrap_or(0)
            },
            roles: fresh.roles.clone(),
        };
        let after = Superblock {
            size_sectors: sectors,
            ..fresh.clone()
        };
        let bitmap = self.assembly.bitmap.as_ref();
        let bitmap = bitmap.map(|bits| larger_bitmap(bits, fresh, &after, assume_clean));
        let mut plan = self.rewrite(&shape, bitmap.transpose()?);
        let room = self.members().filter_map(|(_, leg)| {
            let own = &self.candidates[leg].superblock;
            let superblock = Superblock {
                data_size_sectors: self.room(leg),
                ..own.clone()
            };
            let superblock = Box::new(superblock);
            (own.data_size_sectors < self.room(leg))
                .then_some(GrowthWrite::Superblock { leg, superblock })
        });
        plan.writes.splice(0..0, room.collect::<Vec<_>>());
        self.check(&plan)?;
        Ok(plan)
    }

    /// The plan that changes nothing, but for what an earlier one has left undone.
    fn as_it_is(&self) -> GrowthPlan {
        let fresh = self.fresh();
        let shape = Shape {
            raid_disks: fresh.raid_disks,
            size_sectors: fresh.size_sectors,
            resync_offset_sectors: self.resync_offset(),
            roles: fresh.roles.clone(),
        };
        let mut plan = self.rewrite(&shape, self.assembly.bitmap.clone());
        if !self.is_cut_short() {
            plan.writes.clear();
        }
        plan
    }

    /// Only where no leg is missing and none may differ, the bits of the bitmap say nothing.
    fn expect_at_rest(&self) -> Result<(), Refusal> {
        let refused = |state: &str, why: String, way_out: &str| {
            Err(Refusal::new("the array", state, why, way_out))
        };
        let lacking: Vec<String> = self
            .assembly
            .roles_lacking()
            .map(|role| role.to_string())
            .collect();
        if !lacking.is_empty() {
            let why = format!("leg {} is not in sync", lacking.join(" and "));
            let way_out = "serve it until all legs are, stop it, and grow it then";
            return refused("degraded", why, way_out);
        }
        if self.assembly.resync != Resync::Nowhere {
            let why = "its legs may differ: a resync has not come to its end".to_owned();
            let way_out = "serve it until the resync is done, stop it, and grow it then";
            return refused("not clean", why, way_out);
        }
        Ok(())
    }

    /// How much of a leg there is for data.
    fn room(&self, leg: usize) -> u64 {
        let own = &self.candidates[leg].superblock;
        (self.device_bytes[leg] / SECTOR_BYTES).saturating_sub(own.data_offset_sectors)
    }

    /// How much all members have room for.
    fn most_sectors(&self) -> Result<u64, Refusal> {
        let mut most = u64::MAX;
        for (_, leg) in self.members() {
            let own = &self.candidates[leg].superblock;
            if own.super_offset_sectors > own.data_offset_sectors {
                let why = "its superblock lies behind the data, and would have to move";
                let way_out = "assemble the array with mdadm and let the kernel do it ('mdadm \
                               --grow --size')";
                let refusal = Refusal::new("the version", "1.0", why, way_out);
                return Err(refusal.of(&self.candidates[leg].name));
            }
            most = most.min(self.room(leg));
        }
        Ok(most)
    }

    /// The writes after which all legs say this: first the bitmaps, then the superblocks, of legs
    /// in sync before others.
    fn rewrite(&self, shape: &Shape, bitmap: Option<BitmapBits>) -> GrowthPlan {
        let before = self.fresh().clone();
        let events = before.events + 1;
        let bitmap = bitmap.map(|mut bits| {
            let head = BitmapSuper {
                events,
                ..*bits.super_block()
            };
            bits.set_super(head);
            bits
        });
        let mut writes = Vec::new();
        if let Some(bits) = &bitmap {
            for (_, leg) in self.members() {
                let Some(start) = self.candidates[leg].superblock.bitmap_sector() else {
                    continue;
                };
                writes.extend((0..bits.page_count()).map(|page| {
                    let at = (page * BITMAP_PAGE_BYTES) as u64 / SECTOR_BYTES;
                    GrowthWrite::BitmapPage {
                        leg,
                        sector: start + at,
                        bytes: bits.page_bytes(page).to_vec(),
                    }
                }));
            }
        }
        let with = |own: &Superblock| Superblock {
            raid_disks: shape.raid_disks,
            size_sectors: shape.size_sectors,
            data_size_sectors: own.data_size_sectors.max(shape.size_sectors),
            resync_offset_sectors: shape.resync_offset_sectors,
            roles: shape.roles.clone(),
            events,
            utime: self.now,
            ..own.clone()
        };
        let in_sync = self.assembly.in_sync();
        let others = self.members().map(|(_, leg)| leg);
        let others = others.filter(|leg| self.assembly.in_sync().all(|other| other != *leg));
        let spares = self.assembly.spares.iter().copied();
        for leg in in_sync.chain(others).chain(spares) {
            let own = &self.candidates[leg].superblock;
            let room = self.room(leg);
            let superblock = Superblock {
                data_size_sectors: if shape.size_sectors > before.size_sectors {
                    own.data_size_sectors.max(room)
                } else {
                    own.data_size_sectors
                },
                ..with(own)
            };
            writes.push(GrowthWrite::Superblock {
                leg,
                superblock: Box::new(superblock),
            });
        }
        GrowthPlan {
            writes,
            new_legs: Vec::new(),
            bitmap,
            after: with(&before),
            before,
        }
    }

    /// Whether all that is about to be written makes sense.
    fn check(&self, plan: &GrowthPlan) -> Result<(), Refusal> {
        for write in &plan.writes {
            if let GrowthWrite::Superblock { leg, superblock } = write {
                let name = &self.candidates[*leg].name;
                let checked = superblock.check(self.device_bytes[*leg]);
                checked.map_err(|refusal| refusal.of(name))?;
                let bitmap = plan.bitmap.as_ref().map(BitmapBits::super_block);
                let checked = bitmap.map_or(Ok(()), |bitmap| bitmap.check(superblock));
                checked.map_err(|refusal| refusal.of(name))?;
            }
        }
        Ok(())
    }
}

/// What a new leg says: which role it is to have, and that nothing is on it yet.
fn new_leg(like: &Superblock, number: usize) -> Superblock {
    let own = Features::BAD_BLOCKS
        .with(Features::REPLACEMENT)
        .with(Features::RECOVERY_BITMAP);
    Superblock {
        features: like.features.without(own).with(Features::RECOVERY_OFFSET),
        recovery_offset_sectors: 0,
        dev_number: u32::try_from(number).expect("below 1920"),
        corrected_reads: 0,
        ..like.clone()
    }
}

/// In which steps the used size of a leg can be.
struct SizeUnit {
    chunk_sectors: u64,
    raid_disks: u64,
    near: u64,
    far: u64,
}

impl SizeUnit {
    fn of(superblock: &Superblock) -> Result<Self, Refusal> {
        let mut unit = Self {
            chunk_sectors: 1,
            raid_disks: 1,
            near: 1,
            far: 1,
        };
        if superblock.level != 10 {
            return Ok(unit);
        }
        let raid_disks = superblock.raid_disks;
        let word = Raid10Word::parse(superblock.layout, raid_disks)
            .map_err(|why| Refusal::new("layout", superblock.layout, why, "use mdadm"))?;
        if word.far > 1 && !word.is_offset {
            let why = "where the far copies lie depends on the size, and all of them would move";
            let way_out = "make a larger array and copy the data";
            return Err(Refusal::new("the layout", "far", why, way_out));
        }
        unit.chunk_sectors = u64::from(superblock.chunk_sectors);
        unit.raid_disks = u64::from(raid_disks);
        (unit.near, unit.far) = (u64::from(word.near), u64::from(word.far));
        Ok(unit)
    }

    /// What an array can use of so much: whole rows of chunks, as the kernel counts them.
    fn rounded(&self, sectors: u64) -> u64 {
        let rows = sectors / self.chunk_sectors / self.far;
        let Some(chunks) = rows.checked_mul(self.raid_disks) else {
            return sectors;
        };
        let copies = chunks / self.near * self.near * self.far;
        copies.div_ceil(self.raid_disks) * self.chunk_sectors
    }
}

/// The bitmap of the larger array, in the place of the old one: as the kernel lays it out, with
/// chunks twice as large until there is room. Bits are set where legs may differ: in what is new.
fn larger_bitmap(
    old: &BitmapBits,
    before: &Superblock,
    after: &Superblock,
    assume_clean: bool,
) -> Result<BitmapBits, Refusal> {
    let head = *old.super_block();
    let (old_sectors, sectors) = (before.array_sectors(), after.array_sectors());
    let (Some(old_sectors), Some(sectors)) = (old_sectors, sectors) else {
        let why = "so much cannot be counted";
        return Err(Refusal::new("size", after.size_sectors, why, "choose less"));
    };
    let bytes_of = |chunks: u64| chunks.div_ceil(8) + BITMAP_SUPER_BYTES as u64;
    // Where nobody wrote down how much room there is, it is what was needed until now.
    let space_sectors = match head.sectors_reserved {
        0 => bytes_of(old.chunks()).div_ceil(SECTOR_BYTES),
        sectors => u64::from(sectors),
    };
    let mut chunk_bytes = u64::from(head.chunk_bytes);
    while bytes_of(sectors.div_ceil(chunk_bytes / SECTOR_BYTES)) > space_sectors * SECTOR_BYTES {
        chunk_bytes *= 2;
    }
    let Ok(narrow) = u32::try_from(chunk_bytes) else {
        let why = "a bit of the bitmap would stand for 4 GiB or more";
        let way_out = "let the kernel assemble it and make another bitmap ('mdadm --grow \
                       --bitmap=none', then '--bitmap=internal')";
        return Err(Refusal::new("size", after.size_sectors, why, way_out));
    };
    let chunks = sectors.div_ceil(chunk_bytes / SECTOR_BYTES);
    let mut bits = BitmapBits::new(
        BitmapSuper {
            sync_size_sectors: sectors,
            chunk_bytes: narrow,
            // No leg that was away can be brought up to date by these bits.
            events_cleared: before.events + 1,
            sectors_reserved: u32::try_from(space_sectors).unwrap_or(0),
            ..head
        },
        chunks,
    );
    if !assume_clean {
        let first = old_sectors / (chunk_bytes / SECTOR_BYTES);
        (first..chunks).for_each(|chunk| {
            bits.set(chunk);
        });
    }
    Ok(bits)
}

#[cfg(test)]
mod tests;
