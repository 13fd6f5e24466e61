//! The math library of `bc -l`: sine, cosine, arctangent, logarithm, exponential and Bessel functions.
//!
//! The functions are computed with binary fixed-point numbers of more digits than requested, and truncated to the
//! scale.

use num_bigint::{BigInt, Sign};

use super::number::{DecimalNumber, MAX_DIGITS, NumberError, power_of_ten};

/// Number of extra bits, for the rounding errors of the steps.
const GUARD_BITS: u64 = 64;

/// Largest argument of `j()`, whose cost grows with the argument.
const MAX_BESSEL: i64 = 10_000;

/// A function of the math library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LibraryFunction {
    Sine,
    Cosine,
    Arctangent,
    Logarithm,
    Exponential,
    Bessel,
}

impl LibraryFunction {
    /// Returns the function that has a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "s" => Self::Sine,
            "c" => Self::Cosine,
            "a" => Self::Arctangent,
            "l" => Self::Logarithm,
            "e" => Self::Exponential,
            "j" => Self::Bessel,
            _ => return None,
        })
    }

    /// Returns the number of parameters.
    pub fn count_parameters(self) -> usize {
        if self == Self::Bessel { 2 } else { 1 }
    }

    /// Computes the function to a scale.
    pub fn compute(
        self,
        arguments: &[DecimalNumber],
        scale: usize,
    ) -> Result<DecimalNumber, NumberError> {
        let Some(x) = arguments.last() else {
            return Ok(DecimalNumber::default());
        };
        let one = || DecimalNumber::from_parts(power_of_ten(scale), scale);
        match self {
            Self::Sine | Self::Arctangent if x.is_zero() => Ok(DecimalNumber::default()),
            Self::Cosine | Self::Exponential if x.is_zero() => Ok(one()),
            Self::Sine => compute_sine(x, scale, false),
            Self::Cosine => compute_sine(x, scale, true),
            Self::Arctangent => Ok(compute_arctangent(x, scale)),
            Self::Exponential => compute_exponential(x, scale),
            Self::Logarithm if x.is_zero() || x.is_negative() => {
                // A number that is too small for any result, as other implementations return.
                let min_power = (BigInt::from(1) - power_of_ten(scale)) * power_of_ten(scale);
                Ok(DecimalNumber::from_parts(min_power, scale))
            }
            Self::Logarithm => Ok(compute_logarithm(x, scale)),
            Self::Bessel => {
                let order = arguments.first().map_or(0, DecimalNumber::to_integer);
                match (x.is_zero(), order) {
                    (true, 0) => Ok(one()),
                    (true, _) => Ok(DecimalNumber::default()),
                    _ => compute_bessel(order, x, scale),
                }
            }
        }
    }
}

/// Returns the bits that a number of decimal digits needs.
fn bits_for(digits: usize) -> u64 {
    digits as u64 * 33_220 / 10_000 + GUARD_BITS
}

/// Returns a number as fixed point with `bits` bits after the point.
fn to_fixed(x: &DecimalNumber, bits: u64) -> BigInt {
    (x.to_scaled(x.scale()) << bits) / power_of_ten(x.scale())
}

/// Returns a fixed-point number as decimal, without the digits beyond the scale.
fn from_fixed(x: &BigInt, bits: u64, scale: usize) -> DecimalNumber {
    let value: BigInt = (x * power_of_ten(scale)) / (BigInt::from(1) << bits);
    match value.sign() {
        Sign::NoSign => DecimalNumber::default(),
        _ => DecimalNumber::from_parts(value, scale),
    }
}

/// Returns the number of bits before the point.
fn count_whole_bits(x: &DecimalNumber) -> u64 {
    x.to_scaled(0).bits()
}

/// Sums `1/(k·d^k)` over odd `k`, with alternating signs for the arctangent of `1/d`, without for its hyperbolic one.
fn sum_inverse_series(divisor: u32, bits: u64, alternating: bool) -> BigInt {
    let square = BigInt::from(u64::from(divisor) * u64::from(divisor));
    let mut power = (BigInt::from(1) << bits) / divisor;
    let mut sum = BigInt::default();
    let mut k = 1_u32;
    while power.sign() != Sign::NoSign {
        let term = &power / k;
        if alternating && k % 4 == 3 {
            sum -= term;
        } else {
            sum += term;
        }
        power /= &square;
        k += 2;
    }
    sum
}

