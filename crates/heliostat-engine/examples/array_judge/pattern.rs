//! Bytes that say where they are: each eight of them are their array address, below a tag that
//! says who wrote them.

/// The tag of what an array is filled with.
pub(crate) const FIRST: u8 = 0xa5;

/// `len` bytes of the pattern from an address on, both multiples of eight.
pub(crate) fn bytes(tag: u8, address: u64, len: u64) -> Vec<u8> {
    let words = (address..address + len).step_by(8);
    words
        .flat_map(|address| word(tag, address).to_le_bytes())
        .collect()
}

/// The tag of a block whose bytes belong to this address, `00` for zeros, `??` for anything else.
pub(crate) fn tag(block: &[u8], address: u64) -> String {
    if block.iter().all(|&byte| byte == 0) {
        return "00".to_owned();
    }
    let tag = block[7];
    if block == bytes(tag, address, block.len() as u64) {
        format!("{tag:02x}")
    } else {
        "??".to_owned()
    }
}

/// Addresses are below the tag.
fn word(tag: u8, address: u64) -> u64 {
    u64::from(tag) << 56 | address
}
