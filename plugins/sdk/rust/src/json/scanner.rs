//! A forward-only JSON reader for bodies of a known form, for plugins whose requests are worth a few microseconds.
//!
//! It answers `None` for everything it does not expect: another form, a string with escapes, what is not JSON. It never
//! says why, and it never takes what is not JSON; so a plugin tries it first and leaves the rest to [`super::parse`] or
//! [`super::Object`]. Numbers are exact: the same to the last bit as `str::parse` reads them.

/// Powers of ten that an `f64` holds exactly.
const EXACT_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// The largest integer up to which an `f64` holds all of them.
const EXACT_INTEGER_MAX: u64 = 1 << 53;

/// So many digits fit a `u64` whatever they are.
const DIGITS_MAX: usize = 19;

/// A place in a JSON text.
#[derive(Clone, Debug)]
pub struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// At the start of a text.
    #[must_use]
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Reads an object: `field` gets each name and must read its value. Names are not compared with each other.
    pub fn object(&mut self, mut field: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.token(b'{')?;
        if self.token(b'}').is_some() {
            return Some(());
        }
        loop {
            let name = self.text()?;
            self.token(b':')?;
            field(self, name)?;
            if self.token(b',').is_none() {
                return self.token(b'}');
            }
        }
    }

    /// Reads an array: `element` must read each element.
    pub fn array(&mut self, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.token(b'[')?;
        if self.token(b']').is_some() {
            return Some(());
        }
        loop {
            element(self)?;
            if self.token(b',').is_none() {
                return self.token(b']');
            }
        }
    }

    /// Reads a string that has no escapes.
    pub fn text(&mut self) -> Option<&'a str> {
        self.token(b'"')?;
        let rest = self.text.get(self.at..)?;
        let length = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..b' '))?;
        if rest[length] != b'"' {
            return None;
        }
        self.at += length + 1;
        std::str::from_utf8(&rest[..length]).ok()
    }

    /// Reads a number. One too large for an `f64` becomes infinite.
    #[inline]
    pub fn number(&mut self) -> Option<f64> {
        self.skip_white_space();
        let start = self.at;
        let is_negative = self.take(b'-');
        let mut digits = Digits::default();
        match self.peek()? {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits(&mut digits),
            _ => return None,
        }
        if self.take(b'.') {
            let before = self.at;
            self.digits(&mut digits);
            digits.decimals = self.at - before;
            if digits.decimals == 0 {
                return None;
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.exponent()?;
            return self.parse_from(start);
        }
        match digits.exact() {
            Some(value) => Some(if is_negative { -value } else { value }),
            None => self.parse_from(start),
        }
    }

    /// Whether nothing but white space is left.
    pub fn end(&mut self) -> Option<()> {
        self.skip_white_space();
        (self.at == self.text.len()).then_some(())
    }

    fn exponent(&mut self) -> Option<()> {
        self.at += 1;
        if matches!(self.peek(), Some(b'+' | b'-')) {
            self.at += 1;
        }
        let before = self.at;
        self.digits(&mut Digits::default());
        (self.at > before).then_some(())
    }

    #[inline]
    fn digits(&mut self, digits: &mut Digits) {
        let Some(rest) = self.text.get(self.at..) else { return };
        let (mut value, mut count) = (digits.value, 0);
        for byte in rest {
            let digit = byte.wrapping_sub(b'0');
            if digit >= 10 {
                break;
            }
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            count += 1;
        }
        self.at += count;
        digits.value = value;
        digits.count += count;
    }

    #[cold]
    fn parse_from(&self, start: usize) -> Option<f64> {
        std::str::from_utf8(self.text.get(start..self.at)?).ok()?.parse().ok()
    }

    #[inline]
    fn token(&mut self, byte: u8) -> Option<()> {
        self.skip_white_space();
        self.take(byte).then_some(())
    }

    #[inline]
    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    #[inline]
    fn skip_white_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
}

/// The digits of a number before its exponent, as one integer.
#[derive(Default)]
struct Digits {
    value: u64,
    count: usize,
    decimals: usize,
}

impl Digits {
    /// The value, where one correctly rounded division gives it. Source: W. Clinger, "How to read floating point numbers
    /// accurately", 1990.
    #[inline]
    fn exact(&self) -> Option<f64> {
        let power = EXACT_POWERS.get(self.decimals)?;
        (self.count <= DIGITS_MAX && self.value <= EXACT_INTEGER_MAX).then(|| self.value as f64 / power)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn number(text: &str) -> Option<f64> {
        let mut scanner = Scanner::new(text.as_bytes());
        let value = scanner.number()?;
        scanner.end()?;
        Some(value)
    }

    #[test]
    fn numbers_are_read_as_the_standard_library_reads_them() {
        let mut texts: Vec<String> = ["0", "-0", "0.0", "-0.000", "1e5", "1E-7", "9007199254740993", "1e400", "-1e400"]
            .map(str::to_owned)
            .to_vec();
        let mut state = 1u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = f64::from_bits(state ^ (state >> 31));
            let small = (state >> 40) as f64 / 1e5 - 80.0;
            texts.extend([format!("{small:.5}"), format!("{small}"), (state >> 20).to_string()]);
            if value.is_finite() {
                texts.extend([format!("{value:e}"), format!("{value}")]);
            }
        }
        for text in texts {
            let expected: f64 = text.parse().unwrap();
            assert_eq!(number(&text).map(f64::to_bits), Some(expected.to_bits()), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_number_is_not_read() {
        for text in
            ["", "-", "+1", "01", "1.", ".5", "1e", "1e+", "NaN", "Infinity", "0x1", "1_0", "--1", "1 2", "\"1\""]
        {
            assert_eq!(number(text), None, "{text}");
        }
    }

    /// Reads any value the scanner knows, to nothing.
    fn skip(scanner: &mut Scanner<'_>, depth: usize) -> Option<()> {
        scanner.skip_white_space();
        match (scanner.peek()?, depth) {
            (_, 0) => None,
            (b'{', _) => scanner.object(|scanner, _| skip(scanner, depth - 1)),
            (b'[', _) => scanner.array(|scanner| skip(scanner, depth - 1)),
            (b'"', _) => scanner.text().map(drop),
            _ => scanner.number().map(drop),
        }
    }

    #[test]
    fn nothing_is_taken_that_is_not_json() {
        let text = "{\"a\": [1, -2.5e3, \"x\"], \"\u{e9}\":{}, \"b\" :[ ] }\n".as_bytes();
        let taken = |text: &[u8]| {
            let mut scanner = Scanner::new(text);
            skip(&mut scanner, 5).and_then(|()| scanner.end()).is_some()
        };
        assert!(taken(text));
        let mut refused = 0;
        for at in 0..text.len() {
            for byte in 0..=255 {
                let mut changed = text.to_vec();
                changed[at] = byte;
                let cut = &text[..at];
                for candidate in [changed.as_slice(), cut] {
                    let is_json = serde_json::from_slice::<Value>(candidate).is_ok();
                    assert!(is_json || !taken(candidate), "{}", String::from_utf8_lossy(candidate));
                    refused += usize::from(!is_json);
                }
            }
        }
        assert!(refused > 1000);
    }

    #[test]
    fn strings_with_escapes_are_left_to_others() {
        assert_eq!(Scanner::new(b" \"a b\" ").text(), Some("a b"));
        for text in [b"\"a\\n\"".as_slice(), b"\"a\nb\"", b"\"a", b"a", b"\"\xff\"", b"\"\\u00e9\""] {
            assert_eq!(Scanner::new(text).text(), None, "{}", String::from_utf8_lossy(text));
        }
    }
}
