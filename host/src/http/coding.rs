//! Compressed bodies of infer, both ways: gzip, and deflate in its zlib form. Work is done in steps with a yield after each,
//! so that a large body holds up nobody, and never past the limit on what comes out.

use std::io::{self, Read, Write};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, header};
use bytes::Bytes;
use flate2::Compression;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use model::ErrorCode;
use tokio::task::yield_now;

use crate::failure::RequestFailure;

/// Bytes between two yields, compressing or decompressing: half a millisecond to some milliseconds of work.
const STEP_BYTES: usize = 128 << 10;
/// What gzip begins with; either name of a coding stands for either form, as in Triton.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// What this server decompresses, for clients that sent something else.
static OFFERED: HeaderValue = HeaderValue::from_static("gzip, deflate");

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Gzip,
    Deflate,
}

impl Coding {
    fn from_name(name: &str) -> Option<Self> {
        [Self::Gzip, Self::Deflate].into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name()))
    }

    /// Its name in headers.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
        }
    }
}

/// How a request's body is compressed, by its `Content-Encoding`; `None` where it is not.
///
/// # Errors
/// Triton's text for any other coding.
pub(super) fn request_coding(headers: &HeaderMap) -> Result<Option<Coding>, RequestFailure> {
    let Some(value) = headers.get(header::CONTENT_ENCODING) else { return Ok(None) };
    let name = value.to_str().unwrap_or_default().trim();
    if name.is_empty() || name.eq_ignore_ascii_case("identity") {
        return Ok(None);
    }
    let unsupported = || RequestFailure::new(ErrorCode::NotImplemented, "Unsupported compression type");
    Coding::from_name(name).map(Some).ok_or_else(unsupported)
}

/// Tells the client of a refused compression which ones there are: no other part of a request's form is not implemented.
pub(super) fn offering(mut response: Response<Body>, failure: &RequestFailure) -> Response<Body> {
    if failure.code == ErrorCode::NotImplemented {
        response.headers_mut().insert(header::ACCEPT_ENCODING, OFFERED.clone());
    }
    response
}

/// The coding that a client would like best, by its `Accept-Encoding`: the first with the highest weight above 0, `identity`
/// among them. As in Triton, `*` says nothing.
pub(super) fn accepted_coding(headers: &HeaderMap) -> Option<Coding> {
    let mut best = (0.0, None);
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    for entry in values.flat_map(|value| value.split(',')) {
        let (name, weight) = weighted(entry);
        let coding = Coding::from_name(name);
        if weight > best.0 && (coding.is_some() || name.eq_ignore_ascii_case("identity")) {
            best = (weight, coding);
        }
    }
    best.1
}

/// Reads `gzip;q=0.5`. A weight that is no number is none.
fn weighted(entry: &str) -> (&str, f32) {
    let (name, parameters) = entry.split_once(';').unwrap_or((entry, ""));
    let weight = match parameters.trim().split_once('=') {
        Some((key, weight)) if key.trim().eq_ignore_ascii_case("q") => weight.trim().parse().unwrap_or(0.0),
        _ => 1.0,
    };
    (name.trim(), weight)
}

/// Decompresses a body to at most `bytes_max` bytes.
///
/// # Errors
/// Triton's text for more than that; our own for bytes that are not compressed at all, or broken off.
pub(super) async fn decompress(body: Bytes, bytes_max: usize) -> Result<Bytes, RequestFailure> {
    let mut decoder: Box<dyn Read + Send + '_> = if body.starts_with(&GZIP_MAGIC) {
        Box::new(MultiGzDecoder::new(&body[..]))
    } else {
        Box::new(ZlibDecoder::new(&body[..]))
    };
    let mut whole = Vec::new();
    loop {
        // One byte past the limit tells a body that is too large from one that fits exactly.
        let room = (bytes_max + 1 - whole.len()).min(STEP_BYTES) as u64;
        let read = decoder.by_ref().take(room).read_to_end(&mut whole).map_err(|error| broken(&error))?;
        if whole.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        if read == 0 {
            return Ok(Bytes::from(whole));
        }
        yield_now().await;
    }
}

fn broken(error: &io::Error) -> RequestFailure {
    RequestFailure::new(ErrorCode::MalformedRequest, format!("decompressing the request's body: {error}"))
}

