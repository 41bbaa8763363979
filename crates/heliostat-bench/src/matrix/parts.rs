//! What cells are made of: arrays, loads and faults, each a piece of a scenario file.

/// How fast an array is: how long a load is played on it until figures mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Arms set the pace: hundreds of reads a second.
    Arms,
    /// A leg without an arm has all data: thousands and more, under a policy that finds it.
    Flash,
}

/// The legs of a cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Array {
    /// What the cell's name begins with.
    pub(super) name: &'static str,
    /// The same for people.
    pub(super) title: &'static str,
    pub(super) pace: Pace,
    /// What stands below `[array]`.
    pub(super) text: &'static str,
    /// Jobs that load a leg by itself.
    pub(super) neighbour: &'static str,
    /// The arrivals of the load `bursts`: about as many as a good policy serves at depth 16, for a
    /// quarter of the time.
    pub(super) bursts: &'static str,
}

impl Array {
    /// How many legs it has.
    pub(super) fn leg_count(&self) -> usize {
        let (_, legs) = self.text.split_once("legs = [").expect("arrays have legs");
        legs.split(']')
            .next()
            .map_or(0, |legs| legs.split(',').count())
    }
}

/// Everything that reads are sent to. Sizes are those at which a drive's arm has to go at least
/// half of its way, where all legs are as large; a flash drive of 256 GB beside it leaves less.
pub(super) const ARRAYS: &[Array] = &[
    Array {
        name: "1hdd",
        title: "one HDD",
        pace: Pace::Arms,
        text: "legs = ['hdd-7200-2tb']\nsize = '1TiB'\n",
        neighbour: "",
        bursts: "burst:120:1s:3s",
    },
    Array {
        name: "2hdd",
        title: "2 HDD",
        pace: Pace::Arms,
        text: "legs = ['hdd-7200-2tb', 'hdd-7200-2tb']\nsize = '1TiB'\n",
        neighbour: "",
        bursts: "burst:250:1s:3s",
    },
    Array {
        name: "3hdd",
        title: "3 HDD",
        pace: Pace::Arms,
        text: "legs = ['hdd-7200-2tb', 'hdd-7200-2tb', 'hdd-7200-2tb']\nsize = '1TiB'\n",
        neighbour: "",
        bursts: "burst:400:1s:3s",
    },
    Array {
        name: "2hdd+old",
        title: "2 HDD + old HDD",
        pace: Pace::Arms,
        text: "legs = ['hdd-7200-2tb', 'hdd-5400-old', 'hdd-7200-2tb']\nsize = '400GiB'\n",
        neighbour: "",
        bursts: "burst:300:1s:3s",
    },
    Array {
        name: "3hdd+neighbour",
        title: "3 HDD, one loaded by a neighbour",
        pace: Pace::Arms,
        text: "legs = ['hdd-7200-2tb', 'hdd-7200-2tb', 'hdd-7200-2tb']\nsize = '1TiB'\n",
        neighbour: "[[job]]\nname = 'neighbour'\nrw = 'randread'\nbs = '64k'\nleg = 1\n\
                    arrival = 'poisson:45'\n",
        bursts: "burst:350:1s:3s",
    },
    Array {
        name: "hdd+ssd",
        title: "HDD + SSD",
        pace: Pace::Flash,
        text: "legs = ['hdd-7200-2tb', 'ssd-sata-256gb']\nsize = '200GiB'\n",
        neighbour: "",
        bursts: "burst:70000:20ms:60ms",
    },
    Array {
        name: "2hdd+ssd",
        title: "2 HDD + SSD",
        pace: Pace::Flash,
        text: "legs = ['hdd-7200-2tb', 'hdd-7200-2tb', 'ssd-sata-256gb']\nsize = '200GiB'\n",
        neighbour: "",
        bursts: "burst:70000:20ms:60ms",
    },
    Array {
        name: "6unequal",
        title: "6 unequal, two copies",
        pace: Pace::Arms,
        text: "level = 'raid10'\nlayout = 'near=2'\n\
               legs = ['hdd-7200-2tb', 'hdd-5400-old', 'hdd-7200-1tb', 'ssd-sata-256gb', \
               'ssd-sata-1tb', 'nvme-gen3']\nsize = '600GiB'\n",
        neighbour: "",
        bursts: "burst:250:1s:3s",
    },
    Array {
        name: "2ssd",
        title: "2 SSD",
        pace: Pace::Flash,
        text: "legs = ['ssd-sata-256gb', 'ssd-sata-256gb']\nsize = '200GiB'\n",
        neighbour: "",
        bursts: "burst:120000:20ms:60ms",
    },
    Array {
        name: "2ssd+neighbour",
        title: "2 SSD, one loaded by a neighbour",
        pace: Pace::Flash,
        text: "legs = ['ssd-sata-256gb', 'ssd-sata-256gb']\nsize = '200GiB'\n",
        neighbour: "[[job]]\nname = 'neighbour'\nrw = 'randread'\nbs = '64k'\nleg = 0\n\
                    arrival = 'burst:7000:200ms:200ms'\n",
        bursts: "burst:90000:20ms:60ms",
    },
    Array {
        name: "ssd+nvme",
        title: "SSD + NVMe",
        pace: Pace::Flash,
        text: "legs = ['ssd-sata-256gb', 'nvme-gen3']\nsize = '200GiB'\n",
        neighbour: "",
        bursts: "burst:200000:10ms:30ms",
    },
    Array {
        name: "nvme+net",
        title: "NVMe + network",
        pace: Pace::Flash,
        text: "legs = ['nvme-gen3', 'net-ssd']\nsize = '200GiB'\n",
        neighbour: "",
        bursts: "burst:180000:10ms:30ms",
    },
    Array {
        name: "1nvme",
        title: "one NVMe",
        pace: Pace::Flash,
        text: "legs = ['nvme-gen3']\nsize = '200GiB'\n",
        neighbour: "",
        bursts: "burst:180000:10ms:30ms",
    },
    Array {
        name: "2nvme",
        title: "2 NVMe",
        pace: Pace::Flash,
        text: "legs = ['nvme-gen3', 'nvme-gen3']\nsize = '200GiB'\n",
        neighbour: "",
        bursts: "burst:250000:10ms:30ms",
    },
    Array {
        name: "3nvme",
        title: "3 NVMe",
        pace: Pace::Flash,
        text: "legs = ['nvme-gen3', 'nvme-gen3', 'nvme-gen3']\nsize = '200GiB'\n",
        neighbour: "",
        bursts: "burst:300000:10ms:30ms",
    },
];