/// Returns a quarter of pi, by Machin's formula.
fn quarter_pi(bits: u64) -> BigInt {
    sum_inverse_series(5, bits, true) * 4 - sum_inverse_series(239, bits, true)
}

/// Returns the natural logarithm of 2.
fn logarithm_of_two(bits: u64) -> BigInt {
    sum_inverse_series(26, bits, false) * 18 - sum_inverse_series(4801, bits, false) * 2
        + sum_inverse_series(8749, bits, false) * 8
}

fn compute_sine(
    x: &DecimalNumber,
    scale: usize,
    is_cosine: bool,
) -> Result<DecimalNumber, NumberError> {
    let whole_bits = count_whole_bits(x);
    if whole_bits > bits_for(MAX_DIGITS) {
        return Err(NumberError::TooLarge);
    }
    let bits = bits_for(scale);
    // The multiple of pi that is subtracted needs as many bits as the argument has before its point.
    let wide = bits + whole_bits;
    let half_pi: BigInt = quarter_pi(wide) * 2;
    let fixed = to_fixed(x, wide);
    let half: BigInt = &half_pi >> 1_u32;
    let sum = &fixed + &half;
    let mut quadrant = &sum / &half_pi;
    if sum.sign() == Sign::Minus {
        quadrant -= 1;
    }
    let angle: BigInt = (fixed - &quadrant * half_pi) >> whole_bits;
    let turn: BigInt = &quadrant & BigInt::from(3);
    let turn = (u8::try_from(&turn).unwrap_or_default() + u8::from(is_cosine)) % 4;
    let value = sum_sine_series(&angle, bits, turn % 2 == 1);
    let value = if turn >= 2 { -value } else { value };
    Ok(from_fixed(&value, bits, scale))
}

/// Returns the sine or the cosine of an angle of less than one.
fn sum_sine_series(angle: &BigInt, bits: u64, is_cosine: bool) -> BigInt {
    let square: BigInt = (angle * angle) >> bits;
    let (mut term, mut k) = if is_cosine {
        (BigInt::from(1) << bits, 0_u64)
    } else {
        (angle.clone(), 1)
    };
    let mut sum = term.clone();
    loop {
        term = (term * &square) >> bits;
        term /= -BigInt::from((k + 1) * (k + 2));
        if term.sign() == Sign::NoSign {
            return sum;
        }
        sum += &term;
        k += 2;
    }
}

fn compute_arctangent(x: &DecimalNumber, scale: usize) -> DecimalNumber {
    let halvings = (bits_for(scale) / 4).isqrt() + 2;
    let bits = bits_for(scale) + 2 * halvings;
    let one = BigInt::from(1) << bits;
    let fixed = to_fixed(x, bits);
    let (is_negative, mut t) = (x.is_negative(), BigInt::from(fixed.magnitude().clone()));
    if t == one {
        let value = quarter_pi(bits);
        let value = if is_negative { -value } else { value };
        return from_fixed(&value, bits, scale);
    }
    // Of a large number, pi/2 less the arctangent of its inverse.
    let is_inverse = t > one;
    if is_inverse {
        let ten = power_of_ten(x.scale());
        let magnitude = BigInt::from(x.to_scaled(x.scale()).magnitude().clone());
        t = (ten << bits) / magnitude;
    }
    for _ in 0..halvings {
        let root = ((&one << bits) + &t * &t).sqrt();
        t = (t << bits) / (&one + root);
    }
    let square: BigInt = (&t * &t) >> bits;
    let (mut power, mut sum, mut k) = (t.clone(), t, 3_u64);
    loop {
        power = -((power * &square) >> bits);
        let term = &power / k;
        if term.sign() == Sign::NoSign {
            break;
        }
        sum += term;
        k += 2;
    }
    let mut value: BigInt = sum << halvings;
    if is_inverse {
        value = quarter_pi(bits) * 2 - value;
    }
    let value = if is_negative { -value } else { value };
    from_fixed(&value, bits, scale)
}

