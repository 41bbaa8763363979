//! From what md's superblocks say of an array to what an engine is made of.

use std::fmt;

use heliostat_format::assembly::{Assembly, Candidate, Member, Replacement, Resync};
use heliostat_format::{BadBlocks, Raid10Word, Role, Superblock};
use heliostat_types::{Duration, LEGS_MAX, LegId, LegSet, SECTOR_BYTES};

use crate::background::Missed;
use crate::map::{CopyOrder, Layout, LayoutError, Map, Raid10};
use crate::metadata::{Metadata, Unequal};

/// An array, ready for an engine but for what only the legs themselves know.
#[derive(Clone, Debug)]
pub struct Assembled {
    /// Where what lies.
    pub map: Map,
    /// How much there is for clients.
    pub size_bytes: u64,
    /// The layout, in words.
    pub layout: Layout,
    /// By role, the candidate that has it, in sync or not; `None` where it is missing. Where one is
    /// being replaced, its replacement comes behind the last role.
    pub candidates: Vec<Option<usize>>,
    /// The legs that hold all their data.
    pub in_sync: LegSet,
    /// What is kept on the legs.
    pub metadata: Metadata,
}

/// Why an array that its legs describe cannot be served here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssembledError {
    /// A level other than 1 and 10.
    Level(i32),
    /// So many legs.
    Legs(u32),
    /// A layout word of RAID10 that is not understood, and why.
    LayoutWord(u32, String),
    /// A layout that does not fit its legs.
    Layout(LayoutError),
    /// Some data is on no leg that is there: these roles lack.
    Incomplete(Vec<usize>),
}

impl fmt::Display for AssembledError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Level(level) => {
                let name = match level {
                    -1 => "linear".to_owned(),
                    -4 => "multipath".to_owned(),
                    level => format!("RAID{level}"),
                };
                write!(f, "it is {name}; only RAID1 and RAID10 can be served")
            }
            Self::Legs(legs) => write!(
                f,
                "it has {legs} legs, and no more than {LEGS_MAX} can be served"
            ),
            Self::LayoutWord(word, why) => write!(f, "its layout is {word:#x}: {why}"),
            Self::Layout(error) => write!(f, "{error}"),
            Self::Incomplete(roles) => {
                let roles: Vec<String> = roles.iter().map(usize::to_string).collect();
                write!(
                    f,
                    "some of its data is on none of these legs; of legs {} at least one more is \
                     needed",
                    roles.join(", ")
                )
            }
        }
    }
}

impl std::error::Error for AssembledError {}

/// Where what lies in an array with this superblock, the layout in words, and how much room there
/// is for clients.
///
/// # Errors
/// Where it is no array that can be served.
pub fn shape_of(superblock: &Superblock) -> Result<(Map, Layout), AssembledError> {
    let legs = superblock.raid_disks as usize;
    if !(1..=LEGS_MAX).contains(&legs) {
        return Err(AssembledError::Legs(superblock.raid_disks));
    }
    let layout = match superblock.level {
        1 => Layout::Mirror,
        10 => Layout::Raid10(Raid10 {
            chunk_bytes: u64::from(superblock.chunk_sectors) * SECTOR_BYTES,
            ..raid10_of(superblock.layout, superblock.raid_disks)?
        }),
        level => return Err(AssembledError::Level(level)),
    };
    let too_large = || AssembledError::Layout(LayoutError::LegSize(superblock.size_sectors));
    let leg_bytes = superblock.size_sectors.checked_mul(SECTOR_BYTES);
    let map = Map::new(layout, legs, leg_bytes.ok_or_else(too_large)?);
    Ok((map.map_err(AssembledError::Layout)?, layout))
}