/// What a load is, as far as judging goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Blocks at random.
    Random,
    /// One block after the other.
    Stream,
    /// Both, or writes among the reads.
    Mixed,
}

impl Class {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Stream => "streams",
            Self::Mixed => "mixed",
        }
    }
}

/// What clients ask of a cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// The middle of the cell's name.
    pub(super) name: &'static str,
    /// The same for people.
    pub(super) title: &'static str,
    pub(super) class: Class,
    /// Requests in flight, as far as lengths of runs go.
    pub(super) depth: u32,
    /// The `[[job]]`s; `BURSTS` stands for what the array says.
    pub(super) text: &'static str,
}

/// A stream as `cat` reads it through Linux's page cache with its default window.
macro_rules! streams {
    ($numjobs:literal, $apart:literal) => {
        concat!(
            "[[job]]\nname = 'streams'\nrw = 'read'\nbs = '128k'\ndirect = 0\n",
            "readahead = '128k'\nnumjobs = ",
            $numjobs,
            "\noffset_increment = '",
            $apart,
            "'\n"
        )
    };
}

macro_rules! random {
    ($keys:literal) => {
        concat!("[[job]]\nname = 'random'\nrw = 'randread'\n", $keys, "\n")
    };
}

macro_rules! load {
    ($name:literal, $title:literal, $class:ident, $depth:literal, $text:expr) => {
        Load {
            name: $name,
            title: $title,
            class: Class::$class,
            depth: $depth,
            text: $text,
        }
    };
}

