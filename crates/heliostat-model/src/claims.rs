//! What data sheets, and people who measured, say of the drives that exist by name: to be put
//! beside what the models do. A model is never made from these figures here; where it was fitted to
//! one, `origins` says so.

/// What a claim is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Random 4 KiB reads per second, one at a time.
    ReadIopsDepth1,
    /// Random 4 KiB reads per second at depth 32.
    ReadIopsDepth32,
    /// Most random 4 KiB reads per second at any depth.
    ReadIopsMax,
    /// Most random 4 KiB writes per second at any depth.
    WriteIopsMax,
    /// Sequential reads at the start of the drive, in bytes per second.
    ReadBandwidth,
    /// Sequential writes at the start of the drive, in bytes per second.
    WriteBandwidth,
    /// Mean seek of reads, in ns.
    SeekMean,
}

impl Figure {
    /// What it is, for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadIopsDepth1 => "random 4 KiB reads, depth 1",
            Self::ReadIopsDepth32 => "random 4 KiB reads, depth 32",
            Self::ReadIopsMax => "random 4 KiB reads, any depth",
            Self::WriteIopsMax => "random 4 KiB writes, any depth",
            Self::ReadBandwidth => "sequential reads from the start",
            Self::WriteBandwidth => "sequential writes from the start",
            Self::SeekMean => "mean seek",
        }
    }
}

/// Something that somebody says of a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// What it is about.
    pub figure: Figure,
    /// Operations or bytes per second, or nanoseconds.
    pub value: f64,
    /// Who says so.
    pub source: &'static str,
}

/// What is said of one drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sheet {
    /// The drive's name.
    pub drive: &'static str,
    /// Figures to compare the model with.
    pub claims: &'static [Claim],
    /// Where parameters come from, by their keys; what is not listed is an assumption.
    pub origins: &'static [(&'static [&'static str], &'static str)],
}

impl Sheet {
    /// Where the parameter `key` comes from.
    #[must_use]
    pub fn origin(&self, key: &str) -> &'static str {
        let listed = self.origins.iter().find(|(keys, _)| keys.contains(&key));
        listed.map_or("assumption", |(_, origin)| origin)
    }
}

/// The sheet of the drive called `name`.
#[must_use]
pub fn sheet(name: &str) -> Option<&'static Sheet> {
    SHEETS.iter().find(|sheet| sheet.drive == name)
}

const fn claim(figure: Figure, value: f64, source: &'static str) -> Claim {
    Claim {
        figure,
        value,
        source,
    }
}

const DATA_SHEET: &str = "data sheet";
const DERIVED: &str = "follows from other parameters";

