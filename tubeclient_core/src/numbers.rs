//! Numbers and bytes of texts.

use crate::cells::Whole;
use crate::json::MOST_NUMBER;

/// Characters of an exponent.
const MOST_EXPONENT: usize = 9;

/// `[+-]?digits`, in the type's range.
pub fn whole(text: &str, kind: Whole) -> Option<i64> {
    let value: i64 = bounded(text)?.parse().ok()?;
    let fits = match kind {
        Whole::Int8 => i8::try_from(value).is_ok(),
        Whole::Int16 => i16::try_from(value).is_ok(),
        Whole::Int32 => i32::try_from(value).is_ok(),
        Whole::Int64 => true,
    };
    fits.then_some(value)
}

/// The number that is nearest to a text; None if that is infinite. `single`: of those with 32 bits.
#[expect(clippy::float_cmp, reason = "both are rounded, and have to be the same")]
pub fn float(text: &str, single: bool) -> Option<f64> {
    Digits::of(text)?;
    let value: f64 = text.parse().ok()?;
    if !single {
        return value.is_finite().then_some(value);
    }
    let nearest: f32 = text.parse().ok()?;
    // Rounded twice, as some do, it might be another one.
    (nearest.is_finite() && nearest == value as f32).then_some(f64::from(nearest))
}

/// A decimal without its point, rounded half up at `scale`. `exact`: None if digits would be lost.
pub fn decimal(text: &str, precision: u8, scale: i8, exact: bool) -> Option<i128> {
    let found = Digits::of(text)?;
    let digits = found.whole.bytes().chain(found.fraction.bytes());
    let number = digits
        .map(|byte| i128::from(byte - b'0'))
        .try_fold(0, |number: i128, digit| number.checked_mul(10)?.checked_add(digit))?;
    let places = i32::try_from(found.fraction.len()).ok()?;
    let shift = found.exponent.checked_sub(places)?.checked_add(scale.into())?;
    scaled(if text.starts_with('-') { -number } else { number }, shift, precision, exact)
}

/// `number` with so many places more, or less, of which the last one is rounded half up.
pub fn scaled(number: i128, shift: i32, precision: u8, exact: bool) -> Option<i128> {
    let size = number.checked_abs()?;
    let value = match (10_i128.checked_pow(shift.unsigned_abs()), shift >= 0) {
        _ if size == 0 => 0,
        (Some(power), true) => size.checked_mul(power)?,
        (Some(power), false) => {
            let rest = size % power;
            if exact && rest != 0 {
                return None;
            }
            size / power + i128::from(rest >= power - rest)
        }
        (None, true) => return None,
        // Less than half of the last place.
        (None, false) => (!exact).then_some(0)?,
    };
    (value < 10_i128.checked_pow(precision.into())?).then_some(value * number.signum())
}

/// `[+-]?digits[.digits][(e|E)[+-]?digits]`
struct Digits<'a> {
    whole: &'a str,
    fraction: &'a str,
    exponent: i32,
}

impl<'a> Digits<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let unsigned = bounded(text)?.strip_prefix(['+', '-']).unwrap_or(text);
        let (number, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((number, exponent)) if exponent.len() <= MOST_EXPONENT => (number, exponent.parse().ok()?),
            Some(_) => return None,
            None => (unsigned, 0),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        (is_digits(whole) && is_digits(fraction)).then_some(Self { whole, fraction, exponent })
    }
}

fn bounded(text: &str) -> Option<&str> {
    (text.len() <= MOST_NUMBER).then_some(text)
}

/// The bytes of a base64 text with its padding, as encoders write it.
pub fn base64(text: &str) -> Option<Vec<u8>> {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    if !text.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let mut found = Vec::with_capacity(text.len() / 4 * 3);
    for group in text.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for (at, byte) in group.iter().enumerate() {
            let sextet = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                b'=' if at >= 4 - padding && found.len() + 3 == text.len() / 4 * 3 => 0,
                _ => return None,
            };
            bits = bits << 6 | u32::from(sextet);
        }
        found.extend_from_slice(&bits.to_be_bytes()[1..]);
    }
    let whole = found.len() - padding;
    let lost = found.split_off(whole);
    lost.iter().all(|byte| *byte == 0).then_some(found)
}
