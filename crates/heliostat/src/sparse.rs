//! Whether there is a disk behind all of a file.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

/// What stat counts a file's blocks in, whatever its file system has.
const STAT_BLOCK_BYTES: u64 = 512;

/// How many hundredths of a file lie on its disk, where more than a tenth lies nowhere: reads of
/// that reach no disk, and are as fast as the kernel is.
pub(crate) fn percent_on_disk(meta: &Metadata) -> Option<u64> {
    let (len, on_disk) = (meta.len(), meta.blocks().saturating_mul(STAT_BLOCK_BYTES));
    let is_sparse = meta.is_file() && on_disk < len - len / 10;
    is_sparse.then(|| on_disk / (len / 100).max(1))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    use super::percent_on_disk;

    #[test]
    fn what_was_never_written_lies_nowhere() {
        let path = std::env::temp_dir().join(format!("heliostat-sparse-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        let percent = || percent_on_disk(&file.metadata().unwrap());
        assert_eq!(percent(), None, "nothing is all there");
        file.set_len(1 << 20).unwrap();
        assert_eq!(percent(), Some(0));
        file.write_all_at(&[1; 1 << 19], 0).unwrap();
        file.sync_all().unwrap();
        assert!((40..60).contains(&percent().unwrap()));
        file.write_all_at(&[1; 1 << 20], 0).unwrap();
        file.sync_all().unwrap();
        assert_eq!(percent(), None);
        std::fs::remove_file(path).unwrap();
    }
}
