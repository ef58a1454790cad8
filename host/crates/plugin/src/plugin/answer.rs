//! The check of what a guest answers. A transport can send what passes here as it is; whatever does not pass is the
//! plugin's fault, named with what was expected and what was given.

use crate::{Header, Limits, Response};

/// Headers that the host sets itself, since they belong to the connection or the framing (RFC 9110, 7.6.1).
const HOST_HEADERS: [&str; 10] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Statuses whose answer has no body (RFC 9110, 15).
const BODILESS: [u16; 3] = [204, 205, 304];

/// Checks an answer; header names come out in lower case.
pub(super) fn check(mut response: Response, limits: &Limits) -> Result<Response, String> {
    check_status_and_body(&response, limits)?;
    for header in &mut response.headers {
        header.name.make_ascii_lowercase();
    }
    check_headers(&response.headers, limits)?;
    if response.content_type.is_empty() {
        if !response.body.is_empty() {
            return Err(format!("an answer of {} bytes has no content type, expected one", response.body.len()));
        }
    } else {
        check_value("content type", &response.content_type)?;
        check_size("the content type", response.content_type.len(), limits.header_bytes_max, "header_bytes")?;
    }
    Ok(response)
}

fn check_status_and_body(response: &Response, limits: &Limits) -> Result<(), String> {
    let status = response.status;
    if !(200..=599).contains(&status) {
        return Err(format!("expected a status from 200 to 599, got {status}"));
    }
    if BODILESS.contains(&status) && !response.body.is_empty() {
        return Err(format!("expected no body with status {status}, got {} bytes", response.body.len()));
    }
    check_size("the body", response.body.len(), limits.body_bytes_max, "output_mb")
}

fn check_headers(headers: &[Header], limits: &Limits) -> Result<(), String> {
    if headers.len() > limits.headers_max {
        return Err(format!("expected at most {} headers (limits.headers), got {}", limits.headers_max, headers.len()));
    }
    let bytes = headers.iter().map(|header| header.name.len() + header.value.len()).sum();
    check_size("the header section", bytes, limits.header_bytes_max, "header_bytes")?;
    headers.iter().try_for_each(check_header)
}

fn check_header(header: &Header) -> Result<(), String> {
    let name = header.name.as_str();
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("expected a header name of letters, digits and '-', got {name:?}"));
    }
    if HOST_HEADERS.contains(&name) {
        return Err(format!("the header '{name}' is the host's to set, expected an answer without it"));
    }
    if name == "content-type" {
        return Err("the header 'content-type' was given among the headers, expected it in `content-type`".to_owned());
    }
    check_value(name, &header.value)
}

fn check_value(name: &str, value: &str) -> Result<(), String> {
    let allowed = |byte: u8| byte == b'\t' || (b' '..=b'~').contains(&byte);
    match value.bytes().all(allowed) {
        true => Ok(()),
        false => Err(format!("expected printable ASCII as the value of '{name}', got {value:?}")),
    }
}

pub(super) fn check_size(what: &str, got: usize, limit: usize, name: &str) -> Result<(), String> {
    if got <= limit { Ok(()) } else { Err(format!("{what} has {got} bytes, expected at most {limit} (limits.{name})")) }
}

/// A character of an HTTP token (RFC 9110, 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn answer(
        status: u16,
        content_type: &str,
        headers: &[(&str, &str)],
        body: &'static [u8],
    ) -> Result<Response, String> {
        let header = |&(name, value): &(&str, &str)| Header { name: name.to_owned(), value: value.to_owned() };
        let response = Response {
            status,
            content_type: content_type.to_owned(),
            headers: headers.iter().map(header).collect(),
            body: Bytes::from_static(body),
        };
        let limits = Limits { body_bytes_max: 8, headers_max: 2, header_bytes_max: 32, ..Limits::default() };
        check(response, &limits)
    }

    #[test]
    fn lawful_answers_pass() {
        let response = answer(200, "text/plain", &[("X-Score", "0.5")], b"12345678").expect("lawful");
        assert_eq!(response.headers[0].name, "x-score");
        assert!(answer(204, "", &[], b"").is_ok());
        assert!(answer(599, "text/plain; charset=utf-8", &[("a", ""), ("b", "\t")], b"").is_ok());
    }

    #[test]
    fn every_breach_is_named() {
        let cases = [
            (answer(199, "a/b", &[], b""), "expected a status from 200 to 599, got 199"),
            (answer(600, "a/b", &[], b""), "expected a status from 200 to 599, got 600"),
            (answer(204, "a/b", &[], b"x"), "expected no body with status 204, got 1 bytes"),
            (answer(200, "a/b", &[], b"123456789"), "the body has 9 bytes, expected at most 8 (limits.output_mb)"),
            (answer(200, "", &[], b"x"), "an answer of 1 bytes has no content type, expected one"),
            (answer(200, "a/b\n", &[], b""), "expected printable ASCII as the value of 'content type', got \"a/b\\n\""),
            (
                answer(200, "a/b", &[("Transfer-Encoding", "chunked")], b""),
                "the header 'transfer-encoding' is the host's to set, expected an answer without it",
            ),
            (
                answer(200, "a/b", &[("content-length", "1")], b""),
                "the header 'content-length' is the host's to set, expected an answer without it",
            ),
            (
                answer(200, "a/b", &[("content-type", "x")], b""),
                "the header 'content-type' was given among the headers, expected it in `content-type`",
            ),
            (answer(200, "a/b", &[("", "x")], b""), "expected a header name of letters, digits and '-', got \"\""),
            (
                answer(200, "a/b", &[("a b", "x")], b""),
                "expected a header name of letters, digits and '-', got \"a b\"",
            ),
            (
                answer(200, "a/b", &[("a", "x\r\ny: z")], b""),
                "expected printable ASCII as the value of 'a', got \"x\\r\\ny: z\"",
            ),
            (
                answer(200, "a/b", &[("a", "1"), ("b", "2"), ("c", "3")], b""),
                "expected at most 2 headers (limits.headers), got 3",
            ),
            (
                answer(200, "a/b", &[("a", "12345678901234567890123456789012")], b""),
                "the header section has 33 bytes, expected at most 32 (limits.header_bytes)",
            ),
        ];
        for (outcome, text) in cases {
            assert_eq!(outcome.expect_err(text), text);
        }
    }
}
