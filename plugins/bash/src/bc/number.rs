//! Decimal numbers of any length: a big integer and the number of its digits after the point.

use std::cmp::Ordering;

use num_bigint::{BigInt, BigUint, Sign};

/// Maximum number of digits before the point of any result, and after the point of a literal.
pub const MAX_DIGITS: usize = 100_000;

/// Maximum value of `scale`.
pub const MAX_SCALE: usize = 100_000;

/// Maximum number of digits of an exact power, before it is cut to its scale.
const MAX_POWER_DIGITS: u64 = 1_000_000;

/// An arithmetic operation that has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberError {
    DivideByZero,
    ModuloByZero,
    NegativeRoot,
    ExponentTooLarge,
    TooLarge,
}

impl NumberError {
    /// Returns the message for stderr.
    pub fn message(self) -> String {
        match self {
            Self::DivideByZero => "Divide by zero".to_owned(),
            Self::ModuloByZero => "Modulo by zero".to_owned(),
            Self::NegativeRoot => "Square root of a negative number".to_owned(),
            Self::ExponentTooLarge => {
                format!("exponent too large: expected a result of at most {MAX_DIGITS} digits")
            }
            Self::TooLarge => {
                format!("number too large: expected at most {MAX_DIGITS} digits")
            }
        }
    }
}

/// A decimal number: `value / 10^scale`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DecimalNumber {
    value: BigInt,
    scale: usize,
}

impl From<i64> for DecimalNumber {
    fn from(value: i64) -> Self {
        Self::from_parts(BigInt::from(value), 0)
    }
}

/// Returns `10^exponent`.
pub fn power_of_ten(exponent: usize) -> BigInt {
    if let Ok(small) = u32::try_from(exponent)
        && let Some(power) = 10_u64.checked_pow(small)
    {
        return BigInt::from(power);
    }
    BigInt::from(10).pow(u32::try_from(exponent).unwrap_or(u32::MAX))
}

/// Counts the decimal digits of an integer. Zero has none.
fn count_digits(value: &BigUint) -> usize {
    let bits = value.bits();
    if bits == 0 {
        return 0;
    }
    if let Ok(small) = u64::try_from(value) {
        return small.ilog10() as usize + 1;
    }
    // 2^(bits-1) <= value: a lower bound, which is one too small at most.
    let min_power = usize::try_from((u128::from(bits) - 1) * 30_102_999_566 / 100_000_000_000);
    let mut digits = min_power.unwrap_or(usize::MAX) + 1;
    while value >= power_of_ten(digits).magnitude() {
        digits += 1;
    }
    digits
}

/// Estimates the decimal digits of an integer, within one.
fn estimate_digits(value: &BigUint) -> u64 {
    value.bits() * 30_103 / 100_000 + 1
}

impl DecimalNumber {
    /// Creates the number `value / 10^scale`.
    pub fn from_parts(value: BigInt, scale: usize) -> Self {
        Self { value, scale }
    }

