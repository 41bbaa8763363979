//! Which block of a region a random request takes: all alike, or some far more often than others.

use std::fmt;

use heliostat_types::Prng;
use stdx::math::{ln, pow};

/// How random requests are spread over their region, in fio's words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Every block as often as any other.
    Random,
    /// `zipf:THETA`: the block of rank i in proportion to i to the power of -THETA.
    Zipf {
        /// Above 0, not 1.
        theta: f64,
    },
    /// `pareto:H`: a share 1-H of the requests goes to a share H of the blocks.
    Pareto {
        /// Between 0 and 1.
        h: f64,
    },
}

impl Distribution {
    /// What fio's `random_distribution` says.
    ///
    /// # Errors
    /// Where it says nothing that is known.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (name, argument) = text.split_once(':').unwrap_or((text, ""));
        let number = |default: f64| -> Result<f64, String> {
            if argument.is_empty() {
                return Ok(default);
            }
            let number: Option<f64> = argument.parse().ok();
            number
                .filter(|number| number.is_finite())
                .ok_or_else(|| format!("'{argument}' in '{text}' is not a number"))
        };
        match name {
            "random" if argument.is_empty() => Ok(Self::Random),
            "zipf" => match number(1.1)? {
                theta if theta > 0.0 && theta != 1.0 && theta <= 100.0 => Ok(Self::Zipf { theta }),
                theta => Err(format!(
                    "zipf's theta is above 0, at most 100, and not 1; it is {theta}"
                )),
            },
            "pareto" => match number(0.2)? {
                h if h > 0.0 && h < 1.0 => Ok(Self::Pareto { h }),
                h => Err(format!("pareto's h is between 0 and 1; it is {h}")),
            },
            "normal" | "zoned" | "zoned_abs" => Err(format!(
                "'{name}' is not simulated; random, zipf:THETA and pareto:H are"
            )),
            _ => Err(format!("'{text}' is none of random, zipf:THETA, pareto:H")),
        }
    }
}

impl fmt::Display for Distribution {
    /// As fio's `random_distribution` says it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random => f.write_str("random"),
            Self::Zipf { theta } => write!(f, "zipf:{theta}"),
            Self::Pareto { h } => write!(f, "pareto:{h}"),
        }
    }
}

/// A distribution over a number of blocks.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    blocks: u64,
    law: Law,
    /// Where the most frequent block lies.
    rotation: u64,
}

#[derive(Clone, Copy, Debug)]
enum Law {
    Random,
    Zipf {
        zeta: f64,
        second: f64,
        alpha: f64,
        eta: f64,
    },
    Pareto {
        power: f64,
    },
}

impl Spread {
    /// `distribution` over `blocks` blocks; `rotation` is a random number that says which of them
    /// are the frequent ones.
    pub(crate) fn new(distribution: Distribution, blocks: u64, rotation: u64) -> Self {
        assert!(blocks > 0, "a region holds a block");
        let law = match distribution {
            Distribution::Random => Law::Random,
            Distribution::Zipf { theta } => zipf(theta, blocks),
            Distribution::Pareto { h } => Law::Pareto {
                power: ln(h) / ln(1.0 - h),
            },
        };
        Self {
            blocks,
            law,
            rotation,
        }
    }

    /// One block.
    pub(crate) fn draw(&self, prng: &mut dyn Prng) -> u64 {
        if matches!(self.law, Law::Random) {
            return prng.below(self.blocks);
        }
        self.place_of(self.draw_rank(prng))
    }

    /// The rank of a block, 0 for the most frequent.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "blocks are far below 2^53, and casts saturate"
    )]
    fn draw_rank(&self, prng: &mut dyn Prng) -> u64 {
        let u = prng.unit_f64();
        let rank = match self.law {
            Law::Random => return prng.below(self.blocks),
            // Gray and others, "Quickly generating billion-record synthetic databases" (1994), as
            // fio does it.
            Law::Zipf {
                zeta,
                second,
                alpha,
                eta,
            } => match u * zeta {
                scaled if scaled < 1.0 => 0,
                scaled if scaled < second => 1,
                _ => (self.blocks as f64 * pow(eta * u - eta + 1.0, alpha)) as u64,
            },
            Law::Pareto { power } => ((self.blocks - 1) as f64 * pow(u, power)) as u64,
        };
        rank.min(self.blocks - 1)
    }

    /// Where the block of a rank lies: fio's multiplicative hash, so that frequent blocks are not
    /// neighbours. As in fio, ranks may meet in one block.
    const fn place_of(&self, rank: u64) -> u64 {
        /// 2^64 divided by the square of the golden ratio.
        const GOLDEN_RATIO: u64 = 0x61c8_8646_80b5_83eb;
        rank.wrapping_mul(GOLDEN_RATIO).wrapping_add(self.rotation) % self.blocks
    }
}

#[expect(clippy::cast_precision_loss, reason = "blocks are far below 2^53")]
fn zipf(theta: f64, blocks: u64) -> Law {
    let n = blocks as f64;
    let zeta = zeta(theta, blocks);
    let second = 1.0 + pow(0.5, theta);
    Law::Zipf {
        zeta,
        second,
        alpha: 1.0 / (1.0 - theta),
        // With two blocks or fewer the two first cases take all.
        eta: if blocks > 2 {
            (1.0 - pow(2.0 / n, 1.0 - theta)) / (1.0 - second / zeta)
        } else {
            1.0
        },
    }
}

