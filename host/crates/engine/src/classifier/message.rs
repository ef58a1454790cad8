//! Protocol Buffers messages in memory: their fields with the places they are at, and new fields as bytes. Source: the
//! Protocol Buffers encoding guide.

use std::io::Cursor;
use std::ops::Range;

use crate::wire::{Content, Walker};

/// A field of a message in memory.
pub(super) struct Found {
    pub(super) number: u64,
    /// All of it, its tag included.
    pub(super) span: Range<usize>,
    content: FoundContent,
}

enum FoundContent {
    Varint(u64),
    Fixed,
    Bytes(Range<usize>),
}

impl Found {
    pub(super) fn bytes<'m>(&self, message: &'m [u8]) -> Option<&'m [u8]> {
        match &self.content {
            FoundContent::Bytes(range) => message.get(range.clone()),
            _ => None,
        }
    }

    pub(super) fn varint(&self) -> Option<u64> {
        match self.content {
            FoundContent::Varint(number) => Some(number),
            _ => None,
        }
    }

    /// The numbers of a repeated field, written one by one or packed.
    pub(super) fn integers(&self, message: &[u8]) -> Vec<i64> {
        match &self.content {
            FoundContent::Varint(number) => vec![number.cast_signed()],
            FoundContent::Bytes(range) => packed(message.get(range.clone()).unwrap_or_default()),
            FoundContent::Fixed => Vec::new(),
        }
    }
}

fn packed(bytes: &[u8]) -> Vec<i64> {
    let mut walker = Walker::new(Cursor::new(bytes));
    let len = bytes.len() as u64;
    let mut numbers = Vec::new();
    while walker.position() < len {
        let Ok(number) = walker.varint(len) else { break };
        numbers.push(number.cast_signed());
    }
    numbers
}

/// The fields of a message; `None` where it is none.
pub(super) fn fields(message: &[u8]) -> Option<Vec<Found>> {
    let mut walker = Walker::new(Cursor::new(message));
    let len = message.len() as u64;
    let mut found = Vec::new();
    loop {
        let start = usize::try_from(walker.position()).ok()?;
        let Some(field) = walker.field(len).ok()? else { return Some(found) };
        let content_start = usize::try_from(walker.position()).ok()?;
        let content = match field.content {
            Content::Varint(number) => FoundContent::Varint(number),
            Content::Fixed => FoundContent::Fixed,
            Content::Bytes { end } => {
                walker.skip_to(end).ok()?;
                FoundContent::Bytes(content_start..usize::try_from(end).ok()?)
            }
        };
        let span = start..usize::try_from(walker.position()).ok()?;
        found.push(Found { number: field.number, span, content });
    }
}

/// The last text in field `number`, empty where there is none.
pub(super) fn text_of(message: &[u8], number: u64) -> Option<String> {
    let fields = fields(message)?;
    let Some(field) = fields.iter().rfind(|field| field.number == number) else { return Some(String::new()) };
    String::from_utf8(field.bytes(message)?.to_vec()).ok()
}

/// Bytes to put in the place of others.
pub(super) struct Edit {
    pub(super) span: Range<usize>,
    pub(super) with: Vec<u8>,
}

pub(super) fn edited(bytes: &[u8], mut edits: Vec<Edit>) -> Vec<u8> {
    edits.sort_by_key(|edit| edit.span.start);
    let mut result = Vec::with_capacity(bytes.len() + edits.iter().map(|edit| edit.with.len()).sum::<usize>());
    let mut done = 0;
    for Edit { span, with } in edits {
        result.extend_from_slice(&bytes[done..span.start]);
        result.extend_from_slice(&with);
        done = span.end;
    }
    result.extend_from_slice(&bytes[done..]);
    result
}

/// A length-delimited field.
pub(super) fn field(number: u64, content: &[u8]) -> Vec<u8> {
    let mut bytes = varint(number << 3 | 2);
    bytes.extend(varint(content.len() as u64));
    bytes.extend_from_slice(content);
    bytes
}

/// A field that holds a number.
pub(super) fn number(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = value.to_le_bytes()[0] & 0x7f;
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}
