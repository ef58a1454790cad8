//! The wire format of Protocol Buffers, as far as walking over fields needs it: tags, varints and lengths, with what they
//! enclose skipped by seeking. Nothing is trusted: a length is compared with what is left before anything moves, and the
//! memory used does not depend on the input. Source: the Protocol Buffers encoding guide.

use std::io::{self, BufReader, ErrorKind, Read, Seek};

/// Why a walk ended early.
#[derive(Debug)]
pub(crate) enum WireError {
    /// The file could not be read.
    Io(io::Error),
    /// What begins at byte `at` goes on past the end.
    Short { at: u64 },
    /// Byte `at` begins nothing that a field can be.
    Invalid { at: u64, why: &'static str },
}

/// A field, with the walker behind its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) number: u64,
    pub(crate) content: Content,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A varint, already read.
    Varint(u64),
    /// A number of 4 or 8 bytes, already passed over.
    Fixed,
    /// Bytes from the walker's position up to `end`; still to be read or passed over.
    Bytes { end: u64 },
}

/// Walks over the fields of a file.
pub(crate) struct Walker<R> {
    source: BufReader<R>,
    position: u64,
}

impl<R: Read + Seek> Walker<R> {
    /// Starts at the beginning of `source`, which must be there.
    pub(crate) fn new(source: R) -> Self {
        Self { source: BufReader::new(source), position: 0 }
    }

    /// How many bytes it has read or passed over.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The next field of a message that ends at `end`, or `None` at its end.
    pub(crate) fn field(&mut self, end: u64) -> Result<Option<Field>, WireError> {
        if self.position == end {
            return Ok(None);
        }
        let at = self.position;
        let tag = self.varint(end)?;
        let number = tag >> 3;
        if number == 0 || number > 0x1fff_ffff {
            return Err(WireError::Invalid { at, why: "a field number outside 1 to 536870911" });
        }
        let content = match tag & 7 {
            0 => Content::Varint(self.varint(end)?),
            1 => self.fixed(end, 8)?,
            2 => {
                let len = self.varint(end)?;
                let content_end = self.position.checked_add(len).filter(|&content_end| content_end <= end);
                Content::Bytes { end: content_end.ok_or(WireError::Short { at })? }
            }
            5 => self.fixed(end, 4)?,
            _ => return Err(WireError::Invalid { at, why: "a wire type that ONNX does not use" }),
        };
        Ok(Some(Field { number, content }))
    }

    /// Passes over everything up to byte `to`, which is not before the position.
    pub(crate) fn skip_to(&mut self, to: u64) -> Result<(), WireError> {
        let mut left = to.saturating_sub(self.position);
        while left > 0 {
            let step = left.min(i64::MAX as u64);
            self.source.seek_relative(step.cast_signed()).map_err(WireError::Io)?;
            left -= step;
        }
        self.position = self.position.max(to);
        Ok(())
    }

    /// Reads up to byte `to`, at most `limit` bytes; more is passed over and gives `None`.
    pub(crate) fn bytes(&mut self, to: u64, limit: usize) -> Result<Option<Vec<u8>>, WireError> {
        let at = self.position;
        let Some(len) = usize::try_from(to.saturating_sub(at)).ok().filter(|&len| len <= limit) else {
            return self.skip_to(to).map(|()| None);
        };
        let mut bytes = vec![0; len];
        self.source.read_exact(&mut bytes).map_err(|error| read_error(error, at))?;
        self.position = to;
        Ok(Some(bytes))
    }

    fn fixed(&mut self, end: u64, len: u64) -> Result<Content, WireError> {
        let at = self.position;
        let to = at.checked_add(len).filter(|&to| to <= end).ok_or(WireError::Short { at })?;
        self.skip_to(to)?;
        Ok(Content::Fixed)
    }

    /// A varint that ends before `end`.
    pub(crate) fn varint(&mut self, end: u64) -> Result<u64, WireError> {
        let at = self.position;
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            if self.position >= end {
                return Err(WireError::Short { at });
            }
            let mut byte = [0];
            self.source.read_exact(&mut byte).map_err(|error| read_error(error, at))?;
            self.position += 1;
            let bits = u64::from(byte[0] & 0x7f);
            // The tenth byte holds the last bit only; what is above it is dropped, as protobuf does.
            value |= if shift < 64 { bits << shift } else { 0 };
            if byte[0] & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireError::Invalid { at, why: "a varint longer than ten bytes" })
    }
}

fn read_error(error: io::Error, at: u64) -> WireError {
    if error.kind() == ErrorKind::UnexpectedEof { WireError::Short { at } } else { WireError::Io(error) }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn fields(bytes: &[u8]) -> Result<Vec<Field>, WireError> {
        let mut walker = Walker::new(Cursor::new(bytes));
        let mut fields = Vec::new();
        while let Some(field) = walker.field(bytes.len() as u64)? {
            if let Content::Bytes { end } = field.content {
                walker.skip_to(end)?;
            }
            fields.push(field);
        }
        Ok(fields)
    }

    #[test]
    fn fields_of_every_kind_are_walked() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x1d, 1, 2, 3, 4, 0x21, 1, 2, 3, 4, 5, 6, 7, 8];
        let contents: Vec<_> = fields(&bytes).expect("whole").iter().map(|f| (f.number, f.content)).collect();
        assert_eq!(
            contents,
            [(1, Content::Varint(150)), (2, Content::Bytes { end: 7 }), (3, Content::Fixed), (4, Content::Fixed)]
        );
    }

    #[test]
    fn what_is_cut_is_short_and_what_is_wrong_is_invalid() {
        for short in [&[0x08][..], &[0x08, 0x80], &[0x12, 3, b'h'], &[0x1d, 1, 2, 3], &[0x21, 1], &[0x80]] {
            assert!(matches!(fields(short), Err(WireError::Short { .. })), "{short:?}");
        }
        let huge = [0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert!(matches!(fields(&huge), Err(WireError::Short { at: 0 })), "a length beyond any file");
        for invalid in [&[0x00][..], &[0x0b, 0], &[0x0e, 0], &[0x0f], &[0xff; 11]] {
            assert!(matches!(fields(invalid), Err(WireError::Invalid { .. })), "{invalid:?}");
        }
    }
}
