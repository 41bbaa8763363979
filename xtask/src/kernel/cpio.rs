//! The archive format that the kernel unpacks into memory when it starts: cpio, the variant that
//! the kernel's documentation calls newc (initramfs buffer format).

use std::collections::BTreeSet;

/// Kinds of files, in the upper bits of their mode.
const DIRECTORY: u32 = 0o040_000;
const CHARACTER_DEVICE: u32 = 0o020_000;
const REGULAR: u32 = 0o100_000;

/// An archive that is being written.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    directories: BTreeSet<String>,
}

impl Archive {
    /// One without entries.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds a directory, and those above it, unless it is there.
    pub(super) fn directory(&mut self, name: &str) {
        if !self.directories.contains(name) {
            self.parents(name);
            self.directories.insert(name.to_owned());
            self.entry(name, DIRECTORY | 0o755, (0, 0), &[]);
        }
    }

    /// Adds a file with these bits of permission, and the directories above it.
    pub(super) fn file(&mut self, name: &str, permissions: u32, contents: &[u8]) {
        self.parents(name);
        self.entry(name, REGULAR | permissions, (0, 0), contents);
    }

    /// Adds a character device.
    pub(super) fn character_device(&mut self, name: &str, major: u32, minor: u32) {
        self.parents(name);
        self.entry(name, CHARACTER_DEVICE | 0o600, (major, minor), &[]);
    }

    /// The archive as bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn parents(&mut self, name: &str) {
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.directory(parent);
        }
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), contents: &[u8]) {
        self.entries += 1;
        let size = u32::try_from(contents.len()).expect("no file of a guest has 4 GiB");
        // With its closing zero.
        let name_size = u32::try_from(name.len() + 1).expect("names are short");
        let (major, minor) = device;
        // Number, mode, owner, group, links, time, size, device it is on, device it is, length of
        // the name, checksum, which this variant has not.
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            size,
            0,
            0,
            major,
            minor,
            name_size,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(contents);
        self.pad();
    }

    /// Headers and contents begin at multiples of four.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::Archive;

    #[test]
    fn headers_have_the_fields_of_the_format() {
        let mut archive = Archive::new();
        archive.file("a/b", 0o644, b"hello");
        let bytes = archive.finish();
        // 110 bytes of header, the name with its zero, padded to 112.
        let (directory, rest) = bytes.split_at(112);
        assert!(directory.starts_with(b"07070100000001000041ED"));
        assert!(directory.ends_with(b"a\0"));
        // 110 + 4 is padded to 116; five bytes to eight.
        let (file, trailer) = rest.split_at(116 + 8);
        let text = String::from_utf8_lossy(&file[..110]);
        assert_eq!(&text[6..22], "00000002000081A4");
        assert_eq!(&text[54..62], "00000005", "the size");
        assert_eq!(&text[94..102], "00000004", "the length of the name");
        assert_eq!(&file[110..], b"a/b\0\0\0hello\0\0\0");
        assert_eq!(&trailer[110..], b"TRAILER!!!\0\0\0\0");
    }

    #[test]
    fn a_directory_is_added_once() {
        let mut archive = Archive::new();
        archive.file("x/a", 0o644, b"");
        archive.file("x/b", 0o644, b"");
        archive.directory("x");
        let bytes = archive.finish();
        let text = String::from_utf8_lossy(&bytes);
        // A directory, two files, the end.
        assert_eq!(text.matches("070701").count(), 4);
    }
}