fn compute_logarithm(x: &DecimalNumber, scale: usize) -> DecimalNumber {
    let roots = (bits_for(scale) / 4).isqrt() + 2;
    let bits = bits_for(scale) + 2 * roots;
    let one = BigInt::from(1) << bits;
    // x = mantissa · 2^exponent, with a mantissa near one: its bits are those of the fraction value / 10^scale.
    let (value, ten) = (x.to_scaled(x.scale()), power_of_ten(x.scale()));
    let exponent = value.bits() as i64 - ten.bits() as i64;
    let mut mantissa: BigInt = if exponent >= 0 {
        (value << bits) / (ten << exponent.unsigned_abs())
    } else {
        (value << (bits + exponent.unsigned_abs())) / ten
    };
    if mantissa == one && exponent == 0 {
        return DecimalNumber::default();
    }
    for _ in 0..roots {
        mantissa = (mantissa << bits).sqrt();
    }
    let ratio: BigInt = ((&mantissa - &one) << bits) / (&mantissa + &one);
    let square: BigInt = (&ratio * &ratio) >> bits;
    let (mut power, mut sum, mut k) = (ratio.clone(), ratio, 3_u64);
    loop {
        power = (power * &square) / &one;
        let term = &power / k;
        if term.sign() == Sign::NoSign {
            break;
        }
        sum += term;
        k += 2;
    }
    let value = (sum << (roots + 1)) + logarithm_of_two(bits) * exponent;
    from_fixed(&value, bits, scale)
}

fn compute_exponential(x: &DecimalNumber, scale: usize) -> Result<DecimalNumber, NumberError> {
    let whole = x.to_integer();
    // e^x has x·log10(e) digits.
    if whole > MAX_DIGITS as i64 * 2 {
        return Err(NumberError::TooLarge);
    }
    // e^-x is zero to any scale that is less than x·log10(e).
    if whole < -(scale as i64 * 3 + 3) {
        return Ok(DecimalNumber::default());
    }
    let whole_bits = count_whole_bits(x);
    let squarings = whole_bits + bits_for(scale).isqrt() / 2 + 2;
    let growth = whole.max(0) as u64 * 3 / 2 + 2;
    let bits = bits_for(scale) + squarings + growth;
    let reduced: BigInt = to_fixed(x, bits) >> squarings;
    let one = BigInt::from(1) << bits;
    let (mut term, mut sum, mut k) = (one.clone(), one, 1_u64);
    loop {
        term = (term * &reduced) / (BigInt::from(k) << bits);
        if term.sign() == Sign::NoSign {
            break;
        }
        sum += &term;
        k += 1;
    }
    for _ in 0..squarings {
        sum = (&sum * &sum) >> bits;
    }
    Ok(from_fixed(&sum, bits, scale))
}

/// Sums the series of the Bessel function of an integer order.
fn compute_bessel(
    order: i64,
    x: &DecimalNumber,
    scale: usize,
) -> Result<DecimalNumber, NumberError> {
    let whole = x.to_integer();
    if whole.unsigned_abs() > MAX_BESSEL as u64 || order.unsigned_abs() > MAX_BESSEL as u64 {
        return Err(NumberError::TooLarge);
    }
    let times = order.unsigned_abs();
    // The terms grow up to e^x before they shrink.
    let bits = bits_for(scale) + (whole.unsigned_abs() + 1) * 3 + times;
    let half: BigInt = to_fixed(x, bits) >> 1_u32;
    let square: BigInt = (&half * &half) >> bits;
    let mut term = BigInt::from(1) << bits;
    for k in 1..=times {
        term = (term * &half) >> bits;
        term /= k;
    }
    let mut sum = term.clone();
    let mut k = 1_u64;
    loop {
        term = (term * &square) >> bits;
        term /= -BigInt::from(k * (k + times));
        if term.sign() == Sign::NoSign {
            break;
        }
        sum += &term;
        k += 1;
    }
    let value = if order < 0 && times % 2 == 1 {
        -sum
    } else {
        sum
    };
    Ok(from_fixed(&value, bits, scale))
}
