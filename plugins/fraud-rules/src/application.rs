//! Reading a request's body in one pass, without a JSON tree and without an allocation: first by a scan that knows the
//! usual form, then by serde, which decides what is taken.

use std::fmt;

use airlock_plugin::PluginError;
use airlock_plugin::json::Scanner;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::problems;

/// How many features the model was trained on.
pub(crate) const FEATURES: usize = 128;

/// The longest user id, in characters.
pub(crate) const USER_ID_CHARS_MAX: usize = 64;

/// The oldest age that is scored, in years.
pub(crate) const AGE_YEARS_MAX: f64 = 120.0;

/// Mean and spread of the ages that the model was trained on, in years.
const AGE_YEARS_MEAN: f64 = 40.0;
const AGE_YEARS_SPREAD: f64 = 20.0;

/// The names of the fields, all of them required.
pub(crate) const FIELDS: [&str; 3] = ["user_id", "age", "features"];

/// A request that says nothing wrong. The user id is checked and not kept: nothing here needs it.
#[derive(Debug)]
pub(crate) struct Application {
    pub(crate) age: f64,
    pub(crate) features: [f32; FEATURES],
}

impl Application {
    /// Reads a body.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, PluginError> {
        Self::scan(body).map_or_else(|| Self::deserialize(body), Ok)
    }

    /// Reads a body of the usual form. None decides nothing: the body may still be good.
    pub(crate) fn scan(body: &[u8]) -> Option<Self> {
        let (mut has_user_id, mut years, mut features) = (false, None, None);
        let mut scanner = Scanner::new(body);
        scanner.object(|scanner, name| match name {
            "user_id" if !has_user_id => {
                has_user_id = true;
                user_id_fits(scanner.text()?).then_some(())
            }
            "age" if years.is_none() => {
                years = Some(age(scanner.text()?).ok()?);
                Some(())
            }
            "features" if features.is_none() => {
                features = Some(scan_features(scanner)?);
                Some(())
            }
            _ => None,
        })?;
        scanner.end()?;
        if has_user_id { Some(Self { age: years?, features: features? }) } else { None }
    }

    /// Reads any good body.
    #[cold]
    pub(crate) fn deserialize(body: &[u8]) -> Result<Self, PluginError> {
        serde_json::from_slice(body).map_err(|error| problems::problems(body, &error))
    }

    /// The features, the first one replaced by the standardised age.
    pub(crate) fn model_input(&self) -> [f32; FEATURES] {
        let mut input = self.features;
        input[0] = ((self.age - AGE_YEARS_MEAN) / AGE_YEARS_SPREAD) as f32;
        input
    }
}

/// An age from its decimal text: what Rust reads as a number, from 0 to [`AGE_YEARS_MAX`]. Not-a-number and infinity
/// are out of range.
pub(crate) fn age(text: &str) -> Result<f64, AgeError> {
    let age: f64 = text.parse().map_err(|_| AgeError::NotANumber)?;
    if (0.0..=AGE_YEARS_MAX).contains(&age) { Ok(age) } else { Err(AgeError::OutOfRange) }
}

fn scan_features(scanner: &mut Scanner<'_>) -> Option<[f32; FEATURES]> {
    let mut features = [0.0; FEATURES];
    let mut slots = features.iter_mut();
    scanner.array(|scanner| {
        *slots.next()? = feature(scanner.number()?)?;
        Some(())
    })?;
    slots.next().is_none().then_some(features)
}

/// What is wrong with an age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgeError {
    NotANumber,
    OutOfRange,
}

/// Whether a user id has an allowed length.
pub(crate) fn user_id_fits(user_id: &str) -> bool {
    // No character is longer than 4 bytes: short texts need no count.
    !user_id.is_empty() && (user_id.len() <= USER_ID_CHARS_MAX || user_id.chars().count() <= USER_ID_CHARS_MAX)
}

/// A feature as the model takes it; `None` where it has no finite `f32`.
pub(crate) fn feature(value: f64) -> Option<f32> {
    let value = value as f32;
    value.is_finite().then_some(value)
}

impl<'de> Deserialize<'de> for Application {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ApplicationVisitor)
    }
}

struct ApplicationVisitor;

impl<'de> Visitor<'de> for ApplicationVisitor {
    type Value = Application;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with user_id, age and features")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Application, A::Error> {
        let (mut user_id, mut age, mut features) = (None, None, None);
        while let Some(field) = map.next_key::<Field>()? {
            match field {
                Field::UserId if user_id.is_none() => user_id = Some(map.next_value::<UserId>()?),
                Field::Age if age.is_none() => age = Some(map.next_value::<Age>()?.0),
                Field::Features if features.is_none() => features = Some(map.next_value::<Features>()?.0),
                _ => return Err(A::Error::custom("a field is unknown or there twice")),
            }
        }
        match (user_id, age, features) {
            (Some(UserId), Some(age), Some(features)) => Ok(Application { age, features }),
            _ => Err(A::Error::custom("a field is missing")),
        }
    }
}

enum Field {
    UserId,
    Age,
    Features,
    Unknown,
}

struct UserId;

struct Age(f64);

struct Features([f32; FEATURES]);

/// Deserializes a type from text by a function of the text.
macro_rules! from_text {
    ($type:ident, $expecting:literal, $read:expr) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct TextVisitor;

                impl Visitor<'_> for TextVisitor {
                    type Value = $type;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }

                    fn visit_str<E: Error>(self, text: &str) -> Result<$type, E> {
                        let read: fn(&str) -> Option<$type> = $read;
                        read(text).ok_or_else(|| E::custom($expecting))
                    }
                }

                deserializer.deserialize_str(TextVisitor)
            }
        }
    };
}

from_text!(Field, "a field name", |name| {
    Some(match name {
        "user_id" => Field::UserId,
        "age" => Field::Age,
        "features" => Field::Features,
        _ => Field::Unknown,
    })
});
from_text!(UserId, "1 to 64 characters", |text| user_id_fits(text).then_some(UserId));
from_text!(Age, "a decimal number from 0 to 120", |text| age(text).ok().map(Age));

impl<'de> Deserialize<'de> for Features {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(FeaturesVisitor)
    }
}

struct FeaturesVisitor;

impl<'de> Visitor<'de> for FeaturesVisitor {
    type Value = Features;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("128 finite numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Features, A::Error> {
        let mut features = [0.0; FEATURES];
        for slot in &mut features {
            let value = sequence.next_element::<f64>()?.ok_or_else(|| A::Error::custom("too few features"))?;
            *slot = feature(value).ok_or_else(|| A::Error::custom("a feature is too large"))?;
        }
        match sequence.next_element::<IgnoredAny>()? {
            None => Ok(Features(features)),
            Some(_) => Err(A::Error::custom("too many features")),
        }
    }
}
