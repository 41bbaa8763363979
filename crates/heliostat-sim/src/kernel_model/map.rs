//! Where md puts what: mirrors, and the layouts of RAID10 near, far and offset.

use super::disk::Fields;

/// Where each sector of an array lies, in the order in which md tries the copies.
#[derive(Clone, Debug)]
pub(super) struct KernelMap {
    /// Sectors of a disk that are used.
    disk_sectors: u64,
    disks: u64,
    /// `None`: a mirror of all disks.
    raid10: Option<Raid10>,
}

#[derive(Clone, Copy, Debug)]
struct Raid10 {
    near: u64,
    far: u64,
    is_offset: bool,
    chunk_sectors: u64,
}

impl KernelMap {
    pub(super) fn of(fields: &Fields) -> Result<Self, String> {
        let disks = u64::from(fields.raid_disks);
        if disks == 0 {
            return Err("it has no disks".to_owned());
        }
        let raid10 = match fields.level {
            1 => None,
            10 => Some(Raid10::of(fields)?),
            level => return Err(format!("level {level} is not modelled")),
        };
        Ok(Self {
            disk_sectors: fields.size,
            disks,
            raid10,
        })
    }

    pub(super) const fn is_mirror(&self) -> bool {
        self.raid10.is_none()
    }

    /// The size of the array.
    pub(super) const fn array_sectors(&self) -> u64 {
        match self.raid10 {
            None => self.disk_sectors,
            Some(raid10) => {
                let leg_chunks = self.disk_sectors / raid10.chunk_sectors;
                leg_chunks / raid10.far * self.disks / raid10.near * raid10.chunk_sectors
            }
        }
    }

    /// Roles, and sectors of their data, that hold a sector of the array.
    pub(super) fn places(&self, sector: u64) -> Vec<(usize, u64)> {
        let role = |disk: u64| usize::try_from(disk).expect("there are few disks");
        let Some(raid10) = self.raid10 else {
            return (0..self.disks).map(|disk| (role(disk), sector)).collect();
        };
        let Raid10 {
            near,
            far,
            is_offset,
            chunk_sectors,
        } = raid10;
        let (chunk, within) = (sector / chunk_sectors * near, sector % chunk_sectors);
        let (mut row, mut disk) = (chunk / self.disks, chunk % self.disks);
        let mut stride = self.disk_sectors / chunk_sectors / far;
        if is_offset {
            row *= far;
            stride = 1;
        }
        let mut places = Vec::new();
        for _ in 0..near {
            for copy in 0..far {
                let on = (disk + copy * near) % self.disks;
                let at = (row + copy * stride) * chunk_sectors + within;
                places.push((role(on), at));
            }
            disk += 1;
            if disk == self.disks {
                disk = 0;
                row += 1;
            }
        }
        places
    }

    /// Whether each byte has a disk in sync.
    pub(super) fn is_enough(&self, is_in_sync: impl Fn(usize) -> bool) -> bool {
        // What follows has the copies where the first chunks have them.
        let (chunks, chunk_sectors) = match self.raid10 {
            None => (1, 0),
            Some(raid10) => (self.disks, raid10.chunk_sectors),
        };
        (0..chunks).all(|chunk| {
            let mut places = self.places(chunk * chunk_sectors).into_iter();
            places.any(|(role, _)| is_in_sync(role))
        })
    }
}

impl Raid10 {
    fn of(fields: &Fields) -> Result<Self, String> {
        let layout = u64::from(fields.layout);
        let raid10 = Self {
            near: layout & 0xff,
            far: layout >> 8 & 0xff,
            is_offset: layout & 0x1_0000 != 0,
            chunk_sectors: u64::from(fields.chunk),
        };
        let copies = raid10.near * raid10.far;
        let is_possible = layout >> 17 == 0
            && (2..=u64::from(fields.raid_disks)).contains(&copies)
            && raid10.chunk_sectors.is_power_of_two()
            && raid10.chunk_sectors <= fields.size;
        if !is_possible {
            return Err(format!("layout {layout:#x} is not modelled"));
        }
        Ok(raid10)
    }
}
