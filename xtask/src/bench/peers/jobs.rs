//! What fio does to each peer, and what is made of what it and the kernel say.

use anyhow::{Context, Result, ensure};

use super::drives::{Drives, SIZE_BYTES};
use super::{Machine, Plan};
use crate::fio;

/// One load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// What it is called in tables.
    pub(super) name: &'static str,
    load: Load,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// Blocks of 4 KiB at random, so many in flight, so many percent of them reads.
    Random { depth: u32, reads: u32 },
    /// So many readers, each from the beginning of its part to its end.
    Streams(u32),
}

/// Every load, in the order of the tables.
pub(super) const JOBS: [Job; 5] = {
    const fn random(name: &'static str, depth: u32, reads: u32) -> Job {
        Job {
            name,
            load: Load::Random { depth, reads },
        }
    }
    const fn streams(name: &'static str, count: u32) -> Job {
        Job {
            name,
            load: Load::Streams(count),
        }
    }
    [
        random("random, depth 1", 1, 100),
        random("random, depth 32", 32, 100),
        random("70/30, depth 8", 8, 70),
        streams("one stream", 1),
        streams("four streams", 4),
    ]
};

/// How fio comes to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// A block device or a file of so many bytes, through the kernel that fio runs on.
    Path { path: String, bytes: u64 },
    /// The export of an NBD server.
    Uri(String),
}

impl Job {
    /// How fio is called for it.
    pub(super) fn arguments(&self, reached: &Reached, plan: Plan) -> Vec<String> {
        let (place, bytes) = match reached {
            Reached::Path { path, bytes } => (format!("--filename={path}"), *bytes),
            Reached::Uri(uri) => (format!("--uri={uri}"), SIZE_BYTES),
        };
        let mut arguments: Vec<String> = [
            "--name=peer",
            "--thread",
            "--group_reporting",
            "--output-format=json",
            // A device that is not there is an error, and no file to be made.
            "--allow_file_create=0",
        ]
        .map(str::to_owned)
        .into();
        arguments.push(format!("--runtime={}", plan.time.as_secs()));
        let mut add = |text: &str| {
            arguments.extend(text.split_whitespace().map(str::to_owned));
        };
        let is_export = matches!(reached, Reached::Uri(_));
        match (self.load, is_export) {
            (Load::Random { depth, reads }, _) => {
                let engine = if is_export { "nbd" } else { "libaio" };
                add(&format!(
                    "--rw=randrw --rwmixread={reads} --bs=4k --iodepth={depth} --direct=1 \
                     --ioengine={engine} --size={bytes} --time_based --ramp_time={} \
                     --randrepeat=0 --norandommap",
                    plan.warmup.as_secs()
                ));
            }
            // As `cat` reads: through the page cache, which reads ahead.
            (Load::Streams(count), false) => add(&format!(
                "--rw=read --bs=128k --direct=0 --ioengine=psync {}",
                parts(bytes, count)
            )),
            // As programs that copy exports read: large requests, some in flight.
            (Load::Streams(count), true) => add(&format!(
                "--rw=read --bs=256k --iodepth=8 --ioengine=nbd {}",
                parts(bytes, count)
            )),
        }
        // Behind the engine, which alone knows what a URI is.
        arguments.push(place);
        arguments
    }
}

/// Each reader's part, once: whoever reads a part again has it from a cache.
fn parts(bytes: u64, count: u32) -> String {
    // Whole requests of the largest size.
    let part = bytes / u64::from(count) / (256 << 10) * (256 << 10);
    format!("--numjobs={count} --size={part} --offset_increment={part}")
}

/// Requests per second, and what 99 % of the reads took at most, in ms, where there were any.
pub(super) fn figures(report: &str) -> Result<(f64, Option<f64>)> {
    let jobs = fio::jobs(report)?;
    let of = |key: &str| jobs[0][key]["iops"].as_f64();
    let iops = of("read")
        .zip(of("write"))
        .map(|(read, write)| read + write);
    let p99_ns = jobs[0]["read"]["clat_ns"]["percentile"]["99.000000"].as_f64();
    let iops = iops.context("fio tells no requests per second")?;
    ensure!(iops > 0.0, "nothing was read or written: {report}");
    Ok((iops, p99_ns.map(|ns| ns / 1e6)))
}

