//! `{"b64": "…"}`, the form in which bytes travel that are no text.

use std::borrow::Cow;

use ::base64::Engine as _;
use ::base64::alphabet::STANDARD;
use ::base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::fault::Fault;
use crate::http::json::{JsonError, Kind, Reader};

/// The key.
const KEY: &str = "b64";

/// As lenient as TF Serving: padding may be missing.
const CODEC: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Another value than `{"b64": "…"}`.
struct Other;

impl From<JsonError> for Other {
    fn from(_: JsonError) -> Self {
        Self
    }
}

/// Reads `{"b64": "…"}`: the text that is base64. Any other value stays where it is.
pub(super) fn take_text<'a>(reader: &mut Reader<'a>) -> Option<Cow<'a, str>> {
    let (mut probe, mut text) = (reader.clone(), None);
    let read = probe.members(|reader, key| {
        if key != KEY || text.is_some() || reader.kind()? != Kind::String {
            return Err(Other);
        }
        text = Some(reader.string()?);
        Ok(())
    });
    let text = read.ok().and(text)?;
    *reader = probe;
    Some(text)
}

/// Whether an object follows that is not `{"b64": "…"}`.
pub(super) fn is_other_object(reader: &Reader<'_>) -> Result<bool, JsonError> {
    let mut probe = reader.clone();
    Ok(probe.kind()? == Kind::Object && take_text(&mut probe).is_none())
}

/// The bytes that `text` stands for. White space in it means nothing, as in TF Serving.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, Fault> {
    CODEC.decode(text).or_else(|_| {
        let plain: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        CODEC.decode(plain).map_err(|_| Fault::tensor("Unable to base64 decode"))
    })
}

/// Appends `bytes` as `{"b64": "…"}`.
pub(super) fn write(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(b"{\"b64\":\"");
    out.extend_from_slice(::base64::engine::general_purpose::STANDARD.encode(bytes).as_bytes());
    out.extend_from_slice(b"\"}");
}