/// The layout of a word of md.
fn raid10_of(word: u32, legs: u32) -> Result<Raid10, AssembledError> {
    let parsed = Raid10Word::parse(word, legs);
    let parsed = parsed.map_err(|why| AssembledError::LayoutWord(word, why))?;
    let order = match parsed {
        Raid10Word { far: 1, .. } => CopyOrder::Near,
        Raid10Word {
            is_offset: true, ..
        } => CopyOrder::Offset,
        Raid10Word { .. } => CopyOrder::Far,
    };
    Ok(Raid10 {
        order,
        copies: parsed.copies(),
        chunk_bytes: Raid10::CHUNK_DEFAULT_BYTES,
    })
}

/// The word of md for a layout; 0 for a mirror.
#[must_use]
pub const fn layout_word(layout: Layout) -> u32 {
    let Layout::Raid10(Raid10 { order, copies, .. }) = layout else {
        return 0;
    };
    let (near, far) = match order {
        CopyOrder::Near => (copies, 1),
        CopyOrder::Far | CopyOrder::Offset => (1, copies),
    };
    let is_offset = matches!(order, CopyOrder::Offset);
    Raid10Word {
        near,
        far,
        is_offset,
    }
    .to_number()
}

impl Assembled {
    /// What an engine is made of, from legs that were put together.
    ///
    /// The rebuild of a leg goes on where it has come to. A leg that was taken back must say itself
    /// that it is incomplete before an engine begins.
    ///
    /// # Errors
    /// Where the array cannot be served.
    pub fn of(
        assembly: &Assembly,
        candidates: &[Candidate],
        unix_time: Duration,
    ) -> Result<Self, AssembledError> {
        let fresh = &candidates[assembly.freshest].superblock;
        let (map, layout) = shape_of(fresh)?;
        let is_in_sync = |member: &Member| matches!(member, Member::InSync(_));
        let in_sync = (0..map.legs()).filter(|&role| is_in_sync(&assembly.members[role]));
        let in_sync: LegSet = in_sync.map(LegId::new).collect();
        if !map.is_covered_by(in_sync) {
            let lacking = assembly.roles_lacking().collect();
            return Err(AssembledError::Incomplete(lacking));
        }
        Ok(Self {
            size_bytes: map.size_bytes(),
            map,
            layout,
            candidates: taken(assembly).collect(),
            in_sync,
            metadata: Metadata::of(assembly, candidates, unix_time),
        })
    }
}

impl Metadata {
    /// What an engine is told of legs that were put together.
    #[must_use]
    pub fn of(assembly: &Assembly, candidates: &[Candidate], unix_time: Duration) -> Self {
        let members = taken(assembly);
        let fresh = &candidates[assembly.freshest].superblock;
        let superblock = |candidate: Option<usize>| {
            let own = &candidates[candidate?].superblock;
            // One that was a spare may not know how large the array is now.
            Some(Superblock {
                size_sectors: fresh.size_sectors,
                raid_disks: fresh.raid_disks,
                ..own.clone()
            })
        };
        let bad_blocks = |candidate: Option<usize>| match candidate {
            Some(candidate) => candidates[candidate].bad_blocks.clone(),
            None => BadBlocks::new(0),
        };
        Self {
            superblocks: members.clone().map(superblock).collect(),
            replaced: replacement_of(assembly).map(|known| LegId::new(known.role.into())),
            bad_blocks: members.map(bad_blocks).collect(),
            rebuilding: rebuilding(assembly),
            roles: roles(assembly, candidates),
            bitmap: assembly.bitmap.clone(),
            unequal: match assembly.resync {
                Resync::Nowhere => Unequal::Nowhere,
                Resync::Bits => Unequal::Bits,
                Resync::From(sector) => Unequal::From(sector.saturating_mul(SECTOR_BYTES)),
            },
            is_uneven: assembly.is_uneven,
            unix_time,
        }
    }
}

/// The leg that is to replace another one, where there can be one more.
fn replacement_of(assembly: &Assembly) -> Option<Replacement> {
    let has_room = assembly.members.len() < LEGS_MAX;
    assembly.replacement.filter(|_| has_room)
}

