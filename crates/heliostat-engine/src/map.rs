//! The address map: on which legs each byte of the array lies, and where on them.
//!
//! An array is cut into chunks; each chunk lies as a whole on some legs, its *holders*, once on
//! each. Everything the map says is about one chunk: the engine cuts what crosses a border. A
//! mirror is one chunk as large as the array, at the same place of every leg.
//!
//! Two kinds of addresses meet here and nowhere else. *Array addresses* are what clients say;
//! locks, pins and ranges that differ are in them. *Leg addresses* count from the start of a leg's
//! data; operations, queues and what a policy sees of a leg are in them.
//!
//! RAID10 is laid out as Linux md does it, with its far copies rotated over all legs (md's far
//! sets, an option of later kernels, are not made). Rows are numbered from a leg's start:
//!
//! * **near**: chunks times copies, one after the other over the legs, row by row; a chunk's copies
//!   are neighbours, and where the legs end they go on in the next row.
//! * **far**: each leg is cut into as many parts as there are copies. The first parts are a plain
//!   stripe; the same stripe lies in each further part, one leg further to the right.
//! * **offset**: a plain stripe, each row of which is followed by its copies, each one leg further
//!   to the right.
//!
//! A leg has a *role*: its place in the layout. Legs and roles have the same numbers but where a
//! leg is being replaced, or was: then another leg stands in its role, and holds what it holds.
//!
//! The map refuses to answer for what crosses a chunk's border or lies beyond the array.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use heliostat_types::{Extent, LEGS_MAX, LegId, LegSet};

mod layout;

pub use layout::{CopyOrder, Layout, LayoutError, Raid10};

/// A leg and an address on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Which leg.
    pub leg: LegId,
    /// From the start of its data, in bytes.
    pub address: u64,
}

/// Where each byte of an array lies. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Map {
    /// How many roles there are.
    legs: usize,
    /// By leg, its role.
    roles: [Option<u8>; LEGS_MAX],
    /// Each leg has the role of its number.
    is_plain: bool,
    /// All legs that have a role.
    all: LegSet,
    size_bytes: u64,
    shape: Shape,
    /// The sets of roles that hold a chunk, each once.
    role_sets: Vec<LegSet>,
}

#[derive(Clone, Debug)]
enum Shape {
    Mirror,
    Striped(Striped),
    Table(Arc<Table>),
}

/// A layout of RAID10 over so many legs of such a size.
#[derive(Clone, Copy, Debug)]
struct Striped {
    order: CopyOrder,
    copies: u64,
    chunk_bytes: u64,
    legs: u64,
    /// How many chunks of each leg are used.
    leg_chunks: u64,
}

/// A place for each copy of each chunk.
#[derive(Debug)]
struct Table {
    chunk_bytes: u64,
    copies: usize,
    /// By chunk, so many for each.
    places: Vec<Place>,
    /// By leg, the chunk at each address.
    chunks: Vec<BTreeMap<u64, u64>>,
}

impl Map {
    /// `layout` over `legs` legs, of each of which `leg_bytes` are to be used.
    ///
    /// # Errors
    /// Where there is no such array.
    pub fn new(layout: Layout, legs: usize, leg_bytes: u64) -> Result<Self, LayoutError> {
        if !(1..=LEGS_MAX).contains(&legs) {
            return Err(LayoutError::Legs(legs));
        }
        let raid10 = match layout {
            Layout::Mirror => return Ok(Self::mirror(legs, leg_bytes)),
            Layout::Raid10(raid10) => raid10.with_chunk_bytes(raid10.chunk_bytes)?,
        };
        let striped = Striped::new(raid10, legs, leg_bytes)?;
        let chunks = striped.chunks();
        let size_bytes = chunks.checked_mul(striped.chunk_bytes);
        let size_bytes = size_bytes.filter(|&bytes| bytes > 0);
        // After as many chunks as there are legs the holders come around. An array that has fewer
        // needs no other legs than one that has more: that is how Linux and mdadm count.
        let holders = (0..legs as u64).map(|chunk| striped.holders(chunk));
        let size_bytes = size_bytes.ok_or(LayoutError::LegSize(leg_bytes))?;
        let shape = Shape::Striped(striped);
        Ok(Self::plain(legs, size_bytes, shape, each_once(holders)))
    }

