//! Randomness as an argument. Streams are keyed by (seed, role, index), so that each device, job
//! and policy has its own, and what one draws never moves what another draws.

/// A source of random numbers.
pub trait Prng {
    /// The next 64 random bits.
    fn next_u64(&mut self) -> u64;

    /// A number from 0 to `bound` - 1, each equally likely up to 2^-64.
    ///
    /// # Panics
    /// Where `bound` is zero.
    fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below zero");
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).expect("the high half of a product of 64-bit numbers")
    }

    /// A number in [0, 1), with 53 random bits.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact in an f64")]
    fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// One deterministic stream: xoshiro256** (Blackman and Vigna, 2018), seeded through splitmix64.
#[derive(Clone, Debug)]
pub struct RandomStream {
    state: [u64; 4],
}

impl RandomStream {
    /// The stream of `role` number `index` under `seed`.
    #[must_use]
    pub fn new(seed: u64, role: &str, index: u64) -> Self {
        // FNV-1a over the role's bytes; it only has to tell roles apart.
        let mut key = 0xcbf2_9ce4_8422_2325_u64;
        for byte in role.bytes() {
            key = (key ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let mut mix = splitmix64(seed) ^ splitmix64(key).rotate_left(21) ^ splitmix64(!index);
        let mut state = [0; 4];
        for word in &mut state {
            mix = mix.wrapping_add(0x9e37_79b9_7f4a_7c15);
            *word = splitmix64(mix);
        }
        Self { state }
    }
}

impl Prng for RandomStream {
    fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let c = c ^ a;
        let d = d ^ b;
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }
}

/// The output function of splitmix64: a bijection that leaves no pattern of its input.
const fn splitmix64(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::{Prng, RandomStream};

    #[test]
    fn xoshiro_matches_its_authors_first_outputs() {
        // State 1, 2, 3, 4 gives 11520, 0, 1509978240, 1215971899390074240.
        let mut stream = RandomStream {
            state: [1, 2, 3, 4],
        };
        let drawn: Vec<u64> = (0..4).map(|_| stream.next_u64()).collect();
        assert_eq!(drawn, [11520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
    }

    #[test]
    fn streams_differ_by_seed_role_and_index() {
        let first = |seed, role, index| RandomStream::new(seed, role, index).next_u64();
        let drawn = [
            first(1, "leg", 0),
            first(2, "leg", 0),
            first(1, "job", 0),
            first(1, "leg", 1),
        ];
        for (at, value) in drawn.iter().enumerate() {
            assert!(!drawn[..at].contains(value));
        }
        assert_eq!(first(1, "leg", 0), first(1, "leg", 0));
    }

    #[test]
    fn below_stays_below_and_reaches_all() {
        let mut stream = RandomStream::new(7, "test", 0);
        let mut seen = [0u32; 5];
        for _ in 0..5_000 {
            seen[usize::try_from(stream.below(5)).unwrap()] += 1;
        }
        assert!(
            seen.iter().all(|&count| (850..1150).contains(&count)),
            "{seen:?}"
        );
        let unit = stream.unit_f64();
        assert!((0.0..1.0).contains(&unit));
    }
}
