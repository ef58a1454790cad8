use model::{GeneratedInput, GeneratedKind, ModelName, RaggedConfig};

use super::*;

fn file_tensor(name: &str, data_type: DataType, shape: &[i64]) -> FileTensor {
    FileTensor { name: name.into(), kind: FileTensorKind::Tensor { data_type, shape: Some(shape.to_vec()) } }
}

fn declared(name: &str, data_type: DataType, dims: &[i64]) -> TensorConfig {
    TensorConfig { name: name.into(), data_type, dims: dims.to_vec(), reshape: None }
}

fn config(max_batch_size: u32, inputs: Vec<TensorConfig>, outputs: Vec<TensorConfig>) -> ModelConfig {
    let name = ModelName::new("m").expect("a name");
    ModelConfig { max_batch_size, inputs, outputs, ..ModelConfig::named(name) }
}

/// Inputs a [-1,2] FP32 and b [-1,-1] INT64; outputs y [-1,1] FP32 and z [-1] BYTES.
fn file() -> FileSignature {
    FileSignature {
        optional: Vec::new(),
        inputs: vec![file_tensor("a", DataType::Fp32, &[-1, 2]), file_tensor("b", DataType::Int64, &[-1, -1])],
        outputs: vec![file_tensor("y", DataType::Fp32, &[-1, 1]), file_tensor("z", DataType::Bytes, &[-1])],
    }
}

fn problems(config: &ModelConfig, file: &FileSignature) -> Vec<String> {
    match check(config, file) {
        Err(LoadError::Mismatch { problems, .. }) => problems,
        other => panic!("expected a mismatch, got {other:?}"),
    }
}

#[test]
fn what_is_declared_is_served_in_the_files_order() {
    let inputs = vec![declared("b", DataType::Int64, &[3]), declared("a", DataType::Fp32, &[2])];
    let outputs = vec![declared("z", DataType::Bytes, &[])];
    let served = check(&config(8, inputs, outputs), &file()).expect("agrees");
    let shapes: Vec<_> = served.signature.inputs.iter().map(|spec| (&*spec.name, spec.shape.clone())).collect();
    assert_eq!(shapes, [("a", vec![-1, 2]), ("b", vec![-1, 3])], "the declaration may be stricter");
    assert_eq!(served.signature.outputs.len(), 1);
    assert_eq!(&*served.signature.outputs[0].name, "z");
}

#[test]
fn what_is_not_declared_is_served_as_the_file_has_it() {
    let served = check(&config(0, vec![], vec![]), &file()).expect("agrees");
    assert_eq!(served.signature.inputs[1].shape, [-1, -1]);
    assert_eq!(served.signature.outputs.len(), 2);
    assert_eq!(served.output_reshapes, [None, None]);
}

#[test]
fn every_disagreement_is_told_in_tritons_words() {
    let one = |inputs| config(8, inputs, vec![]);
    let cases = [
        (
            one(vec![declared("a", DataType::Fp32, &[2])]),
            "unable to load model 'm', configuration expects 1 inputs, model provides 2",
        ),
        (
            one(vec![declared("a", DataType::Fp32, &[2]), declared("c", DataType::Int64, &[2])]),
            "unexpected inference input 'c', allowed inputs are: a, b",
        ),
        (
            one(vec![declared("a", DataType::Fp32, &[2]), declared("a", DataType::Fp32, &[2])]),
            "model 'm', input 'a' is declared more than once",
        ),
        (
            one(vec![declared("a", DataType::Fp64, &[2]), declared("b", DataType::Int64, &[2])]),
            "unable to load model 'm', configuration expects datatype TYPE_FP64 for input 'a', model provides TYPE_FP32",
        ),
        (
            one(vec![declared("a", DataType::Fp32, &[-1]), declared("b", DataType::Int64, &[2])]),
            "model 'm', tensor 'a': the model expects 2 dimensions (shape [-1,2]) but the model configuration \
             specifies 2 dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit \
             tensor shape, making complete shape [-1,-1])",
        ),
        (
            config(0, vec![declared("a", DataType::Fp32, &[2]), declared("b", DataType::Int64, &[1, 1])], vec![]),
            "model 'm', tensor 'a': the model expects 2 dimensions (shape [-1,2]) but the model configuration \
             specifies 1 dimensions (shape [2])",
        ),
        (
            config(8, vec![], vec![declared("y", DataType::Fp32, &[1]), declared("w", DataType::Fp32, &[1])]),
            "unexpected inference output 'w', allowed outputs are: y, z",
        ),
    ];
    for (config, expected) in cases {
        assert_eq!(problems(&config, &file()), [expected]);
    }
}

