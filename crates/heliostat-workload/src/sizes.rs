//! How large requests are: one size, or several with their shares.

use heliostat_types::Prng;

/// One of the sizes of a `bssplit`, and how many of 100 requests have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeShare {
    /// Bytes of such a request.
    pub bytes: u64,
    /// How many of 100 requests are such.
    pub percent: u32,
}

/// The sizes of one direction.
#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    shares: Vec<SizeShare>,
    min_bytes: u64,
}

impl Sizes {
    /// `shares`, or `bytes` for all requests where there are none.
    pub(crate) fn new(bytes: u64, shares: &[SizeShare]) -> Self {
        let mut shares: Vec<SizeShare> = shares
            .iter()
            .copied()
            .filter(|share| share.percent > 0)
            .collect();
        if shares.is_empty() {
            shares.push(SizeShare {
                bytes,
                percent: 100,
            });
        }
        let sizes = shares.iter().map(|share| share.bytes);
        let min_bytes = sizes.min().expect("there is one at least");
        Self { shares, min_bytes }
    }

    /// The smallest.
    pub(crate) const fn min_bytes(&self) -> u64 {
        self.min_bytes
    }

    /// One that fits into `room_bytes`, in proportion to the shares of those that fit; `None`
    /// where none does.
    pub(crate) fn draw(&self, prng: &mut dyn Prng, room_bytes: u64) -> Option<u64> {
        if let [only] = self.shares[..] {
            return (only.bytes <= room_bytes).then_some(only.bytes);
        }
        let fitting = || self.shares.iter().filter(|share| share.bytes <= room_bytes);
        let total: u64 = fitting().map(|share| u64::from(share.percent)).sum();
        if total == 0 {
            return None;
        }
        let mut at = prng.below(total);
        for share in fitting() {
            let percent = u64::from(share.percent);
            if at < percent {
                return Some(share.bytes);
            }
            at -= percent;
        }
        unreachable!("the shares add up to their total")
    }
}

/// The parts of `4k,64k` (reads, writes, trims): reads and writes; `None` where a part is empty,
/// which leaves what there was. A part that is missing is as the one before it.
pub(crate) fn split_directions(value: &str) -> Result<[Option<&str>; 2], String> {
    let parts: Vec<&str> = value.split(',').map(str::trim).collect();
    let [read, rest @ ..] = &parts[..] else {
        return Ok([None, None]);
    };
    if rest.len() > 2 {
        return Err(format!(
            "'{value}' has more than three parts (reads, writes, trims)"
        ));
    }
    let write = rest.first().unwrap_or(read);
    Ok([*read, *write].map(|text| Some(text).filter(|text| !text.is_empty())))
}

/// The sizes and shares of one direction of fio's `bssplit`: `4k/60:64k/40`. Shares that are left
/// out get what is left, in equal parts; what is then missing to 100 goes to the last.
pub(crate) fn parse_split(text: &str) -> Result<Vec<SizeShare>, String> {
    let mut shares = Vec::new();
    let mut open = Vec::new();
    for part in text.split(':') {
        let (size, percent) = part.split_once('/').unwrap_or((part, ""));
        let bytes = stdx::units::parse_size(size).map_err(|error| error.to_string())?;
        let percent = match percent.trim().trim_end_matches('%') {
            "" => {
                open.push(shares.len());
                0
            }
            number => number
                .parse()
                .ok()
                .filter(|percent| *percent <= 100)
                .ok_or_else(|| format!("'{percent}' is not a percentage from 0 to 100"))?,
        };
        shares.push(SizeShare { bytes, percent });
    }
    let given: u32 = shares.iter().map(|share| share.percent).sum();
    if given > 100 {
        return Err(format!("the shares of '{text}' add up to {given} %"));
    }
    if let Ok(count) = u32::try_from(open.len())
        && count > 0
    {
        for at in open {
            shares[at].percent = (100 - given) / count;
        }
    }
    let given: u32 = shares.iter().map(|share| share.percent).sum();
    let last = shares.last_mut().expect("a text has a first part");
    last.percent += 100 - given;
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use heliostat_types::RandomStream;

    use super::{SizeShare, Sizes, parse_split, split_directions};

    fn told(text: &str) -> Vec<(u64, u32)> {
        let shares = parse_split(text).unwrap();
        shares.iter().map(|one| (one.bytes, one.percent)).collect()
    }

    #[test]
    fn splits_are_fios() {
        assert_eq!(told("4k/60:64k/40"), [(4096, 60), (65_536, 40)]);
        assert_eq!(
            told("4k/50:1k/:32k/"),
            [(4096, 50), (1024, 25), (32_768, 25)]
        );
        assert_eq!(told("4k"), [(4096, 100)]);
        assert_eq!(told("4k/10:8k/20"), [(4096, 10), (8192, 90)]);
        let error = |text| parse_split(text).unwrap_err();
        assert_eq!(
            error("4k/60:8k/50"),
            "the shares of '4k/60:8k/50' add up to 110 %"
        );
        assert_eq!(error("4k/x"), "'x' is not a percentage from 0 to 100");
        assert!(error("x/5").starts_with("'x' is not a size"));
    }

    #[test]
    fn directions_are_fios() {
        assert_eq!(split_directions("4k"), Ok([Some("4k"), Some("4k")]));
        assert_eq!(split_directions("4k,8k"), Ok([Some("4k"), Some("8k")]));
        assert_eq!(split_directions(",8k"), Ok([None, Some("8k")]));
        assert_eq!(split_directions("8k,"), Ok([Some("8k"), None]));
        assert_eq!(split_directions("1k,2k,3k"), Ok([Some("1k"), Some("2k")]));
        assert!(split_directions("1,2,3,4").is_err());
    }

    #[test]
    fn sizes_are_drawn_by_their_shares_among_those_that_fit() {
        let share = |bytes, percent| SizeShare { bytes, percent };
        let sizes = Sizes::new(0, &[share(4096, 10), share(8192, 30), share(65_536, 60)]);
        assert_eq!(sizes.min_bytes(), 4096);
        let prng = &mut RandomStream::new(1, "test", 0);
        let mut counts = [0; 3];
        for _ in 0..100_000 {
            match sizes.draw(prng, 1 << 20) {
                Some(4096) => counts[0] += 1,
                Some(8192) => counts[1] += 1,
                _ => counts[2] += 1,
            }
        }
        // Four standard deviations of the widest share are 620.
        for (count, wanted) in counts.iter().zip([10_000i32, 30_000, 60_000]) {
            assert!((count - wanted).abs() < 620, "{counts:?}");
        }
        let small = (0..10_000).filter(|_| sizes.draw(prng, 8192) == Some(4096));
        assert!((2_300..2_700).contains(&small.count()));
        assert_eq!(sizes.draw(prng, 2048), None);
    }
}