    /// `layout` over `legs` legs, as small as it can be with room for `size_bytes`.
    ///
    /// # Errors
    /// Where there is no such array.
    pub fn for_size(layout: Layout, legs: usize, size_bytes: u64) -> Result<Self, LayoutError> {
        let leg_bytes = match layout {
            Layout::Mirror => size_bytes,
            Layout::Raid10(raid10) => {
                let raid10 = raid10.with_chunk_bytes(raid10.chunk_bytes)?;
                let chunks = size_bytes.div_ceil(raid10.chunk_bytes).max(1);
                let (legs, copies) = (legs.max(1) as u64, u64::from(raid10.copies));
                let leg_chunks = match raid10.order {
                    CopyOrder::Near => chunks.checked_mul(copies).map(|all| all.div_ceil(legs)),
                    CopyOrder::Far | CopyOrder::Offset => chunks.div_ceil(legs).checked_mul(copies),
                };
                let leg_bytes = leg_chunks.and_then(|all| all.checked_mul(raid10.chunk_bytes));
                leg_bytes.ok_or(LayoutError::LegSize(u64::MAX))?
            }
        };
        let mut map = Self::new(layout, legs, leg_bytes)?;
        if let Shape::Striped(striped) = &map.shape {
            // Of the last row, only what is needed.
            map.size_bytes = size_bytes.next_multiple_of(striped.chunk_bytes);
        }
        Ok(map)
    }

    /// All of it on every leg, at the same place.
    ///
    /// # Panics
    /// Where `legs` is above [`LEGS_MAX`].
    #[must_use]
    pub fn mirror(legs: usize, size_bytes: u64) -> Self {
        let role_sets = vec![LegSet::first(legs)];
        Self::plain(legs, size_bytes, Shape::Mirror, role_sets)
    }

    /// Each leg has the role of its number.
    fn plain(legs: usize, size_bytes: u64, shape: Shape, role_sets: Vec<LegSet>) -> Self {
        let all = LegSet::first(legs);
        let role_of = |leg| u8::try_from(leg).ok().filter(|_| leg < legs);
        Self {
            legs,
            roles: std::array::from_fn(role_of),
            is_plain: true,
            all,
            size_bytes,
            shape,
            role_sets,
        }
    }

    /// Chunks wherever `places` says: for each chunk in turn, `copies` places, the first copy
    /// first.
    ///
    /// # Errors
    /// Where two copies of a chunk share a leg, or two chunks share bytes of a leg.
    pub fn table(
        legs: usize,
        chunk_bytes: u64,
        copies: usize,
        places: Vec<Place>,
    ) -> Result<Self, LayoutError> {
        if !(1..=LEGS_MAX).contains(&legs) {
            return Err(LayoutError::Legs(legs));
        }
        if chunk_bytes < Raid10::CHUNK_MIN_BYTES
            || !chunk_bytes.is_multiple_of(Raid10::CHUNK_MIN_BYTES)
        {
            return Err(LayoutError::Chunk(chunk_bytes));
        }
        if !(1..=legs).contains(&copies) {
            let copies = u32::try_from(copies).unwrap_or(u32::MAX);
            return Err(LayoutError::Copies { copies, legs });
        }
        let table = Table::new(legs, chunk_bytes, copies, places)?;
        let chunks = (table.places.len() / copies) as u64;
        let size_bytes = chunks.checked_mul(chunk_bytes);
        let size_bytes = size_bytes.filter(|&bytes| bytes > 0);
        let size_bytes = size_bytes.ok_or(LayoutError::LegSize(0))?;
        let role_sets = each_once((0..chunks).map(|chunk| table.holders(chunk)));
        let shape = Shape::Table(Arc::new(table));
        Ok(Self::plain(legs, size_bytes, shape, role_sets))
    }

    /// From now on this leg has that role, beside others that may have it.
    ///
    /// # Panics
    /// Where there is no such role.
    pub fn give_role(&mut self, leg: LegId, role: usize) {
        assert!(role < self.legs, "a role of the array");
        self.roles[leg.index()] = u8::try_from(role).ok();
        self.look_at_roles();
    }

    /// From now on a mirror has one more role, which this leg has. Which one.
    ///
    /// # Panics
    /// Where it is no mirror.
    pub(crate) fn add_role(&mut self, leg: LegId) -> usize {
        assert!(self.is_mirror(), "the bytes of others would have to move");
        let role = self.legs;
        self.legs += 1;
        self.role_sets = vec![LegSet::first(self.legs)];
        self.give_role(leg, role);
        role
    }

    /// From now on this leg has no role.
    pub fn take_role(&mut self, leg: LegId) {
        self.roles[leg.index()] = None;
        self.look_at_roles();
    }

    fn look_at_roles(&mut self) {
        let has_role = |leg: &LegId| self.role_of(*leg).is_some();
        self.all = LegSet::first(LEGS_MAX).iter().filter(has_role).collect();
        let mut all = self.all.iter();
        let is_first = self.all == LegSet::first(self.legs);
        self.is_plain = is_first && all.all(|leg| self.role_of(leg) == Some(leg.index()));
    }

