//! Suites: jobs of fio that belong together.

use super::fio::BACKGROUND;

/// What suites there are.
pub const SUITES: &[&str] = &["seeds", "mirror-2021", "randrw-2021", "readers"];

/// How much the background load writes: enough to be felt, and little enough for a hard disk.
const REWRITE: &str = "--rw=randwrite --bs=64k --iodepth=1 --rate=4m";

/// One job, which is run by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// What it is called in tables.
    pub name: String,
    /// Whether it changes data.
    pub writes: bool,
    /// Whether it goes through the page cache, and ends when all is read once.
    pub is_buffered: bool,
    options: &'static str,
    has_background: bool,
}

impl Job {
    /// fio's arguments after those that name the target.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let words = |text: &'static str| text.split(' ').map(str::to_owned);
        let mut all = vec![format!("--name={}", self.name)];
        all.extend(words(self.options));
        if self.has_background {
            all.push(format!("--name={BACKGROUND}"));
            all.extend(words(REWRITE));
        }
        all
    }
}

/// A job's name and fio's options for it.
type Line = (&'static str, &'static str);

/// Of btrfs's read policies in 2025: each alone, and beside writes.
const SEEDS: &[Line] = &[
    ("randread 4k depth 1", "--rw=randread --bs=4k --iodepth=1"),
    ("randread 4k depth 32", "--rw=randread --bs=4k --iodepth=32"),
    ("read 1M depth 16", "--rw=read --bs=1M --iodepth=16"),
    ("randrw 4k depth 1", "--rw=randrw --bs=4k --iodepth=1"),
    ("randrw 4k depth 32", "--rw=randrw --bs=4k --iodepth=32"),
    ("rw 1M depth 16", "--rw=rw --bs=1M --iodepth=16"),
];

/// Of btrfs's read policies in 2021, through the page cache; here each job reads a part of its own,
/// so that none finds what another one has read.
const MIRROR_2021: &[Line] = &[
    ("read 64k, 1 job", "--rw=read --bs=64k"),
    (
        "read 64k, 8 jobs",
        "--rw=read --bs=64k --numjobs=8 --size=12% --offset_increment=12% --group_reporting",
    ),
    ("randread 64k, 1 job", "--rw=randread --bs=64k"),
    (
        "randread 64k, 8 jobs",
        "--rw=randread --bs=64k --numjobs=8 --size=12% --offset_increment=12% --group_reporting",
    ),
];

/// The same year's of reads and writes.
const RANDRW_2021: &[Line] = &[
    (
        "randrw 4k depth 256, 4 jobs",
        "--rw=randrw --bs=4k --iodepth=256 --numjobs=4 --group_reporting",
    ),
    (
        "randrw 64k depth 64, 4 jobs",
        "--rw=randrw --bs=64k --iodepth=64 --numjobs=4 --group_reporting",
    ),
    (
        "randrw 4k depth 1, 4 jobs",
        "--rw=randrw --bs=4k --iodepth=1 --numjobs=4 --group_reporting",
    ),
];

/// Readers of files beside each other.
const READERS: &[Line] = &[
    ("1 reader", "--rw=read --bs=128k"),
    (
        "2 readers",
        "--rw=read --bs=128k --numjobs=2 --size=50% --offset_increment=50% --group_reporting",
    ),
    (
        "4 readers",
        "--rw=read --bs=128k --numjobs=4 --size=25% --offset_increment=25% --group_reporting",
    ),
    (
        "8 readers",
        "--rw=read --bs=128k --numjobs=8 --size=12% --offset_increment=12% --group_reporting",
    ),
];

/// The jobs of a suite in their order; nothing where there is no such suite.
#[must_use]
pub fn jobs(suite: &str) -> Option<Vec<Job>> {
    let (lines, is_buffered, loads): (_, _, &[bool]) = match suite {
        "seeds" => (SEEDS, false, &[false, true]),
        "mirror-2021" => (MIRROR_2021, true, &[false]),
        "randrw-2021" => (RANDRW_2021, false, &[false]),
        "readers" => (READERS, true, &[false]),
        _ => return None,
    };
    let job = |has_background: bool| {
        lines.iter().map(move |&(name, options)| Job {
            name: match has_background {
                true => format!("{name}, beside writes"),
                false => name.to_owned(),
            },
            writes: has_background || name.contains("rw "),
            is_buffered,
            options,
            has_background,
        })
    };
    Some(loads.iter().flat_map(|&load| job(load)).collect())
}

#[cfg(test)]
mod tests {
    use super::{SUITES, jobs};

    #[test]
    fn what_writes_says_so() {
        for suite in SUITES {
            for job in jobs(suite).expect("it is listed") {
                let all = job.arguments();
                let mut kinds = all.iter().filter(|word| word.starts_with("--rw="));
                let writes = kinds.any(|word| !["--rw=read", "--rw=randread"].contains(&&**word));
                assert_eq!(job.writes, writes, "{}: {all:?}", job.name);
            }
        }
        assert_eq!(jobs("seeds").map(|jobs| jobs.len()), Some(12));
        assert_eq!(jobs("seed"), None);
    }
}
