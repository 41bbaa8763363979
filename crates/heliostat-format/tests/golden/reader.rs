//! Reads the legs that lie here: what mdadm and the kernel wrote, and what mdadm said of it.

/// Every case by name.
pub(crate) const CASES: &[(&str, &str)] = &[
    ("raid1-1.0", include_str!("raid1-1.0.txt")),
    ("raid1-1.1", include_str!("raid1-1.1.txt")),
    ("raid1-bad-blocks", include_str!("raid1-bad-blocks.txt")),
    ("raid1-catching-up", include_str!("raid1-catching-up.txt")),
    ("raid1-dirty", include_str!("raid1-dirty.txt")),
    ("raid1-failed", include_str!("raid1-failed.txt")),
    ("raid1-flags", include_str!("raid1-flags.txt")),
    ("raid1-missing", include_str!("raid1-missing.txt")),
    ("raid1-no-bitmap", include_str!("raid1-no-bitmap.txt")),
    ("raid1-readded", include_str!("raid1-readded.txt")),
    ("raid1-rebuilding", include_str!("raid1-rebuilding.txt")),
    ("raid1-removed", include_str!("raid1-removed.txt")),
    ("raid1-replacing", include_str!("raid1-replacing.txt")),
    ("raid1-resyncing", include_str!("raid1-resyncing.txt")),
    (
        "raid1-resyncing-bitmap",
        include_str!("raid1-resyncing-bitmap.txt"),
    ),
    ("raid1-spare", include_str!("raid1-spare.txt")),
    ("raid1-two", include_str!("raid1-two.txt")),
    ("raid10-f2", include_str!("raid10-f2.txt")),
    ("raid10-n2", include_str!("raid10-n2.txt")),
    ("raid10-n3", include_str!("raid10-n3.txt")),
    ("raid10-o2", include_str!("raid10-o2.txt")),
    ("raid10-reshaping", include_str!("raid10-reshaping.txt")),
    ("raid10-three", include_str!("raid10-three.txt")),
];

/// One leg of a case.
#[derive(Debug)]
pub(crate) struct GoldenLeg {
    /// How large it is.
    pub(crate) device_bytes: u64,
    /// What lies at some sectors: the superblock, then the bitmap and the bad-block log where there
    /// are such.
    pub(crate) parts: Vec<(u64, Vec<u8>)>,
    /// What a command said, by its option, in lines.
    pub(crate) said: Vec<(String, Vec<String>)>,
}

impl GoldenLeg {
    /// The lines that a command said.
    pub(crate) fn lines(&self, option: &str) -> &[String] {
        let said = self.said.iter().find(|said| said.0 == option);
        said.map_or(&[], |said| &said.1)
    }
}

/// The legs of a case.
pub(crate) fn legs(text: &str) -> Vec<GoldenLeg> {
    let mut legs: Vec<GoldenLeg> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(head) = line.strip_prefix("leg ") {
            let size = head.split(' ').nth(1).unwrap();
            legs.push(GoldenLeg {
                device_bytes: size.parse().unwrap(),
                parts: Vec::new(),
                said: Vec::new(),
            });
            continue;
        }
        let leg = legs.last_mut().unwrap();
        if let Some(sector) = line.strip_prefix("bytes at sector ") {
            leg.parts.push((sector.parse().unwrap(), Vec::new()));
        } else if let Some(option) = line.strip_prefix("mdadm --") {
            leg.said.push((option.to_owned(), Vec::new()));
        } else if let Some(said) = line.strip_prefix("    ") {
            leg.said.last_mut().unwrap().1.push(said.to_owned());
        } else {
            dump_line(line, &mut leg.parts.last_mut().unwrap().1);
        }
    }
    legs
}

/// A line of a dump: where it is and 32 bytes, or `*` for more of the same, or where it ends.
fn dump_line(line: &str, bytes: &mut Vec<u8>) {
    if line == "*" {
        return;
    }
    let (at, digits) = line.split_once(' ').unwrap_or((line, ""));
    let at = usize::from_str_radix(at, 16).unwrap();
    while bytes.len() < at {
        bytes.extend_from_within(bytes.len() - 32..);
    }
    for index in (0..digits.len()).step_by(2) {
        bytes.push(u8::from_str_radix(&digits[index..index + 2], 16).unwrap());
    }
}
