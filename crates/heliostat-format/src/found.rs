//! What lies on a leg: the one order in which superblock, bitmap and bad-block log are read.
//!
//! How bytes are read is the caller's; where, and how many of them, is said here. Nothing is read
//! that a superblock that makes no sense points to.

use heliostat_types::SECTOR_BYTES;

use crate::{
    BITMAP_SUPER_BYTES, BadBlocks, BitmapBits, BitmapSuper, Features, FormatError, Place, Refusal,
    SUPERBLOCK_BYTES_MAX, Superblock,
};

/// A superblock, and what lies beside it.
#[derive(Clone, Debug)]
pub struct Found {
    /// Where the superblock lies.
    pub place: Place,
    /// What it says.
    pub superblock: Superblock,
    /// The sum that is written in it, and the one that its bytes have.
    pub checksum: (u32, u32),
    /// Why nothing more is believed, where that is so: the sum is wrong, or something makes no
    /// sense or is not done here. Bitmap and log were not read then.
    pub refusal: Option<Refusal>,
    /// The head of the bitmap, where it could be understood.
    pub bitmap_super: Option<BitmapSuper>,
    /// The bitmap; `None` where there is none.
    pub bitmap: Option<Result<BitmapBits, Refusal>>,
    /// The bad blocks; `None` where there is no log.
    pub bad_blocks: Option<Result<BadBlocks, FormatError>>,
}

/// All superblocks of a leg.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// Those that could be taken apart, the one of the array that was made last first.
    pub found: Vec<Found>,
    /// Those that begin as one does, and are none.
    pub broken: Vec<(Place, FormatError)>,
}

/// Reads so many bytes from an offset on.
type Read<'a, E> = &'a mut dyn FnMut(u64, usize) -> Result<Vec<u8>, E>;

impl Search {
    /// Whether nothing begins as a superblock does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty() && self.broken.is_empty()
    }

    /// Looks for superblocks on a leg of so many bytes.
    ///
    /// # Errors
    /// Those of `read`, which is asked for bytes from an offset on, and has to answer with all of
    /// them. It is never asked for what lies behind the end of the leg.
    pub fn run<E>(device_bytes: u64, read: Read<'_, E>) -> Result<Self, E> {
        let mut search = Self::default();
        for place in Superblock::places(device_bytes) {
            let bytes = read(place.offset_bytes(), SUPERBLOCK_BYTES_MAX)?;
            let superblock = match Superblock::parse_damaged(&bytes) {
                Ok(superblock) => superblock,
                Err(FormatError::Magic { .. }) => continue,
                Err(error) => {
                    search.broken.push((place, error));
                    continue;
                }
            };
            // What belongs to another place is a copy, with what lay around it.
            let at = superblock.super_offset_sectors;
            let is_copy = at != place.sector
                && Superblock::places(device_bytes).any(|other| other.sector == at);
            if is_copy {
                continue;
            }
            let checksum = Superblock::checksums(&bytes).expect("what is parsed has a sum");
            let mut found = Found {
                place,
                refusal: refusal(&superblock, checksum, device_bytes),
                superblock,
                checksum,
                bitmap_super: None,
                bitmap: None,
                bad_blocks: None,
            };
            if found.refusal.is_none() {
                found.read_bitmap(read)?;
                found.read_bad_blocks(read)?;
            }
            search.found.push(found);
        }
        // Stable: of those made together, the usual place is first.
        let made = |found: &Found| std::cmp::Reverse(found.superblock.ctime);
        search.found.sort_by_key(made);
        Ok(search)
    }
}

impl Found {
    fn read_bitmap<E>(&mut self, read: Read<'_, E>) -> Result<(), E> {
        let Some(sector) = self.superblock.bitmap_sector() else {
            return Ok(());
        };
        let offset = sector * SECTOR_BYTES;
        let head = read(offset, BITMAP_SUPER_BYTES)?;
        let unreadable = |error: &FormatError| {
            let way_out = "the kernel renews it: mdadm --assemble --update=no-bitmap, and then \
                           mdadm --grow --bitmap=internal";
            let field = "the bitmap";
            Err(Refusal::new(field, "no bitmap", error.to_string(), way_out))
        };
        let head = match BitmapSuper::parse(&head) {
            Ok(head) => head,
            Err(error) => {
                self.bitmap = Some(unreadable(&error));
                return Ok(());
            }
        };
        self.bitmap_super = Some(head);
        if let Err(refusal) = head.check(&self.superblock) {
            self.bitmap = Some(Err(refusal));
            return Ok(());
        }
        // It was just seen to fit in front of the next thing on the leg, and into memory.
        let len_bytes = head.area_bytes().unwrap_or(0);
        let bytes = read(offset, usize::try_from(len_bytes).expect("it was checked"))?;
        self.bitmap = Some(BitmapBits::load(&bytes).or_else(|error| unreadable(&error)));
        Ok(())
    }

    fn read_bad_blocks<E>(&mut self, read: Read<'_, E>) -> Result<(), E> {
        let Some(sector) = self.superblock.bad_blocks_sector() else {
            return Ok(());
        };
        if !self.superblock.features.contains(Features::BAD_BLOCKS) {
            // What is there then is nobody's word, as Linux has it.
            let empty = BadBlocks::new(self.superblock.bad_blocks_size_sectors);
            self.bad_blocks = Some(Ok(empty));
            return Ok(());
        }
        let len_bytes = usize::from(self.superblock.bad_blocks_size_sectors) * 512;
        let bytes = read(sector * SECTOR_BYTES, len_bytes)?;
        let shift = self.superblock.bad_blocks_shift;
        self.bad_blocks = Some(BadBlocks::parse(&bytes, shift));
        Ok(())
    }
}

/// Why a superblock is not believed.
fn refusal(superblock: &Superblock, checksum: (u32, u32), device_bytes: u64) -> Option<Refusal> {
    let (stored, computed) = checksum;
    if stored != computed {
        return Some(Refusal::new(
            "sb_csum",
            format!("{stored:08x}"),
            format!("the bytes add up to {computed:08x}: the superblock was damaged"),
            "use another leg of the array, and add this one again as a new one",
        ));
    }
    superblock.check(device_bytes).err()
}

#[cfg(test)]
mod tests;
