//! Licence expressions: SPDX's AND, OR, WITH and parentheses, and the slash that older packages write for OR. Source:
//! the SPDX specification, annex "SPDX license expressions".

use std::collections::BTreeSet;

/// Whether a choice among the expression's licences lies within `allowed`. `X WITH Y` is a licence of its own.
///
/// # Errors
/// What is wrong with the expression.
pub(super) fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> Result<bool, String> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut reader = Reader { words: spaced.split_whitespace().collect(), next: 0, allowed };
    let outcome = reader.any_of()?;
    match reader.take() {
        None => Ok(outcome),
        Some(word) => Err(format!("unexpected {word:?} in {expression:?}")),
    }
}

struct Reader<'a> {
    words: Vec<&'a str>,
    next: usize,
    allowed: &'a BTreeSet<String>,
}

impl<'a> Reader<'a> {
    fn any_of(&mut self) -> Result<bool, String> {
        let mut outcome = self.all_of()?;
        while self.take_if("OR") {
            outcome |= self.all_of()?;
        }
        Ok(outcome)
    }

    fn all_of(&mut self) -> Result<bool, String> {
        let mut outcome = self.one()?;
        while self.take_if("AND") {
            outcome &= self.one()?;
        }
        Ok(outcome)
    }

    fn one(&mut self) -> Result<bool, String> {
        match self.take() {
            Some("(") => {
                let outcome = self.any_of()?;
                if self.take_if(")") { Ok(outcome) } else { Err("a parenthesis is not closed".into()) }
            }
            None | Some(")" | "AND" | "OR" | "WITH") => Err("a licence is missing".into()),
            Some(licence) if self.take_if("WITH") => {
                let exception = self.take().ok_or("an exception is missing after WITH")?;
                Ok(self.allowed.contains(&format!("{licence} WITH {exception}")))
            }
            Some(licence) => Ok(self.allowed.contains(licence)),
        }
    }

    fn take(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.next).copied();
        self.next += usize::from(word.is_some());
        word
    }

    fn take_if(&mut self, word: &str) -> bool {
        let found = self.words.get(self.next) == Some(&word);
        self.next += usize::from(found);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expression: &str) -> Result<bool, String> {
        let allowed = ["MIT", "Apache-2.0", "ISC", "Apache-2.0 WITH LLVM-exception"];
        is_allowed(expression, &allowed.into_iter().map(str::to_owned).collect())
    }

    #[test]
    fn choices_and_obligations() {
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0-only", false),
            ("MIT OR GPL-3.0-only", true),
            ("GPL-3.0-only/MIT", true),
            ("MIT AND GPL-3.0-only", false),
            ("Apache-2.0 AND ISC", true),
            ("GPL-3.0-only OR MIT AND ISC", true),
            ("GPL-3.0-only AND MIT OR ISC", true),
            ("GPL-3.0-only AND (MIT OR ISC)", false),
            ("(MIT OR GPL-3.0-only) AND ISC", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("MIT WITH LLVM-exception", false),
            ("GPL-2.0-only WITH Classpath-exception-2.0 OR MIT", true),
        ] {
            assert_eq!(check(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn broken_expressions_are_refused() {
        for expression in ["", "MIT OR", "AND MIT", "(MIT", "MIT)", "MIT Apache-2.0", "Apache-2.0 WITH"] {
            assert!(check(expression).is_err(), "{expression}");
        }
    }
}
