//! Numbers: from a JSON token to the value a data type holds, exactly or not at all. Decimals are rounded once to
//! FP64, as every JSON reader of the field does, and from there to the narrower type, so that a request means the same
//! here, in Triton and in NumPy.

use super::reader::{JsonError, Reader};

/// Digits that always fit an `i64`.
const DIGITS_MAX: usize = 18;

/// Powers of ten that FP64 holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// A number as written.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Number<'a> {
    /// The number and whatever follows it.
    source: &'a [u8],
    length: usize,
    negative: bool,
    /// The digits before and after the point as one integer; right where there are at most [`DIGITS_MAX`] of them.
    magnitude: u64,
    digits: usize,
    /// The power of ten that `magnitude` is to be multiplied by.
    exponent: i32,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Digits only.
    Whole,
    /// With a point or an exponent.
    Decimal,
    /// `NaN`, `Infinity` or `-Infinity`.
    Special,
}

/// Why a number is not a value of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Misfit {
    /// It has a point or an exponent, and the type holds integers.
    NotWhole,
    /// The type does not reach that far.
    Range,
}

impl<'a> Reader<'a> {
    /// Reads a number. Inlined into the loops over `data`: the parts of a [`Number`] then stay in registers, which halves
    /// the time per value.
    #[inline(always)]
    pub(in crate::http) fn number(&mut self) -> Result<Number<'a>, JsonError> {
        self.peek();
        let source = self.rest();
        let negative = source.first() == Some(&b'-');
        let first = usize::from(negative);
        let (mut at, mut magnitude) = digits(source, first, 0);
        if at == first {
            return self.special(source);
        }
        if at > first + 1 && source[first] == b'0' {
            return Err(self.error_after(at, "a number has a superfluous leading zero"));
        }
        let (mut count, mut form, mut exponent) = (at - first, Form::Whole, 0);
        if source.get(at) == Some(&b'.') {
            let start = at + 1;
            (at, magnitude) = long_digits(source, start, magnitude);
            if at == start {
                return Err(self.error_after(at, "expected a digit after the point of a number"));
            }
            count += at - start;
            exponent = i32::try_from(at - start).map_or(i32::MIN, |places| -places);
            form = Form::Decimal;
        }
        if matches!(source.get(at), Some(b'e' | b'E')) {
            let (end, power) = self.exponent(source, at + 1)?;
            (at, exponent, form) = (end, exponent.saturating_add(power), Form::Decimal);
        }
        self.advance(at);
        Ok(Number { source, length: at, negative, magnitude, digits: count, exponent, form })
    }

    /// Reads the exponent at `source[start..]`: where it ends, and its value.
    #[inline(never)]
    fn exponent(&self, source: &[u8], start: usize) -> Result<(usize, i32), JsonError> {
        let negative = source.get(start) == Some(&b'-');
        let first = start + usize::from(matches!(source.get(start), Some(b'-' | b'+')));
        let (end, magnitude) = digits(source, first, 0);
        match end - first {
            0 => Err(self.error_after(end, "expected a digit in the exponent of a number")),
            1..=DIGITS_MAX => {
                let magnitude = i32::try_from(magnitude).unwrap_or(i32::MAX);
                Ok((end, if negative { -magnitude } else { magnitude }))
            }
            // Too long to tell here: `Number::to_f64` reads the text instead.
            _ => Ok((end, i32::MAX)),
        }
    }

    #[cold]
    fn special(&mut self, source: &'a [u8]) -> Result<Number<'a>, JsonError> {
        let words = [&b"NaN"[..], b"Infinity", b"-Infinity"];
        let Some(word) = words.into_iter().find(|word| source.starts_with(word)) else {
            return Err(self.error_after(usize::from(source.first() == Some(&b'-')), "expected a digit"));
        };
        self.advance(word.len());
        let negative = word[0] == b'-';
        Ok(Number { source, length: word.len(), negative, magnitude: 0, digits: 0, exponent: 0, form: Form::Special })
    }
}

/// Reads the digits at `source[at..]` as the continuation of `magnitude`: where they end, and the integer, which wraps
/// around past [`DIGITS_MAX`] digits.
#[inline(always)]
fn digits(source: &[u8], mut at: usize, mut magnitude: u64) -> (usize, u64) {
    while let Some(&byte @ b'0'..=b'9') = source.get(at) {
        magnitude = magnitude.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
        at += 1;
    }
    (at, magnitude)
}

/// As [`digits`], eight at a time: for the digits after a point, which are many and of changing number.
#[inline(always)]
fn long_digits(source: &[u8], mut at: usize, mut magnitude: u64) -> (usize, u64) {
    const POWERS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
    while let Some(&word) = source.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let (count, value) = leading_digits(word);
        magnitude = magnitude.wrapping_mul(POWERS[count]).wrapping_add(value);
        at += count;
        if count < 8 {
            return (at, magnitude);
        }
    }
    digits(source, at, magnitude)
}

