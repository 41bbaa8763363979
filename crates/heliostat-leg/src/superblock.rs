//! Recognises Linux md superblocks, so that a leg that is part of an array is not written over.
//! Reads no more of them than the name.

/// The magic number of every md superblock (md_p.h).
const MAGIC: u32 = 0xa92b_4efc;

/// What is read at each place.
pub(crate) const HEAD_BYTES: usize = 64;

/// Where a superblock may lie on a device of this size, by version of the metadata: 1.1 at the
/// start, 1.2 behind 4 KiB, 1.0 at least 8 KiB before the end at a border of 4 KiB, 0.90 in the
/// last whole 64 KiB but one.
pub(crate) fn places(size_bytes: u64) -> impl Iterator<Item = (&'static str, u64)> {
    let before_end = |distance, align: u64| {
        let at: u64 = size_bytes.checked_sub(distance)?;
        Some(at - at % align)
    };
    let places = [
        ("1.2", Some(4096)),
        ("1.1", Some(0)),
        ("1.0", before_end(8192, 4096)),
        (
            "0.90",
            (size_bytes - size_bytes % 65_536).checked_sub(65_536),
        ),
    ];
    places.into_iter().filter_map(move |(version, at)| {
        let at = at.filter(|at| at + 4096 <= size_bytes)?;
        Some((version, at))
    })
}

/// What the superblock says of itself, where the bytes are the head of one.
pub(crate) fn recognise(version: &str, head: &[u8; HEAD_BYTES]) -> Option<String> {
    let word = |at: usize| head[at..at + 4].try_into().expect("four bytes");
    if version == "0.90" {
        // Written in the byte order of the machine that made it.
        let magic = [u32::from_le_bytes(word(0)), u32::from_be_bytes(word(0))];
        return magic
            .contains(&MAGIC)
            .then(|| "an md superblock of version 0.90".to_owned());
    }
    let is_one = u32::from_le_bytes(word(0)) == MAGIC && u32::from_le_bytes(word(4)) == 1;
    let name = head[32..64]
        .split(|&byte| byte == 0)
        .next()
        .unwrap_or_default();
    is_one.then(|| {
        let name = String::from_utf8_lossy(name);
        format!("an md superblock of version {version}, of the array '{name}'")
    })
}

#[cfg(test)]
mod tests {
    use super::{HEAD_BYTES, places, recognise};

    #[test]
    fn superblocks_lie_where_md_puts_them() {
        // Sizes and offsets as `mdadm --examine` shows them: 1.0 on 100 MiB at sector 204784.
        let found: Vec<_> = places(100 << 20).collect();
        let megabyte = 1 << 20;
        assert_eq!(
            found,
            [
                ("1.2", 4096),
                ("1.1", 0),
                ("1.0", 204_784 * 512),
                ("0.90", 100 * megabyte - 65_536)
            ]
        );
        assert_eq!(places(512).count(), 0);
    }

    #[test]
    fn names_are_told() {
        let mut head = [0; HEAD_BYTES];
        assert_eq!(recognise("1.2", &head), None);
        head[..8].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
        head[32..40].copy_from_slice(b"nas:data");
        let told = recognise("1.2", &head).unwrap();
        assert!(
            told.ends_with("version 1.2, of the array 'nas:data'"),
            "{told}"
        );
        assert!(recognise("0.90", &head).is_some());
        head[4] = 0;
        assert_eq!(recognise("1.2", &head), None);
    }
}