    /// Which role a leg has.
    #[must_use]
    pub fn role_of(&self, leg: LegId) -> Option<usize> {
        self.roles[leg.index()].map(usize::from)
    }

    /// The legs that have a role.
    #[must_use]
    pub const fn all(&self) -> LegSet {
        self.all
    }

    /// The legs that have this role.
    #[must_use]
    pub fn legs_of(&self, role: usize) -> LegSet {
        let legs = self.all.iter();
        legs.filter(|leg| self.role_of(*leg) == Some(role))
            .collect()
    }

    /// The other leg that has the role of this one, where a leg is being replaced.
    #[must_use]
    pub fn twin_of(&self, leg: LegId) -> Option<LegId> {
        if self.is_plain {
            return None;
        }
        let mut twins = self.legs_of(self.role_of(leg)?);
        twins.remove(leg);
        twins.lowest()
    }

    /// The role by which the shape knows a leg.
    fn role(&self, leg: LegId) -> Option<LegId> {
        if self.is_plain {
            return Some(leg);
        }
        self.role_of(leg).map(LegId::new)
    }

    /// The legs that have these roles.
    fn in_roles(&self, roles: LegSet) -> LegSet {
        if self.is_plain {
            return roles;
        }
        let legs = self.all.iter();
        legs.filter(|leg| self.role(*leg).is_some_and(|role| roles.contains(role)))
            .collect()
    }

    /// Whether all lies at the same place of every leg.
    #[must_use]
    pub const fn is_mirror(&self) -> bool {
        matches!(self.shape, Shape::Mirror)
    }

    /// How many legs there are, as far as each has a role of its own.
    #[must_use]
    pub const fn legs(&self) -> usize {
        self.legs
    }

    /// How large the array can be.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// How much of a leg is used.
    #[must_use]
    pub fn leg_bytes(&self, leg: LegId) -> u64 {
        match &self.shape {
            Shape::Mirror => self.size_bytes,
            Shape::Striped(striped) => striped.leg_chunks * striped.chunk_bytes,
            Shape::Table(table) => {
                let chunks = self.role(leg).map(|role| &table.chunks[role.index()]);
                let last = chunks.and_then(BTreeMap::last_key_value);
                last.map_or(0, |(address, _)| address + table.chunk_bytes)
            }
        }
    }

    /// The size of a chunk; of a mirror, its whole size.
    #[must_use]
    pub fn chunk_bytes(&self) -> u64 {
        match &self.shape {
            Shape::Mirror => self.size_bytes,
            Shape::Striped(striped) => striped.chunk_bytes,
            Shape::Table(table) => table.chunk_bytes,
        }
    }

    /// As much of `extent`, from its start on, as lies in one chunk.
    #[inline]
    #[must_use]
    pub fn first_part(&self, extent: Extent) -> Extent {
        if self.is_mirror() {
            return extent;
        }
        let chunk_bytes = self.chunk_bytes();
        let border = (extent.offset() / chunk_bytes + 1).saturating_mul(chunk_bytes);
        Extent::from_range(extent.offset(), extent.end().min(border))
    }

