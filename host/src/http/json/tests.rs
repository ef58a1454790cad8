//! The reader against serde_json, which nobody here wrote.

use proptest::prelude::{Strategy, any, prop, prop_oneof, proptest};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::numbers::leading_digits;
use super::reader::{JsonError, Reader};

fn reads(text: &str) -> Result<(), JsonError> {
    let mut reader = Reader::new(text);
    reader.skip_value()?;
    reader.end()
}

/// The string that `text` starts with, as serde_json reads it.
fn first_string(text: &str) -> Option<String> {
    serde_json::Deserializer::from_str(text).into_iter::<String>().next()?.ok()
}

/// Fragments that meet in interesting ways.
fn fragments() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"",
            "\\",
            "\\u",
            "\\ud83d\\ude00",
            "\\udc00",
            "d83d",
            "true",
            "false",
            "null",
            "0",
            "-",
            "1",
            "12",
            ".5",
            ".",
            "e",
            "E+",
            "e-3",
            " ",
            "\n",
            "\t",
            "\u{1}",
            "é",
            "\"a\"",
            "\"a\":",
            "[1,2]",
            "{\"k\":0}",
        ])
        .prop_map(str::to_owned),
        any::<f64>().prop_filter("JSON has only finite numbers", |n| n.is_finite()).prop_map(|n| n.to_string()),
        any::<String>().prop_map(|s| serde_json::to_string(&s).expect("a string has a JSON form")),
    ];
    prop::collection::vec(fragment, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn it_takes_what_serde_json_takes(text in fragments()) {
        // A value that is kept has halves of surrogate pairs and huge numbers refused, one that is ignored has not.
        let (kept, ignored) = (serde_json::from_str::<Value>(&text), serde_json::from_str::<IgnoredAny>(&text));
        let ours = reads(&text);
        assert!(ours.is_ok() >= kept.is_ok() && ours.is_ok() <= ignored.is_ok(), "{text:?}: {ours:?}, {kept:?}");
    }

    #[test]
    fn strings_are_the_ones_serde_json_reads(text in any::<String>(), quoted in "\"(\\\\[\"\\\\/bfnrt]|\\\\u[0-9a-fA-F]{4}|[a-zé])*\"") {
        let written = serde_json::to_string(&text).expect("a string has a JSON form");
        let read = |text: &str| Reader::new(text).string().map(|s| s.into_owned()).ok();
        assert_eq!(read(&written), Some(text));
        assert_eq!(read(&quoted), serde_json::from_str::<String>(&quoted).ok(), "{quoted}");
    }

    #[test]
    fn eight_bytes_at_a_time_are_read_like_one_by_one(mut word in prop::array::uniform8(b'0'..=b'9'), at in 0..9_usize, byte in any::<u8>()) {
        if let Some(place) = word.get_mut(at) {
            *place = byte;
        }
        let count = word.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(8);
        let value = word[..count].iter().fold(0, |value, byte| value * 10 + u64::from(byte - b'0'));
        assert_eq!(leading_digits(word), (count, value), "{word:?}");
    }

    #[test]
    fn a_string_ends_where_it_ends(length in 0..40_usize, filler in prop::sample::select(vec!["a", "!", "#", "[", "]", " ", "\u{7f}", "é"]), stop in 0..0x80_u8) {
        let text = format!("\"{}{}more\"", filler.repeat(length), char::from(stop));
        assert_eq!(Reader::new(&text).string().map(|s| s.into_owned()).ok(), first_string(&text), "{text:?}");
    }

    #[test]
    fn floats_are_the_ones_rust_reads(text in "-?(0|[1-9][0-9]{0,24})(\\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?") {
        let expected: f64 = text.parse().expect("Rust reads every JSON number");
        let number = Reader::new(&text).number().expect("this is a JSON number");
        match number.to_f64() {
            Ok(value) => assert_eq!(value.to_bits(), expected.to_bits(), "{text}"),
            Err(_) => assert!(expected.is_infinite(), "{text}"),
        }
    }

    #[test]
    fn singles_are_rounded_from_doubles(single in any::<f32>(), steps in -6..=6_i64, digits in 15..=19_usize) {
        // Around the middle between two FP32, where a digit decides.
        let tie = f64::from(single).to_bits() | 1 << 28;
        let near = f64::from_bits(tie.wrapping_add_signed(steps));
        for text in [format!("{near:?}"), format!("{near:.digits$}"), format!("{single:?}"), format!("{:?}", f64::from(single))] {
            let Ok(expected) = text.parse::<f64>() else { continue };
            if expected.is_finite() {
                let number = Reader::new(&text).number().expect("this is a JSON number");
                let expected = Some(expected as f32).filter(|narrow| narrow.is_finite()).map(f32::to_bits);
                assert_eq!(number.to_f32().ok().map(f32::to_bits), expected, "{text}");
            }
        }
    }
}