/// The sum of i to the power of -`theta` for i from 1 to `count`: the first thousand terms as they
/// are, the others by Euler and Maclaurin, to 12 digits.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn zeta(theta: f64, count: u64) -> f64 {
    const EXACT: u64 = 1_000;
    let term = |i: f64| pow(i, -theta);
    let exact: f64 = (1..=count.min(EXACT)).map(|i| term(i as f64)).sum();
    if count <= EXACT {
        return exact;
    }
    let (from, to) = (EXACT as f64, count as f64);
    let integral = (pow(to, 1.0 - theta) - pow(from, 1.0 - theta)) / (1.0 - theta);
    let ends = (term(to) - term(from)) / 2.0;
    let slopes = theta * (term(from) / from - term(to) / to) / 12.0;
    exact + integral + ends + slopes
}

#[cfg(test)]
mod tests {
    use heliostat_types::RandomStream;
    use stdx::math::pow;

    use super::{Distribution, Spread, zeta};

    #[test]
    fn distributions_are_named_as_fio_names_them() {
        let parse = Distribution::parse;
        assert_eq!(parse("random"), Ok(Distribution::Random));
        assert_eq!(parse("zipf:1.2"), Ok(Distribution::Zipf { theta: 1.2 }));
        assert_eq!(parse("zipf"), Ok(Distribution::Zipf { theta: 1.1 }));
        assert_eq!(parse("pareto:0.1"), Ok(Distribution::Pareto { h: 0.1 }));
        let told = |text| parse(text).unwrap_err();
        assert_eq!(
            told("zipf:1"),
            "zipf's theta is above 0, at most 100, and not 1; it is 1"
        );
        assert_eq!(told("zipf:x"), "'x' in 'zipf:x' is not a number");
        assert_eq!(told("zipf:nan"), "'nan' in 'zipf:nan' is not a number");
        assert_eq!(told("pareto:1"), "pareto's h is between 0 and 1; it is 1");
        assert_eq!(
            told("normal:5"),
            "'normal' is not simulated; random, zipf:THETA and pareto:H are"
        );
        assert_eq!(
            told("zipff"),
            "'zipff' is none of random, zipf:THETA, pareto:H"
        );
    }

    #[test]
    fn the_sum_of_many_terms_is_that_of_all_of_them() {
        for theta in [0.5, 0.9, 1.2, 2.5] {
            let plain: f64 = (1..=20_000u32).map(|i| pow(f64::from(i), -theta)).sum();
            let error = (zeta(theta, 20_000) / plain - 1.0).abs();
            assert!(error < 1e-11, "{theta}: {error}");
        }
    }

    fn rank_counts(distribution: Distribution, blocks: usize, draws: u32) -> Vec<u32> {
        let spread = Spread::new(distribution, blocks as u64, 0);
        let prng = &mut RandomStream::new(1, "test", 0);
        let mut counts = vec![0; blocks];
        for _ in 0..draws {
            counts[usize::try_from(spread.draw_rank(prng)).unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn zipf_ranks_follow_their_law() {
        for theta in [0.6, 0.9, 1.2] {
            let counts = rank_counts(Distribution::Zipf { theta }, 1_000, 1_000_000);
            let sum = zeta(theta, 1_000);
            // The two first are drawn exactly; from there on the method is an approximation, which
            // is judged by the sums up to a rank.
            for (rank, &count) in counts[..2].iter().enumerate() {
                let wanted = 1e6 * pow(rank as f64 + 1.0, -theta) / sum;
                assert!((f64::from(count) / wanted - 1.0).abs() < 0.03, "{rank}");
            }
            for up_to in [10u64, 100, 500] {
                let of = usize::try_from(up_to).unwrap();
                let told = counts[..of].iter().sum::<u32>();
                let wanted = 1e6 * zeta(theta, up_to) / sum;
                let off = f64::from(told) / wanted - 1.0;
                assert!(off.abs() < 0.05, "{theta}, {up_to}: {off}");
            }
        }
    }

    #[test]
    fn pareto_keeps_its_promise() {
        let counts = rank_counts(Distribution::Pareto { h: 0.2 }, 10_000, 200_000);
        let hot = counts[..2_000].iter().sum::<u32>();
        assert!((158_000..162_000).contains(&hot), "{hot}");
    }

    #[test]
    fn frequent_blocks_are_spread_over_the_region() {
        let spread = Spread::new(Distribution::Zipf { theta: 1.2 }, 1_000_000, 17);
        let places: Vec<u64> = (0..8).map(|rank| spread.place_of(rank)).collect();
        assert_eq!(places[0], 17);
        for pair in places.windows(2) {
            assert!(pair[0].abs_diff(pair[1]) > 1_000, "{places:?}");
        }
    }

    #[test]
    fn small_regions_are_left_nowhere() {
        let prng = &mut RandomStream::new(1, "test", 0);
        for blocks in 1..5 {
            for distribution in [
                Distribution::Random,
                Distribution::Zipf { theta: 0.5 },
                Distribution::Zipf { theta: 3.0 },
                Distribution::Pareto { h: 0.9 },
            ] {
                let spread = Spread::new(distribution, blocks, u64::MAX);
                assert!((0..1000).all(|_| spread.draw(prng) < blocks));
            }
        }
    }
}
