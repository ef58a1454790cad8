//! A pull reader over one JSON text: the caller asks for the value it expects, and gets it without a tree in between.
//! The grammar is RFC 8259's, with the numbers `NaN`, `Infinity` and `-Infinity` that Triton reads and Python writes
//! too. Nesting is bounded, so that no text can exhaust the stack.

use std::borrow::Cow;

/// Arrays and objects inside one another, at most. Source: Triton's limit for `data`.
pub(in crate::http) const NESTING_MAX: usize = 100;

/// Why a text is not JSON, or not JSON this reader takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum JsonError {
    /// What is wrong, and at which byte.
    Syntax { what: &'static str, at: usize },
    /// More than [`NESTING_MAX`] levels.
    TooDeep,
}

/// The JSON type of a value, told by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Kind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

/// A position in a text. Every method that reads a value passes over the white space before it.
#[derive(Clone, Debug)]
pub(in crate::http) struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    pub(in crate::http) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// A reader of the same text at `offset`, which an earlier [`Self::value_offset`] gave.
    pub(in crate::http) fn at_offset(&self, offset: usize) -> Self {
        Self { text: self.text, at: offset }
    }

    /// Where the next value starts.
    #[inline]
    pub(in crate::http) fn value_offset(&mut self) -> usize {
        self.peek();
        self.at
    }

    /// Bytes not read yet.
    pub(in crate::http) fn bytes_left(&self) -> usize {
        self.text.len() - self.at
    }

    /// The JSON type of the next value.
    #[inline]
    pub(in crate::http) fn kind(&mut self) -> Result<Kind, JsonError> {
        match self.peek() {
            Some(b'"') => Ok(Kind::String),
            Some(b'-' | b'0'..=b'9' | b'N' | b'I') => Ok(Kind::Number),
            Some(b'[') => Ok(Kind::Array),
            Some(b'{') => Ok(Kind::Object),
            Some(b't' | b'f') => Ok(Kind::Boolean),
            Some(b'n') => Ok(Kind::Null),
            Some(_) => Err(self.error("expected a value")),
            None => Err(self.error("the text ends where a value is expected")),
        }
    }

    /// Whether the next value is a number.
    #[inline]
    pub(in crate::http) fn is_number(&mut self) -> bool {
        matches!(self.peek(), Some(b'-' | b'0'..=b'9' | b'N' | b'I'))
    }

    /// Reads an object; `each` is given every member's name and must read its value.
    pub(in crate::http) fn members<E: From<JsonError>>(
        &mut self,
        mut each: impl FnMut(&mut Self, &str) -> Result<(), E>,
    ) -> Result<(), E> {
        self.expect(b'{', "expected an object")?;
        if self.eat(b'}') {
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.error("expected a member's name in quotes").into());
            }
            let name = self.string()?;
            self.expect(b':', "expected ':' after a member's name")?;
            each(self, &name)?;
            if self.eat(b'}') {
                return Ok(());
            }
            self.expect(b',', "expected ',' or '}' after a member")?;
        }
    }

    /// Reads an array; `each` must read one element.
    pub(in crate::http) fn elements<E: From<JsonError>>(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        self.expect(b'[', "expected an array")?;
        if self.eat(b']') {
            return Ok(());
        }
        loop {
            each(self)?;
            if self.eat(b']') {
                return Ok(());
            }
            self.expect(b',', "expected ',' or ']' after an element")?;
        }
    }

    /// Reads an array whatever its nesting; `leaf` must read one value that is not an array.
    #[inline]
    pub(in crate::http) fn flatten<E: From<JsonError>>(
        &mut self,
        mut leaf: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut depth = 0;
        'value: loop {
            if depth >= NESTING_MAX {
                return Err(JsonError::TooDeep.into());
            }
            if self.eat(b'[') {
                if !self.eat(b']') {
                    depth += 1;
                    continue 'value;
                }
            } else {
                leaf(self)?;
            }
            while depth > 0 {
                if self.eat(b',') {
                    continue 'value;
                }
                self.expect(b']', "expected ',' or ']' after an element")?;
                depth -= 1;
            }
            return Ok(());
        }
    }

    /// Reads any value and forgets it.
    pub(in crate::http) fn skip_value(&mut self) -> Result<(), JsonError> {
        self.skip_nested(0)
    }

    fn skip_nested(&mut self, depth: usize) -> Result<(), JsonError> {
        if depth >= NESTING_MAX {
            return Err(JsonError::TooDeep);
        }
        match self.kind()? {
            Kind::Object => self.members(|reader, _| reader.skip_nested(depth + 1)),
            Kind::Array => self.elements(|reader| reader.skip_nested(depth + 1)),
            Kind::String => self.string().map(drop),
            Kind::Number => self.number().map(drop),
            Kind::Boolean => self.boolean().map(drop),
            Kind::Null => self.literal("null"),
        }
    }

    /// Reads any value; its text as it was written.
    pub(in crate::http) fn raw_value(&mut self) -> Result<&'a str, JsonError> {
        let start = self.value_offset();
        self.skip_value()?;
        Ok(&self.text[start..self.at])
    }

    /// Reads `true` or `false`.
    pub(in crate::http) fn boolean(&mut self) -> Result<bool, JsonError> {
        let value = self.peek() == Some(b't');
        self.literal(if value { "true" } else { "false" })?;
        Ok(value)
    }

    /// Reads a string; without escapes it is a view of the text.
    pub(in crate::http) fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.expect(b'"', "expected a string")?;
        let start = self.at;
        if self.run()? == b'"' {
            let plain = &self.text[start..self.at];
            self.at += 1;
            return Ok(Cow::Borrowed(plain));
        }
        self.escaped(start).map(Cow::Owned)
    }

    /// Checks that nothing but white space is left.
    pub(in crate::http) fn end(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.error("nothing may follow the outermost value")),
        }
    }

    /// Reads exactly `word`.
    pub(in crate::http) fn literal(&mut self, word: &'static str) -> Result<(), JsonError> {
        self.peek();
        if !self.rest().starts_with(word.as_bytes()) {
            return Err(self.error("expected a value"));
        }
        self.at += word.len();
        Ok(())
    }

    /// Passes over white space; the next byte, if any.
    #[inline]
    pub(in crate::http) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = self.here()?;
            if byte > b' ' || !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// The byte at the position.
    #[inline]
    pub(in crate::http) fn here(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The bytes from the position on.
    #[inline]
    pub(in crate::http) fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    /// Passes over `count` bytes of [`Self::rest`].
    #[inline]
    pub(in crate::http) fn advance(&mut self, count: usize) {
        self.at += count;
    }

    /// `what` is wrong so many bytes after the position.
    #[cold]
    pub(in crate::http) fn error_after(&self, count: usize, what: &'static str) -> JsonError {
        JsonError::Syntax { what, at: self.at + count }
    }

    #[cold]
    pub(in crate::http) fn error(&self, what: &'static str) -> JsonError {
        JsonError::Syntax { what, at: self.at }
    }

    #[inline]
    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    #[inline]
    fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), JsonError> {
        if self.eat(byte) { Ok(()) } else { Err(self.error(what)) }
    }

    /// Advances to the next quote or backslash of a string and returns it.
    fn run(&mut self) -> Result<u8, JsonError> {
        let rest = self.rest();
        let length = plain_length(rest);
        self.at += length;
        match rest.get(length) {
            Some(&byte @ (b'"' | b'\\')) => Ok(byte),
            Some(_) => Err(self.error("a control character in a string must be escaped")),
            None => Err(self.error("a string has no closing quote")),
        }
    }

    fn escaped(&mut self, mut start: usize) -> Result<String, JsonError> {
        let mut owned = String::new();
        loop {
            let stop = self.run()?;
            owned.push_str(&self.text[start..self.at]);
            self.at += 1;
            if stop == b'"' {
                return Ok(owned);
            }
            owned.push(self.escape()?);
            start = self.at;
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let character = match self.here() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => return Err(self.error("unknown escape in a string")),
        };
        self.at += 1;
        Ok(character)
    }

    fn unicode_escape(&mut self) -> Result<char, JsonError> {
        let start = self.at;
        let lone = JsonError::Syntax { what: "half of a surrogate pair in a string", at: start };
        let first = self.hex_digits()?;
        let code = match first {
            0xD800..=0xDBFF => {
                if self.here() != Some(b'\\') {
                    return Err(lone);
                }
                self.at += 1;
                let second = self.hex_digits()?;
                if !(0xDC00..=0xDFFF).contains(&second) {
                    return Err(lone);
                }
                0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
            }
            code => code,
        };
        char::from_u32(code).ok_or(lone)
    }

    /// Reads `u` and four hexadecimal digits.
    fn hex_digits(&mut self) -> Result<u32, JsonError> {
        let wrong = self.error("expected 'u' and four hexadecimal digits after a backslash");
        if self.here() != Some(b'u') {
            return Err(wrong);
        }
        let mut code = 0;
        for _ in 0..4 {
            self.at += 1;
            let digit = self.here().and_then(|byte| char::from(byte).to_digit(16)).ok_or(wrong)?;
            code = code << 4 | digit;
        }
        self.at += 1;
        Ok(code)
    }
}

/// Bytes of a string before its next quote, backslash or control character, or before the end of `text`.
fn plain_length(text: &[u8]) -> usize {
    let (words, rest) = text.as_chunks::<8>();
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    match words.iter().position(|&word| has_special(word)) {
        Some(word) => word * 8 + words[word].iter().position(special).unwrap_or(8),
        None => words.len() * 8 + rest.iter().position(special).unwrap_or(rest.len()),
    }
}

/// Whether one of eight bytes ends a run of a string's plain bytes.
#[inline]
fn has_special(word: [u8; 8]) -> bool {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let word = u64::from_le_bytes(word);
    // The lowest byte below `bound` gets its high bit; a borrow can only add bits above it.
    let below = |word: u64, bound: u64| word.wrapping_sub(EACH * bound) & !word;
    let equal = |byte: u8| below(word ^ (EACH * u64::from(byte)), 1);
    (below(word, 0x20) | equal(b'"') | equal(b'\\')) & (EACH * 0x80) != 0
}
