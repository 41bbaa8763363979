//! What an array is: its level, its legs, its metadata, and who makes it.

use super::dice::Dice;

const MIB: u64 = 1 << 20;

/// Who makes an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maker {
    /// `mdadm --create`, in the guest.
    Kernel,
    /// `heliostat create`, here.
    Heliostat,
}

/// An array that was not made yet.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) maker: Maker,
    /// The size of each leg, in the order of the roles.
    pub(super) leg_bytes: Vec<u64>,
    /// Whether every leg holds everything.
    pub(super) is_mirror: bool,
    /// How many copies there are of everything.
    pub(super) copies: usize,
    /// How many bytes a bit of the bitmap stands for; none.
    pub(super) bitmap_chunk: Option<&'static str>,
    /// What the maker is told besides: level, layout, chunk, version.
    words: Vec<String>,
    /// Whether the last leg is read only where nothing else is left.
    has_write_mostly: bool,
}

/// The layouts of RAID10, as mdadm and as heliostat call them, and their copies.
const LAYOUTS: &[(&str, &str, usize)] = &[
    ("n2", "near=2", 2),
    ("n2", "near=2", 2),
    ("n3", "near=3", 3),
    ("f2", "far=2", 2),
    ("f3", "far=3", 3),
    ("o2", "offset=2", 2),
    ("o3", "offset=3", 3),
];

const BITMAP_CHUNKS: &[&str] = &["4K", "64K", "64K", "64K", "256K", "1M", "64M", "128M"];

impl Shape {
    /// One of many.
    pub(super) fn draw(dice: &mut Dice) -> Self {
        let maker = *dice.pick(&[Maker::Kernel, Maker::Heliostat]);
        let is_mirror = dice.once_in(2);
        let bitmap_chunk = (!dice.once_in(5)).then(|| *dice.pick(BITMAP_CHUNKS));
        let mut words = Vec::new();
        let (legs, copies, most_mib);
        if is_mirror {
            legs = *dice.pick(&[2, 2, 2, 3, 3, 4, 6]);
            (copies, most_mib) = (legs, 16);
            words.push(match maker {
                Maker::Kernel => "--level=1".to_owned(),
                Maker::Heliostat => "--level raid1".to_owned(),
            });
        } else {
            let (mdadm, ours, of_layout) = *dice.pick(LAYOUTS);
            (copies, most_mib) = (of_layout, 12);
            legs = *dice.pick(&[3, 3, 4, 4, 5]);
            let chunk = *dice.pick(&["64K", "64K", "512K"]);
            words.push(match maker {
                Maker::Kernel => format!("--level=10 --layout={mdadm} --chunk={chunk}"),
                Maker::Heliostat => format!("--level raid10 --layout {ours} --chunk {chunk}"),
            });
        }
        // Legs are seldom of one size, and of whole KiB.
        let is_even = dice.once_in(3);
        let leg_bytes = (0..legs).map(|_| match is_even {
            true => most_mib * MIB,
            false => most_mib * MIB - 4096 * dice.below(512) as u64,
        });
        let mut shape = Self {
            maker,
            leg_bytes: leg_bytes.collect(),
            is_mirror,
            copies,
            bitmap_chunk,
            words,
            has_write_mostly: is_mirror && dice.once_in(4),
        };
        shape.draw_metadata(dice);
        shape
    }

    fn draw_metadata(&mut self, dice: &mut Dice) {
        let words = match (self.maker, self.bitmap_chunk) {
            (Maker::Kernel, None) => "--bitmap=none".to_owned(),
            (Maker::Kernel, Some(chunk)) => format!("--bitmap=internal --bitmap-chunk={chunk}"),
            (Maker::Heliostat, None) => "--bitmap none".to_owned(),
            (Maker::Heliostat, Some(chunk)) => format!("--bitmap-chunk {chunk}"),
        };
        self.words.push(words);
        if !dice.once_in(4) {
            self.words.push("--assume-clean".to_owned());
        }
        if self.maker == Maker::Kernel {
            let version = *dice.pick(&["1.2", "1.2", "1.2", "1.0", "1.1"]);
            self.words.push(format!("--metadata={version}"));
            if version != "1.0" && dice.once_in(2) {
                let offset = *dice.pick(&["64K", "1M", "1028K", "2M"]);
                self.words.push(format!("--data-offset={offset}"));
            }
            match dice.below(3) {
                0 => self.words.push("--name=elsewhere:array".to_owned()),
                1 => self.words.push("--name=array".to_owned()),
                _ => {}
            }
        }
    }

    /// The command of the guest that makes it; its legs are `$a`, `$b` and so on.
    pub(super) fn mdadm(&self) -> String {
        let (words, count) = (self.words.join(" "), self.leg_bytes.len());
        let mut legs: Vec<String> = self.leg_names().map(|leg| format!("${leg}")).collect();
        if self.has_write_mostly {
            legs.insert(count - 1, "--write-mostly".to_owned());
        }
        let legs = legs.join(" ");
        format!("mdadm --create $md --run {words} --raid-devices={count} {legs}")
    }

    /// What `heliostat create` is told, where `./a` and so on stand for legs.
    pub(super) fn create(&self) -> String {
        let mut words = self.words.join(" ");
        if let Some(last) = self.leg_names().last().filter(|_| self.has_write_mostly) {
            words = format!("{words} --write-mostly ./{last}");
        }
        words
    }

    /// What its legs are called.
    pub(super) fn leg_names(&self) -> impl Iterator<Item = char> {
        ('a'..).take(self.leg_bytes.len())
    }
}
