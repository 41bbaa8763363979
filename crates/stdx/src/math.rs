//! exp, ln and pow from additions, multiplications and divisions alone, so that every machine
//! computes the same bits. (A platform's libm may differ in the last one.) Within 4 units in the
//! last place of the true value over the range that models and policies use.

/// The natural logarithm of 2, split so that `n * LN2_HIGH` is exact for |n| < 2^11.
const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// e to the power of `x`; 0 below -708, infinity above 709.
#[must_use]
pub fn exp(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x > 709.0 {
        return f64::INFINITY;
    }
    if x < -708.0 {
        return 0.0;
    }
    // x = n ln 2 + r with |r| <= 0.35, and e^r from its Taylor series: 14 terms reach 2^-60.
    let n = round(x / (LN2_HIGH + LN2_LOW));
    let r = (x - n * LN2_HIGH) - n * LN2_LOW;
    let mut sum = 1.0;
    for k in (1..=14u32).rev() {
        sum = 1.0 + sum * r / f64::from(k);
    }
    scale_by_power_of_two(sum, n)
}

/// The natural logarithm of `x`; minus infinity at 0, NaN below.
#[must_use]
pub fn ln(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x.is_infinite() {
        return x;
    }
    let (mut mantissa, mut exponent) = split(x);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1.0;
    }
    // ln m = 2 atanh(s) with s = (m - 1) / (m + 1), |s| <= 0.172: 12 terms reach 2^-60.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for k in (0..=11u32).rev() {
        sum = sum * square + 1.0 / f64::from(2 * k + 1);
    }
    exponent * LN2_HIGH + (exponent * LN2_LOW + 2.0 * s * sum)
}

/// `base` to the power of `exponent`, for bases above 0; 0 to any positive power is 0.
#[must_use]
pub fn pow(base: f64, exponent: f64) -> f64 {
    if exponent == 0.0 {
        return 1.0;
    }
    if base == 0.0 {
        return if exponent > 0.0 { 0.0 } else { f64::INFINITY };
    }
    exp(exponent * ln(base))
}

/// To the nearest whole number, halves away from zero; exact for |x| < 2^52.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "|x| < 2^52"
)]
fn round(x: f64) -> f64 {
    let half = if x < 0.0 { -0.5 } else { 0.5 };
    (x + half) as i64 as f64
}

/// `x` times 2 to the power of the whole number `n`, |n| <= 1074.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "n is small and whole"
)]
fn scale_by_power_of_two(x: f64, n: f64) -> f64 {
    let half = (n / 2.0) as i64;
    let power = |n: i64| f64::from_bits(((n + 1023) as u64) << 52);
    x * power(half) * power(n as i64 - half)
}

/// Mantissa in [1, 2) and exponent, with x = mantissa * 2^exponent; x above zero and finite.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    reason = "11 bits"
)]
fn split(x: f64) -> (f64, f64) {
    // Subnormal numbers are first lifted by 2^64.
    let (x, lifted) = if x < f64::MIN_POSITIVE {
        (x * 18_446_744_073_709_551_616.0, 64.0)
    } else {
        (x, 0.0)
    };
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i64 - 1023;
    let mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    (mantissa, exponent as f64 - lifted)
}

#[cfg(test)]
mod tests {
    use super::{exp, ln, pow};

    fn close(told: f64, true_value: f64) {
        let ulp = f64::EPSILON * true_value.abs();
        assert!(
            (told - true_value).abs() <= 4.0 * ulp,
            "{told} for {true_value}"
        );
    }

    /// The true values are from tables, not from this machine's libm.
    #[test]
    fn exp_of_known_arguments() {
        assert_eq!(exp(0.0).to_bits(), 1.0f64.to_bits());
        close(exp(1.0), std::f64::consts::E);
        close(exp(-1.0), 0.367_879_441_171_442_33);
        close(exp(10.0), 22_026.465_794_806_718);
        close(exp(-20.0), 2.061_153_622_438_558e-9);
        assert!(exp(1000.0).is_infinite() && exp(-1000.0) == 0.0 && exp(f64::NAN).is_nan());
    }

    #[test]
    fn ln_of_known_arguments() {
        assert_eq!(ln(1.0).to_bits(), 0.0f64.to_bits());
        close(ln(2.0), std::f64::consts::LN_2);
        close(ln(10.0), std::f64::consts::LN_10);
        close(ln(0.001), -6.907_755_278_982_137);
        close(ln(5e-324), -744.440_071_921_381_2);
        assert!(ln(-1.0).is_nan() && ln(0.0).is_infinite());
    }

    #[test]
    fn pow_of_known_arguments() {
        close(pow(2.0, 0.5), std::f64::consts::SQRT_2);
        close(pow(0.5, 10.0), 1.0 / 1024.0);
        assert!(pow(0.0, 2.0) == 0.0 && pow(7.0, 0.0) == 1.0);
    }

    #[test]
    fn the_bits_are_the_same_everywhere() {
        let digest = (1..2000u32).fold(0u64, |digest, n| {
            let x = f64::from(n) / 97.0;
            let bits = exp(-x).to_bits() ^ ln(x).to_bits().rotate_left(17);
            digest.wrapping_mul(0x0100_0000_01b3) ^ bits
        });
        assert_eq!(digest, 6_625_313_574_454_086_651, "golden");
    }
}