/// The candidate that each leg is, by rising number: who has its role, and behind all of them who
/// is to replace one.
fn taken(assembly: &Assembly) -> impl Iterator<Item = Option<usize>> + Clone {
    let replacement = replacement_of(assembly).into_iter();
    let replacement = replacement.map(|replacement| Some(replacement.candidate));
    assembly.members.iter().map(candidate_of).chain(replacement)
}

/// Who has a role, in sync or not.
const fn candidate_of(member: &Member) -> Option<usize> {
    match *member {
        Member::InSync(candidate)
        | Member::Rebuilding { candidate, .. }
        | Member::Returning { candidate, .. } => Some(candidate),
        Member::Missing => None,
    }
}

/// The legs that are there and not in sync, with what they lack.
fn rebuilding(assembly: &Assembly) -> Vec<(LegId, Missed)> {
    let bytes = |sectors: u64| sectors.saturating_mul(SECTOR_BYTES);
    let has_bitmap = assembly.bitmap.is_some();
    let members = assembly.members.iter().enumerate();
    let missed = members.filter_map(|(role, member)| {
        let missed = match *member {
            Member::Rebuilding {
                from_sectors,
                by_bitmap,
                ..
            } if by_bitmap && has_bitmap => Missed::Bits {
                from: bytes(from_sectors),
                all_from: None,
            },
            Member::Rebuilding { from_sectors, .. } => Missed::From(bytes(from_sectors)),
            Member::Returning { from_sectors, .. } => Missed::Bits {
                from: 0,
                all_from: from_sectors.map(bytes),
            },
            Member::InSync(_) | Member::Missing => return None,
        };
        Some((LegId::new(role), missed))
    });
    let replacement = replacement_of(assembly).into_iter().map(|replacement| {
        let missed = Missed::From(bytes(replacement.from_sectors));
        (LegId::new(assembly.members.len()), missed)
    });
    missed.chain(replacement).collect()
}

/// The table of roles, in which legs that were taken back have theirs again.
fn roles(assembly: &Assembly, candidates: &[Candidate]) -> Vec<Role> {
    let fresh = &candidates[assembly.freshest].superblock;
    let mut roles = fresh.roles.clone();
    for (role, member) in (0..).zip(&assembly.members) {
        let Member::Returning { candidate, .. } = *member else {
            continue;
        };
        // Nobody who is there has that role, or this number.
        let number = candidates[candidate].superblock.dev_number as usize;
        if roles.len() <= number {
            roles.resize(number + 1, Role::Spare);
        }
        for other in &mut roles {
            if *other == Role::Active(role) {
                *other = Role::Spare;
            }
        }
        roles[number] = Role::Active(role);
    }
    roles
}

#[cfg(test)]
mod tests {
    use super::{layout_word, raid10_of};
    use crate::map::{CopyOrder, Layout, Raid10};

    #[test]
    fn words_and_layouts_are_the_same() {
        for order in [CopyOrder::Near, CopyOrder::Far, CopyOrder::Offset] {
            for copies in 2..=16 {
                let raid10 = Raid10 {
                    order,
                    copies,
                    chunk_bytes: Raid10::CHUNK_DEFAULT_BYTES,
                };
                let word = layout_word(Layout::Raid10(raid10));
                assert_eq!(raid10_of(word, 16), Ok(raid10));
            }
        }
        let word = |order, copies| {
            layout_word(Layout::Raid10(Raid10 {
                order,
                copies,
                chunk_bytes: 4096,
            }))
        };
        assert_eq!(word(CopyOrder::Near, 2), 0x102);
        assert_eq!(word(CopyOrder::Far, 2), 0x201);
        assert_eq!(word(CopyOrder::Offset, 2), 0x1_0201);
        assert_eq!(word(CopyOrder::Near, 3), 0x103);
        assert_eq!(layout_word(Layout::Mirror), 0);
        let error = raid10_of(0x202, 4).unwrap_err().to_string();
        assert!(error.starts_with("its layout is 0x202: near and far"));
    }
}