#[test]
fn all_disagreements_are_gathered() {
    let inputs = vec![declared("a", DataType::Int8, &[9]), declared("x", DataType::Int64, &[2])];
    let outputs = vec![declared("y", DataType::Bool, &[1]), declared("w", DataType::Fp32, &[1])];
    assert_eq!(problems(&config(8, inputs, outputs), &file()).len(), 5);
}

#[test]
fn a_batching_model_needs_a_free_first_dimension_everywhere_it_is_served() {
    let mut file = file();
    file.outputs.push(file_tensor("total", DataType::Fp32, &[]));
    file.outputs.push(file_tensor("fixed", DataType::Fp32, &[1, 2]));
    let told = problems(&config(8, vec![], vec![]), &file);
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(
        told[1],
        "model 'm', tensor 'fixed': for the model to support batching the shape should have at least 1 dimension and \
         the first dimension must be -1; but shape expected by the model is [1,2]"
    );
    let narrowed = config(8, vec![], vec![declared("y", DataType::Fp32, &[1])]);
    assert!(check(&narrowed, &file).is_ok(), "what is not served need not batch");
}

#[test]
fn a_scalar_is_served_as_one_element() {
    let file = FileSignature {
        optional: Vec::new(),
        inputs: vec![file_tensor("x", DataType::Fp32, &[])],
        outputs: vec![file_tensor("y", DataType::Fp32, &[])],
    };
    let served = check(&config(0, vec![declared("x", DataType::Fp32, &[1])], vec![]), &file).expect("agrees");
    let one_element = Some(Reshape { served: vec![1], model: vec![], batches: false });
    assert_eq!((&served.signature.inputs[0].shape[..], &served.input_reshapes[0]), (&[1][..], &one_element));
    assert_eq!((&served.signature.outputs[0].shape[..], &served.output_reshapes[0]), (&[1][..], &one_element));

    let told = problems(&config(0, vec![declared("x", DataType::Fp32, &[2])], vec![]), &file);
    assert_eq!(
        told,
        [
            "model 'm', scalar tensor 'x', should only provide 1 in the model configuration when the model doesn't support \
          batching. Model configuration provided: [2]"
        ]
    );
}

#[test]
fn what_is_reshaped_is_compared_with_the_file_and_served_as_declared() {
    let reshaped = |name: &str, data_type, dims: &[i64], reshape: &[i64]| TensorConfig {
        reshape: Some(reshape.to_vec()),
        ..declared(name, data_type, dims)
    };
    let inputs = vec![reshaped("a", DataType::Fp32, &[1, 2], &[2]), reshaped("b", DataType::Int64, &[-1, 1], &[-1])];
    let outputs = vec![reshaped("z", DataType::Bytes, &[1], &[]), declared("y", DataType::Fp32, &[1])];
    let served = check(&config(8, inputs, outputs), &file()).expect("agrees");
    let shapes: Vec<_> = served.signature.inputs.iter().map(|spec| spec.shape.clone()).collect();
    assert_eq!(shapes, [vec![-1, 1, 2], vec![-1, -1, 1]]);
    assert_eq!(served.output_reshapes, [None, Some(Reshape { served: vec![1], model: vec![], batches: true })]);

    let inputs = vec![reshaped("a", DataType::Fp32, &[2], &[1, 2]), declared("b", DataType::Int64, &[-1])];
    assert_eq!(
        problems(&config(8, inputs, vec![]), &file()),
        ["model 'm', tensor 'a': the model expects 2 dimensions (shape [-1,2]) but the model configuration \
             specifies 3 dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit \
             tensor shape, making complete shape [-1,1,2])"]
    );
}

#[test]
fn an_unknown_number_of_dimensions_must_be_declared() {
    let kind = FileTensorKind::Tensor { data_type: DataType::Fp32, shape: None };
    let file = FileSignature {
        optional: Vec::new(),
        inputs: vec![file_tensor("x", DataType::Fp32, &[-1])],
        outputs: vec![FileTensor { name: "y".into(), kind }],
    };
    let told = problems(&config(8, vec![], vec![]), &file);
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("output 'y': the model file does not say how many dimensions"), "{told:?}");
    let served = check(&config(8, vec![], vec![declared("y", DataType::Fp32, &[3])]), &file).expect("declared");
    assert_eq!((&served.signature.outputs[0].shape[..], &served.output_reshapes[0]), (&[-1, 3][..], &None));
}