    /// Parses a literal: digits `0` to `9` and `A` to `Z` with at most one point. A digit that the base does not have
    /// counts as the largest digit of the base, unless the literal is a single digit.
    pub fn from_literal(text: &str, base: u32) -> Result<Self, NumberError> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        if whole.len() > MAX_DIGITS || fraction.len() > MAX_DIGITS {
            return Err(NumberError::TooLarge);
        }
        let whole = whole.trim_start_matches('0');
        let is_alone = whole.len() == 1 && (base != 10 || fraction.is_empty());
        let digits_of = |part: &str, largest: u32| -> Vec<u8> {
            part.chars()
                .filter_map(|digit| digit.to_digit(36))
                .map(|digit| digit.min(largest) as u8)
                .collect()
        };
        let fraction_digits = digits_of(fraction, base - 1);
        let from_digits = |digits: &[u8]| -> BigInt {
            BigInt::from(BigUint::from_radix_be(digits, base).unwrap_or_default())
        };
        let scale = fraction.len();
        let whole = if is_alone {
            BigInt::from(
                whole
                    .chars()
                    .next()
                    .and_then(|digit| digit.to_digit(36))
                    .unwrap_or(0),
            )
        } else {
            from_digits(&digits_of(whole, base - 1))
        };
        let power = power_of_ten(scale);
        let mut part = from_digits(&fraction_digits);
        if base != 10 {
            part = part * &power / BigInt::from(base).pow(u32::try_from(scale).unwrap_or(u32::MAX));
        }
        let value = whole * power + part;
        Ok(Self { value, scale })
    }

    /// Returns the number of digits after the point.
    pub fn scale(&self) -> usize {
        self.scale
    }

    /// Returns true if the number is zero, at any scale.
    pub fn is_zero(&self) -> bool {
        self.value.sign() == Sign::NoSign
    }

    /// Returns true if the number is less than zero.
    pub fn is_negative(&self) -> bool {
        self.value.sign() == Sign::Minus
    }

    /// Counts the significant digits, as `length()` does: a zero before the point is not one, unless it is alone.
    pub fn count_length(&self) -> usize {
        count_digits(self.value.magnitude()).max(self.scale).max(1)
    }

    /// Returns `value * 10^scale` without the digits beyond the scale.
    pub fn to_scaled(&self, scale: usize) -> BigInt {
        match scale.cmp(&self.scale) {
            Ordering::Equal => self.value.clone(),
            Ordering::Greater => &self.value * power_of_ten(scale - self.scale),
            Ordering::Less => &self.value / power_of_ten(self.scale - scale),
        }
    }

    /// Returns the integer part, or the nearest `i64`.
    pub fn to_integer(&self) -> i64 {
        let whole = self.to_scaled(0);
        let nearest = if self.is_negative() {
            i64::MIN
        } else {
            i64::MAX
        };
        i64::try_from(&whole).unwrap_or(nearest)
    }

    /// Returns the number with a scale of at most `scale`, without the digits beyond it.
    fn truncate_to(self, scale: usize) -> Self {
        if self.scale <= scale {
            return self;
        }
        Self::from_parts(self.to_scaled(scale), scale)
    }

    fn check_size(self) -> Result<Self, NumberError> {
        let digits = estimate_digits(self.value.magnitude());
        let too_long = digits > (MAX_DIGITS + self.scale) as u64;
        if too_long || self.scale > 2 * MAX_SCALE {
            return Err(NumberError::TooLarge);
        }
        Ok(self)
    }

    /// Returns the number with the opposite sign.
    pub fn negate(self) -> Self {
        Self::from_parts(-self.value, self.scale)
    }

    /// Compares two numbers by their values.
    pub fn compare_value(&self, other: &Self) -> Ordering {
        let scale = self.scale.max(other.scale);
        self.to_scaled(scale).cmp(&other.to_scaled(scale))
    }

    /// Adds two numbers. The scale is the larger one.
    pub fn add(&self, other: &Self) -> Result<Self, NumberError> {
        let scale = self.scale.max(other.scale);
        let value = self.to_scaled(scale) + other.to_scaled(scale);
        Self::from_parts(value, scale).check_size()
    }

    /// Subtracts a number. The scale is the larger one.
    pub fn subtract(&self, other: &Self) -> Result<Self, NumberError> {
        let scale = self.scale.max(other.scale);
        let value = self.to_scaled(scale) - other.to_scaled(scale);
        Self::from_parts(value, scale).check_size()
    }

    /// Multiplies two numbers. The scale is that of the exact product, but at most the largest of the three scales.
    pub fn multiply(&self, other: &Self, scale: usize) -> Result<Self, NumberError> {
        let product = Self::from_parts(&self.value * &other.value, self.scale + other.scale);
        let scale = scale.max(self.scale).max(other.scale);
        product.truncate_to(scale).check_size()
    }

    /// Divides by a number, to a scale.
    pub fn divide(&self, other: &Self, scale: usize) -> Result<Self, NumberError> {
        if other.is_zero() {
            return Err(NumberError::DivideByZero);
        }
        let shift = scale + other.scale;
        let value = if shift >= self.scale {
            &self.value * power_of_ten(shift - self.scale) / &other.value
        } else {
            &self.value / (&other.value * power_of_ten(self.scale - shift))
        };
        Self::from_parts(value, scale).check_size()
    }

    /// Returns the remainder of the division to a scale.
    pub fn remainder(&self, other: &Self, scale: usize) -> Result<Self, NumberError> {
        if other.is_zero() {
            return Err(NumberError::ModuloByZero);
        }
        let quotient = self.divide(other, scale)?;
        let result_scale = self.scale.max(other.scale + scale);
        let product =
            Self::from_parts(&quotient.value * &other.value, quotient.scale + other.scale);
        let value = self.to_scaled(result_scale) - product.to_scaled(result_scale);
        Self::from_parts(value, result_scale).check_size()
    }

    /// Raises the number to the integer part of an exponent.
    pub fn raise(&self, exponent: &Self, scale: usize) -> Result<Self, NumberError> {
        let exponent = exponent.to_integer();
        let times = exponent.unsigned_abs();
        if times == 0 {
            return Ok(Self::from(1));
        }
        if exponent == i64::MAX || exponent == i64::MIN {
            return Err(NumberError::ExponentTooLarge);
        }
        let is_unit = self.value.magnitude() <= &BigUint::from(1_u8) && self.scale == 0;
        let power = if is_unit {
            let odd = times % 2 == 1;
            Self::from_parts(
                if odd {
                    self.value.clone()
                } else {
                    self.value.pow(2)
                },
                0,
            )
        } else {
            let bits = self.value.bits().max(self.scale as u64 * 3);
            let digits = u128::from(bits) * u128::from(times) * 30_103 / 100_000;
            let too_large = digits > u128::from(MAX_POWER_DIGITS);
            match u32::try_from(times) {
                Ok(small) if !too_large => {
                    let power_scale = self.scale.saturating_mul(small as usize);
                    Self::from_parts(self.value.pow(small), power_scale)
                }
                _ => return Err(NumberError::ExponentTooLarge),
            }
        };
        if exponent < 0 {
            return Self::from(1).divide(&power, scale);
        }
        power.truncate_to(scale.max(self.scale)).check_size()
    }

    /// Returns the square root, to the larger of two scales.
    pub fn square_root(&self, scale: usize) -> Result<Self, NumberError> {
        if self.is_negative() {
            return Err(NumberError::NegativeRoot);
        }
        for exact in [Self::from(0), Self::from(1)] {
            if self.compare_value(&exact) == Ordering::Equal {
                return Ok(exact);
            }
        }
        let scale = scale.max(self.scale);
        Ok(Self::from_parts(self.to_scaled(2 * scale).sqrt(), scale))
    }

    /// Writes the number in a base of 2 or more. Above 16, digits are groups of decimal digits with spaces between.
    pub fn to_text(&self, base: u32) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        let mut text = String::new();
        if self.is_negative() {
            text.push('-');
        }
        let magnitude = self.value.magnitude();
        if base == 10 {
            let digits = magnitude.to_string();
            let (whole, fraction) = digits.split_at(digits.len().saturating_sub(self.scale));
            text.push_str(whole);
            if self.scale > 0 {
                text.push('.');
                text.push_str(&"0".repeat(self.scale - fraction.len()));
                text.push_str(fraction);
            }
            return text;
        }
        let power = power_of_ten(self.scale);
        let whole = magnitude / power.magnitude();
        for digit in list_digits(&whole, base) {
            push_digit(&mut text, digit, base, true);
        }
        if self.scale > 0 {
            text.push('.');
            let mut places = 0;
            let mut unit = BigUint::from(1_u8);
            while &unit < power.magnitude() {
                unit *= base;
                places += 1;
            }
            let fraction = (magnitude % power.magnitude()) * unit / power.magnitude();
            let digits = list_digits(&fraction, base);
            let zeros = vec![0; places - digits.len()];
            for (index, digit) in zeros.into_iter().chain(digits).enumerate() {
                push_digit(&mut text, digit, base, index > 0);
            }
        }
        text
    }
}

/// Returns the digits of an integer in a base, the most significant first. Zero has none.
fn list_digits(value: &BigUint, base: u32) -> Vec<u32> {
    if value.bits() == 0 {
        return Vec::new();
    }
    if base <= 256 {
        let digits = value.to_radix_be(base);
        return digits.into_iter().map(u32::from).collect();
    }
    let mut rest = value.clone();
    let mut digits = Vec::new();
    while rest.bits() > 0 {
        digits.push(u32::try_from(&rest % base).unwrap_or_default());
        rest /= base;
    }
    digits.reverse();
    digits
}

/// Appends a digit of a base. `spaced` separates it from the one before, in bases above 16.
fn push_digit(text: &mut String, digit: u32, base: u32, spaced: bool) {
    if base <= 16 {
        let digit = char::from_digit(digit, 16).unwrap_or('0');
        text.push(digit.to_ascii_uppercase());
        return;
    }
    if spaced {
        text.push(' ');
    }
    let width = (base - 1).ilog10() as usize + 1;
    text.push_str(&format!("{digit:0width$}"));
}