fn too_large(bytes_max: usize) -> RequestFailure {
    let text = format!(
        "Decompressed data size exceeds the maximum allowed value of {bytes_max} bytes. Use --http-max-input-size to \
         increase the limit."
    );
    RequestFailure::new(ErrorCode::BodyTooLarge, text)
}

/// Compresses a body. The fast level: on numbers the others take several times as long for a few percent.
///
/// # Errors
/// As the encoder says.
pub(super) async fn compress(body: &[u8], coding: Coding) -> io::Result<Vec<u8>> {
    match coding {
        Coding::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            write_in_steps(&mut encoder, body).await?;
            encoder.finish()
        }
        Coding::Deflate => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            write_in_steps(&mut encoder, body).await?;
            encoder.finish()
        }
    }
}

async fn write_in_steps(encoder: &mut impl Write, body: &[u8]) -> io::Result<()> {
    for step in body.chunks(STEP_BYTES) {
        encoder.write_all(step)?;
        yield_now().await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepting(value: &str) -> Option<&'static str> {
        let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_str(value).expect("a value"))]);
        accepted_coding(&headers).map(Coding::name)
    }

    #[test]
    fn the_first_of_the_highest_weight_is_taken() {
        for (value, coding) in [
            ("gzip", Some("gzip")),
            ("deflate, gzip", Some("deflate")),
            ("gzip;q=0.5, deflate;q=0.8", Some("deflate")),
            ("gzip ; q=0.5,identity", None),
            ("identity;q=0.1, GZIP;q=0.2", Some("gzip")),
            ("*, br, zstd", None),
            ("gzip;q=0", None),
            ("gzip;q=much", None),
            ("", None),
        ] {
            assert_eq!(accepting(value), coding, "{value}");
        }
        assert_eq!(accepted_coding(&HeaderMap::new()), None);
    }

    #[test]
    fn codings_of_requests() {
        let coding = |value: &'static str| {
            let headers = HeaderMap::from_iter([(header::CONTENT_ENCODING, HeaderValue::from_static(value))]);
            request_coding(&headers).map_err(|failure| (failure.code.http_status(), failure.text))
        };
        assert_eq!(coding("gzip"), Ok(Some(Coding::Gzip)));
        assert_eq!(coding(" Deflate"), Ok(Some(Coding::Deflate)));
        assert_eq!(coding("identity"), Ok(None));
        assert_eq!(coding("br"), Err((501, "Unsupported compression type".to_owned())));
        assert_eq!(coding("gzip, gzip"), Err((501, "Unsupported compression type".to_owned())));
    }

    #[tokio::test]
    async fn bodies_survive_the_way_there_and_back() {
        let long: Vec<u8> = (0..3 * STEP_BYTES + 17).map(|i| (i % 251) as u8).collect();
        for body in [&b""[..], b"a", &long] {
            for coding in [Coding::Gzip, Coding::Deflate] {
                let small = compress(body, coding).await.expect("compresses");
                let back = decompress(small.into(), body.len()).await.expect("the limit is its very length");
                assert_eq!(back, body, "{coding:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_bomb_is_given_up_at_the_limit() {
        for coding in [Coding::Gzip, Coding::Deflate] {
            let bomb = compress(&vec![0; 8 << 20], coding).await.expect("compresses");
            let failure = decompress(bomb.into(), 1 << 20).await.expect_err("too large");
            assert_eq!(failure.code, ErrorCode::BodyTooLarge);
            assert_eq!(
                failure.text,
                "Decompressed data size exceeds the maximum allowed value of 1048576 bytes. Use --http-max-input-size to \
                 increase the limit."
            );
        }
    }

    #[tokio::test]
    async fn what_is_not_compressed_or_broken_off_is_refused() {
        let mut cut = compress(&[7; 4096], Coding::Gzip).await.expect("compresses");
        cut.truncate(cut.len() - 9);
        for body in [b"{\"inputs\":[]}".to_vec(), Vec::new(), cut] {
            let failure = decompress(body.into(), 1 << 20).await.expect_err("not whole");
            assert_eq!(failure.code, ErrorCode::MalformedRequest);
            assert!(failure.text.starts_with("decompressing the request's body: "), "{}", failure.text);
        }
    }
}
