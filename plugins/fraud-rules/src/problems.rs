//! Everything that is wrong with a body, field by field. Only refused bodies come here.

use airlock_plugin::json::{Kind, Object};
use airlock_plugin::{Fields, PluginError};

use crate::application::{AGE_YEARS_MAX, AgeError, FEATURES, FIELDS, USER_ID_CHARS_MAX, age, feature, user_id_fits};

/// Why a body is refused. `first` is what the reader stumbled over; it is only heard of where this finds nothing, which
/// would be a fault of ours.
#[cold]
pub(crate) fn problems(body: &[u8], first: &serde_json::Error) -> PluginError {
    let object = match Object::parse(body) {
        Ok(object) => object,
        Err(error) => return error,
    };
    let mut fields = Fields::new();
    object.check_names(&FIELDS, &mut fields);
    check_user_id(&object, &mut fields);
    check_age(&object, &mut fields);
    check_features(&object, &mut fields);
    match fields.finish() {
        Err(error) => error,
        Ok(()) => PluginError::internal(format!("a body was refused in which nothing is wrong: {first}")),
    }
}

fn check_user_id(object: &Object<'_>, fields: &mut Fields) {
    let Some(user_id) = object.text("user_id", fields) else { return };
    if !user_id_fits(&user_id) {
        let chars = user_id.chars().count();
        let message = format!("must have 1 to {USER_ID_CHARS_MAX} characters, has {chars}");
        fields.add("/user_id", "wrong_length", message);
    }
}

fn check_age(object: &Object<'_>, fields: &mut Fields) {
    let Some(text) = object.text("age", fields) else { return };
    match age(&text) {
        Ok(_) => {}
        Err(AgeError::NotANumber) => {
            fields.add("/age", "invalid_value", "must be a decimal number in a string, such as \"42\"");
        }
        Err(AgeError::OutOfRange) => {
            fields.add("/age", "out_of_range", format!("must be from 0 to {AGE_YEARS_MAX}"));
        }
    }
}

fn check_features(object: &Object<'_>, fields: &mut Fields) {
    let Some(features) = object.array("features", fields) else { return };
    if features.len() != FEATURES {
        let message = format!("must have {FEATURES} numbers, has {}", features.len());
        fields.add("/features", "wrong_length", message);
    }
    for (index, value) in features.iter().enumerate() {
        let pointer = || format!("/features/{index}");
        if Kind::of(value) != Kind::Number {
            fields.add(pointer(), "wrong_type", format!("expected a number, got {}", Kind::of(value)));
        } else if value.get().parse().ok().and_then(feature).is_none() {
            fields.add(pointer(), "out_of_range", "has no finite 32-bit form");
        }
    }
}