/// Everything that clients ask for.
#[rustfmt::skip]
pub(super) const LOADS: &[Load] = &[
    load!("4k-d1", "random 4K, depth 1", Random, 1, random!("iodepth = 1")),
    load!("4k-d4", "random 4K, depth 4", Random, 4, random!("iodepth = 4")),
    load!("4k-d16", "random 4K, depth 16", Random, 16, random!("iodepth = 16")),
    load!("4k-d32", "random 4K, depth 32", Random, 32, random!("iodepth = 32")),
    load!("4k-d128", "random 4K, depth 128", Random, 128, random!("iodepth = 128")),
    load!("4k-4x256", "random 4K, 4 jobs of 256", Random, 1024,
        random!("iodepth = 256\nnumjobs = 4")),
    load!("64k-d1", "random 64K, depth 1", Random, 1, random!("bs = '64k'\niodepth = 1")),
    load!("64k-d4", "random 64K, depth 4", Random, 4, random!("bs = '64k'\niodepth = 4")),
    load!("64k-d16", "random 64K, depth 16", Random, 16, random!("bs = '64k'\niodepth = 16")),
    load!("64k-d32", "random 64K, depth 32", Random, 32, random!("bs = '64k'\niodepth = 32")),
    load!("64k-d128", "random 64K, depth 128", Random, 128, random!("bs = '64k'\niodepth = 128")),
    load!("zipf-d16", "random 4K, zipf, depth 16", Random, 16,
        random!("iodepth = 16\nrandom_distribution = 'zipf:1.1'")),
    load!("bursts", "random 4K in bursts", Random, 16, random!("arrival = 'BURSTS'")),
    load!("1stream", "1 stream", Stream, 1, streams!("1", "0")),
    load!("2streams", "2 streams", Stream, 2, streams!("2", "64g")),
    load!("8streams", "8 streams", Stream, 8, streams!("8", "20g")),
    load!("1stream-1m-d16", "1 stream of 1M, depth 16", Stream, 16,
        "[[job]]\nname = 'stream'\nrw = 'read'\nbs = '1m'\niodepth = 16\n"),
    load!("8streams+random", "8 streams + random 4K, depth 4", Mixed, 12,
        concat!(streams!("8", "20g"), random!("iodepth = 4"))),
    load!("1stream+mix70-d8", "1 stream + 70/30 random 4K, depth 8", Mixed, 9,
        concat!(streams!("1", "0"),
            "[[job]]\nname = 'mix'\nrw = 'randrw'\nrwmixread = 70\niodepth = 8\n")),
    load!("1stream+log", "1 stream + a log: 4K in sequence, depth 1", Mixed, 2,
        concat!(streams!("1", "0"),
            "[[job]]\nname = 'log'\nrw = 'write'\noffset = '50%'\n")),
    load!("1reader+log", "one read of 128K at a time, in sequence + a log", Mixed, 2,
        "[[job]]\nname = 'reader'\nrw = 'read'\nbs = '128k'\nsize = '50%'\n\
         [[job]]\nname = 'log'\nrw = 'write'\noffset = '50%'\n"),
    load!("4streams+writes-d8", "4 streams + random writes of 4K, depth 8", Mixed, 12,
        concat!(streams!("4", "20g"),
            "[[job]]\nname = 'writes'\nrw = 'randwrite'\niodepth = 8\n")),
    load!("mix70-d1", "70/30 random 4K, depth 1", Mixed, 1,
        "[[job]]\nname = 'mix'\nrw = 'randrw'\nrwmixread = 70\niodepth = 1\n"),
    load!("mix70-d16", "70/30 random 4K, depth 16", Mixed, 16,
        "[[job]]\nname = 'mix'\nrw = 'randrw'\nrwmixread = 70\niodepth = 16\n"),
    load!("mix70-64k-d1", "70/30 random 64K, depth 1", Mixed, 1,
        "[[job]]\nname = 'mix'\nrw = 'randrw'\nrwmixread = 70\nbs = '64k'\niodepth = 1\n"),
    load!("rw-1m-d4", "sequential 50/50 of 1M, depth 4", Mixed, 4,
        "[[job]]\nname = 'mix'\nrw = 'rw'\nbs = '1m'\niodepth = 4\n"),
];

