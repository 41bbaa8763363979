//! CRC-32C (Castagnoli), as in iSCSI (RFC 3720, section 12.1): it finds every run of up to 32 bits
//! that changed, and of anything else that a torn write leaves all but one in four billion.

/// The polynomial, its bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// What each byte does to the sum.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    let mut byte: u32 = 0;
    while index < 256 {
        let mut sum = byte;
        let mut bit = 0;
        while bit < 8 {
            sum = (sum >> 1) ^ (POLYNOMIAL * (sum & 1));
            bit += 1;
        }
        table[index] = sum;
        index += 1;
        byte += 1;
    }
    table
};

/// The sum of these bytes.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    let sum = bytes.iter().fold(!0, |sum: u32, byte| {
        let index = usize::from(sum.to_le_bytes()[0] ^ byte);
        (sum >> 8) ^ TABLE[index]
    });
    !sum
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn sums_are_those_of_the_rfc() {
        // RFC 3720, appendix B.4; the first one is the usual check value.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&[]), 0);
    }
}
