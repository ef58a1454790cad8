//! `TraceSetting` and `LogSettings`: as over HTTP, in typed values.

use std::collections::HashMap;

use super::proto::inference as wire;
use super::proto::inference::log_settings_request::setting_value::ParameterChoice as Given;
use super::proto::inference::log_settings_response::setting_value::ParameterChoice as Told;
use crate::failure::RequestFailure;
use crate::logging::settings::{self, LogValue, LogValueKind, LogView};
use crate::serving::ServingState;

/// Changes and tells which requests are traced, of all models where none is named.
///
/// # Errors
/// A [`RequestFailure`] for an unknown model, and as [`Sampling::update`](crate::observed::Sampling::update).
pub(super) fn trace(
    state: &ServingState,
    request: wire::TraceSettingRequest,
) -> Result<wire::TraceSettingResponse, RequestFailure> {
    let model = Some(request.model_name.as_str()).filter(|model| !model.is_empty());
    if let Some(model) = model {
        state.known_model(model)?;
    }
    // No value takes back what was said.
    let values = |said: wire::trace_setting_request::SettingValue| (!said.value.is_empty()).then_some(said.value);
    let mut changes: Vec<_> = request.settings.into_iter().map(|(key, said)| (key, values(said))).collect();
    // A map has no order; of several mistakes the same one is told every time.
    changes.sort_unstable();
    state.observer.sampling.update(model, &changes)?;
    let settings = state.observer.sampling.view(model).into_iter();
    let told = |value| wire::trace_setting_response::SettingValue { value };
    Ok(wire::TraceSettingResponse { settings: settings.map(|(key, value)| (key.to_owned(), told(value))).collect() })
}

/// Changes and tells what is logged.
///
/// # Errors
/// As [`settings::update`].
pub(super) fn log(request: wire::LogSettingsRequest) -> Result<wire::LogSettingsResponse, RequestFailure> {
    let mut changes: Vec<_> = request.settings.into_iter().map(|(key, said)| (key, log_value(said))).collect();
    changes.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    settings::update(&changes, wrong_type)?;
    let LogView { log_file, log_info, log_warning, log_error, log_verbose_level, log_format } = settings::read();
    let told = |(key, value): (&str, Told)| {
        (key.to_owned(), wire::log_settings_response::SettingValue { parameter_choice: Some(value) })
    };
    let settings = [
        ("log_file", Told::StringParam(log_file)),
        ("log_info", Told::BoolParam(log_info)),
        ("log_warning", Told::BoolParam(log_warning)),
        ("log_error", Told::BoolParam(log_error)),
        ("log_verbose_level", Told::Uint32Param(log_verbose_level)),
        ("log_format", Told::StringParam(log_format.to_owned())),
    ];
    Ok(wire::LogSettingsResponse { settings: settings.into_iter().map(told).collect::<HashMap<_, _>>() })
}

fn log_value(said: wire::log_settings_request::SettingValue) -> LogValue {
    match said.parameter_choice {
        Some(Given::BoolParam(on)) => LogValue::Bool(on),
        Some(Given::Uint32Param(level)) => LogValue::Unsigned(level),
        Some(Given::StringParam(text)) => LogValue::Text(text),
        None => LogValue::Other,
    }
}

/// The text is Triton's, its word for unsigned numbers included.
fn wrong_type(key: &str, kind: LogValueKind) -> String {
    let name = match kind {
        LogValueKind::Bool => "boolean",
        LogValueKind::Unsigned => "int32",
        LogValueKind::Text => "string",
    };
    format!("expect {name} for '{key}'")
}