/// What goes wrong with one leg.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wrong {
    /// The end of the cell's name.
    pub(super) name: &'static str,
    /// The same for people.
    pub(super) title: &'static str,
    /// The keys of the `[[fault]]` besides `leg`; empty: nothing is wrong.
    pub(super) text: &'static str,
    /// From when to when, where it holds for a part of the run only; in seconds.
    pub(super) phase: Option<Phase>,
}

/// A fault that begins and ends while it is measured, in seconds from the start of measuring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Phase {
    pub(super) begins: f64,
    pub(super) ends: f64,
    /// How long is measured in all: five seconds more, in which the leg should be used again.
    pub(super) seconds: f64,
}

const fn slow(name: &'static str, title: &'static str, text: &'static str, phase: Phase) -> Wrong {
    Wrong {
        name,
        title,
        text,
        phase: Some(phase),
    }
}

const fn phase(begins: f64, ends: f64, seconds: f64) -> Phase {
    Phase {
        begins,
        ends,
        seconds,
    }
}

/// Everything that goes wrong. The speed before a fault is measured for as long as it takes to know
/// it: long where legs have arms, short on flash.
pub(super) const WRONGS: &[Wrong] = &[
    Wrong {
        name: "none",
        title: "nothing wrong",
        text: "",
        phase: None,
    },
    slow(
        "x8-1s",
        "8 times slower for 1 s",
        "at = '1s'\nuntil = '2s'\nslow = 8.0\n",
        phase(1.0, 2.0, 7.0),
    ),
    slow(
        "x30-1s",
        "30 times slower for 1 s",
        "at = '1s'\nuntil = '2s'\nslow = 30.0\n",
        phase(1.0, 2.0, 7.0),
    ),
    slow(
        "x30-5s",
        "30 times slower for 5 s",
        "at = '1s'\nuntil = '6s'\nslow = 30.0\n",
        phase(1.0, 6.0, 11.0),
    ),
    slow(
        "x8-15s",
        "8 times slower for 15 s",
        "at = '20s'\nuntil = '35s'\nslow = 8.0\n",
        phase(20.0, 35.0, 40.0),
    ),
    slow(
        "x30-15s",
        "30 times slower for 15 s",
        "at = '20s'\nuntil = '35s'\nslow = 30.0\n",
        phase(20.0, 35.0, 40.0),
    ),
    Wrong {
        name: "pauses-60ms",
        title: "pauses of 5 ms each 60 ms",
        text: "pause = '5ms'\nevery = '60ms'\njitter = '20ms'\n",
        phase: None,
    },
    Wrong {
        name: "pauses-200ms",
        title: "pauses of 5 ms each 200 ms",
        text: "pause = '5ms'\nevery = '200ms'\njitter = '60ms'\n",
        phase: None,
    },
    Wrong {
        name: "stalls",
        title: "stalls of 200 ms each 2 s",
        text: "pause = '200ms'\nevery = '2s'\njitter = '1s'\n",
        phase: None,
    },
    // Fifteen at most: for more than twenty the engine takes a leg out, as md does, and whoever
    // reads faster would lose it sooner.
    Wrong {
        name: "errors",
        title: "a read of 1,000 fails, fifteen in all",
        text: "error = 'read'\nrate = 0.001\ncount = 15\n",
        phase: None,
    },
];