    /// `extent`, cut at the borders of chunks.
    pub fn parts(&self, extent: Extent) -> impl Iterator<Item = Extent> + '_ {
        let mut rest = extent;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let part = self.first_part(rest);
            rest = rest.split_at(part.len()).1;
            Some(part)
        })
    }

    /// The legs that hold the chunk in which `offset` lies.
    #[inline]
    #[must_use]
    pub fn holders(&self, offset: u64) -> LegSet {
        if self.is_mirror() {
            return self.all;
        }
        self.holders_of_chunk(offset / self.chunk_bytes())
    }

    fn holders_of_chunk(&self, chunk: u64) -> LegSet {
        match &self.shape {
            Shape::Mirror => self.all,
            Shape::Striped(striped) => self.in_roles(striped.holders(chunk)),
            Shape::Table(table) => self.in_roles(table.holders(chunk)),
        }
    }

    /// Where the copies of the byte at `offset` lie, the first copy first. Copies of one role are
    /// the same copy.
    ///
    /// # Panics
    /// Where it lies beyond the array.
    #[must_use]
    pub fn places(&self, offset: u64) -> Vec<Place> {
        let places = self.places_by_role(offset);
        if self.is_plain {
            return places;
        }
        let legs = places.into_iter().flat_map(|place| {
            let legs = self.legs_of(place.leg.index()).iter();
            legs.map(move |leg| Place { leg, ..place })
        });
        legs.collect()
    }

    /// The same, where legs have the numbers of their roles.
    fn places_by_role(&self, offset: u64) -> Vec<Place> {
        assert!(offset < self.size_bytes, "a byte of the array");
        match &self.shape {
            Shape::Mirror => {
                let place = |leg| Place {
                    leg,
                    address: offset,
                };
                LegSet::first(self.legs).iter().map(place).collect()
            }
            Shape::Striped(striped) => {
                let (chunk, inside) = split(offset, striped.chunk_bytes);
                let places = (0..striped.copies).map(|copy| striped.place(chunk, copy));
                let place = |(leg, row)| Place {
                    leg: leg_id(leg),
                    address: row * striped.chunk_bytes + inside,
                };
                places.map(place).collect()
            }
            Shape::Table(table) => {
                let (chunk, inside) = split(offset, table.chunk_bytes);
                let places = table.of(chunk).iter().map(|place| Place {
                    leg: place.leg,
                    address: place.address + inside,
                });
                places.collect()
            }
        }
    }

    /// Where `extent`, which lies in one chunk, is on `leg`.
    ///
    /// # Panics
    /// Where the leg does not hold it.
    #[inline]
    #[must_use]
    pub fn on_leg(&self, leg: LegId, extent: Extent) -> Extent {
        if self.is_mirror() {
            return extent;
        }
        let address = self.address_on(leg, extent.offset());
        Extent::new(
            address.expect("only who holds a chunk is asked for it"),
            extent.len(),
        )
    }

    /// Where a byte of the array is on `leg`; `None` where the leg does not hold it.
    fn address_on(&self, leg: LegId, offset: u64) -> Option<u64> {
        let leg = self.role(leg)?;
        match &self.shape {
            Shape::Mirror => Some(offset),
            Shape::Striped(striped) => {
                let (chunk, inside) = split(offset, striped.chunk_bytes);
                let row = striped.row_on(leg.index() as u64, chunk);
                row.map(|row| row * striped.chunk_bytes + inside)
            }
            Shape::Table(table) => {
                let (chunk, inside) = split(offset, table.chunk_bytes);
                let place = table.of(chunk).iter().find(|place| place.leg == leg);
                place.map(|place| place.address + inside)
            }
        }
    }

    /// Which byte of the array lies at `address` of a leg; `None` where none does.
    #[must_use]
    pub fn array_address(&self, leg: LegId, address: u64) -> Option<u64> {
        let leg = self.role(leg)?;
        let offset = match &self.shape {
            Shape::Mirror => address,
            Shape::Striped(striped) => {
                let (row, inside) = split(address, striped.chunk_bytes);
                let chunk = striped.chunk_at(leg.index() as u64, row)?;
                chunk * striped.chunk_bytes + inside
            }
            Shape::Table(table) => {
                let chunks = table.chunks[leg.index()].range(..=address);
                let (&start, &chunk) = chunks.last()?;
                if address - start >= table.chunk_bytes {
                    return None;
                }
                chunk * table.chunk_bytes + (address - start)
            }
        };
        (offset < self.size_bytes).then_some(offset)
    }

    /// Where no byte of the array lies at some address of a leg, none does up to the next multiple
    /// of this.
    pub(crate) fn hole_step_bytes(&self) -> u64 {
        match &self.shape {
            Shape::Mirror => self.size_bytes.max(1),
            Shape::Striped(striped) => striped.chunk_bytes,
            Shape::Table(_) => Raid10::CHUNK_MIN_BYTES,
        }
    }

    /// Whether every chunk has a copy on one of `legs`, however many chunks there are.
    #[must_use]
    pub fn is_covered_by(&self, legs: LegSet) -> bool {
        let roles = legs.intersection(self.all).iter();
        let roles: LegSet = roles.filter_map(|leg| self.role(leg)).collect();
        let mut sets = self.role_sets.iter();
        sets.all(|holders| !holders.intersection(roles).is_empty())
    }
}

impl heliostat_policy::Layout for Map {
    fn chunk_bytes(&self) -> Option<u64> {
        (!self.is_mirror()).then(|| self.chunk_bytes())
    }

    fn address_on(&self, leg: LegId, offset: u64) -> Option<u64> {
        let address = self.address_on(leg, offset);
        address.filter(|_| offset < self.size_bytes)
    }
}

impl Striped {
    fn new(raid10: Raid10, legs: usize, leg_bytes: u64) -> Result<Self, LayoutError> {
        let copies = raid10.copies;
        if copies < 2 || copies as usize > legs {
            return Err(LayoutError::Copies { copies, legs });
        }
        Ok(Self {
            order: raid10.order,
            copies: u64::from(copies),
            chunk_bytes: raid10.chunk_bytes,
            legs: legs as u64,
            leg_chunks: leg_bytes / raid10.chunk_bytes,
        })
    }