/// Who counts what a peer reads of each leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// There are no legs.
    Nowhere,
    /// The kernel that has the legs as block devices of these names.
    Devices(Vec<String>),
    /// The modelled drives of these names themselves.
    Drives(Vec<String>),
}

impl Counted {
    /// How many bytes were read of each leg until now.
    pub(super) fn look(&self, machine: &mut dyn Machine, drives: &Drives<'_>) -> Result<Vec<u64>> {
        match self {
            Self::Nowhere => Ok(Vec::new()),
            Self::Devices(names) => {
                let text = machine.diskstats()?;
                let read = |name: &String| {
                    bytes_read(&text, name).with_context(|| format!("{name} is not counted"))
                };
                names.iter().map(read).collect()
            }
            Self::Drives(names) => names.iter().map(|name| drives.bytes_read(name)).collect(),
        }
    }
}

/// What the kernel has read of a device, in its table of block devices: the sixth field, in sectors
/// of 512 bytes.
fn bytes_read(diskstats: &str, name: &str) -> Option<u64> {
    diskstats.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(2);
        if fields.next()? != name {
            return None;
        }
        let sectors: u64 = fields.nth(2)?.parse().ok()?;
        Some(sectors * 512)
    })
}

/// What part of all that was read between two looks came from each leg.
pub(super) fn shares(before: &[u64], after: &[u64]) -> Vec<f64> {
    let read: Vec<u64> = before
        .iter()
        .zip(after)
        .map(|(before, after)| after.saturating_sub(*before))
        .collect();
    let all: u64 = read.iter().sum();
    #[expect(clippy::cast_precision_loss, reason = "shares are shown in percent")]
    read.iter()
        .map(|&bytes| bytes as f64 / all.max(1) as f64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Effort, Plan};
    use super::{JOBS, Reached, bytes_read, figures, shares};

    #[test]
    fn the_sixth_field_counts_sectors() {
        let text = " 254       0 vda 1 2 8 4 5 6 7 8 9 10 11\n 254 16 vdb 10 20 30 40 0 0 0 0\n";
        assert_eq!(bytes_read(text, "vda"), Some(8 * 512));
        assert_eq!(bytes_read(text, "vdb"), Some(30 * 512));
        assert_eq!(bytes_read(text, "vd"), None);
    }

    #[test]
    fn shares_are_of_what_was_read_meanwhile() {
        assert_eq!(shares(&[10, 0], &[40, 90]), [0.25, 0.75]);
        assert_eq!(shares(&[1, 1], &[1, 1]), [0.0, 0.0]);
        assert!(shares(&[], &[]).is_empty());
    }

    #[test]
    fn reads_and_writes_count_together() {
        let report = r#"{"jobs": [{"read": {"iops": 70.0,
            "clat_ns": {"percentile": {"99.000000": 2500000}}}, "write": {"iops": 30.0}}]}"#;
        assert_eq!(figures(report).unwrap(), (100.0, Some(2.5)));
        assert!(figures("{\"jobs\": [{}]}").is_err());
    }

    #[test]
    fn exports_have_no_page_cache() {
        let plan = Plan::of(Effort::Quick);
        let words = |reached: &Reached| JOBS[4].arguments(reached, plan).join(" ");
        let path = words(&Reached::Path {
            path: "/dev/x".to_owned(),
            bytes: 1 << 30,
        });
        assert!(path.contains("--filename=/dev/x"), "{path}");
        assert!(path.contains("--direct=0 --ioengine=psync"), "{path}");
        assert!(path.contains("--numjobs=4 --size=268435456"), "{path}");
        let uri = words(&Reached::Uri("nbd://x".to_owned()));
        assert!(uri.contains("--ioengine=nbd"), "{uri}");
    }
}