#[test]
fn what_v2_cannot_carry_is_refused_unless_it_is_not_served() {
    let mut file = file();
    let kind = FileTensorKind::Unsupported { what: "a sequence of maps".to_owned(), advice: "use zipmap=False" };
    file.outputs.push(FileTensor { name: "probabilities".into(), kind });
    let error = check(&config(8, vec![], vec![]), &file).expect_err("a map").to_string();
    assert_eq!(
        error,
        "unable to load model 'm', its output 'probabilities' is a sequence of maps, which no request can carry: use \
         zipmap=False, or declare only the other outputs in config.pbtxt"
    );
    assert!(check(&config(8, vec![], vec![declared("y", DataType::Fp32, &[1])]), &file).is_ok());
}

#[test]
fn an_input_with_a_value_in_the_file_is_served_after_the_others_where_it_is_optional() {
    let mut file = file();
    file.optional.push(file_tensor("scale", DataType::Fp32, &[1]));
    let declaration = || {
        vec![
            declared("scale", DataType::Fp32, &[1]),
            declared("b", DataType::Int64, &[1, 2]),
            declared("a", DataType::Fp32, &[1, 2]),
        ]
    };
    let optional = ModelConfig { optional_inputs: ["scale".into()].into(), ..config(0, declaration(), vec![]) };
    let served = check(&optional, &file).expect("agrees").signature;
    let names: Vec<_> = served.inputs.iter().map(|spec| &*spec.name).collect();
    assert_eq!((&names[..], served.optional_inputs), (&["a", "b", "scale"][..], 1));
    assert_eq!(
        problems(&config(0, declaration(), vec![]), &file),
        ["unable to load model 'm', configuration expects 3 inputs, model provides 2"]
    );
    assert_eq!(check(&config(0, vec![], vec![]), &file).expect("agrees").signature.optional_inputs, 0);
}

/// Input x, which is ragged, and n, which the server generates; output y, which is scattered.
fn ragged() -> ModelConfig {
    let generated =
        GeneratedInput { kind: GeneratedKind::ElementCount, data_type: DataType::Int32, source: "x".into() };
    let ragged = RaggedConfig {
        inputs: ["x".into()].into(),
        generated: [("n".into(), generated)].into(),
        scattered: [("y".into(), "x".into())].into(),
    };
    let (inputs, outputs) = (vec![declared("x", DataType::Fp32, &[3])], vec![declared("y", DataType::Fp32, &[3])]);
    ModelConfig { ragged, ..config(8, inputs, outputs) }
}

#[test]
fn what_is_ragged_is_as_the_file_has_it_in_a_batch() {
    let file = |x: &[i64]| FileSignature {
        inputs: vec![file_tensor("n", DataType::Int32, &[-1]), file_tensor("x", DataType::Fp32, x)],
        outputs: vec![file_tensor("y", DataType::Fp32, &[-1, 7])],
        ..FileSignature::default()
    };
    let served = check(&ragged(), &file(&[-1])).expect("agrees");
    let shapes: Vec<_> = served.signature.inputs.iter().map(|spec| (&*spec.name, &spec.shape[..])).collect();
    assert_eq!(shapes, [("n", &[-1][..]), ("x", &[-1])]);
    assert_eq!((&served.signature.outputs[0].shape[..], &served.outputs_have_rows[..]), (&[-1, 7][..], &[false][..]));
    for (shape, shown) in [(&[-1, 3][..], "[-1,3]"), (&[4], "[4]"), (&[], "[]")] {
        assert_eq!(
            problems(&ragged(), &file(shape)),
            [format!(
                "unable to load model 'm', configuration expects model provides input with shape [-1]  for ragged input \
                 'x', model provides {shown}"
            )]
        );
    }
    let without = FileSignature { inputs: vec![file_tensor("x", DataType::Fp32, &[-1])], ..file(&[-1]) };
    assert_eq!(
        problems(&ragged(), &without),
        [
            "unable to load model 'm', configuration expects 2 inputs, model provides 1",
            "unexpected inference input 'n', allowed inputs are: x"
        ]
    );
}