/// How many digits `word` starts with, and their integer.
#[inline(always)]
pub(in crate::http) fn leading_digits(word: [u8; 8]) -> (usize, u64) {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // Digits become 0 to 9. Adding 0x76 carries 10 and more into a byte's high bit; the sum may carry on into the bytes
    // after the first that is no digit, which do not matter.
    let values = u64::from_le_bytes(word) ^ (EACH * 0x30);
    let others = (values.wrapping_add(EACH * 0x76) | values) & (EACH * 0x80);
    let count = others.trailing_zeros() / 8;
    // The last digit to the highest byte, with zeros before the first: then pairs, quadruples and all eight are summed.
    let values = values.checked_shl(64 - 8 * count).unwrap_or(0);
    let pairs = values.wrapping_mul(10).wrapping_add(values >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    let eight = fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff;
    (count as usize, eight)
}

impl<'a> Number<'a> {
    /// The number as it was written.
    pub(in crate::http) fn text(&self) -> &'a str {
        std::str::from_utf8(&self.source[..self.length]).expect("a number is ASCII")
    }

    /// The nearest FP64, ties to even.
    ///
    /// # Errors
    /// [`Misfit::Range`] where that is infinite and the number is not.
    #[inline(always)]
    pub(in crate::http) fn to_f64(self) -> Result<f64, Misfit> {
        match self.product() {
            // Both factors were exact, so the product was rounded once.
            Some(product) if self.magnitude <= 1 << f64::MANTISSA_DIGITS => Ok(product),
            _ => self.read_f64(),
        }
    }

    /// The nearest FP32 to [`Self::to_f64`].
    ///
    /// # Errors
    /// As [`Self::to_f64`].
    #[inline(always)]
    pub(in crate::http) fn to_f32(self) -> Result<f32, Misfit> {
        let wide = match self.product() {
            Some(product) if self.magnitude <= 1 << f64::MANTISSA_DIGITS || settles_f32(product) => product,
            _ => self.read_f64()?,
        };
        let narrow = wide as f32;
        if narrow.is_infinite() && wide.is_finite() { Err(Misfit::Range) } else { Ok(narrow) }
    }

    /// The nearest FP16 to [`Self::to_f64`].
    ///
    /// # Errors
    /// As [`Self::to_f64`].
    pub(in crate::http) fn to_f16(self) -> Result<half::f16, Misfit> {
        let wide = self.to_f64()?;
        let narrow = half::f16::from_f32(rounded_to_odd(wide));
        if narrow.is_infinite() && wide.is_finite() { Err(Misfit::Range) } else { Ok(narrow) }
    }

    /// The nearest BF16 to [`Self::to_f32`], since frameworks make BF16 from FP32.
    ///
    /// # Errors
    /// As [`Self::to_f64`].
    pub(in crate::http) fn to_bf16(self) -> Result<half::bf16, Misfit> {
        let wide = self.to_f32()?;
        let narrow = half::bf16::from_f32(wide);
        if narrow.is_infinite() && wide.is_finite() { Err(Misfit::Range) } else { Ok(narrow) }
    }

    /// The integer.
    ///
    /// # Errors
    /// [`Misfit::NotWhole`] for a number with a point or an exponent, whatever its value; [`Misfit::Range`].
    #[inline(always)]
    pub(in crate::http) fn to_integer<T: TryFrom<i128>>(self) -> Result<T, Misfit> {
        if self.form != Form::Whole {
            return Err(Misfit::NotWhole);
        }
        let value = if self.digits <= DIGITS_MAX {
            let magnitude = i128::from(self.magnitude);
            if self.negative { -magnitude } else { magnitude }
        } else {
            self.text().parse().map_err(|_| Misfit::Range)?
        };
        T::try_from(value).map_err(|_| Misfit::Range)
    }

    /// `magnitude` times its power of ten, each rounded to FP64 before the product is: off by less than three units in
    /// the last place. `None` where the number has too many digits or too large a power for that.
    #[inline(always)]
    fn product(&self) -> Option<f64> {
        let power = POWERS.get(self.exponent.unsigned_abs() as usize)?;
        if !(1..=DIGITS_MAX).contains(&self.digits) {
            return None;
        }
        let magnitude = self.magnitude.cast_signed() as f64;
        let value = if self.exponent < 0 { magnitude / power } else { magnitude * power };
        Some(if self.negative { -value } else { value })
    }

    #[cold]
    fn read_f64(self) -> Result<f64, Misfit> {
        // Rust reads `NaN` and `Infinity` as JSON writers write them.
        let value: f64 = self.text().parse().map_err(|_| Misfit::Range)?;
        if value.is_infinite() && self.form != Form::Special { Err(Misfit::Range) } else { Ok(value) }
    }
}

/// Whether every FP64 within four units in the last place of `wide` rounds to the same FP32. Clients that hold FP32 in
/// FP64 variables send 17 digits, and this spares nearly all of them the exact conversion.
#[inline(always)]
fn settles_f32(wide: f64) -> bool {
    const LOST_BITS: u32 = f64::MANTISSA_DIGITS - f32::MANTISSA_DIGITS;
    const TIE: u64 = 1 << (LOST_BITS - 1);
    let lost = wide.to_bits() & ((1 << LOST_BITS) - 1);
    lost.abs_diff(TIE) > 4 && wide.abs() >= f64::from(f32::MIN_POSITIVE)
}

/// `wide` with the precision of FP32 and, where digits were lost, an odd last bit: rounding the result again to a type
/// at least two bits narrower gives what rounding `wide` itself would have given.
fn rounded_to_odd(wide: f64) -> f32 {
    let nearest = wide as f32;
    if nearest.is_nan() || f64::from(nearest) == wide || nearest.to_bits() & 1 == 1 {
        return nearest;
    }
    // Even and inexact: the odd neighbour on the side of `wide` encloses it.
    let outward = f64::from(nearest).abs() < wide.abs();
    f32::from_bits(if outward { nearest.to_bits() + 1 } else { nearest.to_bits() - 1 })
}
