//! Every parser of bytes that come from outside, each behind one function: whatever the bytes, it returns, and what it
//! accepts has the properties that the rest of the host relies on. The fuzz targets call these with what libFuzzer thinks
//! up; a test of the host replays the corpus through them.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use airlock::classification::Classification;
use airlock::grpc::proto::inference::ModelInferRequest;
use airlock::grpc::{DecodeContext, decode_infer};
use airlock::http::tf_json::{Format, PredictContext, parse_predict, render_predict};
use airlock::http::v2_json::{
    EncodedOutput, Encoding, InferAnswer, InferBody, InferContext, InferRequest, OutputForm, V2Error, parse_infer,
    render_infer,
};
use airlock::repository::config_json::{normal_json, parse_model_config_json};
use airlock::repository::config_text::{ConfigContext, ConfigDefaults, parse_model_config};
use airlock::repository::declared_config::DeclaredConfig;
use airlock::repository::plugin_toml::parse_plugin_toml;
use airlock::shared_memory::DISABLED;
use bytes::Bytes;
use model::{DataType, ModelName, Signature, Tensor, TensorSpec};
use plugin::{RuntimeConfig, SandboxRuntime};
use prost::Message as _;

/// A parser: whatever it makes of the bytes, it returns.
type Parser = fn(&[u8]);

/// The parsers by the name of their corpus and fuzz target.
#[allow(dead_code, reason = "a fuzz target calls one function, a test all")]
pub(crate) const ALL: [(&str, Parser); 9] = [
    ("v2_json", v2_json),
    ("tf_json", tf_json),
    ("v2_binary", v2_binary),
    ("grpc_infer", grpc_infer),
    ("config_pbtxt", config_pbtxt),
    ("config_json", config_json),
    ("plugin_toml", plugin_toml),
    ("onnx_structure", onnx_structure),
    ("component", component),
];

/// The JSON body of an infer request.
pub(crate) fn v2_json(body: &[u8]) {
    infer(InferBody::split(Bytes::copy_from_slice(body), None));
}

/// The body of an infer request after the length of its JSON: the first two bytes, little-endian.
pub(crate) fn v2_binary(input: &[u8]) {
    let Some((length, body)) = input.split_first_chunk() else { return };
    let length = u16::from_le_bytes(*length).to_string();
    infer(InferBody::split(Bytes::copy_from_slice(body), Some(&length)));
}

/// What is accepted has whole tensors with distinct names, and can be printed in every form that is asked for.
fn infer(body: Result<InferBody, V2Error>) {
    let Ok(body) = body else { return };
    let spec = |name: &str| TensorSpec { name: name.into(), data_type: DataType::Fp32, shape: vec![-1, 2] };
    let one = Signature { inputs: vec![spec("x")], outputs: vec![spec("y"), spec("w")], optional_inputs: 0 };
    let two = Signature { inputs: vec![spec("x"), spec("z")], ..one.clone() };
    for signature in [one, two] {
        let context = InferContext {
            model: "m",
            signature: &signature,
            has_batch_dimension: true,
            data_bytes_max: 1 << 20,
            shared_memory: &DISABLED,
        };
        let Ok(request) = parse_infer(&body, &context) else { continue };
        let id = request.id.as_deref();
        for (index, input) in request.inputs.iter().enumerate() {
            assert!(request.inputs[..index].iter().all(|earlier| earlier.name() != input.name()), "a name comes twice");
            let (name, data_type, shape, data) = input.clone().into_parts();
            Tensor::new(name, data_type, shape, data).expect("a request that is accepted has whole tensors");
        }
        let encode = |tensor: &Tensor| EncodedOutput { tensor: tensor.clone(), encoding: request.encoding };
        let outputs: Vec<_> = request.inputs.iter().map(encode).collect();
        print(&InferAnswer { model: "m", version: "1", id, outputs: &outputs });
        classify(&request);
    }
}

/// An answer's JSON is UTF-8, and its binary data as long as the outputs that are asked for in binary.
fn print(answer: &InferAnswer<'_>) {
    let Ok(rendered) = render_infer(answer) else { return };
    let json_length = rendered.json_length.unwrap_or(rendered.body.len());
    let (json, binary) = rendered.body.split_at(json_length);
    assert!(std::str::from_utf8(json).is_ok(), "answers are UTF-8");
    let binary_outputs = answer.outputs.iter().filter(|output| output.encoding == Encoding::Binary);
    assert_eq!(binary.len(), binary_outputs.map(|output| output.tensor.data().len()).sum::<usize>());
}

/// A ranking has at most as many classes as were asked for.
fn classify(request: &InferRequest) {
    for (input, output) in request.inputs.iter().zip(&request.outputs) {
        let OutputForm::Classes { count: classes, .. } = output.form else { continue };
        let classification = Classification { classes, labels: None, has_batch_dimension: true };
        if let Ok(ranked) = classification.rank(input) {
            assert!(ranked.shape().last().is_some_and(|&count| count <= classes.get()));
        }
    }
}

/// The body of TF Serving's predict. What is accepted has every input of the model once and whole, and can be printed in
/// the form of the request, which is read as the same tensors again.
pub(crate) fn tf_json(body: &[u8]) {
    const BYTES_MAX: usize = 1 << 20;
    let spec = |name: &str, data_type| TensorSpec { name: name.into(), data_type, shape: vec![-1, 2] };
    let one = |data_type| Signature { inputs: vec![spec("x", data_type)], ..Signature::default() };
    let several = vec![spec("x", DataType::Fp32), spec("s", DataType::Bytes), spec("i", DataType::Int8)];
    let several = Signature { inputs: several, ..Signature::default() };
    for signature in [one(DataType::Fp64), one(DataType::Bytes), one(DataType::Bool), several] {
        let context = PredictContext { signature: &signature, data_bytes_max: BYTES_MAX };
        match parse_predict(body, &context) {
            Ok(request) => {
                let names = request.inputs.iter().map(Tensor::name);
                assert!(names.eq(signature.inputs.iter().map(|spec| &spec.name)), "every input once, in order");
                for input in &request.inputs {
                    assert!(input.data().len() <= BYTES_MAX, "inputs are bounded");
                    let (name, data_type, shape, data) = input.clone().into_parts();
                    Tensor::new(name, data_type, shape, data).expect("a request that is accepted has whole tensors");
                }
                print_and_read_again(&request.inputs, request.format, &context);
            }
            Err(failure) => assert!(!failure.text.is_empty(), "a refusal has a reason"),
        }
    }
}

