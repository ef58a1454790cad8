//! JSON pointers (RFC 6901) as rules name places by: a pointer covers the place it names and everything below, and the
//! segment `*` stands for any one segment.

use std::fmt::Write as _;

/// A pointer of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pointer {
    segments: Vec<String>,
}

impl Pointer {
    /// `None` for a text that is neither empty nor starts with `/`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let starts_well = parts.next() == Some("");
        let segments = parts.map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
        starts_well.then_some(Self { segments })
    }

    /// Whether the place at `path` is the pointer's, or below it.
    pub(super) fn covers(&self, path: &[String]) -> bool {
        let matches = |(own, given): (&String, &String)| own == "*" || own == given;
        self.segments.len() <= path.len() && self.segments.iter().zip(path).all(matches)
    }

    /// How exactly it names a place: deeper first, then fewer wildcards.
    pub(super) fn precision(&self) -> (usize, usize) {
        let named = self.segments.iter().filter(|segment| *segment != "*").count();
        (self.segments.len(), named)
    }
}

/// The pointer of `path` as text.
pub(super) fn shown(path: &[String]) -> String {
    let mut text = String::new();
    for segment in path {
        let _ = write!(text, "/{}", segment.replace('~', "~0").replace('/', "~1"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_cover_what_is_below_them() {
        let path = |text: &str| Pointer::parse(text).expect("a pointer").segments;
        let cases = [
            ("", "/a/0", true),
            ("/a", "/a", true),
            ("/a", "/a/0/b", true),
            ("/a/*/b", "/a/7/b", true),
            ("/a/*/b", "/a/7/c", false),
            ("/a/0", "/a", false),
            ("/a", "/ab", false),
            ("/a~1b/~0", "/a~1b/~0", true),
        ];
        for (pointer, place, covered) in cases {
            assert_eq!(Pointer::parse(pointer).expect("a pointer").covers(&path(place)), covered, "{pointer} {place}");
        }
        assert_eq!(Pointer::parse("score"), None);
        assert_eq!(shown(&path("/a~1b/~0/c")), "/a~1b/~0/c");
    }
}
