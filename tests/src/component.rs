//! Components for tests beside the guests of `tests/guests`: what is no component, and variants of a built one that
//! differ in their bytes and in nothing else.

use anyhow::{Context, Result};

/// A bare core module, whole and valid, which is no component.
///
/// # Errors
/// Never: the text is a constant.
pub fn core_module() -> Result<Vec<u8>> {
    wat::parse_str("(module (memory (export \"memory\") 1))").context("a core module")
}

/// The same component with a note in a custom section: other bytes, so another digest and a compilation of its own.
#[must_use]
pub fn with_note(component: &[u8], note: &str) -> Vec<u8> {
    const NAME: &str = "note";
    const CUSTOM_SECTION: u8 = 0;
    let mut content = leb128(NAME.len());
    content.extend_from_slice(NAME.as_bytes());
    content.extend_from_slice(note.as_bytes());
    let mut changed = component.to_vec();
    changed.push(CUSTOM_SECTION);
    changed.extend(leb128(content.len()));
    changed.extend(content);
    changed
}

/// An unsigned number as WebAssembly writes it, seven bits a byte.
fn leb128(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(value & 0x7f).expect("seven bits");
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_seven_bits_a_byte() {
        for (value, expected) in [(0, vec![0]), (127, vec![127]), (128, vec![0x80, 1]), (300, vec![0xac, 2])] {
            assert_eq!(leb128(value), expected, "{value}");
        }
    }

    #[test]
    fn a_note_adds_one_whole_section() {
        let empty = b"\0asm\x0d\0\x01\0";
        let changed = with_note(empty, "first");
        assert_eq!(changed[..8], empty[..]);
        assert_eq!(changed[8..], *b"\0\x0a\x04notefirst");
        let text = wat::parse_str("(component)").expect("a component");
        assert_ne!(with_note(&text, "a"), with_note(&text, "b"));
    }
}