static SHEETS: [Sheet; 9] = [
    Sheet {
        drive: "hdd-7200-2tb",
        claims: &[
            claim(Figure::ReadBandwidth, 220e6, DATA_SHEET),
            claim(
                Figure::ReadBandwidth,
                229e6,
                "owners' fio runs, linux-btrfs, February 2021",
            ),
            claim(Figure::SeekMean, 8.5e6, "data sheets of the family"),
        ],
        origins: &[
            (
                &["size", "spindle_rpm", "queue_depth", "physical_block_bytes"],
                DATA_SHEET,
            ),
            (
                &["outer_bytes_per_s"],
                "owners' fio runs, linux-btrfs, February 2021",
            ),
            (
                &["inner_bytes_per_s"],
                "0.48 of the outer rate, as drives of its generation",
            ),
            (
                &["seek_mean", "seek_full", "seek_track_to_track"],
                "data sheets of the family, and 0.7 ms for reads of 13 to 15 ms as measured",
            ),
            (&["link_bytes_per_s"], "SATA 6 Gb/s after 8b/10b coding"),
            (
                &["ageing_permille"],
                "fitted: depth 32 gains 2 to 2.5 over depth 1",
            ),
            (&["read_bw", "write_bw"], DERIVED),
        ],
    },
    Sheet {
        drive: "hdd-7200-1tb",
        claims: &[claim(
            Figure::ReadBandwidth,
            140e6,
            "product manual 100516232",
        )],
        origins: &[
            (
                &[
                    "size",
                    "spindle_rpm",
                    "queue_depth",
                    "outer_bytes_per_s",
                    "link_bytes_per_s",
                ],
                "product manual 100516232 (Constellation ES, 2010)",
            ),
            (
                &["seek_mean", "seek_full", "seek_track_to_track"],
                "assumption: as hdd-7200-2tb",
            ),
            (
                &["ageing_permille"],
                "fitted: depth 32 gains 2 to 2.5 over depth 1",
            ),
            (&["read_bw", "write_bw"], DERIVED),
        ],
    },
    Sheet {
        drive: "hdd-5400-old",
        claims: &[
            claim(
                Figure::SeekMean,
                12e6,
                "OEM specification, Travelstar 5K320",
            ),
            claim(
                Figure::ReadBandwidth,
                80e6,
                "drives of 500 GB of about 2008",
            ),
        ],
        origins: &[
            (
                &[
                    "spindle_rpm",
                    "seek_mean",
                    "seek_full",
                    "seek_track_to_track",
                    "write_settle",
                ],
                "OEM specification of the Hitachi Travelstar 5K320 family",
            ),
            (
                &["outer_bytes_per_s", "inner_bytes_per_s"],
                "drives of 500 GB of about 2008",
            ),
            (
                &["ageing_permille"],
                "fitted: depth 32 gains 2 to 2.5 over depth 1",
            ),
            (&["read_bw", "write_bw"], DERIVED),
        ],
    },
    Sheet {
        drive: "ssd-sata-256gb",
        claims: &[
            claim(Figure::ReadIopsDepth1, 8_900.0, "measured on such drives"),
            claim(Figure::ReadIopsMax, 90_000.0, DATA_SHEET),
            claim(Figure::WriteIopsMax, 80_000.0, DATA_SHEET),
            claim(Figure::ReadBandwidth, 550e6, DATA_SHEET),
            claim(Figure::WriteBandwidth, 500e6, DATA_SHEET),
        ],
        origins: &[
            (
                &[
                    "size",
                    "queue_depth",
                    "link_bytes_per_s",
                    "read_command_time",
                    "write_command_time",
                ],
                DATA_SHEET,
            ),
            (
                &["read_time", "fixed_time"],
                "fitted: 8,900 reads at depth 1",
            ),
            (&["program_time"], "fitted: 500 MB/s of writes"),
            (&["read_bw", "write_bw"], DERIVED),
        ],
    },
    Sheet {
        drive: "ssd-sata-1tb",
        claims: &[
            claim(Figure::ReadIopsDepth1, 10_000.0, DATA_SHEET),
            claim(Figure::ReadIopsDepth32, 98_000.0, DATA_SHEET),
            claim(Figure::WriteIopsMax, 90_000.0, DATA_SHEET),
            claim(Figure::ReadBandwidth, 550e6, DATA_SHEET),
            claim(Figure::WriteBandwidth, 520e6, DATA_SHEET),
        ],
        origins: &[
            (
                &[
                    "size",
                    "queue_depth",
                    "link_bytes_per_s",
                    "read_command_time",
                    "write_command_time",
                ],
                DATA_SHEET,
            ),
            (
                &["read_time", "fixed_time"],
                "fitted: 10,000 reads at depth 1",
            ),
            (&["program_time"], "fitted: 520 MB/s of writes"),
            (&["read_bw", "write_bw"], DERIVED),
        ],
    },
    Sheet {
        drive: "nvme-gen3",
        claims: &[
            claim(Figure::ReadIopsDepth1, 15_000.0, DATA_SHEET),
            claim(
                Figure::ReadIopsDepth32,
                384_000.0,
                "measured on the 512 GB one",
            ),
            claim(Figure::ReadIopsMax, 500_000.0, DATA_SHEET),
            claim(Figure::WriteIopsMax, 500_000.0, DATA_SHEET),
            claim(Figure::ReadBandwidth, 3.5e9, DATA_SHEET),
            claim(Figure::WriteBandwidth, 2.7e9, DATA_SHEET),
        ],
        origins: &[
            (
                &[
                    "size",
                    "link_bytes_per_s",
                    "read_command_time",
                    "write_command_time",
                ],
                DATA_SHEET,
            ),
            (
                &["read_time", "die_count", "fixed_time"],
                "fitted: 14,400 reads at depth 1 and 384,000 at depth 32",
            ),
            (&["program_time"], "fitted: 2.7 GB/s of writes"),
            (&["read_bw", "write_bw"], DERIVED),
        ],
    },
    Sheet {
        drive: "nvme-gen4",
        claims: &[
            claim(Figure::ReadIopsDepth1, 22_000.0, DATA_SHEET),
            claim(Figure::ReadIopsMax, 1_000_000.0, DATA_SHEET),
            claim(Figure::WriteIopsMax, 1_000_000.0, DATA_SHEET),
            claim(Figure::ReadBandwidth, 7e9, DATA_SHEET),
            claim(Figure::WriteBandwidth, 5e9, DATA_SHEET),
        ],
        origins: &[
            (
                &[
                    "size",
                    "link_bytes_per_s",
                    "read_command_time",
                    "write_command_time",
                ],
                DATA_SHEET,
            ),
            (
                &["read_time", "fixed_time"],
                "fitted: 22,000 reads at depth 1",
            ),
            (&["program_time"], "fitted: 5 GB/s of writes"),
            (&["read_bw", "write_bw"], DERIVED),
        ],
    },
    Sheet {
        drive: "net-ssd",
        claims: &[
            claim(
                Figure::ReadIopsDepth1,
                1_667.0,
                "a mean of 0.6 ms, as people measure",
            ),
            claim(Figure::ReadIopsMax, 16_000.0, "AWS documentation of gp3"),
            claim(Figure::WriteIopsMax, 16_000.0, "AWS documentation of gp3"),
            claim(
                Figure::ReadBandwidth,
                1_048_576_000.0,
                "AWS documentation of gp3",
            ),
            claim(
                Figure::WriteBandwidth,
                1_048_576_000.0,
                "AWS documentation of gp3",
            ),
        ],
        origins: &[
            (
                &["iops_max", "bytes_per_s_max"],
                "AWS documentation of gp3 volumes (2020 to 2025)",
            ),
            (
                &["latency_floor", "latency_tail_mean"],
                "a mean of 0.6 ms as measured; that 0.45 ms are the floor is an assumption",
            ),
            (&["read_bw", "write_bw"], DERIVED),
        ],
    },
    Sheet {
        drive: "ram",
        claims: &[],
        origins: &[
            (&["operation_time"], "a page fault's worth of work"),
            (&["copy_bytes_per_s"], "the copy rate of one core"),
            (&["read_bw", "write_bw"], DERIVED),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::{SHEETS, sheet};
    use crate::drives::DRIVES;

    #[test]
    fn every_drive_has_a_sheet_about_parameters_it_has() {
        for drive in &DRIVES {
            let sheet = sheet(drive.name).expect("every drive has one");
            let keys: Vec<&str> = drive.params.fields().iter().map(|f| f.key).collect();
            for key in sheet.origins.iter().flat_map(|(keys, _)| keys.iter()) {
                assert!(keys.contains(key), "{}: {key}", drive.name);
            }
            assert!(sheet.claims.iter().all(|claim| claim.value > 0.0));
        }
        assert_eq!(SHEETS.len(), DRIVES.len());
        assert_eq!(
            sheet("hdd-7200-2tb").unwrap().origin("spindle_rpm"),
            "data sheet"
        );
        assert_eq!(sheet("ram").unwrap().origin("queue_depth"), "assumption");
    }
}