    /// How many chunks the array has.
    const fn chunks(&self) -> u64 {
        match self.order {
            CopyOrder::Near => self.leg_chunks * self.legs / self.copies,
            CopyOrder::Far | CopyOrder::Offset => self.leg_chunks / self.copies * self.legs,
        }
    }

    /// Leg and row of a copy of a chunk.
    const fn place(&self, chunk: u64, copy: u64) -> (u64, u64) {
        match self.order {
            CopyOrder::Near => {
                let at = chunk * self.copies + copy;
                (at % self.legs, at / self.legs)
            }
            CopyOrder::Far => {
                let part_rows = self.leg_chunks / self.copies;
                let (row, leg) = (chunk / self.legs, chunk % self.legs);
                ((leg + copy) % self.legs, row + copy * part_rows)
            }
            CopyOrder::Offset => {
                let (row, leg) = (chunk / self.legs, chunk % self.legs);
                ((leg + copy) % self.legs, row * self.copies + copy)
            }
        }
    }

    fn holders(&self, chunk: u64) -> LegSet {
        let copies = 0..self.copies;
        copies
            .map(|copy| leg_id(self.place(chunk, copy).0))
            .collect()
    }

    /// In which row a leg holds a chunk.
    fn row_on(&self, leg: u64, chunk: u64) -> Option<u64> {
        let mut places = (0..self.copies).map(|copy| self.place(chunk, copy));
        places.find(|place| place.0 == leg).map(|place| place.1)
    }

    /// Which chunk lies in a row of a leg, as if there were no end.
    const fn chunk_at(&self, leg: u64, row: u64) -> Option<u64> {
        if row >= self.leg_chunks {
            return None;
        }
        let (copy, row) = match self.order {
            CopyOrder::Near => return Some((row * self.legs + leg) / self.copies),
            CopyOrder::Far => {
                let part_rows = self.leg_chunks / self.copies;
                if row >= part_rows * self.copies {
                    return None;
                }
                (row / part_rows, row % part_rows)
            }
            CopyOrder::Offset => (row % self.copies, row / self.copies),
        };
        Some(row * self.legs + (leg + self.legs - copy) % self.legs)
    }
}

impl Table {
    fn new(
        legs: usize,
        chunk_bytes: u64,
        copies: usize,
        places: Vec<Place>,
    ) -> Result<Self, LayoutError> {
        let mut table = Self {
            chunk_bytes,
            copies,
            places: Vec::new(),
            chunks: vec![BTreeMap::new(); legs],
        };
        for (chunk, copies_of_it) in (0..).zip(places.chunks(copies)) {
            let mut holders = LegSet::EMPTY;
            for place in copies_of_it {
                let Some(taken) = table.chunks.get_mut(place.leg.index()) else {
                    return Err(LayoutError::Place { chunk });
                };
                let end = place.address.checked_add(chunk_bytes);
                let before = end.and_then(|end| taken.range(..end).next_back());
                let is_free = end.is_some()
                    && before.is_none_or(|(before, _)| before + chunk_bytes <= place.address)
                    && place.address.is_multiple_of(Raid10::CHUNK_MIN_BYTES);
                if !is_free || holders.contains(place.leg) || copies_of_it.len() < copies {
                    return Err(LayoutError::Place { chunk });
                }
                holders.insert(place.leg);
                taken.insert(place.address, chunk);
            }
        }
        table.places = places;
        Ok(table)
    }

    /// The places of a chunk; none beyond the last one.
    fn of(&self, chunk: u64) -> &[Place] {
        let chunk = usize::try_from(chunk).unwrap_or(usize::MAX);
        self.places.chunks(self.copies).nth(chunk).unwrap_or(&[])
    }

    fn holders(&self, chunk: u64) -> LegSet {
        self.of(chunk).iter().map(|place| place.leg).collect()
    }
}

/// Which chunk, and where in it.
const fn split(offset: u64, chunk_bytes: u64) -> (u64, u64) {
    (offset / chunk_bytes, offset % chunk_bytes)
}

fn leg_id(leg: u64) -> LegId {
    LegId::new(usize::try_from(leg).expect("at most 16 legs"))
}

fn each_once(sets: impl Iterator<Item = LegSet>) -> Vec<LegSet> {
    let sets: BTreeSet<LegSet> = sets.collect();
    sets.into_iter().collect()
}

#[cfg(test)]
mod tests;