/// Tensors that a request brought can go out as an answer, and come back in by another request unchanged.
fn print_and_read_again(inputs: &[Tensor], format: Format, context: &PredictContext<'_>) {
    let rendered = render_predict(inputs, format).expect("rows were read as rows");
    let text = String::from_utf8(rendered).expect("answers are UTF-8");
    let asked = text.replacen("{\"predictions\":", "{\"instances\":", 1).replacen("{\"outputs\":", "{\"inputs\":", 1);
    let again = parse_predict(asked.as_bytes(), context).unwrap_or_else(|failure| panic!("{asked}: {}", failure.text));
    let shape = |tensors: &[Tensor]| tensors.iter().map(|tensor| tensor.shape().to_vec()).collect::<Vec<_>>();
    assert_eq!(shape(&again.inputs), shape(inputs), "{asked}");
    let text_again = render_predict(&again.inputs, format).expect("as before");
    assert_eq!(String::from_utf8(text_again).expect("UTF-8"), text);
}

/// A model's `config.pbtxt`. Every problem has a text; what is accepted keeps to its own bounds.
pub(crate) fn config_pbtxt(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let Ok(name) = ModelName::new("m") else { return };
    let file = Path::new("m/config.pbtxt");
    let context = ConfigContext { model: &name, dir: Path::new("m"), defaults: &ConfigDefaults::default() };
    match parse_model_config(file, text, &context) {
        Ok((config, _)) => assert_eq!(config.model.name, name, "a configuration is of the folder it lies in"),
        Err(problems) => {
            assert!(!problems.is_empty(), "a refusal has a reason");
            assert!(problems.iter().all(|problem| !problem.to_string().is_empty()));
        }
    }
}

/// A model's configuration as JSON. Every problem has a text; what is accepted is printed in a form that is accepted, too,
/// and printed the same again.
pub(crate) fn config_json(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let Ok(name) = ModelName::new("m") else { return };
    let context = ConfigContext { model: &name, dir: Path::new("m"), defaults: &ConfigDefaults::default() };
    let parse = |text: &str| parse_model_config_json(Path::new("config"), text, &context);
    let print = |config: &DeclaredConfig| normal_json(&config.document, &config.model, &config.model.version_policy);
    match parse(text) {
        Ok((config, _)) => {
            let printed = print(&config);
            let text = std::str::from_utf8(&printed).expect("JSON is UTF-8");
            let (again, _) = parse(text).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
            assert_eq!(print(&again), printed, "the normal form is its own normal form");
        }
        Err(problems) => assert!(problems.iter().all(|problem| !problem.to_string().is_empty())),
    }
}

/// A plugin's `plugin.toml`.
pub(crate) fn plugin_toml(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    if let Err(problems) = parse_plugin_toml(Path::new("m/plugin.toml"), text) {
        assert!(!problems.is_empty(), "a refusal has a reason");
        assert!(problems.iter().all(|problem| !problem.to_string().is_empty()));
    }
}

/// The structure of a model's file.
pub(crate) fn onnx_structure(model: &[u8]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, model).expect("written");
    engine::onnx_is_complete(&path).ok();
}

/// A plugin's component, as far as it goes without running anything: form, world, needs, compilation.
pub(crate) fn component(wasm: &[u8]) {
    static SANDBOX: OnceLock<(Arc<SandboxRuntime>, tempfile::TempDir)> = OnceLock::new();
    let (sandbox, _) = SANDBOX.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = RuntimeConfig { instances_max: 2, ..RuntimeConfig::new(folder.path().join("compiled")) };
        (SandboxRuntime::new(config).expect("the sandbox starts"), folder)
    });
    airlock::repository::content::component_is_whole(wasm).ok();
    if let Err(error) = sandbox.compile(wasm) {
        assert!(!error.to_string().is_empty(), "a refusal has a reason");
    }
}

/// A message of gRPC's ModelInfer. What is accepted has whole tensors with distinct names.
pub(crate) fn grpc_infer(message: &[u8]) {
    let spec = |name: &str, data_type| TensorSpec { name: name.into(), data_type, shape: vec![-1, 2] };
    let inputs = vec![spec("x", DataType::Fp32), spec("s", DataType::Bytes), spec("i", DataType::Int8)];
    let signature = Signature { inputs, outputs: vec![spec("y", DataType::Fp32)], ..Signature::default() };
    let context = DecodeContext { model: "m", signature: &signature, shared_memory: &DISABLED };
    let Ok(message) = ModelInferRequest::decode(message) else { return };
    match decode_infer(message, &context) {
        Ok(request) => {
            for (index, input) in request.inputs.iter().enumerate() {
                assert!(request.inputs[..index].iter().all(|other| other.name() != input.name()), "a name comes twice");
                let (name, data_type, shape, data) = input.clone().into_parts();
                Tensor::new(name, data_type, shape, data).expect("a request that is accepted has whole tensors");
            }
        }
        Err(failure) => assert!(!failure.text.is_empty(), "a refusal has a reason"),
    }
}
