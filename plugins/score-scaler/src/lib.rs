//! A small adapter for tests: it scales what it is sent and says which of its settings answered.
//!
//! A request is `{"x": [4 numbers]}`; the model has one FP32 input `x` and one output `y`, each of shape `[-1, 4]`. The
//! settings `tag` and `scale` name the generation: whoever swaps the plugin sees in each answer which one gave it. Both
//! ends read them, and an answer whose two ends disagree is an internal error.

use airlock_plugin::{
    Adapter, Call, Inference, PluginError, Prepared, Request, Response, Tensor, config, json, output,
};
use serde::{Deserialize, Serialize};

struct ScoreScaler;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    x: [f32; 4],
}

#[derive(Serialize)]
struct Answer<'a> {
    tag: &'a str,
    scale: f32,
    y: Vec<f32>,
}

impl Adapter for ScoreScaler {
    fn preprocess(request: Request) -> Result<Prepared, PluginError> {
        request.call.expect_json()?;
        let body: Body = json::parse(&request.body)?;
        let scale = scale()?;
        let input = Tensor::fp32("x", [1, 4], &body.x.map(|x| x * scale));
        Ok(Inference::new([input]).outputs(["y"]).carry(config::required("tag")?).into())
    }

    fn postprocess(_call: Call, outputs: Vec<Tensor>, carry: Vec<u8>) -> Result<Response, PluginError> {
        let tag = config::required("tag")?;
        if carry != tag.as_bytes() {
            let before = String::from_utf8_lossy(&carry);
            return Err(PluginError::internal(format!("preprocess ran with tag `{before}`, postprocess with `{tag}`")));
        }
        let y = output(&outputs, "y")?.as_fp32()?.to_vec();
        Response::json(&Answer { tag: &tag, scale: scale()?, y })
    }
}

fn scale() -> Result<f32, PluginError> {
    config::value("scale")?.ok_or_else(|| PluginError::internal("plugin.toml has no `scale` under [config]"))
}

airlock_plugin::export!(ScoreScaler);

#[cfg(test)]
mod tests {
    use airlock_plugin::testing;

    use super::*;

    fn configured() {
        testing::set_config("tag", "blue");
        testing::set_config("scale", "2");
    }

    #[test]
    fn numbers_are_scaled_and_the_answer_names_its_settings() {
        configured();
        let prepared = ScoreScaler::preprocess(testing::request(r#"{"x": [1, 2, 3, 4.5]}"#));
        let Ok(Prepared::Infer(inference)) = prepared else { panic!("{prepared:?}") };
        assert_eq!(inference.inputs[0].as_fp32().unwrap().to_vec(), [2.0, 4.0, 6.0, 9.0]);
        let outputs = vec![Tensor::fp32("y", [1, 4], &[1.0, 2.0, 3.0, 4.0])];
        let response = ScoreScaler::postprocess(testing::call(), outputs, inference.carry).unwrap();
        assert_eq!(response.body, br#"{"tag":"blue","scale":2.0,"y":[1.0,2.0,3.0,4.0]}"#);
    }

    #[test]
    fn the_wrong_number_of_values_is_refused() {
        configured();
        for (body, pointer) in [(r#"{"x": [1]}"#, "/x"), (r#"{"x": [1, 2, 3, "4"]}"#, "/x/3"), ("{}", "/x")] {
            let Err(PluginError::Invalid(errors)) = ScoreScaler::preprocess(testing::request(body)) else {
                panic!("{body} was taken")
            };
            assert_eq!(errors[0].pointer, pointer, "{errors:?}");
        }
    }

    #[test]
    fn ends_of_two_generations_are_told_apart() {
        configured();
        let outputs = vec![Tensor::fp32("y", [1, 4], &[0.0; 4])];
        let error = ScoreScaler::postprocess(testing::call(), outputs, b"green".to_vec()).unwrap_err();
        let expected = "preprocess ran with tag `green`, postprocess with `blue`";
        assert_eq!(error, PluginError::internal(expected));
    }

    #[test]
    fn missing_settings_are_named() {
        testing::set_config("tag", "blue");
        let error = ScoreScaler::preprocess(testing::request(r#"{"x": [1, 2, 3, 4]}"#)).unwrap_err();
        assert_eq!(error, PluginError::internal("plugin.toml has no `scale` under [config]"));
    }
}
