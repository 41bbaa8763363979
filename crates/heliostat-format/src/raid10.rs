//! The layout word of RAID10.

use crate::bytes::array_at;

/// What a layout word says, where it is one whose arrays are served here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raid10Word {
    /// How many copies of a chunk lie side by side.
    pub near: u32,
    /// How many copies lie far from each other, or in neighbouring rows.
    pub far: u32,
    /// Whether `far` copies lie in neighbouring rows (md's layout `offset`).
    pub is_offset: bool,
}

impl Raid10Word {
    /// What `word` says for an array of so many legs.
    ///
    /// # Errors
    /// With what is wrong, in words.
    pub fn parse(word: u32, raid_disks: u32) -> Result<Self, String> {
        let [near, far, offset, high]: [u8; 4] = array_at(&word.to_le_bytes(), 0);
        if high != 0 || offset > 7 {
            return Err("that is no layout of RAID10".to_owned());
        }
        if offset > 1 {
            return Err("copies in sets of legs are not understood here".to_owned());
        }
        let is_offset = offset == 1;
        let (near, far) = (u32::from(near), u32::from(far));
        let copies = near * far;
        if !(2..=raid_disks).contains(&copies) {
            let told = format!("{near} near times {far} far copies");
            return Err(format!(
                "{told} on {raid_disks} legs: there are 2 copies at least, each on its own leg"
            ));
        }
        if near > 1 && far > 1 {
            return Err("near and far copies at once are not understood here".to_owned());
        }
        if is_offset && far == 1 {
            return Err("copies in neighbouring rows are at least two far ones".to_owned());
        }
        Ok(Self {
            near,
            far,
            is_offset,
        })
    }

    /// The word.
    #[must_use]
    pub const fn to_number(self) -> u32 {
        self.near | self.far << 8 | (self.is_offset as u32) << 16
    }

    /// How many copies there are of each chunk.
    #[must_use]
    pub const fn copies(self) -> u32 {
        self.near * self.far
    }

    /// How large an array is of so many legs, of each of which `size_sectors` are used; `None`
    /// where that cannot be counted.
    #[must_use]
    pub fn array_sectors(
        self,
        raid_disks: u32,
        chunk_sectors: u32,
        size_sectors: u64,
    ) -> Option<u64> {
        let leg_chunks = size_sectors.checked_div(u64::from(chunk_sectors))?;
        let rows = leg_chunks / u64::from(self.far);
        let chunks = rows.checked_mul(u64::from(raid_disks))? / u64::from(self.near);
        chunks.checked_mul(u64::from(chunk_sectors))
    }

    /// The sets of roles of which each needs one leg for all data to be there: the holders of a
    /// chunk.
    pub fn holder_sets(self, raid_disks: u32) -> impl Iterator<Item = Vec<u32>> {
        // Chunks begin `near` legs apart, and come around to where the first one began.
        let (near, copies) = (self.near, self.copies());
        let mut first = Some(0);
        std::iter::from_fn(move || {
            let start = first?;
            first = Some((start + near) % raid_disks).filter(|&next| next != 0);
            Some(
                (start..start + copies)
                    .map(|leg| leg % raid_disks)
                    .collect(),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Raid10Word;

    #[test]
    fn words_are_those_of_mdadm() {
        for (word, near, far, is_offset) in [
            (0x102, 2, 1, false),
            (0x103, 3, 1, false),
            (0x201, 1, 2, false),
            (0x1_0201, 1, 2, true),
        ] {
            let parsed = Raid10Word::parse(word, 4).unwrap();
            let expected = Raid10Word {
                near,
                far,
                is_offset,
            };
            assert_eq!(parsed, expected);
            assert_eq!(parsed.to_number(), word);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for (word, legs, why) in [
            (0, 4, "0 near times 0 far"),
            (0x101, 4, "1 near times 1 far"),
            (0x105, 4, "5 near times 1 far copies on 4 legs"),
            (0xffff, 1920, "255 near times 255 far"),
            (0x202, 4, "near and far copies at once"),
            (0x1_0102, 4, "neighbouring rows"),
            (0x2_0201, 4, "in sets of legs"),
            (0x5_0201, 4, "in sets of legs"),
            (0x8_0102, 4, "no layout"),
            (0x100_0102, 4, "no layout"),
            (u32::MAX, 4, "no layout"),
            (0x102, 1, "on 1 legs"),
            (0x102, 0, "on 0 legs"),
        ] {
            let error = Raid10Word::parse(word, legs).unwrap_err();
            assert!(error.contains(why), "{word:#x}: {error}");
        }
    }

    #[test]
    fn arrays_are_as_large_as_the_kernel_makes_them() {
        let sectors = |word, legs, size| {
            let word = Raid10Word::parse(word, legs).unwrap();
            word.array_sectors(legs, 8, size)
        };
        // Seven chunks a leg: near 2 on three legs: 7 * 3 / 2 = 10; far 2 on four: 3 * 4 = 12.
        assert_eq!(sectors(0x102, 3, 63), Some(10 * 8));
        assert_eq!(sectors(0x201, 4, 63), Some(12 * 8));
        assert_eq!(sectors(0x1_0201, 4, 63), Some(12 * 8));
        assert_eq!(sectors(0x102, 1920, u64::MAX), None);
        let word = Raid10Word::parse(0x102, 2).unwrap();
        assert_eq!(word.array_sectors(2, 0, 63), None);
    }

    #[test]
    fn every_chunk_has_its_holders() {
        let sets = |word, legs| {
            let word = Raid10Word::parse(word, legs).unwrap();
            let sets: Vec<Vec<u32>> = word.holder_sets(legs).collect();
            format!("{sets:?}")
        };
        assert_eq!(sets(0x102, 4), "[[0, 1], [2, 3]]");
        assert_eq!(sets(0x102, 3), "[[0, 1], [2, 0], [1, 2]]");
        assert_eq!(sets(0x201, 3), "[[0, 1], [1, 2], [2, 0]]");
        assert_eq!(sets(0x103, 3), "[[0, 1, 2]]");
    }
}
